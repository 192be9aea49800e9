"""GMML as a ranker: its anchor, weights of queries, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.linalg import inv, sqrtm
from sklearn.metrics import ndcg_score

from localrank.errors import InvalidConfiguration
from localrank_papers.learners.gmml import GeometricMeanMetric
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import collected
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    """Relevant documents are near (1, 1, 1, 0), which only the first two features tell."""
    rng = np.random.default_rng(0)
    clouds, labels = [], []
    for n in (12, 30, 7, 21, 16):
        relevant = rng.random(n) < 0.3
        relevant[:2] = True, False
        cloud = rng.random((n, 4))
        cloud[relevant, :2] = 1 - 0.3 * rng.random((relevant.sum(), 2))
        clouds.append(cloud)
        labels.append(relevant * 2)
    return judged(clouds, labels)


def metric_by_hand(queries: QuerySet, regularisation: float) -> Vector:
    """Algorithm 1 of Su et al. (2017), pair by pair, with matrix roots."""
    d = queries.n_features
    similar, dissimilar = np.zeros((d, d)), np.zeros((d, d))
    for query in range(len(queries)):
        documents, labels = queries.documents_of(query).astype(float), queries.labels_of(query)
        near, far = documents[labels > 0], documents[labels == 0]
        for a in near:
            for b in near:
                similar += np.outer(a - b, a - b) / max(1, len(near) * (len(near) - 1))
            for b in far:
                dissimilar += np.outer(a - b, a - b) / (len(near) * len(far))
    s, big_d = (
        scatter * d / np.trace(scatter) + regularisation * np.eye(d) for scatter in (similar, dissimilar)
    )
    root = sqrtm(s)
    return np.asarray(inv(root) @ sqrtm(root @ big_d @ root) @ inv(root), np.float64)


def test_documents_are_scored_by_their_distance_to_the_anchor(queries: QuerySet) -> None:
    scorer = GeometricMeanMetric(regularisation=0.2, anchor="mean").fit(Lesson(queries))

    metric = metric_by_hand(queries, 0.2)
    anchor = np.mean(
        [
            queries.documents_of(q)[queries.labels_of(q) > 0].astype(float).mean(axis=0)
            for q in range(len(queries))
        ],
        axis=0,
    )
    apart = queries.documents.astype(float) - anchor
    expected = -np.sqrt(np.einsum("nf,fg,ng->n", apart, metric, apart))
    np.testing.assert_allclose(scorer.score_rows(queries.documents), expected, rtol=1e-9)


def test_the_anchor_is_the_relevant_document_that_ranks_the_queries_best(queries: QuerySet) -> None:
    with collected() as notes:
        scorer = GeometricMeanMetric(metric="ndcg@5").fit(Lesson(queries))

    metric = metric_by_hand(queries, 0.1)
    values = {}
    for place in np.flatnonzero(queries.labels > 0):
        anchor = queries.documents[place].astype(float)
        each = []
        for query in range(len(queries)):
            apart = queries.documents_of(query) - anchor
            scores = -np.einsum("nf,fg,ng->n", apart, metric, apart)
            gains = 2 ** queries.labels_of(query) - 1
            each.append(ndcg_score([gains], [scores], k=5))
        values[int(place)] = np.mean(each)
    best = max(values, key=lambda place: values[place])
    np.testing.assert_allclose(notes[0].figures["value"], values[best], rtol=1e-9)
    np.testing.assert_allclose(scorer.score_rows(queries.documents[best : best + 1]), 0.0, atol=1e-9)


def test_what_tells_documents_apart_counts_more_than_noise(queries: QuerySet) -> None:
    (transform,) = GeometricMeanMetric().fit(Lesson(queries)).transforms

    metric = transform.T @ transform
    assert min(metric[0, 0], metric[1, 1]) > 2 * max(metric[2, 2], metric[3, 3])


def test_a_query_of_weight_two_is_that_query_twice(queries: QuerySet) -> None:
    twice = GeometricMeanMetric(anchor="mean").fit(Lesson(queries.select([0, 1, 1, 2, 3, 4])))

    weighted = GeometricMeanMetric(anchor="mean").fit(
        Lesson(queries, weights=np.array([1.0, 2.0, 1.0, 1.0, 1.0]))
    )

    np.testing.assert_allclose(
        weighted.score_rows(queries.documents), twice.score_rows(queries.documents), rtol=1e-9
    )


def test_a_query_of_weight_zero_is_not_there(queries: QuerySet) -> None:
    without = GeometricMeanMetric().fit(Lesson(queries.select([0, 1, 3, 4])))

    weighted = GeometricMeanMetric().fit(Lesson(queries, weights=np.array([1.0, 1.0, 0.0, 1.0, 1.0])))

    np.testing.assert_allclose(
        weighted.score_rows(queries.documents), without.score_rows(queries.documents), rtol=1e-9
    )


def test_the_same_queries_give_the_same_bits(queries: QuerySet) -> None:
    first, second = (GeometricMeanMetric(candidates=3, seed=7).fit(Lesson(queries)) for _ in range(2))

    np.testing.assert_array_equal(first.score_rows(queries.documents), second.score_rows(queries.documents))


def test_a_low_rank_is_kept_in_the_scorer(queries: QuerySet) -> None:
    whole, low = (
        GeometricMeanMetric().fit(Lesson(queries)),
        GeometricMeanMetric(rank=2, anchor="mean").fit(Lesson(queries)),
    )

    assert whole.transforms.shape == (1, 4, 4)
    assert low.transforms.shape == (1, 2, 4)


def test_very_many_queries_are_sampled_for_the_anchor(
    queries: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrank_papers.learners.gmml._ENOUGH", 2)

    scorer = GeometricMeanMetric().fit(Lesson(queries))

    distances = -scorer.score_rows(queries.documents)
    nearest = int(distances.argmin())
    assert distances[nearest] < 1e-9
    assert queries.labels[nearest] > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"regularisation": 0.0}, "regularisation: expected more than 0, found 0.0"),
        ({"t": 1.5}, "t: expected at most 1, found 1.5"),
        ({"rank": 0}, "rank: expected at least 1, found 0"),
        ({"anchor": "query"}, "anchor: expected one of 'document', 'mean', 'origin', found 'query'"),
        ({"metric": "ndgc"}, "metric 'ndgc': expected one of map"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make("gmml", settings)


def test_with_the_origin_as_anchor_documents_are_differences_already(queries: QuerySet) -> None:
    with collected() as notes:
        scorer = GeometricMeanMetric(regularisation=0.2, anchor="origin").fit(Lesson(queries))

    metric = metric_by_hand(queries, 0.2)
    documents = queries.documents.astype(float)
    expected = -np.sqrt(np.einsum("nf,fg,ng->n", documents, metric, documents))
    np.testing.assert_allclose(scorer.score_rows(queries.documents), expected, rtol=1e-9)
    assert not notes


def test_the_settings_are_those_that_the_page_lists() -> None:
    assert listed("gmml") == declared("gmml")
    assert LEARNERS["gmml"].continues is False
