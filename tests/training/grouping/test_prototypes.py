"""Soft clusters: the weights by hand and at their limits, and prototypes that stand for kinds of queries."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.features.contract import FeatureContract
from localrank.points.signature import PcaRepresentation, Signatures
from localrank.points.similarity import all_pairs
from localrank.scorers import LinearScorer
from localrank_training.data.clouds import Clouds
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.grouping.clustering import cluster
from localrank_training.grouping.prototypes import Locality, choose_prototypes, local_weights, similarities_to
from localrank_training.run.pipeline import build
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.steps import ClusteringSettings
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from localrank.arrays import Indices


def kinds_of_points(n_queries: int = 80, seed: int = 0) -> tuple[Signatures, Indices]:
    queries, kinds = synthesize(n_queries, Recipe(features=12, kinds=4), seed=seed)
    contract = FeatureContract.learn(queries.documents, queries.lengths.tolist(), normalise="global_zscore")
    return PcaRepresentation(2).of_all(Clouds(queries, contract)), kinds


def test_weights_are_the_formula() -> None:
    similarities = np.array([[0.1, 0.9], [0.2, 0.5], [0.6, 0.4], [0.8, 0.1]])

    found = local_weights(similarities, Locality(share=0.5, shrink=0.25))

    for number, column in enumerate(similarities.T):
        threshold, spread = np.quantile(column, 0.5), column.std()
        near = [1 / (1 + exp((threshold - one) / (0.2 * spread))) for one in column]
        expected = [4 * (one / sum(near) + 0.25 / 4) / 1.25 for one in near]
        np.testing.assert_allclose(found[number], expected)


@pytest.mark.parametrize("shrink", [0.0, 0.3, 5.0])
def test_queries_count_one_on_average(shrink: float) -> None:
    similarities = np.random.default_rng(0).random((50, 3))

    weights = local_weights(similarities, Locality(0.2, shrink))

    np.testing.assert_allclose(weights.mean(axis=1), 1.0)
    assert weights.min() >= shrink / (1 + shrink) - 1e-12


def test_a_large_shrink_is_the_global_model_and_none_leaves_the_near_ones() -> None:
    similarities = np.random.default_rng(0).random((400, 2))

    alike, near = (local_weights(similarities, Locality(0.1, shrink)) for shrink in (1e12, 0.0))

    np.testing.assert_allclose(alike, 1.0)
    for number in range(2):
        nearest = np.argsort(-similarities[:, number])
        assert near[number][nearest[:40]].mean() > 5.0
        assert near[number][nearest[200:]].mean() < 0.01


def test_queries_that_cannot_be_compared_are_near_to_nothing() -> None:
    similarities = np.array([[0.2], [-np.inf], [0.9], [0.4]])

    weights = local_weights(similarities, Locality(0.5, 0.5))

    assert weights[0, 1] == pytest.approx(0.5 / 1.5)
    assert weights.sum() == pytest.approx(4)


def test_equal_similarities_give_equal_weights() -> None:
    np.testing.assert_allclose(local_weights(np.full((5, 2), 0.3), Locality(0.2, 0.0)), 1.0)


def test_prototypes_stand_for_the_kinds() -> None:
    points, kinds = kinds_of_points()

    found = choose_prototypes(points, 4, sample=5000, seed=0, similarity="covariance")

    assert sorted(kinds[found].tolist()) == [0, 1, 2, 3]
    nearest = similarities_to(points, found, "covariance").argmax(axis=1)
    np.testing.assert_array_equal(kinds[found][nearest], kinds)


def test_queries_are_nearer_to_prototypes_than_to_queries_drawn_at_random() -> None:
    points, _ = kinds_of_points(seed=3)
    similarities = all_pairs(points, "covariance")
    found = choose_prototypes(points, 6, sample=5000, seed=0, similarity="covariance")

    def closeness(queries: Indices) -> float:
        return float(similarities[:, queries].max(axis=1).mean())

    drawn = [np.random.default_rng(seed).choice(80, 6, replace=False) for seed in range(20)]
    assert closeness(found) > max(map(closeness, drawn))


def test_of_many_queries_a_sample_is_looked_at() -> None:
    points, kinds = kinds_of_points(200)

    found = choose_prototypes(points, 4, sample=50, seed=0, similarity="covariance")

    assert len(set(kinds[found].tolist())) == 4
    again = choose_prototypes(points, 4, sample=50, seed=0, similarity="covariance")
    np.testing.assert_array_equal(found, again)


def test_twins_are_one_prototype() -> None:
    points, _ = kinds_of_points(5)
    twins = points.take(np.zeros(7, np.int64))

    assert len(choose_prototypes(twins, 3, sample=10, seed=0, similarity="covariance")) == 1


def test_a_query_belongs_to_the_nearest_prototype_and_teaches_all() -> None:
    points, _ = kinds_of_points()
    settings = ClusteringSettings("prototypes", 4, share=0.25, shrink=0.1)

    found = cluster(points, settings, similarity="covariance")

    similarities = similarities_to(points, found.prototypes, "covariance")
    np.testing.assert_array_equal(found.labels, similarities.argmax(axis=1))
    np.testing.assert_array_equal(found.labels[found.prototypes], np.arange(4))
    for number, lesson in enumerate(found.lessons):
        np.testing.assert_array_equal(lesson.queries, np.arange(80))
        assert lesson.weights is not None
        np.testing.assert_allclose(lesson.weights, local_weights(similarities, Locality(0.25, 0.1))[number])


@pytest.mark.parametrize("learner", ["ranksvm", "linear"])
def test_a_linear_learner_is_local_by_its_weights(learner: str) -> None:
    """Two kinds that want opposite orders: without shrinking each prototype has its own, with much they are one."""
    queries = two_kinds(40)

    def weights(shrink: float) -> list[list[float]]:
        config = TrainingConfig.from_tables(
            {
                "contract": {"normalise": "none"},
                "representation": {"components": 1},
                "clustering": {"method": "prototypes", "clusters": 2, "share": 0.5, "shrink": shrink},
                "learner": {"method": learner},
            }
        )
        made = build(queries, config, config.learner.candidates()[0]).ranker.scorers
        return [scorer.weights.tolist() for scorer in made if isinstance(scorer, LinearScorer)]

    own, alike = weights(0.0), weights(1e9)

    assert np.corrcoef(np.array(own))[0, 1] < 0.5
    np.testing.assert_allclose(alike[0], alike[1], rtol=1e-4)


def test_how_local_the_models_are_is_a_choice_like_any_other() -> None:
    config = TrainingConfig.from_tables(
        {
            "contract": {"normalise": "none"},
            "representation": {"components": 1},
            "clustering": {"method": "prototypes", "clusters": 2, "share": 0.5, "shrink": [0.0, 50.0]},
            "learner": {"method": "linear", "ridge": 0.1},
        }
    )

    trained = train(two_kinds(40), config)

    assert [trial.setting for trial in trained.trials] == [
        "share = 0.5, shrink = 0.0",
        "share = 0.5, shrink = 50.0",
    ]
    assert trained.config.clustering.shrink == 0.0


@pytest.mark.parametrize(("gate", "local"), [(2.0, True), (1000.0, False)])
def test_local_models_pass_the_gate_if_they_are_better_by_enough(gate: float, local: bool) -> None:  # noqa: FBT001
    queries = two_kinds(40)
    clustering = {"method": "prototypes", "clusters": 2, "share": 0.5, "shrink": 0.0, "gate": gate}
    config = TrainingConfig.from_tables(
        {
            "contract": {"normalise": "none"},
            "representation": {"components": 1},
            "clustering": clustering,
            "learner": {"method": "linear", "ridge": 0.1},
        }
    )

    trained = train(queries, config)

    ranker = trained.built.ranker
    assert trained.config.clustering.local is local
    # Without local models there is nothing to route to.
    assert [scorer is ranker.global_scorer for scorer in ranker.scorers] == ([False, False] if local else [])
    routes = [ranker.rank(documents).route for documents in queries.clouds()]
    assert {route.local for route in routes} == {local}
    assert {route.cluster for route in routes} == ({0, 1} if local else {None})
    (said,) = [warning for warning in trained.warnings if "standard error" in warning]
    assert ("every cluster gets the global scorer" in said) is not local
    held = trained.held_out.ranked
    assert np.array_equal(held.scores, held.global_scores) is not local
