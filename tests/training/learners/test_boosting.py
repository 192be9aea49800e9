"""Boosting through the learners is LightGBM called by hand, and says clearly what it cannot do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
import pytest

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.metrics import ndcg
from localrank.scorers import LinearScorer, SumScorer, TreesScorer
from localrank_training.learners import boosting
from localrank_training.learners.boosting import Boosting, Gbrt, LambdaMart
from localrank_training.learners.catalogue import make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import Note, collected
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged

LEARNERS = [Gbrt, LambdaMart]


def made(judged: Judged, seed: int, n_queries: int = 40) -> QuerySet:
    random = np.random.default_rng(seed)
    clouds = [random.standard_normal((int(random.integers(4, 25)), 5)) for _ in range(n_queries)]
    labels = [
        np.clip(np.round(cloud[:, 0] + np.abs(cloud[:, 1]) + random.normal(0, 0.4, len(cloud))), 0, 3)
        for cloud in clouds
    ]
    return judged(clouds, labels)


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    return made(judged, 0)


@pytest.fixture
def validation(judged: Judged) -> QuerySet:
    return made(judged, 1)


def plain(kind: type[Boosting], **changes: Any) -> Boosting:
    """One model of all documents and features, unless told otherwise."""
    gain = {"gain": "exponential"} if kind is Gbrt else {}
    return kind(**{"members": 1, "feature_fraction": 1.0, "bagging_fraction": 1.0, **gain, **changes})


def grown(learner: Boosting, lesson: Lesson) -> TreesScorer:
    """Learn trees, and nothing else."""
    scorer = learner.fit(lesson)
    assert isinstance(scorer, TreesScorer)
    return scorer


def by_hand(
    settings: dict[str, Any], queries: QuerySet, labels: np.ndarray, rounds: int, **data: Any
) -> lightgbm.Booster:
    return lightgbm.train(
        {"verbosity": -1, "num_threads": 1, "learning_rate": 0.05, "num_leaves": 7, **settings},
        lightgbm.Dataset(queries.documents, labels, group=queries.lengths, **data),
        rounds,
    )


def test_gbrt_is_lightgbms_regression_on_gains(queries: QuerySet) -> None:
    scorer = grown(plain(Gbrt, num_iterations=20), Lesson(queries))

    booster = by_hand({"objective": "regression"}, queries, 2**queries.labels - 1, 20)
    np.testing.assert_allclose(
        scorer.score_rows(queries.documents), booster.predict(queries.documents), rtol=1e-9
    )


def test_lambdamart_is_lightgbms_lambdarank(queries: QuerySet) -> None:
    learner = plain(
        LambdaMart,
        num_iterations=20,
        feature_fraction=0.6,
        bagging_fraction=0.5,
        seed=3,
        lambdarank_truncation_level=5,
    )

    scorer = grown(learner, Lesson(queries))

    booster = by_hand(
        {
            "objective": "lambdarank", "lambdarank_truncation_level": 5, "feature_fraction": 0.6, "seed": 3,
            "bagging_fraction": 0.5, "bagging_freq": 1, "bagging_by_query": True,
        },
        queries, queries.labels, 20,
    )  # fmt: skip
    np.testing.assert_allclose(
        scorer.score_rows(queries.documents), booster.predict(queries.documents), rtol=1e-9
    )


@pytest.mark.parametrize("kind", LEARNERS)
def test_every_setting_reaches_lightgbm(kind: type[Boosting], queries: QuerySet) -> None:
    """Each changed alone gives other scores than the defaults do."""
    base = plain(kind, num_iterations=15, num_leaves=12, min_data_in_leaf=5)
    changes: dict[str, Any] = {
        "num_iterations": 9, "learning_rate": 0.2, "num_leaves": 3, "max_depth": 2, "min_data_in_leaf": 60,
        "min_sum_hessian_in_leaf": 50.0 if kind is Gbrt else 1.0, "feature_fraction": 0.4, "bagging_fraction": 0.4, "lambda_l1": 2.0,
        "lambda_l2": 20.0, "max_bin": 4,
    }  # fmt: skip
    if kind is Gbrt:
        changes |= {"gain": "label"}
    else:
        changes |= {
            "label_gain": (0.0, 1.0, 2.0, 3.0), "lambdarank_truncation_level": 1, "lambdarank_norm": False,
            "sigmoid": 3.0,
        }  # fmt: skip
    before = grown(base, Lesson(queries)).score_rows(queries.documents)

    for name, value in changes.items():
        changed = grown(replace(base, **{name: value}), Lesson(queries)).score_rows(queries.documents)
        assert not np.allclose(before, changed), name


@pytest.mark.parametrize("kind", LEARNERS)
def test_the_trees_do_not_depend_on_the_threads_and_are_the_same_again(
    kind: type[Boosting], queries: QuerySet
) -> None:
    learner = plain(kind, num_iterations=10, feature_fraction=0.5, bagging_fraction=0.5)

    first, again, alone = (
        grown(replace(learner, num_threads=threads), Lesson(queries)) for threads in (2, 2, 1)
    )

    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])
        np.testing.assert_array_equal(array, alone.arrays()[name])


def test_another_seed_is_another_model_and_members_are_averaged(queries: QuerySet) -> None:
    learner = plain(LambdaMart, num_iterations=10, feature_fraction=0.5)

    first, second = (
        grown(replace(learner, seed=seed), Lesson(queries)).score_rows(queries.documents) for seed in (5, 6)
    )
    both = grown(replace(learner, seed=5, members=2), Lesson(queries)).score_rows(queries.documents)

    assert not np.allclose(first, second)
    np.testing.assert_allclose(both, (first + second) / 2, atol=1e-12)


def test_boosting_stops_where_validation_is_best(queries: QuerySet, validation: QuerySet) -> None:
    learner = plain(LambdaMart, num_iterations=60, learning_rate=0.3, early_stopping_rounds=60, eval_at=5)

    stopped = grown(learner, Lesson(queries, validation=validation))

    whole = grown(learner, Lesson(queries))
    figures = []
    for trees in range(1, 61):
        prefix = replace(whole, **_first(whole, trees))
        scores = prefix.score_rows(validation.documents)
        # LightGBM counts a query without relevant documents one, which moves all figures alike.
        figures.append(ndcg(validation.labels, scores, validation.offsets, 5, "standard-one").mean())
    assert stopped.n_trees == 1 + int(np.argmax(figures)) < 60


def _first(forest: TreesScorer, trees: int) -> dict[str, Any]:
    """Return the arrays of a forest's first trees."""
    splits = int(forest.split_begins[trees])
    return {
        name: array[: {"splits": trees, "values": splits + trees}.get(name, splits)]
        for name, array in forest.arrays().items()
        if not name.startswith("category")
    }


