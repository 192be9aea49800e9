"""From a query to its ranking: what all wires share.

One call down to `localrank.ranker.Ranker.rank`, one value up. Errors of core gain their place in the request here and
pass on to `localrank_service.problems`.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from localrank.errors import InvalidDocuments, LocalRankError
from localrank.stages import Stopwatch
from localrank_service.problems import problem_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.ranker import Ranker, Ranking
    from localrank.routing import Route
    from localrank_service.wire.query import Documents

__all__ = ["Timing", "rank", "route_members", "server_timing", "warnings_of"]


class Timing(Stopwatch):
    """A stopwatch for the stages that also knows the whole."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        super().__init__()
        self._begun = perf_counter()

    def stop(self) -> Mapping[str, float]:
        """Return the stages and their ``total`` so far, in milliseconds, to a tenth of a microsecond."""
        rounded = {stage: round(elapsed, 4) for stage, elapsed in self.milliseconds.items()}
        rounded["total"] = round((perf_counter() - self._begun) * 1e3, 4)
        return rounded


def rank(ranker: Ranker, documents: Documents, timing: Stopwatch) -> Ranking:
    """Rank the documents; an error says where in the request they are."""
    try:
        return ranker.rank(documents.matrix, stage=timing)
    except InvalidDocuments as error:
        at = None if error.document is None else documents.locate(error.document, error.feature)
        raise problem_of(error, at) from None
    except LocalRankError as error:
        raise problem_of(error) from error


def route_members(route: Route) -> dict[str, Any]:
    """Return the route as the answer shows it."""
    return {
        "strategy": route.strategy,
        "cluster": route.cluster,
        "similarity": route.similarity,
        "margin": route.margin,
        "candidates": route.candidates,
        "fallback": route.fallback,
    }


def warnings_of(ranker: Ranker, documents: Documents, ranking: Ranking) -> list[dict[str, Any]]:
    """Return what the caller should know although the request was answered."""
    if not ranking.imputed and not documents.ignored:
        return []
    names = ranker.contract.names
    return [
        {"code": "feature_imputed", "feature": names[feature], "count": count}
        for feature, count in ranking.imputed.items()
    ] + [
        {"code": "feature_ignored", "feature": name, "count": count}
        for name, count in documents.ignored.items()
    ]


def server_timing(milliseconds: Mapping[str, float]) -> str:
    """Return the value of the ``Server-Timing`` header."""
    return ", ".join(f"{name};dur={elapsed:g}" for name, elapsed in milliseconds.items())
