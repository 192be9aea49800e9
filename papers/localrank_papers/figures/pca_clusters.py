"""Clusters of queries by the largest values of every feature, and what their models answer on one fold [lwin].

A query is the mean of its top h values of every feature, on principal directions of the rows of all training queries. Read
literally the paper centres the rows of each query and takes the mean of their scores, which is zero for every query
(`literal_points`). Everything else is the paper's: bisecting k-means, a RankSVM for each cluster, the nearest centroid.

Nothing but training and validation queries decides: they are known, and cross-validated (`crossed`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank.points.vectors import top_scores
from localrank.ranker import Ranker
from localrank_training.data.clouds import Clouds
from localrank_training.data.queries import concatenated
from localrank_training.evaluation.stability import CHANGES, flip_rates
from localrank_training.grouping.routers import make_router
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.seen import scores_of
from localrank_training.run.choosing import folds_of
from localrank_training.run.pipeline import Plan, learn_contract, plan_of
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.points.vectors import VectorPoints
    from localrank.scorers import LinearScorer
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_training.data.queries import QuerySet

#: P@n and NDCG@n for n from 1 to 10, and MAP (section 4.2).
METRICS = (*(f"p@{n}" for n in range(1, 11)), *(f"ndcg@{n}" for n in range(1, 11)), "map")
_BLOCKS = "normalised"
#: Tolerance of RankSVM. Weights this near to the optimum rank equally well, and are found in half the time.
_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class _Learned:
    """Models of one clustering.

    Attributes:
        plan: the clusters and how a query finds its own; None for one model.
        models: one for each cluster.
    """

    plan: Plan | None
    models: tuple[LinearScorer, ...]

    def routes(self, clouds: Clouds) -> Indices:
        """Return ``[n_queries]`` the cluster of each query; 0 if it cannot be compared."""
        if self.plan is None:
            return np.zeros(len(clouds), np.int64)
        points = self.plan.representation.of_all(clouds)
        routes = (self.plan.router.route(points.of(query)) for query in range(len(clouds)))
        return np.array([route.cluster or 0 for route in routes], np.int64)


def crossed(
    fold: Fold,
    *,
    scores: Sequence[int],
    components: Sequence[int],
    clusters: Sequence[int],
    strengths: Sequence[float],
    parts: int,
    draw: int | None = None,
    seed: int = 0,
) -> Arrays:
    """Cross-validate all settings over the known queries.

    Args:
        fold: its training and validation queries are known.
        scores: h, how many values of every feature.
        components: how many principal directions.
        clusters: how many clusters; 1 is one model.
        strengths: C of RankSVM.
        parts: of the cross-validation.
        draw: which dealing of the queries to clusters of the same sizes; None for the clusters themselves.
        seed: of the parts and the dealing.

    Returns:
        ``map [n_scores, n_components, n_clusters, n_strengths, n_queries]`` of every known query by models that have not seen it.
    """
    known = _known(fold)
    found = np.empty((len(scores), len(components), len(clusters), len(strengths), len(known)))
    for part in folds_of(len(known), parts, seed):
        rest, left_out = known.select(np.setdiff1d(np.arange(len(known)), part)), known.select(part)
        clouds = Clouds(rest, learn_contract(rest, _config(1, 1, 1)))
        asked = Clouds(left_out, clouds.contract)
        exam, judged = _lesson(asked), Judgements(left_out.labels, left_out.offsets)
        learner = _Learner(clouds, strengths)
        one_model = learner.fit(None)
        alone = [judged.per_query(_scored([one], exam)[0], "map") for (one,) in one_model]
        for a, h in enumerate(scores):
            for b, width in enumerate(components):
                for c, count in enumerate(clusters):
                    if count == 1:
                        found[a, b, c][:, part] = alone
                        continue
                    plan = _plan(clouds, _config(h, width, count), draw, seed)
                    for d, models in enumerate(learner.fit(plan)):
                        learned = _Learned(plan, models)
                        answers = _scored(models, exam)
                        routed = _routed(answers, learned.routes(asked), left_out)
                        found[a, b, c, d, part] = judged.per_query(routed, "map")
    return {"map": found}


def answered(
    fold: Fold,
    *,
    scores: int,
    components: int,
    clusters: int,
    strength: float,
    convention: str,
    draw: int | None = None,
    seed: int = 0,
) -> Arrays:
    """Learn from all known queries and measure on test queries.

    Returns:
        ``routed [n_metrics, n_queries]``; ``models [n_clusters, n_metrics, n_queries]``; ``route [n_queries]``;
        ``points [n_known, width]`` and their ``labels``; ``flips`` by the changes of `localrank_training.evaluation.stability`.
    """
    known = _known(fold)
    clouds = Clouds(known, learn_contract(known, _config(1, 1, 1)))
    asked = Clouds(fold.test, clouds.contract)
    config = _config(scores, components, clusters)
    plan = None if clusters == 1 else _plan(clouds, config, draw, seed)
    (models,) = _Learner(clouds, [strength]).fit(plan)
    learned = _Learned(plan, models)
    judged = Judgements(fold.test.labels, fold.test.offsets, convention)
    answers = _scored(models, _lesson(asked))
    route = learned.routes(asked)
    found: Arrays = {
        "routed": judged.every_per_query(_routed(answers, route, fold.test), METRICS),
        "models": np.stack([judged.every_per_query(one, METRICS) for one in answers]),
        "route": route,
    }
    if plan is None:
        return found
    ranker = Ranker(clouds.contract, plan.representation, plan.router, models, models[0])
    rates = flip_rates(ranker, fold.test, seed) if draw is None else {}
    return {
        **found,
        "points": cast("VectorPoints", plan.points).values,
        "labels": plan.clustering.labels,
        "flips": np.array([rates[name] for name in CHANGES if name in rates]),
    }


class _Learner:
    """Learns the models of clusters, each set of queries once.

    Args:
        clouds: the queries.
        strengths: C, each by itself.
    """

    def __init__(self, clouds: Clouds, strengths: Sequence[float]) -> None:
        self._lesson, self._strengths = _lesson(clouds), strengths
        self._known: dict[bytes, tuple[LinearScorer, ...]] = {}

    def fit(self, plan: Plan | None) -> list[tuple[LinearScorer, ...]]:
        """Return the models of all clusters, for each strength."""
        everything = np.arange(len(self._lesson.queries))
        members = [everything] if plan is None else [one.queries for one in plan.clustering.lessons]
        return list(zip(*(self._of(one) for one in members), strict=True))

    def _of(self, members: Indices) -> tuple[LinearScorer, ...]:
        key = members.tobytes()
        if key not in self._known:
            everything = len(members) == len(self._lesson.queries)
            try:
                self._known[key] = tuple(self._path(members))
            except InvalidData:
                if everything:
                    raise
                # A cluster that teaches nothing has the model of all queries.
                self._known[key] = self._of(np.arange(len(self._lesson.queries)))
        return self._known[key]

    def _path(self, members: Indices) -> list[LinearScorer]:
        lesson = self._lesson.select(members)
        found: list[LinearScorer] = []
        for strength in self._strengths:
            # From the solution of the last strength, which only saves time.
            start = replace(lesson, start=found[-1]) if found else lesson
            found.append(RankSvm(C=strength, tolerance=_TOLERANCE, blocks=_BLOCKS).fit(start))
        return found


def pooled_points(queries: QuerySet, scores: int, components: int) -> Vector:
    """Return ``[n_queries, components]`` the points by axes of all queries' rows."""
    config = _config(scores, components, 2)
    clouds = Clouds(queries, learn_contract(queries, config))
    return cast("VectorPoints", plan_of(clouds, config).points).values.astype(np.float64)


