"""Signatures against scikit-learn, against the definition, and at the edges of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from localrank.features import principal
from localrank.features.principal import principal_variances
from localrank.points.signature import PcaRepresentation, Signature, choose_components

from .clouds import cloud

pytestmark = pytest.mark.usefixtures("arithmetic")

SHAPES = [
    (2, 3),
    (3, 2),
    (7, 46),
    (20, 46),
    (46, 46),
    (100, 46),
    (1000, 46),
    (30, 200),
    (200, 30),
    (5, 1),
    (1000, 1),
]


def eigensystem(documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all eigenvalues of the covariance, largest first, and the eigenvectors as rows, in double precision."""
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(documents.astype(np.float64), rowvar=False)))
    return values[::-1], vectors.T[::-1]


def check_directions(documents: np.ndarray, signature: Signature, tolerance: float = 2e-4) -> None:
    """Directions clear of their neighbours are equal up to sign; those that are not span the same, group by group."""
    values, vectors = eigensystem(documents)
    values = np.append(np.maximum(values, 0), 0.0)
    gaps = (values[:-1] - values[1:]) / values[0]
    start = 0
    for end in range(1, signature.rank + 1):
        if gaps[end - 1] <= 1e-4:
            continue
        ours, theirs = signature.directions[start:end].astype(np.float64), vectors[start:end]
        if end - start == 1:
            ours = ours * np.sign(ours[0] @ theirs[0])
            np.testing.assert_allclose(ours, theirs, atol=tolerance)
        np.testing.assert_allclose(ours.T @ ours, theirs.T @ theirs, atol=tolerance)
        start = end


@pytest.mark.parametrize(("n_docs", "n_features"), SHAPES)
@pytest.mark.parametrize("decay", [1.0, 0.97, 0.8])
def test_directions_and_variances_are_those_of_scikit_learn(
    n_docs: int, n_features: int, decay: float
) -> None:
    documents = cloud(np.random.default_rng(n_docs), n_docs, n_features, decay=decay) + np.float32(3)
    most = min(n_docs - 1, n_features, 5)
    reference = PCA(most, svd_solver="full").fit(documents.astype(np.float64))

    signature = PcaRepresentation(5).sign(documents)

    assert most == signature.rank
    np.testing.assert_allclose(signature.eigenvalues[:most], reference.explained_variance_, rtol=1e-4)
    check_directions(documents, signature)
    clear = np.diff(-np.append(reference.explained_variance_, 0)) > 1e-2 * reference.explained_variance_[0]
    if clear.all():
        cosines = np.abs(np.vecdot(signature.directions[:most], reference.components_))
        np.testing.assert_allclose(cosines, 1, atol=1e-6)


@pytest.mark.parametrize("shape", [(1000, 700), (700, 1000), (600, 513)])
@pytest.mark.parametrize("decay", [0.9, 0.99])
def test_a_krylov_space_finds_the_directions_of_a_large_cloud(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], decay: float
) -> None:
    documents = cloud(np.random.default_rng(1), *shape, decay=decay) + np.float32(1)
    solve, sizes = principal._top_eigenpairs, []

    def watched(symmetric: principal.Floats, count: int) -> tuple[principal.Floats, principal.Floats]:
        sizes.append(len(symmetric))
        return solve(symmetric, count)

    monkeypatch.setattr(principal, "_top_eigenpairs", watched)

    signature = PcaRepresentation(5).sign(documents)

    assert max(sizes) < min(shape)
    check_directions(documents, signature)


def test_a_large_cloud_without_preferred_directions_is_solved_all_the_same() -> None:
    documents = np.random.default_rng(2).standard_normal((640, 520)).astype(np.float32)

    signature = PcaRepresentation(5).sign(documents)

    assert 5 == signature.rank
    check_directions(documents, signature)


@pytest.mark.parametrize("rank", [1, 3, 20])
def test_a_large_cloud_of_few_dimensions_has_that_rank(rank: int) -> None:
    documents = cloud(np.random.default_rng(3), 600, 550, rank=rank)

    signature = PcaRepresentation(8).sign(documents)

    assert min(rank, 8) == signature.rank
    check_directions(documents, signature)


def test_close_eigenvalues_are_solved_in_double_precision() -> None:
    random = np.random.default_rng(4)
    scales = np.array([1.0, 0.99995, 0.5, 0.1])  # Variances 1 and 0.9999.
    exact = np.linalg.qr(random.standard_normal((400, 5)) - 0)[0][:, 1:]
    exact -= exact.mean(axis=0)
    basis = np.linalg.qr(random.standard_normal((30, 4)))[0]
    documents = ((np.linalg.qr(exact)[0] * scales) @ basis.T).astype(np.float32)

    assert principal._in_single(documents, 2) is None
    signature = PcaRepresentation(2).sign(documents)

    cosines = np.abs(signature.directions @ basis)
    np.testing.assert_allclose(cosines[:, :2], np.eye(2), atol=5e-3)


