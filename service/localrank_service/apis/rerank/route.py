"""``POST /v1/rerank``: the documents of one query, as JSON or as an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from localrank_service.apis.openapi import (
    BODY,
    KEY,
    MODEL,
    NAMED,
    ROWS,
    Schema,
    operation,
    options_of,
    request_of,
)
from localrank_service.apis.rerank import npy, reader
from localrank_service.apis.rerank.reader import RERANK
from localrank_service.http.body import media_type, read_body
from localrank_service.http.edge import Answer, DirectRoute
from localrank_service.ranking.reranking import Attempt
from localrank_service.wire.answer import server_timing
from localrank_service.wire.members import check_query_string, names_of

if TYPE_CHECKING:
    from localrank_service.ranking.service import Service
    from localrank_service.wire.query import RequestQuery

router = APIRouter(route_class=DirectRoute)


def _without(*names: str) -> dict[str, Any]:
    return {"not": {"anyOf": [{"required": [name]} for name in names]}}


_REQUEST = request_of(
    "RerankRequest",
    RERANK,
    required=(),
    examples=[
        {
            "model": "demo",
            "query_id": "q-17",
            "top_n": 10,
            "documents": [{"id": "d1", "features": ROWS[0]}, {"id": "d2", "features": NAMED}],
        },
        {"model": "demo", "ids": ["d1", "d2"], "features": ROWS},
        {
            "model": "demo",
            "answer": "scores",
            "columns": {name: list(of) for name, of in zip(NAMED, zip(*ROWS, strict=True), strict=True)},
        },
    ],
    # Exactly one of `documents`, `features` and `columns`. Not by `oneOf`: if alternatives differ only in required members,
    # client generators make an untyped body. Generators ignore conditions.
    **{
        "if": {"required": ["documents"]},
        "then": _without("ids", "features", "columns"),
        "else": {
            "if": {"required": ["columns"]},
            "then": _without("features", "feature_names"),
            "else": {"required": ["features"]},
        },
    },
)
_ANSWER = Schema(
    "RankingOrScores",
    {"anyOf": [{"$ref": f"#/components/schemas/{one}"} for one in ("RerankAnswer", "ScoresAnswer")]},
    ("RerankAnswer", "ScoresAnswer"),
)
_ARRAY = {
    "type": "string",
    "format": "binary",
    "description": "The bytes that `numpy.save` writes: `[documents, features]` of float16, float32 or "
    "float64; NaN is a missing value. Options are in the query string.",
}

_TABLE = names_of(RERANK)
_JSON = "application/json"
_MEDIA_TYPES = (_JSON, npy.MEDIA_TYPE)


@router.post("/v1/rerank")
@operation(
    _ANSWER,
    {*KEY, *BODY, *MODEL, 409, 504},
    reads=_REQUEST,
    parameters=options_of(RERANK, npy.OPTIONS, npy.MEDIA_TYPE),
    other_bodies={npy.MEDIA_TYPE: _ARRAY},
)
async def rerank(request: Request) -> Response:
    """Order one query's documents with the model of its own kind."""
    service: Service = request.app.state.service
    request_id: str = request.scope["request_id"]
    with Attempt(service, "rerank", request.scope) as attempt:
        binary = media_type(request.headers, _MEDIA_TYPES) == npy.MEDIA_TYPE
        if binary:
            attempt.api = "rerank_npy"
        body = await read_body(request, service.settings.max_body_bytes)
        attempt.timing.start("decode")
        query: RequestQuery
        if binary:
            query = await attempt.run(npy.read, 0, body, request.scope["query_string"], service.limits)
        else:
            if request.scope["query_string"]:
                check_query_string(request.scope["query_string"], _TABLE)
            query = await attempt.run(reader.JsonQuery.read, len(body), body, service.limits)
        at = None if binary else "/model"
        model = await attempt.find(query.options.model, at=at)
        documents = await attempt.run(query.documents, query.cost, model.ranker.contract)
        ranked = await attempt.rank(model, documents, query.options)
        cost = 0 if binary else len(body)
        content = await attempt.run(reader.encode, cost, ranked, attempt.timing, request_id)
        return Answer(content, server_timing(attempt.timing.stop()))
