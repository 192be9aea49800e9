"""What is measured of hyperplanes, evaluated another way."""

from __future__ import annotations

from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
from sklearn.decomposition import PCA

from localrank_papers.figures.hyperplanes import (
    cosines,
    definition_search,
    graded,
    order_errors,
    principal_plane,
    turned,
)


def test_order_errors_are_counted_pair_by_pair() -> None:
    rng = np.random.default_rng(0)
    queries = graded(7, 11, turned(2, 0.5, rng, 4), (1, 1, 1), rng)
    scores = rng.integers(0, 4, queries.n_docs).astype(float)

    wrong, pairs = order_errors(queries, scores, 0, 2)

    expected, count = 0.0, 0
    for query in range(7):
        labels, own = queries.labels_of(query), scores[queries.span(query)]
        for worse, better in product(own[labels == 0], own[labels == 2]):
            expected += 1.0 if better < worse else 0.5 if better == worse else 0.0
            count += 1
    assert wrong == pytest.approx(expected)
    assert pairs == count


def test_cosines_of_normals() -> None:
    found = cosines(np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]]))

    np.testing.assert_allclose(found, [[1, 0, 0.5**0.5], [0, 1, 0.5**0.5], [0.5**0.5, 0.5**0.5, 1]])


def test_the_plane_is_that_of_pca() -> None:
    documents = np.random.default_rng(1).standard_normal((40, 6)) * np.arange(1, 7)
    reference = PCA(2).fit(documents)

    plane = principal_plane(documents)

    np.testing.assert_allclose(np.abs(plane.axes), np.abs(reference.components_), atol=1e-9)
    assert plane.share == pytest.approx(reference.explained_variance_ratio_.sum())
    np.testing.assert_allclose(np.abs(plane.coordinates), np.abs(reference.transform(documents)), atol=1e-9)


def test_one_document_spans_no_plane() -> None:
    assert principal_plane(np.ones((1, 3))).share == 0.0


@pytest.mark.parametrize(("turn", "cosine"), [(0.0, 1.0), (1.0, 0.0)])
def test_directions_turn_from_the_same_to_right_angles(turn: float, cosine: float) -> None:
    found = turned(3, turn, np.random.default_rng(2), 8)

    np.testing.assert_allclose(cosines(found)[np.triu_indices(3, 1)], [cosine] * 3, atol=1e-9)


def test_the_stand_in_has_the_errors_of_the_papers_table_6() -> None:
    """The best hyperplane for two grades is the step between them; its errors follow from the length of the step."""
    queries = definition_search(3)
    means = np.stack([queries.documents[queries.labels == grade].mean(axis=0) for grade in range(3)])
    normal = NormalDist()

    for low, high, step, papers in ((0, 1, 1.74, 0.1085), (1, 2, 2.26, 0.0546)):
        wrong, pairs = order_errors(queries, queries.documents @ (means[high] - means[low]), low, high)
        assert wrong / pairs == pytest.approx(normal.cdf(-step / 2**0.5), abs=0.03)
        assert normal.cdf(-step / 2**0.5) == pytest.approx(papers, abs=0.003)
