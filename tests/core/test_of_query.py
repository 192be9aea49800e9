"""Queries as points of their own features, and the router that a kind names."""

from __future__ import annotations

import numpy as np
import pytest

from localrank.features.contract import FeatureContract
from localrank.points.of_query import KindRepresentation, PcaQueryRepresentation, QueryRepresentation
from localrank.points.signature import PcaRepresentation
from localrank.points.vectors import VectorPoint
from localrank.routing.routers import KindRouter

RNG = np.random.default_rng(3)


def contract(n_features: int = 4) -> FeatureContract:
    return FeatureContract.learn(
        RNG.standard_normal((50, n_features)).astype(np.float32), [50], missing="nan", normalise="none"
    )


def documents(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_the_point_of_a_kind_is_its_value() -> None:
    one = contract().cloud(documents([1, 7, 0, 2], [3, 7, 1, 2]))

    assert ([7.0], True) == (
        KindRepresentation(1).of(one).values.tolist(),
        KindRepresentation(1).of(one).known,
    )
    lost = contract().cloud(documents([1, np.nan, 0, 2]))
    assert not KindRepresentation(1).of(lost).known
    assert not KindRepresentation(1).of(contract().cloud(np.zeros((0, 4), np.float32))).known


def test_a_kind_has_its_cluster_and_an_unknown_one_has_none() -> None:
    router = KindRouter(np.array([7.0, 2.5, 0.0], np.float32))

    routes = [router.route(VectorPoint(np.array([value], np.float32))) for value in (7, 2.5, 0, 1)]

    assert [0, 1, 2, None] == [route.cluster for route in routes]
    assert [None, None, None, "unknown_kind"] == [route.fallback for route in routes]
    unknown = router.route(VectorPoint(np.array([7], np.float32), known=False))
    assert (None, "unknown_kind", "kind") == (unknown.cluster, unknown.fallback, unknown.strategy)


def query_points() -> QueryRepresentation:
    """A number at 3 and a category of three values at 1, with one code for unknown values and one for none."""
    return QueryRepresentation(
        np.array([3, 1]), np.array([0, 5]), np.array([2.0, 0.0]), np.array([4.0, 1.0]), 6
    )


def test_numbers_are_standardised_and_categories_stand_at_their_code() -> None:
    half = np.sqrt(np.float32(0.5))

    points = query_points().of_all(
        [contract().cloud(documents([9, 2, 9, 10])), contract().cloud(documents([0, 4, 0, np.nan]))]
    )

    np.testing.assert_allclose(points.values, [[2, 0, 0, half, 0, 0], [0, 0, 0, 0, 0, half]], rtol=1e-6)
    assert [True, True] == points.known.tolist()


def test_two_values_of_a_category_are_at_distance_one() -> None:
    first, second = (
        query_points().of(contract().cloud(documents([0, code, 0, 1]))).values for code in (0, 3)
    )

    assert np.linalg.norm(first - second) == pytest.approx(1.0)


def test_a_width_that_does_not_fit_the_codes_is_refused() -> None:
    with pytest.raises(ValueError, match="width"):
        QueryRepresentation(np.array([0]), np.array([3]), np.zeros(1), np.ones(1), 2)


def test_the_subspace_part_is_as_far_apart_as_the_projectors() -> None:
    """The Frobenius norm of the difference of both projectors, by full matrices."""
    representation = PcaQueryRepresentation(np.array([0]), np.array([0]), np.zeros(1), np.ones(1), 1, 2)
    clouds = [contract().cloud(RNG.standard_normal((9, 4)).astype(np.float32)) for _ in range(2)]
    points = [representation.of(cloud).values[1:].astype(np.float64) for cloud in clouds]
    axes = [PcaRepresentation(2).of(cloud).directions.astype(np.float64) for cloud in clouds]

    first, second = (one.T @ one for one in axes)

    assert np.linalg.norm(points[0] - points[1]) == pytest.approx(np.linalg.norm(first - second), rel=1e-5)
    assert len(points[0]) == 10
