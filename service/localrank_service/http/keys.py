"""Who may ask, and who may change something."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["Keys"]

#: Paths that need the serving key where one is set. Health, metrics and documentation do not.
_GUARDED = ("/v1/", "/v2", "/info")
_OPEN = ("/v2/health/",)


class Keys:
    """The serving key and the admin key; the admin key opens everything."""

    def __init__(self, serving: str | None, admin: str) -> None:
        self._serving = serving.encode() if serving is not None else None
        self._admin = admin.encode()

    def check(self, scope: Scope) -> None:
        """Refuse a request to a guarded path that does not carry the serving key."""
        if self._serving is None:
            return
        path = scope["path"]
        if path.startswith(_GUARDED) and not path.startswith(_OPEN):
            _require(scope, self._serving, self._admin)

    def check_admin(self, scope: Scope) -> None:
        """Refuse a request that does not carry the admin key."""
        _require(scope, self._admin)


def _require(scope: Scope, *accepted: bytes) -> None:
    sent = _sent(scope)
    if sent is None:
        raise Problem(
            401,
            "this route needs a key, as Authorization: Bearer … or X-API-Key: …",
            headers={"WWW-Authenticate": 'Bearer realm="localrank"'},
        )
    # Every key is compared, and in constant time, so that the time tells nothing about them.
    if not any([hmac.compare_digest(sent, key) for key in accepted]):  # noqa: C419
        raise Problem(403, "the key sent is not the key for this route")


def _sent(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            if scheme.lower() == b"bearer":
                return bytes(key.strip())
        elif name == b"x-api-key":
            return bytes(value)
    return None
