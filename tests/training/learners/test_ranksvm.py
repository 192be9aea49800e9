from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize, minimize_scalar
from sklearn.svm import LinearSVC

from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank.scorers import LinearScorer
from localrank_training.data.reading import read
from localrank_training.learners import ranksvm
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import collected
from localrank_training.learners.ranksvm import Objective, RankSvm
from localrank_training.learners.role import Learner
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet

    from .conftest import MakeQueries


@dataclass
class ExplicitPairs:
    """The objective of RankSVM with every pair made: one row of differences and one factor each."""

    differences: Vector
    factors: Vector
    towards: Vector

    @classmethod
    def of(
        cls,
        queries: QuerySet,
        *,
        C: float,
        balance: float,
        total: Literal["mean", "sum"],
        weights: Vector | None = None,
        towards: Vector | None = None,
    ) -> ExplicitPairs:
        query_weights = np.ones(len(queries)) if weights is None else weights
        differences, factors = [], []
        for query in range(len(queries)):
            documents = queries.documents_of(query).astype(np.float64)
            labels = queries.labels_of(query)
            better, worse = np.nonzero(labels[:, None] > labels[None, :])
            if not len(better):
                continue
            differences.append(documents[better] - documents[worse])
            factors.append(np.full(len(better), query_weights[query] / len(better) ** balance))
        joined = np.concatenate(factors)
        factors_of_all = C * (joined / joined.sum() if total == "mean" else joined)
        start = np.zeros(queries.n_features) if towards is None else towards
        return cls(np.concatenate(differences), factors_of_all, start)

    def value(self, weights: Vector) -> float:
        short = np.maximum(0.0, 1.0 - self.differences @ weights)
        apart = weights - self.towards
        return float(0.5 * apart @ apart + self.factors @ short**2)

    def gradient(self, weights: Vector) -> Vector:
        short = np.maximum(0.0, 1.0 - self.differences @ weights)
        return np.asarray(weights - self.towards - 2.0 * (self.factors * short) @ self.differences)

    def optimum(self) -> Vector:
        found = minimize(
            self.value,
            np.zeros(self.differences.shape[1]),
            jac=self.gradient,
            method="BFGS",
            options={"gtol": 1e-11},
        )
        return np.asarray(found.x)


LEVELS = pytest.mark.parametrize(
    "levels", [2, 3, 5, 9, None], ids=lambda levels: f"{levels or 'real'} levels"
)
SHARES = pytest.mark.parametrize(
    ("balance", "total"), [(0.0, "mean"), (0.5, "mean"), (1.0, "mean"), (0.0, "sum")]
)


def test_ranksvm_is_a_learner() -> None:
    assert isinstance(RankSvm(), Learner)


@LEVELS
@SHARES
def test_objective_and_gradient_equal_those_of_explicit_pairs(
    make_queries: MakeQueries, levels: int | None, balance: float, total: Literal["mean", "sum"]
) -> None:
    queries = make_queries(12, 5, levels)
    rng = np.random.default_rng(1)
    weights, towards = rng.random(12), rng.standard_normal(5)
    at = 0.3 * rng.standard_normal(5)
    explicit = ExplicitPairs.of(
        queries, C=3.0, balance=balance, total=total, weights=weights, towards=towards
    )

    objective = Objective.of(Lesson(queries, weights), C=3.0, balance=balance, total=total, towards=towards)

    np.testing.assert_allclose(objective.value(at), explicit.value(at), rtol=1e-12)
    np.testing.assert_allclose(objective.gradient(at), explicit.gradient(at), rtol=1e-10)


def test_gradient_is_the_derivative_of_the_objective(make_queries: MakeQueries) -> None:
    objective = Objective.of(Lesson(make_queries(8, 4, 5)), C=10.0)
    at = np.array([0.3, -0.2, 0.5, 0.1])

    np.testing.assert_allclose(
        objective.gradient(at), approx_fprime(at, objective.value, 1e-7), rtol=1e-5, atol=1e-5
    )


@LEVELS
@SHARES
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3])
def test_optimum_is_that_of_explicit_pairs(
    make_queries: MakeQueries, levels: int | None, balance: float, total: Literal["mean", "sum"], C: float
) -> None:
    queries = make_queries(15, 6, levels, seed=2)

    learned = RankSvm(C=C, balance=balance, total=total).fit(Lesson(queries))

    expected = ExplicitPairs.of(queries, C=C, balance=balance, total=total).optimum()
    assert np.linalg.norm(learned.weights - expected) <= 1e-6 * np.linalg.norm(expected)


def test_optimum_is_that_of_a_linear_svm_on_differences(make_queries: MakeQueries) -> None:
    """scikit-learn's squared hinge on every difference and its negative, without intercept: twice the loss."""
    queries = make_queries(10, 4, 3, seed=3)
    differences = ExplicitPairs.of(queries, C=1.0, balance=0.0, total="sum").differences
    svm = LinearSVC(C=0.05, loss="squared_hinge", fit_intercept=False, tol=1e-10, max_iter=100_000)
    svm.fit(np.concatenate([differences, -differences]), np.repeat([1, -1], len(differences)))

    learned = RankSvm(C=0.1, balance=0.0, total="sum").fit(Lesson(queries))

    np.testing.assert_allclose(learned.weights, svm.coef_[0], rtol=1e-6)


@pytest.mark.parametrize("n_features", [6, 40])
def test_optimum_does_not_depend_on_how_the_hessian_is_approximated(
    make_queries: MakeQueries, monkeypatch: pytest.MonkeyPatch, n_features: int
) -> None:
    queries = make_queries(60, n_features, 5, seed=4)
    whole = RankSvm(C=100.0).fit(Lesson(queries))

    monkeypatch.setattr(ranksvm, "_BLOCK", queries.documents.size // 5)
    monkeypatch.setattr(ranksvm, "_SAMPLED", queries.n_docs // 5)
    monkeypatch.setattr(ranksvm, "_SAMPLED_PER_FEATURE", 1)
    sampled = RankSvm(C=100.0).fit(Lesson(queries))
    monkeypatch.setattr(ranksvm, "_DENSE_FEATURES", 1)
    diagonal = RankSvm(C=100.0).fit(Lesson(queries))

    np.testing.assert_allclose(sampled.weights, whole.weights, rtol=1e-5)
    np.testing.assert_allclose(diagonal.weights, whole.weights, rtol=1e-5)


def test_weight_two_is_a_query_there_twice(make_queries: MakeQueries) -> None:
    queries = make_queries(10, 4, 3, seed=5)
    weights = np.array([2.0] * 5 + [1.0] * 5)
    doubled = queries.select([*range(10), *range(5)])

    weighted, repeated = RankSvm().fit(Lesson(queries, weights=weights)), RankSvm().fit(Lesson(doubled))

    np.testing.assert_allclose(weighted.weights, repeated.weights, rtol=1e-9)


def test_c_means_the_same_however_many_queries_there_are(make_queries: MakeQueries) -> None:
    queries = make_queries(6, 4, 3, seed=7)
    many = queries.select([*range(6)] * 20)

    few_weights, many_weights = RankSvm().fit(Lesson(queries)).weights, RankSvm().fit(Lesson(many)).weights

    np.testing.assert_allclose(few_weights, many_weights, rtol=1e-6)


def test_queries_without_pairs_change_nothing(make_queries: MakeQueries) -> None:
    queries = make_queries(10, 4, 3, seed=8)
    labels = queries.labels.copy()
    for query in (3, 7):
        labels[queries.span(query)] = 1.0
    flat = replace(queries, labels=labels)

    learned = RankSvm().fit(Lesson(flat))

    expected = RankSvm().fit(Lesson(queries.select([q for q in range(10) if q not in {3, 7}])))
    np.testing.assert_array_equal(learned.weights, expected.weights)


@pytest.mark.parametrize("start", [np.full(6, 100.0), np.zeros(6)])
def test_optimum_does_not_depend_on_the_start(make_queries: MakeQueries, start: Vector) -> None:
    queries = make_queries(15, 6, 3, seed=9)

    learned = RankSvm().fit(Lesson(queries, start=LinearScorer(start)))

    np.testing.assert_allclose(learned.weights, RankSvm().fit(Lesson(queries)).weights, rtol=1e-6)


def test_start_near_the_optimum_saves_steps(make_queries: MakeQueries) -> None:
    queries = make_queries(40, 8, 5, seed=10)
    near = Objective.of(Lesson(queries), C=10.0).minimise(np.zeros(8), tolerance=1e-7, iterations=100)
    objective = Objective.of(Lesson(queries), C=12.0)

    cold = objective.minimise(np.zeros(8), tolerance=1e-7, iterations=100)
    warm = objective.minimise(near.weights, tolerance=1e-7, iterations=100)

    assert warm.iterations < cold.iterations


def test_a_fit_begins_where_it_is_told(make_queries: MakeQueries) -> None:
    queries = make_queries(15, 6, 3, seed=11)
    optimum = RankSvm().fit(Lesson(queries))

    with collected() as cold:
        RankSvm(iterations=1).fit(Lesson(queries))
    with collected() as warm:
        RankSvm(iterations=1).fit(Lesson(queries, start=optimum))

    assert (1, 0) == (len(cold), len(warm))


def test_hessian_products_are_differences_of_gradients(make_queries: MakeQueries) -> None:
    objective = Objective.of(Lesson(make_queries(30, 5, 4, seed=14)), C=10.0)
    at, along = np.full(5, 0.2), np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    active = objective.pairs.at(objective.documents @ at)

    found = objective._hessian_product(active)(along)

    expected = (objective.gradient(at + 1e-7 * along) - objective.gradient(at - 1e-7 * along)) / 2e-7
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("share", [1, 4])
def test_dividing_by_the_samples_hessian_undoes_the_product(
    make_queries: MakeQueries, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    """Of queries that are there four times, every fourth has the Hessian of all."""
    queries = make_queries(20, 5, 4, seed=15)
    queries = queries.select(np.repeat(np.arange(20), 4))
    objective = Objective.of(Lesson(queries), C=10.0)
    scores = objective.documents @ np.full(5, 0.2)
    monkeypatch.setattr(ranksvm, "_SAMPLED", queries.n_docs // share)
    monkeypatch.setattr(ranksvm, "_SAMPLED_PER_FEATURE", 1)

    sample = ranksvm._Sample.of(objective.documents, objective.labels, objective.offsets, objective.pairs)

    vector = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    product = objective._hessian_product(objective.pairs.at(scores))
    np.testing.assert_allclose(product(sample.preconditioner(scores)(vector)), vector, rtol=1e-8, atol=1e-9)
    assert len(sample.rows) == objective.documents.shape[0] // share


def test_the_line_search_finds_the_least_value_on_the_line(make_queries: MakeQueries) -> None:
    objective = Objective.of(Lesson(make_queries(30, 5, 4, seed=16)), C=10.0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        at, scale = rng.standard_normal(5), 10 ** rng.uniform(-2, 2)
        direction = -scale * objective.gradient(at) * rng.uniform(0.1, 1.0, 5)
        scores, along = objective.documents @ at, objective.documents @ direction

        step, active = objective._search_line(at, scores, direction, along)

        def value(step: float, at: Vector = at, direction: Vector = direction) -> float:
            return objective.value(at + step * direction)

        least = minimize_scalar(value, bracket=(0.0, step), options={"xtol": 1e-10}).fun
        assert value(step) - least <= 1e-5 * (value(0.0) - least)
        np.testing.assert_allclose(active.scores, scores + step * along)


def test_few_steps_are_needed_however_hard_the_problem(make_queries: MakeQueries) -> None:
    queries = make_queries(60, 20, 5, seed=17)
    uneven = queries.with_documents(queries.documents * np.logspace(0, -3, 20, dtype=np.float32))

    solution = Objective.of(Lesson(uneven), C=1e6).minimise(np.zeros(20), tolerance=1e-7, iterations=100)

    assert solution.converged
    assert solution.iterations <= 12


def test_a_fit_that_stops_before_its_optimum_notes_it(make_queries: MakeQueries) -> None:
    queries = make_queries(15, 6, 3, seed=11)
    with collected() as notes:
        RankSvm().fit(Lesson(queries))
        RankSvm(iterations=1).fit(Lesson(queries))

    (stopped,) = notes
    assert stopped.text.startswith("stopped after 1 Newton steps; the weights are up to ")
    assert stopped.figures["distance"] > 1e-7


def test_the_noted_distance_bounds_the_real_one(make_queries: MakeQueries) -> None:
    queries = make_queries(15, 6, 3, seed=11)
    optimum = RankSvm(tolerance=1e-10).fit(Lesson(queries)).weights
    objective = Objective.of(Lesson(queries), C=10.0)

    for iterations in range(4):
        stopped = objective.minimise(np.full(6, 3.0), tolerance=1e-12, iterations=iterations)

        scale = max(
            np.linalg.norm(stopped.weights),
            np.linalg.norm(objective.gradient(stopped.weights) - stopped.weights),
        )
        assert np.linalg.norm(stopped.weights - optimum) <= stopped.distance * scale * (1 + 1e-9)


def test_extreme_scores_do_not_break_the_descent(make_queries: MakeQueries) -> None:
    queries = make_queries(15, 3, 3, seed=13)
    wild = queries.with_documents(queries.documents * np.array([1e6, 1.0, 1e-6], np.float32))

    learned = RankSvm(C=1e4).fit(Lesson(wild))

    explicit = ExplicitPairs.of(wild, C=1e4, balance=0.5, total="mean")
    assert explicit.value(learned.weights) <= explicit.value(explicit.optimum()) * (1 + 1e-9)


def test_labels_without_any_pair_are_refused(make_queries: MakeQueries) -> None:
    queries = make_queries(5, 3, 2)

    with pytest.raises(
        InvalidData, match="expected two documents of one query with different labels, found none"
    ):
        RankSvm().fit(Lesson(replace(queries, labels=np.ones(queries.n_docs))))


def test_missing_values_are_refused(make_queries: MakeQueries) -> None:
    queries = make_queries(5, 3, 2)
    queries.documents[2, 1] = np.nan

    with pytest.raises(InvalidData, match="feature 'f2': expected a finite value, found nan"):
        RankSvm().fit(Lesson(queries))


def test_documents_alike_in_everything_are_refused(make_queries: MakeQueries) -> None:
    queries = make_queries(5, 3, 3, seed=12)

    with pytest.raises(InvalidData, match="expected two documents of one query with different features"):
        RankSvm().fit(Lesson(queries.with_documents(np.ones_like(queries.documents))))


@pytest.mark.parametrize(
    ("weights", "message"),
    [(np.ones(4), r"one per query \(5\), found shape \(4,\)"), (-np.ones(5), "none negative")],
)
def test_weights_that_fit_no_queries_are_refused(
    make_queries: MakeQueries, weights: Vector, message: str
) -> None:
    with pytest.raises(InvalidData, match=message):
        RankSvm().fit(Lesson(make_queries(5, 3, 2), weights=weights))


@pytest.mark.realdata
@pytest.mark.parametrize(("name", "least_map"), [("OHSUMED", 0.4469), ("MQ2008", 0.4704)])
def test_ranksvm_tuned_on_validation_queries_is_as_good_as_a_plain_one_was(
    name: str, least_map: float, real_data: Path
) -> None:
    """A RankSVM on explicit pairs, C chosen by validation MAP, had these means of the official folds' MAP."""
    folder = real_data / name
    tests = []
    for fold in range(5):
        paths = [folder / f"S{(fold + i) % 5 + 1}.txt.gz" for i in range(5)]
        lesson, *exams = read(paths[:3]), read(paths[3:4]), read(paths[4:])
        best, start = (-1.0, -1.0), None
        for C in 10.0 ** np.arange(0.0, 3.1, 0.5):
            start = RankSvm(C=C).fit(Lesson(lesson, start=start))
            held, test = (mean_average_precision(queries, start) for queries in exams)
            best = max(best, (held, test))
        tests.append(best[1])

    assert np.mean(tests) > least_map - 0.002


def mean_average_precision(queries: QuerySet, scorer: LinearScorer) -> float:
    scores = scorer.score_rows(queries.documents)
    return float(Judgements(queries.labels, queries.offsets).per_query(scores, "map").mean())


def test_the_settings_are_those_that_the_page_lists() -> None:
    assert listed("ranksvm") == declared("ranksvm")
    assert LEARNERS["ranksvm"].continues is True
