"""Ideal documents: which queries have one, and which document it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from localrank.errors import InvalidData
from localrank_papers.learners.gmml import best_document, relevant_mean, usable_queries

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged

WEIGHTS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    """Of the third query all documents are relevant, of the fourth none, those of the last are alike."""
    rng = np.random.default_rng(0)
    clouds = [rng.random((6, 2)), rng.random((4, 2)), rng.random((3, 2)), rng.random((3, 2)), np.ones((2, 2))]
    return judged(clouds, [[2, 0, 1, 0, 0, 3], [0, 1, 0, 2], [1, 1, 2], [0, 0, 0.5], [1, 0]])


def test_queries_of_both_kinds_share_by_their_weights(queries: QuerySet) -> None:
    relevant, shares = usable_queries(queries, 1.0, WEIGHTS, "gmml")

    np.testing.assert_array_equal(queries.labels >= 1, relevant)
    np.testing.assert_allclose(shares, [1 / 3, 2 / 3, 0, 0, 0])
    np.testing.assert_allclose(usable_queries(queries, 2.0, WEIGHTS, "gmml")[1], [1 / 7, 2 / 7, 4 / 7, 0, 0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.0, 0, 1, 1, 0], r"below and from label 1 on, found none \(labels 0 to 3, 5 queries\)"),
        ([0.0, 0, 1, 1, 1], "of one query with different features, found none in 3 queries with both"),
    ],
)
def test_queries_that_have_no_ideal_are_refused(
    queries: QuerySet, weights: list[float], message: str
) -> None:
    with pytest.raises(InvalidData, match=f"^gmml: expected .*{message}"):
        usable_queries(queries, 1.0, np.array(weights), "gmml")


def test_the_mean_is_that_of_the_queries_means(queries: QuerySet) -> None:
    """Shares need not add up to one; queries without a share are not looked at."""
    documents = queries.documents.astype(float)

    found = relevant_mean(queries, queries.labels >= 1, np.array([1.0, 3.0, 0.0, 0.0, 0.0]))

    first, second = documents[[0, 2, 5]].mean(axis=0), documents[[7, 9]].mean(axis=0)
    np.testing.assert_allclose(found, (first + 3 * second) / 4, rtol=1e-6)


def figures(queries: QuerySet, shares: Vector, transform: Vector) -> dict[int, float]:
    """The mean NDCG of the queries for each relevant document of those that count."""
    found = {}
    for place in np.flatnonzero((queries.labels >= 1) & (shares[queries.query_of] > 0)).tolist():
        total = 0.0
        for query in np.flatnonzero(shares).tolist():
            apart = (queries.documents_of(query) - queries.documents[place]).astype(float) @ transform.T
            gains = 2 ** queries.labels_of(query) - 1
            total += shares[query] * ndcg_score([gains], [-(apart**2).sum(axis=1)], k=3)
        found[place] = total / shares.sum()
    return found


def best(queries: QuerySet, shares: Vector, seed: int, candidates: int = 200) -> tuple[Vector, float]:
    return best_document(
        queries,
        queries.labels >= 1,
        shares,
        np.array([[2.0, 0.0], [1.0, 0.5]]),
        metric="ndcg@3",
        candidates=candidates,
        rng=np.random.default_rng(seed),
    )


@pytest.mark.parametrize("shares", [[1.0, 3.0, 0, 0, 0], [0, 1.0, 0, 0, 0], [1.0, 0, 2.0, 0, 0]])
def test_the_best_document_is_found_among_all_relevant_ones(queries: QuerySet, shares: list[float]) -> None:
    document, value = best(queries, np.array(shares), 0)

    expected = figures(queries, np.array(shares), np.array([[2.0, 0.0], [1.0, 0.5]]))
    place = max(expected, key=lambda one: expected[one])
    np.testing.assert_array_equal(queries.documents[place], document)
    assert value == pytest.approx(expected[place])


def test_of_many_relevant_documents_some_are_drawn(queries: QuerySet) -> None:
    """As many as there may be: two of five are not always the same two, five are all of them."""
    shares = np.array([1.0, 3.0, 0, 0, 0])
    expected = figures(queries, shares, np.array([[2.0, 0.0], [1.0, 0.5]]))

    drawn = {round(best(queries, shares, seed, candidates=1)[1], 9) for seed in range(40)}

    assert drawn == {round(value, 9) for value in expected.values()}
    assert {best(queries, shares, seed, candidates=5)[1] for seed in range(5)} == {
        best(queries, shares, 0)[1]
    }


def test_of_many_queries_some_are_drawn(queries: QuerySet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrank_papers.learners.gmml._ENOUGH", 1)
    shares = np.array([1.0, 3.0, 0, 0, 0])

    found = {best(queries, shares, seed)[1] for seed in range(20)}

    assert found == {best(queries, one, 0)[1] for one in (np.eye(5)[0], np.eye(5)[1])}
    monkeypatch.setattr("localrank_papers.learners.gmml._ENOUGH", 2)
    assert 1 == len({best(queries, shares, seed)[1] for seed in range(20)})
