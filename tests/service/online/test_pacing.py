"""What the baseline takes for a list of some length."""

from __future__ import annotations

import numpy as np
import pytest

from localrank_service.online.arms import LENGTH, LinearPace


def learned(lengths: list[int], fixed: float = 50e-6, each: float = 1e-6) -> LinearPace:
    pace = LinearPace()
    for length in lengths:
        pace.learn(length, fixed + each * length)
    return pace


@pytest.mark.parametrize("empty", [0, 3])
def test_nothing_is_expected_before_the_first_document(empty: int) -> None:
    pace = learned([0] * empty)

    assert (None, None) == (pace.expected(10), pace.scaled(10, 1.0))


def test_the_line_is_found_from_lists_of_different_lengths() -> None:
    lengths = np.random.default_rng(0).integers(1, 300, 200).tolist()
    pace = learned(lengths)

    for length in (1, 50, 100, 5000):
        assert 50e-6 + 1e-6 * length == pytest.approx(pace.expected(length), rel=1e-6)


@pytest.mark.parametrize("length", [1, 20, 100, 5000])
def test_a_version_as_fast_as_the_baseline_has_the_same_time_whatever_its_lists(length: int) -> None:
    """A caller that knows its arm may send long lists to one arm and short ones to the other."""
    pace = learned([5, 400] * 50)

    assert 50e-6 + 1e-6 * LENGTH == pytest.approx(pace.scaled(length, 50e-6 + 1e-6 * length), rel=1e-6)


def test_lists_of_one_length_are_compared_as_they_are() -> None:
    pace = learned([40] * 30)

    assert 90e-6 == pytest.approx(pace.expected(40))
    one, twice = pace.scaled(40, 90e-6), pace.scaled(40, 180e-6)
    assert one is not None
    assert 2 * one == pytest.approx(twice)


def test_the_line_neither_falls_nor_goes_below_zero() -> None:
    falling, steep = LinearPace(), LinearPace()
    for length, slow in ((10, 100e-6), (200, 20e-6)) * 20:
        falling.learn(length, slow)
    for length, slow in ((10, 1e-6), (200, 900e-6)) * 20:
        steep.learn(length, slow)

    for pace in (falling, steep):
        found = [pace.expected(length) for length in (0, 1, 100, 5000)]
        assert all(one is not None and one >= 0 for one in found)
        assert sorted(found) == found  # type: ignore[type-var]
