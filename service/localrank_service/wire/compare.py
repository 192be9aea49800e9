"""``POST /v1/compare``: one request through two versions.

The request is that of ``POST /v1/rerank`` with two addresses instead of one. The answer has the order of both, where every
document has moved, and how far the two agree.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import orjson

from localrank.agreement import kendall_tau, overlap, rank_biased_overlap, ranks_of
from localrank_service.http.problems import Problem
from localrank_service.wire.answer import route_members, warnings_of
from localrank_service.wire.members import COMPARE, by_name, check_names
from localrank_service.wire.numbers import plain_members
from localrank_service.wire.rerank_json import JsonQuery, members_of
from localrank_service.wire.results import results

if TYPE_CHECKING:
    from localrank_service.wire.answer import Ranked, Timing
    from localrank_service.wire.query import Limits

#: Numbers of first documents for which the overlap is answered.
DEPTHS = (1, 3, 5, 10, 20)

_TABLE = by_name(COMPARE)


class CompareQuery(JsonQuery):
    """A request whose documents are yet to be read."""

    __slots__ = ()

    table = _TABLE

    @property
    def addresses(self) -> tuple[str | None, str]:
        """What to compare: the baseline, and the candidate."""
        candidate: str = self._members["candidate"]
        return self._members.get("baseline"), candidate


def read(body: bytes, limits: Limits) -> CompareQuery:
    """Check everything that needs no model."""
    members = plain_members(body, limits)
    plain = members is not None
    if members is None:
        members = members_of(body, _TABLE, limits)
    else:
        check_names(members, _TABLE)
    if members.get("candidate") is None:
        raise Problem(
            422, "expected the candidate to compare with, such as name@version", pointer="/candidate"
        )
    return CompareQuery(body, members, limits, plain=plain)


def encode(baseline: Ranked, candidate: Ranked, timing: Timing, request_id: str) -> bytes:
    """Return the answer; the timings are added after the rest."""
    top_n = baseline.options.top_n
    with timing("compare"):
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
        "results": orjson.Fragment(results(ranked.ranking, ranked.documents.ids, ranked.options.top_n)),
        "route": route_members(ranked.ranking.route),
        "warnings": warnings_of(ranked),
    }