@settings(max_examples=80)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    rank=st.integers(0, 6),
    exponent=st.integers(-30, 30),
    offset=st.sampled_from([0.0, 1.0, -100.0]),
    seed=st.integers(0, 10**6),
)
def test_any_cloud_has_finite_orthonormal_directions(
    shape: tuple[int, int], rank: int, exponent: int, offset: float, seed: int
) -> None:
    rank = min(rank, *shape)
    plain = cloud(np.random.default_rng(seed), *shape, rank=rank).astype(np.float64)
    documents = ((plain + offset) * 10.0**exponent).astype(np.float32)

    signature = PcaRepresentation(5).sign(documents)

    assert signature.rank <= min(5, shape[0] - 1 if rank else 0, shape[1])
    assert np.isfinite(signature.eigenvalues).all()
    assert (np.diff(signature.eigenvalues) <= 0).all()
    assert (signature.eigenvalues[: signature.rank] > 0).all()
    gram = signature.directions.astype(np.float64) @ signature.directions.T
    expected = np.diag((np.arange(5) < signature.rank).astype(float))
    np.testing.assert_allclose(gram, expected, atol=1e-5)


@pytest.mark.parametrize("magnitude", [1e-37, 1e-30, 1e-15, 1.0, 1e15, 1e30, 1e37])
@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
def test_directions_do_not_depend_on_the_unit(magnitude: float, shape: tuple[int, int]) -> None:
    documents = cloud(np.random.default_rng(5), *shape, decay=0.6)
    signer = PcaRepresentation(3)

    scaled = signer.sign((documents * magnitude).astype(np.float32))
    plain = signer.sign(documents)

    assert plain.rank == scaled.rank
    np.testing.assert_allclose(np.abs(np.vecdot(plain.directions, scaled.directions)), 1, atol=1e-5)
    np.testing.assert_allclose(scaled.eigenvalues, plain.eigenvalues * magnitude**2, rtol=1e-4)


def test_the_largest_values_of_float32_are_taken() -> None:
    largest = np.finfo(np.float32).max
    documents = np.array([[largest, 1, 0], [-largest, 2, 0], [0, 3, 0]], np.float32)

    signature = PcaRepresentation(2).sign(documents)

    assert 1 == signature.rank
    np.testing.assert_allclose(np.abs(signature.directions[0]), [1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -7e8, 1e30, 3e-39])
@pytest.mark.parametrize("n_docs", [1, 2, 3, 50, 999])
def test_identical_documents_have_no_direction(value: float, n_docs: int) -> None:
    documents = np.tile((value * np.arange(1, 7) / 8).astype(np.float32), (n_docs, 1))

    signature = PcaRepresentation(3).sign(documents)

    assert 0 == signature.rank
    assert not signature.directions.any()
    assert not signature.eigenvalues.any()
    assert 0 == len(principal_variances(documents))


@pytest.mark.parametrize("shape", [(40, 5), (5, 40), (40, 40)])
@pytest.mark.parametrize("magnitude", [1e-20, 1.0, 1e20])
def test_documents_that_differ_in_their_last_bit_have_no_direction(
    shape: tuple[int, int], magnitude: float
) -> None:
    random = np.random.default_rng(6)
    one = np.tile((random.random(shape[1]) * magnitude).astype(np.float32), (shape[0], 1))
    documents = np.where(random.random(shape) < 0.5, one, np.nextafter(one, np.float32(np.inf)))

    assert 0 == PcaRepresentation(3).sign(documents).rank


def test_no_documents_have_no_direction() -> None:
    assert 0 == PcaRepresentation(3).sign(np.zeros((0, 4), np.float32)).rank
    assert 0 == len(principal_variances(np.zeros((0, 4), np.float32)))


def test_columns_of_hugely_different_offset_do_not_disturb_one_another() -> None:
    random = np.random.default_rng(7)
    steps = random.integers(-8, 9, size=(200, 3)).astype(np.float64)
    plain = (steps * [4, 2, 1]).astype(np.float32)
    # Whole numbers below 2**24 are exact in float32.
    shifted = (plain + np.array([1.6e7, 0, -3e5])).astype(np.float32)
    signer = PcaRepresentation(3)

    there, here = signer.sign(shifted), signer.sign(plain)

    assert 3 == there.rank
    np.testing.assert_allclose(np.abs(np.vecdot(there.directions, here.directions)), 1, atol=1e-5)


def test_constant_features_have_no_part_in_any_direction() -> None:
    documents = cloud(np.random.default_rng(8), 30, 6)
    documents[:, 2] = 0.1
    documents[:, 4] = -1e4

    signature = PcaRepresentation(4).sign(documents)

    np.testing.assert_allclose(signature.directions[:, [2, 4]], 0, atol=1e-6)


