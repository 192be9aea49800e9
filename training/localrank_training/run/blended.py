"""One training run of a blend: its members are scored on queries that they have not seen, then learned from all.

    represent, cluster, route     once, over all queries: documents carry no labels
    score                         every candidate of every member, part by part
    localise                      local models of one member, let through only if they are better by enough
    weigh                         how much each member counts
    learn                         every member from all judged queries

Validation queries are judged queries like the others. The figures of the report come from models that had not learned
from the query, with settings, locality and weights chosen without its part. So they are not too good. No further models
are trained for them.

The local model of a prototype weighs all queries (`localrank_training.grouping.prototypes`). With the matrices of each query
(`localrank_training.learners.linear`) it costs one small linear system, so that many degrees of locality are tried
for about the price of one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.errors import InvalidData
from localrank.ranker import Ranker
from localrank.settings import values_of
from localrank_training.data.clouds import Clouds
from localrank_training.evaluation.comparisons import interval_of
from localrank_training.grouping.clustering import around
from localrank_training.grouping.prototypes import Locality, local_weights, similarities_to
from localrank_training.learners.blend import Blend
from localrank_training.learners.budget import plan_fits
from localrank_training.learners.linear import LeastSquares, PerQueryMatrices
from localrank_training.learners.notes import collected
from localrank_training.learners.settings import LearnerSettings
from localrank_training.learners.weights import standardised_within
from localrank_training.parallel.processes import in_parallel, silent, unpacked
from localrank_training.run.choosing import Trial, open_settings
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
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector
    from localrank.routing.route import Route
    from localrank.scorers import BlendScorer, Scorer
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.comparisons import Interval
    from localrank_training.journal import Journal
    from localrank_training.learners.budget import FitPlan
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.out_of_fold import Frontier, OutOfFold, Tried, Weighed
    from localrank_training.parallel.processes import Progress
    from localrank_training.run.pipeline import Plan
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
        locality: that was let through; `None` if none was better than the global model by enough.
        gain: of the local models; the queries that measure it did not choose them.
        random: the same for random prototypes, which shows what chance alone gains.
        agreement: share of the queries whose nearest other query has the same nearest prototype.
    """

    locality: Locality | None
    gain: Gain
    random: Gain
    agreement: float


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
    return config.learner.method == Blend.method and config.clustering.method in {"none", "prototypes"}


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
    config, plan, notes = _planned(clouds, config)
    part_of = blend.parts_of(lesson_of(clouds, None, weights, blend))
    learned_from = clouds.to_learn_from(part_of)
    parts = range(0 if learned_from is clouds else blend.parts)
    clouds = learned_from
    run = _Run(blend, lesson_of(clouds, None, weights, blend), plan, config, workers, progress)
    with collected() as said:
        tried = blend.out_of_fold(
            run.lesson,
            [lesson_of(clouds.without(part), None, weights, blend) for part in parts],
            journal=journal,
            workers=workers,
            progress=progress,
        )
        frontier = () if tried is None else tried.frontier()
        globally = None if tried is None else blend.affordable(tried, frontier)
        routes = own_routes(plan, config)
        local, localised, problem = run.localised(globally, routes)
        scored = globally if localised is None or localised.locality is None else local
        weighed = None if scored is None else scored.weigh()
        settled = blend if scored is None or weighed is None else blend.settled_to(scored, weighed)
        global_scorer = settled.composed(run.lesson, scored, weighed, workers=workers, progress=progress)
    notes += (*problem, *(f"{one.method}: {one.text}" for one in said))
    if localised is None or localised.locality is None:
        config = config if config.clustering.method == "none" else config.without_local()
        scorers: tuple[Scorer, ...] = (global_scorer,) * len(plan.clustering)
        routes = [route._replace(local=False) for route in routes]
    else:
        config = config.with_clusters(len(plan.clustering), **asdict(localised.locality))
        scorers = run.local_scorers(settled, localised.locality, global_scorer)
    ranker = Ranker(clouds.contract, plan.representation, plan.router, scorers, global_scorer)
    exemplars = tuple(lists.query_ids[prototype] for prototype in plan.clustering.prototypes)
    scores = np.zeros(lists.n_docs) if scored is None else scored.nested()[0]
    return CrossFitted(
        built=Built(ranker, plan.clustering.labels, exemplars, notes),
        config=config.replace(learner=LearnerSettings(Blend.method, values_of(settled))),
        learner=settled,
        out_of_fold=scored,
        weighed=weighed,
        scores=scores,
        global_scores=scores if globally is None or globally is scored else globally.nested()[0],
        routes=tuple(routes),
        localised=localised,
        tried=tried,
        frontier=frontier,
        plan=fits,
        trials=() if tried is None or local is None else _trials(tried, local),
    )


