"""What all routes that change something check before they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localrank_service.http.body import LARGEST_CHANGE, media_type, read_body
from localrank_service.wire import change

if TYPE_CHECKING:
    from fastapi import Request

    from localrank_service.service import Service


def check_admin(request: Request) -> None:
    """Refuse a request of a page elsewhere, or without an admin key."""
    service: Service = request.app.state.service
    service.hosts.check_change(request.headers)
    service.keys.check_admin(request.scope)


async def members_of(request: Request, *, typed: bool = True, may_be_empty: bool = False) -> dict[str, Any]:
    """Return the members of the body, which is JSON.

    Args:
        request: whose body is read.
        typed: whether it must say that it is JSON. A page elsewhere can send a body without a content type unasked, but
            not JSON. Clients of the Open Inference Protocol send none where nothing changes.
        may_be_empty: whether no body stands for no members.
    """
    service: Service = request.app.state.service
    if typed or "content-type" in request.headers:
        media_type(request.headers, ("application/json",))
    body = await read_body(request, min(LARGEST_CHANGE, service.settings.max_body_bytes))
    return {} if may_be_empty and not body.strip() else change.read(body)
