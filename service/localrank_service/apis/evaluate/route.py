"""``POST /v1/evaluate``: how well a model ranks judged queries, and how fast."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
from fastapi import APIRouter, Request, Response

from localrank.registry.versions import CHAMPION
from localrank_service.apis.evaluate import letor
from localrank_service.apis.evaluate import reader as wire
from localrank_service.apis.evaluate.measuring import EvaluationRun
from localrank_service.apis.evaluate.reader import EVALUATE
from localrank_service.apis.openapi import BODY, KEY, MODEL, ROWS, operation, options_of, request_of
from localrank_service.http.body import media_type, read_body
from localrank_service.http.problems import Problem
from localrank_service.wire.members import check_query_string, names_of

if TYPE_CHECKING:
    from localrank_service.ranking.service import Service

router = APIRouter(tags=["online"])

_REQUEST = request_of(
    "EvaluateRequest",
    EVALUATE,
    required=("queries",),
    examples=[
        {
            "model": "demo",
            "metrics": ["ndcg@10", "mrr"],
            "queries": [{"query_id": "q-17", "features": ROWS, "labels": [1, 0]}],
        }
    ],
)
_LETOR = {
    "type": "string",
    "description": "LETOR text, a line for each document: `2 qid:17 1:0.5 2:3 # comment`. Options are in "
    "the query string.",
}

_JSON = "application/json"
_TABLE = names_of(EVALUATE)


@router.post("/v1/evaluate")
@operation(
    "EvaluateAnswer",
    {*KEY, *BODY, *MODEL, 409, 429, 504},
    reads=_REQUEST,
    parameters=options_of(EVALUATE, wire.OPTIONS, letor.MEDIA_TYPE),
    other_bodies={letor.MEDIA_TYPE: _LETOR},
)
async def evaluate(request: Request) -> Response:
    """Measure how well a model ranks judged queries, and how fast."""
    service: Service = request.app.state.service
    settings = service.settings
    if not settings.evaluate_seconds:
        raise Problem(
            409,
            "evaluation is off: set LOCALRANK_EVALUATE_SECONDS to more than 0 and start again",
            kind="feature-off",
        )
    is_text = media_type(request.headers, (_JSON, letor.MEDIA_TYPE)) == letor.MEDIA_TYPE
    if not is_text:
        check_query_string(request.scope["query_string"], _TABLE)
    body = await read_body(request, settings.max_body_bytes)
    if service.evaluating.locked():
        raise Problem(
            429,
            "another evaluation runs in this worker; try again when it is done",
            headers={"Retry-After": "1"},
            reason="evaluations",
        )
    async with service.evaluating:
        limits = replace(service.limits, max_documents=settings.evaluate_documents)
        most = settings.evaluate_queries
        if is_text:
            exam = wire.read_text(body, request.query_params.multi_items(), limits, most)
        else:
            exam = await asyncio.to_thread(wire.read_json, body, limits, most)
        model = await service.resolve(exam.model, request.scope, at=None if is_text else "/model")
        evaluation = EvaluationRun(exam, model, service.admission, settings.evaluate_seconds)
        members = await asyncio.to_thread(evaluation.run)
    alias = (exam.model or "").partition("@")[2] or CHAMPION
    members = {
        "request_id": request.scope["request_id"],
        "model": members.pop("model"),
        "version": members.pop("version"),
        "alias": None if alias.isdecimal() else alias,
        **members,
    }
    return Response(orjson.dumps(members), media_type=_JSON, headers={"cache-control": "no-store"})
