"""Training queries in two dimensions: the best ones, near each other if they are alike."""

from __future__ import annotations

import numpy as np
import pytest

from localrank.contract import FeatureContract
from localrank.measures import all_pairs
from localrank.signature import PcaRepresentation, Signatures
from localrank_training.clouds import Clouds
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.query_map import query_map


def points_of(n_queries: int = 60, kinds: int = 3) -> tuple[Signatures, np.ndarray]:
    queries, of_kind = synthesize(n_queries, Recipe(features=12, kinds=kinds), seed=1)
    contract = FeatureContract.learn(queries.documents, queries.lengths.tolist(), normalise="global_zscore")
    return PcaRepresentation(2).of_all(Clouds(queries, contract)), of_kind


@pytest.mark.parametrize("similarity", ["eq5", "covariance"])
def test_coordinates_are_the_best_two_dimensions_of_the_centred_similarities(similarity: str) -> None:
    points, _ = points_of()
    similarities = all_pairs(points, similarity)
    centring = np.eye(len(points)) - 1 / len(points)
    centred = centring @ similarities @ centring

    found = query_map(points, similarity)

    left, sizes, right = np.linalg.svd(centred)
    best = (left[:, :2] * sizes[:2]) @ right[:2]
    np.testing.assert_allclose(found.coordinates @ found.coordinates.T, best, atol=1e-4)
    assert found.shown == pytest.approx((sizes[:2] ** 2).sum() / (sizes**2).sum(), abs=1e-9)


def test_queries_of_one_kind_are_near_each_other() -> None:
    points, kinds = points_of()

    found = query_map(points, "covariance").coordinates

    apart = np.linalg.norm(found[:, None] - found[None], axis=2)
    same = kinds[:, None] == kinds[None]
    assert apart[same].mean() < 0.5 * apart[~same].mean()


def test_queries_that_cannot_be_compared_have_no_place() -> None:
    points, _ = points_of()
    ranks = points.ranks.copy()
    ranks[[3, 17]] = 0

    found = query_map(Signatures(points.directions, points.eigenvalues, ranks), "eq5")

    assert {3, 17} == set(range(60)) - set(found.queries.tolist())
    assert (58, 2) == found.coordinates.shape


def test_of_many_queries_some_are_drawn_and_the_same_ones_again() -> None:
    points, _ = points_of()

    found, again = (query_map(points, "eq5", most=20, seed=5) for _ in range(2))

    assert 20 == len(found.queries) == len(np.unique(found.queries))
    np.testing.assert_array_equal(found.queries, again.queries)
    np.testing.assert_array_equal(found.coordinates, again.coordinates)


@pytest.mark.parametrize("n_queries", [0, 1, 2])
def test_a_map_of_hardly_any_queries(n_queries: int) -> None:
    points, _ = points_of()

    found = query_map(points.take(np.arange(n_queries)), "eq5")

    assert (n_queries, 2) == found.coordinates.shape
    assert np.isfinite(found.coordinates).all()
