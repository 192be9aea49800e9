"""The compiled signature: what it finds, where it leaves the work to others, and that it stays in its memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank.native.documents import DONE, IMPRECISE, PrincipalDirections
from localrank.native.library import library
from tests.core.native.fences import fenced, room

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector

EPSILON = 2.0**-23
FOUND = PrincipalDirections(tame=(1e-20, 1e20), off_centre=1e-9, clear_gap=1e-3)


def spread(n_docs: int, n_features: int, seed: int) -> Matrix:
    """Return documents whose features are of very different size, so that directions are far apart."""
    sizes = 0.5 ** np.arange(n_features)
    return (np.random.default_rng(seed).standard_normal((n_docs, n_features)) * sizes + 3).astype(np.float32)


def in_double(documents: Matrix) -> tuple[Vector, Vector]:
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(documents.astype(np.float64), rowvar=False)))
    return values[::-1], vectors[:, ::-1].T


@given(
    n_docs=st.integers(2, 60), n_features=st.integers(1, 60), most=st.integers(1, 5), seed=st.integers(0, 9)
)
def test_directions_are_those_of_double_precision(n_docs: int, n_features: int, most: int, seed: int) -> None:
    documents = spread(n_docs, n_features, seed)
    wanted = min(most, n_docs - 1, n_features)

    outcome, variances, directions = FOUND.of(documents, wanted)

    assert outcome in {DONE, IMPRECISE}
    if outcome == DONE:
        expected, axes = in_double(documents)
        np.testing.assert_allclose(variances[:wanted], expected[:wanted], rtol=1e-3, atol=1e-5 * expected[0])
        assert math.isclose(expected.sum(), variances[wanted], rel_tol=1e-4)
        np.testing.assert_allclose(np.abs(np.vecdot(directions, axes[:wanted])), 1.0, rtol=1e-4)


@pytest.mark.parametrize(("n_docs", "n_features"), [(9, 4), (4, 9), (40, 100), (100, 40)])
def test_documents_far_from_zero_have_the_directions_of_those_around_it(n_docs: int, n_features: int) -> None:
    """Whole numbers stay exact."""
    near = np.round(spread(n_docs, n_features, 1) * 64)

    _, variances, directions = FOUND.of(near, 2)
    outcome, shifted, same = FOUND.of(near + 2.0**14, 2)

    assert outcome == DONE
    np.testing.assert_allclose(shifted, variances, rtol=1e-5)
    np.testing.assert_allclose(np.abs(np.vecdot(directions, same)), 1.0, rtol=1e-5)


def crossed(strong: float, weak: float, away: float = 0.0) -> Matrix:
    """Return documents whose scatter has these two eigenvalues, and whose mean is so far away."""
    a, b = math.sqrt(strong / 2), math.sqrt(weak / 2)
    return np.array([[a, 0, away], [-a, 0, away], [0, b, away], [0, -b, away]], np.float32)


AWAY = 1e4
FLOOR = 4 * EPSILON**2 * AWAY**2 / 1e-3


@pytest.mark.parametrize(
    ("documents", "wanted", "outcome"),
    [
        (crossed(2.0, 2.0 * (1 - 0.0015)), 1, DONE),
        (crossed(2.0, 2.0 * (1 - 0.0008)), 1, IMPRECISE),
        (crossed(0.75 * 0.8e-20, 0.25 * 0.8e-20), 2, IMPRECISE),
        (crossed(0.75 * 1.5e-20, 0.25 * 1.5e-20), 2, DONE),
        (crossed(0.75 * 0.8e20, 0.25 * 0.8e20), 2, DONE),
        (crossed(0.75 * 1.5e20, 0.25 * 1.5e20), 2, IMPRECISE),
        (crossed(2.0, 0.75 * FLOOR, AWAY), 2, IMPRECISE),
        (crossed(2.0, 1.25 * FLOOR, AWAY), 2, DONE),
        (crossed(0.9 * FLOOR, 0.3 * FLOOR, AWAY), 1, IMPRECISE),
        (crossed(1.1 * FLOOR, 0.3 * FLOOR, AWAY), 1, DONE),
        (np.full((3, 2), np.nan, np.float32), 1, IMPRECISE),
    ],
)
def test_it_answers_where_float32_is_precise_enough(documents: Matrix, wanted: int, outcome: int) -> None:
    assert outcome == FOUND.of(documents, wanted)[0]


def test_other_arrays_than_float32_in_rows_are_left() -> None:
    documents: Any = spread(9, 4, 0)

    assert FOUND.of(documents, 2)[0] == DONE
    for other in (documents.astype(np.float64), np.asfortranarray(documents)):
        assert FOUND.of(other, 2)[0] not in {DONE, IMPRECISE}


@pytest.mark.parametrize("in_front", [False, True])
@pytest.mark.parametrize(
    ("n_docs", "n_features", "wanted"), [(2, 1, 1), (2, 9, 1), (9, 2, 2), (5, 40, 3), (40, 17, 5)]
)
def test_nothing_beside_the_arrays_is_touched(
    n_docs: int, n_features: int, wanted: int, *, in_front: bool
) -> None:
    opened = library()
    assert opened is not None
    documents = spread(n_docs, n_features, 2)
    given_documents = fenced(documents, in_front=in_front)

    def fresh(count: int, dtype: str = "f4") -> np.ndarray:
        return room(count, dtype, in_front=in_front)

    assert FOUND.addresses is not None
    blas, limits = FOUND.addresses
    centred, sums, space = fresh(n_docs * n_features), fresh(2, "f8"), fresh(n_docs + 2 * n_features)
    opened.localrank_centre(
        given_documents.ctypes.data, n_docs, n_features, blas, limits, space.ctypes.data, centred.ctypes.data,
        sums.ctypes.data,
    )  # fmt: skip
    rows = centred.reshape(n_docs, n_features)
    scatter = fenced(rows @ rows.T if n_docs < n_features else rows.T @ rows, in_front=in_front)
    space = fresh(opened.localrank_directions_room(n_docs, n_features, wanted))
    variances, directions = fresh(wanted + 1, "f8"), fresh(wanted * n_features)
    outcome = opened.localrank_directions(
        rows.ctypes.data, n_docs, n_features, scatter.ctypes.data, sums.ctypes.data, wanted, blas, limits,
        space.ctypes.data, variances.ctypes.data, directions.ctypes.data,
    )  # fmt: skip

    assert outcome == FOUND.of(documents, wanted)[0] == DONE
    np.testing.assert_array_equal(FOUND.of(documents, wanted)[1], variances)
    np.testing.assert_array_equal(FOUND.of(documents, wanted)[2].ravel(), directions)
