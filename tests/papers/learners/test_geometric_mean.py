"""The geometric mean metric: its equation, its definition, sums over pairs."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import fractional_matrix_power, inv, sqrtm
from scipy.optimize import minimize

from localrank_papers.learners.gmml import (
    PairScatter,
    geodesic,
    metric_transform,
    reduced,
    regularised,
)

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged


def positive(rng: np.random.Generator, d: int, rank: int | None = None) -> Vector:
    """Return a scatter of that rank, without regularisation."""
    rows = rng.standard_normal((rank or 2 * d, d))
    return np.asarray(rows.T @ rows, np.float64)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 60), rank=st.integers(1, 60))
def test_the_metric_solves_its_riccati_equation(seed: int, d: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    similar = regularised(positive(rng, d, rank), 0.1)
    dissimilar = regularised(positive(rng, d, rank), 0.1)

    transform = geodesic(similar, dissimilar, 0.5)

    metric = transform.T @ transform
    residual = np.linalg.norm(metric @ similar @ metric - dissimilar) / np.linalg.norm(dissimilar)
    assert residual < 1e-10


def test_the_equation_holds_for_as_many_features_as_web_search_has() -> None:
    rng = np.random.default_rng(0)
    similar, dissimilar = (regularised(positive(rng, 700, 300), 0.01) for _ in range(2))

    transform = geodesic(similar, dissimilar, 0.5)

    metric = transform.T @ transform
    assert np.linalg.norm(metric @ similar @ metric - dissimilar) < 1e-10 * np.linalg.norm(dissimilar)


@pytest.mark.parametrize("t", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_the_metric_is_the_formula_with_matrix_roots(t: float) -> None:
    rng = np.random.default_rng(1)
    similar, dissimilar = positive(rng, 6), positive(rng, 6)

    transform = geodesic(similar, dissimilar, t)

    root = sqrtm(similar)
    middle = fractional_matrix_power(root @ dissimilar @ root, t)
    np.testing.assert_allclose(transform.T @ transform, inv(root) @ middle @ inv(root), rtol=1e-8, atol=1e-8)


def test_the_ends_of_the_geodesic_are_the_inverse_and_the_other_scatter() -> None:
    rng = np.random.default_rng(2)
    similar, dissimilar = positive(rng, 5), positive(rng, 5)

    first, last = geodesic(similar, dissimilar, 0.0), geodesic(similar, dissimilar, 1.0)

    np.testing.assert_allclose(first.T @ first, inv(similar), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(last.T @ last, dissimilar, rtol=1e-8)


def test_the_metric_minimises_its_objective() -> None:
    """Zadeh et al. (2016): tr(M S) + tr(M^-1 D) over positive definite M."""
    rng = np.random.default_rng(3)
    similar, dissimilar = positive(rng, 2), positive(rng, 2)

    def objective(entries: Vector) -> float:
        factor = np.array([[entries[0], 0.0], [entries[1], entries[2]]])
        metric = factor @ factor.T + 1e-12 * np.eye(2)
        return float(np.trace(metric @ similar) + np.trace(inv(metric) @ dissimilar))

    best = minimize(objective, np.array([1.0, 0.0, 1.0]), method="BFGS", options={"gtol": 1e-9})

    transform = geodesic(similar, dissimilar, 0.5)
    metric = transform.T @ transform
    value = np.trace(metric @ similar) + np.trace(inv(metric) @ dissimilar)
    np.testing.assert_allclose(value, best.fun, rtol=1e-9)


def test_directions_that_neither_scatter_has_count_one() -> None:
    """Both scatters are l I there, so the metric is l^t / l^(1 - t), which is 1 for t = 1/2."""
    scatter = np.diag([3.0, 1.0, 0.0])
    both = regularised(scatter, 0.1)

    transform = geodesic(both, both, 0.5)

    np.testing.assert_allclose(transform.T @ transform, np.eye(3), atol=1e-12)


def test_regularisation_does_not_depend_on_the_scale_of_the_features() -> None:
    scatter = positive(np.random.default_rng(4), 4)

    np.testing.assert_allclose(regularised(scatter * 1e-6, 0.1), regularised(scatter, 0.1))
    np.testing.assert_allclose(np.trace(regularised(scatter, 0.1)), 4 + 4 * 0.1)
    np.testing.assert_array_equal(regularised(np.zeros((2, 2)), 0.25), 1.25 * np.eye(2))


def brute_force(
    queries: QuerySet, relevant: np.ndarray, weights: Vector, balance: float
) -> tuple[Vector, Vector]:
    d = queries.n_features
    similar, dissimilar = np.zeros((d, d)), np.zeros((d, d))
    for query, weight in enumerate(weights):
        span = queries.span(query)
        documents, chosen = queries.documents[span].astype(float), relevant[span]
        near, far = documents[chosen], documents[~chosen]
        pairs = list(combinations(near, 2))
        for a, b in pairs:
            similar += weight * np.outer(a - b, a - b) / len(pairs) ** balance
        for a, b in product(near, far):
            dissimilar += weight * np.outer(a - b, a - b) / (len(near) * len(far)) ** balance
    return similar, dissimilar


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_sums_over_pairs_equal_the_pairs_written_out(judged: Judged, balance: float) -> None:
    rng = np.random.default_rng(5)
    clouds = [rng.standard_normal((n, 3)) + 4 for n in (7, 4, 1, 3, 5)]
    labels = [[1, 0, 2, 0, 1, 0, 0], [0, 0, 0, 1], [1], [0, 0, 0], [1, 1, 1, 1, 1]]
    queries, weights = judged(clouds, labels), np.array([1.0, 2.0, 3.0, 1.0, 0.5])
    relevant = queries.labels >= 1

    scatter = PairScatter.of(queries, relevant, weights, balance=balance)

    similar, dissimilar = brute_force(queries, relevant, weights, balance)
    np.testing.assert_allclose(scatter.similar, similar, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scatter.dissimilar, dissimilar, rtol=1e-9, atol=1e-9)


def test_features_that_never_differ_have_no_weight_and_change_nothing() -> None:
    rng = np.random.default_rng(6)
    similar, dissimilar = positive(rng, 4), positive(rng, 4)
    padded = [np.pad(scatter, ((0, 2), (0, 2))) for scatter in (similar, dissimilar)]

    plain = metric_transform(PairScatter(similar, dissimilar), regularisation=0.1)
    wide = metric_transform(PairScatter(*padded), regularisation=0.1)

    np.testing.assert_allclose(wide[:4, :4], plain, rtol=1e-12)
    np.testing.assert_array_equal(wide[:, 4:], 0.0)


@pytest.mark.parametrize("rank", [1, 3, 5, 9])
def test_a_reduced_metric_is_off_by_no_more_than_the_next_eigenvalue(rank: int) -> None:
    rng = np.random.default_rng(7)
    transform = geodesic(positive(rng, 5), positive(rng, 5), 0.5)
    metric = transform.T @ transform

    rows = reduced(transform, rank)

    assert rows.shape == (min(rank, 5), 5)
    error = np.linalg.norm(metric - rows.T @ rows, 2)
    next_one = [*np.linalg.eigvalsh(metric)[::-1], 0.0][min(rank, 5)]
    np.testing.assert_allclose(error, next_one, rtol=1e-8, atol=1e-12)
