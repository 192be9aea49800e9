"""Clusters of queries by how the clusters' own models rank them, against loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from localrank.metrics import Judgements, measure
from localrank.routing.router import ExactRouter
from localrank.scorers import LinearScorer
from localrank_training.data.clouds import Clouds
from localrank_training.grouping.representations import PROFILE, profile_of
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.run.pipeline import build, learn_contract, lesson_of, profiles
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

SETTINGS = {
    "contract": {"normalise": "none"},
    "representation": {"components": 1},
    "routing": {"method": "exact"},
}


def test_a_profile_holds_every_metric_of_every_model() -> None:
    """Eq. 1 of Cremers et al.: all metrics by the first model, then all by the second."""
    queries = two_kinds(6)
    settings = TrainingConfig.from_tables(SETTINGS)
    lesson = lesson_of(Clouds(queries, learn_contract(queries, settings)), None, None, RankSvm())
    scorers = [LinearScorer(np.eye(5)[2]), LinearScorer(-np.eye(5)[2])]

    found = profiles(scorers, lesson)

    assert (6, 16) == found.values.shape
    for query in range(6):
        documents, labels = queries.documents_of(query), queries.labels_of(query)
        expected = [
            measure(labels, sign * documents[:, 2].astype(np.float64), [0, len(labels)], [metric])[0].mean
            for sign in (1, -1)
            for metric in PROFILE
        ]
        np.testing.assert_allclose(expected, found.values[query], rtol=1e-6)


def test_equal_scores_earn_nothing() -> None:
    judgements = Judgements([0, 1, 0, 0], [0, 4])

    (found,) = profile_of(judgements, np.zeros(4))

    assert (0.0, 1 / 4) == (found[PROFILE.index("p@3")], found[PROFILE.index("mrr@100")])


def test_a_query_with_nothing_relevant_is_in_no_cluster() -> None:
    queries = two_kinds(8)
    labels = queries.labels.copy()
    labels[queries.span(3)] = 0
    settings = TrainingConfig.from_tables(
        {
            **SETTINGS,
            "clustering": {"method": "kmeans", "representation": "relevant_mean", "clusters": 2, "rounds": 1},
        }
    )

    built = build(replace(queries, labels=labels), settings, RankSvm())

    assert [3] == np.flatnonzero(built.clusters < 0).tolist()


@pytest.mark.parametrize("method", ["kmeans", "ward"])
def test_a_few_rounds_find_the_queries_that_want_the_same_model(method: str) -> None:
    """The kinds differ in what is relevant; their clouds and the means of relevant documents do too, but not to k-means."""
    queries = two_kinds(24)
    clustering = {"method": method, "representation": "relevant_mean", "clusters": 2}
    tables = {**SETTINGS, "clustering": {**clustering, "rounds": 2}}

    built = build(queries, TrainingConfig.from_tables(tables), RankSvm())

    assert [set(range(0, 24, 2)), set(range(1, 24, 2))] == sorted(
        (set(np.flatnonzero(built.clusters == number).tolist()) for number in range(2)), key=min
    )
    assert isinstance(built.ranker.router, ExactRouter)
    np.testing.assert_array_equal(built.clusters, built.ranker.router.clusters)


def test_each_round_is_reported() -> None:
    tasks = []
    settings = TrainingConfig.from_tables(
        {
            **SETTINGS,
            "clustering": {"method": "ward", "representation": "relevant_mean", "clusters": 2, "rounds": 2},
        }
    )

    build(two_kinds(8), settings, RankSvm(), progress=lambda task, _done, _total: tasks.append(task))

    assert ["clusters, round 1", "clusters, round 2", "clusters"] == list(dict.fromkeys(tasks))
