"""Adaptive training as published and repaired, step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from localrank.metrics import Judgements
from localrank.points.vectors import VectorPoints
from localrank_papers.figures import adaptive_clusters
from localrank_papers.figures.adaptive_clusters import (
    PUBLISHED,
    REPAIRED,
    Answers,
    as_published,
    dealt_at_random,
    flips,
    published_points,
    published_profile,
    published_reciprocal_rank,
    repaired,
    repaired_profiles,
    top_documents,
)
from localrank_papers.figures.folds import Fold
from localrank_training.data.queries import QuerySet
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.grouping.representations import PROFILE, profile_of

SMALL = replace(PUBLISHED, num_iterations=10)
STOPPED = replace(REPAIRED, num_iterations=20, min_data_in_leaf=5)


def three() -> QuerySet:
    """Queries of two documents: the first relevant, the second relevant, none relevant."""
    return QuerySet(
        documents=np.array([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]], np.float32),
        labels=np.array([1.0, 0.0, 0.0, 2.0, 0.0, 0.0]),
        offsets=np.array([0, 2, 4, 6]),
        query_ids=("a", "b", "c"),
        feature_names=("f1", "f2"),
        lines=np.arange(6),
    )


@pytest.fixture(scope="module")
def fold() -> Fold:
    recipe = Recipe(documents=(10, 15), features=8, kinds=2, separation=1.0, shapes=0.0, levels=3)
    train, validation, test = (synthesize(n, recipe, sample=i)[0] for i, n in enumerate((60, 20, 30)))
    return Fold(1, train, validation, test)


def test_the_published_vector_is_zero_if_the_only_relevant_document_comes_first() -> None:
    queries = three()

    np.testing.assert_array_equal(published_points(queries), [[0, 0], [7, 8], [0, 0]])
    np.testing.assert_array_equal(adaptive_clusters.relevant_means(queries), [[1, 2], [7, 8], [0, 0]])


def test_the_published_reciprocal_rank_is_zero_of_the_best_ranking_of_one_document() -> None:
    queries = three()

    first = published_reciprocal_rank(queries, np.array([1.0, 0.0, 1.0, 0.0, 0.0, 0.0]))
    last = published_reciprocal_rank(queries, np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.0]))

    np.testing.assert_array_equal(first, [0.0, 0.5, 0.0])
    np.testing.assert_array_equal(last, [0.5, 0.0, 0.0])


def test_the_published_profile_differs_in_the_reciprocal_rank_only(fold: Fold) -> None:
    scores = fold.test.documents[:, 0].astype(float)

    ours = profile_of(Judgements(fold.test.labels, fold.test.offsets), scores)
    theirs = published_profile(fold.test, scores)

    column = PROFILE.index("mrr@100")
    np.testing.assert_array_equal(np.delete(ours, column, 1), np.delete(theirs, column, 1))
    assert (theirs[:, column] <= ours[:, column] + 1e-12).all()


def test_top_documents_are_the_mean_of_the_largest_ten() -> None:
    documents = np.arange(24, dtype=np.float32).reshape(12, 2)[::-1].copy()
    queries = replace(three(), documents=documents, labels=np.zeros(12), offsets=np.array([0, 12]))

    found = top_documents(queries, 0).values

    np.testing.assert_allclose(found, [np.arange(24).reshape(12, 2)[2:].mean(axis=0)])


def test_selective_and_fusion_are_what_eq_2_says() -> None:
    scores = np.array([[1.0, 2.0, 3.0, 5.0], [40.0, 20.0, 0.0, 8.0]])
    shares = np.array([[0.25, 0.75], [0.9, 0.1]])
    queries = replace(three().select([0, 1]))

    raw = Answers(queries, scores, shares, standard=False)
    standard = Answers(queries, scores, shares, standard=True)

    np.testing.assert_array_equal(raw.selective(), [40.0, 20.0, 3.0, 5.0])
    np.testing.assert_allclose(raw.fusion(), [30.25, 15.5, 2.7, 5.3])
    np.testing.assert_allclose(standard.fusion(), [-0.25 + 0.75, 0.25 - 0.75, -0.9 - 0.1, 1.0])


def test_probabilities_sum_to_one_and_clusters_are_of_all_queries_as_published(fold: Fold) -> None:
    adapted = as_published(fold, "ward", 3, SMALL)

    answers = adapted.ask(fold.test)

    np.testing.assert_allclose(answers.shares.sum(axis=1), 1.0)
    assert answers.scores.shape == (3, fold.test.n_docs)
    assert (adapted.labels >= 0).all()
    assert 0 <= flips(adapted, fold.test, 0) <= 1


def test_repaired_leaves_queries_out_that_have_nothing_relevant(fold: Fold) -> None:
    labels = fold.train.labels.copy()
    labels[fold.train.span(3)] = 0.0
    without = Fold(1, replace(fold.train, labels=labels), fold.validation, fold.test)

    adapted = repaired(without, "kmeans", 2, STOPPED)

    assert adapted.labels[3] == -1
    np.testing.assert_allclose(adapted.ask(fold.test).shares.sum(axis=1), 1.0)


def test_repaired_profiles_come_from_models_that_have_not_seen_the_query(
    fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every query is scored by models that were learned without it, cluster by cluster."""
    seen: list[tuple[set[str], set[str]]] = []
    models, scored_by = adaptive_clusters._models, adaptive_clusters.scored_by

    def watched(one: Fold, labels: np.ndarray, *rest: object) -> object:
        seen.append(({one.train.query_ids[q] for q in np.flatnonzero(labels >= 0)}, set()))
        return models(one, labels, *rest)  # type: ignore[arg-type]

    def asked(scorer: object, queries: QuerySet) -> np.ndarray:
        seen[-1][1].update(queries.query_ids)
        return scored_by(scorer, queries)  # type: ignore[arg-type]

    monkeypatch.setattr(adaptive_clusters, "_models", watched)
    monkeypatch.setattr(adaptive_clusters, "scored_by", asked)
    labels = np.arange(len(fold.train)) % 2

    repaired_profiles(fold, labels, 2, STOPPED, 0)

    assert all(taught.isdisjoint(ranked) for taught, ranked in seen)
    assert set().union(*(ranked for _, ranked in seen)) == set(fold.train.query_ids)


def test_random_clusters_have_the_same_sizes_and_other_queries(fold: Fold) -> None:
    adapted = as_published(fold, "kmeans", 3, SMALL)

    dealt = dealt_at_random(fold, adapted, SMALL, seed=4)

    assert np.bincount(dealt.labels).tolist() == np.bincount(adapted.labels).tolist()
    assert (dealt.labels != adapted.labels).any()


def test_clusters_are_predicted_as_by_a_multinomial_regression_of_the_queries_that_have_one() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2, -1], 12)
    values = (rng.standard_normal((48, 3)) + 2 * np.eye(4, 3)[labels]).astype(np.float32)
    known = np.ones(48, bool)
    taught = labels >= 0

    predict = adaptive_clusters._multinomial(VectorPoints(values, known), labels, 3)

    reference = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, tol=1e-10, max_iter=1000))
    reference.fit(values[taught].astype(float), labels[taught])
    np.testing.assert_allclose(predict(values), reference.predict_proba(values.astype(float)), atol=2e-3)
