"""The learner around the closed form: gains, the choice of the ridge, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from localrank.errors import InvalidConfiguration, InvalidData
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.linear import (
    CENTRES,
    RIDGES,
    Centre,
    LeastSquares,
    NormalEquations,
    choose_ridge,
)
from localrank_training.learners.notes import collected
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    rng = np.random.default_rng(0)
    clouds = [rng.standard_normal((n, 4)) for n in (9, 30, 7, 21, 16)]
    return judged(
        clouds, [np.clip(np.round(cloud[:, 0] + rng.standard_normal(len(cloud))), 0, 3) for cloud in clouds]
    )


def test_a_small_ridge_with_an_intercept_is_least_squares_regression(queries: QuerySet) -> None:
    scorer = LeastSquares(ridge=1e-9, centre="all").fit(Lesson(queries))

    plain = LinearRegression().fit(queries.documents.astype(float), queries.labels)
    np.testing.assert_allclose(scorer.weights, plain.coef_, rtol=1e-6)


def test_exponential_gains_are_those_of_ndcg(queries: QuerySet) -> None:
    scorer = LeastSquares(ridge=1e-9, centre="all", gain="exponential").fit(Lesson(queries))

    plain = LinearRegression().fit(queries.documents.astype(float), 2**queries.labels - 1)
    np.testing.assert_allclose(scorer.weights, plain.coef_, rtol=1e-6)


def test_balanced_queries_count_the_same_whatever_their_length_and_gains(queries: QuerySet) -> None:
    """Query 0 ten times over, and with labels ten times as large, teaches what it taught before."""
    once = np.arange(len(queries))
    documents = [queries.documents_of(0)] * 10 + [queries.documents_of(query) for query in once[1:]]
    labels = [10 * queries.labels_of(0)] * 10 + [queries.labels_of(query) for query in once[1:]]
    lengths = [10 * queries.lengths[0], *queries.lengths[1:]]
    longer = replace(
        queries,
        documents=np.concatenate(documents),
        labels=np.concatenate(labels),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    )
    learner = LeastSquares(ridge=0.1, balance="queries")

    np.testing.assert_allclose(
        learner.fit(Lesson(longer)).weights, learner.fit(Lesson(queries)).weights, rtol=1e-6
    )
    unbalanced = LeastSquares(ridge=0.1)
    assert not np.allclose(
        unbalanced.fit(Lesson(longer)).weights, unbalanced.fit(Lesson(queries)).weights, rtol=1e-2
    )


def test_scaling_all_features_changes_no_order(queries: QuerySet) -> None:
    scaled = queries.with_documents(queries.documents * np.float32(64.0))

    np.testing.assert_allclose(
        LeastSquares(ridge=0.5).fit(Lesson(scaled)).weights * 64,
        LeastSquares(ridge=0.5).fit(Lesson(queries)).weights,
    )


@pytest.mark.parametrize("centre", CENTRES)
def test_the_ridge_is_the_one_with_least_error_on_refitted_models(queries: QuerySet, centre: Centre) -> None:
    weights = np.array([1.0, 2.0, 0.5, 0.0, 1.0])

    with collected() as notes:
        LeastSquares(centre=centre).fit(Lesson(queries, weights=weights))

    whole = NormalEquations.of(queries, queries.labels, weights=weights, centre=centre)
    errors = []
    for relative in RIDGES:
        total = 0.0
        for query in range(5):
            others = np.delete(np.arange(5), query)
            rest = queries.select(others)
            left = NormalEquations.of(rest, rest.labels, weights=weights[others], centre=centre)
            w = left.solve(whole.ridge(relative))
            residual = queries.labels_of(query) - queries.documents_of(query) @ w
            total += weights[query] * float(((residual - residual.mean()) ** 2).sum())
        errors.append(total)
    assert notes[0].figures["ridge"] == RIDGES[int(np.argmin(errors))]
    assert 0 < int(np.argmin(errors)) < len(RIDGES) - 1


def test_one_query_alone_has_a_usable_scorer_and_says_so(queries: QuerySet) -> None:
    with collected() as notes:
        scorer = LeastSquares().fit(Lesson(queries.select([1])))

    np.testing.assert_array_equal(
        scorer.weights, LeastSquares(ridge=0.3).fit(Lesson(queries.select([1]))).weights
    )
    assert "there is only one query" in notes[0].text


def test_more_features_than_documents_and_constant_features_are_no_matter(judged: Judged) -> None:
    wide = judged([np.hstack([np.eye(3), np.ones((3, 20))])] * 2, [[0, 1, 2]] * 2)

    weights = LeastSquares().fit(Lesson(wide)).weights

    np.testing.assert_allclose(weights[3:], 0.0, atol=1e-12)
    assert weights[0] < weights[1] < weights[2]


@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize(
    ("documents", "labels", "message"),
    [
        (
            np.eye(3),
            [1, 1, 1],
            "linear: expected two documents of one query with different labels, found none",
        ),
        (
            np.ones((1, 2)),
            [1],
            "linear: expected two documents of one query with different labels, found none",
        ),
        (
            np.full((3, 2), 0.1),
            [0, 1, 2],
            "different features, found none in 2 queries with different labels",
        ),
    ],
)
def test_what_teaches_nothing_is_refused(
    judged: Judged, documents: np.ndarray, labels: list[int], message: str, centre: Centre
) -> None:
    with pytest.raises(InvalidData, match=message):
        LeastSquares(centre=centre).fit(Lesson(judged([documents, documents * 2], [labels, labels])))


def test_missing_values_are_refused_by_name(queries: QuerySet) -> None:
    broken = queries.documents.copy()
    broken[0, 1] = np.nan
    with pytest.raises(
        InvalidData, match="linear: query '0', feature 'f2': expected a finite value, found nan"
    ):
        LeastSquares().fit(Lesson(queries.with_documents(broken)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ridge": 0.0}, "learner 'linear': ridge: expected more than 0"),
        ({"ridge": "some"}, "ridge: expected a number or 'auto', found 'some'"),
        ({"centre": "none"}, "centre: expected one of 'query', 'all', found 'none'"),
        ({"gains": "label"}, "unknown setting 'gains'; did you mean 'gain'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make("linear", settings)


def test_gains_and_counts_of_balanced_queries(judged: Judged) -> None:
    """Gains vary by one standard deviation, but those that do not vary stay; a query counts one over its length."""
    queries = judged([np.ones((2, 1)), np.ones((4, 1))], [[0, 4], [3, 3, 3, 3]])
    balanced, plain = LeastSquares(balance="queries"), LeastSquares()

    assert [0, 2, 3, 3, 3, 3] == balanced.gains(queries).tolist()
    assert [0, 4, 3, 3, 3, 3] == plain.gains(queries).tolist()
    assert [1 / 2, 1 / 4] == balanced.counts(queries).tolist()
    assert [1.0, 1.0] == plain.counts(queries).tolist()
    # A query without documents divides nothing by zero.
    assert [1 / 2, 1.0] == balanced.counts(judged([np.ones((2, 1)), np.zeros((0, 1))], [[0, 4], []])).tolist()
    assert [0, 2] == balanced.gains(judged([np.ones((2, 1)), np.zeros((0, 1))], [[0, 4], []])).tolist()
    exponential = LeastSquares(gain="exponential").gains(queries)
    assert [0, 15, 7, 7, 7, 7] == exponential.tolist()


@pytest.mark.parametrize("enough", [2, 3, 4])
def test_of_many_queries_the_ridge_is_chosen_by_some_from_the_first_to_the_last(
    queries: QuerySet, monkeypatch: pytest.MonkeyPatch, enough: int
) -> None:
    """Evenly spaced among those that count: 0, 1, 2, 4 here; of two the ends, of three the second, too."""
    weights = np.array([1.0, 2.0, 0.5, 0.0, 1.0])
    monkeypatch.setattr("localrank_training.learners.linear._ENOUGH", enough)
    chosen = {2: [0, 4], 3: [0, 1, 4], 4: [0, 1, 2, 4]}[enough]
    equations = NormalEquations.of(queries, queries.labels, weights=weights)

    with collected() as notes:
        found = choose_ridge(queries, queries.labels, equations, weights, centre="query")

    some = queries.select(chosen)
    expected = choose_ridge(some, some.labels, equations, weights[chosen], centre="query")
    assert expected == found == notes[0].figures["ridge"]
    assert notes[0].text == (
        f"ridge {found:g} has the least error on {enough} queries, each held out in turn"
    )


def test_two_queries_are_enough_to_choose_by(queries: QuerySet) -> None:
    with collected() as notes:
        LeastSquares().fit(Lesson(queries.select([0, 1])))
        LeastSquares().fit(Lesson(queries, weights=np.array([0, 1.0, 0, 0, 0])))

    assert "on 2 queries, each held out in turn" in notes[0].text
    assert ("there is only one query" in notes[1].text, 0.3) == (True, notes[1].figures["ridge"])


def test_the_settings_are_those_that_the_page_lists() -> None:
    assert listed("linear") == declared("linear")
    assert LEARNERS["linear"].continues is True
