"""One training run of a blend: its members are rehearsed on queries that they have not seen, then learned from all.

    represent, cluster, route     once, over all queries: documents carry no labels
    rehearse                      every candidate of every member, part by part
    localise                      local models of one member, let through only if they are better by enough
    weigh                         how much each member counts
    learn                         every member from all judged queries

Validation queries are judged queries like the others. The figures of the report come from models that had not learned
from the query, with settings, locality and weights chosen without its part. So they are not too good. No further models
are trained for them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.errors import InvalidData
from localrank.ranker import Ranker
from localrank.settings import values_of
from localrank_training.clouds import Clouds
from localrank_training.clustering import around
from localrank_training.learners.blend import Blend
from localrank_training.learners.budget import plan_fits
from localrank_training.learners.linear import LeastSquares
from localrank_training.learners.notes import collected
from localrank_training.learners.settings import LearnerSettings
from localrank_training.local_members import LocalMembers, gain_of
from localrank_training.parallel import in_parallel
from localrank_training.pipeline import (
    Built,
    learn_cluster,
    learn_contract,
    lesson_of,
    lists_of,
    own_routes,
    plan_of,
)
from localrank_training.progress import silent
from localrank_training.prototypes import Locality, similarities_to
from localrank_training.sending import unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector
    from localrank.routing import Route
    from localrank.scorers import BlendScorer, Scorer
    from localrank_training.config import TrainingConfig
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.budget import Plan
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.rehearsal import Frontier, Rehearsal, Weighed
    from localrank_training.local_members import Gain
    from localrank_training.pipeline import Plan as Routed
    from localrank_training.progress import Progress


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
        rehearsal: what members scored on held-out queries; `None` with too few queries to choose by.
        weighed: what was chosen by all of it.
        scores: ``[n_docs]`` of the blend, each part by the others' choices; with `rehearsal` only.
        global_scores: the same without local models.
        routes: of the queries, each by a router that does not know it.
        localised: if local models were tried.
        tried: all members without local models, also those that the latency budget leaves out.
        frontier: what fewer of these cost and are worth.
        plan: what was fitted.
    """

    built: Built
    config: TrainingConfig
    learner: Blend
    rehearsal: Rehearsal | None
    weighed: Weighed | None
    scores: Vector
    global_scores: Vector
    routes: tuple[Route, ...]
    localised: Localised | None
    tried: Rehearsal | None
    frontier: tuple[Frontier, ...]
    plan: Plan


def takes(config: TrainingConfig) -> bool:
    """Tell whether a run is one of a blend that is cross-fitted."""
    return config.learner.method == Blend.method and config.clustering.method in {"none", "prototypes"}


def cross_fit(
    queries: QuerySet, config: TrainingConfig, *, workers: int = 1, progress: Progress = silent
) -> CrossFitted:
    """Choose everything that is open by held-out scores, and learn the blend from all queries."""
    from threadpoolctl import threadpool_limits

    # Many small products: more threads would only take more processor time.
    with threadpool_limits(1):
        return _cross_fit(queries, config, workers, progress)


def _cross_fit(queries: QuerySet, config: TrainingConfig, workers: int, progress: Progress) -> CrossFitted:
    blend = cast("Blend", config.learner.candidates()[0])
    lists, weights = lists_of(queries, config)
    fits = plan_fits(blend, lists.n_docs, lists.n_features)
    blend = fits.blend
    clouds = Clouds(lists, learn_contract(lists, config))
    config, plan, notes = _planned(clouds, config)
    run = _Run(blend, lesson_of(clouds, None, weights, blend), plan, config, workers, progress)
    with collected() as said:
        tried = blend.rehearsed(run.lesson, workers=workers, progress=progress)
        frontier = () if tried is None else tried.frontier()
        globally = None if tried is None else blend.affordable(tried, frontier)
        routes = own_routes(plan, config)
        rehearsal, localised, problem = run.localised(globally, routes)
        weighed = None if rehearsal is None else rehearsal.weigh()
        settled = blend if rehearsal is None or weighed is None else blend.settled_to(rehearsal, weighed)
        global_scorer = settled.composed(run.lesson, rehearsal, weighed, workers=workers, progress=progress)
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
    scores = np.zeros(lists.n_docs) if rehearsal is None else rehearsal.nested()[0]
    return CrossFitted(
        built=Built(ranker, plan.clustering.labels, exemplars, notes),
        config=config.replace(learner=LearnerSettings(Blend.method, values_of(settled))),
        learner=settled,
        rehearsal=rehearsal,
        weighed=weighed,
        scores=scores,
        global_scores=scores if globally is None or globally is rehearsal else globally.nested()[0],
        routes=tuple(routes),
        localised=localised,
        tried=tried,
        frontier=frontier,
        plan=fits,
    )


def _planned(clouds: Clouds, config: TrainingConfig) -> tuple[TrainingConfig, Routed, tuple[str, ...]]:
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
    plan: Routed
    config: TrainingConfig
    workers: int
    progress: Progress

    def localised(
        self, rehearsal: Rehearsal | None, routes: Sequence[Route]
    ) -> tuple[Rehearsal | None, Localised | None, tuple[str, ...]]:
        """Try local models of the local member.

        Returns:
            The rehearsal, with their scores if they are let through; what they are worth; and why they were not tried.
        """
        if rehearsal is None or not len(self.plan.clustering):
            return rehearsal, None, ()
        position = self.blend.position_in(rehearsal)
        if position is None:
            return rehearsal, None, ("local models were not tried: no member is local",)
        everywhere = np.ones(len(self.lesson.queries), np.bool_)
        globally = rehearsal.tried[position].only(rehearsal.choose(everywhere)[position])
        (learner,) = globally.learners
        if not isinstance(learner, LeastSquares) or learner.ridge == "auto":
            return (
                rehearsal,
                None,
                ("local models were not tried: the local member is not 'linear' with a given ridge",),
            )
        width = self.lesson.seen_as(learner.blocks).queries.n_features
        if not LocalMembers.fit(len(everywhere), width):
            return (
                rehearsal,
                None,
                (f"local models were not tried: {width} features are too many for this number of queries",),
            )
        members = LocalMembers(learner, self.lesson, rehearsal.part_of)
        settings, plan = self.config.clustering, self.plan
        similarities = similarities_to(plan.points, plan.clustering.prototypes, self.config.similarity.name)
        sent = np.array([-1 if route.cluster is None else route.cluster for route in routes])

        def tried(near: Vector, clusters: Indices) -> Rehearsal:
            local = members.rehearsed(globally, near, clusters, settings.localities, settings.gate)
            return rehearsal.with_member(position, local)

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
        return found if chosen else rehearsal, localised, ()

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
