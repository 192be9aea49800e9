"""Sequential statistics: the formulas another way, and what they promise, by simulation with looks after every value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln
from scipy.stats import binom

from localrank.sequential import (
    Sample,
    log_wealth,
    log_wealths,
    mean_interval,
    more_needed,
    needed,
    share_interval,
)

ALPHA = 0.05


@given(st.integers(0, 400), st.integers(1, 400), st.sampled_from([0.05, 0.01, 0.001]))
def test_the_interval_of_a_share_holds_what_the_mixture_does_not_reject(
    successes: int, trials: int, alpha: float
) -> None:
    successes = min(successes, trials)

    low, high = share_interval(successes, trials, alpha)

    shares = np.linspace(1e-4, 1 - 1e-4, 2001)
    mixture = betaln(0.5 + successes, 0.5 + trials - successes) - betaln(0.5, 0.5)
    kept = mixture - successes * np.log(shares) - (trials - successes) * np.log1p(-shares) < -math.log(alpha)
    inside = (shares > low + 1e-9) & (shares < high - 1e-9)
    outside = (shares < low - 1e-9) | (shares > high + 1e-9)
    assert kept[inside].all()
    assert not kept[outside].any()


def test_nothing_is_known_without_trials() -> None:
    assert (0.0, 1.0) == share_interval(0, 0, ALPHA)
    assert (-1.0, 1.0) == mean_interval(Sample.of(np.zeros(0), -1, 1), ALPHA)


def ever_outside(share: float, looks: int, runs: int) -> float:
    """How often the true share is outside of the interval at any of the looks."""
    rng = np.random.default_rng(1)
    counts = np.cumsum(rng.random((runs, looks)) < share, axis=1)
    trials = np.arange(1, looks + 1)
    mixture = betaln(0.5 + counts, 0.5 + trials - counts) - betaln(0.5, 0.5)
    wealth = mixture - counts * math.log(share) - (trials - counts) * math.log1p(-share)
    return float((wealth >= -math.log(ALPHA)).any(axis=1).mean())


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_the_true_share_is_hardly_ever_outside_although_one_looks_every_time(share: float) -> None:
    runs = 1000

    wrong = ever_outside(share, 1000, runs)

    assert wrong <= binom.ppf(0.999, runs, ALPHA) / runs
    assert wrong > 0  # and a usual interval is wrong far more often


values = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=30)


@given(values, st.floats(-0.9, 0.9))
def test_the_wealth_is_the_product_of_what_each_bet_wins(found: list[float], mean: float) -> None:
    bets = [0.5 * 2 ** (-step / 2) for step in range(17)]

    up, down = log_wealths(Sample.of(np.array(found), -1, 1), mean)

    richer = [math.prod(1 + bet / (mean + 1) * (x - mean) for x in found) for bet in bets]
    poorer = [math.prod(1 - bet / (1 - mean) * (x - mean) for x in found) for bet in bets]
    assert math.log(sum(richer) / 17) == pytest.approx(up, abs=1e-9)
    assert math.log(sum(poorer) / 17) == pytest.approx(down, abs=1e-9)
    both = log_wealth(Sample.of(np.array(found), -1, 1), mean)
    assert math.log((math.exp(up) + math.exp(down)) / 2) == pytest.approx(both, abs=1e-9)


@given(values)
def test_the_interval_of_a_mean_ends_where_the_wealth_is_the_limit(found: list[float]) -> None:
    sample = Sample.of(np.array(found * 10), -1, 1)

    low, high = mean_interval(sample, ALPHA)

    assert low <= sample.mean <= high
    for edge, beyond in ((low, low - 1e-6), (high, high + 1e-6)):
        if -1 < edge < 1:
            assert log_wealth(sample, beyond) >= -math.log(ALPHA) - 1e-6
            assert log_wealth(sample, 2 * edge - beyond) <= -math.log(ALPHA) + 1e-6


def decided(mean: float, looks: int, runs: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """After how many of 1 and -1 each run ends, with a look after each; infinite if it never does."""
    rng = np.random.default_rng(seed)
    wins = np.cumsum(rng.random((runs, looks)) < (1 + mean) / 2, axis=1)
    losses = np.arange(1, looks + 1) - wins
    bets = 0.5 * 2.0 ** (-0.5 * np.arange(17))
    wealth = np.zeros((runs, looks))
    for bet in (*bets, *-bets):
        wealth += np.exp(wins * math.log1p(bet) + losses * math.log1p(-bet)) / 34
    over = wealth >= 1 / ALPHA
    return np.where(over.any(axis=1), over.argmax(axis=1) + 1.0, np.inf)


def test_looking_after_every_value_finds_no_difference_where_there_is_none() -> None:
    runs = 1000

    wrong = float(np.isfinite(decided(0.0, 2000, runs, seed=2)).mean())

    assert wrong <= binom.ppf(0.999, runs, ALPHA) / runs


def test_a_usual_test_at_every_look_would_find_one_that_is_not_there() -> None:
    """What the wealth is for: the same values, judged by p < 0.05 again and again."""
    rng = np.random.default_rng(2)
    sums = np.cumsum(np.where(rng.random((1000, 2000)) < 0.5, 1, -1), axis=1)
    z = np.abs(sums[:, 99:]) / np.sqrt(np.arange(100, 2001))

    assert 0.3 < (z > 1.96).any(axis=1).mean()


@pytest.mark.parametrize(("mean", "power"), [(0.2, 0.8), (0.1, 0.9)])
def test_a_difference_is_found_with_at_least_the_stated_power(mean: float, power: float) -> None:
    looks = needed(mean, 1 - mean**2, ALPHA, power)

    found = decided(mean, looks, 400, seed=3)

    assert np.isfinite(found).mean() >= power
    assert np.median(found) < 0.7 * looks  # most end earlier, which is the gain of looking


def test_what_is_still_needed_is_what_then_suffices() -> None:
    sample = Sample.of(np.array([1.0] * 33 + [-1.0] * 20 + [0.0] * 47), -1, 1)

    more = more_needed(sample, ALPHA)

    assert more is not None
    total = (100 + more) / 100
    assert log_wealth(sample, times=total) >= -math.log(ALPHA) > log_wealth(sample, times=0.98 * total)
    assert 0 == more_needed(sample._replace(counts=sample.counts * total * 1.01), ALPHA)
    assert None is more_needed(Sample.of(np.array([1.0, -1.0]), -1, 1), ALPHA)


def test_the_number_of_values_needed_is_that_of_its_formula() -> None:
    """17 bets on each side: 2 ln(34 / 0.05) is 13.044, and the normal quantile of 0.8 is 0.8416."""
    assert needed(0.1, 1.0, 0.05, 0.8) == math.ceil(100 * (0.8416212 + math.sqrt(13.0441827)) ** 2)
    assert needed(0.1, 0.25, 0.05, 0.5) == math.ceil(25 * 13.0441827)


def test_far_too_many_are_more_than_ten_thousand_times_as_many() -> None:
    """The wealth of so small a mean grows with the square of the sum: twice the mean needs a quarter of the values."""

    def sample(mean: float) -> Sample:
        return Sample(np.array([-1.0, 1.0]), np.array([1 - mean, 1 + mean]) * 50, -1.0, 1.0)

    def furthest(mean: float) -> float:
        return log_wealth(sample(mean), times=1e4) + math.log(ALPHA)

    within = 0.001
    while furthest(within) < 0:
        within *= 1.02
    beyond = within / 1.03
    assert furthest(beyond) < 0

    found = more_needed(sample(within), ALPHA)

    assert found is not None
    assert 0.9e6 < found <= 999_900
    assert None is more_needed(sample(beyond), ALPHA)
    assert None is more_needed(Sample.of(np.zeros(0), -1, 1), ALPHA)


def test_a_sample_counts_its_values() -> None:
    sample = Sample.of(np.array([1.0, 0.0, 1.0, -0.5]), -1, 1)

    assert ([-0.5, 0.0, 1.0], [1.0, 1.0, 2.0]) == (sample.values.tolist(), sample.counts.tolist())
    assert (4.0, 0.375) == (sample.size, sample.mean)
    assert sample.variance == pytest.approx(np.var([1.0, 0.0, 1.0, -0.5]))
    none = Sample.of(np.zeros(0), -1, 1)
    assert (0.0, 0.0, 0.0) == (none.size, none.mean, none.variance)
