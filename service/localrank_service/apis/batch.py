"""``POST /v1/rerank/batch``: many requests of ``POST /v1/rerank`` in one body.

The body is checked as a whole and cut into its queries; each is then read like a separate body, so that one unreadable
query does not affect the others. No query is parsed before all are counted, and none is written again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request, Response

from localrank.ranker import Stopwatch
from localrank_service.apis.openapi import BODY, KEY, ROWS, Schema, closed, operation
from localrank_service.apis.rerank import reader
from localrank_service.apis.rerank.reader import RERANK
from localrank_service.http.body import media_type, read_body
from localrank_service.http.edge import Answer, DirectRoute
from localrank_service.http.problems import FAILED, Problem
from localrank_service.ranking.reranking import Attempt
from localrank_service.wire.answer import server_timing
from localrank_service.wire.members import check_query_string, names_of
from localrank_service.wire.text import list_in

if TYPE_CHECKING:
    from localrank_service.models.live import LiveModel
    from localrank_service.ranking.service import Service
    from localrank_service.wire.answer import Ranked
    from localrank_service.wire.query import Limits
from localrank_service.wire.text import Text


def split(body: bytes, limits: Limits) -> list[Text]:
    """Return the JSON of each query."""
    elements = list_in(body, limits, "queries", "a list of rerank requests")
    if elements.count > limits.max_documents:
        raise Problem(
            413,
            f"{elements.count} queries; this server takes {limits.max_documents} per request",
            pointer="/queries",
        )
    return elements.texts()


router = APIRouter(route_class=DirectRoute)

_REQUEST = Schema(
    "BatchRequest",
    closed(
        {"queries": {"type": "array", "items": {"$ref": "#/components/schemas/RerankRequest"}}},
        examples=[{"queries": [{"model": "demo", "top_n": 1, "features": ROWS}, {"features": ROWS[:1]}]}],
    ),
)

_TABLE = ("queries", *names_of(RERANK))
#: Warnings that all answers of a batch hold together.
_MOST_WARNINGS = 10_000

_log = logging.getLogger("localrank.service")


@router.post("/v1/rerank/batch")
@operation("BatchAnswer", {*KEY, *BODY}, reads=_REQUEST)
async def rerank_batch(request: Request) -> Response:
    """Order the documents of many queries, each by the model of its own kind; a failed query affects no other."""
    service: Service = request.app.state.service
    request_id: str = request.scope["request_id"]
    with Attempt(service, "rerank_batch", request.scope) as attempt:
        media_type(request.headers, ("application/json",))
        check_query_string(request.scope["query_string"], _TABLE)
        body = await read_body(request, service.settings.max_body_bytes)
        timing = Stopwatch()
        queries = await attempt.run(split, len(body), body, service.limits)
    answers: list[dict[str, Any]] = []
    room, warnings, written = service.limits.max_documents, _MOST_WARNINGS, 0
    models: dict[str | None, LiveModel | None] = {}
    for position, one in enumerate(queries):
        try:
            content, ranked = await _answer(
                request,
                one.content,
                room,
                models,
                position=position,
                most_warnings=warnings,
            )
        except Problem as problem:
            if problem.pointer is not None:
                problem.pointer = f"/queries/{position}{problem.pointer}"
            answers.append({"status": problem.status, "problem": orjson.Fragment(problem.body(request_id))})
        except Exception:  # noqa: BLE001 - after any error the others are answered
            _log.exception("query %d of a batch failed", position, extra={"request_id": request_id})
            failure = Problem(500, FAILED)
            answers.append({"status": 500, "problem": orjson.Fragment(failure.body(request_id))})
        else:
            room -= len(ranked.documents.matrix)
            warnings = max(warnings - len(ranked.ranking.imputed) - len(ranked.documents.ignored), 0)
            written += len(content)
            answers.append({"status": 200, "answer": orjson.Fragment(content)})
        # Health checks and other requests come in between.
        await asyncio.sleep(0)
    milliseconds = timing.stop()
    members = {"request_id": request_id, "answers": answers, "timings_ms": milliseconds}
    content = await attempt.run(orjson.dumps, written, members)
    return Answer(content, server_timing(milliseconds))


async def _answer(
    request: Request,
    body: bytes,
    room: int,
    models: dict[str | None, LiveModel | None],
    *,
    position: int,
    most_warnings: int,
) -> tuple[bytes, Ranked]:
    """Return the answer to one query, within limits of documents and warnings, and the ranking behind it."""
    service: Service = request.app.state.service
    request_id: str = request.scope["request_id"]
    with Attempt(service, "rerank_batch", request.scope, position) as attempt:
        attempt.timing.start("decode")
        query = await attempt.run(reader.JsonQuery.read, len(body), body, service.limits)
        model = await attempt.find(query.options.model, found=models)
        documents = await attempt.run(query.documents, query.cost, model.ranker.contract)
        n_documents = len(documents.matrix)
        if n_documents > room:
            raise Problem(
                413,
                f"{n_documents} documents; this server takes {service.limits.max_documents} per request, and "
                f"{room} are left",
                pointer="",
            )
        ranked = await attempt.rank(model, documents, query.options)
        given = ranked, attempt.timing, request_id, most_warnings
        return await attempt.run(reader.encode, len(body), *given), ranked
