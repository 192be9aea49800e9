"""Importances against the formula, and what the manifest holds of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank import Registry
from localrank.artifact import read_manifest
from localrank_training.evaluation import features as importances
from localrank_training.evaluation.features import _errors, _first, importances_of
from localrank_training.publishing.publish import publish
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig
from tests.core.examples import example_queries, example_ranker
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path


def test_importances_of_a_linear_model_are_weights_times_mean_deviations() -> None:
    ranker = example_ranker("exact", "linear")
    queries = example_queries()

    found = importances_of(ranker, queries)

    assert found is not None
    sums = np.zeros((4, len(ranker.contract.names)))
    for documents in queries:
        cluster = ranker.rank(documents).route.cluster
        assert cluster is not None
        weights = ranker.scorers[cluster].arrays()["weights"]
        apart = np.abs((documents - documents.mean(axis=0, dtype=float)) * weights).sum(axis=0)
        sums[0] += apart
        sums[1 + cluster] += apart
    shares = sums / sums.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.overall, shares[0])
    np.testing.assert_allclose(found.clusters, shares[1:])
    assert [found.names[i] for i in np.argsort(-shares[1])[:5]] == found.features(0)
    assert [row["importance"] for row in found.table()] == sorted(found.overall, reverse=True)


def test_a_scorer_that_is_no_sum_over_features_has_no_importances() -> None:
    assert importances_of(example_ranker("exact", "anchored"), example_queries()) is None


def test_many_queries_are_thinned_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importances, "MOST_QUERIES", 8)
    ranker, queries = example_ranker("exact", "linear"), example_queries()

    found, expected = importances_of(ranker, queries), importances_of(ranker, queries[::3])

    assert found is not None
    assert expected is not None
    np.testing.assert_array_equal(expected.overall, found.overall)


def test_a_published_version_records_them(tmp_path: Path) -> None:
    queries, validation = two_kinds(40), two_kinds(12, seed=1)
    trained = train(queries, TrainingConfig(), validation=validation)

    reference = publish(Registry(tmp_path), "web", trained, queries, validation=validation)

    manifest = read_manifest(reference.path)
    table = manifest.metrics["importances"]
    assert sum(row["importance"] for row in table) == pytest.approx(1)
    for cluster in manifest.clusters:
        assert cluster.validation is not None
        assert set(cluster.validation["features"]) <= set(queries.feature_names)
        assert cluster.validation["features"]


def test_standard_errors_are_those_of_a_ratio_of_means() -> None:
    """Of three queries by hand: sums of deviations from the overall shares, over n - 1, divided by the total."""
    each = np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 4.0]])
    shares = np.array([6.0, 6.0]) / 12

    found = _errors(each, shares)

    apart = [(3 - 2) ** 2 + (1 - 1) ** 2 + (2 - 3) ** 2, (1 - 2) ** 2 + (1 - 1) ** 2 + (4 - 3) ** 2]
    np.testing.assert_allclose(found, [np.sqrt(3 / 2 * one) / 12 for one in apart])


def test_two_queries_have_errors_and_one_has_none() -> None:
    each = np.array([[3.0, 1.0], [1.0, 1.0]])

    two, one = _errors(each, np.array([4.0, 2.0]) / 6), _errors(each[:1], np.array([0.75, 0.25]))

    assert np.isfinite(two).all()
    assert [True, True] == np.isnan(one).tolist()
    assert [True, True] == np.isnan(_errors(np.zeros((3, 2)), np.zeros(2))).tolist()


def test_the_first_features_are_the_largest_that_matter() -> None:
    shares = np.array([0.1, 0.0, 0.4, 0.1, 0.4])

    assert [2, 4] == _first(shares, 2)
    assert [2, 4, 0] == _first(shares, 3)
    assert [2, 4, 0, 3] == _first(shares, 5)