@pytest.mark.parametrize("shape", [(30, 12), (8, 40)])
def test_order_and_shift_of_the_documents_leave_the_directions(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(9)
    documents = cloud(random, *shape, decay=0.5)
    signer = PcaRepresentation(4)

    shuffled = signer.sign(documents[random.permutation(len(documents))])
    shifted = signer.sign(documents + random.standard_normal(shape[1]).astype(np.float32))
    plain = signer.sign(documents)

    for other in (shuffled, shifted):
        np.testing.assert_allclose(np.abs(np.vecdot(plain.directions, other.directions)), 1, atol=1e-5)


def test_signing_many_is_signing_each() -> None:
    random = np.random.default_rng(10)
    queries = [cloud(random, int(n), 10) for n in random.integers(1, 30, size=25)]
    signer = PcaRepresentation(4)

    signatures = signer.sign_all(queries)

    assert 25 == len(signatures)
    for query, documents in enumerate(queries):
        alone, together = signer.sign(documents), signatures.of(query)
        np.testing.assert_array_equal(alone.directions, together.directions)
        np.testing.assert_array_equal(alone.eigenvalues, together.eigenvalues)
        assert alone.rank == together.rank


def test_no_queries_have_no_signatures() -> None:
    assert 0 == len(PcaRepresentation(4).sign_all([]))


def test_signing_leaves_the_documents_alone() -> None:
    documents = cloud(np.random.default_rng(11), 30, 12)
    kept = documents.copy()
    documents.setflags(write=False)

    PcaRepresentation(3).sign(documents)

    np.testing.assert_array_equal(kept, documents)


def test_the_spectrum_is_all_of_the_variance() -> None:
    documents = cloud(np.random.default_rng(12), 30, 6) + np.float32(5)

    np.testing.assert_allclose(
        documents.astype(np.float64).var(axis=0, ddof=1).sum(),
        principal_variances(documents).sum(),
        rtol=1e-6,
    )
    np.testing.assert_allclose(eigensystem(documents)[0], principal_variances(documents), rtol=1e-6)


def test_the_number_of_components_is_the_median_of_what_covers_the_share() -> None:
    spectra = [np.array([8.0, 1, 1]), np.array([5.0, 3, 1, 1]), np.array([4.0, 3, 2, 1]), np.zeros(0)]

    # 8/10 in one, (5 + 3)/10 in two, (4 + 3 + 2)/10 in three.
    assert 2 == choose_components(spectra, share=0.8)
    assert 1 == choose_components(spectra, share=0.4)
    assert 3 == choose_components([np.ones(10)], share=0.8, most=3)
    assert 1 == choose_components([np.zeros(0)])


def test_the_spectrum_of_a_cloud_of_low_rank_is_as_short() -> None:
    documents = cloud(np.random.default_rng(13), 30, 8, rank=2)

    assert 2 == len(principal_variances(documents))


def test_the_rounding_of_a_large_offset_is_no_direction() -> None:
    """The float32 mean of numbers around 4e6 is off by as much as a step."""
    steps = np.random.default_rng(14).integers(-1, 2, size=(3000, 4)) * [2, 0.5, 0.5, 0.5]
    documents = (steps + 8_388_607 / 2).astype(np.float32)

    signature = PcaRepresentation(1).sign(documents)

    check_directions(documents, signature)
    np.testing.assert_allclose(signature.eigenvalues[0], eigensystem(documents)[0][0], rtol=1e-3)


@settings(max_examples=100)
@given(
    shape=st.tuples(st.integers(2, 40), st.integers(1, 40)),
    offset=st.sampled_from([0.0, 1.0, 1e4, 1e7]),
    seed=st.integers(0, 99),
)
def test_documents_are_centred_as_in_double_precision(
    shape: tuple[int, int], offset: float, seed: int
) -> None:
    documents = (np.random.default_rng(seed).standard_normal(shape) + offset).astype(np.float32)

    centred, size, length = principal._centred_in_single(documents)

    exact = documents.astype(np.float64)
    around = exact - exact.mean(axis=0)
    np.testing.assert_allclose(centred, around, atol=2e-4 * max(1.0, np.abs(around).max()))
    np.testing.assert_allclose(size, np.sum(around**2), rtol=1e-3)
    np.testing.assert_allclose(length, np.sum(exact.mean(axis=0) ** 2), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_the_quick_eigensolver_gives_up_another_one_answers(
    dtype: type[np.floating[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    centred = np.random.default_rng(0).standard_normal((30, 12)).astype(dtype)
    scatter = centred.T @ centred

    def gives_up(matrix: np.ndarray[Any, Any], **_settings: object) -> tuple[Any, Any, int, Any, int]:
        matrix.fill(np.nan)  # it works in place
        return np.full(12, np.nan), np.full((12, 12), np.nan), 0, None, 1

    monkeypatch.setattr(principal, "largest_eigenpairs", lambda _symmetric, _count: None)
    expected, axes = principal._top_eigenpairs(scatter, 4)
    monkeypatch.setattr("localrank.features.principal.lapack.ssyevr", gives_up)
    monkeypatch.setattr("localrank.features.principal.lapack.dsyevr", gives_up)
    found, rows = principal._top_eigenpairs(scatter, 4)

    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(np.abs(np.vecdot(rows, axes)), 1.0, rtol=1e-4)
