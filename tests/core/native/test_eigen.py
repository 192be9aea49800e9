"""The compiled eigensolver: what it solves, what it leaves, where it writes, and that its bits are the same everywhere.

`python -m tests.core.native.test_eigen` writes `eigenpairs.json` anew. The file is our own output, not a truth: that it
is right is compared with numpy here; that every compiler and processor gives these bits is what docs/decisions/signature.md
promises.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.native.documents import largest_eigenpairs
from localrank.native.library import library
from tests.core.native.fences import fenced, room

if TYPE_CHECKING:
    import ctypes

    from localrank.arrays import Matrix, Vector

RECORDED = Path(__file__).with_name("eigenpairs.json")
#: Sizes around whole vectors of sixteen, groups of four rows and eight vectors abreast.
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 18, 19, 20, 31, 32, 33, 34, 47, 48, 49, 64, 65, 100, 136)


def whole_numbers(size: int, kind: int) -> Matrix:
    """Return a positive semi-definite matrix of whole numbers, whose products are exact whoever computes them."""
    state, rows = 12345 + 1000 * kind + size, np.zeros((size, size), np.int64)
    for place in range(size * size):
        state = (1103515245 * state + 12345) % 2**31
        rows.flat[place] = (state >> 16) % 7 - 3
    if kind == 1:  # blocks: reflections of nothing
        rows[: size // 2, size // 2 :] = 0
        rows[size // 2 :, : size // 2] = 0
    if kind == 2:  # one large direction, and a low rank
        rows[:, max(size // 3, 1) :] = 0
        rows[:, 0] *= 5
    return np.asarray(rows @ rows.T, np.float32)


CASES = [
    (size, kind, min(size, count)) for size in SIZES for kind, count in ((0, 6), (1, 3), (2, 2), (0, 16))
]


def raw(matrix: Matrix, count: int, size: int | None = None) -> tuple[int, Vector, Matrix]:
    """Call the library with memory of exactly the size that is asked for."""
    compiled = library()
    assert compiled is not None
    size = len(matrix) if size is None else size
    given = fenced(matrix)
    scratch = room(compiled.localrank_eigen_room(size, count), np.float32)
    scratch[:] = np.nan  # memory is not cleared
    values, vectors = room(max(count, 0), np.float64), room(max(count, 0) * max(size, 0), np.float32)
    failed = compiled.localrank_eigen(
        given.ctypes.data, size, count, scratch.ctypes.data, values.ctypes.data, vectors.ctypes.data
    )
    return failed, values, vectors.reshape(max(count, 0), -1) if count > 0 < size else vectors


def bits(size: int, kind: int, count: int) -> str:
    failed, values, vectors = raw(whole_numbers(size, kind), count)
    return "left" if failed else hashlib.sha256(values.tobytes() + vectors.tobytes()).hexdigest()[:16]


@pytest.fixture(scope="module")
def opened() -> ctypes.CDLL:
    found = library()
    assert found is not None
    return found


@pytest.mark.parametrize(("size", "kind", "count"), CASES)
def test_eigenpairs_have_the_bits_that_were_recorded(size: int, kind: int, count: int) -> None:
    recorded = json.loads(RECORDED.read_text())

    assert recorded[f"{size} {kind} {count}"] == bits(size, kind, count)


@pytest.mark.parametrize(("size", "kind", "count"), CASES)
def test_what_is_solved_is_an_eigenpair(size: int, kind: int, count: int) -> None:
    matrix = whole_numbers(size, kind)
    exact = matrix.astype(np.float64)

    failed, values, vectors = raw(matrix, count)

    assert not failed or not np.trace(exact)
    if not failed:
        trace = np.trace(exact)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(exact)[::-1][:count], atol=2e-6 * trace)
        assert np.abs(vectors @ exact - values[:, None] * vectors).max() <= 5e-6 * trace
        np.testing.assert_allclose(np.sum(vectors.astype(np.float64) ** 2, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(("size", "count"), [(0, 1), (-1, 1), (3, 0), (3, -1), (3, 4), (40, 17), (2, 3)])
def test_what_cannot_be_asked_for_is_left(size: int, count: int) -> None:
    failed, values, vectors = raw(np.eye(40, dtype=np.float32), count, size)

    assert 1 == failed
    assert not values.any()
    assert not vectors.any()


def test_sixteen_are_found_at_once() -> None:
    matrix = np.diag(np.arange(40, 0, -1)).astype(np.float32)

    failed, values, _ = raw(matrix, 16)

    assert not failed
    np.testing.assert_allclose(values, np.arange(40, 24, -1), rtol=1e-4)


@pytest.mark.parametrize(
    ("trace", "solved"),
    [
        (np.float32(1e-30), False),
        (np.nextafter(np.float32(1e-30), np.float32(1)), True),
        (np.float32(1e30), False),
        (np.nextafter(np.float32(1e30), np.float32(1)), True),
        (np.float32(0), False),
        (np.float32(-1), False),
    ],
)
def test_traces_that_float32_cannot_scale_are_left(trace: np.float32, *, solved: bool) -> None:
    matrix = np.zeros((3, 3), np.float32)
    matrix[1, 1] = trace

    failed, values, vectors = raw(matrix, 1)

    assert solved == (not failed)
    if solved:
        assert float(trace) == pytest.approx(values[0], rel=1e-6)
        np.testing.assert_allclose(np.abs(vectors), [[0, 1, 0]], atol=1e-6)


def test_the_trace_is_the_sum_of_the_diagonal() -> None:
    """Two halves that cancel have none."""
    assert raw(np.diag([1.0, -1.0]).astype(np.float32), 1)[0]
    assert not raw(np.diag([1.0, 1.0, 0.5]).astype(np.float32), 1)[0]


@pytest.mark.parametrize(
    ("size", "count", "floats"), [(1, 1, 288), (16, 1, 1248), (17, 5, 1856), (100, 6, 17648)]
)
def test_scratch_has_room_for_all_arrays_and_their_alignment(
    opened: ctypes.CDLL, size: int, count: int, floats: int
) -> None:
    """The matrix, eight rows and the vectors in whole lanes; three arrays of eight doubles per row; five lanes to align."""
    assert floats == opened.localrank_eigen_room(size, count)


def test_other_arrays_than_float32_in_rows_are_left_to_lapack() -> None:
    matrix = whole_numbers(20, 0)

    assert largest_eigenpairs(matrix, 3) is not None
    assert largest_eigenpairs(matrix.astype(np.float64), 3) is None
    assert largest_eigenpairs(np.asfortranarray(whole_numbers(20, 0)), 3) is None


@pytest.mark.parametrize("apart", [1e-4, 1e-3])
def test_close_eigenvalues_have_vectors_at_right_angles(apart: float) -> None:
    matrix = np.diag([1, 1 - apart, 0.5, 0.1]).astype(np.float32)

    failed, values, vectors = raw(matrix, 3)

    assert not failed
    np.testing.assert_allclose(values, [1, 1 - apart, 0.5], atol=1e-6)
    np.testing.assert_allclose(np.abs(vectors), np.eye(3, 4), atol=1e-3)


if __name__ == "__main__":
    RECORDED.write_text(
        json.dumps({" ".join(map(str, case)): bits(*case) for case in CASES}, indent=0) + "\n"
    )
