r"""Adaptive training: cluster the training queries by how well the clusters' own models rank them [kuzi2019; cremers2020].

With the models of :math:`k` clusters and :math:`n` metrics, a query's *performance profile* (eq. 1 of Cremers et al.) is

.. math:: \vec q = (m_1^1, \dots, m_n^1, \dots, m_1^k, \dots, m_n^k)

where :math:`m_j^i` is metric ``j`` of the query as the model of cluster ``i`` ranks it. Queries are clustered anew by their
profiles, models are learned anew, and so on. The models have learned from the very queries that they are measured on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.metrics import Judgements
from localrank.points.vectors import VectorPoints
from localrank_training.clustering import Clustering, cluster, medoids
from localrank_training.learners.seen import scores_of
from localrank_training.profiles import profile_of
from localrank_training.routers import make_router

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector
    from localrank.scorers import Scorer
    from localrank_training.config import TrainingConfig
    from localrank_training.learners.lesson import Lesson
    from localrank_training.pipeline import Plan


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
