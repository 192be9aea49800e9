from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.covariance import empirical_covariance

from localrank.errors import ArtifactCorrupt, InvalidConfiguration
from localrank.points.gaussian import GaussianPoint, GaussianPoints, GaussianRepresentation
from localrank.points.similarity import all_pairs, one_to_many
from tests.core.clouds import as_cloud, cloud


def representation(n_features: int = 4, shrink: float = 0.3) -> GaussianRepresentation:
    root = np.random.default_rng(9).standard_normal((n_features, n_features))
    return GaussianRepresentation(root @ root.T + np.eye(n_features), shrink)


def points_of(count: int = 7, n_features: int = 4) -> GaussianPoints:
    random = np.random.default_rng(1)
    clouds = [
        as_cloud(cloud(random, int(random.integers(1, 20)), n_features) + query) for query in range(count)
    ]
    return representation(n_features).of_all(clouds)


def divergence(one: GaussianPoint, other: GaussianPoint) -> float:
    """Eq. 1 of LocalRank, as it stands."""
    inverse, apart = np.linalg.inv(other.covariance), other.mean - one.mean
    logarithm = np.log(np.linalg.det(other.covariance) / np.linalg.det(one.covariance))
    trace = np.trace(inverse @ one.covariance)
    return float(0.5 * (logarithm + trace) + 0.5 * (apart @ inverse @ apart - len(apart)))


def kernel(one: GaussianPoint, other: GaussianPoint) -> float:
    """Eq. 4 of LocalRank, as it stands."""
    first, second = np.linalg.inv(one.covariance), np.linalg.inv(other.covariance)
    both = np.linalg.inv(first / 2 + second / 2)
    mean = first @ one.mean / 2 + second @ other.mean / 2
    power = -one.mean @ first @ one.mean / 4 - other.mean @ second @ other.mean / 4 + mean @ both @ mean / 2
    size = np.linalg.det(one.covariance) ** -0.25 * np.linalg.det(other.covariance) ** -0.25
    return float(size * np.linalg.det(both) ** 0.5 * np.exp(power))


def test_the_covariance_is_the_query_s_shrunk_towards_the_pooled_one() -> None:
    made = representation(shrink=0.3)
    documents = cloud(np.random.default_rng(2), 15, 4)

    point = made.of(as_cloud(documents))

    expected = 0.7 * empirical_covariance(documents.astype(float)) + 0.3 * made.pooled
    np.testing.assert_allclose(point.covariance, expected, rtol=1e-10)
    np.testing.assert_allclose(point.precision @ expected, np.eye(4), atol=1e-10)
    assert np.log(np.linalg.det(expected)) == pytest.approx(point.log_determinant)
    np.testing.assert_allclose(point.mean, documents.astype(float).mean(axis=0), rtol=1e-10)
    assert {"width": 4, "log_determinant": point.log_determinant} == point.summary()


def test_one_document_has_the_pooled_covariance_and_none_is_not_known() -> None:
    made = representation(shrink=0.25)
    documents = cloud(np.random.default_rng(2), 15, 4)

    one, none = made.of(as_cloud(documents[:1])), made.of(as_cloud(documents[:0]))

    np.testing.assert_allclose(one.covariance, 0.25 * made.pooled)
    assert (True, False) == (one.known, none.known)


def test_the_symmetric_divergence_is_half_of_jeffreys_as_in_equation_2() -> None:
    points = points_of()

    for query in range(len(points)):
        found = one_to_many(points.of(query), points, "kl")
        for other in range(len(points)):
            one, two = points.of(query), points.of(other)
            jeffreys = divergence(one, two) + divergence(two, one)
            assert 1 / (1 + jeffreys / 2) == pytest.approx(found[other], rel=1e-9)


def test_the_kernel_is_that_of_equation_4() -> None:
    points = points_of()

    for query in range(len(points)):
        found = one_to_many(points.of(query), points, "bhattacharyya")
        for other in range(len(points)):
            expected = kernel(points.of(query), points.of(other))
            assert 1 / (1 - np.log(min(expected, 1.0))) == pytest.approx(found[other], rel=1e-9)


