"""``POST /v2/rerank``: Cohere's rerank API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from localrank_service.apis.openapi import BODY, KEY, MODEL, NAMED, ROWS, operation, request_of
from localrank_service.http.body import media_type, read_body
from localrank_service.http.direct import Answer, DirectRoute
from localrank_service.http.problems import Problem
from localrank_service.reranking import Attempt
from localrank_service.wire import cohere
from localrank_service.wire.answer import server_timing
from localrank_service.wire.members import COHERE, check_query_string, names_of

if TYPE_CHECKING:
    from localrank_service.service import Service

router = APIRouter(route_class=DirectRoute)

_REQUEST = request_of(
    "CohereRequest",
    COHERE,
    required=("documents",),
    examples=[
        {
            "model": "demo",
            "query": "cheap flights",
            "documents": [{"features": ROWS[0], "text": "…"}, {"features": NAMED}],
            "top_n": 1,
        }
    ],
)

_TABLE = names_of(COHERE)


@router.post("/v2/rerank")
@operation("CohereAnswer", {*KEY, *BODY, *MODEL, 409, 504}, reads=_REQUEST, name="rerank_as_cohere")
async def rerank(request: Request) -> Response:
    """Order the documents of one query; request and answer have the form of Cohere's rerank API."""
    service: Service = request.app.state.service
    request_id: str = request.scope["request_id"]
    try:
        with Attempt(service, "cohere", request.scope) as attempt:
            media_type(request.headers, ("application/json",))
            check_query_string(request.scope["query_string"], _TABLE)
            body = await read_body(request, service.settings.max_body_bytes)
            attempt.begin()
            query = await attempt.read(cohere.read, len(body), body, service.limits)
            model = await attempt.find(query.options.model)
            documents = await attempt.read(query.documents, query.cost, model.ranker.contract)
            ranked = await attempt.rank(model, documents, query.options)
            returned = await attempt.read(query.returned, query.cost)
            content = await attempt.write(
                cohere.encode, len(body), ranked, attempt.timing, request_id, returned
            )
            return Answer(content, server_timing(attempt.timing.stop()))
    except Problem as problem:
        # What Cohere's own errors hold.
        problem.members["message"] = problem.detail
        raise
