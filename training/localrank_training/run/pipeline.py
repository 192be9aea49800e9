r"""From judged queries to a ranker: the offline half of the method, top to bottom.

    contract      what the feature values become                            (core)
    plan          represent      a point of every query                     (core)
                  cluster        which queries share a model
                  route          how a query finds its cluster              (core)
    learn         a global scorer, and one per cluster; cluster anew by what these score, if asked to

`build` does this for settled settings. `localrank_training.run.train` first makes the choices that the configuration
leaves open, and measures what the result is worth on queries that it was not built from.

Adaptive training: cluster the training queries by how well the clusters' own models rank them [kuzi2019; cremers2020].

With the models of :math:`k` clusters and :math:`n` metrics, a query's *performance profile* (eq. 1 of Cremers et al.) is

.. math:: \vec q = (m_1^1, \dots, m_n^1, \dots, m_1^k, \dots, m_n^k)

where :math:`m_j^i` is metric ``j`` of the query as the model of cluster ``i`` ranks it. Queries are clustered anew by their
profiles, models are learned anew, and so on. The models have learned from the very queries that they are measured on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from localrank.arrays import one_line
from localrank.errors import InvalidData
from localrank.features.blocks import parse
from localrank.features.contract import FeatureContract
from localrank.metrics import Judgements
from localrank.points.representation import NoPoints, NoRepresentation
from localrank.points.vectors import VectorPoints
from localrank.ranker import Ranker
from localrank.routing.router import GlobalRouter
from localrank.scorers import BlendScorer, Leaf, distinct
from localrank_training.data.clouds import Clouds
from localrank_training.data.encoding import Encoders
from localrank_training.data.preparing import with_shorter_lists
from localrank_training.grouping.clustering import NO_CLUSTER, Clustering, cluster, medoids
from localrank_training.grouping.kinds import kinds_of
from localrank_training.grouping.representations import labelled_points, make_representation, profile_of
from localrank_training.grouping.routers import make_router, router_of_part
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import Note, collected
from localrank_training.learners.seen import scores_of
from localrank_training.parallel.processes import in_parallel, packed, silent, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank.arrays import Indices, Vector
    from localrank.features.feature import Missing
    from localrank.points.representation import Points, Representation
    from localrank.routing.route import Route
    from localrank.routing.router import Router
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.role import Learner
    from localrank_training.parallel.processes import Progress
    from localrank_training.settings.config import TrainingConfig


def profiles(scorers: Sequence[Scorer], lesson: Lesson) -> VectorPoints:
    """Return every query's profile, ``[n_queries, 8 * n_scorers]``; one with nothing relevant is not known."""
    judgements = Judgements(lesson.queries.labels, lesson.queries.offsets)
    known: dict[Scorer, Vector] = {}
    for scorer in scorers:
        if scorer not in known:
            known[scorer] = profile_of(judgements, scores_of(scorer, lesson))
    values = np.column_stack([known[scorer] for scorer in scorers]).astype(np.float32)
    relevant = [bool((lesson.queries.labels_of(query) > 0).any()) for query in range(len(values))]
    return VectorPoints(values, np.array(relevant, np.bool_))


def regrouped(plan: Plan, scorers: Sequence[Scorer], lesson: Lesson, config: TrainingConfig) -> Plan:
    """Return the plan with the queries clustered by the profiles that these models give them."""
    found = cluster(profiles(scorers, lesson), config.clustering, config.seed, "euclidean")
    return replanned(plan, found, config)


def replanned(plan: Plan, found: Clustering, config: TrainingConfig) -> Plan:
    """Return the plan with these clusters, which were found by other points than those that are routed."""
    prototypes = medoids(plan.points, found.labels, config.similarity.name)
    clustering = Clustering(found.labels, found.lessons, prototypes)
    return replace(plan, clustering=clustering, router=make_router(plan.points, clustering, config))