def literal_points(clouds: Sequence[Matrix], scores: int, components: int) -> Vector:
    """Return ``[n_queries, components]``: the result of Figure 3 of the paper if it is followed for each query
    separately.

    Steps 2 to 6: subtract the mean of the query's rows, project them on their own principal directions; then their mean.
    """
    found = np.zeros((len(clouds), components))
    for query, documents in enumerate(clouds):
        rows, axes = own_axes(documents, scores)
        projected = (rows - rows.mean(axis=0)) @ axes[:components].T
        found[query, : projected.shape[1]] = projected.mean(axis=0)
    return found


def own_axes(documents: Matrix, scores: int) -> tuple[Vector, Vector]:
    """Return the top rows of one query and their principal directions, ``[rank, n_features]``."""
    rows = top_scores(documents, scores).astype(np.float64)
    return rows, np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2]


def _known(fold: Fold) -> QuerySet:
    return concatenated([fold.train, fold.validation]) if len(fold.validation) else fold.train


def _config(scores: int, components: int, clusters: int) -> TrainingConfig:
    tables = {name: dict(table) for name, table in METHODS["pca_query"].items()}
    tables["representation"] |= {"scores": scores, "components": components}
    tables["clustering"] |= {"clusters": clusters}
    return TrainingConfig.from_tables(tables)


def _plan(clouds: Clouds, config: TrainingConfig, draw: int | None, seed: int) -> Plan:
    plan = plan_of(clouds, config)
    if draw is None:
        return plan
    clustering = plan.clustering
    labels = clustering.labels.copy()
    there = np.flatnonzero(labels >= 0)
    labels[there] = np.random.default_rng([seed, draw]).permutation(labels[there])
    lessons = tuple(
        replace(lesson, queries=np.flatnonzero(labels == number))
        for number, lesson in enumerate(clustering.lessons)
    )
    dealt = replace(clustering, labels=labels, lessons=lessons)
    return replace(plan, clustering=dealt, router=make_router(plan.points, dealt, config))


def _lesson(clouds: Clouds) -> Lesson:
    return Lesson(clouds.seen_as(_BLOCKS), blocks=_BLOCKS, widths=clouds.widths)


def _scored(models: Sequence[LinearScorer], exam: Lesson) -> Vector:
    """Return ``[n_models, n_docs]``."""
    return np.stack([scores_of(model, exam) for model in models])


def _routed(answers: Vector, routes: Indices, queries: QuerySet) -> Vector:
    return np.asarray(answers[routes[queries.query_of], np.arange(queries.n_docs)], np.float64)
