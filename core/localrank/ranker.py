"""All of a model: from one query's documents to their order.

This is the only place where sign, route, score and order are spelled out. Training, evaluation and the service run it,
so figures from training are figures of the code that serves.

The time of each stage of a request.

The ranker names its stages, and its caller may measure them. The service passes a `Stopwatch` and turns its one
dictionary into the body's ``timings_ms``, the ``Server-Timing`` header and the histograms. Training passes nothing.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from localrank.arrays import html_table, one_line
from localrank.contributions import Contributions
from localrank.errors import ScoringFailed
from localrank.features.blocks import Cloud
from localrank.scorers.combination import contributions_of, per_deviation, standardised, weighted_sum

if TYPE_CHECKING:
    from types import TracebackType

    from localrank.arrays import Indices, Vector
    from localrank.features.contract import FeatureContract
    from localrank.frames import Indexed
    from localrank.points.representation import Point, Representation
    from localrank.routing.route import Route
    from localrank.routing.router import Router
    from localrank.scorers import Scorer


class Stage(Protocol):
    """Measures what runs inside ``with stage("sign"):``."""

    def __call__(self, name: str, /) -> AbstractContextManager[object]: ...


_NOTHING = nullcontext()


def untimed(_name: str, /) -> AbstractContextManager[object]:
    """Measure nothing."""
    return _NOTHING


class Stopwatch:
    """Wall time of each stage of one request, in milliseconds, in the order run.

    Stages do not nest. A class rather than a generator: entering costs a third as much, and a request has six.
    """

    __slots__ = ("_name", "_started", "milliseconds")

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self._name = ""
        self._started = 0.0

    def __call__(self, name: str, /) -> Stopwatch:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        elapsed = (time.perf_counter() - self._started) * 1e3
        self.milliseconds[self._name] = self.milliseconds.get(self._name, 0.0) + elapsed


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """What became of one query.

    Attributes:
        order: ``[n_docs]`` positions of the documents, best first.
        scores: ``[n_docs]`` in the order of the documents, not of the ranking.
        route: how the query found its scorer.
        imputed: ``{feature position: how many documents lacked it}``.
    """

    order: Indices
    scores: Vector
    route: Route
    imputed: dict[int, int]

    __repr__ = one_line

    def _repr_html_(self) -> str:
        rows = [
            (rank, position, float(self.scores[position]))
            for rank, position in enumerate(self.order.tolist(), 1)
        ]
        where = "the global scorer" if self.route.cluster is None else f"cluster {self.route.cluster}"
        return html_table(f"by {where}", ("rank", "document", "score"), rows)


@dataclass(frozen=True, slots=True, eq=False)
class Ranker:
    """Route a query to its cluster's scorer and order its documents.

    Immutable, so one instance may serve every thread.

    Attributes:
        contract: what the documents must be, and their blocks.
        representation: makes the point that is routed.
        router: chooses the cluster.
        scorers: one per cluster.
        global_scorer: for queries that no cluster fits.
    """

    contract: FeatureContract
    representation: Representation
    router: Router
    scorers: tuple[Scorer, ...]
    global_scorer: Scorer

    __repr__ = one_line

    def rank(self, documents: Indexed | Cloud, *, stage: Stage = untimed) -> Ranking:
        """Order one query's documents.

        Args:
            documents: ``[n_docs, n_features]``, NaN being a missing value; or a frame of pandas, polars or Arrow, whose
                columns are taken by name (`FeatureContract.matrix`); or the cloud that was made of them.
            stage: measures the stages.
        """
        with stage("sign"):
            cloud = documents if isinstance(documents, Cloud) else self.contract.cloud(documents)
            point = self.representation.of(cloud)
        with stage("route"):
            route = self._routed(cloud, point)
            cloud.routed(route, len(self.scorers))
        # A score that overflows raises an error below, so the warning of numpy is not needed.
        with stage("score"), np.errstate(over="ignore", invalid="ignore"):
            scores = self._scored(route, cloud)
        with stage("order"):
            order = best_first(scores)
        return Ranking(order, scores, route, cloud.imputed)

    def route(self, cloud: Cloud) -> Route:
        """Return the route that `rank` takes, without scoring."""
        return self._routed(cloud, self.representation.of(cloud))

    def blended(self, route: Route, point: Point) -> Route | None:
        """Return the route by which the route's cluster and the next best one share a query; ``None`` without a next one."""
        n_clusters = len(self.scorers)
        if route.cluster is None:
            return None
        second = self.router.runner_up(point, route.cluster, n_clusters)
        if second is None:
            return None
        shares = [0.0] * n_clusters
        shares[route.cluster] = shares[second] = 0.5
        return self._settled(route._replace(shares=tuple(shares), standard=True))

    def contributions(self, cloud: Cloud, ranking: Ranking, which: Indices | None = None) -> Contributions:
        """Return what each feature adds to documents' scores.

        Args:
            cloud: the one that `rank` took.
            ranking: what `rank` made of it.
            which: positions of the documents; all by default.

        Raises:
            ExplanationRefused: the scores are no sums over features, or only within more than rounding.
        """
        which = np.arange(len(cloud)) if which is None else which
        if not len(cloud):
            return Contributions(0.0, which, np.zeros((0, self.contract.n_features)))
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._contributed(ranking.route, cloud, which)
        found = Contributions(float(ranking.scores.mean()), which, values)
        found.check(ranking.scores)
        return found

    def _routed(self, cloud: Cloud, point: Point) -> Route:  # noqa: ARG002 - for rankers that judge by it
        return self._settled(self.router.route(point))

    def _settled(self, route: Route) -> Route:
        """Say whether a scorer of a cluster's own answers."""
        if route.shares:
            counted = (scorer for share, scorer in zip(route.shares, self.scorers, strict=True) if share)
            local = any(scorer is not self.global_scorer for scorer in counted)
        else:
            local = route.cluster is not None and self.scorers[route.cluster] is not self.global_scorer
        return route if route.local == local else route._replace(local=local)

    def _scored(self, route: Route, cloud: Cloud) -> Vector:
        if route.shares:
            counted = [
                (share, scorer) for share, scorer in zip(route.shares, self.scorers, strict=True) if share
            ]
            scores = [cloud.scored(scorer) for _, scorer in counted]
            if route.standard:
                scores = [standardised(one) for one in scores]
            return weighted_sum([share for share, _ in counted], scores)
        return cloud.scored(self.global_scorer if route.cluster is None else self.scorers[route.cluster])

    def _contributed(self, route: Route, cloud: Cloud, which: Indices) -> Vector:
        """Return what `_scored` is the sum of."""
        if not route.shares:
            scorer = self.global_scorer if route.cluster is None else self.scorers[route.cluster]
            return scorer.contributions(cloud, which)
        terms = [
            (share * per_deviation(cloud.scored(scorer)) if route.standard else share, scorer)
            for share, scorer in zip(route.shares, self.scorers, strict=True)
            if share
        ]
        return contributions_of(terms, cloud, which)


def best_first(scores: Vector) -> Indices:
    """Return the positions of the scores, highest first.

    Stable: equal scores keep the caller's order, so ties are reproducible.
    """
    if not np.isfinite(scores).all():
        position = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise ScoringFailed(f"document {position} scored {scores[position]}; expected a finite score")
    return np.argsort(-scores, kind="stable")
