"""The cutting-plane solver, against scipy's general ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from localrank_training.learners.svmmap import best_of_simplex, minimise

if TYPE_CHECKING:
    from localrank.arrays import Vector


def hinge_oracle(directions: Vector, losses: Vector, point: Vector) -> tuple[float, Vector]:
    values = losses - directions @ point
    worst = int(values.argmax())
    return (float(losses[worst]), directions[worst]) if values[worst] > 0 else (0.0, np.zeros(len(point)))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    d=st.integers(1, 6),
    C=st.sampled_from([0.1, 1.0, 50.0]),
)
def test_the_optimum_on_the_simplex_equals_scipy(seed: int, n: int, d: int, C: float) -> None:
    rng = np.random.default_rng(seed)
    vectors, losses = rng.standard_normal((n, d)), rng.random(n)
    gram = vectors @ vectors.T
    start = rng.dirichlet(np.ones(n)) * C

    shares = best_of_simplex(gram, losses, start)

    reference = minimize(
        lambda a: 0.5 * a @ gram @ a - losses @ a,
        start,
        jac=lambda a: gram @ a - losses,
        bounds=[(0, None)] * n,
        constraints=LinearConstraint(np.ones((1, n)), C, C),
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(), C)
    assert losses @ shares - 0.5 * shares @ gram @ shares >= -reference.fun - 1e-7 * (1 + abs(reference.fun))


def test_the_optimum_on_the_simplex_stands_copies_of_a_cut() -> None:
    """The same cut again makes the Gram matrix singular."""
    rng = np.random.default_rng(0)
    vectors = np.repeat(rng.standard_normal((4, 2)), 3, axis=0)
    losses = np.repeat(rng.random(4), 3)

    shares = best_of_simplex(vectors @ vectors.T, losses, np.eye(12)[0] * 2.0)

    slope = losses - vectors @ (vectors.T @ shares)
    np.testing.assert_allclose(slope[shares > 1e-9], slope.max(), atol=1e-8)


@pytest.mark.parametrize("scale", [1e-6, 1e-9, 1e-12, 1e-17, 1e-30, 1e-80, 1e-160, 0.0])
@pytest.mark.parametrize("C", [0.1, 1000.0])
def test_cuts_that_hardly_slope_leave_the_minimum_at_zero(scale: float, C: float) -> None:
    """By weights of C * scale the loss changes by at most C * scale^2."""
    rng = np.random.default_rng(6)
    directions, losses = scale * rng.standard_normal((20, 3)), rng.random(20)

    found = minimise(lambda w: hinge_oracle(directions, losses, w), np.zeros(3), C=C)

    assert np.isfinite(found.weights).all()
    assert np.abs(found.weights).max() <= 4 * C * scale
    assert found.objective == pytest.approx(C * losses.max(), rel=1e-3)
    assert -1e-9 * C <= found.gap <= 1e-3 * found.objective


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_the_minimum_equals_the_quadratic_programme_over_all_cuts(C: float) -> None:
    rng = np.random.default_rng(1)
    directions, losses = rng.standard_normal((40, 5)), rng.random(40)

    found = minimise(lambda w: hinge_oracle(directions, losses, w), np.zeros(5), C=C, tolerance=1e-9)

    reference = minimize(
        lambda z: 0.5 * z[:5] @ z[:5] + C * z[5],
        np.append(np.zeros(5), 2.0),
        bounds=[(None, None)] * 5 + [(0, None)],
        constraints=LinearConstraint(np.hstack([directions, np.ones((40, 1))]), losses, np.inf),
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    np.testing.assert_allclose(found.objective, reference.fun, rtol=1e-6)
    np.testing.assert_allclose(found.weights, reference.x[:5], atol=1e-3)


def test_the_objective_never_rises_and_the_bound_stays_below_it() -> None:
    rng = np.random.default_rng(2)
    directions, losses = rng.standard_normal((300, 8)), rng.random(300)

    found = minimise(lambda w: hinge_oracle(directions, losses, w), np.zeros(8), C=100.0, tolerance=1e-6)

    assert found.cuts > 5
    assert (np.diff(found.objectives) <= 0).all()
    assert (np.diff(found.bounds) >= 0).all()
    assert (np.array(found.bounds) <= np.array(found.objectives) + 1e-12).all()
    assert found.gap <= 1e-6 * found.objective


def test_the_work_is_bounded_by_the_number_of_cuts() -> None:
    rng = np.random.default_rng(3)
    directions, losses = rng.standard_normal((300, 8)), rng.random(300)

    found = minimise(lambda w: hinge_oracle(directions, losses, w), np.zeros(8), C=100.0, max_cuts=3)

    assert found.cuts == 3
    assert found.gap > 1e-3 * found.objective


def test_a_start_at_the_optimum_costs_fewer_cuts() -> None:
    rng = np.random.default_rng(4)
    directions, losses = rng.standard_normal((300, 8)), rng.random(300)
    cold = minimise(lambda w: hinge_oracle(directions, losses, w), np.zeros(8), C=10.0, tolerance=1e-4)

    warm = minimise(lambda w: hinge_oracle(directions, losses, w), cold.weights, C=10.0, tolerance=1e-4)

    assert warm.objectives[0] <= cold.objective * (1 + 1e-12)
    assert warm.cuts <= cold.cuts


def test_one_cut_stays_at_the_start() -> None:
    """P(w) = 1/2 |w|^2 + C max(0, 2 - w): at w = 1 that is 1/2 + 3 = 7/2, and the cut alone has its minimum at w = 2."""
    found = minimise(
        lambda w: hinge_oracle(np.ones((1, 1)), np.full(1, 2.0), w), np.ones(1), C=3.0, max_cuts=1
    )

    assert ([1.0], 3.5, 1) == (found.weights.tolist(), found.objective, found.cuts)
    np.testing.assert_allclose([found.bound, found.gap], [2.0, 1.5])


def test_a_start_that_is_good_enough_is_left_all_the_same() -> None:
    """Zero ranks nothing, even if its objective is next to the optimum's."""
    found = minimise(
        lambda w: hinge_oracle(np.ones((1, 1)), np.ones(1), w), np.zeros(1), C=1e-6, tolerance=0.5
    )

    assert 2 == found.cuts
    assert found.weights[0] > 0