#: If a cluster has fewer validation queries than this, they cannot show when to stop learning.
_ENOUGH_TO_STOP_BY = 10
#: Each of this many parts of the training queries is routed by a router that does not know the part.
_PARTS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Everything that is fixed before any scorer is learned.

    Attributes:
        contract: what the model expects of documents.
        representation: makes the points that are routed.
        clustering: of the training queries.
        router: sends queries to clusters.
        points: of the training queries.
    """

    contract: FeatureContract
    representation: Representation
    clustering: Clustering
    router: Router
    points: Points

    __repr__ = one_line


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A ranker and what is known of how it came about.

    Attributes:
        ranker: what serves.
        clusters: ``[n_lists]`` of the training queries, and then of their shorter lists if there are any; -1 for
            those without a signature.
        exemplars: ids of the most typical training query of each cluster.
        notes: what a reader of the report should know, such as clusters that had to fall back.
        learned: what was noted while the clusters' scorers were learned.
    """

    ranker: Ranker
    clusters: Indices
    exemplars: tuple[str, ...]
    notes: tuple[str, ...]
    learned: tuple[Note, ...] = ()

    __repr__ = one_line


def learn_contract(queries: QuerySet, config: TrainingConfig) -> FeatureContract:
    """Learn what the model will expect of documents."""
    # Whoever names a column of kinds says that it is a feature of the query.
    features = [
        replace(one, scope="query") if one.name == config.clustering.column else one
        for one in queries.features
    ]
    encoders = Encoders.of(queries)
    learned: Missing = (
        "nan" if all(learner.takes_gaps() for learner in config.learner.candidates()) else "median"
    )
    return FeatureContract.learn(
        queries.documents,
        queries.lengths.tolist(),
        features=config.contract.directed(features),
        encodings=() if encoders is None else encoders.encodings(),
        missing=config.contract.policies(
            queries.feature_names,
            queries.documents,
            learned,
            looked_up=[one.name for one in features if one.table is not None],
        ),
        constant=config.contract.constant,
        normalise=config.contract.normalise,
    )


def lists_of(queries: QuerySet, config: TrainingConfig) -> tuple[QuerySet, Vector | None]:
    """Return what is learned from: the queries, with shorter lists of them where asked for, and what each counts."""
    if config.lists.lengths is None:
        return queries, queries.weights
    return with_shorter_lists(queries, config.lists.lengths, by=config.lists.by, seed=config.seed)


def wants_route(blocks: str) -> bool:
    """Tell whether a learner's blocks are known after routing only."""
    return any(block.name == "route" for block in parse(blocks))


def plan_of(clouds: Clouds, config: TrainingConfig, like: Plan | None = None) -> Plan:
    """Represent and cluster the training queries, and make the router over them.

    Args:
        clouds: the training queries.
        config: the settings.
        like: a plan of the same queries by the same contract and representation: its points are taken.

    Raises:
        InvalidData: no query can be compared with another.
    """
    clouds = clouds.as_served
    if config.clustering.method == "none":
        nowhere = np.full(len(clouds), NO_CLUSTER, np.int64)
        none = NoRepresentation()
        clustering = Clustering(nowhere, (), np.zeros(0, np.int64))
        return Plan(clouds.contract, none, clustering, GlobalRouter(), NoPoints(len(clouds)))
    if config.clustering.column is not None:
        kind, values, clustering, by_kind = kinds_of(
            clouds, config.clustering.column, config.clustering.least
        )
        return Plan(clouds.contract, kind, clustering, by_kind, values)
    if like is None or like.representation.method == "none":
        representation = make_representation(clouds, config)
        points = representation.of_all(clouds)
    else:
        representation, points = like.representation, like.points
    similarity = config.similarity.name
    if config.clustering.representation != "routing":
        by = labelled_points(clouds, config.clustering.representation)
        found = cluster(by, config.clustering, config.seed, "euclidean")
        clustering = Clustering(found.labels, found.lessons, medoids(points, found.labels, similarity))
    else:
        clustering = cluster(points, config.clustering, config.seed, similarity)
    if not len(clustering):
        raise InvalidData(
            "expected a query with two different documents, found none, so there is nothing to cluster; use "
            "method 'global'"
        )
    router = make_router(points, clustering, config)
    return Plan(clouds.contract, representation, clustering, router, points)


