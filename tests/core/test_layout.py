"""Rules for the arrays of a model: what they accept at their ends, and what they say of what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.arrays import (
    Anything,
    Between,
    Buckets,
    Finite,
    Layout,
    Within,
    anything,
    below,
    between,
    bound,
    finite,
)

if TYPE_CHECKING:
    from localrank.arrays import Sizes


@pytest.mark.parametrize(
    ("rule", "values", "fault"),
    [
        (Anything(), [np.nan, np.inf], None),
        (Finite(), [0.0, -3e38], None),
        (Finite(), [], None),
        (Finite(), [0.0, 1.0, np.nan, np.inf], "expected finite numbers, found nan at position 102"),
        (Finite(), [-np.inf], "expected finite numbers, found -inf at position 100"),
        (Within(2, 5), [], None),
        (Within(2, 5), [2, 3, 5], None),
        (Within(2, 5), [2, 1, 0], "expected 2 to 5, found 1 at position 101"),
        (Within(2, 5), [5, 5, 6], "expected 2 to 5, found 6 at position 102"),
        (Between(-0.5, 2.0), [-0.5, 2.0], None),
        (Between(-0.5, 2.0), [0.0, -0.75], "expected -0.5 to 2, found -0.75 at position 101"),
        (Between(-0.5, 2.0), [0.0, 2.25], "expected -0.5 to 2, found 2.25 at position 101"),
        (Between(-0.5, 2.0), [3.0, np.nan], "expected finite numbers, found nan at position 101"),
    ],
)  # fmt: skip
def test_a_rule_names_the_first_number_that_breaks_it(
    rule: Any, values: list[float], fault: str | None
) -> None:
    assert fault == rule.fault(np.array(values), 100, None)


@pytest.mark.parametrize(
    ("offsets", "start", "previous", "fault"),
    [
        ([], 0, None, None),
        ([0, 0, 7, 0, 3, 3], 0, None, None),
        ([0, 2, 1], 0, None, "expected offsets that never fall, found 1 at position 2"),
        ([0, 1, 2, 1, 1, 1], 0, None, "expected each row to start at 0, found 1 at position 3"),
        ([1, 1, 2], 0, None, "expected each row to start at 0, found 1 at position 0"),
        ([0, 1, 8], 0, None, "expected offsets of at most 7, found 8 at position 2"),
        # The second row, read in two pieces: the second piece begins in its middle.
        ([5, 7], 4, np.int64(5), None),
        ([4, 7], 4, np.int64(5), "expected offsets that never fall, found 4 at position 4"),
        ([0, 7], 6, np.int64(5), None),
    ],
)  # fmt: skip
def test_rows_of_offsets_rise_from_zero_and_not_too_far(
    offsets: list[int], start: int, previous: np.generic | None, fault: str | None
) -> None:
    assert fault == Buckets(length=3, total=7).fault(np.array(offsets, np.int32), start, previous)


def test_a_position_is_below_a_size_and_a_range_holds_its_ends() -> None:
    assert (Within(0, 4), Between(-1.0, 1.0)) == (below("points")({"points": 5}), between(-1.0, 1.0)({}))
    assert (Finite(), Anything()) == (finite({}), anything({}))


@pytest.mark.parametrize(
    ("dtype", "shape", "fault"),
    [
        ("float32", (3, 2), None),
        ("float64", (3, 2), None),
        ("int64", (3, 2), "expected float32 or float64, found int64"),
        ("float32", (3, 4), r"expected shape (3, 2), found (3, 4)"),
        ("float32", (3,), r"expected shape (points, 2), found (3,)"),
        ("float32", (0, 2), r"expected shape (0, 2), found (0, 2)"),
    ],
)
def test_dtype_and_shape_are_those_of_the_layout(
    dtype: str, shape: tuple[int, ...], fault: str | None
) -> None:
    sizes: Sizes = {"features": 2}

    assert fault == bound(Layout(("float32", "float64"), ("points", "features"), finite), dtype, shape, sizes)
    if fault is None:
        assert {"features": 2, "points": 3} == sizes


def test_an_axis_may_have_no_length_only_if_the_layout_says_so() -> None:
    sizes: Sizes = {}

    assert None is bound(Layout(("float32",), ("steps",), finite, empty=True), "float32", (0,), sizes)
    assert {"steps": 0} == sizes


@pytest.mark.parametrize(("bits", "buckets"), [(1, 3), (16, 2**16 + 1), (62, 2**62 + 1), (63, 2**62 + 1)])
def test_bits_say_how_many_offsets_there_are(bits: int, buckets: int) -> None:
    """One more than 2**bits; more than 62 bits are more buckets than any file has bytes."""
    sizes: Sizes = {}

    assert None is bound(Layout(("float32",), ("tables", "bits"), finite), "float32", (4, bits), sizes)
    assert buckets == sizes["buckets"]