def _trials(tried: OutOfFold, local: OutOfFold) -> tuple[Trial, ...]:
    """Return what was tried: the settings of every member, and how local one of them may be.

    Args:
        tried: all members.
        local: those that may serve, one of them with its local candidates behind its global one.
    """
    found = []
    everywhere = np.ones(len(tried.shares), np.bool_)
    serving = {one.position for one in local.tried}
    for one, figures, best in zip(tried.tried, tried.figures, tried.choose(everywhere), strict=True):
        means = tried.mean(figures, everywhere).tolist()
        names = open_settings([values_of(learner) for learner in one.learners])
        for number, learner in enumerate(one.learners if names else ()):
            said = ", ".join(f"{name} = {getattr(learner, name)}" for name in names)
            chosen = number == best and one.position in serving
            found.append(Trial(f"{learner.method} on {learner.blocks}: {said}", means[number], chosen))
    for one, figures, best in zip(local.tried, local.figures, local.choose(everywhere), strict=True):
        means = local.mean(figures, everywhere).tolist()
        for number, locality in enumerate(one.localities, one.free):
            said = f"{one.learners[0].method} on {one.learners[0].blocks}: local, {locality}"
            found.append(Trial(said, means[number], number == best))
    return tuple(found)


def _planned(clouds: Clouds, config: TrainingConfig) -> tuple[TrainingConfig, Plan, tuple[str, ...]]:
    """Cluster the queries, if any two can be compared; else there is one global model."""
    if config.clustering.method == "none":
        return config, plan_of(clouds, config), ()
    size, settled = max(config.clustering.sizes), config.clustering.options[0]
    try:
        return config, plan_of(clouds, config.with_clusters(size, **settled)), ()
    except InvalidData as error:
        alone = config.with_clusters(1)
        return alone, plan_of(clouds, alone), (f"one global model: {error}",)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """What the steps of one run share."""

    blend: Blend
    lesson: Lesson
    plan: Plan
    config: TrainingConfig
    workers: int
    progress: Progress

    def localised(
        self, scored: OutOfFold | None, routes: Sequence[Route]
    ) -> tuple[OutOfFold | None, Localised | None, tuple[str, ...]]:
        """Try local models of the local member.

        Returns:
            The members, one of them with its local candidates; what these are worth; and why they were not tried.
        """
        if scored is None or not len(self.plan.clustering):
            return scored, None, ()
        position = self.blend.position_in(scored)
        if position is None:
            return scored, None, ("local models were not tried: no member is local",)
        everywhere = np.ones(len(self.lesson.queries), np.bool_)
        globally = scored.tried[position].only(scored.choose(everywhere)[position])
        (learner,) = globally.learners
        if not isinstance(learner, LeastSquares) or learner.ridge == "auto":
            return (
                scored,
                None,
                ("local models were not tried: the local member is not 'linear' with a given ridge",),
            )
        width = self.lesson.seen_as(learner.blocks).queries.n_features
        if not LocalMembers.fit(len(everywhere), width):
            return (
                scored,
                None,
                (f"local models were not tried: {width} features are too many for this number of queries",),
            )
        members = LocalMembers(learner, self.lesson, scored.part_of)
        settings, plan = self.config.clustering, self.plan
        similarities = similarities_to(plan.points, plan.clustering.prototypes, self.config.similarity.name)
        sent = np.array([-1 if route.cluster is None else route.cluster for route in routes])

        def tried(near: Vector, clusters: Indices) -> OutOfFold:
            local = members.scored(globally, near, clusters, settings.localities, settings.gate)
            return scored.with_member(position, local)

        found = tried(similarities, sent)
        drawn = np.random.default_rng(self.config.seed).permutation(len(sent))
        by_chance = tried(similarities[drawn], sent[drawn])
        chosen = found.choose(everywhere)[position]
        known = sent >= 0
        agreement = float((similarities.argmax(axis=1) == sent)[known].mean()) if known.any() else 0.0
        localised = Localised(
            settings.localities[chosen - 1] if chosen else None,
            gain_of(found, position),
            gain_of(by_chance, position),
            agreement,
        )
        return found, localised, ()

    def local_scorers(
        self, blend: Blend, locality: Locality, global_scorer: BlendScorer
    ) -> tuple[Scorer, ...]:
        """Learn the blend of every prototype: its own local member, everything else from the global blend."""
        plan = self.plan
        around_each = around(plan.clustering.prototypes, plan.points, locality, self.config.similarity.name)
        lesson = replace(self.lesson, towards=global_scorer)
        learned = in_parallel(
            learn_cluster,
            [
                (blend, replace(lesson, weights=lesson.shares * one.weights), global_scorer)
                for one in around_each.lessons
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
    """

    def __init__(self, learner: LeastSquares, lesson: Lesson, part_of: Indices) -> None:
        self._queries = lesson.seen_as(learner.blocks).queries
        self._matrices = PerQueryMatrices.of(
            self._queries, learner.gains(self._queries), centre=learner.centre
        )
        self._shares = lesson.shares * learner.counts(self._queries)
        self._ridge = float(learner.ridge)
        self._part_of = part_of

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
        gate: float,
    ) -> Tried:
        """Return a member with local candidates after its one global candidate.

        Args:
            globally: the member; its first candidate scores queries without a cluster.
            similarities: ``[n_queries, n_prototypes]``.
            clusters: ``[n_queries]`` where each query would be sent by a router that does not know it; -1 is nowhere.
            localities: the degrees of locality.
            gate: see `Tried`.
        """
        queries = self._queries
        scores = np.repeat(globally.scores[:1], len(localities), axis=0)
        for part in np.unique(self._part_of):
            kept = np.flatnonzero(self._part_of != part)
            held = np.flatnonzero((self._part_of == part) & (clusters >= 0))
            by_share: dict[float, list[int]] = {}
            for number, locality in enumerate(localities):
                by_share.setdefault(locality.share, []).append(number)
            for share, numbers in by_share.items():
                near = np.zeros((similarities.shape[1], len(queries)))
                near[:, kept] = local_weights(similarities[kept], Locality(share, 0.0))
                alike = np.zeros(len(queries))
                alike[kept] = 1.0
                models = self._models(near, alike, [localities[number].shrink for number in numbers])
                for query in held.tolist():
                    span = queries.span(query)
                    scores[numbers, span] = models[:, clusters[query]] @ queries.documents[span].T
        standard = [standardised_within(one, queries.offsets) for one in scores]
        return replace(
            globally,
            learners=globally.learners[:1] * (1 + len(localities)),
            scores=np.stack([globally.scores[0], *standard]),
            seconds=np.repeat(globally.seconds[:1], 1 + len(localities)),
            microseconds=np.repeat(globally.microseconds[:1], 1 + len(localities)),
            localities=tuple(localities),
            gate=gate,
        )

    def _models(self, near: Vector, alike: Vector, shrinks: Sequence[float]) -> Vector:
        """Return ``[n_shrinks, n_prototypes, d]``; sums over queries are linear in the weights, so they are made once."""
        close, every = self._shares * near, self._shares * alike
        local, whole = self._matrices.total(close), self._matrices.total(every)
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
            models.append(np.linalg.solve(systems, moment[..., None])[..., 0])
        return np.stack(models)


def gain_of(scored: OutOfFold, position: int) -> Gain:
    """Return what the local candidates of a member gain over its global one, each part scored by the others' choice."""
    figures = scored.figures[position]
    gains = np.full(figures.shape[1], np.nan)
    for part in np.unique(scored.part_of):
        held = scored.part_of == part
        best = 1 + int(np.argmax(scored.mean(figures[1:], ~held)))
        gains[held] = figures[best, held] - figures[0, held]
    known = gains[~np.isnan(gains)]
    return Gain(
        float(known.mean()) if len(known) else 0.0, interval_of(known) if len(known) else None, len(known)
    )
