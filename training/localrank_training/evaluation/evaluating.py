"""The quality of a published model on judged queries: its figures beside those of its own global scorer.

`rank_all` runs `Ranker.rank`, the function that the service runs, on each query by itself with one BLAS thread, so
that the figures are of the very scores that would be served. The global scorer of the same model is always measured
too, because a local model is only useful if it is better than that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.arrays import one_line
from localrank.errors import InvalidData, InvalidDocuments, ScoringFailed
from localrank.metrics import Convention, Judgements, Measured, Metric
from localrank_training.data.preparing import aligned, placed
from localrank_training.evaluation.comparisons import compare_family
from localrank_training.parallel.processes import silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.arrays import Indices, Vector
    from localrank.ranker import Ranker
    from localrank.routing.route import Route
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.comparisons import Comparison
    from localrank_training.parallel.processes import Progress

#: Measured unless others are asked for.
METRICS = ("map", "ndcg@1", "ndcg@5", "ndcg@10", "mrr")
#: Queries whose documents are held at a time while every cluster scores them.
_TOGETHER = 500


@dataclass(frozen=True, slots=True, eq=False)
class RankedQueries:
    """What a model makes of judged queries.

    Attributes:
        scores: ``[n_docs]`` of the routed model.
        global_scores: ``[n_docs]`` of its global scorer alone.
        routes: one per query.
    """

    scores: Vector
    global_scores: Vector
    routes: tuple[Route, ...]

    __repr__ = one_line

    @classmethod
    def joined(cls, parts: Sequence[RankedQueries]) -> RankedQueries:
        """Return what was made of the queries of all parts, one after the other."""
        return cls(
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.global_scores for part in parts]),
            tuple(route for part in parts for route in part.routes),
        )

    @property
    def clusters(self) -> Indices:
        """``[n_queries]`` where each was sent; -1 is none."""
        return np.array([-1 if route.cluster is None else route.cluster for route in self.routes])


@dataclass(frozen=True, slots=True)
class Routing:
    """Where the queries went.

    Attributes:
        strategy: of the router.
        clusters: ``[n_clusters]`` queries that each answered.
        to_global: queries that the global scorer answered.
        fallbacks: ``{reason: queries}`` that were not routed as the strategy promises.
        similarity: median to the most similar candidate; None if nothing was compared.
        margin: median ahead of the second best cluster; None if there was none.
    """

    strategy: str
    clusters: tuple[int, ...]
    to_global: int
    fallbacks: dict[str, int]
    similarity: float | None
    margin: float | None

    @classmethod
    def of(cls, routes: Sequence[Route], n_clusters: int) -> Routing:
        """Count the routes."""
        counted = Counter(route.cluster for route in routes)
        reasons = Counter(route.fallback for route in routes if route.fallback is not None)
        return cls(
            strategy=routes[0].strategy if routes else "none",
            clusters=tuple(counted[cluster] for cluster in range(n_clusters)),
            to_global=counted[None],
            fallbacks=dict(sorted(reasons.items())),
            similarity=_median([route.similarity for route in routes]),
            margin=_median([route.margin for route in routes]),
        )

    def to_json(self) -> dict[str, Any]:
        """Counts and shares, as JSON values."""
        n = max(sum(self.clusters) + self.to_global, 1)
        return {
            "strategy": self.strategy,
            "clusters": [
                {"cluster": cluster, "queries": queries, "share": queries / n}
                for cluster, queries in enumerate(self.clusters)
            ],
            "global": {"queries": self.to_global, "share": self.to_global / n},
            "fallbacks": self.fallbacks,
            "median_similarity": self.similarity,
            "median_margin": self.margin,
        }


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """One metric of the queries that one cluster answered; ``cluster`` of None is the global scorer."""

    cluster: int | None
    queries: int
    local: float
    global_: float

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "cluster": self.cluster,
            "queries": self.queries,
            "local": self.local,
            "global": self.global_,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """One model on judged queries.

    Attributes:
        name: of the model, for people.
        ranked: the scores and routes that were measured.
        local: figures of the routed model, every metric in the first convention, then in the next.
        global_: the same of its global scorer.
        ties: the least and the most that another order of equal scores could make of each of `local`.
        against_global: the one against the other; empty for a model without clusters, where they are the same.
        routing: where the queries went.
        clusters: the first metric in the first convention, cluster by cluster; empty clusters are not in it.
        oracle: the same figures as `local` of a router that knows the labels; empty unless asked for.
    """

    name: str
    ranked: RankedQueries
    local: tuple[Measured, ...]
    global_: tuple[Measured, ...]
    ties: tuple[tuple[float, float], ...]
    against_global: tuple[Comparison, ...]
    routing: Routing
    clusters: tuple[ClusterFigures, ...]
    oracle: tuple[Measured, ...] = ()

    __repr__ = one_line

    def to_json(self) -> dict[str, Any]:
        """Everything but the queries one by one, as JSON values."""
        return {
            "model": self.name,
            "figures": [
                measured.to_json() | {"pessimistic": low, "optimistic": high}
                for measured, (low, high) in zip(self.local, self.ties, strict=True)
            ],
            "global": [measured.to_json() for measured in self.global_],
            "against_global": [comparison.to_json() for comparison in self.against_global],
            "routing": self.routing.to_json(),
            "clusters": {
                "metric": self.local[0].name,
                "convention": self.local[0].convention.name,
                "figures": [cluster.to_json() for cluster in self.clusters],
            },
            **({"oracle": [measured.to_json() for measured in self.oracle]} if self.oracle else {}),
        }


@dataclass(frozen=True, slots=True)
class Versus:
    """Two models on the same queries; differences are candidate minus baseline."""

    candidate: str
    baseline: str
    comparisons: tuple[Comparison, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "candidate": self.candidate,
            "baseline": self.baseline,
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
        }


def rank_all(
    ranker: Ranker, queries: QuerySet, *, progress: Progress = silent, task: str = "ranking"
) -> RankedQueries:
    """Rank every query by itself, as the service does, and score it with the global scorer too.

    Raises:
        InvalidData: the queries do not have the model's features.
        InvalidDocuments, ScoringFailed: as `Ranker.rank` does, naming the query.
    """
    from threadpoolctl import threadpool_limits

    queries = aligned(queries, ranker.contract)
    scores, global_scores = np.empty(queries.n_docs), np.empty(queries.n_docs)
    routes = []
    with threadpool_limits(1):
        for query, documents in enumerate(queries.clouds()):
            span = queries.span(query)
            try:
                cloud = ranker.contract.cloud(documents)
                ranking = ranker.rank(cloud)
                scores[span] = ranking.scores
                global_scores[span] = cloud.scored(ranker.global_scorer)
            except (InvalidDocuments, ScoringFailed) as error:
                raise type(error)(f"query {queries.query_ids[query]!r}: {error}") from error
            routes.append(ranking.route)
            progress(task, query + 1, len(queries))
    return RankedQueries(scores, global_scores, tuple(routes))


def evaluate(
    ranker: Ranker,
    queries: QuerySet,
    metrics: Sequence[Metric | str] = METRICS,
    conventions: Sequence[Convention | str] = ("standard",),
    *,
    name: str = "model",
    margin: float | None = None,
    oracle: bool = False,
    seed: int = 0,
    progress: Progress = silent,
) -> Evaluation:
    """Measure a model and its global scorer on judged queries, and compare the two.

    Args:
        ranker: the model.
        queries: judged, with the model's features.
        metrics: what to measure.
        conventions: in which to measure all of it; p values are adjusted within each.
        name: of the model, for people.
        margin: for non-inferiority, where that is asked.
        oracle: measure every query with every cluster's scorer as well.
        seed: of the resampling.
        progress: told ``("ranking <name>", queries done, queries in all)``.
    """
    if not len(queries) or not metrics or not conventions:
        raise InvalidData(
            "expected at least one query, one metric and one convention to evaluate, found none"
        )
    wanted = [Metric.parse(metric) if isinstance(metric, str) else metric for metric in metrics]
    # Before the long part, so that labels that a convention refuses are refused at once.
    with placed(queries):
        judged = [Judgements(queries.labels, queries.offsets, convention) for convention in conventions]
        for judgements in judged:
            judgements.check(wanted)
    ranked = rank_all(ranker, queries, progress=progress, task=f"ranking {name}")
    local, global_ = _measured(judged, ranked.scores, wanted), _measured(judged, ranked.global_scores, wanted)
    bounds = [
        [
            measured.mean
            for judgements in judged
            for measured in judgements.measure(ranked.scores, wanted, ties=ties)
        ]
        for ties in ("pessimistic", "optimistic")
    ]
    return Evaluation(
        name=name,
        ranked=ranked,
        local=local,
        global_=global_,
        ties=tuple(zip(*bounds, strict=True)),
        against_global=_compared(local, global_, margin, seed) if ranker.scorers else (),
        routing=Routing.of(ranked.routes, len(ranker.scorers)),
        clusters=_by_cluster(ranked.routes, local[0], global_[0]) if ranker.scorers else (),
        oracle=oracle_of(ranker, queries, wanted, conventions) if oracle and ranker.scorers else (),
    )


def oracle_of(
    ranker: Ranker,
    queries: QuerySet,
    metrics: Sequence[Metric],
    conventions: Sequence[Convention | str] = ("standard",),
) -> tuple[Measured, ...]:
    """Return what the best cluster of every query, metric by metric, would reach: the most that any router could.

    It knows the labels, so it says what routing could gain and is no result. With many clusters it is high by chance
    alone, because it takes the best of many rankings.
    """
    from threadpoolctl import threadpool_limits

    queries = aligned(queries, ranker.contract)
    parts: list[list[Measured]] = []
    with threadpool_limits(1):
        for start in range(0, len(queries), _TOGETHER):
            part = queries.select(np.arange(start, min(start + _TOGETHER, len(queries))))
            clouds = [ranker.contract.cloud(documents) for documents in part.clouds()]
            for cloud in clouds:
                cloud.routed(ranker.route(cloud), len(ranker.scorers))
            judged = [Judgements(part.labels, part.offsets, convention) for convention in conventions]
            best: list[Measured] = []
            for scorer in dict.fromkeys(ranker.scorers):
                scores = np.concatenate([cloud.scored(scorer) for cloud in clouds])
                found = _measured(judged, scores, metrics)
                best = [
                    replace(one, per_query=np.fmax(one.per_query, other.per_query))
                    for one, other in zip(found, best or found, strict=True)
                ]
            parts.append(best)
    return tuple(Measured.pooled(of_metric) for of_metric in zip(*parts, strict=True))


def versus(
    candidate: Evaluation, baseline: Evaluation, *, margin: float | None = None, seed: int = 0
) -> Versus:
    """Compare two models that were evaluated on the same queries."""
    return Versus(candidate.name, baseline.name, _compared(candidate.local, baseline.local, margin, seed))


def versus_run(
    candidate: Evaluation,
    queries: QuerySet,
    scores: Vector,
    name: str,
    *,
    margin: float | None = None,
    seed: int = 0,
) -> tuple[Versus, tuple[Measured, ...]]:
    """Compare a model with scores from elsewhere on the queries that it was evaluated on; return their figures, too."""
    metrics = list(dict.fromkeys(Metric.parse(measured.name) for measured in candidate.local))
    conventions = dict.fromkeys(measured.convention for measured in candidate.local)
    judged = [Judgements(queries.labels, queries.offsets, convention) for convention in conventions]
    figures = _measured(judged, scores, metrics)
    return Versus(candidate.name, name, _compared(candidate.local, figures, margin, seed)), figures


def per_query_table(
    queries: QuerySet, evaluations: Sequence[Evaluation]
) -> tuple[list[str], Iterator[list[object]]]:
    """Return the header and the rows, one per query, of every figure that was measured.

    Figures that a convention leaves out are None.
    """
    header = ["query_id", "documents"]
    columns: list[Sequence[object]] = [queries.query_ids, queries.lengths.tolist()]
    for evaluation in evaluations:
        routes = evaluation.ranked.routes
        header += [f"{evaluation.name} cluster", f"{evaluation.name} fallback"]
        columns += [[route.cluster for route in routes], [route.fallback for route in routes]]
        kinds = [("", evaluation.local)]
        if evaluation.against_global:
            kinds.append((" global", evaluation.global_))
        for kind, figures in kinds:
            for measured in figures:
                header.append(f"{evaluation.name}{kind} {measured.name} {measured.convention.name}")
                columns.append([None if np.isnan(one) else float(one) for one in measured.per_query])
    return header, (list(row) for row in zip(*columns, strict=True))


def _measured(
    judged: Sequence[Judgements], scores: Vector, metrics: Sequence[Metric]
) -> tuple[Measured, ...]:
    return tuple(measured for judgements in judged for measured in judgements.measure(scores, metrics))


def _compared(
    candidate: Sequence[Measured], baseline: Sequence[Measured], margin: float | None, seed: int
) -> tuple[Comparison, ...]:
    """Compare figure by figure; the metrics of one convention are a family."""
    compared: list[Comparison] = []
    for convention in dict.fromkeys(measured.convention for measured in candidate):
        # A convention that leaves every query out has nothing to compare.
        family = [
            (ours, theirs)
            for ours, theirs in zip(candidate, baseline, strict=True)
            if ours.convention == convention and not np.isnan(ours.mean)
        ]
        compared += compare_family(
            [ours for ours, _ in family], [theirs for _, theirs in family], margin=margin, seed=seed
        )
    return tuple(compared)


def _by_cluster(routes: Sequence[Route], local: Measured, global_: Measured) -> tuple[ClusterFigures, ...]:
    went = np.array([-1 if route.cluster is None else route.cluster for route in routes])
    figures = []
    for cluster in np.unique(went).tolist():
        here = went == cluster
        counted = here & ~np.isnan(local.per_query)
        figures.append(
            ClusterFigures(
                None if cluster < 0 else cluster,
                int(np.count_nonzero(here)),
                float(local.per_query[counted].mean()) if counted.any() else float("nan"),
                float(global_.per_query[counted].mean()) if counted.any() else float("nan"),
            )
        )
    return tuple(figures)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