def test_the_kernel_is_the_integral_of_the_roots_of_both_densities() -> None:
    points = points_of(3, 1)
    first, second = (stats.norm(points.means[i, 0], points.covariances[i, 0, 0] ** 0.5) for i in (0, 2))

    overlap, _ = integrate.quad(lambda x: (first.pdf(x) * second.pdf(x)) ** 0.5, -60, 60, limit=200)

    found = one_to_many(points.of(0), points, "bhattacharyya")[2]
    assert 1 / (1 - np.log(overlap)) == pytest.approx(found, rel=1e-6)


def test_the_divergence_is_the_mean_of_the_logarithms_of_the_densities() -> None:
    points = points_of(2, 2)
    one, two = (stats.multivariate_normal(points.means[i], points.covariances[i]) for i in range(2))
    random = np.random.default_rng(0)
    sides = [
        np.mean(a.logpdf(drawn) - b.logpdf(drawn))
        for a, b in ((one, two), (two, one))
        for drawn in [a.rvs(200_000, random_state=random)]
    ]

    found = one_to_many(points.of(0), points, "kl")[1]

    assert 1 / (1 + np.mean(sides)) == pytest.approx(found, rel=0.02)


@pytest.mark.parametrize("similarity", ["kl", "bhattacharyya"])
def test_all_pairs_are_symmetric_and_each_that_of_one_to_many(similarity: str) -> None:
    points = points_of(9)

    pairs = all_pairs(points, similarity)

    np.testing.assert_array_equal(pairs, pairs.T)
    np.testing.assert_array_equal(np.diag(pairs), np.ones(9))
    for query in range(9):
        np.testing.assert_allclose(pairs[query], one_to_many(points.of(query), points, similarity), rtol=1e-9)
    assert (pairs > 0).all()
    assert (pairs <= 1).all()


def test_points_are_taken_in_the_order_asked_for() -> None:
    points = points_of()

    some = points.take(np.array([4, 0]))

    np.testing.assert_array_equal(points.of(4).precision, some.of(0).precision)
    assert (2, True) == (len(some), some.of(1).known)


def test_matrices_that_are_no_covariances_are_called_corrupt() -> None:
    points = replace(points_of(), covariances=np.zeros((7, 4, 4)))

    with pytest.raises(
        ArtifactCorrupt, match="the covariance matrices of the training queries cannot be inverted"
    ):
        one_to_many(points.of(0), points, "bhattacharyya")


@pytest.mark.parametrize("shrink", [0.0, -0.1, 1.5])
def test_a_share_that_is_none_is_refused(shrink: float) -> None:
    with pytest.raises(InvalidConfiguration, match="shrink above 0 and at most 1"):
        GaussianRepresentation(np.eye(2), shrink)


def test_all_of_the_pooled_covariance_may_be_taken() -> None:
    made = representation(shrink=1.0)

    np.testing.assert_allclose(
        made.of(as_cloud(cloud(np.random.default_rng(2), 15, 4))).covariance, made.pooled
    )


def test_a_covariance_that_cannot_be_inverted_is_not_known() -> None:
    """A pooled covariance of rank 1, and documents that are all alike."""
    made = GaussianRepresentation(np.ones((3, 3)), 0.5)

    point = made.of(as_cloud(np.ones((4, 3), np.float32)))

    assert not point.known
    np.testing.assert_array_equal(np.zeros(3), point.mean)
    np.testing.assert_array_equal(np.eye(3), point.covariance)
    np.testing.assert_array_equal(np.eye(3), point.precision)
    assert 0.0 == point.log_determinant


def test_what_is_no_distribution_is_like_nothing() -> None:
    points = points_of(3)
    broken = replace(points, means=np.full((3, 4), np.nan))

    assert [0.0] * 3 == one_to_many(points.of(0), broken, "kl").tolist()


def test_many_queries_are_those_of_each() -> None:
    made = representation()
    clouds = [as_cloud(cloud(np.random.default_rng(seed), seed, 4)) for seed in (0, 1, 5)]

    points = made.of_all(clouds)

    assert (3, [False, True, True]) == (len(points), points.known.tolist())
    for query, one in enumerate(clouds):
        for name in ("mean", "covariance", "precision", "log_determinant", "known"):
            np.testing.assert_array_equal(getattr(made.of(one), name), getattr(points.of(query), name))
