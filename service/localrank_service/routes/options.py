"""Which options the query strings of routes without a body of their own may have: everything else is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request  # noqa: TC002 - the framework reads the annotation

from localrank_service.wire.members import check_query_string

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "/v1/stats": ("series",),
    "/v1/models/{name}/sample": ("query",),
    "/v1/models/{name}/diff": ("before", "after"),
}


async def check_options(request: Request) -> None:
    """Refuse options that the route does not know."""
    check_query_string(request.scope["query_string"], (), _OPTIONS.get(request.scope["route"].path, ()))
