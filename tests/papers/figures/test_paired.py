"""Paired comparisons at their limits: what counts as a tie, as a hurt query, as better."""

from __future__ import annotations

import numpy as np
import pytest

from localrank_papers.figures import paired
from localrank_papers.figures.paired import Pair, paired_table, sides_of, verdict_of
from localrank_training.evaluation.comparisons import NOTABLE, Interval, holm, paired_t, sign_flip_test


def test_wins_losses_and_hurt_queries_are_counted_without_rounding() -> None:
    """Differences of at most 1e-12 are ties; a query is hurt if it loses more than a tenth."""
    apart = np.array([0.5, 2e-12, 1e-12, 0.0, -1e-12, -2e-12, -NOTABLE, -0.25, -0.2])
    pair = Pair("a", apart, np.zeros(9))

    (row,) = paired_table("title", [pair], "says").rows

    assert (2, 4, 2) == row[9:12]
    assert row[:4] == ("a", pytest.approx(apart.mean()), 0.0, pytest.approx(apart.mean()))


def test_every_column_is_of_the_same_differences() -> None:
    rng = np.random.default_rng(0)
    pairs = [Pair(name, rng.random(12), rng.random(12)) for name in "abc"]

    found = paired_table("title", pairs, "says", seed=4)

    apart = [one.candidate - one.baseline for one in pairs]
    tested = [sign_flip_test(one, seed=4) for one in apart]
    for row, one, p, adjusted in zip(found.rows, apart, tested, holm(tested), strict=True):
        # Student's quantiles of eleven degrees of freedom, for 95 % on both sides and for 80 % power.
        error = one.std(ddof=1) / np.sqrt(12)
        half, power = 2.200985 * error, 0.875530 * error
        assert row[4:6] == pytest.approx((one.mean() - half, one.mean() + half), abs=1e-6)
        assert row[6:9] == (paired_t(one), p, adjusted)
        assert row[12] == pytest.approx(half + power, abs=1e-5)
    assert ("title", "says", len(found.header)) == (found.title, found.caption, len(found.rows[0]))
    assert "" == paired_table("title", pairs).caption


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.0, 0.2, "not told apart"),
        (0.01, 0.2, "better"),
        (-0.2, 0.0, "not told apart"),
        (-0.2, -0.01, "worse"),
    ],
)
def test_an_interval_that_touches_zero_tells_nothing_apart(
    low: float, high: float, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paired, "interval_of", lambda _: Interval(low, high, 0.95))
    pair = Pair("a", np.array([0.5, 0.7]), np.array([0.25, 0.45]))

    assert verdict_of(pair).startswith(f"a: {word} (+0.2500 ")
    assert f"{word}: a +0.2500" == sides_of([pair])


def test_queries_that_hardly_differ_are_not_told_apart() -> None:
    same = Pair("a", np.full(5, 0.5), np.full(5, 0.5))

    assert "a: hardly any query differs" == verdict_of(same)
    assert "not told apart: a +0.0000" == sides_of([same])
    assert (None, None) == paired_table("title", [same]).rows[0][4:6]
    assert "" == sides_of([])
