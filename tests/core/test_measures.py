"""Every similarity, whatever it compares, and vectors as points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from localrank.errors import InvalidConfiguration
from localrank.features.contract import FeatureContract
from localrank.points.gaussian import GaussianPoints, GaussianRepresentation
from localrank.points.representation import NoPoint, NoRepresentation
from localrank.points.signature import Signatures
from localrank.points.similarity import MEASURES, all_pairs, measure_of, one_to_many
from localrank.points.vectors import MeanRepresentation, VectorPoint, VectorPoints
from localrank.routing.router import ExactRouter
from localrank.routing.routers import LshRouter, MedoidRouter
from tests.core.clouds import as_cloud, scattered

if TYPE_CHECKING:
    from localrank.points.representation import Points


def vectors(count: int = 30, width: int = 7, seed: int = 0) -> VectorPoints:
    values = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return VectorPoints(values, np.ones(count, np.bool_))


def gaussians(count: int = 20, width: int = 4) -> GaussianPoints:
    random = np.random.default_rng(0)
    clouds = [random.standard_normal((1 + query, width)).astype(np.float32) + query for query in range(count)]
    return GaussianRepresentation(np.eye(width), 0.5).of_all(map(as_cloud, clouds))


EXAMPLES: dict[type[Points], Points] = {
    Signatures: scattered(30),
    VectorPoints: vectors(),
    GaussianPoints: gaussians(),
}


@pytest.mark.parametrize("similarity", MEASURES)
def test_a_similarity_is_symmetric_at_most_one_and_one_for_itself(similarity: str) -> None:
    points = EXAMPLES[MEASURES[similarity].takes]
    known = np.flatnonzero(points.known)

    pairs = all_pairs(points, similarity)

    np.testing.assert_array_equal(pairs, pairs.T)
    assert pairs.min() >= 0
    assert pairs.max() <= 1
    np.testing.assert_allclose(pairs[known, known], 1.0, atol=1e-6)
    for query in known.tolist():
        np.testing.assert_allclose(
            one_to_many(points.of(query), points, similarity)[known], pairs[query, known], atol=1e-5
        )


def test_the_euclidean_similarity_falls_with_the_distance() -> None:
    points = vectors()

    found = one_to_many(points.of(3), points, "euclidean")

    distances = cdist(points.values[3:4].astype(float), points.values.astype(float))[0]
    np.testing.assert_allclose(found, 1 / (1 + distances), rtol=1e-6)


def test_extreme_vectors_are_compared_without_warnings() -> None:
    values = np.array([[3e38, -3e38], [-3e38, 3e38], [0, 1e-45]], np.float32)

    found = all_pairs(VectorPoints(values, np.ones(3, np.bool_)), "euclidean")

    np.testing.assert_allclose(found, np.eye(3), atol=1e-30)


@pytest.mark.parametrize(
    ("similarity", "points", "message"),
    [
        ("cosine", vectors(), "expected one of eq5, .*, euclidean, .*, found 'cosine'"),
        ("euclidean", scattered(30), "'euclidean' compares VectorPoints, found Signatures"),
        ("eq5", vectors(), "'eq5' compares Signatures, found VectorPoints"),
        ("kl", vectors(), "'kl' compares GaussianPoints, found VectorPoints"),
        ("euclidean", gaussians(), "'euclidean' compares VectorPoints, found GaussianPoints"),
    ],
)
def test_points_of_another_kind_are_refused(similarity: str, points: Points, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^similarity: {message}"):
        measure_of(similarity, points)
    with pytest.raises(InvalidConfiguration, match=message):
        ExactRouter(points, np.zeros(len(points), np.int64), similarity)
    with pytest.raises(InvalidConfiguration, match=message):
        MedoidRouter(points, similarity)


def test_vectors_are_taken_in_the_order_asked_for() -> None:
    points = VectorPoints(vectors().values, np.arange(30) % 3 > 0)

    some = points.take(np.array([4, 0, 7]))

    assert [True, False, True] == some.known.tolist()
    np.testing.assert_array_equal(some.of(2).values, points.of(7).values)
    assert (3, {"width": 7}) == (len(some), some.of(0).summary())


def test_the_mean_is_that_of_the_normalised_documents() -> None:
    random = np.random.default_rng(0)
    queries = [random.random((n, 5)).astype(np.float32) * 9 for n in (1, 4, 30)]
    contract = FeatureContract.learn(np.concatenate(queries), [1, 4, 30])
    clouds = [contract.cloud(query) for query in (*queries, queries[0][:0])]

    points = MeanRepresentation().of_all(clouds)

    for query, cloud in enumerate(clouds[:3]):
        np.testing.assert_allclose(points.values[query], cloud.normalised.mean(axis=0), rtol=1e-5)
        np.testing.assert_array_equal(points.of(query).values, MeanRepresentation().of(cloud).values)
    assert [True, True, True, False] == points.known.tolist()
    assert {"width": 5} == MeanRepresentation.sizes({}, 5)


@pytest.mark.parametrize("router", [ExactRouter, MedoidRouter])
def test_vectors_are_routed_to_the_nearest(router: type[ExactRouter | MedoidRouter]) -> None:
    points = vectors(4)
    made = (
        ExactRouter(points, np.array([0, 0, 1, 1]), "euclidean")
        if router is ExactRouter
        else MedoidRouter(points.take(np.array([0, 2])), "euclidean")
    )
    near = VectorPoint(points.values[2] + np.float32(0.01))

    route = made.route(near)

    assert (1, None) == (route.cluster, route.fallback)
    similarities = one_to_many(near, points, "euclidean")
    best = max(similarities[:2]) if router is ExactRouter else similarities[0]
    assert route.margin == pytest.approx(similarities[2] - best)
    nearest = made.nearest(near, 2)
    assert nearest is not None
    np.testing.assert_allclose(nearest, [best, similarities[2]])
    unknown = VectorPoint(points.values[0], known=False)
    assert ("no_signature", None) == (made.route(unknown).fallback, made.nearest(unknown, 2))


def test_hash_tables_take_signatures_only() -> None:
    tables = None  # refused before they are looked at
    with pytest.raises(InvalidConfiguration, match="hash tables hold signatures, found VectorPoints"):
        LshRouter(vectors(), np.zeros(30, np.int64), tables, similarity="euclidean")  # type: ignore[arg-type]


def test_a_model_that_compares_nothing_has_points_that_are_not_known() -> None:
    contract = FeatureContract.learn(np.ones((2, 1), np.float32), [2])
    none = NoRepresentation()

    points = none.of_all([contract.cloud(np.ones((2, 1), np.float32))] * 5)

    assert (5, False, {}) == (
        len(points),
        bool(points.known.any()),
        none.of(contract.cloud(np.ones((1, 1), np.float32))).summary(),
    )
    assert (NoPoint(), 2) == (points.of(3), len(points.take(np.array([1, 2]))))
