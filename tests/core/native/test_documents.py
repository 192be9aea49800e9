"""Compiled work on one query's documents: limits of float32, widths around whole vectors, and no byte beyond."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from localrank.features import scaling
from localrank.native import documents as compiled
from localrank.native.library import library
from tests.core.native.fences import fenced, room

DONE, NOT_FINITE, OUT_OF_RANGE = range(3)
ROUNDING = 1e-6
WIDTHS = (1, 2, 15, 16, 17, 31, 32, 33, 48)
LARGEST, TINY = np.finfo(np.float32).max, np.finfo(np.float32).tiny


def scaled(
    documents: np.ndarray, *, standard: bool = False, in_front: bool = False
) -> tuple[int, np.ndarray]:
    opened = library()
    assert opened is not None
    n_docs, n_features = documents.shape
    given, space = fenced(documents, in_front=in_front), room(4 * n_features, np.float32, in_front=in_front)
    found = room(n_docs * n_features, np.float32, in_front=in_front)
    found[:] = space[:] = np.nan
    outcome = opened.localrank_scale(
        given.ctypes.data, n_docs, n_features, standard, ROUNDING, space.ctypes.data, found.ctypes.data
    )
    return outcome, found.reshape(n_docs, n_features)


def behind(documents: np.ndarray, scale: np.ndarray, *, in_front: bool = False) -> tuple[int, np.ndarray]:
    opened = library()
    assert opened is not None
    n_docs, n_features = documents.shape
    given, units = (
        fenced(documents, in_front=in_front),
        fenced(np.asarray(scale, np.float64), in_front=in_front),
    )
    space, found = (
        room(count, np.float32, in_front=in_front) for count in (4 * n_features, n_docs * n_features)
    )
    found[:] = space[:] = np.nan
    outcome = opened.localrank_behind_best(
        given.ctypes.data,
        n_docs,
        n_features,
        units.ctypes.data,
        ROUNDING,
        space.ctypes.data,
        found.ctypes.data,
    )
    return outcome, found.reshape(n_docs, n_features)


def some(n_docs: int, width: int) -> np.ndarray:
    return np.random.default_rng(100 * n_docs + width).normal(2, 3, (n_docs, width)).astype(np.float32)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_docs", [2, 3, 17])
def test_documents_of_any_width_are_scaled_as_in_double(width: int, n_docs: int) -> None:
    documents = some(n_docs, width)
    exact = documents.astype(np.float64)
    least, spread = exact.min(axis=0), np.ptp(exact, axis=0)

    for in_front in (False, True):
        outcome, found = scaled(documents, in_front=in_front)
        again, standard = scaled(documents, standard=True, in_front=in_front)

        assert (DONE, DONE) == (outcome, again)
        np.testing.assert_allclose(found, (exact - least) / spread, atol=2e-6)
        np.testing.assert_allclose(standard, (exact - exact.mean(axis=0)) / exact.std(axis=0), atol=2e-5)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_found_wherever_it_stands(width: int, bad: float) -> None:
    for document in (0, 2):
        for feature in range(width):
            documents = some(3, width)
            documents[document, feature] = bad

            assert NOT_FINITE == scaled(documents)[0]
            assert NOT_FINITE == behind(documents, np.ones(width))[0]


@pytest.mark.parametrize("width", WIDTHS)
def test_one_document_is_zero(width: int) -> None:
    for standard in (False, True):
        outcome, found = scaled(some(1, width), standard=standard)

        assert DONE == outcome
        assert [[0.0] * width] == found.tolist()


@pytest.mark.parametrize("n_docs", [1, 2, 5])
def test_one_feature_is_scaled(n_docs: int) -> None:
    documents = np.arange(n_docs, dtype=np.float32)[:, None]

    assert [[one / max(n_docs - 1, 1)] for one in range(n_docs)] == scaled(documents)[1].tolist()
    assert [[n_docs - 1.0 - one] for one in range(n_docs)] == behind(documents, np.ones(1))[1].tolist()


def test_nothing_is_scaled_if_there_is_nothing() -> None:
    for shape in ((0, 3), (3, 0), (0, 0)):
        assert DONE == scaled(np.zeros(shape, np.float32))[0]
        assert DONE == behind(np.zeros(shape, np.float32), np.ones(shape[1]))[0]


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.0, LARGEST, DONE),
        (-LARGEST / 2, LARGEST / 2, DONE),
        (-LARGEST, LARGEST, OUT_OF_RANGE),
        (np.float32(-2e31), LARGEST, OUT_OF_RANGE),
        (0.0, TINY, DONE),
        (0.0, np.nextafter(TINY, np.float32(0)), OUT_OF_RANGE),
        (0.0, 0.0, DONE),
        (TINY, 2 * TINY, DONE),
    ],
)
def test_spreads_that_float32_does_not_hold_are_left(low: float, high: float, outcome: int) -> None:
    """Beside a feature that is in range, on either side."""
    for documents in ([[low, 1], [high, 2]], [[1, low], [2, high]]):
        found = scaled(np.array(documents, np.float32))

        assert outcome == found[0]
        assert np.isnan(found[1]).all() == (outcome == OUT_OF_RANGE)


@pytest.mark.parametrize("size", [1.0, -1.0, 1e6, -1e-6])
def test_a_spread_of_rounding_is_constant_and_one_above_is_not(size: float) -> None:
    """The spread is compared with that share, in float32, of the larger magnitude."""
    large = np.float32(size)
    share = np.float32(ROUNDING) * abs(large)
    steps = [large]
    while abs(np.float64(steps[-1]) - np.float64(large)) <= share:
        steps.append(np.nextafter(steps[-1], np.float32(0)))
    column = np.array([[large], [steps[-2]]], np.float32), np.array([[large], [steps[-1]]], np.float32)

    for standard in (False, True):
        assert not scaled(column[0], standard=standard)[1].any()
        assert scaled(column[1], standard=standard)[1].any()
    assert not behind(column[0], np.ones(1))[1].any()
    assert behind(column[1], np.ones(1))[1].any()


@pytest.mark.parametrize("signs", [(1, 1), (-1, -1), (1, -1), (-1, 1)])
def test_the_size_of_a_feature_is_its_larger_magnitude(signs: tuple[int, int]) -> None:
    documents = np.array([[signs[0] * 3.0], [signs[1] * 1e-3]], np.float32)

    np.testing.assert_array_equal([0.0, 1.0], np.sort(scaled(documents)[1].ravel()))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_docs", [1, 2, 9])
def test_distances_to_the_best_are_in_units_of_the_scale(width: int, n_docs: int) -> None:
    documents, scale = some(n_docs, width), np.linspace(0.5, 7, width)
    exact = documents.astype(np.float64)

    for in_front in (False, True):
        outcome, found = behind(documents, scale, in_front=in_front)

        assert DONE == outcome
        np.testing.assert_allclose(found, (exact.max(axis=0) - exact) / scale, rtol=1e-5, atol=1e-6)
        assert not np.signbit(found).any()


@pytest.mark.parametrize(
    ("high", "scale", "outcome"),
    [
        (1.0, float(LARGEST), DONE),
        (1.0, float(LARGEST) * 1.0001, OUT_OF_RANGE),
        (TINY, float(TINY), DONE),
        (1e-10, float(TINY) * 0.999, OUT_OF_RANGE),
        (LARGEST, 1.0, DONE),
        (LARGEST, 0.5, OUT_OF_RANGE),
        (1.0, math.nan, OUT_OF_RANGE),
        (1.0, math.inf, OUT_OF_RANGE),
        (1.0, 0.0, OUT_OF_RANGE),
    ],
)
def test_units_and_distances_that_float32_does_not_hold_are_left(
    high: float, scale: float, outcome: int
) -> None:
    for place in (0, 1):
        documents, units = np.array([[0, 0], [1, 1]], np.float32), np.ones(2)
        documents[1, place], units[place] = high, scale

        found = behind(documents, units)

        assert outcome == found[0]
        assert np.isnan(found[1]).all() == (outcome == OUT_OF_RANGE)


@pytest.mark.parametrize("width", WIDTHS)
def test_values_out_of_range_are_counted_at_both_ends(width: int) -> None:
    opened = library()
    assert opened is not None
    documents = np.random.default_rng(width).integers(-3, 4, (7, width)).astype(np.float32)
    documents[0, 0] = np.nan
    least, most = np.full(width, -2, np.float32), np.full(width, 1, np.float32)
    for in_front in (False, True):
        given = [fenced(array, in_front=in_front) for array in (documents, least, most)]

        count = opened.localrank_out_of_range(
            given[0].ctypes.data, 7, width, given[1].ctypes.data, given[2].ctypes.data
        )

        assert int(((documents < -2) | (documents > 1)).sum()) == count


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_docs", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33])
def test_percentiles_are_mid_ranks(width: int, n_docs: int) -> None:
    opened = library()
    assert opened is not None
    documents = np.random.default_rng(n_docs).integers(-4, 5, (n_docs, width)).astype(np.float32)
    documents[documents == 4] = -0.0
    expected = np.array(
        [
            [((column < one).sum() + (column <= one).sum()) / (2 * n_docs) for one in column]
            for column in documents.T
        ]
    ).T
    for in_front in (False, True):
        given, space = fenced(documents, in_front=in_front), room(16 * n_docs, np.int64, in_front=in_front)
        found = room(n_docs * width, np.float32, in_front=in_front)

        opened.localrank_percentiles(
            given.ctypes.data, n_docs, width, ROUNDING, space.ctypes.data, found.ctypes.data
        )

        np.testing.assert_array_equal(expected.astype(np.float32), found.reshape(n_docs, width))


def test_percentiles_order_every_kind_of_number() -> None:
    """Negative, tiny and huge ones, in an order that is none."""
    column = np.array(
        [3e38, -1e-45, 0.0, -3e38, 1e-45, -0.0, 1.0, -1.0, 1e-38, -1e-38, 2.0, -2.0], np.float32
    )

    found = scaling.percentiles(column[:, None])[:, 0]

    expected = [((column < one).sum() + (column <= one).sum()) / 24 for one in column]
    np.testing.assert_array_equal(np.array(expected, np.float32), found)


@pytest.mark.parametrize("signs", [1, -1])
def test_the_percentile_of_a_spread_of_rounding_is_a_half(signs: int) -> None:
    one = np.float32(signs)
    share, other = np.float32(ROUNDING), one
    while abs(np.float64(other) - np.float64(one)) <= share:
        inside, other = other, np.nextafter(other, np.float32(0))

    for value, expected in ((inside, [0.5, 0.5]), (other, [0.25, 0.75])):
        found = compiled.percentiles(np.array([[one], [value]], np.float32), ROUNDING)

        assert found is not None
        assert expected == sorted(found.ravel().tolist())


def test_a_range_that_another_process_gets_is_its_own() -> None:
    known = compiled.Range(np.zeros(2, np.float32), np.ones(2, np.float32))
    beyond = np.array([[-1, 2], [0, 1], [0.5, np.nan]], np.float32)

    got = pickle.loads(pickle.dumps(known))
    known.least[:], known.most[:] = -9, 9

    assert (2, 0) == (got.count_outside(beyond), known.count_outside(beyond))


def test_what_is_not_plain_is_left_to_numpy() -> None:
    plain, ends = np.ones((3, 2), np.float32), np.zeros(2, np.float32)
    others: list[Any] = [np.ones((3, 2)), np.asfortranarray(plain)]
    scales: list[Any] = [np.ones(3), np.ones(2, np.float32), np.ones(4)[::2]]
    wrongs: list[Any] = [np.zeros(3, np.float32), np.zeros(2), np.zeros(4, np.float32)[::2]]

    for other in others:
        assert -1 == compiled.scale(other, ROUNDING, standard=False)[0]
        assert compiled.percentiles(other, ROUNDING) is None
        assert compiled.behind_best(other, np.ones(2), ROUNDING) is None
        assert compiled.Range(ends, ends).count_outside(other) is None
    for scale in scales:
        assert compiled.behind_best(plain, scale, ROUNDING) is None
    for wrong in wrongs:
        assert compiled.Range(wrong, ends).count_outside(plain) is None
        assert compiled.Range(ends, wrong).count_outside(plain) is None
    assert 6 == compiled.Range(ends, ends).count_outside(plain)
    assert compiled.behind_best(plain, np.full(2, 1e300), ROUNDING) is None
