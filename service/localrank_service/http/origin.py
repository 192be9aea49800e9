"""Where a request that changes something may come from.

A page in a browser can make its reader's browser send requests, to this service under another name too (DNS
rebinding). So such requests must address the service by IP address, as localhost or by a configured name, and must not
come from another origin's page; the key alone would not tell.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from starlette.datastructures import Headers

__all__ = ["check_origin"]


def check_origin(headers: Headers, allowed_hosts: str) -> None:
    """Refuse a foreign Host or Origin with 403."""
    host = headers.get("host", "")
    name = _name(f"//{host}")
    allowed = {one.strip().lower() for one in allowed_hosts.split(",") if one.strip()} | {"localhost"}
    if name is None or not (name in allowed or _is_address(name)):
        raise Problem(
            403, f"host {host!r}; expected localhost, an IP address or one of LOCALRANK_ALLOWED_HOSTS"
        )
    origin = headers.get("origin")
    # Hosts only: behind a proxy that speaks TLS, the scheme seen here is not the page's.
    if origin is not None and origin.lower().partition("://")[2] != host.lower():
        raise Problem(403, f"origin {origin!r}; expected none or that of {host!r}")


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
