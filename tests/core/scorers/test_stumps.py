"""Sums of steps, against one comparison per step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank.errors import ArtifactCorrupt
from localrank.scorers import SCORERS, StumpScorer
from tests.core.scorers.stored import again

if TYPE_CHECKING:
    from localrank.arrays import Array

pytestmark = pytest.mark.usefixtures("arithmetic")


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), n_steps=st.integers(0, 30))
def test_a_score_is_the_sum_of_the_steps_whose_threshold_is_exceeded(seed: int, n_steps: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 4, n_steps)
    thresholds = rng.integers(0, 5, n_steps) / 4
    steps = rng.standard_normal(n_steps)
    documents = (rng.integers(0, 5, (12, 4)) / 4).astype(np.float32)

    scores = StumpScorer.of(features, thresholds, steps).score_rows(documents)

    expected = [
        sum(a for i, t, a in zip(features, thresholds, steps, strict=True) if x[i] > t) for x in documents
    ]
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_steps_at_the_same_place_are_added_up() -> None:
    scorer = StumpScorer.of(np.array([1, 0, 1]), np.array([0.5, 0.5, 0.5]), np.array([2.0, 1.0, 0.25]))

    np.testing.assert_array_equal(scorer.features, [0, 1])
    np.testing.assert_array_equal(scorer.steps, [1.0, 2.25])


def test_identical_documents_score_the_same_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    scorer = StumpScorer.of(rng.integers(0, 46, 300), rng.random(300), rng.standard_normal(300))
    documents = np.tile(rng.random((1, 46)).astype(np.float32), (37, 1))

    assert len(set(scorer.score_rows(documents).tolist())) == 1


def test_long_lists_are_scored_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    scorer = StumpScorer.of(rng.integers(0, 3, 20), rng.random(20), rng.standard_normal(20))
    documents = rng.random((50, 3)).astype(np.float32)
    whole = scorer.score_rows(documents)

    monkeypatch.setattr("localrank.scorers.linear._CELLS", 130)

    np.testing.assert_array_equal(scorer.score_rows(documents), whole)


def example() -> StumpScorer:
    return StumpScorer.of(np.array([2, 0, 2]), np.array([0.5, 0.1, 0.25]), np.array([1.0, 2.0, 3.0]), "raw")


def test_a_stored_scorer_comes_back() -> None:
    read = again(example(), 3)

    assert SCORERS["stumps"] is StumpScorer
    assert isinstance(read, StumpScorer)
    assert read.blocks == "raw"
    documents = np.array([[0.2, 0, 0.3], [0, 0, 1]], np.float32)
    np.testing.assert_array_equal(read.score_rows(documents), [2.0 + 3.0, 3.0 + 1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.array([0, 2])}, r"thresholds: expected shape \(2\), found \(3,\)"),
        ({"features": np.array([0.0, 2.0, 2.0])}, "features: expected int64, found float64"),
        ({"features": np.zeros((3, 1), np.int64)}, r"features: expected shape \(steps\), found \(3, 1\)"),
        (
            {"features": np.array([0, 2, 3])},
            r"scorers\.features\.npy: expected 0 to 2, found 3 at position 2",
        ),
        ({"features": np.array([-1, 2, 2])}, r"scorers\.features\.npy: expected 0 to 2, found -1"),
        ({"features": np.array([2, 0, 2])}, "thresholds: expected them ascending"),
        ({"thresholds": np.array([0.1, 0.5, 0.5])}, "thresholds: expected them ascending"),
        ({"thresholds": np.array([0.1, 0.2, np.nan])}, r"scorers\.thresholds\.npy: expected finite numbers"),
        ({"steps": np.array([0.1, 0.2, np.inf])}, r"scorers\.steps\.npy: expected finite numbers"),
        ({"steps": np.array([1.7e308, 1.7e308, 0.0])}, "one is so large that their sum may not be finite"),
        ({"more": np.zeros(1)}, r"expected the arrays of 'stumps' \(features, thresholds, steps\), found"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: dict[str, Array], message: str) -> None:
    with pytest.raises(ArtifactCorrupt, match=message):
        again(example(), 3, arrays=change)


def test_strange_blocks_and_a_member_are_refused() -> None:
    with pytest.raises(
        ArtifactCorrupt, match=r"manifest\.json: scorers: form 0: blocks: expected one of raw"
    ):
        again(example(), 3, settings={"blocks": "documents"})
    with pytest.raises(ArtifactCorrupt, match="expected no members of 'stumps', found 1"):
        again(example(), 3, members=(example(),))
