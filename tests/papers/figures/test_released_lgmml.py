"""The code released with L-GMML: what it calls similar, what its mean is, and which document it puts first."""

from __future__ import annotations

import numpy as np
import pytest

from localrank_papers.figures.lgmml_variants import (
    Released,
    learn_released,
    mean_as_released,
    parts_as_released,
    released_weights,
)
from localrank_training.data.queries import QuerySet, default_names


def judged(n_queries: int = 6, n_docs: int = 12, seed: int = 0) -> QuerySet:
    rng = np.random.default_rng(seed)
    documents = rng.random((n_queries * n_docs, 3))
    return QuerySet(
        documents=documents.astype(np.float32),
        labels=np.digitize(documents[:, 0], [0.6, 0.85]).astype(np.float64),
        offsets=np.arange(n_queries + 1) * n_docs,
        query_ids=tuple(map(str, range(n_queries))),
        feature_names=default_names(3),
        lines=np.arange(len(documents)),
    )


def test_sets_are_places_in_an_unsorted_list() -> None:
    """Labels appear as 0, 2, 1: the first half of them is 0, of which there are four; the last 1 + 4 places are dissimilar."""
    labels = np.array([0.0, 2, 0, 1, 0, 1, 2, 0])

    similar, beyond, candidates = parts_as_released(labels)

    assert 4 == similar
    assert {0.0, 1.0, 2.0} == set(labels[:similar])
    assert 3 == beyond
    assert 4 == candidates


@pytest.mark.parametrize("seed", range(4))
def test_at_one_the_mean_is_one_of_its_ends(seed: int) -> None:
    rng = np.random.default_rng(seed)
    similar, dissimilar = (one @ one.T + 0.1 * np.eye(3) for one in rng.standard_normal((2, 3, 5)))

    mean = mean_as_released(similar, dissimilar, 1.0)

    exchanged = np.linalg.cond(similar) > np.linalg.cond(dissimilar)
    np.testing.assert_allclose(mean, np.linalg.inv(similar) if exchanged else dissimilar, rtol=1e-8)


def test_at_a_half_it_is_the_geometric_mean() -> None:
    rng = np.random.default_rng(0)
    similar, dissimilar = (one @ one.T + 0.1 * np.eye(3) for one in rng.standard_normal((2, 3, 5)))

    mean = mean_as_released(similar, dissimilar, 0.5)

    np.testing.assert_allclose(mean @ similar @ mean, dissimilar, rtol=1e-7)


def test_the_farthest_document_comes_first() -> None:
    released = Released(np.eye(2)[None], np.zeros((1, 2)))
    documents = np.array([[0.1, 0.0], [0.0, 0.5], [0.3, 0.0]])

    scores = released.scores(documents)

    assert [1, 2, 0] == np.argsort(-scores).tolist()
    np.testing.assert_allclose(scores, np.sqrt([0.1 * np.exp(-0.1), 0.5 * np.exp(-0.5), 0.3 * np.exp(-0.3)]))


def test_a_query_without_relevant_documents_makes_no_metric() -> None:
    queries = judged()
    queries.labels[queries.span(0)] = 0.0

    released = learn_released(queries, 100, np.random.default_rng(0))

    assert (5, 3, 3) == released.metrics.shape
    rows = {tuple(row) for row in queries.documents.astype(np.float64)}
    assert all(tuple(anchor) in rows for anchor in released.anchors)


def test_training_raises_what_relevant_documents_score_in_their_own_query() -> None:
    queries = judged()
    released = learn_released(queries, 4, np.random.default_rng(0))
    distances = released.distances(queries.documents)

    weights = released_weights(distances, queries, 30, np.random.default_rng(0))

    def apart(scores: np.ndarray) -> float:
        return float(scores[queries.labels == 2].mean() - scores[queries.labels == 0].mean())

    assert (weights >= 0).all()
    assert apart(released.combined(distances, weights[queries.query_of])) > apart(
        released.combined(distances)
    )
