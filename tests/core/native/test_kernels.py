"""Compiled arithmetic against what numpy makes of the same numbers, and against the definitions in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from localrank.features import principal, scaling
from localrank.native.documents import Range, _room, largest_eigenpairs
from localrank.native.library import library

if TYPE_CHECKING:
    from localrank.arrays import Matrix

FLOAT32 = st.floats(width=32, allow_nan=True, allow_infinity=True)
DOCUMENTS = arrays(
    np.float32,
    st.tuples(st.integers(1, 9), st.integers(1, 37)),
    elements=FLOAT32 | st.floats(-3, 3, width=32) | st.sampled_from([0.0, -0.0, 1.0, 3e38, 1e-45]),
)

FINITE = arrays(
    np.float32,
    st.tuples(st.integers(1, 9), st.integers(1, 37)),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, -0.0, 1.0, 1e-45]),
)


def semi_definite(size: int, seed: int, decay: float) -> Matrix:
    random = np.random.default_rng(seed)
    turn = np.linalg.qr(random.standard_normal((size, size)))[0]
    made = (turn * decay ** np.arange(size)) @ turn.T
    return np.asarray((made + made.T) / 2, np.float32)


def solved(matrix: Matrix, count: int) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = principal._top_eigenpairs(matrix.copy(), count)
    return np.asarray(values, np.float64), np.asarray(vectors, np.float64)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 100, 136, 260])
@pytest.mark.parametrize("decay", [0.5, 0.9, 0.98])
def test_the_largest_eigenvalues_and_their_vectors_are_numpys(size: int, decay: float) -> None:
    matrix = semi_definite(size, size, decay)
    count = min(size, 6)

    values, vectors = solved(matrix, count)

    expected, columns = np.linalg.eigh(matrix.astype(np.float64))
    trace = float(np.trace(matrix))
    np.testing.assert_allclose(values, expected[::-1][:count], atol=2e-6 * trace)
    np.testing.assert_allclose(np.sum(vectors**2, axis=1), 1, atol=1e-5)
    assert np.abs(vectors @ matrix - values[:, None] * vectors).max() <= 5e-6 * trace
    gaps = -np.diff(np.append(expected[::-1], 0.0))[:count] / trace
    clear = np.minimum(gaps, np.append(np.inf, gaps[:-1])) > 1e-3
    along = np.abs(np.sum(vectors * columns.T[::-1][:count], axis=1))
    assert (along[clear] > 1 - 1e-5).all()


@pytest.mark.parametrize("count", range(1, 17))
def test_as_many_as_are_asked_for_are_found(count: int) -> None:
    matrix = semi_definite(40, 0, 0.8)

    values, vectors = solved(matrix, count)

    np.testing.assert_allclose(values, 0.8 ** np.arange(count), atol=1e-5)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(count), atol=1e-2)


@pytest.mark.parametrize(
    "matrix",
    [
        np.diag([4.0, 3.0, 2.0, 1.0]),
        np.diag([1.0, 0.0, 0.0, 0.0, 3.0]),
        np.ones((9, 9)),
        np.kron(np.eye(2), np.ones((3, 3))) + np.diag([0, 0, 0, 1, 1, 1]),
        np.diag([1e-12, 1.0, 1e-12, 0.5, 1e-20]),
        np.block([[np.full((20, 20), 1e-20), np.zeros((20, 20))], [np.zeros((20, 20)), semi_definite(20, 1, 0.7)]]),
    ],
    ids=["diagonal", "mostly-zero", "rank-one", "blocks", "tiny", "blocks-far-apart"],
)  # fmt: skip
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_special_matrices_have_their_eigenvalues(matrix: np.ndarray, scale: float) -> None:
    given_matrix = np.asarray(matrix * scale, np.float32)

    values, vectors = solved(given_matrix, 2)

    exact = given_matrix.astype(np.float64)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(exact)[::-1][:2], atol=2e-6 * np.trace(exact))
    assert np.abs(vectors @ exact - values[:, None] * vectors).max() <= 1e-5 * np.trace(exact)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_has_no_eigenvalues_is_left_to_lapack(bad: float) -> None:
    matrix = semi_definite(12, 0, 0.9)
    matrix[3, 3] = bad

    assert largest_eigenpairs(matrix, 2) is None


@settings(max_examples=60)
@given(size=st.integers(1, 70), count=st.integers(1, 16), seed=st.integers(0, 99))
def test_the_solver_writes_where_it_may_only(size: int, count: int, seed: int) -> None:
    count = min(size, count)
    compiled = library()
    assert compiled is not None
    matrix = semi_definite(size, seed, 0.9)
    room = _room(compiled, size, count)
    scratch = np.full(room + 64, 7.0, np.float32)
    values, vectors = np.full(count + 8, 7.0), np.full(count * size + 64, 7.0, np.float32)

    compiled.localrank_eigen(
        matrix.ctypes.data, size, count, scratch.ctypes.data, values.ctypes.data, vectors.ctypes.data
    )

    assert 7.0 == np.unique(scratch[room:])
    assert 7.0 == np.unique(values[count:])
    assert 7.0 == np.unique(vectors[count * size :])


@settings(max_examples=300)
@given(documents=DOCUMENTS, standard=st.booleans())
def test_scaling_within_a_query_gives_the_bits_that_numpy_gives(documents: Matrix, *, standard: bool) -> None:
    compiled = scaling.within_query(documents, standard=standard)
    plain = scaling._within_query(documents, standard=standard)

    if plain is None:
        assert compiled is None
    else:
        assert compiled is not None
        assert plain.tobytes() == compiled.tobytes()


@settings(max_examples=300)
@given(
    documents=arrays(
        np.float32,
        st.tuples(st.integers(1, 40), st.integers(1, 5)),
        elements=st.sampled_from([-0.0, 0.0, 1, -1, 1e-30]),
    ),
    standard=st.booleans(),
)
def test_zeros_have_the_same_sign_without_compiled_code(documents: Matrix, *, standard: bool) -> None:
    """Which of two zeros is the least depends on the order in which they are compared."""
    compiled = scaling.within_query(documents, standard=standard)
    plain = scaling._within_query(documents, standard=standard)

    assert compiled is not None
    assert plain is not None
    assert plain.tobytes() == compiled.tobytes()


@pytest.mark.parametrize("shape", [(1, 1), (90, 1), (3, 16), (100, 136), (50, 137)])
def test_scaling_ordinary_documents_gives_the_bits_that_numpy_gives(shape: tuple[int, int]) -> None:
    documents = np.random.default_rng(shape[0]).normal(3, 50, shape).astype(np.float32)

    for standard in (False, True):
        plain = scaling._within_query(documents, standard=standard)
        assert plain is not None
        np.testing.assert_array_equal(plain, scaling.within_query(documents, standard=standard))


@settings(max_examples=200)
@given(documents=FINITE, data=st.data())
def test_distances_to_the_largest_value_have_the_bits_that_numpy_gives(
    documents: Matrix, data: st.DataObject
) -> None:
    scales = st.floats(1e-60, 1e60) | st.floats(0.5, 50)
    scale = data.draw(arrays(np.float64, documents.shape[1], elements=scales))

    compiled, plain = scaling.behind_best(documents, scale), scaling._behind_best(documents, scale)

    np.testing.assert_array_equal(plain.view(np.uint32), compiled.view(np.uint32))


@pytest.mark.parametrize("shape", [(1, 1), (2, 17), (90, 1), (100, 136)])
def test_distances_of_ordinary_documents_have_the_bits_that_numpy_gives(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape[0])
    documents, scale = rng.normal(3, 50, shape).astype(np.float32), rng.uniform(1, 100, shape[1])
    documents[:, 0] = 7

    np.testing.assert_array_equal(
        scaling._behind_best(documents, scale), scaling.behind_best(documents, scale)
    )


def test_a_document_that_is_the_best_has_a_distance_of_positive_zero() -> None:
    documents = np.array([[-1.0], [-0.0], [0.0]], np.float32)

    found = scaling.behind_best(documents, np.ones(1))

    assert [[1.0], [0.0], [0.0]] == found.tolist()
    assert not np.signbit(found).any()


@settings(max_examples=200)
@given(documents=FINITE)
def test_ranking_within_a_query_gives_the_bits_that_numpy_gives(documents: Matrix) -> None:
    compiled, plain = scaling.percentiles(documents), scaling._percentiles(documents)

    np.testing.assert_array_equal(plain.view(np.uint32), compiled.view(np.uint32))


@pytest.mark.parametrize("shape", [(1, 1), (2, 17), (90, 1), (3, 16), (100, 136), (1023, 33)])
def test_ranking_ordinary_documents_gives_the_bits_that_numpy_gives(shape: tuple[int, int]) -> None:
    documents = np.random.default_rng(shape[0]).normal(3, 5, shape).round(1).astype(np.float32)
    documents[:, 0] *= -0.0

    np.testing.assert_array_equal(scaling._percentiles(documents), scaling.percentiles(documents))


@settings(max_examples=200)
@given(documents=DOCUMENTS, data=st.data())
def test_values_outside_are_counted_one_by_one(documents: Matrix, data: st.DataObject) -> None:
    width = documents.shape[1]
    least, most = (
        data.draw(arrays(np.float32, width, elements=st.floats(-2, 2, width=32))) for _ in range(2)
    )

    expected = sum(
        bool(value < least[j] or value > most[j]) for row in documents for j, value in enumerate(row)
    )

    assert expected == scaling.count_out_of_range(documents, Range(least, most))


@pytest.mark.parametrize("matrix", [
    np.diag([2.0, 1.0, 0.0, 1.0, 2.0]) + np.eye(5, k=1) + np.eye(5, k=-1),
    np.where(np.eye(9, k=3) + np.eye(9, k=-3), np.nan, np.eye(9)),
], ids=["a negative eigenvalue", "no number off the diagonal"])  # fmt: skip
def test_eigenvalues_that_do_not_converge_are_left_to_lapack(matrix: np.ndarray) -> None:
    """They are looked for between 0 and the trace; what is refined away from where it was bracketed is not used."""
    assert largest_eigenpairs(matrix.astype(np.float32), 5) is None
