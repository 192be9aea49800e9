"""What a lesson holds, and how its `start` and `towards` act on every learner."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.optimize import minimize

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.scorers import BordaScorer, LinearScorer, TreesScorer
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.linear import LeastSquares
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.svmmap import SvmMap
from tests.core.clouds import as_cloud
from tests.training.learners.test_ranksvm import ExplicitPairs
from tests.training.learners.test_svmmap import constraints

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.role import Learner
    from tests.training.learners.conftest import Judged, MakeQueries

#: Weights to shrink to, far from every optimum below.
AIM = np.array([3.0, -4.0, 0.5, 2.0])

#: Learners of one linear scorer: with hardly any loss, with hardly any shrinkage, and in between.
LINEAR: dict[str, tuple[Learner, Learner, Learner]] = {
    "ranksvm": (RankSvm(C=1e-12), RankSvm(C=1e7), RankSvm(C=0.3)),
    "svmmap": (SvmMap(C=1e-12), SvmMap(C=1e4, tolerance=1e-7), SvmMap(C=0.3, tolerance=1e-8)),
    "linear": (LeastSquares(ridge=1e12), LeastSquares(ridge=1e-12), LeastSquares(ridge=0.3)),
}
BY_NAME = pytest.mark.parametrize("name", LINEAR)


@pytest.fixture
def queries(make_queries: MakeQueries) -> QuerySet:
    return make_queries(12, 4, 2, seed=5)


def weights_of(scorer: Scorer) -> Vector:
    assert isinstance(scorer, LinearScorer)
    return scorer.weights


def test_every_query_counts_the_same_by_default(queries: QuerySet) -> None:
    np.testing.assert_array_equal(Lesson(queries).shares, np.ones(12))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(11), r"weights: expected one per query \(12\), found shape \(11,\)"),
        (np.full(12, -1.0), "none negative and at least one positive, found -1.0 to -1.0"),
        (np.zeros(12), "at least one positive"),
        (np.full(12, np.nan), "expected finite numbers"),
    ],
)
def test_weights_that_fit_no_queries_are_refused_at_once(
    queries: QuerySet, weights: Vector, message: str
) -> None:
    with pytest.raises(InvalidData, match=message):
        Lesson(queries, weights)


def test_a_selection_keeps_its_weights_and_everything_else(queries: QuerySet) -> None:
    start, towards = LinearScorer(np.ones(4)), LinearScorer(np.zeros(4))
    lesson = Lesson(queries, np.arange(12.0), queries, start, towards)

    chosen = lesson.select([5, 2])

    assert chosen.queries.query_ids == ("5", "2")
    np.testing.assert_array_equal(chosen.shares, [5.0, 2.0])
    assert (chosen.validation, chosen.start, chosen.towards) == (queries, start, towards)
    assert lesson.counted().queries.query_ids == tuple(map(str, range(1, 12)))


@BY_NAME
def test_strong_shrinkage_returns_the_weights_it_shrinks_to(queries: QuerySet, name: str) -> None:
    strong, _, _ = LINEAR[name]

    scorer = strong.fit(Lesson(queries, towards=LinearScorer(AIM)))

    np.testing.assert_allclose(weights_of(scorer), AIM, rtol=1e-9)


@BY_NAME
def test_without_shrinkage_the_optimum_is_the_plain_one(queries: QuerySet, name: str) -> None:
    _, free, _ = LINEAR[name]

    shrunk = free.fit(Lesson(queries, towards=LinearScorer(AIM)))

    plain = weights_of(free.fit(Lesson(queries)))
    # The loss of SVMmap is made of planes, and flat around its optimum.
    tolerance = 0.03 if name == "svmmap" else 1e-4
    np.testing.assert_allclose(weights_of(shrunk), plain, atol=tolerance * np.abs(plain).max())


@BY_NAME
def test_shrinking_to_zero_is_the_plain_fit(queries: QuerySet, name: str) -> None:
    _, _, learner = LINEAR[name]

    shrunk = learner.fit(Lesson(queries, towards=LinearScorer(np.zeros(4))))

    np.testing.assert_array_equal(weights_of(shrunk), weights_of(learner.fit(Lesson(queries))))


@BY_NAME
def test_a_start_does_not_change_what_is_shrunk_to(queries: QuerySet, name: str) -> None:
    _, _, learner = LINEAR[name]
    cold = learner.fit(Lesson(queries, towards=LinearScorer(AIM)))

    warm = learner.fit(Lesson(queries, towards=LinearScorer(AIM), start=LinearScorer(-AIM)))

    np.testing.assert_allclose(weights_of(warm), weights_of(cold), rtol=2e-4)


def test_ranksvm_finds_the_shrunk_optimum_of_explicit_pairs(queries: QuerySet) -> None:
    weights = np.linspace(0.0, 2.0, 12)

    learned = RankSvm(C=2.0).fit(Lesson(queries, weights, towards=LinearScorer(AIM)))

    explicit = ExplicitPairs.of(queries, C=2.0, balance=0.5, total="mean", weights=weights, towards=AIM)
    np.testing.assert_allclose(learned.weights, explicit.optimum(), rtol=1e-6)


def test_least_squares_shrinks_as_rows_that_ask_for_the_weights_do(queries: QuerySet) -> None:
    """A ridge towards ``w0`` is one more observation of each weight: ``sqrt(rho) w = sqrt(rho) w0``."""
    rows, gains = [], []
    for query in range(len(queries)):
        documents, labels = queries.documents_of(query).astype(float), queries.labels_of(query)
        rows.append((documents - documents.mean(axis=0)) / np.sqrt(len(queries)))
        gains.append((labels - labels.mean()) / np.sqrt(len(queries)))
    design = np.concatenate(rows)
    ridge = 0.7 * float((design * design).sum()) / 4

    learned = LeastSquares(ridge=0.7).fit(Lesson(queries, towards=LinearScorer(AIM)))

    augmented = np.concatenate([design, np.sqrt(ridge) * np.eye(4)])
    wanted = np.concatenate([*gains, np.sqrt(ridge) * AIM])
    expected, *_ = np.linalg.lstsq(augmented, wanted)
    np.testing.assert_allclose(learned.weights, expected, rtol=1e-9)


def test_the_automatic_ridge_errs_least_on_models_that_are_shrunk_alike(queries: QuerySet) -> None:
    aim = weights_of(LeastSquares(ridge=1e-6).fit(Lesson(queries)))

    learned = LeastSquares().fit(Lesson(queries, towards=LinearScorer(aim)))

    # These weights are the best there are, so no data is needed beside them.
    np.testing.assert_array_equal(
        learned.weights, LeastSquares(ridge=10.0).fit(Lesson(queries, towards=LinearScorer(aim))).weights
    )


def test_svmmap_finds_the_shrunk_optimum_over_all_rankings(judged: Judged) -> None:
    """Every ranking of every query is one cut of a small convex problem, solved in ``w`` by another method."""
    rng = np.random.default_rng(1)
    clouds = [rng.standard_normal((4, 2)) for _ in range(3)]
    labels = [[1, 0, 0, 1], [0, 2, 0, 0], [1, 1, 0, 0]]
    aim, C = np.array([0.4, -0.3]), 0.7

    learned = SvmMap(C=C, tolerance=1e-10).fit(Lesson(judged(clouds, labels), towards=LinearScorer(aim)))

    cuts = [
        constraints(cloud.astype(np.float32).astype(float), np.array(own) >= 1)
        for cloud, own in zip(clouds, labels, strict=True)
    ]
    limits = [
        {"type": "ineq", "fun": lambda z, q=q, cut=cut: z[2 + q] - cut[0] + z[:2] @ cut[1]}
        for q in range(3)
        for cut in cuts[q]
    ]
    found = minimize(
        lambda z: 0.5 * (z[:2] - aim) @ (z[:2] - aim) + C * z[2:].mean(),
        np.array([0.0, 0.0, 2.0, 2.0, 2.0]),
        constraints=limits,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    np.testing.assert_allclose(learned.weights, found.x[:2], atol=1e-4)


@pytest.mark.parametrize(
    ("towards", "message"),
    [
        (
            BordaScorer((LinearScorer(AIM),), np.ones(1), "borda"),
            "a linear scorer, found one of kind 'borda'",
        ),
        (LinearScorer(np.ones(3)), "weights of 4 normalised features, found 3 of normalised features"),
        (LinearScorer(AIM, "raw"), "weights of 4 normalised features, found 4 of raw features"),
    ],
)
@BY_NAME
def test_only_weights_of_the_same_features_are_shrunk_to(
    queries: QuerySet, name: str, towards: Any, message: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=f"{name}: towards: expected {message}"):
        LINEAR[name][2].fit(Lesson(queries, towards=towards))


@pytest.mark.parametrize("method", ["extra_trees", "random_forest", "gmml", "lgmml", "rmlr", "best_feature"])
def test_learners_that_cannot_be_learned_towards_a_scorer_say_so(queries: QuerySet, method: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{method} cannot be learned towards another scorer: "):
        make(method, {}).fit(Lesson(queries, towards=LinearScorer(AIM)))


@pytest.mark.parametrize("method", LEARNERS)
def test_a_start_of_any_kind_changes_no_model(queries: QuerySet, method: str) -> None:
    """Boosted trees, above all, are not grown on top of it."""
    settings: dict[str, dict[str, object]] = {
        "gbrt": {"num_iterations": 5},
        "lambdamart": {"num_iterations": 5},
        "svmmap": {"tolerance": 1e-8},
        "blend": {
            "members": [{"method": "linear"}, {"method": "gbrt", "blocks": "normalised", "num_iterations": 5}]
        },
    }
    learner = make(method, settings.get(method, {}))
    lesson = Lesson(queries, blocks=learner.blocks)
    plain = learner.fit(lesson)
    tree = make("gbrt", {"num_iterations": 1, "members": 1, "min_data_in_leaf": 1}).fit(Lesson(queries))
    assert isinstance(tree, TreesScorer)

    for start in (plain, tree, LinearScorer(AIM)):
        again = learner.fit(replace(lesson, start=start))

        expected = plain.score(as_cloud(queries.documents))
        np.testing.assert_allclose(
            again.score(as_cloud(queries.documents)), expected, atol=1e-3 * np.abs(expected).max()
        )


def test_a_lesson_shows_some_of_its_blocks_in_the_order_asked_for(judged: Judged) -> None:
    """Scales multiply, what no longer fits into single precision becomes its largest number, and NaN stays."""
    columns = np.array([[1.0, 2.0, 3.0, 4.0, 5.0], [-1.0, np.nan, -3e38, 3e38, 7.0]])
    widths = {"raw": 2, "zscore": 2, "rank": 1}
    whole = Lesson(judged([columns], [[0, 1]]), blocks="[raw, zscore, rank]", widths=widths)

    seen = whole.seen_as("[rank, zscore * 2]")

    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(
        seen.queries.documents, np.array([[5, 6, 8], [7, -largest, largest]], np.float32)
    )
    assert ("f5", "f3", "f4") == seen.queries.feature_names
    assert "[rank, zscore * 2]" == seen.blocks
    np.testing.assert_array_equal(whole.seen_as("raw").queries.documents, [[1, 2], [-1, np.nan]])
    assert whole.seen_as("[raw, zscore, rank]") is whole
    with pytest.raises(
        InvalidConfiguration, match="expected a lesson that holds minmax, found one that holds"
    ):
        whole.seen_as("minmax")


def test_validation_queries_are_seen_alike(judged: Judged) -> None:
    queries, held = (judged([np.arange(6.0).reshape(2, 3) + shift], [[0, 1]]) for shift in (0, 10))

    seen = Lesson(queries, validation=held, blocks="[raw, rank]", widths={"raw": 2, "rank": 1}).seen_as(
        "rank"
    )

    assert seen.validation is not None
    assert ([[2.0], [5.0]], [[12.0], [15.0]]) == (
        seen.queries.documents.tolist(),
        seen.validation.documents.tolist(),
    )


def test_boosting_begins_at_zero_or_at_the_scores_of_what_it_continues(queries: QuerySet) -> None:
    held = queries.select([1, 2])
    towards = LinearScorer(AIM, blocks="raw")

    zero, held_zero = Lesson(queries, validation=held).base_scores()
    begun, held_begun = Lesson(queries, validation=held, towards=towards).base_scores()

    assert held_zero is not None
    assert held_begun is not None
    assert ((queries.n_docs,), (held.n_docs,)) == (zero.shape, held_zero.shape)
    assert not zero.any()
    assert not held_zero.any()
    np.testing.assert_allclose(begun, queries.documents @ AIM, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(held_begun, held.documents @ AIM, rtol=1e-5, atol=1e-5)
    assert Lesson(queries).base_scores()[1] is None
    assert Lesson(queries, towards=towards).base_scores()[1] is None


def test_a_lesson_counts_the_queries_with_a_weight(queries: QuerySet) -> None:
    whole, some = Lesson(queries), Lesson(queries, np.array([0.0, 2.0] * 6))

    assert whole.counted() is whole
    assert queries.query_ids[1::2] == some.counted().queries.query_ids
    np.testing.assert_array_equal(np.full(6, 2.0), some.counted().shares)
