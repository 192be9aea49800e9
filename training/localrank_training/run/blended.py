"""One training run of a blend: its members are scored on queries that they have not seen, then learned from all.

    represent, cluster, route     once, over all queries: documents carry no labels
    score                         every candidate of every member, part by part
    localise                      local models of one member, let through only if they are better by enough
    weigh                         how much each member counts
    learn                         every member from all judged queries

Validation queries are judged queries like the others. The figures of the report come from models that had not learned
from the query, with settings, locality and weights chosen without its part. So they are not too good. No further models
are trained for them.

Queries are parted by their shape and, if there are features of the query, by these (`localrank_training.run.partitions`). The gate
compares the blend with local models and the blend without: trees may know the kind by themselves, and then local models
add nothing.

The local model of a prototype weighs all queries (`localrank_training.grouping.prototypes`). With the matrices of each query
(`localrank_training.learners.linear`) it costs one small linear system, so that many degrees of locality are tried
for about the price of one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.ranker import Ranker
from localrank.routing.routers import KindRouter
from localrank.scorers import BlendScorer
from localrank.settings import values_of
from localrank_training.data.clouds import Clouds
from localrank_training.evaluation.comparisons import interval_of
from localrank_training.grouping.clustering import softened
from localrank_training.grouping.kinds import SHAPE, value_names
from localrank_training.grouping.prototypes import Locality, local_weights
from localrank_training.learners.blend import Blend
from localrank_training.learners.budget import plan_fits
from localrank_training.learners.linear import LeastSquares, NormalEquations, PerQueryMatrices
from localrank_training.learners.notes import collected
from localrank_training.learners.settings import LearnerSettings
from localrank_training.learners.weights import standardised_within
from localrank_training.parallel.processes import in_parallel, silent, unpacked
from localrank_training.run.choosing import Trial, open_settings
from localrank_training.run.partitions import partitions_of
from localrank_training.run.pipeline import (
    Built,
    learn_cluster,
    learn_contract,
    lesson_of,
    lists_of,
    own_routes,
    plan_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank.arrays import Bits, Indices, Vector
    from localrank.routing.route import Route
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.comparisons import Interval
    from localrank_training.journal import Journal
    from localrank_training.learners.budget import FitPlan
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.out_of_fold import Frontier, OutOfFold, Tried, Weighed
    from localrank_training.parallel.processes import Progress
    from localrank_training.run.partitions import Partition
    from localrank_training.settings.config import TrainingConfig

#: Bytes that the matrices of all queries may take.
_MOST_BYTES = 500_000_000


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of local models over the global one on held-out queries. These queries did not choose the degree of
    locality.
    """

    mean: float
    interval: Interval | None
    n_queries: int

    def __str__(self) -> str:
        within = "" if self.interval is None else f" {self.interval}"
        return f"{self.mean:+.4f}{within} over {self.n_queries} queries"


@dataclass(frozen=True, slots=True)
class Localised:
    """Whether queries of different kinds want different models.

    Attributes:
        by: the best way to part the queries (`Partition.by`).
        locality: that was let through; `None` if the blend with local models was not better by enough.
        gain: of the blend with local models over the blend without; the queries that measure it chose neither the way
            nor the locality.
        random: the same with the queries of that way in random places, which shows what chance alone gains.
        agreement: share of the queries whose nearest other query has the same nearest prototype.
        ways: of each way by itself, its name and its gain.
    """

    by: str
    locality: Locality | None
    gain: Gain
    random: Gain
    agreement: float
    ways: tuple[tuple[str, Gain], ...]

    @property
    def named(self) -> bool:
        """Whether the user named the feature whose values are the kinds, so that nothing else was tried."""
        return len(self.ways) == 1 and self.by != SHAPE


@dataclass(frozen=True, slots=True, eq=False)
class CrossFitted:
    """What a blend's training run found out.

    Attributes:
        built: the ranker.
        config: with every choice made.
        learner: the blend, each of its members settled.
        out_of_fold: what members scored on held-out queries; `None` with too few queries to choose by.
        weighed: what was chosen by all of it.
        scores: ``[n_docs]`` of the blend, each part by the others' choices; with `out_of_fold` only.
        global_scores: the same without local models.
        routes: of the queries, each by a router that does not know it.
        localised: if local models were tried.
        tried: all members without local models, also those that the latency budget leaves out.
        frontier: what fewer of these cost and are worth.
        plan: what was fitted.
        trials: the candidates of each member with choices, and the degrees of locality, by the mean of `METRICS`.
    """

    built: Built
    config: TrainingConfig
    learner: Blend
    out_of_fold: OutOfFold | None
    weighed: Weighed | None
    scores: Vector
    global_scores: Vector
    routes: tuple[Route, ...]
    localised: Localised | None
    tried: OutOfFold | None
    frontier: tuple[Frontier, ...]
    plan: FitPlan
    trials: tuple[Trial, ...]