def test_regression_stops_by_its_squared_error(queries: QuerySet, validation: QuerySet) -> None:
    learner = plain(Gbrt, num_iterations=60, learning_rate=0.3, early_stopping_rounds=60)

    stopped = grown(learner, Lesson(queries, validation=validation))

    whole = grown(learner, Lesson(queries))
    errors = [
        np.square(
            replace(whole, **_first(whole, trees)).score_rows(validation.documents)
            - (2**validation.labels - 1)
        ).sum()
        for trees in range(1, 61)
    ]
    assert stopped.n_trees == 1 + int(np.argmin(errors)) < 60


def test_it_does_not_stop_early_when_told_so(queries: QuerySet, validation: QuerySet) -> None:
    learner = plain(LambdaMart, num_iterations=30, learning_rate=0.5, early_stopping_rounds=0)

    assert grown(learner, Lesson(queries, validation=validation)).n_trees == 30


def test_validation_without_differences_cannot_stop_anything(queries: QuerySet, validation: QuerySet) -> None:
    flat = replace(validation, labels=np.zeros(validation.n_docs))

    with collected() as notes:
        scorer = grown(plain(LambdaMart, num_iterations=30), Lesson(queries, validation=flat))

    assert scorer.n_trees == 30
    assert "does not stop early" in notes[0].text


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_query_of_weight_two_counts_as_if_it_were_there_twice(
    kind: type[Boosting], queries: QuerySet
) -> None:
    learner = plain(kind,
        num_iterations=10, min_data_in_leaf=0, min_sum_hessian_in_leaf=1.0,
        max_bin=1000,
    )  # fmt: skip
    # In steps, so that repetition does not move the borders of LightGBM's bins.
    queries = queries.with_documents(np.clip(np.round(queries.documents), -1, 1))
    weights = np.ones(len(queries))
    weights[:10] = 2.0

    weighted = grown(learner, Lesson(queries, weights=weights)).score_rows(queries.documents)

    twice = grown(learner, Lesson(queries.select([*range(len(queries)), *range(10)]))).score_rows(
        queries.documents
    )
    np.testing.assert_allclose(weighted, twice, rtol=1e-5, atol=1e-7)  # LightGBM keeps weights in float32


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_query_of_weight_zero_is_not_there(kind: type[Boosting], queries: QuerySet) -> None:
    learner = plain(kind, num_iterations=10)
    weights = np.where(np.arange(len(queries)) < 30, 1.0, 0.0)

    weighted = grown(learner, Lesson(queries, weights=weights)).score_rows(queries.documents)

    np.testing.assert_array_equal(
        grown(learner, Lesson(queries.select(range(30)))).score_rows(queries.documents), weighted
    )


