"""A few queries with the route and the scores expected: proof that a model ranks here as it did where it was trained.

Kernels differ between processors. So a probe holds no query that lies almost between two clusters, and scores may
differ in the last digits: by `TOLERANCE` of the largest score of their list, because a score near zero is often the
difference of large numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from localrank.errors import LocalRankError, ProbeMismatch, PublishFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank.arrays import Matrix, Vector
    from localrank.ranker import Ranker
    from localrank.routing.route import Route

#: A probe query's cluster must be further ahead of the next than this.
MARGIN = 1e-3
#: Relative to the largest score of the list.
TOLERANCE = 1e-6
#: Largest number of documents of a query. Longer queries make the artifact larger, but the proof no better.
_LONGEST = 200
#: Queries that `choose` looks at.
_MOST_CANDIDATES = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Queries and what became of them when the model was published.

    Attributes:
        documents: ``[n_docs, n_features]`` of each query; NaN is a missing value.
        routes: of each query.
        scores: ``[n_docs]`` of each query.
    """

    documents: tuple[Matrix, ...]
    routes: tuple[Route, ...]
    scores: tuple[Vector, ...]

    @classmethod
    def record(cls, ranker: Ranker, queries: Sequence[Matrix]) -> Self:
        """Rank the queries and keep the results.

        Raises:
            PublishFailed: there are none, or one could go elsewhere on another processor.
        """
        if not queries:
            raise PublishFailed("probe: expected at least one query, found none (see localrank.probe.choose)")
        documents = tuple(np.ascontiguousarray(query, np.float32) for query in queries)
        rankings = [ranker.rank(query) for query in documents]
        for position, ranking in enumerate(rankings):
            if not _is_firm(ranking.route):
                raise PublishFailed(
                    f"probe: expected a routing margin above {MARGIN} for query {position}, found "
                    f"{ranking.route.fallback or ranking.route.margin} (see localrank.probe.choose)"
                )
        return cls(documents, tuple(one.route for one in rankings), tuple(one.scores for one in rankings))

    def check(self, ranker: Ranker, *, after_each: Callable[[], object] = lambda: None) -> float:
        """Rank the queries again; return the largest difference of scores, relative in the same way as `TOLERANCE`.

        Args:
            ranker: that should rank them as before.
            after_each: called after each query, to give back what it needed.

        Raises:
            ProbeMismatch: a route is not equal, or a score is not within the tolerance.
        """
        largest = 0.0
        for position, (query, route, scores) in enumerate(
            zip(self.documents, self.routes, self.scores, strict=True)
        ):
            try:
                ranking = ranker.rank(query)
            except (LocalRankError, ValueError, IndexError, FloatingPointError) as error:
                raise ProbeMismatch(
                    f"probe: query {position}: expected a ranking, found {error!r}"
                ) from error
            after_each()
            if _goal(ranking.route) != _goal(route):
                raise ProbeMismatch(
                    f"probe: query {position}: expected {_words(route)}, found {_words(ranking.route)}"
                )
            if ranking.scores.shape != scores.shape:
                raise ProbeMismatch(
                    f"probe: query {position}: expected {len(scores)} scores, found {len(ranking.scores)}"
                )
            difference = np.abs(ranking.scores - scores)
            if difference.any():
                # In this case, the largest score of at least one of the two is above zero.
                difference /= max(np.abs(scores).max(), np.abs(ranking.scores).max())
                worst = int(np.argmax(difference))
                if not difference[worst] <= TOLERANCE:
                    raise ProbeMismatch(
                        f"probe: query {position}: expected the score {scores[worst]} for document {worst}, "
                        f"found {ranking.scores[worst]}"
                    )
                largest = max(largest, float(difference[worst]))
        return largest


def choose(ranker: Ranker, candidates: Sequence[Matrix], count: int = 16) -> list[Matrix]:
    """Pick probe queries: those routed with the widest margins, from every cluster in turn, and one lone document.

    The lone document has no signature, so it proves the global scorer. It is left out if it has a point that lies between
    two clusters.

    Args:
        ranker: as it will be published.
        candidates: documents of queries, such as the validation queries.
        count: at most how many, the lone document included.
    """
    lone = next((query[:1] for query in candidates if len(query)), None)
    if lone is None:
        return []
    alone = [lone] if _is_firm(ranker.rank(lone).route) else []
    # Evenly spread over all: ranking each of a hundred thousand would take minutes and choose no better.
    step = -(-len(candidates) // _MOST_CANDIDATES)
    by_cluster: dict[int | None, list[tuple[float, int]]] = {}
    for position in range(0, len(candidates), step):
        query = candidates[position]
        if not 0 < len(query) <= _LONGEST:
            continue
        route = ranker.rank(query).route
        if _is_firm(route):
            margin = np.inf if route.margin is None else route.margin
            by_cluster.setdefault(route.cluster, []).append((-margin, position))
    turns = sorted(
        (turn, -1 if cluster is None else cluster, position)
        for cluster, members in by_cluster.items()
        for turn, (_, position) in enumerate(sorted(members))
    )
    return [*alone, *(candidates[position] for _, _, position in turns[: count - len(alone)])]


def _is_firm(route: Route) -> bool:
    """Whether the route would be the same on another processor."""
    if route.fallback not in {None, "no_signature", "unknown_kind"}:
        return False
    return route.cluster is None or route.margin is None or route.margin > MARGIN


def _goal(route: Route) -> tuple[int | None, str | None]:
    """Where a route must lead. By tables or by an exact scan: that is a matter of speed."""
    return route.cluster, route.fallback


def _words(route: Route) -> str:
    cluster = "the global scorer" if route.cluster is None else f"cluster {route.cluster}"
    return f"{route.strategy} to {cluster}" + (f" ({route.fallback})" if route.fallback else "")
