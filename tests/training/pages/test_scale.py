"""Round numbers along an axis, and where numbers are drawn."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank_training.pages.scale import Scale, round_numbers, written


@given(st.floats(-100, 100), st.floats(1e-3, 1e6), st.integers(2, 12))
def test_ticks_are_few_equally_far_apart_and_within_the_axis(place: float, size: float, most: int) -> None:
    low = place * size
    scale = Scale(low, low + size, 0.0, 100.0)

    ticks = scale.ticks(most)

    assert len(ticks) <= most + 1
    assert all(scale.holds(tick) for tick in ticks)
    steps = [after - before for before, after in pairwise(ticks)]
    assert steps == pytest.approx([steps[0]] * len(steps) if steps else [], rel=1e-6)


@given(st.floats(-100, 100), st.floats(1e-3, 1e6), st.integers(5, 12))
def test_steps_between_ticks_are_1_2_2_and_a_half_or_5_times_a_power_of_ten(
    place: float, size: float, most: int
) -> None:
    low = place * size

    ticks = round_numbers(low, low + size, most)

    assert len(ticks) >= 2
    step = ticks[1] - ticks[0]
    digits = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert any(digits == pytest.approx(one, rel=1e-3) for one in (1, 2, 2.5, 5))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 100, [1, 2, 5, 10, 20, 50, 100]),
        (0.5, 20_000, [1, 10, 100, 1000, 10_000]),
        (30, 60, [50]),
        (1e-3, 1.0, [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1]),
    ],
)
def test_ticks_of_a_logarithmic_axis(low: float, high: float, expected: list[float]) -> None:
    assert expected == round_numbers(low, high, 7, log=True)


def test_equal_factors_take_equal_room_on_a_logarithmic_axis() -> None:
    scale = Scale(1.0, 1000.0, 50.0, 350.0, log=True)

    assert [50.0, 150.0, 250.0, 350.0] == pytest.approx([scale.at(value) for value in (1, 10, 100, 1000)])


@pytest.mark.parametrize(
    ("values", "log", "expected"),
    [
        ([0.0, 0.25, 0.5], False, ["0", "0.25", "0.50"]),
        ([-2.0, 0.0, 2.0], False, ["−2", "0", "2"]),
        ([5000.0, 10_000.0], False, ["5,000", "10,000"]),
        ([0.01, 1.0, 1000.0], True, ["0.01", "1", "1,000"]),
    ],
)
def test_ticks_are_written_with_the_digits_they_need(
    values: list[float], *, log: bool, expected: list[str]
) -> None:
    assert expected == written(values, log=log)


@pytest.mark.parametrize(
    ("low", "high", "most", "log", "expected"),
    [
        (0.0, 1.0, 5, False, [0.0, 0.25, 0.5, 0.75, 1.0]),
        (0.0, 10.0, 3, False, [0.0, 5.0, 10.0]),
        (0.0, 8.0, 2, False, [0.0]),
        # One number has the whole axis to itself.
        (0.0, 1.0, 1, False, [0.0, 1.0]),
        # Thirteen powers of ten are more than five: every third of them.
        (1.0, 1e12, 5, True, [1.0, 1e3, 1e6, 1e9, 1e12]),
        (1.0, 1000.0, 4, True, [1.0, 10.0, 100.0, 1000.0]),
        (1.0, 1000.0, 7, True, [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]),
    ],
)  # fmt: skip
def test_round_numbers_of_an_axis(
    low: float, high: float, most: int, expected: list[float], *, log: bool
) -> None:
    assert expected == round_numbers(low, high, most, log=log)


def test_an_axis_holds_both_of_its_ends_and_nothing_beyond() -> None:
    scale = Scale(0.1, 0.3, 0.0, 100.0)

    # 0.1 + 0.2 is a little more than 0.3.
    assert [True, True, True] == [scale.holds(value) for value in (0.1, 0.1 + 0.2, 0.1 - 1e-12)]
    assert [False, False] == [scale.holds(value) for value in (0.1 - 1e-9, 0.3 + 1e-9)]


def test_ticks_of_nothing_are_nothing() -> None:
    assert [] == written([])
