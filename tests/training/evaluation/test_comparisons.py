"""Comparisons: against scipy.stats, against enumeration, by simulation, and by hand."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.metrics import Measured, measure
from localrank_training.evaluation.comparisons import (
    ENOUGH,
    Alternative,
    compare,
    compare_family,
    detectable_difference,
    holm,
    interval_of,
    lower_bound,
    non_inferiority,
    paired_differences,
    paired_t,
    sign_flip_test,
)

if TYPE_CHECKING:
    from localrank.arrays import Vector

ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "greater", "less")


def enumerated(differences: Vector, alternative: Alternative) -> float:
    """Return the sign-flip p value by trying every pattern of signs."""
    sums = [np.dot(signs, differences) for signs in itertools.product((1, -1), repeat=len(differences))]
    observed = differences.sum()
    extreme = {
        "two-sided": [abs(one) >= abs(observed) - 1e-9 for one in sums],
        "greater": [one >= observed - 1e-9 for one in sums],
        "less": [one <= observed + 1e-9 for one in sums],
    }[alternative]
    return float(np.mean(extreme))


# --------------------------------------------------------------------------------------------- sign flips


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 11])
def test_few_queries_are_enumerated_exactly(n: int, alternative: Alternative) -> None:
    rng = np.random.default_rng(n)
    for differences in (rng.normal(0.3, 1, n), rng.integers(-2, 4, n) / 4):
        found = sign_flip_test(differences, alternative=alternative)

        assert found == pytest.approx(enumerated(differences, alternative), abs=1e-12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_exact_p_values_are_those_of_scipy(alternative: Alternative) -> None:
    rng = np.random.default_rng(5)
    ours, theirs = rng.normal(0.4, 1, 10), rng.normal(0, 1, 10)
    reference = stats.permutation_test(
        (ours, theirs),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        alternative=alternative,
        vectorized=True,
    )

    assert sign_flip_test(ours - theirs, alternative=alternative) == pytest.approx(
        reference.pvalue, abs=1e-12
    )


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_random_permutations_estimate_the_exact_p_value(alternative: Alternative) -> None:
    """16 queries: 65,536 patterns, more than the permutations drawn."""
    differences = np.random.default_rng(2).normal(0.35, 1, 16)
    exact = sign_flip_test(differences, alternative=alternative, permutations=2**16)
    assert exact == pytest.approx(enumerated(differences, alternative), abs=1e-12)

    drawn = sign_flip_test(differences, alternative=alternative, permutations=20_000, seed=1)

    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 20_000) ** 0.5)


def test_every_sign_is_flipped_in_half_of_the_permutations() -> None:
    """One large gain among many small losses: as much is reached whenever its own sign is plus, in half of all."""
    differences = np.full(1001, -1e-9)
    for position in (0, 7, 8, 500, 1000):
        one = differences.copy()
        one[position] = 1.0
        p = sign_flip_test(one, alternative="greater", seed=position)
        assert p == pytest.approx(0.5, abs=4 * (0.25 / 20_000) ** 0.5)


def test_a_p_value_is_never_zero() -> None:
    differences = np.random.default_rng(0).normal(1, 0.1, 400)

    assert sign_flip_test(differences) == 1 / 20_001
    assert sign_flip_test(differences, permutations=50_000) == 1 / 50_001
    assert sign_flip_test(differences, alternative="less") == 1.0


def test_many_queries_agree_with_the_t_test() -> None:
    differences = np.random.default_rng(4).normal(0.0, 0.1, 5_000)
    expected = stats.ttest_1samp(differences, 0).pvalue

    found = sign_flip_test(differences, permutations=40_000)

    assert 0.001 < expected < 0.5
    assert found == pytest.approx(expected, abs=0.004)


def test_queries_without_a_difference_change_nothing() -> None:
    differences = np.array([0.2, -0.1, 0.4, 0.3, 0.1])

    assert sign_flip_test(np.concatenate([differences, np.zeros(500)])) == sign_flip_test(differences)
    assert sign_flip_test(np.zeros(20)) == 1.0


def test_p_values_are_uniform_where_there_is_no_difference() -> None:
    rng = np.random.default_rng(9)
    p = [sign_flip_test(rng.normal(size=30), permutations=500, seed=i) for i in range(400)]

    assert stats.kstest(p, "uniform").pvalue > 0.01


@settings(max_examples=30)
@given(st.lists(st.integers(-8, 8), min_size=1, max_size=9))
def test_equal_sums_count_as_equally_extreme_whatever_their_rounding(eighths: list[int]) -> None:
    """Tenths are not binary fractions: their sums differ by rounding with the order of addition."""
    exact = np.array(eighths) / 8
    rounded = exact * 0.8

    for alternative in ALTERNATIVES:
        assert sign_flip_test(exact, alternative=alternative) == sign_flip_test(
            rounded, alternative=alternative
        )


# ---------------------------------------------------------------------------------------------- intervals


def test_an_interval_is_that_of_scipys_t_if_every_query_differs() -> None:
    differences = np.random.default_rng(8).exponential(1, 60) - 0.9
    low, high = stats.t.interval(0.9, 59, differences.mean(), stats.sem(differences))

    found = interval_of(differences, level=0.9)

    assert found is not None
    np.testing.assert_allclose([found.low, found.high], [low, high])
    assert found.level == 0.9


def test_only_queries_that_differ_count_as_degrees_of_freedom() -> None:
    differences = np.concatenate([np.random.default_rng(2).normal(0.1, 0.3, 9), np.zeros(71)])
    low, high = stats.t.interval(0.95, 8, differences.mean(), differences.std(ddof=1) / 80**0.5)

    found = interval_of(differences)

    assert found is not None
    np.testing.assert_allclose([found.low, found.high], [low, high])


def test_too_few_queries_that_differ_give_no_interval() -> None:
    differences = np.zeros(200)
    differences[: ENOUGH - 1] = np.linspace(0.1, 0.3, ENOUGH - 1)

    assert interval_of(differences) is None
    assert lower_bound(differences) is None
    assert detectable_difference(differences) is None
    claim = non_inferiority(differences, 0.002)
    assert (claim.low, claim.holds) == (None, False)
    differences[-1] = 0.2
    assert interval_of(differences) is not None


@pytest.mark.parametrize("n", [12, 60, 150])
def test_intervals_cover_the_true_mean_about_as_often_as_they_say(n: int) -> None:
    """A third of the queries differ by nothing, the others as skewed as real differences are."""
    rng = np.random.default_rng(6)
    samples = np.where(rng.random((1_000, n)) < 1 / 3, 0.0, rng.gamma(4, 0.5, (1_000, n)) - 1.8)
    truth = 2 / 3 * (4 * 0.5 - 1.8)
    found = [interval_of(one) for one in samples]
    intervals = [interval for interval in found if interval is not None]

    covered = sum(interval.low <= truth <= interval.high for interval in intervals)

    assert len(intervals) > 500
    assert 0.93 <= covered / len(intervals) <= 0.98


def test_everything_is_the_same_for_the_same_seed_and_differs_for_another() -> None:
    differences = np.random.default_rng(3).normal(0.1, 1, 80)

    assert sign_flip_test(differences, seed=4) == sign_flip_test(differences, seed=4)
    assert sign_flip_test(differences, seed=4) != sign_flip_test(differences, seed=5)


# ----------------------------------------------------------------------------- bounds, power, t, family


def test_the_one_sided_bound_is_the_low_end_of_the_interval_with_twice_the_tail() -> None:
    differences = np.random.default_rng(3).exponential(size=70) - 0.9

    interval = interval_of(differences, level=0.90)
    assert interval is not None
    assert lower_bound(differences, level=0.95) == pytest.approx(interval.low, rel=1e-12)


def test_non_inferior_is_a_lower_bound_above_minus_the_margin() -> None:
    differences = np.random.default_rng(3).normal(0, 0.01, 400)
    bound = lower_bound(differences)
    assert bound is not None
    assert -0.002 < bound < 0

    assert non_inferiority(differences, -bound + 1e-9).holds
    assert not non_inferiority(differences, -bound - 1e-9).holds
    assert non_inferiority(differences, 0.002).low == bound


@pytest.mark.parametrize("margin", [0.0, -0.1, np.nan, np.inf])
def test_a_margin_is_positive(margin: float) -> None:
    with pytest.raises(InvalidConfiguration, match="margin: expected a positive number"):
        non_inferiority(np.ones(3), margin)


def test_non_inferiority_of_an_equal_ranking_is_claimed_as_seldom_as_its_level_says() -> None:
    """At the margin itself the claim is wrong, and is made in about 5 % of the cases."""
    rng = np.random.default_rng(12)
    claims = sum(non_inferiority(rng.normal(-0.2, 1, 80), 0.2).holds for _ in range(300))

    assert 0.015 <= claims / 300 <= 0.095


def test_the_t_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.2, 1, 40), rng.normal(0, 1, 40)

    assert paired_t(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-12)
    assert paired_t(np.array([0.5])) is None
    assert paired_t(np.full(7, 0.1)) is None


def test_holm_by_hand() -> None:
    """Four p values: 0.01 * 4, 0.02 * 3, 0.03 * 2 (raised to 0.06), 0.2 * 1."""
    np.testing.assert_allclose(holm([0.03, 0.01, 0.2, 0.02]), [0.06, 0.04, 0.2, 0.06])
    np.testing.assert_allclose(holm([0.6, 0.5]), [1.0, 1.0])
    np.testing.assert_allclose(holm([0.04]), [0.04])
    assert len(holm([])) == 0


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.5))
def test_holm_rejects_what_the_step_down_procedure_rejects(p: list[float], alpha: float) -> None:
    """Holm (1979): go through the p values in rising order, stop at the first above alpha / (those left)."""
    rejected = set()
    for step, which in enumerate(np.argsort(p, kind="stable")):
        if p[which] * (len(p) - step) > alpha:
            break
        rejected.add(int(which))

    assert rejected == set(np.flatnonzero(holm(p) <= alpha).tolist())


def test_holm_refuses_what_is_no_p_value() -> None:
    for wrong in (-0.1, 1.1, np.nan):
        with pytest.raises(InvalidData, match="p values: expected numbers from 0 to 1"):
            holm([0.5, wrong])


def test_the_detectable_difference_is_found_in_four_of_five_samples() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(0, 0.3, (2_000, 200))
    detectable = detectable_difference(samples[0] * 0.3 / samples[0].std(ddof=1))
    assert detectable is not None
    quantiles = stats.t.ppf(0.975, 199) + stats.t.ppf(0.8, 199)
    assert detectable == pytest.approx(quantiles * 0.3 / 200**0.5, rel=1e-6)

    found = stats.ttest_1samp(samples + detectable, 0, axis=1).pvalue < 0.05

    assert found.mean() == pytest.approx(0.8, abs=0.04)


def test_power_and_level_are_shares() -> None:
    differences = np.array([0.1, 0.2])
    with pytest.raises(InvalidConfiguration, match=r"expected numbers between 0 and 1, found 1\.5, 0\.05"):
        detectable_difference(differences, power=1.5)
    with pytest.raises(InvalidConfiguration, match="level: expected a number between 0 and 1, found 95"):
        interval_of(differences, level=95)
    assert detectable_difference(np.array([0.3])) is None


# --------------------------------------------------------------------------------------------- comparing


def ranked(seed: int, noise: float, convention: str = "standard", metric: str = "ndcg@5") -> Measured:
    """Measure a noisy ranking of queries that do not depend on the seed; every fifth query is empty."""
    rng = np.random.default_rng(77)
    labels = rng.integers(0, 3, (100, 12)).astype(np.float64)
    labels[::5] = 0
    scores = labels + np.random.default_rng(seed).normal(scale=noise, size=labels.shape)
    return measure(labels.ravel(), scores.ravel(), np.arange(0, 1201, 12), [metric], convention)[0]


def test_a_comparison_says_everything_about_one_metric() -> None:
    candidate, baseline = ranked(1, 0.5), ranked(2, 1.0)
    differences = candidate.per_query - baseline.per_query

    found = compare(candidate, baseline, margin=0.01, seed=3)

    assert found.metric == "ndcg@5"
    assert found.convention == "standard"
    assert (found.candidate, found.baseline) == (candidate.mean, baseline.mean)
    assert found.difference == pytest.approx(candidate.mean - baseline.mean, rel=1e-12)
    assert found.interval == interval_of(differences)
    assert found.interval is not None
    assert str(found.interval) == found.interval_text
    assert found.interval.low < found.difference < found.interval.high
    assert found.p == found.p_holm == sign_flip_test(differences, seed=3)
    assert found.p_t == paired_t(differences)
    assert found.wins == (differences > 0).sum()
    assert found.losses == (differences < 0).sum()
    assert found.ties == (differences == 0).sum()
    assert found.ties >= 20
    assert found.helped == (differences > 0.1).sum()
    assert found.hurt == (differences < -0.1).sum()
    assert found.detectable == detectable_difference(differences)
    assert found.non_inferiority == non_inferiority(differences, 0.01)
    assert (found.n_queries, found.n_left_out) == (100, 0)


def test_swapping_the_sides_changes_the_sign_and_nothing_else() -> None:
    one, other = compare(ranked(1, 0.5), ranked(2, 0.7)), compare(ranked(2, 0.7), ranked(1, 0.5))

    assert one.difference == -other.difference
    assert (one.wins, one.losses, one.helped, one.hurt) == (
        other.losses,
        other.wins,
        other.hurt,
        other.helped,
    )
    assert one.p == pytest.approx(other.p, abs=0.01)


def test_equal_rankings_differ_nowhere() -> None:
    found = compare(ranked(1, 0.5), ranked(1, 0.5))

    assert (found.difference, found.p, found.p_t, found.ties) == (0.0, 1.0, None, 100)
    assert found.interval is None
    assert found.interval_text == "0 of 100 queries differ: too few for an interval"


def test_queries_left_out_by_the_convention_are_not_compared() -> None:
    found = compare(ranked(1, 0.5, "standard-skip"), ranked(2, 1.0, "standard-skip"))

    assert (found.n_queries, found.n_left_out) == (80, 20)
    assert found.candidate == pytest.approx(ranked(1, 0.5, "standard-skip").mean)


def test_a_family_is_adjusted_for_its_size() -> None:
    pairs = [(ranked(i, 0.5), ranked(i + 10, 0.55)) for i in range(3)]

    found = compare_family([a for a, _ in pairs], [b for _, b in pairs], seed=1)

    np.testing.assert_allclose([one.p_holm for one in found], holm([one.p for one in found]))
    assert [one.p for one in found] == [compare(a, b, seed=1).p for a, b in pairs]


def test_only_the_same_metric_convention_and_queries_are_compared() -> None:
    one = ranked(1, 0.5)
    with pytest.raises(InvalidData, match=r"metric: expected the same on both sides .* \['ndcg@5', 'map'\]"):
        compare(one, ranked(1, 0.5, metric="map"))
    with pytest.raises(InvalidData, match=r"convention: .* \['standard', 'standard-one'\]"):
        compare(one, ranked(1, 0.5, "standard-one"))
    with pytest.raises(InvalidData, match=r"queries: expected the same on both sides .* 100 and 1"):
        compare(one, measure([1, 0], [2, 1], [0, 2], ["ndcg@5"])[0])
    skipping = [
        measure(labels, [2, 1], [0, 1, 2], ["map"], "standard-skip")[0] for labels in ([0, 1], [1, 0])
    ]
    with pytest.raises(InvalidData, match="expected the same empty queries"):
        paired_differences(*skipping)
    nothing = measure([0, 0], [2, 1], [0, 2], ["map"], "standard-skip")[0]
    with pytest.raises(InvalidData, match="expected at least one query with a figure, found none"):
        compare(nothing, nothing)


@pytest.mark.parametrize(
    ("function", "wrong", "complaint"),
    [
        (sign_flip_test, {"alternative": "better"}, "'better': expected one of two-sided, greater, less"),
        (sign_flip_test, {"permutations": 0}, "permutations: expected at least 1, found 0"),
    ],
)
def test_wrong_settings_are_refused(function: Any, wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidConfiguration, match=complaint):
        function(np.array([0.1, 0.2]), **wrong)


@pytest.mark.parametrize(
    ("differences", "complaint"),
    [
        (np.array([0.1, np.nan]), "difference of query 1: expected a finite number, found nan"),
        (np.zeros((2, 2)), r"expected one per query, found shape \(2, 2\)"),
    ],
)
def test_wrong_differences_are_refused(differences: Vector, complaint: str) -> None:
    for call in (sign_flip_test, interval_of, paired_t, detectable_difference):
        with pytest.raises(InvalidData, match=complaint):
            call(differences)


def test_a_comparison_becomes_json() -> None:
    members = compare(ranked(1, 0.5), ranked(2, 0.9), margin=0.002).to_json()

    assert members["interval"].keys() == {"low", "high", "level"}
    assert members["non_inferiority"]["margin"] == 0.002
    assert members["convention"] == "standard"
