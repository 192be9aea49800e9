"""Scorers that cross to another process and back, and what stays the same object."""

from __future__ import annotations

import numpy as np

from localrank.scorers import BlendScorer, LinearScorer, SumScorer
from localrank_training.parallel.processes import packed, unpacked
from tests.core.clouds import as_cloud
from tests.core.examples import N_FEATURES, SCORER_EXAMPLES


def test_what_both_sides_have_stays_the_same_object() -> None:
    trees = SCORER_EXAMPLES["trees"](np.random.default_rng(0))
    whole = SumScorer((trees, LinearScorer(np.ones(N_FEATURES))))
    own = LinearScorer(np.arange(float(N_FEATURES)))

    found = unpacked(packed(BlendScorer((whole, trees, own), np.ones(3)), whole), whole)

    assert (whole, trees) == tuple(found.members()[:2])
    assert found.members()[2] is not own
    documents = np.random.default_rng(1).random((9, N_FEATURES)).astype(np.float32)
    np.testing.assert_array_equal(
        found.members()[2].score(as_cloud(documents)), own.score(as_cloud(documents))
    )


def test_the_global_scorer_itself_comes_back_as_itself() -> None:
    whole = LinearScorer(np.ones(3))

    assert unpacked(packed(whole, whole), whole) is whole


def test_shared_members_are_not_sent() -> None:
    trees = SCORER_EXAMPLES["trees"](np.random.default_rng(0))
    whole = SumScorer((trees,))

    assert (
        len(packed(SumScorer((trees,)), whole))
        < len(packed(SumScorer((trees,)), LinearScorer(np.ones(1)))) / 4
    )
