"""The WARP loss of local metrics: its gradient, its draws, what descent achieves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from localrank_papers.learners.lgmml import gradient, learn_weights, loss, rank_weights


def test_rank_weights_are_sums_of_discounts() -> None:
    expected = [0.0, 1.0, 1.0 + 1 / np.log2(3), 1.0 + 1 / np.log2(3) + 1 / np.log2(4)]

    np.testing.assert_allclose(rank_weights(3), expected)


def test_the_gradient_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights, near, far = rng.random((3, 4))
        margin = 0.1 + float(weights @ (far - near)) * 0.5 + 1.0

        error = check_grad(
            lambda w, near=near, far=far, margin=margin: loss(w, near, far, margin=margin, weight=1.7),
            lambda _, near=near, far=far: gradient(near, far, np.array(1.7)),
            weights,
        )

        assert loss(weights, near, far, margin=margin, weight=1.7) > 0
        assert error < 1e-6


def test_the_papers_gradient_has_the_wrong_sign() -> None:
    """Eq. 22 drops the minus of eq. 13: a step along it raises the loss."""
    near, far, weights = np.array([0.3, 0.1]), np.array([0.1, 0.3]), np.array([0.5, 0.5])
    before = loss(weights, near, far, margin=0.1, weight=1.0)
    ours = weights - 0.01 * gradient(near, far, np.array(1.0))
    papers = weights - 0.01 * (far - near)

    assert loss(ours, near, far, margin=0.1, weight=1.0) < before
    assert loss(papers, near, far, margin=0.1, weight=1.0) > before


def descend(curves: np.ndarray, labels: list[int], rounds: int, **settings: float) -> np.ndarray:
    (weights,) = learn_weights(
        curves,
        np.array(labels) > 0,
        np.array([0, len(labels)]),
        start=np.full(curves.shape[1], 1 / curves.shape[1]),
        rounds=rounds,
        step=settings.get("step", 0.1),
        margin=settings.get("margin", 0.05),
        rng=np.random.default_rng(0),
    )
    return np.asarray(weights)


def test_one_step_is_the_weighted_difference_of_the_two_documents() -> None:
    """One relevant and one other document that violates: one draw, so L(1) = 1."""
    curves = np.array([[0.3, 0.1], [0.2, 0.1]])

    weights = descend(curves, [1, 0], 1)

    np.testing.assert_allclose(weights, [0.5 - 0.1 * (0.3 - 0.2), 0.5])


def test_weights_never_become_negative() -> None:
    curves = np.array([[0.3, 0.1], [0.2, 0.1]])

    assert descend(curves, [1, 0], 1000, step=10.0).min() == 0.0


def test_a_query_without_violations_keeps_its_weights() -> None:
    curves = np.array([[0.0, 0.0], [0.3, 0.3]])

    np.testing.assert_array_equal(descend(curves, [1, 0], 50, margin=0.1), [0.5, 0.5])


def test_the_metric_that_ranks_well_gains_weight() -> None:
    rng = np.random.default_rng(1)
    labels = [1] * 5 + [0] * 20
    curves = np.column_stack([0.1 + 0.2 * rng.random(25) * (1 - np.array(labels)), 0.3 * rng.random(25)])

    weights = descend(curves, labels, 200)

    assert weights[0] > 0.5 > weights[1]


def test_drawing_at_once_is_drawing_one_by_one() -> None:
    """The mean step after one round, against draws with replacement until a violator is found."""
    curves = np.array([[0.1], [0.05], [0.3], [0.09], [0.4], [0.5]])
    labels, margin, n = [1, 0, 0, 0, 0, 0], 0.01, 40_000
    rng = np.random.default_rng(2)
    of_rank = rank_weights(5)
    steps = []
    for _ in range(n):
        draws = 1
        while True:
            drawn = int(rng.integers(1, 6))
            if margin + curves[0, 0] - curves[drawn, 0] > 0:
                break
            draws += 1
        steps.append(of_rank[5 // draws] * (curves[0, 0] - curves[drawn, 0]))

    learned = learn_weights(
        np.tile(curves, (n, 1)),
        np.tile(np.array(labels) > 0, n),
        np.arange(0, 6 * n + 1, 6),
        start=np.ones(1),
        rounds=1,
        step=1.0,
        margin=margin,
        rng=rng,
    )

    spread = np.std(steps) / np.sqrt(n)
    assert 1.0 - learned.mean() == pytest.approx(np.mean(steps), abs=5 * spread)


def test_queries_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(3)
    curves = rng.random((12, 2)) * 0.3
    labels = np.array([1, 1, 0, 0, 0, 0] * 2)
    curves[6:, :] = [[0.0, 0.0]] * 2 + [[0.3, 0.3]] * 4

    weights = learn_weights(
        curves,
        labels > 0,
        np.array([0, 6, 12]),
        start=np.array([0.5, 0.5]),
        rounds=20,
        step=0.1,
        margin=0.1,
        rng=rng,
    )

    assert (weights[0] != 0.5).any()
    np.testing.assert_array_equal(weights[1], [0.5, 0.5])
