"""R-MLR: its optimum over all rankings, which features take part, weights of queries."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.optimize import minimize

from localrank.errors import InvalidConfiguration
from localrank_papers.learners.rmlr import RobustMetric
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import collected
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged

pytestmark = pytest.mark.slow


def hinge(documents: Vector, relevant: np.ndarray, metric: Vector) -> float:
    """Return the structural hinge of one query, the maximum over all of its rankings."""
    scores = -np.einsum("nf,fg,ng->n", documents, metric, documents)
    pairs = [(k, j) for k in np.flatnonzero(relevant) for j in np.flatnonzero(~relevant)]
    worst = 0.0
    for order in permutations(range(len(relevant))):
        place = np.argsort(order)
        hits = relevant[list(order)]
        precision = (np.cumsum(hits) / np.arange(1, len(order) + 1))[hits].mean()
        wrong = sum(2 * (scores[k] - scores[j]) for k, j in pairs if place[k] > place[j])
        worst = max(worst, 1 - precision - wrong / len(pairs))
    return worst


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 3.0]])
def test_the_metric_minimises_the_objective_over_all_rankings(judged: Judged, weights: list[float]) -> None:
    rng = np.random.default_rng(0)
    clouds = [rng.standard_normal((4, 2)) + np.array([1, 0]) for _ in range(2)]
    labels = [[1, 0, 0, 1], [0, 2, 0, 0]]
    queries, share, C = judged(clouds, labels), np.array(weights), 20.0

    with collected() as notes:
        scorer = RobustMetric(C=C, anchor="mean", tolerance=1e-6).fit(Lesson(queries, weights=share))

    share = share / share.sum()
    anchor = sum(
        share[q] * queries.documents_of(q)[queries.labels_of(q) > 0].astype(float).mean(axis=0)
        for q in range(2)
    )
    apart = queries.documents.astype(float) - anchor
    squares = (apart**2).sum(axis=1)
    apart /= np.sqrt(sum(share[q] * squares[queries.span(q)].mean() for q in range(2)))

    def value(entries: Vector) -> float:
        root = np.array([[entries[0], entries[1]], [0.0, entries[2]]])
        metric = root.T @ root
        losses = [hinge(apart[queries.span(q)], queries.labels_of(q) > 0, metric) for q in range(2)]
        return float(np.linalg.norm(metric, axis=1).sum() + C * share @ losses)

    best = min(
        minimize(value, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9}).fun
        for start in ([1.0, 0.0, 1.0], [0.3, -0.3, 0.1], [0.1, 0.5, 1.0])
    )
    figures = notes[-1].figures
    np.testing.assert_allclose(figures["objective"], best, rtol=1e-4)
    assert figures["gap"] <= 1e-5 * best
    assert scorer.blocks == "normalised"


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    """Relevant documents are high in the first feature; nine others are noise."""
    rng = np.random.default_rng(1)
    clouds = [rng.random((25, 10)) for _ in range(8)]
    return judged(clouds, [(cloud[:, 0] > 0.7) * 1 for cloud in clouds])


def test_features_without_use_take_no_part(queries: QuerySet) -> None:
    with collected() as notes:
        scorer = RobustMetric(C=5.0).fit(Lesson(queries))

    used = np.flatnonzero(np.abs(scorer.transforms[0]).max(axis=0))
    assert notes[-1].figures["features"] == len(used) < 5
    assert 0 in used


def test_a_document_scores_the_negative_distance_to_the_anchor(queries: QuerySet) -> None:
    scorer = RobustMetric().fit(Lesson(queries))

    scores = scorer.score_rows(queries.documents)

    nearest = int(scores.argmax())
    assert queries.labels[nearest] == 1
    np.testing.assert_allclose(scores[nearest], 0.0, atol=1e-6)
    assert scores.max() <= 0.0


def test_a_query_of_weight_two_is_that_query_twice(queries: QuerySet) -> None:
    settings = RobustMetric(anchor="mean", tolerance=1e-6)
    few = queries.select([0, 1, 2])

    twice = settings.fit(Lesson(queries.select([0, 1, 1, 2]))).score_rows(queries.documents)

    weighted = settings.fit(Lesson(few, weights=np.array([1.0, 2.0, 1.0]))).score_rows(queries.documents)
    np.testing.assert_allclose(weighted, twice, rtol=1e-2, atol=1e-2)


def test_where_no_feature_is_worth_its_row_the_distance_is_euclidean(queries: QuerySet) -> None:
    with collected() as notes:
        scorer = RobustMetric(C=1e-3, anchor="mean").fit(Lesson(queries))

    assert "C is too small, so documents are ranked by their Euclidean distance" in notes[-1].text
    means = [queries.documents_of(q)[queries.labels_of(q) > 0].astype(float).mean(axis=0) for q in range(8)]
    distances = np.linalg.norm(queries.documents - np.mean(means, axis=0), axis=1)
    np.testing.assert_allclose(np.argsort(scorer.score_rows(queries.documents)), np.argsort(-distances))


def test_documents_are_worked_on_in_portions(queries: QuerySet, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = RobustMetric(anchor="mean", tolerance=1e-4).fit(Lesson(queries)).score_rows(queries.documents)

    monkeypatch.setattr("localrank_papers.learners.rmlr._PORTION", 7)

    portions = RobustMetric(anchor="mean", tolerance=1e-4).fit(Lesson(queries)).score_rows(queries.documents)
    np.testing.assert_allclose(portions, whole, rtol=1e-2, atol=1e-2)


def test_the_same_queries_give_the_same_bits(queries: QuerySet) -> None:
    first, second = (
        RobustMetric(candidates=5).fit(Lesson(queries)).score_rows(queries.documents) for _ in range(2)
    )

    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": 0.0}, "C: expected more than 0, found 0.0"),
        ({"tolerance": 2.0}, "tolerance: expected at most 1, found 2.0"),
        ({"max_cuts": 0}, "max_cuts: expected at least 1, found 0"),
        ({"metric": "ndgc"}, "metric 'ndgc': expected one of map"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make("rmlr", settings)


def test_the_settings_are_those_that_the_page_lists() -> None:
    assert listed("rmlr") == declared("rmlr")
    assert LEARNERS["rmlr"].continues is False
