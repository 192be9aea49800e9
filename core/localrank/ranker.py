"""All of a model: from one query's documents to their order.

This is the only place where sign, route, score and order are spelled out. Training, evaluation and the service run it,
so figures from training are figures of the code that serves.

The time of each stage of a request.

The ranker names its stages when they begin, and its caller may measure them. The service passes a `Stopwatch` and turns
its one dictionary into the body's ``timings_ms``, the ``Server-Timing`` header and the histograms. Training passes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from localrank.arrays import html_table, one_line
from localrank.contributions import Contributions
from localrank.errors import ScoringFailed
from localrank.features.blocks import Cloud
from localrank.points.representation import NoPoint
from localrank.scorers.combination import contributions_of, per_deviation, standardised, weighted_sum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Indices, Vector
    from localrank.features.contract import FeatureContract
    from localrank.frames import Indexed
    from localrank.points.representation import Point, Representation
    from localrank.routing.route import Route
    from localrank.routing.router import Router
    from localrank.scorers import Scorer


class Stage(Protocol):
    """Is told the name of each stage when it begins, and ``""`` after the last."""

    def __call__(self, name: str, /) -> None: ...


def untimed(_name: str, /) -> None:
    """Measure nothing."""


class Lap(NamedTuple):
    """One stage as it was run.

    Attributes:
        stage: its name.
        begun: when, as `time.perf_counter` has it.
        milliseconds: how long.
    """

    stage: str
    begun: float
    milliseconds: float


class Stopwatch:
    """Wall time of each stage of one request, in the order run.

    A stage lasts until the next one begins, and ``""`` is none. Only the beginnings are noted while a request is answered:
    a stage costs one call.

    Attributes:
        begun: when the whole began, as `time.perf_counter` has it.
    """

    __slots__ = ("_marks", "_stopped", "begun")

    def __init__(self) -> None:
        self.begun = perf_counter()
        self._marks: list[tuple[str, float]] = []
        self._stopped: Mapping[str, float] | None = None

    def __call__(self, name: str, /) -> None:
        self._marks.append((name, perf_counter()))

    def start(self, name: str) -> None:
        """Forget everything, and begin with this stage."""
        self.begun = perf_counter()
        self._marks, self._stopped = [(name, self.begun)], None

    def laps(self) -> list[Lap]:
        """Return the stages as they were run; one that begins again at once goes on."""
        found: list[Lap] = []
        ends = [*(at for _, at in self._marks[1:]), perf_counter()]
        for (stage, begun), end in zip(self._marks, ends, strict=False):
            if found and found[-1].stage == stage:
                stage, begun, _ = found.pop()  # noqa: PLW2901
            found.append(Lap(stage, begun, (end - begun) * 1e3))
        return [lap for lap in found if lap.stage]

    @property
    def milliseconds(self) -> dict[str, float]:
        """How long each stage has taken so far."""
        found: dict[str, float] = {}
        for stage, _, milliseconds in self.laps():
            found[stage] = found.get(stage, 0.0) + milliseconds
        return found

    def stop(self) -> Mapping[str, float]:
        """Return the stages and their ``total`` in milliseconds, the same whenever it is asked."""
        if self._stopped is None:
            now = perf_counter()
            self._marks.append(("", now))
            took: dict[str, float] = {}
            before, since = "", now
            for stage, at in self._marks:
                if before:
                    took[before] = took.get(before, 0.0) + at - since
                before, since = stage, at
            # To a tenth of a microsecond. Rounding to a whole number takes half as long as rounding to four places.
            for stage, seconds in took.items():
                took[stage] = round(seconds * 1e7) / 1e4
            took["total"] = round((now - self.begun) * 1e7) / 1e4
            self._stopped = took
        return self._stopped


#: For a router that does not look where a query is.
_NOWHERE = NoPoint()


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
        representation: makes the point that is routed. If the router does not choose, no request needs it.
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

    def rank(
        self,
        documents: Indexed | Cloud,
        *,
        query_features: Mapping[str, Any] | None = None,
        stage: Stage = untimed,
    ) -> Ranking:
        """Order one query's documents.

        Args:
            documents: ``[n_docs, n_features]``, NaN being a missing value; or a frame of pandas, polars or Arrow, whose
                columns are taken by name (`FeatureContract.matrix`); or the cloud that was made of them.
            query_features: values of features of the query, by name; then documents need not have them.
            stage: measures the stages.
        """
        chooses = self.router.chooses
        stage("sign" if chooses else "score")
        cloud = documents if isinstance(documents, Cloud) else self.contract.cloud(documents, query_features)
        if chooses:
            point = self.representation.of(cloud)
            stage("route")
            route = self._routed(cloud, point)
            stage("score")
        else:
            route = self.router.route(_NOWHERE)
        cloud.routed(route, len(self.scorers))
        # A score that overflows raises an error below, so the warning of numpy is not needed.
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._scored(route, cloud)
        stage("order")
        order = best_first(scores)
        stage("")
        return Ranking(order, scores, route, cloud.imputed)

    def route(self, cloud: Cloud) -> Route:
        """Return the route that `rank` takes, without scoring."""
        if not self.router.chooses:
            return self.router.route(_NOWHERE)
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
