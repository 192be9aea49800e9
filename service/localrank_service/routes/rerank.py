"""``POST /v1/rerank``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from fastapi import APIRouter, Request, Response

from localrank_service.body import media_type, read_body
from localrank_service.explanation import explain
from localrank_service.problems import Problem
from localrank_service.reranking import Timing, rank, route_members, server_timing, warnings_of
from localrank_service.wire import rerank_json

if TYPE_CHECKING:
    from localrank_service.service import Service

__all__ = ["router"]

router = APIRouter()


@router.post("/v1/rerank")
async def rerank(request: Request) -> Response:
    """Order one query's documents with the model of its own kind."""
    service: Service = request.app.state.service
    model = None
    try:
        media_type(request.headers, ("application/json",))
        body = await read_body(request, service.settings.max_body_bytes)
        timing = Timing()
        with timing("decode"):
            query = rerank_json.read(body)
            options = query.options
            model = service.live.find(options.model) or await service.resolve(options.model)
            documents = query.documents(model.ranker.contract, service.limits)
        ranking = rank(model.ranker, documents, timing)
    except Problem as problem:
        service.metrics.refused("rerank", model, problem.status)
        raise
    except Exception:
        service.metrics.refused("rerank", model, 500)
        raise
    with timing("encode"):
        results = rerank_json.encode_results(ranking, documents.ids, options.top_n)
    answer = {
        "request_id": request.scope["request_id"],
        "model": model.name,
        "version": model.version,
        "results": orjson.Fragment(results),
        "route": route_members(ranking.route),
        "degraded": None,
        "warnings": warnings_of(model.ranker, documents, ranking),
    }
    if options.explain == "route":
        answer["explanation"] = explain(model.ranker, documents.matrix)
    answer["timings_ms"] = milliseconds = timing.stop()
    content = orjson.dumps(answer)
    service.metrics.ranked(
        "rerank",
        model,
        ranking,
        model.ranker.contract.out_of_range(documents.matrix),
        milliseconds,
    )
    return Response(
        content, media_type="application/json", headers={"server-timing": server_timing(milliseconds)}
    )
