"""The simulation of coverage: its intervals are those that are printed, and it can tell good from bad."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import INTERVALS, Population, bca, by_fold, hierarchical, of_queries, ours, student
from localrank_training.evaluation.comparisons import interval_of


def test_all_draws_at_once_are_the_intervals_that_comparisons_print() -> None:
    rng = np.random.default_rng(0)
    draws = np.where(rng.random((20, 25)) < 0.7, 0.0, rng.normal(0.1, 1, (20, 25)))

    low, high = ours(draws)

    found = [interval_of(draw) for draw in draws]
    assert None in found
    assert any(found)
    for interval, lower, upper in zip(found, low, high, strict=True):
        expected = (np.nan, np.nan) if interval is None else (interval.low, interval.high)
        np.testing.assert_allclose([lower, upper], expected)


def test_the_bootstrap_intervals_are_those_of_scipy_up_to_the_resamples_drawn() -> None:
    draw = np.random.default_rng(8).exponential(1, 60) - 0.9
    for name, method in (("BCa", "BCa"), ("percentile", "percentile")):
        reference = stats.bootstrap(
            (draw,), np.mean, method=method, rng=np.random.default_rng(0)
        ).confidence_interval

        low, high = INTERVALS[name](draw[None, :], 0.95)

        assert (low[0], high[0]) == pytest.approx(tuple(reference), abs=0.05)
    assert bca(draw[None, :])[0][0] != INTERVALS["percentile"](draw[None, :], 0.95)[0][0]


def test_folds_that_differ_widen_an_interval() -> None:
    rng = np.random.default_rng(1)
    part = np.arange(50) % 5
    alike, apart = rng.normal(size=50), rng.normal(size=50) + 3.0 * part

    for ends in (by_fold, hierarchical):
        assert np.ptp(ends(apart, part)) > 2 * np.ptp(ends(alike, part))
    low, high = student(alike[None, :])
    assert np.ptp(hierarchical(alike, part)) == pytest.approx(high[0] - low[0], rel=0.2)


def test_bootstrap_intervals_are_found_to_cover_too_little() -> None:
    """Of twelve skewed differences: Student's interval holds the mean about as often as it says, BCa does not."""
    differences = np.random.default_rng(3).standard_t(4, 400)
    rows = of_queries([Population("made up", "a - b", "map", differences)], 150)

    twelve = {
        row["interval"]: row["coverage"] for row in rows if row["simulation"] == "queries" and row["n"] == 12
    }

    assert twelve["BCa"] < 0.92
    assert twelve["Student"] > twelve["BCa"]
    assert 0.92 <= twelve["Student, df of the queries that differ"] <= 0.99
