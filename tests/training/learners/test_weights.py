"""Weights of a blend: the objective by loops, its gradient, and what weights do for members of known worth."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log1p
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from localrank.scorers.combination import standardised
from localrank_training.learners.weights import PULLS, Pairs, learn_weights, standardised_within

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector

LABELS = np.array([2.0, 0, 1, 0, 1, 1, 1, 0, 3, 0, 0])
OFFSETS = np.array([0, 4, 4, 7, 11])
ALIKE = np.ones(4)


class Objective:
    """The module's formula, pair by pair; ``c`` by a grid."""

    def __init__(self, members: Vector, labels: Vector, offsets: Indices, pull: float) -> None:
        self._pull = pull
        self._queries = [
            np.array(
                [
                    members[i] - members[j]
                    for i in range(begin, end)
                    for j in range(begin, end)
                    if labels[i] > labels[j]
                ]
            )
            for begin, end in pairwise(offsets.tolist())
        ]
        ones = np.ones(members.shape[1])
        self._centre = min(np.linspace(0, 5, 501), key=lambda c: self.loss(c * ones)) * ones

    def loss(self, weights: Vector) -> float:
        means = [
            sum(log1p(exp(-float(weights @ pair))) for pair in pairs) / len(pairs)
            for pairs in self._queries
            if len(pairs)
        ]
        return sum(means) / len(means)

    def __call__(self, weights: Vector) -> float:
        return self.loss(weights) + self._pull * float(((weights - self._centre) ** 2).sum())


def noisy(
    seed: int, n_queries: int = 30, noise: tuple[float, ...] = (0.5, 1.0, 2.0)
) -> tuple[Vector, Vector, Indices]:
    """Members that are the label with more and more noise."""
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, 10 * n_queries + 1, 10)
    labels = rng.integers(0, 3, 10 * n_queries).astype(np.float64)
    scores = [standardised_within(labels + rng.normal(0, spread, len(labels)), offsets) for spread in noise]
    return np.column_stack(scores), labels, offsets


def test_every_pair_of_different_labels_is_there_once() -> None:
    pairs = Pairs.of(LABELS, OFFSETS, ALIKE, most=100, seed=0)

    found = set(zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True))
    assert found == {(0, 1), (0, 2), (0, 3), (2, 1), (2, 3), (8, 7), (8, 9), (8, 10)}
    assert len(pairs) == 8
    assert pairs.query.tolist() == [0] * 5 + [3] * 3
    np.testing.assert_allclose(pairs.shares, [1 / 5] * 5 + [1 / 3] * 3)


def test_queries_count_by_their_weight_and_long_lists_are_sampled() -> None:
    pairs = Pairs.of(LABELS, OFFSETS, np.array([2.0, 1.0, 1.0, 0.0]), most=3, seed=0)

    assert pairs.query.tolist() == [0, 0, 0]
    np.testing.assert_allclose(pairs.shares, 2 / 3)
    assert all(LABELS[b] > LABELS[w] for b, w in zip(pairs.better, pairs.worse, strict=True))
    other = Pairs.of(LABELS, OFFSETS, ALIKE, most=1, seed=1)
    assert len(other) == 2


@pytest.mark.parametrize("pull", [0.001, 0.1, 1.0])
def test_no_other_weights_have_a_smaller_objective(pull: float) -> None:
    members, labels, offsets = noisy(0, n_queries=4)
    pairs = Pairs.of(labels, offsets, np.ones(4), most=10_000, seed=0)

    weights = learn_weights(members, pairs, [pull])[0]

    objective = Objective(members, labels, offsets, pull)
    least = objective(weights)
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = np.maximum(weights + rng.normal(0, 0.1, 3), 0.0)
        assert objective(other) > least - 1e-4 * pull - 1e-7