def test_more_cuts_than_there_is_room_for_at_first_change_nothing() -> None:
    """There is room for 64 of them."""
    rng = np.random.default_rng(5)
    directions, losses = rng.standard_normal((600, 40)), rng.random(600)

    found = minimise(lambda w: hinge_oracle(directions, losses, w), np.zeros(40), C=1000.0, tolerance=1e-5)

    assert found.cuts > 64
    value = 0.5 * found.weights @ found.weights + 1000 * max(0.0, (losses - directions @ found.weights).max())
    assert found.objective == pytest.approx(value)
    assert -1e-9 <= found.gap <= 1e-5 * found.objective


def test_a_loss_of_zero_needs_no_weights() -> None:
    found = minimise(lambda w: (0.0, np.zeros(len(w))), np.zeros(3), C=1.0)

    assert ([0.0] * 3, 0.0, 0.0) == (found.weights.tolist(), found.objective, found.gap)


def test_the_default_tolerance_is_a_thousandth() -> None:
    rng = np.random.default_rng(2)
    directions, losses = rng.standard_normal((300, 8)), rng.random(300)

    found = minimise(lambda w: hinge_oracle(directions, losses, w), np.zeros(8), C=100.0)

    assert found.gap <= 1e-3 * found.objective
    gaps = np.array(found.objectives) - np.array(found.bounds)
    assert (gaps[1:-1] > 1e-3 * np.array(found.objectives)[1:-1]).all()
