"""``POST /v1/compare``: the same request through two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from localrank_service.apis.openapi import BODY, KEY, MODEL, ROWS, operation, request_of
from localrank_service.http.body import media_type, read_body
from localrank_service.http.direct import Answer, DirectRoute
from localrank_service.reranking import Attempt
from localrank_service.wire import compare as wire
from localrank_service.wire.answer import server_timing
from localrank_service.wire.members import COMPARE, check_query_string, names_of

if TYPE_CHECKING:
    from localrank_service.service import Service

router = APIRouter(route_class=DirectRoute)

_REQUEST = request_of(
    "CompareRequest",
    COMPARE,
    required=("candidate",),
    examples=[{"baseline": "demo", "candidate": "demo@1", "ids": ["d1", "d2"], "features": ROWS}],
)

_TABLE = names_of(COMPARE)


@router.post("/v1/compare")
@operation("CompareAnswer", {*KEY, *BODY, *MODEL, 409}, reads=_REQUEST)
async def compare(request: Request) -> Response:
    """Order the documents of one query with two versions, and say how far every document moves."""
    service: Service = request.app.state.service
    request_id: str = request.scope["request_id"]
    with Attempt(service, "compare", request.scope) as attempt:
        media_type(request.headers, ("application/json",))
        check_query_string(request.scope["query_string"], _TABLE)
        body = await read_body(request, service.settings.max_body_bytes)
        attempt.begin()
        query = await attempt.read(wire.read, len(body), body, service.limits)
        ranked = []
        for address, at in zip(query.addresses, ("/baseline", "/candidate"), strict=True):
            model = await attempt.find(address, at=at)
            documents = await attempt.read(query.documents, query.cost, model.ranker.contract)
            ranked.append(await attempt.rank(model, documents, query.options, alone=True))
        content = await attempt.write(
            wire.encode, len(body), ranked[0], ranked[1], attempt.timing, request_id
        )
        return Answer(content, server_timing(attempt.timing.stop()))