def takes(config: TrainingConfig) -> bool:
    """Tell whether a run is one of a blend that is cross-fitted."""
    return config.learner.method == Blend.method and config.clustering.method in {
        "none",
        "prototypes",
        "kind",
    }


def blend_for(queries: QuerySet, config: TrainingConfig) -> Blend:
    """Return the blend that a run learns from these queries."""
    blend = cast("Blend", config.learner.candidates()[0])
    return blend.for_categories() if any(one.kind == "category" for one in queries.features) else blend


def cross_fit(
    queries: QuerySet,
    config: TrainingConfig,
    *,
    journal: Journal | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> CrossFitted:
    """Choose everything that is open by held-out scores, and learn the blend from all queries."""
    from threadpoolctl import threadpool_limits

    # Many small products: more threads would only take more processor time.
    with threadpool_limits(1):
        return _cross_fit(queries, config, journal, workers, progress)


def _cross_fit(
    queries: QuerySet,
    config: TrainingConfig,
    journal: Journal | None,
    workers: int,
    progress: Progress,
) -> CrossFitted:
    lists, weights = lists_of(queries, config)
    blend = blend_for(lists, config)
    fits = plan_fits(blend, lists.n_docs, lists.n_features)
    blend = fits.blend
    clouds = Clouds(lists, learn_contract(lists, config))
    partitions, notes = partitions_of(clouds, config)
    part_of = blend.parts_of(lesson_of(clouds, None, weights, blend))
    learned_from = clouds.to_learn_from(part_of)
    parts = range(0 if learned_from is clouds else blend.parts)
    clouds = learned_from
    lessons = [lesson_of(clouds.without(part), None, weights, blend) for part in parts]
    run = _Run(blend, lesson_of(clouds, None, weights, blend), lessons, config, workers, progress)
    with collected() as said:
        tried = blend.out_of_fold(
            run.lesson,
            lessons,
            journal=journal,
            workers=workers,
            progress=progress,
        )
        frontier = () if tried is None else tried.frontier()
        scored = None if tried is None else blend.affordable(tried, frontier)
        global_scores = np.zeros(lists.n_docs) if scored is None else scored.nested()[0]
        ways, gated, problem = run.localised(scored, global_scores, partitions)
        weighed = None if scored is None else scored.weigh()
        settled = blend if scored is None or weighed is None else blend.settled_to(scored, weighed)
        global_scorer = settled.composed(run.lesson, scored, weighed, workers=workers, progress=progress)
    notes += (*problem, *(f"{one.method}: {one.text}" for one in said))
    opened = gated if gated is not None and gated.opened else None
    # Without local models the queries keep the clusters of the first way: report and map show the kinds of queries by them.
    partition = next(iter(partitions), None) if opened is None else opened.way.partition
    plan = plan_of(clouds, config.with_clusters(1)) if partition is None else partition.plan
    routes = tuple(own_routes(plan, config)) if partition is None else partition.routes
    if opened is not None:
        config = opened.way.partition.settled(opened.locality)
        scorers = run.local_scorers(settled, opened, global_scorer)
        notes += _names(opened.way.partition, clouds)
    else:
        config = config.with_clusters(1) if partition is None else partition.config.without_local()
        scorers = (global_scorer,) * len(plan.clustering)
        routes = tuple(route._replace(local=False) for route in routes)
    ranker = Ranker(clouds.contract, plan.representation, plan.router, scorers, global_scorer)
    exemplars = tuple(lists.query_ids[prototype] for prototype in plan.clustering.prototypes)
    return CrossFitted(
        built=Built(ranker, plan.clustering.labels, exemplars, notes),
        config=config.replace(learner=LearnerSettings(Blend.method, values_of(settled))),
        learner=settled,
        out_of_fold=scored if opened is None else opened.way.scored,
        weighed=weighed if opened is None else opened.weighed,
        scores=global_scores if gated is None else gated.scores,
        global_scores=global_scores,
        routes=routes,
        localised=None if gated is None else gated.localised,
        tried=tried,
        frontier=frontier,
        plan=fits,
        trials=() if tried is None or scored is None else _trials(tried, scored, ways, opened),
    )


def _names(partition: Partition, clouds: Clouds) -> tuple[str, ...]:
    """Return the values of the kinds, if there are kinds."""
    router, column = partition.plan.router, partition.config.clustering.column
    if column is None or not isinstance(router, KindRouter):
        return ()
    named = (f"{number} {value!r}" for number, value in enumerate(value_names(clouds, column, router)))
    return (f"clusters by {column!r}: {', '.join(named)}",)


def _trials(
    tried: OutOfFold, serving: OutOfFold, ways: Sequence[Way], opened: Gated | None
) -> tuple[Trial, ...]:
    """Return what was tried: the settings of every member, and how local one of them may be.

    Args:
        tried: all members.
        serving: those that may serve.
        ways: to part the queries.
        opened: the best of these, if it is good enough.
    """
    found = []
    everywhere = np.ones(len(tried.shares), np.bool_)
    positions = {one.position for one in serving.tried}
    for one, figures, best in zip(tried.tried, tried.figures, tried.choose(everywhere), strict=True):
        means = tried.mean(figures, everywhere).tolist()
        names = open_settings([values_of(learner) for learner in one.learners])
        for number, learner in enumerate(one.learners if names else ()):
            said = ", ".join(f"{name} = {getattr(learner, name)}" for name in names)
            chosen = number == best and one.position in positions
            found.append(Trial(f"{learner.method} on {learner.blocks}: {said}", means[number], chosen))
    for way in ways:
        one, figures = way.scored.tried[way.position], way.scored.figures[way.position]
        means = way.scored.mean(figures, everywhere).tolist()
        by = "" if way.partition.by == SHAPE else f" by {way.partition.by}"
        for number, locality in enumerate(one.localities):
            said = f"{one.learners[0].method} on {one.learners[0].blocks}: local{by}, {locality}"
            chosen = opened is not None and way is opened.way and locality == opened.locality
            found.append(Trial(said, means[number], chosen))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """Local models of one partition, tried.

    Attributes:
        partition: of the queries.
        position: of the local member.
        scored: all members; the candidates of the local one are local.
        scores: ``[n_docs]`` of the blend, each part by the others' choices. Queries without a cluster have the scores
            of the blend without local models.
        gains: ``[n_queries]`` over the blend without local models.
    """

    partition: Partition
    position: int
    scored: OutOfFold
    scores: Vector
    gains: Vector

    @property
    def gain(self) -> Gain:
        """The gain of this way by itself."""
        return gain_of(self.gains)


@dataclass(frozen=True, slots=True, eq=False)
class Gated:
    """The best way to part the queries, and whether it is good enough.

    Attributes:
        way: the best one.
        locality: how local its models are.
        opened: whether it is good enough.
        localised: what is reported.
        weighed: how much its members count where there are local models.
        scores: ``[n_docs]`` by the other parts' choice of the way, and whether it is good enough.
    """

    way: Way
    locality: Locality
    opened: bool
    localised: Localised
    weighed: Weighed
    scores: Vector


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """What the steps of one run share."""

    blend: Blend
    lesson: Lesson
    lessons: Sequence[Lesson]
    config: TrainingConfig
    workers: int
    progress: Progress

    def localised(
        self, scored: OutOfFold | None, global_scores: Vector, partitions: Sequence[Partition]
    ) -> tuple[tuple[Way, ...], Gated | None, tuple[str, ...]]:
        """Try local models of the local member in every partition.

        Args:
            scored: the members without local models.
            global_scores: ``[n_docs]`` of the blend of these, each part by the others' choices.
            partitions: of the queries.

        Returns:
            What was tried, the best of it, and why nothing was tried.
        """
        if scored is None or not partitions:
            return (), None, ()
        position = self.blend.position_in(scored)
        if position is None:
            return (), None, ("local models were not tried: no member is local",)
        everywhere = np.ones(len(self.lesson.queries), np.bool_)
        globally = scored.tried[position].only(scored.choose(everywhere)[position])
        (learner,) = globally.learners
        if not isinstance(learner, LeastSquares) or learner.ridge == "auto":
            said = "local models were not tried: the local member is not 'linear' with a given ridge"
            return (), None, (said,)
        width = self.lesson.seen_as(learner.blocks).queries.n_features
        if not LocalMembers.fit(len(everywhere) * max(len(self.lessons), 1), width):
            said = f"local models were not tried: {width} features are too many for this number of queries"
            return (), None, (said,)
        members = LocalMembers(learner, self.lesson, scored.part_of, self.lessons)

        def tried(partition: Partition, order: Indices) -> Way:
            clusters = partition.clusters[order]
            local = members.scored(globally, partition.similarities[order], clusters, partition.localities)
            found = scored.with_member(position, local)
            scores = nested_where(found, clusters >= 0, global_scores)
            gains = found.figure(scores) - found.figure(global_scores)
            return Way(partition, position, found, scores, gains)

        ways = tuple(tried(partition, np.arange(len(everywhere))) for partition in partitions)
        drawn = np.random.default_rng(self.config.seed).permutation(len(everywhere))
        return (
            ways,
            self._gated(scored, global_scores, ways, lambda way: tried(way.partition, drawn).gain),
            (),
        )

    def _gated(
        self,
        scored: OutOfFold,
        global_scores: Vector,
        ways: Sequence[Way],
        by_chance: Callable[[Way], Gain],
    ) -> Gated:
        """Choose the best way, and let it through if it is better by enough.

        The gain that must pass the gate is one that chose nothing: for each part of the queries the other parts choose the way.
        So more ways open the gate by chance no more often than one.
        """
        gate = self.config.clustering.gate
        everywhere = np.ones(len(scored.shares), np.bool_)
        gains = np.stack([way.gains for way in ways])
        followed, scores = np.empty(len(everywhere)), global_scores.copy()
        for part in np.unique(scored.part_of):
            held = scored.part_of == part
            best = int(np.argmax(scored.mean(gains, ~held)))
            followed[held] = gains[best, held]
            if not gate or scored.stands_out(gains[best], ~held, gate):
                rows = scored.rows_of(held)
                scores[rows] = ways[best].scores[rows]
        way = ways[int(np.argmax(scored.mean(gains, everywhere)))]
        opened = not gate or scored.stands_out(followed, everywhere, gate)
        locality = way.scored.tried[way.position].localities[way.scored.choose(everywhere)[way.position]]
        sent, similarities = way.partition.clusters, way.partition.similarities
        known = sent >= 0
        localised = Localised(
            way.partition.by,
            locality if opened else None,
            gain_of(followed),
            by_chance(way),
            float((similarities.argmax(axis=1) == sent)[known].mean()) if known.any() else 0.0,
            tuple((one.partition.by, one.gain) for one in ways),
        )
        weighed = way.scored.weigh(judged=known)
        return Gated(way, locality, opened, localised, weighed, scores if opened else global_scores)

    def local_scorers(self, blend: Blend, gated: Gated, global_scorer: BlendScorer) -> tuple[Scorer, ...]:
        """Learn the blend of every cluster: its own local member, everything else from the global blend."""
        weighed = gated.weighed
        # If a member could not be learned from all queries, the weights of the rest are those without local models.
        fits = len(weighed.weights) == len(global_scorer.weights) and weighed.weights.any()
        base = BlendScorer(global_scorer.rankers, weighed.weights) if fits else global_scorer
        lesson = replace(self.lesson, towards=base)
        learned = in_parallel(
            learn_cluster,
            [
                (blend, replace(lesson, weights=lesson.shares * one.weights), global_scorer)
                for one in softened(gated.way.partition.similarities, gated.locality)
                if one.weights is not None
            ],
            workers=self.workers,
            progress=lambda done, total: self.progress("clusters", done, total),
        )
        return tuple(unpacked(content, global_scorer) for content, _, _ in learned)


class LocalMembers:
    """The queries of a linear member, ready for many weighted models.

    Args:
        learner: the member, with a settled ridge.
        lesson: of the blend.
        part_of: ``[n_queries]`` as in the out-of-fold scores.
        lessons: as the lesson looks if each part is held out; by default as ever.
    """

    def __init__(
        self, learner: LeastSquares, lesson: Lesson, part_of: Indices, lessons: Sequence[Lesson] = ()
    ) -> None:
        self._part_of, self._ridge = part_of, float(learner.ridge)
        seen = [one.seen_as(learner.blocks).queries for one in (*lessons, *([] if lessons else [lesson]))]
        matrices = [PerQueryMatrices.of(one, learner.gains(one), centre=learner.centre) for one in seen]
        parts = np.unique(part_of).tolist()
        self._seen = {part: seen[part if lessons else 0] for part in parts}
        self._matrices = {part: matrices[part if lessons else 0] for part in parts}
        self._shares = lesson.shares * learner.counts(seen[0])
        self._signs = lesson.seen_as(learner.blocks).signs

    @staticmethod
    def fit(n_queries: int, width: int) -> bool:
        """Tell whether the matrices of this many queries fit into memory."""
        return n_queries * width * width * 8 <= _MOST_BYTES

    def scored(
        self,
        globally: Tried,
        similarities: Vector,
        clusters: Indices,
        localities: Sequence[Locality],
    ) -> Tried:
        """Return a member with local candidates in place of its one global candidate.

        Args:
            globally: the member; its first candidate scores queries without a cluster.
            similarities: ``[n_queries, n_prototypes]``.
            clusters: ``[n_queries]`` where each query would be sent by a router that does not know it; -1 is nowhere.
            localities: the degrees of locality.
        """
        scores = np.repeat(globally.scores[:1], len(localities), axis=0)
        for part, queries in self._seen.items():
            kept = np.flatnonzero(self._part_of != part)
            held = np.flatnonzero((self._part_of == part) & (clusters >= 0))
            by_share: dict[float | None, list[int]] = {}
            for number, locality in enumerate(localities):
                by_share.setdefault(locality.share, []).append(number)
            for share, numbers in by_share.items():
                near = np.zeros((similarities.shape[1], len(queries)))
                near[:, kept] = local_weights(similarities[kept], Locality(share, 0.0))
                alike = np.zeros(len(queries))
                alike[kept] = 1.0
                shrinks = [localities[number].shrink for number in numbers]
                models = self._models(self._matrices[part], near, alike, shrinks)
                for query in held.tolist():
                    span = queries.span(query)
                    scores[numbers, span] = models[:, clusters[query]] @ queries.documents[span].T
        standard = [standardised_within(one, queries.offsets) for one in scores]
        return replace(
            globally,
            learners=globally.learners[:1] * len(localities),
            scores=np.stack(standard),
            seconds=np.repeat(globally.seconds[:1], len(localities)),
            microseconds=np.repeat(globally.microseconds[:1], len(localities)),
            localities=tuple(localities),
        )

    def _models(
        self, matrices: PerQueryMatrices, near: Vector, alike: Vector, shrinks: Sequence[float]
    ) -> Vector:
        """Return ``[n_shrinks, n_prototypes, d]``; sums over queries are linear in the weights, so they are made once."""
        close, every = self._shares * near, self._shares * alike
        local, whole = matrices.total(close), matrices.total(every)
        counts, count = close.sum(axis=1), float(every.sum())
        d = local.gram.shape[-1]
        models = []
        for shrink in shrinks:
            total = counts + shrink * count
            gram = counts[:, None, None] * local.gram + shrink * count * whole.gram
            moment = counts[:, None] * local.moment + shrink * count * whole.moment
            gram, moment = gram / total[:, None, None], moment / total[:, None]
            ridge = self._ridge * np.trace(gram, axis1=1, axis2=2) / d
            systems = gram + ridge[:, None, None] * np.eye(d)
            found = np.linalg.solve(systems, moment[..., None])[..., 0]
            for wrong in np.flatnonzero((self._signs * found < 0).any(axis=1)).tolist():
                equations = NormalEquations(gram[wrong], moment[wrong])
                found[wrong] = equations.solve(float(ridge[wrong]), signs=self._signs)
            models.append(found)
        return np.stack(models)


def nested_where(scored: OutOfFold, here: Bits, otherwise: Vector) -> Vector:
    """Return ``[n_docs]`` scores of a blend for some queries, each part by what the other parts choose.

    Args:
        scored: the members.
        here: ``[n_queries]`` which queries; weights are learned from these only.
        otherwise: ``[n_docs]`` the scores of the others.
    """
    scores = otherwise.copy()
    for part in np.unique(scored.part_of):
        held = scored.part_of == part
        weighed = scored.weigh(scored.choose(~held), ~held & here)
        rows = scored.rows_of(held & here)
        scores[rows] = scored.members(weighed.candidates)[rows] @ weighed.weights
    return scores


def gain_of(gains: Vector) -> Gain:
    """Return the mean of ``[n_queries]`` gains; NaN has no figure."""
    known = gains[~np.isnan(gains)]
    return Gain(
        float(known.mean()) if len(known) else 0.0, interval_of(known) if len(known) else None, len(known)
    )
