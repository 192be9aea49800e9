"""Who may ask, and who may change something."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from starlette.types import Scope

    from localrank_service.http.keyring import Keyring
    from localrank_service.http.origin import Hosts
    from localrank_service.telemetry.instruments import Counter

#: Paths that need a serving key if one is configured. Health, metrics and documentation do not.
_GUARDED = ("/v1/", "/v2", "/info")
_OPEN = ("/v2/health/",)


class Keys:
    """The serving keys and the admin keys; an admin key opens everything.

    Without serving keys everybody who reaches the service may ask, except pages of other sites: a guarded path is
    then answered under the service's own host names only.
    """

    def __init__(self, serving: Keyring, admin: Keyring, hosts: Hosts, checks: Counter) -> None:
        self._serving = serving
        self._admin = admin
        self._hosts = hosts
        self._checks = checks

    def check(self, scope: Scope) -> None:
        """Refuse a request to a guarded path that carries no key, or the wrong host if no key is needed."""
        path = scope["path"]
        if path.startswith(_GUARDED) and not path.startswith(_OPEN):
            if self._serving.configured:
                self._require(scope, self._serving, self._admin)
            else:
                self._hosts.check(scope["headers"])

    def check_admin(self, scope: Scope) -> None:
        """Refuse a request that does not carry an admin key."""
        self._require(scope, self._admin)

    def is_admin(self, scope: Scope) -> bool:
        """Tell whether a request carries an admin key."""
        sent = _sent(scope)
        return sent is not None and self._admin.find(sent) is not None

    async def follow(self, seconds: float) -> None:
        """Read the key files again and again."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Read the key files."""
        self._serving.refresh()
        self._admin.refresh()

    def _require(self, scope: Scope, *accepted: Keyring) -> None:
        """Let a key of these pass; ``scope["key"]`` is its label afterwards."""
        sent = _sent(scope)
        if sent is None:
            self._checks.of("", "missing")[0] += 1.0
            raise Problem(
                401,
                "this route needs a key, as Authorization: Bearer … or X-API-Key: …",
                headers={"WWW-Authenticate": 'Bearer realm="localrank"'},
            )
        label = None
        for keyring in accepted:
            label = keyring.find(sent) or label
        if label is None:
            self._checks.of("", "refused")[0] += 1.0
            raise Problem(403, "the request has a key, but not a key for this route")
        self._checks.of(label, "accepted")[0] += 1.0
        scope["key"] = label


def _sent(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            if scheme.lower() == b"bearer":
                return bytes(key.strip())
        elif name == b"x-api-key":
            return bytes(value)
    return None
