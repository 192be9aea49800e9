"""The best single feature, against a search of all by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.features.feature import Feature
from localrank_training.data.queries import QuerySet
from localrank_training.learners.best_feature import BestFeature, best_feature
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import collected
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from tests.training.learners.conftest import Judged, MakeQueries


@pytest.fixture
def queries(make_queries: MakeQueries) -> QuerySet:
    return make_queries(20, 6, 3, seed=4)


def ndcg(labels: np.ndarray, k: int) -> float:
    """Of labels in the order of a ranking; 0 if all are zero."""

    def dcg(ordered: np.ndarray) -> float:
        return float(sum((2**y - 1) / np.log2(2 + rank) for rank, y in enumerate(ordered[:k])))

    return dcg(labels) / best if (best := dcg(np.sort(labels)[::-1])) else 0.0


def by_hand(queries: QuerySet, weights: np.ndarray, k: int) -> dict[tuple[int, int], float]:
    """The mean NDCG of every feature and direction; the values here are all different."""
    found = {}
    for feature in range(queries.n_features):
        for sign in (1, -1):
            orders = [np.argsort(-sign * queries.documents_of(q)[:, feature]) for q in range(len(queries))]
            values = [ndcg(queries.labels_of(q)[order], k) for q, order in enumerate(orders)]
            found[feature, sign] = float(np.average(values, weights=weights))
    return found


def test_codes_of_categories_have_no_order() -> None:
    """The code is the label itself; the number says less."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60).astype(np.float64)
    documents = np.column_stack([labels, labels + rng.normal(size=60)]).astype(np.float32)
    coded = QuerySet(
        documents=documents,
        labels=labels,
        offsets=np.arange(0, 61, 6),
        query_ids=tuple(map(str, range(10))),
        feature_names=("brand", "x"),
        lines=np.arange(60),
        special={"brand": Feature("brand", "category", ("a", "b", "c"))},
    )

    assert (1, 1.0) == best_feature(coded, "ndcg@10")[:2]
    with pytest.raises(InvalidData, match="codes of categories only"):
        best_feature(replace(coded, documents=documents[:, :1], feature_names=("brand",)), "ndcg@10")


@pytest.mark.parametrize(("direction", "signs"), [("both", (1, -1)), ("up", (1,)), ("down", (-1,))])
def test_no_other_feature_or_direction_is_better(
    queries: QuerySet, direction: str, signs: tuple[int, ...]
) -> None:
    weights = np.linspace(0.0, 2.0, 20)

    with collected() as notes:
        scorer = make("best_feature", {"direction": direction, "metric": "ndcg@5"}).fit(
            Lesson(queries, weights)
        )

    found = {key: value for key, value in by_hand(queries, weights, 5).items() if key[1] in signs}
    (feature,) = np.flatnonzero(scorer.arrays()["weights"])
    best = int(feature), int(scorer.arrays()["weights"][feature])
    np.testing.assert_allclose(found[best], max(found.values()), rtol=1e-12)
    np.testing.assert_allclose(notes[-1].figures["value"], found[best], rtol=1e-9)
    assert f"feature 'f{feature + 1}'" in notes[-1].text


def test_it_ranks_by_that_feature(queries: QuerySet) -> None:
    scorer = BestFeature().fit(Lesson(queries))

    (feature,) = np.flatnonzero(scorer.weights)
    np.testing.assert_array_equal(
        scorer.score_rows(queries.documents),
        scorer.weights[feature] * queries.documents[:, feature].astype(np.float64),
    )


def test_equal_values_earn_nothing_by_the_order_of_the_input(judged: Judged) -> None:
    """The first feature is constant, and the documents come best first."""
    documents = [[0.0, 3.0], [0.0, 1.0], [0.0, 2.0], [0.0, 0.0]]

    scorer = BestFeature().fit(Lesson(judged([documents], [[2, 1, 0, 0]])))

    np.testing.assert_array_equal(scorer.weights, [0.0, 1.0])


def test_missing_values_are_refused(queries: QuerySet) -> None:
    broken = queries.documents.copy()
    broken[3, 1] = np.nan

    with pytest.raises(InvalidData, match="best_feature: query '0', feature 'f2': expected a finite value"):
        BestFeature().fit(Lesson(queries.with_documents(broken)))


def test_unknown_metrics_are_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="metric: metric 'best': expected one of"):
        BestFeature(metric="best")


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([[3.0, 3.0], [1.0, 1.0], [2.0, 2.0]], [1.0, 0.0]),
        ([[-3.0, 3.0], [-1.0, 1.0], [-2.0, 2.0]], [-1.0, 0.0]),
        ([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]], [-1.0, 0.0]),
    ],
)
def test_of_features_that_rank_alike_the_first_is_taken(
    judged: Judged, documents: list[list[float]], expected: list[float]
) -> None:
    scorer = BestFeature().fit(Lesson(judged([documents], [[2, 0, 1]])))

    np.testing.assert_array_equal(expected, scorer.weights)


def test_upwards_is_tried_first_and_taken_if_downwards_is_no_better(judged: Judged) -> None:
    """The relevant document is in the middle, so it is the second either way."""
    scorer = BestFeature().fit(Lesson(judged([[[1.0], [2.0], [3.0]]], [[0, 1, 0]])))

    np.testing.assert_array_equal([1.0], scorer.weights)


@pytest.mark.parametrize(("sign", "word"), [(1.0, "large"), (-1.0, "small")])
def test_the_note_says_which_values_are_good(judged: Judged, sign: float, word: str) -> None:
    queries = judged([[[sign * 3.0], [sign * 1.0], [sign * 2.0]]], [[2, 0, 1]])

    with collected() as notes:
        BestFeature().fit(Lesson(queries))

    assert [f"{word} values of feature 'f1' reach ndcg@10 1.0000 in training"] == [one.text for one in notes]
    assert {"value": 1.0, "feature": 0} == notes[0].figures
    assert (0, sign, 1.0) == best_feature(queries, "map")


def test_the_settings_are_those_that_the_page_lists() -> None:
    assert listed("best_feature") == declared("best_feature")
    assert LEARNERS["best_feature"].continues is False
