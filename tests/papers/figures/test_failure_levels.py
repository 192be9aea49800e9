"""Failure levels: what they are, and that they flatter any other ranking."""

from __future__ import annotations

import numpy as np
import pytest

from localrank_papers.figures.adaptive import levels, means_at, predicted_levels


def test_a_level_is_the_difference_rounded_to_a_tenth() -> None:
    baseline = np.array([0.5, 0.35, 0.2, 1.0])
    feature = np.array([0.46, 0.2, 0.9, 0.0])

    np.testing.assert_allclose(levels(baseline, feature), [0.0, 0.2, -0.7, 1.0])


def test_means_are_of_the_queries_at_each_level() -> None:
    places = np.array([0.1, -0.2, 0.1, -0.2, -0.2])
    figures = np.array([1.0, 0.0, 0.5, 0.3, 0.6])

    found = means_at(places, figures)

    assert [(one.level, one.queries) for one in found] == [(-0.2, 3), (0.1, 2)]
    assert found[0].mean == pytest.approx((0.0 + 0.3 + 0.6) / 3)
    assert found[1].mean == pytest.approx(0.75)


def test_an_interval_holds_the_mean() -> None:
    figures = np.random.default_rng(0).uniform(size=50)

    (found,) = means_at(np.zeros(50), figures)

    half = 2.0096 * figures.std(ddof=1) / np.sqrt(50)  # Student's quantile of 49 degrees of freedom
    assert found.low == pytest.approx(figures.mean() - half, abs=1e-4)
    assert found.high == pytest.approx(figures.mean() + half, abs=1e-4)


def test_a_ranking_no_better_than_the_baseline_looks_better_where_the_baseline_failed() -> None:
    """Three rankings are equally good on every query; only their luck differs. A second run as the level removes it."""
    rng = np.random.default_rng(1)
    worth = rng.uniform(0.3, 0.7, 4000)
    baseline, again, other, feature = (worth + 0.1 * rng.standard_normal(4000) for _ in range(4))

    flattered, fair = levels(baseline, feature), levels(again, feature)

    low = flattered <= -0.2
    assert other[low].mean() - baseline[low].mean() > 0.05
    low = fair <= -0.2
    assert other[low].mean() - baseline[low].mean() == pytest.approx(0.0, abs=0.02)


def test_predicted_failure_finds_what_a_column_shows() -> None:
    rng = np.random.default_rng(2)
    points, asked = rng.standard_normal((300, 3)), rng.standard_normal((100, 3))
    failure = 0.4 * points[:, 1] + 0.1 * rng.standard_normal(300)

    bins, predicted = predicted_levels(points, failure, asked)

    assert np.bincount(bins).tolist() == [20] * 5
    assert np.corrcoef(predicted, asked[:, 1])[0, 1] > 0.95
    assert asked[bins == 0, 1].max() < asked[bins == 4, 1].min()
