"""Similarity against its formulas spelled out, and its invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localrank.points import signature as module
from localrank.points.signature import (
    SIMILARITIES,
    PcaRepresentation,
    Signature,
    Signatures,
    Similarity,
    all_pairs,
    one_to_many,
)

from .clouds import cloud, scattered


def spelled_out(one: Signature, other: Signature, similarity: Similarity) -> float:
    """Evaluate the definitions direction by direction, in double precision."""
    r = min(one.rank, other.rank)
    if r == 0:
        return 0.0
    u, v = one.directions.astype(np.float64), other.directions.astype(np.float64)
    ours, theirs = one.eigenvalues, other.eigenvalues
    if similarity == "eq5":
        return sum(abs(float(u[p] @ v[p])) for p in range(r)) / r
    if similarity == "weighted":
        shares = [np.sqrt(ours[p] / ours.sum() * theirs[p] / theirs.sum()) for p in range(r)]
        return float(sum(share * abs(float(u[p] @ v[p])) for p, share in enumerate(shares)))
    if similarity == "subspace":
        # Squared cosines of the principal angles between the two subspaces [bjorck1973].
        cosines = np.linalg.svd(u[: one.rank] @ v[: other.rank].T, compute_uv=False)
        return float((cosines**2).sum() / r)
    covariance, its = (u.T * ours) @ u, (v.T * theirs) @ v
    return float(np.trace(covariance @ its) / np.linalg.norm(covariance) / np.linalg.norm(its))


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_one_to_many_is_the_formula(similarity: Similarity) -> None:
    signatures = scattered(12)

    for query in range(len(signatures)):
        one = signatures.of(query)
        expected = [spelled_out(one, signatures.of(other), similarity) for other in range(len(signatures))]
        np.testing.assert_allclose(one_to_many(one, signatures, similarity), expected, atol=1e-5)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("block", [1, 300, 1 << 24])
def test_all_pairs_are_one_to_many_from_each(
    monkeypatch: pytest.MonkeyPatch, similarity: Similarity, block: int
) -> None:
    signatures = scattered(15)
    monkeypatch.setattr(module, "_BLOCK_OF_PAIRS", block * 100)
    monkeypatch.setattr(module, "_BLOCK", block)
    monkeypatch.setattr(module, "_BLOCK_OF_ALL", block)

    pairs = all_pairs(signatures, similarity)

    rows = [one_to_many(signatures.of(query), signatures, similarity) for query in range(len(signatures))]
    off_diagonal = ~np.eye(len(signatures), dtype=bool)
    np.testing.assert_allclose(pairs[off_diagonal], np.array(rows)[off_diagonal], atol=1e-6)
    np.testing.assert_array_equal(pairs, pairs.T)
    np.testing.assert_array_equal(np.diag(pairs), 1)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("rank", [1, 2, 3, 5])
def test_a_cloud_is_wholly_like_itself_whatever_its_rank(similarity: Similarity, rank: int) -> None:
    documents = cloud(np.random.default_rng(rank), 9, 12, rank=rank)
    signatures = PcaRepresentation(4).sign_all([documents, documents])

    np.testing.assert_allclose(one_to_many(signatures.of(0), signatures, similarity), 1, atol=1e-6)
    assert (one_to_many(signatures.of(0), signatures, similarity) <= 1).all()


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_a_cloud_of_rank_zero_is_like_nothing(similarity: Similarity) -> None:
    signatures = scattered(8)

    assert 0 == signatures.ranks[3]
    np.testing.assert_array_equal(one_to_many(signatures.of(3), signatures, similarity), 0)
    assert 0 == one_to_many(signatures.of(0), signatures, similarity)[3]


@pytest.mark.parametrize("similarity", SIMILARITIES)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), exponent=st.integers(-12, 12))
@example(seed=125897, exponent=-9)
def test_order_shift_scale_and_sign_leave_the_similarity(
    similarity: Similarity, seed: int, exponent: int
) -> None:
    random = np.random.default_rng(seed)
    documents, other = cloud(random, 12, 6, decay=0.5), cloud(random, 12, 6, decay=0.5)
    signer = PcaRepresentation(3)
    # Close eigenvalues exchange directions under rounding.
    spread = np.linalg.eigvalsh(np.cov(documents.astype(np.float64).T))[::-1]
    if ((spread[:3] - spread[1:4]) < 1e-2 * spread[0]).any():
        return
    changed = [
        documents,
        documents[random.permutation(len(documents))],
        documents + random.standard_normal(6).astype(np.float32),
        documents * np.float32(10.0**exponent),
        -documents,
    ]
    signatures = signer.sign_all(changed)
    turned = Signatures(-signatures.directions, signatures.eigenvalues, signatures.ranks)

    similarities = one_to_many(signer.sign(other), signatures, similarity)

    np.testing.assert_allclose(similarities, similarities[0], atol=1e-4)
    np.testing.assert_allclose(one_to_many(signer.sign(other), turned, similarity), similarities, atol=1e-6)
    assert ((similarities >= 0) & (similarities <= 1)).all()


@pytest.mark.parametrize("similarity", ["subspace", "covariance"])
def test_exchanging_close_directions_leaves_the_forms_that_have_no_order(similarity: Similarity) -> None:
    signatures = scattered(9)
    one = signatures.of(0)
    even = Signature(one.directions, np.ones(3), 3)
    exchanged = Signature(np.ascontiguousarray(one.directions[[1, 0, 2]]), np.ones(3), 3)

    np.testing.assert_allclose(
        one_to_many(even, signatures, similarity), one_to_many(exchanged, signatures, similarity), atol=1e-6
    )
    assert np.abs(one_to_many(even, signatures) - one_to_many(exchanged, signatures)).max() > 0.05


def test_directions_are_read_from_a_map_in_place(tmp_path_factory: pytest.TempPathFactory) -> None:
    signatures = scattered(40)
    path = tmp_path_factory.mktemp("maps") / "directions.npy"
    np.save(path, signatures.directions)
    mapped = Signatures(np.load(path, mmap_mode="r"), signatures.eigenvalues, signatures.ranks)

    for similarity in SIMILARITIES:
        similarities = one_to_many(signatures.of(0), mapped, similarity)
        assert type(similarities) is np.ndarray
        np.testing.assert_array_equal(one_to_many(signatures.of(0), signatures, similarity), similarities)
        np.testing.assert_array_equal(all_pairs(signatures, similarity), all_pairs(mapped, similarity))
