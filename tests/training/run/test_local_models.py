"""Local models of a blend's linear member: against ridge regression on weighted queries, and what they gain."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from localrank_training.evaluation.comparisons import interval_of
from localrank_training.grouping.prototypes import Locality, local_weights
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.linear import LeastSquares
from localrank_training.learners.out_of_fold import Tried
from localrank_training.learners.weights import standardised_within
from localrank_training.run.blended import Gain, LocalMembers
from tests.training.kinds import two_kinds


def member(n_docs: int) -> Tried:
    """A member with two global candidates, of which the second is never looked at."""
    learner = LeastSquares(ridge=0.2, blocks="raw")
    scores = np.random.default_rng(1).random((2, n_docs))
    return Tried(3, (learner, learner), scores, np.array([0.5, 9.0]), np.array([7.0, 99.0]))


@pytest.mark.parametrize("balance", ["documents", "queries"])
def test_a_held_out_query_is_scored_by_ridge_regression_on_the_other_parts(
    balance: Literal["documents", "queries"],
) -> None:
    queries = two_kinds(12)
    learner = LeastSquares(ridge=0.2, blocks="raw", balance=balance)
    rng = np.random.default_rng(0)
    shares = rng.random(12) + 0.5
    part_of, similarities = np.arange(12) % 3, rng.random((12, 2))
    clusters = np.array([0, 1, -1, 0, 1, 1, 0, 0, 1, -1, 1, 0])
    localities = (Locality(0.5, 0.0), Locality(0.3, 0.4), Locality(0.5, 2.0))
    globally = member(queries.n_docs)

    found = LocalMembers(learner, Lesson(queries, weights=shares, blocks="raw"), part_of).scored(
        globally, similarities, clusters, localities
    )

    for number, locality in enumerate(localities):
        expected = globally.scores[0].copy()
        for query in np.flatnonzero(clusters >= 0).tolist():
            others = np.flatnonzero(part_of != part_of[query])
            weights = shares[others] * local_weights(similarities[others], locality)[clusters[query]]
            model = learner.fit(Lesson(queries.select(others), weights=weights, blocks="raw"))
            expected[queries.span(query)] = model.score_rows(queries.documents_of(query))
        np.testing.assert_allclose(
            found.scores[number], standardised_within(expected, queries.offsets), atol=1e-5
        )


def test_local_candidates_stand_in_place_of_the_global_one_and_cost_the_same() -> None:
    queries = two_kinds(6)
    globally = member(queries.n_docs)
    localities = (Locality(0.5, 0.0), Locality(0.5, 1.0))

    found = LocalMembers(
        LeastSquares(ridge=0.2, blocks="raw"), Lesson(queries, blocks="raw"), np.arange(6) % 2
    ).scored(globally, np.ones((6, 1)), np.zeros(6, np.int64), localities)

    assert (3, localities) == (found.position, found.localities)
    assert (globally.learners[0],) * 2 == found.learners
    assert [0.5] * 2 == found.seconds.tolist()
    assert [7.0] * 2 == found.microseconds.tolist()
    assert (2, queries.n_docs) == found.scores.shape


@pytest.mark.parametrize(
    ("n_queries", "width", "fits"),
    [
        (1, 7905, True),
        (1, 7906, False),
        (625_000, 10, True),
        (625_001, 10, False),
    ],
)
def test_the_matrices_of_all_queries_may_take_half_a_gigabyte(
    n_queries: int, width: int, *, fits: bool
) -> None:
    """A matrix of doubles for each query: 8 bytes times the square of the width."""
    assert LocalMembers.fit(n_queries, width) is fits


def test_a_gain_is_told_with_its_interval() -> None:
    interval = interval_of(np.linspace(-0.1, 0.3, 40))

    assert f"-0.1235 {interval} over 40 queries" == str(Gain(-0.12345, interval, 40))
