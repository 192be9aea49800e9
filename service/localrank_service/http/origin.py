"""The host that a request addresses, and the page that it comes from.

A page can make the browser of its reader send requests. If the page has a host name that leads to this service, it can
also read the answers (DNS rebinding). Such a request has the page's host name in ``Host``. So a request that needs no
key, or changes something, must address the service by IP address, as localhost or by a configured name. One that
changes something must not come from another origin's page. Neither may one whose type of content a browser sends without
asking the service first, unless the page's origin is allowed (`localrank_service.http.cors`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.datastructures import Headers

#: A name or an IPv4 address, or an IPv6 address in brackets; then perhaps a port.
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{0,5})?")
#: Types of content that a page may send to any server; others need a preflight.
_UNASKED = frozenset({b"", b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data"})


def parse_hosts(text: str) -> frozenset[str]:
    """Read host names that are separated by commas; ``*`` is every name.

    Raises:
        ValueError: one of them is no host name, so no request could address it.
    """
    names = frozenset(one.strip().lower() for one in text.split(",") if one.strip())
    for name in names - {"*"}:
        found = _HOST.fullmatch(name)
        if (found is None or found["name"] != name) and not _is_address(name):
            raise ValueError("expected host names such as rank.example, without scheme and port")
    return names


class Hosts:
    """The host names under which the service may be addressed, besides localhost and IP addresses.

    Args:
        allowed: names separated by commas; ``*`` allows every name, for a service behind a proxy that checks it.
    """

    def __init__(self, allowed: str) -> None:
        names = parse_hosts(allowed) | {"localhost"}

        @lru_cache(256)  # callers use a few
        def accepts(host: bytes) -> bool:
            if "*" in names:
                return True
            found = _HOST.fullmatch(host.decode("latin-1"))
            if found is None:
                return False
            name = (found["six"] or found["name"]).lower()
            return name in names or _is_address(name)

        self._accepts = accepts

    def check(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse a foreign host with 403."""
        for name, value in headers:
            if name == b"host":
                host = value
                break
        else:
            host = b""
        if not self._accepts(host):
            raise Problem(
                403,
                f"host {host.decode('latin-1')!r}; expected localhost, an IP address or one of LOCALRANK_ALLOWED_HOSTS",
            )

    def check_change(self, headers: Headers) -> None:
        """Refuse a foreign host, or a page of another origin, with 403."""
        self.check(headers.raw)
        if (page := page_elsewhere(headers.raw)) is not None:
            raise Problem(403, f"{page}; expected no page, or one of {headers.get('host', '')!r}")


def page_elsewhere(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return what shows that a page of another origin sends this; None if nothing does."""
    host = next((value for name, value in headers if name == b"host"), b"").lower()
    for name, value in headers:
        if name == b"sec-fetch-site" and value == b"cross-site":
            return "Sec-Fetch-Site is 'cross-site'"
        # Hosts only: behind a proxy that speaks TLS, the scheme seen here is not the page's.
        if name == b"origin" and value.lower().partition(b"://")[1:] != (b"://", host):
            return f"origin {value.decode('latin-1')!r}"
    return None


def is_unasked(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether a browser sends a body of this type to another origin without a preflight."""
    kinds = [value.partition(b";")[0].strip().lower() for name, value in headers if name == b"content-type"]
    return not kinds or not _UNASKED.isdisjoint(kinds)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