@pytest.mark.parametrize("kind", LEARNERS)
def test_boosting_goes_on_from_a_scorer_of_trees(kind: type[Boosting], queries: QuerySet) -> None:
    learner = plain(kind, num_iterations=10)
    first = grown(learner, Lesson(queries))

    going_on = learner.fit(Lesson(queries, towards=first))

    assert isinstance(going_on, SumScorer)
    base, correction = going_on.rankers
    assert base is first
    assert isinstance(correction, TreesScorer)
    assert correction.n_trees == 10
    begun = first.score_rows(queries.documents)
    reached = begun + correction.score_rows(queries.documents)
    objective = "regression" if kind is Gbrt else "lambdarank"
    labels = 2**queries.labels - 1 if kind is Gbrt else queries.labels
    booster = by_hand({"objective": objective}, queries, labels, 10, init_score=begun)
    np.testing.assert_allclose(reached, begun + booster.predict(queries.documents), rtol=1e-9, atol=1e-12)
    # Twice ten trees are twenty, but for rounding: boosting has no memory besides the scores.
    at_once = grown(replace(learner, num_iterations=20), Lesson(queries)).score_rows(queries.documents)
    if kind is Gbrt:
        np.testing.assert_allclose(reached, at_once, rtol=1e-4)


def test_trees_that_cannot_be_bettered_come_back(queries: QuerySet, validation: QuerySet) -> None:
    best = grown(plain(LambdaMart, num_iterations=100), Lesson(validation))
    learner = plain(LambdaMart, num_iterations=20, min_data_in_leaf=2, members=2)
    random = np.random.default_rng(0)
    nonsense = replace(queries, labels=random.permutation(queries.labels))

    with collected() as notes:
        scorer = grown(learner, Lesson(nonsense, validation=validation, towards=best))

    assert scorer is best
    assert "stays unchanged" in notes[-1].text