def prepared(
    queries: QuerySet,
    validation: QuerySet | None,
    config: TrainingConfig,
    blocks: str,
    plan: Plan | None = None,
) -> tuple[Clouds, Clouds | None, Plan | None]:
    """Return the training and the validation queries as a learner of these blocks sees them, and the plan.

    If the blocks need routes, the plan is made if it is not given. Validation queries are routed as new queries are;
    a training query is routed by a router without it and without a fifth of the others, because otherwise it would find
    itself.
    """
    contract = learn_contract(queries, config) if plan is None else plan.contract
    clouds, held = Clouds(queries, contract), None if validation is None else Clouds(validation, contract)
    if not wants_route(blocks):
        return clouds.to_learn_from(), held, plan
    plan = plan or plan_of(clouds, config)
    n_clusters = len(plan.clustering)
    if validation is not None and held is not None:
        held = Clouds(validation, contract, _routes(plan, held), n_clusters)
    clouds = Clouds(queries, contract, own_routes(plan, config), n_clusters)
    return clouds.to_learn_from(), held, plan


def build(
    queries: QuerySet,
    config: TrainingConfig,
    learner: Learner,
    *,
    validation: QuerySet | None = None,
    global_scorer: Scorer | None = None,
    local_learner: Learner | None = None,
    plan: Plan | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> Built:
    """Build a ranker with settled settings.

    Args:
        queries: what it learns from.
        config: the settings; ``clustering.clusters`` counts, not ``candidates``.
        learner: learns every scorer.
        validation: for learners that stop early.
        global_scorer: where it has been learned already from the same queries.
        local_learner: learns the clusters' scorers, of the same blocks; ``learner`` by default.
        plan: of the same queries and settings, if it has been made already.
        workers: processes that learn the clusters; the result does not depend on it.
        progress: told how far it is.
    """
    queries, weights = lists_of(queries, config)
    clouds, held, plan = prepared(queries, validation, config, learner.blocks, plan)
    lesson = lesson_of(clouds, held, weights, learner)
    notes: tuple[str, ...] = ()
    if global_scorer is None:
        with collected() as said:
            global_scorer = learner.learn(lesson)
        notes = tuple(f"global scorer: {one.method}: {one.text}" for one in said)

    plan = plan or plan_of(clouds, config)
    towards = global_scorer if config.clustering.continuation else None
    locally = replace(lesson, start=global_scorer, towards=towards)
    local = _Local(local_learner or learner, locally, held, global_scorer, workers)
    for number in range(config.clustering.rounds):
        scorers, _, _ = local.fit(plan, partial(progress, f"clusters, round {number + 1}"))
        plan = regrouped(plan, scorers, lesson, config)
    clustering = plan.clustering
    typical = tuple(queries.query_ids[prototype] for prototype in clustering.prototypes)
    if not config.clustering.local:
        alike = (global_scorer,) * len(clustering)
        ranker = Ranker(clouds.contract, plan.representation, plan.router, alike, global_scorer)
        return Built(ranker, clustering.labels, typical, notes)
    scorers, said_of, learned = local.fit(plan, partial(progress, "clusters"))
    ranker = Ranker(clouds.contract, plan.representation, plan.router, scorers, global_scorer)
    return Built(ranker, clustering.labels, typical, notes + said_of, learned)


def served(built: Built) -> Built:
    """Return what was built, without what cannot change an answer.

    Members of blends that weigh nothing are left out. If every cluster has the global scorer, and this does not look at the
    route, there are no clusters; the representation stays, for the map of the queries.
    """
    ranker = built.ranker
    whole, scorers = ranker.global_scorer, ranker.scorers
    kept = {one: one.counting() if isinstance(one, BlendScorer) else one for one in (*scorers, whole)}
    looks = any(isinstance(one, Leaf) and wants_route(one.blocks) for one in distinct([kept[whole]]))
    if looks or any(scorer is not whole for scorer in scorers):
        mine = tuple(kept[scorer] for scorer in scorers)
        return replace(built, ranker=replace(ranker, scorers=mine, global_scorer=kept[whole]))
    said = (
        "no cluster has a scorer of its own, so the version has no clusters and no hash tables: the global scorer answers "
        "every query, which is neither signed nor routed"
    )
    ranker = Ranker(ranker.contract, ranker.representation, GlobalRouter(), (), kept[whole])
    return replace(built, ranker=ranker, notes=(*built.notes, *([said] if scorers else [])))


@dataclass(frozen=True, slots=True, eq=False)
class _Local:
    """Everything that the scorers of clusters need for learning, apart from the clusters."""

    learner: Learner
    lesson: Lesson
    held: Clouds | None
    global_scorer: Scorer
    workers: int

    def fit(
        self, plan: Plan, progress: Callable[[int, int], None]
    ) -> tuple[tuple[Scorer, ...], tuple[str, ...], tuple[Note, ...]]:
        """Learn the scorer of every cluster; also return what is to be said of each, and what was noted."""
        learned = in_parallel(
            learn_cluster,
            [(self.learner, one, self.global_scorer) for one in _lessons(self.lesson, plan, self.held)],
            workers=self.workers,
            progress=progress,
        )
        notes = tuple(
            f"cluster {number} ({len(members.queries)} queries){text}"
            for number, (members, (_, said, error)) in enumerate(
                zip(plan.clustering.lessons, learned, strict=True)
            )
            for text in (
                [f" uses the global scorer: {error}"] if error else [f": {n.method}: {n.text}" for n in said]
            )
        )
        scorers = tuple(unpacked(content, self.global_scorer) for content, _, _ in learned)
        return scorers, notes, tuple(n for _, said, _ in learned for n in said)


def lesson_of(clouds: Clouds, held: Clouds | None, weights: Vector | None, learner: Learner) -> Lesson:
    """Return what the global scorer is learned from."""
    return Lesson(
        clouds.seen_as(learner.blocks),
        weights,
        None if held is None else held.seen_as(learner.blocks),
        blocks=learner.blocks,
        widths=clouds.widths,
        directions=clouds.directions,
    )


def _routes(plan: Plan, clouds: Clouds) -> list[Route]:
    return [plan.router.route(plan.representation.of(cloud)) for cloud in clouds]


def own_routes(plan: Plan, config: TrainingConfig) -> list[Route]:
    """Return the routes of the training queries, each by a router that does not know it."""
    points, labels = plan.points, plan.clustering.labels
    routes = [plan.router.route(points.of(query)) for query in range(len(points))]
    part_of = np.random.default_rng(config.seed).permutation(np.arange(len(points)) % _PARTS)
    for part in range(_PARTS):
        known = np.flatnonzero((part_of != part) & (labels >= 0))
        router = router_of_part(plan.router, points, plan.clustering, known, config) if len(known) else None
        if router is not None:
            for query in np.flatnonzero(part_of == part).tolist():
                routes[query] = router.route(points.of(query))
    return routes


def _lessons(lesson: Lesson, plan: Plan, held: Clouds | None) -> list[Lesson]:
    """Return what each cluster's scorer is learned from.

    A cluster stops early by the validation queries that will come to it, or by all of them if too few will.
    """
    routes = [] if held is None or not len(plan.clustering) else _routes(plan, held)
    went_to = np.array([-1 if route.cluster is None else route.cluster for route in routes])
    lessons = []
    for number, members in enumerate(plan.clustering.lessons):
        everything = np.array_equal(members.queries, np.arange(len(lesson.queries)))
        one = lesson if everything else lesson.select(members.queries)
        if members.weights is not None:
            one = replace(one, weights=one.shares * members.weights)
        here = np.flatnonzero(went_to == number)
        if one.validation is not None and len(here) >= _ENOUGH_TO_STOP_BY:
            one = replace(one, validation=one.validation.select(here))
        lessons.append(one)
    return lessons


def learn_cluster(learner: Learner, lesson: Lesson, global_scorer: Scorer) -> tuple[bytes, list[Note], str]:
    """Learn one cluster's scorer, or take the global one if its queries teach nothing; also return the notes, and why.

    The scorer is packed: the members that it shares with the global one stay shared.
    """
    try:
        with collected() as said:
            scorer = learner.learn(lesson)
    except InvalidData as error:
        return packed(global_scorer, global_scorer), [], str(error)
    return packed(scorer, global_scorer), said, ""
