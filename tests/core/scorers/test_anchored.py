"""Distances to anchors, against their definition by quadratic forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank.errors import ArtifactCorrupt
from localrank.points.signature import PcaRepresentation, one_to_many
from localrank.scorers import SCORERS, AnchoredBySimilarityScorer, AnchoredScorer, LinearScorer
from localrank.scorers.anchored import CURVES, Curve, _distinct, bent
from tests.core.scorers.stored import again

if TYPE_CHECKING:
    from localrank.arrays import Array, Matrix, Vector

N_FEATURES = 5


def anchored(
    rng: np.random.Generator, n_anchors: int = 3, n_rows: int = 4, curve: Curve = "rising"
) -> tuple[AnchoredScorer, Vector]:
    """Return a scorer and its anchors."""
    transforms = rng.standard_normal((n_anchors, n_rows, N_FEATURES)) / 3
    anchors = rng.standard_normal((n_anchors, N_FEATURES))
    origins = np.einsum("arf,af->ar", transforms, anchors)
    return AnchoredScorer(transforms, origins, rng.random(n_anchors), curve), anchors


def by_similarity(rng: np.random.Generator, n_queries: int = 4) -> AnchoredBySimilarityScorer:
    member, _ = anchored(rng)
    clouds = [rng.standard_normal((8, N_FEATURES)).astype(np.float32) for _ in range(n_queries)]
    return AnchoredBySimilarityScorer(
        member,
        rng.random((n_queries, 3)),
        rng.random(n_queries) / 2 + 0.1,
        PcaRepresentation(2).sign_all(clouds),
        "eq5",
        0.2,
    )


def cloud(rng: np.random.Generator, n_docs: int = 9) -> Matrix:
    return np.asarray(rng.standard_normal((n_docs, N_FEATURES)), np.float32)


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), curve=st.sampled_from(CURVES))
def test_a_score_is_the_negative_sum_of_weighted_curves_of_distances(seed: int, curve: Curve) -> None:
    rng = np.random.default_rng(seed)
    scorer, anchors = anchored(rng, int(rng.integers(1, 6)), int(rng.integers(1, 6)), curve)
    documents = cloud(rng)

    scores = scorer.score_rows(documents)

    for x, score in zip(documents.astype(float), scores, strict=True):
        expected = 0.0
        for transform, anchor, weight in zip(scorer.transforms, anchors, scorer.weights, strict=True):
            metric = transform.T @ transform
            d = np.sqrt((x - anchor) @ metric @ (x - anchor))
            value = {"distance": d, "turning": d * np.exp(-d)}.get(curve)
            if value is None:
                value = d * np.exp(-d) if d <= 1 else 2 / np.e - d * np.exp(-d)
            expected -= weight * value
        np.testing.assert_allclose(score, expected, rtol=1e-9, atol=1e-12)


def test_the_papers_curve_turns_at_one_and_ours_does_not() -> None:
    d = np.linspace(0, 6, 601)
    before, after = d < 1, d >= 1

    turning, rising = bent(d, "turning"), bent(d, "rising")

    np.testing.assert_array_equal(turning[before], rising[before])
    assert (np.diff(turning[after]) < 0).all()
    assert (np.diff(rising) > 0).all()
    np.testing.assert_allclose(turning[100], np.exp(-1.0))
    np.testing.assert_allclose(rising[600], 2 / np.e - 6 * np.exp(-6))


@pytest.mark.parametrize("n_features", [7, 46, 136])
def test_identical_documents_score_the_same_wherever_they_stand(n_features: int) -> None:
    rng = np.random.default_rng(n_features)
    scorer = AnchoredScorer(
        rng.standard_normal((3, n_features, n_features)), np.zeros((3, n_features)), np.ones(3)
    )
    for n_docs in (2, 5, 13, 37, 131):
        documents = rng.random((n_docs, n_features)).astype(np.float32)
        documents[[0, n_docs // 2, n_docs - 1]] = documents[0]

        scores = scorer.score_rows(documents)

        assert scores[0] == scores[n_docs // 2] == scores[n_docs - 1]
        np.testing.assert_allclose(scores[1], scorer.score_rows(documents[1:2])[0], rtol=1e-12)


def test_a_negative_zero_is_a_zero() -> None:
    documents = np.ones((5, 3))
    documents[:, 1] = [0.0, -0.0, 0.0, 0.0, -0.0]

    distinct, places = _distinct(documents)

    np.testing.assert_array_equal(distinct, [[1.0, 0.0, 1.0]])
    np.testing.assert_array_equal(places, np.zeros(5))


def test_different_documents_of_the_same_key_are_told_apart() -> None:
    """The third feature counts twice in a key and the eighth three times."""
    documents = np.zeros((4, 8))
    documents[[0, 2, 3], 2] = 3.0, 1.0, 3.0
    documents[1, 7] = 2.0

    distinct, places = _distinct(documents)

    np.testing.assert_array_equal(distinct, documents[:3])
    np.testing.assert_array_equal(places, [0, 1, 2, 0])


def test_long_lists_are_scored_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    scorer, _ = anchored(rng)
    documents = cloud(rng, 50)
    whole = scorer.score_rows(documents)

    monkeypatch.setattr("localrank.scorers.anchored._CELLS", 130)

    np.testing.assert_allclose(scorer.score_rows(documents), whole, rtol=1e-12)


def test_an_empty_list_has_no_scores() -> None:
    scorer = by_similarity(np.random.default_rng(0))

    assert scorer.score_rows(np.zeros((0, N_FEATURES), np.float32)).shape == (0,)


@pytest.mark.parametrize("curve", CURVES)
def test_scores_are_finite_for_every_finite_document(curve: Curve) -> None:
    member, _ = anchored(np.random.default_rng(0), curve=curve)
    scorer = by_similarity(np.random.default_rng(1))
    extreme = np.finfo(np.float32).max * np.array([[1] * 5, [-1] * 5, [1, -1, 1, -1, 0]], np.float32)

    assert np.isfinite(member.score_rows(extreme)).all()
    assert np.isfinite(scorer.score_rows(extreme)).all()


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_weights_are_those_of_the_queries_that_the_list_resembles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scorer, documents = by_similarity(rng), cloud(rng)

    found = scorer.weights_for(documents)

    alike = one_to_many(PcaRepresentation(2).sign(documents), scorer.signatures, "eq5")
    factors = [c * np.exp(s / 0.2) for c, s in zip(scorer.shares, alike, strict=True)]
    expected = sum(f * w for f, w in zip(factors, scorer.weights, strict=True)) / sum(factors)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_array_equal(scorer.score_rows(documents), scorer.member.score_with(found, documents))


def test_a_list_without_a_signature_resembles_every_query_equally() -> None:
    scorer = by_similarity(np.random.default_rng(0))

    found = scorer.weights_for(np.ones((1, N_FEATURES), np.float32))

    np.testing.assert_allclose(found, scorer.shares @ scorer.weights / scorer.shares.sum())


def test_a_training_query_gets_its_own_weights_when_the_bandwidth_is_small() -> None:
    rng = np.random.default_rng(0)
    clouds = [cloud(rng) for _ in range(4)]
    member, _ = anchored(rng)
    scorer = AnchoredBySimilarityScorer(
        member, np.eye(4, 3), np.full(4, 0.25), PcaRepresentation(2).sign_all(clouds), "eq5", 1e-3
    )

    np.testing.assert_allclose(scorer.weights_for(clouds[1]), np.eye(4, 3)[1], atol=1e-9)


def test_stored_scorers_come_back() -> None:
    rng = np.random.default_rng(0)
    scorer, documents = by_similarity(rng), cloud(rng)

    read = again(scorer, N_FEATURES)

    assert SCORERS["anchored"] is AnchoredScorer
    assert SCORERS["anchored_by_similarity"] is AnchoredBySimilarityScorer
    assert isinstance(read, AnchoredBySimilarityScorer)
    assert read.member.blocks == "normalised"
    np.testing.assert_array_equal(read.score_rows(documents), scorer.score_rows(documents))


def changed(array: Array, value: float) -> Array:
    other = array.copy()
    other.flat[0] = value
    return other


@pytest.mark.parametrize(
    ("role", "change", "message"),
    [
        ("transforms", lambda a: a[0], r"transforms: expected shape \(anchors, rows, 5\), found \(4, 5\)"),
        ("transforms", lambda a: a[:, :, :4], r"transforms: expected shape \(3, 4, 5\), found \(3, 4, 4\)"),
        ("transforms", lambda a: a[:0], r"transforms: expected shape \(0, 4, 5\), found \(0, 4, 5\)"),
        ("transforms", lambda a: a.astype(np.float32), "transforms: expected float64, found float32"),
        (
            "transforms",
            lambda a: changed(a, np.nan),
            r"scorers\.transforms\.npy: expected finite numbers, found nan",
        ),
        (
            "transforms",
            lambda a: changed(a, 1e120),
            "expected numbers that keep distances finite, found a larger one",
        ),
        ("origins", lambda a: a[:2], r"origins: expected shape \(3, 4\), found \(2, 4\)"),
        (
            "origins",
            lambda a: changed(a, 1e160),
            "expected numbers that keep distances finite, found a larger one",
        ),
        ("weights", lambda a: a[:2], r"weights: expected shape \(3\), found \(2,\)"),
        ("weights", lambda a: changed(a, -1.0), r"scorers\.weights\.npy: expected 0 to 1e\+100, found -1\.0"),
        ("weights", lambda a: changed(a, 1e101), r"scorers\.weights\.npy: expected 0 to 1e\+100"),
    ],
)
def test_arrays_of_anchors_that_do_not_fit_are_refused(role: str, change: Any, message: str) -> None:
    scorer, _ = anchored(np.random.default_rng(0))

    with pytest.raises(ArtifactCorrupt, match=message):
        again(scorer, N_FEATURES, arrays={role: change(scorer.arrays()[role])})


@pytest.mark.parametrize(
    ("role", "change", "message"),
    [
        ("weights", lambda a: a[:, :2], "weights: expected one for each of 3 anchors, found 2"),
        ("weights", lambda a: changed(a, -1.0), r"scorers\.weights\.npy: expected 0 to 1e\+100"),
        ("shares", lambda a: a[:3], r"shares: expected shape \(4\), found \(3,\)"),
        ("shares", lambda a: changed(a, 0.0), "shares: expected positive numbers"),
        ("shares", lambda a: changed(a, 1e300), r"scorers\.shares\.npy: expected 0 to 1, found"),
        (
            "eigenvalues",
            lambda a: changed(a, -1.0),
            r"scorers\.eigenvalues\.npy: expected 0 to inf, found -1",
        ),
        ("eigenvalues", lambda a: a[:, :1], r"eigenvalues: expected shape \(4, 2\), found \(4, 1\)"),
        ("directions", lambda a: a[0], r"directions: expected shape \(4, components, width\), found"),
        ("directions", lambda a: a[:, :, :3], "directions: expected as many numbers as the member's blocks"),
        ("directions", lambda a: changed(a, 3e38), r"scorers\.directions\.npy: expected -1\.001 to 1\.001"),
        ("ranks", lambda a: changed(a, 3), r"scorers\.ranks\.npy: expected 0 to 2, found 3"),
        ("ranks", lambda a: changed(a, -1), r"scorers\.ranks\.npy: expected 0 to 2, found -1"),
    ],
)
def test_arrays_of_training_queries_that_do_not_fit_are_refused(role: str, change: Any, message: str) -> None:
    scorer = by_similarity(np.random.default_rng(0))

    with pytest.raises(ArtifactCorrupt, match=message):
        again(scorer, N_FEATURES, arrays={role: change(scorer.arrays()[role])})


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"curve": "flat"}, "curve: expected one of distance, turning, rising, found 'flat'"),
        ({"blocks": "list of them"}, "expected blocks such as"),
        ({"blocks": "[minmax,rank]"}, "expected blocks as LocalRank writes them"),
        ({"blocks": 3}, "expected blocks as LocalRank writes them, found 3"),
        ({"more": 3}, "expected the settings of 'anchored'"),
    ],
)
def test_strange_settings_of_anchors_are_refused(stated: dict[str, object], message: str) -> None:
    scorer, _ = anchored(np.random.default_rng(0))

    with pytest.raises(ArtifactCorrupt, match=message):
        again(scorer, N_FEATURES, settings=stated)


def test_a_member_of_another_kind_and_strange_settings_are_refused() -> None:
    scorer = by_similarity(np.random.default_rng(0))
    linear = LinearScorer(np.zeros(N_FEATURES))
    for members in ((linear,), (linear, scorer.member)):
        with pytest.raises(ArtifactCorrupt, match="expected one anchored scorer as the member"):
            again(scorer, N_FEATURES, members=members)
    with pytest.raises(ArtifactCorrupt, match=r"similarity: expected one of eq5, .*, found 'cosine'"):
        again(scorer, N_FEATURES, settings={"similarity": "cosine"})
    for bandwidth in (0, -1.0, float("nan"), float("inf"), "1", True, None):
        with pytest.raises(ArtifactCorrupt, match="bandwidth: expected 1e-06 to"):
            again(scorer, N_FEATURES, settings={"bandwidth": bandwidth})
