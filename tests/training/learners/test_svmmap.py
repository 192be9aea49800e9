"""SVMmap: the optimum, the weights of queries, and what it refuses."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.metrics import Judgements
from localrank.scorers import LinearScorer
from localrank.settings import checked
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import collected
from localrank_training.learners.role import Learner
from localrank_training.learners.svmmap import SvmMap
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    rng = np.random.default_rng(0)
    clouds = [rng.standard_normal((n, 4)) for n in (12, 30, 7, 21, 16)]
    return judged(clouds, [(cloud[:, 0] + rng.standard_normal(len(cloud)) > 0.5) * 2 for cloud in clouds])


def objective(queries: QuerySet, w: np.ndarray, C: float, weights: np.ndarray) -> float:
    """The objective of Yue et al. (2007), the loss of each query by a search of all rankings."""
    total = 0.0
    for query in range(len(queries)):
        documents, relevant = queries.documents_of(query).astype(float), queries.labels_of(query) >= 1
        total += weights[query] * max(
            loss - w @ direction for loss, direction in constraints(documents, relevant)
        )
    return float(0.5 * (w @ w) + C * total / weights.sum())


def constraints(documents: np.ndarray, relevant: np.ndarray) -> list[tuple[float, np.ndarray]]:
    found = []
    pairs = [(k, j) for k in np.flatnonzero(relevant) for j in np.flatnonzero(~relevant)]
    for order in permutations(range(len(relevant))):
        place = np.argsort(order)
        hits = np.cumsum(relevant[list(order)])
        precisions = (hits / np.arange(1, len(order) + 1))[relevant[list(order)]]
        direction = sum(
            (2 * (documents[k] - documents[j]) for k, j in pairs if place[k] > place[j]), np.zeros(2)
        )
        found.append((1 - precisions.mean(), direction / len(pairs)))
    return found


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [1.0, 3.0, 0.0]])
def test_the_weights_solve_the_structural_svm_over_all_rankings(judged: Judged, weights: list[float]) -> None:
    rng = np.random.default_rng(1)
    clouds = [rng.standard_normal((4, 2)) for _ in range(3)]
    labels = [[1, 0, 0, 1], [0, 2, 0, 0], [1, 1, 0, 0]]
    small, share, C = judged(clouds, labels), np.array(weights), 3.0

    scorer = SvmMap(C=C, tolerance=1e-9).fit(Lesson(small, weights=share))

    rows = []
    for query, cloud in enumerate(clouds):
        for loss, direction in constraints(
            cloud.astype(np.float32).astype(float), np.array(labels[query]) >= 1
        ):
            rows.append([*direction, *np.eye(3)[query], loss])
    table = np.array(rows)
    reference = minimize(
        lambda z: 0.5 * z[:2] @ z[:2] + C * share @ z[2:] / share.sum(),
        np.array([0.0, 0.0, 2.0, 2.0, 2.0]),
        bounds=[(None, None)] * 2 + [(0, 5)] * 3,
        constraints=LinearConstraint(table[:, :-1], table[:, -1], np.inf),
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    np.testing.assert_allclose(objective(small, scorer.weights, C, share), reference.fun, rtol=1e-6)
    np.testing.assert_allclose(scorer.weights, reference.x[:2], atol=1e-3)


def test_the_gap_is_noted_and_small(queries: QuerySet) -> None:
    with collected() as notes:
        SvmMap(C=10.0).fit(Lesson(queries))

    (said,) = notes
    assert said.method == "svmmap"
    assert 0 <= said.figures["gap"] <= 1e-4 * said.figures["objective"]
    assert f"{said.figures['cuts']} cuts" in said.text


def test_a_query_of_weight_two_is_that_query_twice(queries: QuerySet) -> None:
    twice = SvmMap(tolerance=1e-8).fit(Lesson(queries.select([0, 1, 1, 2, 3, 4])))

    weighted = SvmMap(tolerance=1e-8).fit(Lesson(queries, weights=np.array([1.0, 2.0, 1.0, 1.0, 1.0])))

    np.testing.assert_allclose(weighted.weights, twice.weights, atol=1e-3)


def test_a_query_of_weight_zero_is_not_there(queries: QuerySet) -> None:
    without = SvmMap(tolerance=1e-8).fit(Lesson(queries.select([0, 1, 3, 4])))

    weighted = SvmMap(tolerance=1e-8).fit(Lesson(queries, weights=np.array([1.0, 1.0, 0.0, 1.0, 1.0])))

    np.testing.assert_allclose(weighted.weights, without.weights, atol=1e-3)


def test_a_start_does_not_change_the_optimum(queries: QuerySet) -> None:
    cold = SvmMap(tolerance=1e-8).fit(Lesson(queries))

    warm = SvmMap(tolerance=1e-8).fit(Lesson(queries, start=LinearScorer(np.array([-5.0, 3.0, 0.0, 1.0]))))

    np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-3)


def test_a_start_of_another_kind_is_ignored(queries: QuerySet) -> None:
    cold = SvmMap().fit(Lesson(queries))

    other = SvmMap().fit(Lesson(queries, start=LinearScorer(np.ones(9))))

    np.testing.assert_array_equal(other.weights, cold.weights)


def test_documents_in_portions_give_the_same_optimum(
    queries: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SvmMap(tolerance=1e-8).fit(Lesson(queries))

    monkeypatch.setattr("localrank_training.learners.linear.BLOCK", 50)

    np.testing.assert_allclose(SvmMap(tolerance=1e-8).fit(Lesson(queries)).weights, whole.weights, atol=1e-3)


def test_the_same_queries_give_the_same_bits(queries: QuerySet) -> None:
    np.testing.assert_array_equal(
        SvmMap().fit(Lesson(queries)).weights, SvmMap().fit(Lesson(queries)).weights
    )


def test_a_separable_query_is_ranked_perfectly(judged: Judged) -> None:
    separable = judged([[[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]]], [[0, 0, 1, 1]])

    scores = SvmMap(C=100.0).fit(Lesson(separable)).score_rows(separable.documents)

    assert scores[:2].max() < scores[2:].min()


def test_fewer_documents_than_features_and_constant_features_are_no_matter(judged: Judged) -> None:
    wide = judged([np.hstack([np.eye(3), np.ones((3, 20))])], [[0, 1, 2]])

    weights = SvmMap().fit(Lesson(wide)).weights

    np.testing.assert_allclose(weights[3:], 0.0, atol=1e-12)
    assert weights[1] > weights[0]


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_features_of_any_size_are_learned_from(queries: QuerySet, scale: float) -> None:
    """As C = 3 scale^2 with features of size one: from hardly any to hardly limited weights.

    Weights of 1e-6 are sums of features of 1e6 that nearly cancel, so what is proven ends where double precision does.
    """
    scaled = queries.with_documents(queries.documents * np.float32(scale))
    longest = float(np.linalg.norm(scaled.documents, axis=1).max())
    rounding = SvmMap().C * np.finfo(float).eps * longest**2

    with collected() as notes:
        scores = SvmMap().fit(Lesson(scaled)).score_rows(scaled.documents)

    assert notes[0].figures["gap"] <= 1e-4 * notes[0].figures["objective"] + rounding
    assert Judgements(queries.labels, queries.offsets).per_query(scores, "map").mean() > 0.6


@pytest.mark.parametrize("C", [0.1, 3.0, 1000.0])
def test_features_that_differ_only_where_nothing_is_learned_have_no_weight(judged: Judged, C: float) -> None:
    """The directions of the cuts are sums of 0.1 and -0.1 that cancel but for rounding."""
    alike = np.full((7, 2), 0.1)
    queries = judged([alike, alike[:5], np.eye(2)], [[0, 1, 0, 1, 0, 1, 0], [1, 0, 0, 1, 1], [1, 2]])

    scorer = SvmMap(C=C).fit(Lesson(queries))

    np.testing.assert_allclose(scorer.weights, 0.0, rtol=0, atol=1e-12)


def test_documents_that_are_all_alike_teach_nothing(judged: Judged) -> None:
    with pytest.raises(
        InvalidData, match="svmmap: expected two documents of one query with different features"
    ):
        SvmMap().fit(Lesson(judged([np.ones((3, 2))], [[0, 1, 0]])))


def test_relevance_begins_at_the_setting(judged: Judged) -> None:
    graded = judged([[[1.0], [0.0], [-1.0]]] * 2, [[0, 1, 2]] * 2)

    assert SvmMap(relevant=2.0).fit(Lesson(graded)).weights[0] < 0
    with pytest.raises(
        InvalidData, match=r"below and from label 3 on, found none \(labels 0 to 2, 2 queries\)"
    ):
        SvmMap(relevant=3.0).fit(Lesson(graded))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 0, 0], "svmmap: expected two documents of one query with different labels"),
        ([1, 1, 2], "svmmap: expected a query with documents below and from label 1"),
    ],
)
def test_queries_without_two_sides_teach_nothing(judged: Judged, labels: list[int], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        SvmMap().fit(Lesson(judged([np.eye(3)], [labels])))


def test_queries_without_two_sides_are_left_out_and_counted(queries: QuerySet, judged: Judged) -> None:
    one_sided = judged(
        [*queries.clouds(), np.ones((3, 4))], [*(queries.labels_of(q) for q in range(5)), np.zeros(3)]
    )

    with collected() as notes:
        scorer = SvmMap().fit(Lesson(one_sided))

    np.testing.assert_array_equal(scorer.weights, SvmMap().fit(Lesson(queries)).weights)
    assert notes[0].figures["queries_left_out"] == 1
    assert "1 of 6 queries have nothing to learn from" in notes[0].text


def test_what_is_not_finite_is_refused_by_name(queries: QuerySet) -> None:
    broken = queries.documents.copy()
    broken[13, 2] = np.nan
    with pytest.raises(
        InvalidData, match="svmmap: query '1', feature 'f3': expected a finite value, found nan"
    ):
        SvmMap().fit(Lesson(queries.with_documents(broken)))


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, -1.0, 1.0, 1.0, 1.0], [0.0] * 5, [np.inf, 1.0, 1.0, 1.0, 1.0]]
)
def test_weights_that_are_none_are_refused(queries: QuerySet, weights: list[float]) -> None:
    with pytest.raises(InvalidData, match="weights: expected"):
        SvmMap().fit(Lesson(queries, weights=np.array(weights)))


def test_settings_are_checked() -> None:
    assert checked(SvmMap, {"C": 3, "relevant": 2}, "[learner]") == SvmMap(C=3.0, relevant=2.0)
    assert isinstance(SvmMap(), Learner)
    with pytest.raises(InvalidConfiguration, match=r"\[learner\]: C: expected more than 0.0, found -1"):
        checked(SvmMap, {"C": -1}, "[learner]")
    with pytest.raises(InvalidConfiguration, match="did you mean 'tolerance'"):
        checked(SvmMap, {"tolerence": 0.1}, "[learner]")


def test_the_settings_are_those_that_the_page_lists() -> None:
    assert listed("svmmap") == declared("svmmap")
    assert LEARNERS["svmmap"].continues is True
