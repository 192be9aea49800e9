from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from localrank.errors import InvalidConfiguration
from localrank.points.vectors import (
    SkewRepresentation,
    TopDocumentsRepresentation,
    TopScoresPcaRepresentation,
    VarianceRepresentation,
    top_scores,
)
from tests.core.clouds import as_cloud

if TYPE_CHECKING:
    from localrank.arrays import Matrix
    from localrank.points.representation import Representation

REPRESENTATIONS = [
    VarianceRepresentation(),
    SkewRepresentation(),
    TopDocumentsRepresentation(1, 3),
    TopDocumentsRepresentation(1, 3, "smallest"),
    TopScoresPcaRepresentation(np.ones(4), np.eye(4)[:2], 3),
]
DOCUMENTS = np.random.default_rng(0).gamma(2, 5, (30, 4)).astype(np.float32)


def test_variances_are_those_of_numpy() -> None:
    found = VarianceRepresentation().of(as_cloud(DOCUMENTS))

    np.testing.assert_allclose(found.values, DOCUMENTS.astype(float).var(axis=0), rtol=1e-6)


def test_skews_are_those_of_scipy() -> None:
    found = SkewRepresentation().of(as_cloud(DOCUMENTS))

    np.testing.assert_allclose(found.values, stats.skew(DOCUMENTS.astype(float), axis=0), rtol=1e-5)


def test_a_constant_feature_has_no_variance_and_no_skew() -> None:
    documents = DOCUMENTS.copy()
    documents[:, 2] = np.float32(1e6) + np.float32(0.0625) * (np.arange(30) % 2)

    variance, skew = (one.of(as_cloud(documents)) for one in (VarianceRepresentation(), SkewRepresentation()))

    assert (0, 0) == (variance.values[2], skew.values[2])
    assert variance.known
    assert skew.known


@pytest.mark.parametrize(("order", "sign"), [("largest", 1), ("smallest", -1)])
def test_the_top_documents_are_those_of_the_largest_or_smallest_values(order: str, sign: int) -> None:
    found = TopDocumentsRepresentation(2, 7, order).of(as_cloud(DOCUMENTS))

    best = sorted(DOCUMENTS.astype(float).tolist(), key=lambda row: -sign * row[2])[:7]
    expected = [sum(row[feature] for row in best) / 7 for feature in range(4)]
    np.testing.assert_allclose(found.values, expected, rtol=1e-6)


def test_documents_of_equal_value_share_the_last_places() -> None:
    documents = np.array([[5, 1], [3, 10], [3, 20], [3, 60], [1, 99]], np.float32)

    found = TopDocumentsRepresentation(0, 3).of(as_cloud(documents))

    np.testing.assert_allclose(found.values, [(5 + 3 + 3) / 3, (1 + 2 * 30) / 3], rtol=1e-6)


def test_the_top_scores_are_those_of_each_feature_by_itself() -> None:
    random = np.random.default_rng(1)
    centre, axes = random.standard_normal(4), random.standard_normal((2, 4))

    found = TopScoresPcaRepresentation(centre, axes, 5).of(as_cloud(DOCUMENTS))

    rows = [[sorted(DOCUMENTS[:, j].tolist())[-1 - place] for j in range(4)] for place in range(5)]
    projected = [[float(axis @ (np.array(row) - centre)) for axis in axes] for row in rows]
    np.testing.assert_allclose(found.values, np.mean(projected, axis=0), rtol=1e-5)
    np.testing.assert_array_equal(rows, top_scores(DOCUMENTS, 5))
    assert 30 == len(top_scores(DOCUMENTS, 99))


@pytest.mark.parametrize("representation", REPRESENTATIONS, ids=lambda one: one.method)
def test_lists_without_anything_to_compare(representation: Representation) -> None:
    """Without documents nothing is known; one document, or equal ones, have neither variance nor skew."""
    none, one, alike = (as_cloud(rows) for rows in (DOCUMENTS[:0], DOCUMENTS[:1], DOCUMENTS[[0] * 9]))
    shapeless = representation.method in {"variance", "skew"}

    points = representation.of_all([none, one, alike])

    assert [False, not shapeless, not shapeless] == points.known.tolist()
    assert np.isfinite(points.values).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("representation", REPRESENTATIONS, ids=lambda one: one.method)
@settings(max_examples=60)
@given(
    documents=arrays(
        np.float32,
        st.tuples(st.integers(1, 12), st.just(4)),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False) | st.integers(0, 3),
    ),
    data=st.data(),
)
def test_any_list_has_a_finite_point_whatever_its_order(
    representation: Representation, documents: Matrix, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(documents))))

    point, again = representation.of(as_cloud(documents)), representation.of(as_cloud(documents[order]))

    assert np.isfinite(point.values).all()  # type: ignore[attr-defined]
    assert point.known == again.known
    size = np.abs(documents).max().astype(float) ** (2 if representation.method == "variance" else 1)
    np.testing.assert_allclose(point.values, again.values, rtol=1e-4, atol=1e-5 * size + 1e-5)  # type: ignore[attr-defined]


def test_settings_that_mean_nothing_are_refused() -> None:
    for made in (
        lambda: TopDocumentsRepresentation(0, 0),
        lambda: TopDocumentsRepresentation(-1, 3),
        lambda: TopDocumentsRepresentation(0, 3, "best"),
        lambda: TopScoresPcaRepresentation(np.zeros(1), np.eye(1), 0),
    ):
        with pytest.raises(InvalidConfiguration, match="expected"):
            made()
    with pytest.raises(ValueError, match="expected a feature from 0 to 3, found 4"):
        TopDocumentsRepresentation.sizes({"feature": 4}, 4)
    with pytest.raises(ValueError, match="expected a feature from 0 to 3, found -1"):
        TopDocumentsRepresentation.sizes({"feature": -1}, 4)


def test_the_least_settings_are_one_document_and_the_first_feature() -> None:
    first = TopDocumentsRepresentation(0, 1).of(as_cloud(DOCUMENTS))
    top = TopScoresPcaRepresentation(np.zeros(4), np.eye(4), 1).of(as_cloud(DOCUMENTS))

    np.testing.assert_array_equal(DOCUMENTS[DOCUMENTS[:, 0].argmax()], first.values)
    np.testing.assert_array_equal(DOCUMENTS.max(axis=0), top.values)
    assert [{"width": 4}] * 2 == [TopDocumentsRepresentation.sizes({"feature": one}, 4) for one in (0, 3)]


@pytest.mark.parametrize("representation", REPRESENTATIONS, ids=lambda one: one.method)
def test_a_representation_says_how_long_its_vectors_are_and_how_it_was_set(
    representation: Representation,
) -> None:
    method, settings = representation.method, representation.settings()

    expected = {
        "top_documents": {"feature": 1, "documents": 3},
        "top_scores_pca": {"components": 2, "scores": 3},
    }
    assert expected.get(method, {}).items() <= settings.items()
    for rows in (DOCUMENTS, DOCUMENTS[:0]):
        (point,) = representation.of_all([as_cloud(rows)]).values  # type: ignore[attr-defined]
        assert (2 if method == "top_scores_pca" else 4) == len(point)
