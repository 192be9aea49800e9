"""Scales at their limits: what is constant but for rounding, and numbers at the ends of float32."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest

from localrank.features import scaling
from localrank.native.documents import Range

pytestmark = pytest.mark.usefixtures("arithmetic")

EPSILON = 2.0**-23
LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).tiny)


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


@pytest.mark.parametrize("factor", [1.0, -1.0, 2.0**100, -(2.0**-100)])
@pytest.mark.parametrize(("steps", "constant"), [(0, True), (4, True), (5, False)])
def test_values_are_the_same_if_they_differ_by_four_steps_of_float32(
    factor: float,
    steps: int,
    constant: bool,  # noqa: FBT001
) -> None:
    documents = column(factor, factor * (1 + steps * EPSILON), factor)

    assert [constant] == scaling.constant_features(documents).tolist()
    for found, nothing in (
        (scaling.within_query(documents, standard=False), 0.0),
        (scaling.within_query(documents, standard=True), 0.0),
        (scaling.percentiles(documents), 0.5),
        (scaling.behind_best(documents, np.ones(1)), 0.0),
    ):
        assert found is not None
        assert constant == (found == nothing).all()


def test_values_of_both_signs_are_compared_with_the_larger() -> None:
    assert [False, True, False] == scaling.constant_features(
        np.array([[-1, 3, 0], [1, 3, 1e-30]], np.float32)
    ).tolist()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("standard", [False, True])
def test_what_is_not_finite_has_no_scale(bad: float, standard: bool) -> None:  # noqa: FBT001
    documents = np.ones((3, 2), np.float32)
    documents[1, 1] = bad

    assert scaling.within_query(documents, standard=standard) is None
    assert not scaling.all_finite(documents)


def test_what_is_finite_is_so_up_to_the_ends_of_float32() -> None:
    assert scaling.all_finite(column(-LARGEST, LARGEST, 0.0))


def test_the_scale_of_a_list_is_that_of_its_definition() -> None:
    documents = np.array([[1, 5], [3, 5], [2, 5], [9, 5]], np.float32)
    first = documents[:, 0].astype(np.float64)

    lowest = scaling.within_query(documents, standard=False)
    standard = scaling.within_query(documents, standard=True)

    assert lowest is not None
    assert standard is not None
    np.testing.assert_allclose(lowest[:, 0], (first - 1) / 8, rtol=1e-6)
    np.testing.assert_allclose(standard[:, 0], (first - first.mean()) / first.std(), rtol=1e-6)
    assert not lowest[:, 1].any()
    assert not standard[:, 1].any()


@pytest.mark.parametrize("standard", [False, True])
def test_a_list_at_both_ends_of_float32_has_a_scale(standard: bool) -> None:  # noqa: FBT001
    found = scaling.within_query(column(-LARGEST, LARGEST), standard=standard)

    assert ([[-1.0], [1.0]] if standard else [[0.0], [1.0]]) == np.asarray(found).tolist()


@pytest.mark.parametrize(
    ("value", "shift", "scale", "expected"),
    [
        (7.0, 1.0, 3.0, 2.0),
        # A scale that float32 holds, and the next that it does not.
        (LARGEST, 0.0, LARGEST, 1.0),
        (LARGEST, 0.0, 2 * LARGEST, 0.5),
        (SMALLEST, 0.0, SMALLEST, 1.0),
        (SMALLEST, 0.0, SMALLEST / 2, 2.0),
        # The difference is beyond float32, and the quotient is not.
        (LARGEST, -LARGEST, 4.0, LARGEST / 2),
        # The quotient is beyond float32: cut.
        (LARGEST, 0.0, 0.5, LARGEST),
        (-LARGEST, 0.0, 0.5, -LARGEST),
        (1.0, 0.0, SMALLEST / 2**20, LARGEST),
    ],
)
def test_quotients_are_right_up_to_the_ends_of_float32(
    value: float, shift: float, scale: float, expected: float
) -> None:
    # A second feature shows that one of them does not spoil the other.
    documents = np.array([[value, 1.0]], np.float32)

    found = scaling.rescaled(documents, np.array([shift, 0.0]), np.array([scale, 2.0]))

    assert np.float32 == found.dtype
    np.testing.assert_allclose(found, [[expected, 0.5]], rtol=1e-6)


def test_products_of_pairs_are_in_the_order_of_the_upper_triangle() -> None:
    documents = np.array([[2, 3, 5], [-1, 0, 7]], np.float32)

    found = scaling.products_of_pairs(documents)

    assert [[a * b for a, b in combinations_with_replacement(row, 2)] for row in documents.tolist()] == (
        found.tolist()
    )


def test_products_beyond_float32_are_cut() -> None:
    found = scaling.products_of_pairs(np.array([[LARGEST, -LARGEST]], np.float32))

    assert [[LARGEST, -LARGEST, LARGEST]] == found.tolist()


def test_percentiles_are_places_less_one_half() -> None:
    found = scaling.percentiles(column(4, 1, 4, 9))

    np.testing.assert_allclose(found[:, 0], [(2.5 - 0.5) / 4, 0.5 / 4, (2.5 - 0.5) / 4, 3.5 / 4])


def test_the_distance_to_the_best_is_in_units_of_the_scale() -> None:
    found = scaling.behind_best(np.array([[1, 4], [5, 4]], np.float32), np.array([2.0, 7.0]))

    assert [[2.0, 0.0], [0.0, 0.0]] == found.tolist()


def test_values_at_the_ends_of_a_range_are_within_it_and_missing_ones_are_not_counted() -> None:
    least, most = np.array([-1, 0], np.float32), np.array([1, 0], np.float32)

    inside = np.array([[-1, 0], [1, 0], [math.nan, math.nan]], np.float32)
    beyond = np.nextafter(inside, np.array([[-2, 1], [2, -1], [0, 0]], np.float32))

    assert 0 == scaling.count_out_of_range(inside, Range(least, most))
    assert 4 == scaling.count_out_of_range(beyond, Range(least, most))
