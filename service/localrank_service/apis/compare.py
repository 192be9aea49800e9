"""``POST /v1/compare``: one request through two versions.

The request is that of ``POST /v1/rerank`` with two addresses instead of one. The answer has the order of both, where every
document has moved, and how far the two agree.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request, Response

from localrank.rankings import kendall_tau, overlap, rank_biased_overlap, ranks_of
from localrank_service.apis.openapi import BODY, KEY, MODEL, ROWS, operation, request_of
from localrank_service.apis.rerank.reader import RERANK, JsonQuery
from localrank_service.http.body import media_type, read_body
from localrank_service.http.edge import Answer, DirectRoute
from localrank_service.http.problems import Problem
from localrank_service.ranking.reranking import Attempt
from localrank_service.wire.answer import (
    results,
    route_members,
    server_timing,
    table_members,
    warnings_of,
)
from localrank_service.wire.members import TEXT, Member, by_name, check_query_string

if TYPE_CHECKING:
    from localrank.ranker import Stopwatch
    from localrank_service.ranking.service import Service
    from localrank_service.wire.answer import Ranked
    from localrank_service.wire.query import Limits

#: Of ``POST /v1/compare``; any other is refused by name.
COMPARE = (
    Member(
        "baseline",
        TEXT,
        "`name`, `name@version` or `name@alias`: the first version. If left out, the server's default model, "
        "or its only one.",
    ),
    Member("candidate", TEXT, "The second version.", nullable=False),
    *(
        member
        for member in RERANK
        if member.name
        not in {
            *("model", "contract", "explain", "compare", "offset", "pin", "boost", "answer"),
            *("query", "relevance", "return_documents", "rank_fields", "max_chunks_per_doc"),
            *("timeout_ms", "allow_degraded", "fallback_feature"),
        }
    ),
)

#: Numbers of first documents for which the overlap is answered.
DEPTHS = (1, 3, 5, 10, 20)

_TABLE = by_name(COMPARE)


class CompareQuery(JsonQuery):
    """A request whose documents are yet to be read."""

    __slots__ = ()

    table = _TABLE

    def __init__(self, body: bytes, members: dict[str, Any], limits: Limits, *, plain: bool) -> None:
        if members.get("candidate") is None:
            raise Problem(
                422, "expected the candidate to compare with, such as name@version", pointer="/candidate"
            )
        super().__init__(body, members, limits, plain=plain)

    @property
    def addresses(self) -> tuple[str | None, str]:
        """What to compare: the baseline, and the candidate."""
        candidate: str = self._members["candidate"]
        return self._members.get("baseline"), candidate


def encode(baseline: Ranked, candidate: Ranked, timing: Stopwatch, request_id: str) -> bytes:
    """Return the answer; the timings are added after the rest."""
    top_n = baseline.options.top_n
    timing("compare")
    ranks = ranks_of(baseline.ranking.order), ranks_of(candidate.ranking.order)
    n_documents = len(ranks[0])
    tau = kendall_tau(baseline.ranking.scores, candidate.ranking.scores)
    agreement: dict[str, Any] = {
        "kendall_tau": None if math.isnan(tau) else tau,
        "rbo": rank_biased_overlap(*ranks),
        "overlap": {str(k): overlap(*ranks, k) for k in DEPTHS if k <= n_documents},
    }
    ids = baseline.documents.ids
    moves = []
    for index in baseline.ranking.order.tolist():
        before, after = int(ranks[0][index]) + 1, int(ranks[1][index]) + 1
        if top_n is not None and min(before, after) > top_n:
            continue
        moves.append(
            {
                "index": index,
                **({} if ids is None else {"id": ids[index]}),
                "baseline": before,
                "candidate": after,
                "move": before - after,
            }
        )
    return orjson.dumps(
        {
            "request_id": request_id,
            "baseline": _side(baseline),
            "candidate": _side(candidate),
            "moves": moves,
            "agreement": agreement,
            "timings_ms": timing.stop(),
        }
    )


def _side(ranked: Ranked) -> dict[str, Any]:
    return {
        "model": ranked.name,
        "version": ranked.version,
        "results": orjson.Fragment(results(ranked)),
        "route": route_members(ranked.ranking.route),
        "warnings": warnings_of(ranked),
        **table_members(ranked),
    }


router = APIRouter(route_class=DirectRoute)

_REQUEST = request_of(
    "CompareRequest",
    COMPARE,
    required=("candidate",),
    examples=[{"baseline": "demo", "candidate": "demo@1", "ids": ["d1", "d2"], "features": ROWS}],
)


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
        attempt.timing.start("decode")
        query = await attempt.run(CompareQuery.read, len(body), body, service.limits)
        ranked = []
        for address, at in zip(query.addresses, ("/baseline", "/candidate"), strict=True):
            attempt.timing("decode")
            model = await attempt.find(address, at=at)
            documents = await attempt.run(query.documents, query.cost, model.ranker.contract)
            ranked.append(await attempt.rank(model, documents, query.options, alone=True))
        content = await attempt.run(encode, len(body), ranked[0], ranked[1], attempt.timing, request_id)
        return Answer(content, server_timing(attempt.timing.stop()))