def test_a_strong_pull_makes_members_equal() -> None:
    members, labels, offsets = noisy(3)
    pairs = Pairs.of(labels, offsets, np.ones(30), most=150, seed=0)

    spreads = [np.ptp(weights) for weights in learn_weights(members, pairs, PULLS)]

    assert spreads == sorted(spreads)
    assert spreads[0] == 0.0
    nothing = pairs.of_queries(np.zeros(30, np.bool_))
    np.testing.assert_array_equal(learn_weights(members, nothing, [0.1, 1.0]), np.ones((2, 3)))


def test_a_member_that_only_harms_gets_nothing() -> None:
    members, labels, offsets = noisy(5, n_queries=100, noise=(0.3, 0.3))
    against = np.column_stack([members[:, 0], -members[:, 1]])

    (weights,) = learn_weights(against, Pairs.of(labels, offsets, np.ones(100), most=150, seed=0), [0.001])

    assert weights[1] == 0.0
    assert weights[0] > 0.0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=11, max_size=11))
def test_scores_are_standardised_as_in_serving(scores: list[float]) -> None:
    found = standardised_within(np.array(scores), OFFSETS)

    for begin, end in pairwise(OFFSETS.tolist()):
        np.testing.assert_array_equal(found[begin:end], standardised(np.array(scores[begin:end])))


@pytest.mark.parametrize(
    ("together", "expected"),
    [
        # log(1 + exp(-w)) and log(1 + exp(w)) of 3 to 1 are least at log 3, as a coin of .75 says.
        ([1.0, 1.0, 1.0, -1.0], np.log(3.0)),
        ([2.0, 2.0, 2.0, -2.0], np.log(3.0) / 2),
        ([-1.0, -1.0, -1.0, 1.0], 0.0),
        ([0.0, 0.0], 0.0),
        ([1e-3] * 999 + [-1e-3], 100.0),
    ],
)
def test_equal_weights_have_the_scale_of_least_loss(together: list[float], expected: float) -> None:
    """One member whose pairs differ by so much; its best weight is looked for between 0 and 100."""
    n_pairs = len(together)
    members = np.array([value for one in together for value in (one, 0.0)])[:, None]
    pairs = Pairs.of(
        np.tile([1.0, 0.0], n_pairs), np.arange(0, 2 * n_pairs + 1, 2), np.ones(n_pairs), most=5, seed=0
    )

    (weights,) = learn_weights(members, pairs, [1e9])

    assert [expected or 1.0] == pytest.approx(weights.tolist(), rel=1e-4)


@pytest.mark.parametrize("size", [1.0, 20.0, 400.0])
def test_weights_of_any_scores_are_the_least_by_a_search(size: float) -> None:
    """Of margins below -15 too, whose logistic function is zero but for rounding."""
    members, labels, offsets = noisy(3, n_queries=3)
    members = members[:, :1] * size
    pairs = Pairs.of(labels, offsets, np.ones(3), most=10_000, seed=0)

    weight = learn_weights(members, pairs, [np.inf, 1e-3])[1][0]

    differences = (members[pairs.better] - members[pairs.worse])[:, 0]
    shares = pairs.shares / pairs.shares.sum()
    scale = minimize_scalar(
        lambda w: shares @ np.logaddexp(0, -w * differences),
        bounds=(0, 100),
        method="bounded",
        options={"xatol": 1e-10},
    ).x
    best = minimize_scalar(
        lambda w: shares @ np.logaddexp(0, -w * differences) + 1e-3 * (w - scale) ** 2,
        bounds=(0, 100),
        method="bounded",
        options={"xatol": 1e-10},
    ).x
    assert weight == pytest.approx(best, rel=1e-2)


def test_pairs_of_some_queries_keep_their_shares() -> None:
    pairs = Pairs.of(LABELS, OFFSETS, ALIKE, most=100, seed=0)

    some = pairs.of_queries(np.array([False, True, True, True]))

    assert ([8, 8, 8], [7, 9, 10], [3, 3, 3]) == (
        some.better.tolist(),
        some.worse.tolist(),
        some.query.tolist(),
    )
    np.testing.assert_allclose(some.shares, 1 / 3)
