"""What routes without documents share: unknown options are refused, changes need an admin key, answers are JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from fastapi import Request, Response

from localrank_service.http.body import LARGEST_CHANGE, media_type, read_body
from localrank_service.wire.members import check_query_string
from localrank_service.wire.query import Limits
from localrank_service.wire.text import SMALL, members_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank_service.ranking.service import Service

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "/v1/stats": ("series",),
    "/v1/models/{name}/sample": ("query",),
    "/v1/models/{name}/diff": ("before", "after"),
}
#: The size of the body already limits what it can hold.
_LIMITS = Limits(0, refuse_extra_features=True, max_numbers=SMALL, max_members=SMALL)


async def check_options(request: Request) -> None:
    """Refuse options that the route does not know."""
    check_query_string(request.scope["query_string"], (), _OPTIONS.get(request.scope["route"].path, ()))


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
    if may_be_empty and not body.strip():
        return {}
    return {name: member.value() for name, member in members_in(body, _LIMITS).items()}


def answer(members: Any) -> Response:
    """Return an answer that no cache keeps; it may hold arrays and dataclasses."""
    return Response(
        orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY),
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )
