"""Directions of features: more of one never lowers a score, or never raises it, whatever the labels say.

The labels rise with ``price``, and the rule says that a larger price may never raise a score. So a learner that does not keep the
rule breaks it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize

from localrank.errors import InvalidConfiguration
from localrank.features.feature import Feature
from localrank_training.data.queries import QuerySet
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.linear import LeastSquares, NormalEquations, PerQueryMatrices
from localrank_training.learners.ranksvm import Objective, RankSvm
from localrank_training.learners.signs import within_signs
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank.arrays import Indices, Matrix, Vector
    from localrank.ranker import Ranker

NAMES = ("price", "rating", "sold", "age")
RULES = {"price": -1, "rating": 1}
TREES = {"num_iterations": 30, "members": 1, "num_threads": 1, "min_data_in_leaf": 5}
LINEAR = {"method": "linear", "blocks": "zscore", "ridge": 0.03}
#: Learners and blocks that keep the rules.
RECIPES: dict[str, dict[str, Any]] = {
    "linear": {"method": "linear"},
    "linear, list-relative": {"method": "linear", "blocks": "[minmax, zscore * 0.25, rank]", "ridge": 0.001},
    "linear, to the best": {"method": "linear", "blocks": "[to_best, list]", "ridge": 0.001},
    "ranksvm": {"method": "ranksvm", "C": 10.0},
    "ranksvm, list-relative": {"method": "ranksvm", "C": 10.0, "blocks": "[minmax, zscore * 0.25, rank]"},
    "gbrt": {"method": "gbrt", "blocks": "[raw, zscore, rank]", **TREES},
    "lambdamart": {"method": "lambdamart", "levels": 8, "averaged": [10, 20, 30], **TREES},
    "extra_trees": {"method": "extra_trees", "blocks": "[raw, zscore, rank]", "trees": 20, "num_threads": 1},
    "random_forest": {"method": "random_forest", "trees": 10, "min_samples_leaf": 5, "num_threads": 1},
    "blend": {
        "method": "blend",
        "parts": 2,
        "local": 1,
        "members": [LINEAR, {"method": "lambdamart", "blocks": "[raw, zscore, rank]", **TREES}],
    },
}


def shop(n_queries: int = 60, seed: int = 0, *, gaps: bool = True) -> QuerySet:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, 25, n_queries)
    documents = rng.normal(size=(int(lengths.sum()), len(NAMES))).astype(np.float32)
    utility = documents @ [1.0, 0.3, 1.0, 0.0] + rng.normal(scale=0.5, size=len(documents))
    if gaps:
        documents[rng.random(documents.shape) < 0.05] = np.nan
    return QuerySet(
        documents=documents,
        labels=np.clip(np.round(utility + 1), 0, 4),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        query_ids=tuple(map(str, range(n_queries))),
        feature_names=NAMES,
        lines=np.arange(len(documents)),
    )


def config(learner: dict[str, Any], *, rules: dict[str, int] | None = None, **tables: Any) -> TrainingConfig:
    return TrainingConfig.from_tables(
        {
            "contract": {"normalise": "global_zscore", "monotone": RULES if rules is None else rules},
            "clustering": {"method": "none"},
            "selection": {"folds": 2},
            "learner": learner,
            **tables,
        }
    )


def lists(seed: int, n: int = 60) -> list[Matrix]:
    """Return lists of random documents, some of them extreme."""
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(rng.integers(2, 30), len(NAMES))) * rng.choice([0.1, 1.0, 30.0])).astype(np.float32)
        for _ in range(n)
    ]


def breaches_among_twins(ranker: Ranker, seed: int = 3) -> float:
    """Return by how much a document's score is beyond that of another one of its list that differs in one feature alone."""
    rng = np.random.default_rng(seed)
    most = -np.inf
    for documents in lists(seed):
        for name, direction in RULES.items():
            twins = documents.copy()
            twins[:, NAMES.index(name)] += rng.exponential(rng.choice([0.01, 1.0, 50.0]), len(twins))
            scores = ranker.rank(np.concatenate([documents, twins])).scores
            gains = direction * (scores[len(twins) :] - scores[: len(twins)])
            most = max(most, float(-gains.min()) / max(float(np.ptp(scores)), 1e-9))
    return most


def breaches_when_raised(ranker: Ranker, seed: int = 4) -> float:
    """Return by how much a document's own score moves against the direction if only its own value is raised."""
    rng = np.random.default_rng(seed)
    most = -np.inf
    for documents in lists(seed):
        for name, direction in RULES.items():
            raised, one = documents.copy(), int(rng.integers(len(documents)))
            raised[one, NAMES.index(name)] += rng.exponential(rng.choice([0.01, 1.0, 50.0]))
            before, after = (ranker.rank(some).scores for some in (documents, raised))
            spread = max(float(np.ptp(before)), float(np.ptp(after)), 1e-9)
            most = max(most, float(direction * (before[one] - after[one])) / spread)
    return most


def test_recipes_are_of_all_learners_that_keep_directions() -> None:
    able = {name for name in LEARNERS if LEARNERS.named(name).monotone}

    assert able | {"blend"} == {recipe["method"] for recipe in RECIPES.values()}


@pytest.mark.parametrize("recipe", RECIPES)
def test_of_two_documents_that_differ_in_one_feature_its_direction_decides(recipe: str) -> None:
    ranker = train(shop(), config(RECIPES[recipe])).built.ranker

    assert {one.name: one.monotone for one in ranker.contract.features if one.monotone} == RULES
    assert breaches_among_twins(ranker) < 1e-9


@pytest.mark.parametrize("recipe", ["linear", "gbrt"])
def test_without_the_rule_it_is_broken(recipe: str) -> None:
    """So the tests above can fail."""
    ranker = train(shop(), config(RECIPES[recipe], rules={})).built.ranker

    assert breaches_among_twins(ranker) > 0.1


@pytest.mark.parametrize(
    "learner",
    [
        *({"method": "ranksvm", "C": 10.0, "blocks": block} for block in ("normalised", "minmax", "zscore", "rank")),
        {"method": "lambdamart", "levels": 8, **TREES},
        {
            "method": "blend",
            "parts": 2,
            "members": [
                {"method": "lambdamart", "blocks": "raw", "levels": 8, **TREES},
                {"method": "linear", "blocks": "normalised"},
            ],
        },
    ],
    ids=str,
)  # fmt: skip
def test_a_document_whose_value_alone_is_raised_does_not_score_lower(learner: dict[str, Any]) -> None:
    ranker = train(shop(), config(learner)).built.ranker

    assert breaches_when_raised(ranker) < 1e-9


def test_local_models_keep_directions() -> None:
    tables: dict[str, Any] = {
        "clustering": {"method": "prototypes", "clusters": 3, "share": [0.3], "shrink": [0.0], "gate": 0.0}
    }
    blend = {"method": "blend", "parts": 3, "members": [LINEAR], "local": 1}

    ranker = train(shop(90, gaps=False), config(blend, **tables)).built.ranker

    assert len(ranker.scorers) == 3
    assert ranker.scorers[0] is not ranker.global_scorer
    assert breaches_among_twins(ranker) < 1e-9


@pytest.mark.slow
def test_the_default_keeps_directions_with_all_its_members() -> None:
    settings = ["contract.monotone={price=-1, rating=1}", "learner.budget=20"]

    trained = train(shop(40), TrainingConfig.read(overrides=settings))

    assert breaches_among_twins(trained.built.ranker) < 1e-9


def bounded(signs: Indices) -> tuple[Vector, Vector]:
    return np.where(signs > 0, 0.0, -np.inf), np.where(signs < 0, 0.0, np.inf)


@pytest.mark.parametrize("seed", range(8))
def test_least_squares_with_signs_is_that_of_a_bounded_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = 12
    rows, targets = rng.normal(size=(30, d)) @ rng.normal(size=(d, d)), rng.normal(size=30)
    signs = rng.integers(-1, 2, d)
    ridge = 0.1
    wide = np.concatenate([rows, np.sqrt(ridge) * np.eye(d)])

    found = NormalEquations(rows.T @ rows, rows.T @ targets).solve(ridge, signs=signs)

    expected = lsq_linear(wide, np.concatenate([targets, np.zeros(d)]), bounded(signs), "bvls", tol=1e-14).x
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_ranksvm_with_signs_is_at_the_minimum_within_bounds(seed: int) -> None:
    queries = shop(30, seed, gaps=False)
    signs = np.array([-1, 1, -1, 1])
    lesson = Lesson(queries, blocks="raw", directions={"raw": signs})

    weights = RankSvm(C=10.0, blocks="raw").fit(lesson).weights

    objective = Objective.of(lesson, C=10.0)
    bounds = list(zip(*bounded(signs), strict=True))
    best = minimize(
        objective.value, np.zeros(4), jac=objective.gradient, method="L-BFGS-B", bounds=bounds, tol=1e-12
    )
    assert (signs * weights >= 0).all()
    assert (weights == 0).any()
    assert objective.value(weights) <= best.fun * (1 + 1e-9)
    np.testing.assert_allclose(weights, best.x, atol=1e-3)


def test_signs_that_do_not_bind_change_nothing() -> None:
    queries = shop(30, gaps=False)
    matrices = PerQueryMatrices.of(queries, queries.labels).total()
    free = matrices.solve(0.1)

    assert (matrices.solve(0.1, signs=np.sign(free).astype(np.int64)) == pytest.approx(free, abs=1e-12))  # fmt: skip
    assert within_signs(lambda _, start: start, lambda w: w, np.zeros(3, np.int64), np.ones(3)).tolist() == [
        1,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("learner", "named"),
    [
        ({"method": "svmmap"}, "those that can: ranksvm, linear"),
        ({"method": "rankboost"}, "'rankboost'"),
        ({"method": "linear", "blocks": "quadratic"}, "products have none"),
        ({"method": "blend", "members": [LINEAR, {"method": "svmmap"}]}, "'svmmap'"),
    ],
)
def test_learners_that_cannot_keep_a_direction_are_refused(learner: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidConfiguration, match=named):
        config(learner)


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({"pric": 1}, "did you mean 'price'"),
        ({"price": 2}, "expected a table by name, each one of -1, 1"),
        ({"sold": 1}, "found 'sold', a category"),
        ({"age": 1}, "found 'age', a feature of the query"),
    ],
)
def test_directions_are_of_numbers_of_documents(rules: dict[str, int], named: str) -> None:
    special = {"sold": Feature("sold", "category", ("a", "b")), "age": Feature("age", scope="query")}
    queries = shop(12, gaps=False)
    codes = queries.documents.copy()
    codes[:, 2], codes[:, 3] = codes[:, 2] > 0, 1.0

    with pytest.raises(InvalidConfiguration, match=named):
        train(replace(queries, documents=codes, special=special), config(LINEAR, rules=rules))


def test_least_squares_of_one_lesson_has_its_signs() -> None:
    queries = shop(30, gaps=False)

    scorer = LeastSquares(blocks="raw", ridge=0.1).fit(
        Lesson(queries, blocks="raw", directions={"raw": np.array([-1, 0, 0, 0])})
    )

    assert scorer.weights[0] == 0
