"""Where float32 is given up, which directions count, and which solver is asked: at each limit, and just beyond it.

The documents are four points on two axes, so their scatter is known without any solver. A third feature is constant and far
from zero where rounding is to be feared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.features import principal

if TYPE_CHECKING:
    from localrank.arrays import Matrix

pytestmark = pytest.mark.usefixtures("arithmetic")

EPSILON = 2.0**-23
#: The largest number of the smaller side that is solved as a whole.
LARGEST_WHOLE = 511


def crossed(strong: float, weak: float, away: float = 0.0) -> Matrix:
    """Return documents whose scatter has these two eigenvalues, and whose mean is so far away."""
    a, b = math.sqrt(strong / 2), math.sqrt(weak / 2)
    return np.array([[a, 0, away], [-a, 0, away], [0, b, away], [0, -b, away]], np.float32)


@pytest.mark.parametrize(("gap", "clear"), [(0.0015, True), (0.0008, False)])
def test_float32_answers_if_the_next_eigenvalue_is_a_thousandth_away(gap: float, clear: bool) -> None:  # noqa: FBT001
    documents = crossed(2.0, 2.0 * (1 - gap))

    assert clear == (principal._in_single(documents, 1) is not None)


@pytest.mark.parametrize(
    ("size", "tame"), [(0.8e-20, False), (1.5e-20, True), (0.8e20, True), (1.5e20, False)]
)
def test_float32_answers_if_the_sum_of_squares_is_tame(size: float, tame: bool) -> None:  # noqa: FBT001
    documents = crossed(size * 0.75, size * 0.25)

    assert tame == (principal._in_single(documents, 2) is not None)


@pytest.mark.parametrize(("weak", "clear"), [(0.75, False), (1.25, True)])
def test_float32_answers_if_directions_are_a_thousand_times_the_rounding_of_the_mean(
    weak: float,
    clear: bool,  # noqa: FBT001
) -> None:
    away = 1e4
    floor = 4 * EPSILON**2 * away**2 / 1e-3

    assert clear == (principal._in_single(crossed(2.0, weak * floor, away), 2) is not None)


@pytest.mark.parametrize(("strong", "clear"), [(0.5, False), (0.9, False), (1.1, True)])
def test_float32_answers_if_the_first_direction_is_above_the_rounding_of_the_mean(
    strong: float,
    clear: bool,  # noqa: FBT001
) -> None:
    """The sum of squares, ``0.3`` more, is above it from the second case on."""
    away = 1e4
    floor = 4 * EPSILON**2 * away**2 / 1e-3

    found = principal._in_single(crossed(strong * floor, 0.3 * floor, away), 1)

    assert clear == (found is not None)


@pytest.mark.parametrize(("share", "rank"), [(0.7e-10, 1), (1.5e-10, 2)])
def test_a_direction_counts_from_a_ten_thousand_millionth_of_the_largest_on(share: float, rank: int) -> None:
    documents = crossed(2.0, 2.0 * share)

    variances, directions = principal.principal_directions(documents, 3)

    assert rank == len(variances) == len(directions) == len(principal.principal_variances(documents))
    np.testing.assert_allclose(variances, np.array([2.0, 2.0 * share])[:rank] / 3, rtol=1e-5)


@pytest.mark.parametrize(("weak", "rank"), [(0.75, 1), (1.25, 2)])
def test_a_direction_counts_if_it_is_above_the_rounding_of_the_mean(weak: float, rank: int) -> None:
    away = 1e4
    documents = crossed(2.0, weak * 4 * EPSILON**2 * away**2, away)

    variances, _ = principal.principal_directions(documents, 3)

    assert rank == len(variances) == len(principal.principal_variances(documents))


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_no_more_directions_are_given_than_are_wanted_or_there_are(most: int) -> None:
    documents = np.concatenate([crossed(8.0, 2.0), [[0, 0, 0.5], [0, 0, -0.5]]]).astype(np.float32)

    variances, directions = principal.principal_directions(documents, most)

    np.testing.assert_allclose(variances, np.array([8.0, 2.0, 0.5])[:most] / 5, rtol=1e-5)
    np.testing.assert_allclose(np.abs(directions), np.eye(3)[:most], atol=1e-6)


def test_shares_are_of_the_whole_variance_also_of_directions_that_are_not_wanted() -> None:
    documents = np.concatenate([crossed(8.0, 2.0), [[0, 0, 1], [0, 0, -1]]]).astype(np.float32)

    np.testing.assert_allclose(principal.principal_shares(documents, 2), [8 / 12, 2 / 12], rtol=1e-5)
    # In float64, as the second direction is as strong as the third.
    np.testing.assert_allclose(principal.principal_shares(documents, 3), [8 / 12, 2 / 12, 2 / 12], rtol=1e-5)


@pytest.mark.parametrize("most", [1, 2])
def test_two_documents_have_the_direction_between_them(most: int) -> None:
    documents = np.array([[1, 1, 0], [4, 5, 0]], np.float32)

    variances, directions = principal.principal_directions(documents, most)

    np.testing.assert_allclose(variances, [25 / 2], rtol=1e-6)
    np.testing.assert_allclose(np.abs(directions), [[0.6, 0.8, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(principal.principal_variances(documents), [25 / 2], rtol=1e-6)
    np.testing.assert_allclose(principal.principal_shares(documents, most), [1.0], rtol=1e-6)


@pytest.mark.parametrize("n_docs", [0, 1])
def test_fewer_documents_have_none(n_docs: int) -> None:
    documents = np.ones((n_docs, 3), np.float32)

    variances, directions = principal.principal_directions(documents, 2)

    assert (0, (0, 3), "float32") == (len(variances), directions.shape, directions.dtype.name)
    assert 0 == len(principal.principal_variances(documents)) == len(principal.principal_shares(documents, 2))


@pytest.mark.parametrize(("n_docs", "n_features"), [(3, 5), (5, 3), (4, 4)])
def test_no_more_eigenvalues_are_left_than_documents_less_one(n_docs: int, n_features: int) -> None:
    documents = np.random.default_rng(0).standard_normal((n_docs, n_features)).astype(np.float32)

    expected = np.linalg.eigvalsh(np.cov(documents.astype(np.float64), rowvar=False))[::-1]
    found = principal.principal_variances(documents)

    assert min(n_docs - 1, n_features) == len(found)
    np.testing.assert_allclose(found, expected[: len(found)], rtol=1e-6)


@pytest.mark.parametrize("size", [LARGEST_WHOLE, LARGEST_WHOLE + 1])
@pytest.mark.parametrize("gram", [False, True])
def test_large_clouds_go_through_a_krylov_space(
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    gram: bool,  # noqa: FBT001
) -> None:
    asked: list[tuple[str, tuple[int, ...], int]] = []

    def krylov(matrix: Any, _size: float, wanted: int) -> None:
        asked.append(("krylov", matrix.shape, wanted))

    def whole(symmetric: Any, count: int) -> tuple[Any, Any]:
        asked.append(("whole", symmetric.shape, count))
        return np.ones(count), np.zeros((count, len(symmetric)), np.float32)

    monkeypatch.setattr(principal, "_krylov", krylov)
    monkeypatch.setattr(principal, "_top_eigenpairs", whole)
    centred = np.zeros((size, size + 7) if gram else (size + 7, size), np.float32)

    values, _ = principal._leading(centred, 1.0, 3)

    whole_of_it = ("whole", (size, size), 4)
    assert asked == (
        [whole_of_it] if size == LARGEST_WHOLE else [("krylov", (size + 7, size), 3), whole_of_it]
    )
    assert 4 == len(values)


@pytest.mark.parametrize("size", [LARGEST_WHOLE, LARGEST_WHOLE + 1])
def test_large_matrices_are_left_to_lapack(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    asked: list[int] = []
    monkeypatch.setattr(principal, "largest_eigenpairs", lambda matrix, _count: asked.append(len(matrix)))

    values, rows = principal._top_eigenpairs(np.diag(np.arange(size, dtype=np.float32)), 2)

    assert asked == ([size] if size == LARGEST_WHOLE else [])
    np.testing.assert_allclose(values, [size - 1, size - 2], rtol=1e-5)
    np.testing.assert_allclose(np.abs(rows), np.eye(size)[::-1][:2], atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_of_zeros_has_eigenvalues_of_zero(
    dtype: type[np.floating[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(principal, "largest_eigenpairs", lambda _symmetric, _count: None)

    values, rows = principal._top_eigenpairs(np.zeros((5, 5), dtype), 2)

    assert [0.0, 0.0] == values.tolist()
    np.testing.assert_allclose(rows @ rows.T, np.eye(2), atol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_lapack_solves_a_matrix_in_its_own_precision(
    dtype: type[np.floating[Any]], tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(principal, "largest_eigenpairs", lambda _symmetric, _count: None)
    # The eigenvalues of a path's matrix of neighbours: 2 cos(pi k / (n + 1)).
    path = np.eye(9, k=1, dtype=dtype) + np.eye(9, k=-1, dtype=dtype) + 2 * np.eye(9, dtype=dtype)

    values, rows = principal._top_eigenpairs(path, 3)

    assert (np.dtype(dtype), np.dtype(dtype)) == (values.dtype, rows.dtype)
    np.testing.assert_allclose(values, 2 + 2 * np.cos(np.pi * np.arange(1, 4) / 10), rtol=tolerance)
    np.testing.assert_allclose(path @ rows.T, rows.T * values, atol=10 * tolerance)


def test_a_krylov_space_gives_one_eigenvalue_more_than_is_wanted() -> None:
    random = np.random.default_rng(1)
    spectrum = 0.7 ** np.arange(90)
    matrix = (np.linalg.qr(random.standard_normal((120, 90)))[0] * np.sqrt(spectrum)).astype(np.float32)

    found = principal._krylov(matrix, float(spectrum.sum()), 2)

    assert found is not None
    values, rows = found
    np.testing.assert_allclose(values, spectrum[:3], rtol=1e-4)
    np.testing.assert_allclose(np.abs(rows[:2]), np.eye(90)[:2], atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_krylov_space_that_does_not_converge_is_given_up(dtype: type[np.floating[Any]]) -> None:
    """All eigenvalues are equal: no direction is better than another."""
    assert principal._krylov(np.eye(60, dtype=dtype), 60.0, 2) is None


def test_rows_that_add_nothing_to_a_basis_are_no_basis() -> None:
    basis = np.eye(3, 6)

    assert principal._orthonormalised(np.array([[1.0, 2, 0, 0, 0, 0]]), basis) is None
    found = principal._orthonormalised(np.array([[1.0, 2, 0, 3, 4, 0], [1, 0, 0, 0, 0, 1]]), basis)
    assert found is not None
    np.testing.assert_allclose(found @ basis.T, 0, atol=1e-12)
    np.testing.assert_allclose(found @ found.T, np.eye(2), atol=1e-12)
