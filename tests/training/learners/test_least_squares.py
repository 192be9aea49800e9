"""Sums of per-query matrices, against regression on the documents themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from localrank_training.learners.linear import CENTRES, Centre, NormalEquations, PerQueryMatrices

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged

SIZES = (7, 30, 1, 12, 5, 18)
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 3.0, 1.0])


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    rng = np.random.default_rng(0)
    clouds = [rng.standard_normal((n, 4)) + rng.standard_normal(4) for n in SIZES]
    return judged(clouds, [rng.integers(0, 3, n) for n in SIZES])


def by_hand(queries: QuerySet, weights: Vector, ridge: float, centre: Centre) -> Vector:
    """scikit-learn's ridge on the documents, each repeated in its weight's place."""
    documents, gains = queries.documents.astype(float), queries.labels.copy()
    if centre == "query":
        for query in range(len(queries)):
            span = queries.span(query)
            documents[span] -= documents[span].mean(axis=0)
            gains[span] -= gains[span].mean()
    fitted = Ridge(alpha=ridge * weights.sum(), fit_intercept=centre == "all", tol=1e-12)
    return np.asarray(fitted.fit(documents, gains, sample_weight=weights[queries.query_of]).coef_)


@pytest.mark.parametrize("centre", CENTRES)
def test_the_model_equals_ridge_regression(queries: QuerySet, centre: Centre) -> None:
    together = NormalEquations.of(queries, queries.labels, weights=WEIGHTS, centre=centre).solve(0.1)
    summed = PerQueryMatrices.of(queries, queries.labels, centre=centre).solve(0.1, WEIGHTS)

    expected = by_hand(queries, WEIGHTS, 0.1, centre)
    np.testing.assert_allclose(together, expected, atol=1e-9)
    np.testing.assert_allclose(summed, expected, atol=1e-9)


def test_a_query_s_error_is_that_of_its_pairs(queries: QuerySet) -> None:
    """|L(y - Xw)|^2 = (1/n) sum_{i<j} ((y_i - y_j) - w (x_i - x_j))^2, pair by pair."""
    models = np.random.default_rng(1).standard_normal((len(queries), 4))

    errors = PerQueryMatrices.of(queries, queries.labels).errors(models)

    for query, n in enumerate(SIZES):
        residual = queries.labels_of(query) - queries.documents_of(query).astype(float) @ models[query]
        pairs = [(residual[i] - residual[j]) ** 2 for i in range(n) for j in range(i)]
        np.testing.assert_allclose(errors[query], sum(pairs) / n, atol=1e-9)


@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_leaving_a_query_out_by_formula_equals_refitting(
    queries: QuerySet, centre: Centre, weights: Vector | None
) -> None:
    matrices = PerQueryMatrices.of(queries, queries.labels, centre=centre)

    models = matrices.leave_query_out(0.05, weights)

    for query in range(len(queries)):
        others = np.delete(np.arange(len(queries)), query)
        rest = queries.select(others)
        refitted = NormalEquations.of(
            rest, rest.labels, weights=None if weights is None else weights[others], centre=centre
        ).solve(0.05)
        np.testing.assert_allclose(models[query], refitted, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        matrices.leave_query_out(0.05, weights, np.array([4, 1])), models[[4, 1]], rtol=1e-12
    )


def test_leaving_queries_out_in_portions_changes_nothing(
    queries: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrices = PerQueryMatrices.of(queries, queries.labels, centre="all")
    whole = matrices.leave_query_out(0.05)

    monkeypatch.setattr("localrank_training.learners.linear._CELLS", 33)

    np.testing.assert_allclose(matrices.leave_query_out(0.05), whole, rtol=1e-12)


@pytest.mark.parametrize("centre", CENTRES)
def test_adding_up_in_portions_changes_nothing(
    queries: QuerySet, centre: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = NormalEquations.of(queries, queries.labels, weights=WEIGHTS, centre=centre)

    monkeypatch.setattr("localrank_training.learners.linear.BLOCK", 33)
    monkeypatch.setattr("localrank_training.learners.linear.BLOCK", 33)

    portions = NormalEquations.of(queries, queries.labels, weights=WEIGHTS, centre=centre)
    np.testing.assert_allclose(portions.gram, whole.gram, atol=1e-12)
    np.testing.assert_allclose(portions.moment, whole.moment, atol=1e-12)


@pytest.mark.parametrize("centre", CENTRES)
def test_a_neighbourhood_is_the_sum_of_its_members(queries: QuerySet, centre: Centre) -> None:
    """Few positive weights take another way through the sums."""
    weights = np.array([0.0, 1.0, 0.0, 0.0, 0.3, 0.0])

    model = PerQueryMatrices.of(queries, queries.labels, centre=centre).solve(0.1, weights)

    np.testing.assert_allclose(model, by_hand(queries, weights, 0.1, centre), atol=1e-9)


@pytest.mark.parametrize("centre", CENTRES)
def test_many_weightings_at_once_are_each_on_its_own(queries: QuerySet, centre: Centre) -> None:
    matrices = PerQueryMatrices.of(queries, queries.labels, centre=centre)
    weightings = np.random.default_rng(2).random((3, len(queries)))

    many = matrices.total(weightings)

    for number, weights in enumerate(weightings):
        one = matrices.total(weights)
        np.testing.assert_allclose(many.gram[number], one.gram, atol=1e-12)
        np.testing.assert_allclose(many.moment[number], one.moment, atol=1e-12)


def test_a_model_is_pulled_towards_the_one_given(queries: QuerySet) -> None:
    """The gradient of |y - Xw|^2 + ridge |w - w0|^2 vanishes at the model."""
    matrices = PerQueryMatrices.of(queries, queries.labels)
    prior = np.array([1.0, -2.0, 0.5, 3.0])

    model = matrices.solve(0.7, WEIGHTS, towards=prior)

    total = matrices.total(WEIGHTS)
    np.testing.assert_allclose(total.gram @ model - total.moment + 0.7 * (model - prior), 0.0, atol=1e-12)
    np.testing.assert_allclose(matrices.solve(1e9, WEIGHTS, towards=prior), prior, rtol=1e-6)


def test_empty_queries_add_nothing(judged: Judged) -> None:
    rng = np.random.default_rng(4)
    cloud, labels = rng.standard_normal((9, 2)), rng.integers(0, 3, 9)
    nothing = (np.zeros((0, 2)), np.zeros(0))
    holey = judged([nothing[0], cloud, nothing[0]], [nothing[1], labels, nothing[1]])
    weights = np.array([0.0, 1.0, 0.0])

    for centre in CENTRES:
        model = NormalEquations.of(holey, holey.labels, weights=weights, centre=centre).solve(0.1)
        summed = PerQueryMatrices.of(holey, holey.labels, centre=centre).solve(0.1, weights)

        np.testing.assert_allclose(
            model, by_hand(judged([cloud], [labels]), np.ones(1), 0.1, centre), atol=1e-9
        )
        np.testing.assert_allclose(summed, model, atol=1e-12)


@pytest.mark.parametrize("centre", CENTRES)
def test_models_that_leave_a_query_out_are_pulled_towards_the_one_given(
    queries: QuerySet, centre: Centre
) -> None:
    prior = np.array([1.0, -2.0, 0.5, 3.0])

    models = PerQueryMatrices.of(queries, queries.labels, centre=centre).leave_query_out(
        0.7, WEIGHTS, towards=prior
    )

    for query in range(len(queries)):
        others = np.delete(np.arange(len(queries)), query)
        rest = queries.select(others)
        equations = NormalEquations.of(rest, rest.labels, weights=WEIGHTS[others], centre=centre)
        np.testing.assert_allclose(models[query], equations.solve(0.7, prior), rtol=1e-8, atol=1e-10)


def test_a_ridge_is_in_units_of_the_mean_of_the_diagonal() -> None:
    equations = NormalEquations(np.array([[1.0, 5.0, 5.0], [5.0, 2.0, 5.0], [5.0, 5.0, 6.0]]), np.zeros(3))

    assert 1.5 == equations.ridge(0.5)


def test_a_quarter_of_many_queries_is_read_alone_and_one_by_one_they_add_up(queries: QuerySet) -> None:
    """Twice as few, exactly half and all of the queries: the sums are the same whichever are read."""
    for centre in CENTRES:
        matrices = PerQueryMatrices.of(queries, queries.labels, centre=centre)
        for weights in ([1.0, 0, 0, 2, 0, 0], [1.0, 0, 0, 2, 3, 0], [1.0, 4, 0, 2, 3, 5], [1.0] * 6):
            np.testing.assert_allclose(
                matrices.solve(0.1, np.array(weights)),
                by_hand(queries, np.array(weights), 0.1, centre),
                atol=1e-9,
            )
        np.testing.assert_allclose(matrices.solve(0.1), by_hand(queries, np.ones(6), 0.1, centre), atol=1e-9)
        assert 6 == len(matrices)