def test_trees_correct_a_linear_model(queries: QuerySet) -> None:
    """Its scores may be of other blocks, if the lesson holds them too."""
    linear = LinearScorer(np.linspace(-1, 1, 5), "zscore * 2")
    learner = plain(Gbrt, num_iterations=10)
    both = queries.with_documents(np.concatenate([queries.documents, queries.documents**2], axis=1))
    names = tuple(f"g{number}" for number in range(10))
    lesson = Lesson(
        replace(both, feature_names=names),
        towards=linear,
        blocks="[raw, zscore]",
        widths={"raw": 5, "zscore": 5},
    )

    scorer = replace(learner, blocks="[raw, zscore]").fit(lesson)

    assert isinstance(scorer, SumScorer)
    assert scorer.rankers[0] is linear
    begun = 2 * (queries.documents**2) @ np.linspace(-1, 1, 5)
    booster = by_hand({"objective": "regression"}, both, 2**queries.labels - 1, 10, init_score=begun)
    correction = scorer.rankers[1]
    assert isinstance(correction, TreesScorer)
    np.testing.assert_allclose(
        correction.score_rows(both.documents), booster.predict(both.documents), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_scorer_of_blocks_that_the_lesson_lacks_is_refused(kind: type[Boosting], queries: QuerySet) -> None:
    with pytest.raises(InvalidConfiguration, match=r"expected a lesson that holds normalised, found .* raw"):
        plain(kind, num_iterations=5).fit(Lesson(queries, towards=LinearScorer(np.ones(5))))


def test_the_mean_over_numbers_of_trees_is_folded_into_the_leaves(queries: QuerySet) -> None:
    scorer = grown(plain(LambdaMart, num_iterations=30, averaged=(5, 12, 20)), Lesson(queries))

    every = [
        grown(plain(LambdaMart, num_iterations=rounds), Lesson(queries)).score_rows(queries.documents)
        for rounds in (5, 12, 20)
    ]
    np.testing.assert_allclose(scorer.score_rows(queries.documents), np.mean(every, axis=0), rtol=1e-9)
    assert scorer.n_trees == 20


def test_a_mean_over_numbers_of_trees_does_not_stop_early(queries: QuerySet, validation: QuerySet) -> None:
    learner = plain(Gbrt, averaged=(5, 400), early_stopping_rounds=1)

    scorer = grown(learner, Lesson(queries, validation=validation))

    assert scorer.n_trees == 400


def test_the_logistic_loss_is_lightgbms_cross_entropy_of_shares(queries: QuerySet) -> None:
    scorer = grown(plain(Gbrt, loss="logistic", num_iterations=20), Lesson(queries))

    shares = (2**queries.labels - 1) / 7
    booster = by_hand({"objective": "cross_entropy"}, queries, shares, 20)
    expected = booster.predict(queries.documents, raw_score=True)
    np.testing.assert_allclose(scorer.score_rows(queries.documents), expected, rtol=1e-9)


def test_levels_of_real_labels_have_their_own_gains(queries: QuerySet, validation: QuerySet) -> None:
    """Halves of whole labels are three levels more; with gains to match, LightGBM is given just that."""
    halves = [replace(one, labels=one.labels / 2) for one in (queries, validation)]

    scorer = grown(plain(LambdaMart, levels=10, num_iterations=20), Lesson(halves[0], validation=halves[1]))

    gains = tuple(2 ** (level / 2) - 1 for level in range(4))
    expected = grown(
        plain(LambdaMart, label_gain=gains, num_iterations=20), Lesson(queries, validation=validation)
    )
    np.testing.assert_array_equal(
        scorer.score_rows(queries.documents), expected.score_rows(queries.documents)
    )


def test_more_labels_than_levels_are_cut_evenly(queries: QuerySet) -> None:
    spread = 3.9 * np.linspace(0.0, 1.0, queries.n_docs) ** 1.1

    scorer = grown(plain(LambdaMart, levels=4, num_iterations=10), Lesson(replace(queries, labels=spread)))

    grades = replace(queries, labels=np.round(spread / 1.3))
    gains = tuple(2 ** (1.3 * level) - 1 for level in range(4))
    expected = grown(plain(LambdaMart, label_gain=gains, num_iterations=10), Lesson(grades))
    np.testing.assert_allclose(
        scorer.score_rows(queries.documents), expected.score_rows(queries.documents), rtol=1e-9
    )


def test_missing_values_are_learned_from(queries: QuerySet) -> None:
    """The first feature says most; where it is missing is all there is to know about the second half."""
    documents = queries.documents.copy()
    documents[queries.labels >= 2, 0] = np.nan
    with_holes = queries.with_documents(documents)

    scores = grown(plain(LambdaMart, num_iterations=20), Lesson(with_holes)).score_rows(documents)

    assert scores[queries.labels >= 2].min() > scores[queries.labels < 2].max()


def test_categories_are_not_amounts(queries: QuerySet) -> None:
    random = np.random.default_rng(0)
    documents = queries.documents.copy()
    documents[:, 4] = random.permutation(12)[
        (queries.labels.astype(int) * 3 + random.integers(0, 3, queries.n_docs))
    ]
    learner = plain(LambdaMart, num_iterations=10, categorical=(queries.feature_names[4],))

    scorer = grown(learner, Lesson(queries.with_documents(documents)))

    assert (scorer.decisions & 1).any()
    assert np.isfinite(scorer.score_rows(documents)).all()


def test_a_category_that_is_no_feature_is_refused(queries: QuerySet) -> None:
    with pytest.raises(
        InvalidConfiguration, match="lambdamart: categorical: expected names of features, found 'f9'"
    ):
        grown(plain(LambdaMart, categorical=("f9",)), Lesson(queries))


@pytest.mark.parametrize(
    ("learner", "label", "message"),
    [
        (plain(LambdaMart), -1.0, "lambdamart: query '0': expected labels of at least 0, found -1"),
        (plain(LambdaMart), 0.5, "lambdamart: query '0': expected whole numbers as labels, found 0.5"),
        (plain(LambdaMart), 31.0, "lambdamart: query '0': expected labels of at most 30, found 31"),
        (
            plain(LambdaMart, label_gain=(0.0, 1.0, 5.0, 9.0)),
            4.0,
            "lambdamart: .* expected labels of at most 3, found 4",
        ),
        (plain(LambdaMart), np.nan, "lambdamart: query '0': expected a finite label, found nan"),
        (plain(Gbrt), -1.0, "gbrt: query '0': expected labels of at least 0, found -1"),
        (plain(Gbrt), np.inf, "gbrt: query '0': expected a finite label, found inf"),
    ],
)
@pytest.mark.parametrize("where", ["training", "validation"])
def test_a_label_that_has_no_gain_is_refused(
    learner: Boosting, label: float, message: str, where: str, queries: QuerySet
) -> None:
    labels = queries.labels.copy()
    labels[1] = label
    broken = replace(queries, labels=labels)

    with pytest.raises(InvalidData, match=message):
        grown(learner, Lesson(broken if where == "training" else queries, validation=broken))


def test_regression_takes_any_number_that_is_not_negative(queries: QuerySet) -> None:
    labels = queries.labels + np.linspace(0, 0.9, queries.n_docs)

    scorer = grown(plain(Gbrt, gain="label", num_iterations=10), Lesson(replace(queries, labels=labels)))

    booster = by_hand({"objective": "regression"}, queries, labels, 10)
    np.testing.assert_allclose(
        scorer.score_rows(queries.documents), booster.predict(queries.documents), rtol=1e-9
    )


def test_an_infinite_feature_is_refused(queries: QuerySet) -> None:
    documents = queries.documents.copy()
    documents[3, 2] = -np.inf

    with pytest.raises(
        InvalidData, match=r"gbrt: query '0', feature 'f3': expected a finite value, found -inf$"
    ):
        grown(plain(Gbrt), Lesson(queries.with_documents(documents)))


@pytest.mark.parametrize("kind", LEARNERS)
class TestDegenerate:
    def test_one_label_level(self, kind: type[Boosting], queries: QuerySet) -> None:
        with pytest.raises(InvalidData, match="expected two documents of one query with different labels"):
            grown(plain(kind), Lesson(replace(queries, labels=np.ones(queries.n_docs))))

    def test_constant_features(self, kind: type[Boosting], queries: QuerySet) -> None:
        with pytest.raises(InvalidData, match="expected two documents of one query with different features"):
            grown(plain(kind), Lesson(queries.with_documents(np.ones_like(queries.documents))))

    def test_fewer_documents_than_a_leaf_has(self, kind: type[Boosting], judged: Judged) -> None:
        few = made(judged, 0, n_queries=1)

        with pytest.raises(
            InvalidData,
            match=r": expected documents that a tree can split.* min_data_in_leaf 20",
        ):
            grown(plain(kind, min_data_in_leaf=20), Lesson(few))

    def test_fewer_documents_than_a_leaf_has_with_trees_to_continue(
        self, kind: type[Boosting], judged: Judged, queries: QuerySet
    ) -> None:
        first = grown(plain(kind, num_iterations=5), Lesson(queries))
        one = Lesson(made(judged, 0, n_queries=1), towards=first)

        assert plain(kind, min_data_in_leaf=20).fit(one) is first

    def test_one_query(self, kind: type[Boosting], judged: Judged) -> None:
        one = made(judged, 0, n_queries=1)

        scores = grown(plain(kind, min_data_in_leaf=2, num_iterations=50), Lesson(one)).score_rows(
            one.documents
        )

        assert ndcg(one.labels, scores, one.offsets).mean() > 0.9

    def test_a_query_without_documents(self, kind: type[Boosting], queries: QuerySet) -> None:
        offsets = np.insert(queries.offsets, 3, queries.offsets[3])
        ids = (*queries.query_ids[:3], "empty", *queries.query_ids[3:])
        with_gap = replace(queries, offsets=offsets, query_ids=ids)
        learner = plain(kind, num_iterations=5)

        np.testing.assert_array_equal(
            grown(learner, Lesson(queries)).score_rows(queries.documents),
            grown(learner, Lesson(with_gap)).score_rows(queries.documents),
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_leaves": 1}, "num_leaves: expected at least 2, found 1"),
        ({"learning_rate": 0.0}, "learning_rate: expected more than 0.*, found 0"),
        ({"feature_fraction": 1.5}, "feature_fraction: expected at most 1.*, found 1.5"),
        ({"num_trees": 3}, "unknown setting 'num_trees'"),
        ({"blocks": "lists"}, "blocks: expected one of raw, .*, found 'lists'; did you mean 'list'"),
        ({"label_gain": [-1.0, 1.0]}, "label_gain: expected at least 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make("lambdamart", settings)


def test_rounds_that_validation_queries_chose_are_settled(queries: QuerySet, validation: QuerySet) -> None:
    """The members' mean number of trees, rounded."""
    learner = plain(
        LambdaMart, num_iterations=40, learning_rate=0.3, early_stopping_rounds=5, feature_fraction=0.5
    )
    alone = [
        grown(replace(learner, seed=seed), Lesson(queries, validation=validation)).n_trees for seed in (0, 1)
    ]

    with collected() as notes:
        grown(replace(learner, members=2), Lesson(queries, validation=validation))

    assert notes[-1].figures["rounds"] == pytest.approx(sum(alone) / 2)
    assert "by 40 validation queries (mean of 2 members)" in notes[-1].text
    assert round(sum(alone) / 2) == learner.settled(notes).num_iterations
    assert 1 == learner.settled([Note("lambdamart", "", {"rounds": 0.4})]).num_iterations
    assert learner.settled([]) is learner


@pytest.mark.parametrize("kind", LEARNERS)
def test_boosting_that_goes_on_stops_where_the_sum_is_best(
    kind: type[Boosting], queries: QuerySet, validation: QuerySet
) -> None:
    learner = plain(kind, num_iterations=40, learning_rate=0.3, early_stopping_rounds=40)
    first = grown(replace(learner, num_iterations=2), Lesson(queries))

    stopped = learner.fit(Lesson(queries, validation=validation, towards=first))

    assert isinstance(stopped, SumScorer)
    correction = stopped.rankers[1]
    assert isinstance(correction, TreesScorer)
    whole = learner.fit(Lesson(queries, towards=first))
    assert isinstance(whole, SumScorer)
    assert isinstance(whole.rankers[1], TreesScorer)
    figures = []
    for trees in range(1, 41):
        prefix = replace(whole.rankers[1], **_first(whole.rankers[1], trees))
        scores = first.score_rows(validation.documents) + prefix.score_rows(validation.documents)
        figures.append(
            -np.square(scores - (2**validation.labels - 1)).sum()
            if kind is Gbrt
            else ndcg(validation.labels, scores, validation.offsets, 10, "standard-one").mean()
        )
    assert 1 + int(np.argmax(figures)) == correction.n_trees < 40


def test_regression_that_cannot_be_bettered_comes_back(queries: QuerySet, validation: QuerySet) -> None:
    """Less error is better: trees for labels without any sense only add some."""
    best = grown(plain(Gbrt, num_iterations=100), Lesson(validation))
    nonsense = replace(queries, labels=np.random.default_rng(0).permutation(queries.labels))

    scorer = plain(Gbrt, num_iterations=20, min_data_in_leaf=2).fit(
        Lesson(nonsense, validation=validation, towards=best)
    )

    assert scorer is best


def test_as_many_labels_as_levels_keep_their_own_gains(queries: QuerySet) -> None:
    """Four labels that are not evenly spaced; with four levels none of them is moved."""
    own = np.array([0.0, 0.1, 0.5, 3.0])

    scorer = grown(
        plain(LambdaMart, levels=4, num_iterations=10),
        Lesson(replace(queries, labels=own[queries.labels.astype(int)])),
    )

    expected = grown(
        plain(LambdaMart, label_gain=tuple(2**own - 1), num_iterations=10), Lesson(queries)
    ).score_rows(queries.documents)
    np.testing.assert_allclose(expected, scorer.score_rows(queries.documents), rtol=1e-9)


def test_whole_labels_are_not_cut_to_levels(queries: QuerySet) -> None:
    first, second = (
        grown(plain(LambdaMart, levels=levels, num_iterations=10), Lesson(queries)) for levels in (0, 2)
    )

    np.testing.assert_array_equal(first.score_rows(queries.documents), second.score_rows(queries.documents))


def test_rows_that_are_not_held_are_binned_in_portions(
    queries: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a sequence LightGBM sees the same rows, whether it asks for a slice or for single ones in ascending order."""
    monkeypatch.setattr("localrank_training.learners.boosting.CELLS", 35)

    rows = boosting._as_sequence(queries.documents)  # type: ignore[arg-type]

    assert (7, queries.n_docs) == (rows.batch_size, len(rows))
    np.testing.assert_array_equal(queries.documents[5:20], rows[5:20])
    for number in (0, 1, 6, 7, 8, 30, 31, queries.n_docs - 1):
        np.testing.assert_array_equal(queries.documents[number].astype(np.float64), rows[number])


@pytest.mark.parametrize("kind", LEARNERS)
def test_the_settings_are_those_that_the_page_lists(kind: type[Boosting]) -> None:
    assert listed(kind.method) == declared(kind.method)
    assert kind.continues is True
