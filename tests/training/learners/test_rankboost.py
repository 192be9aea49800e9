"""RankBoost, against its definition over explicit pairs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.metrics import Judgements
from localrank.scorers import StumpScorer, SumScorer
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import collected
from localrank_training.learners.rankboost import LevelPairs, RankBoost, Round, ThresholdRankers, boost
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.role import Learner
    from tests.training.learners.conftest import Judged


def boosted(learner: Learner, lesson: Lesson) -> StumpScorer:
    """Learn steps, and nothing else."""
    scorer = learner.fit(lesson)
    assert isinstance(scorer, StumpScorer)
    return scorer


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    rng = np.random.default_rng(0)
    clouds = [rng.standard_normal((n, 4)) for n in (9, 30, 7, 21, 16)]
    return judged(
        clouds, [np.clip(np.round(cloud[:, 0] + rng.standard_normal(len(cloud))), 0, 3) for cloud in clouds]
    )


def explicit_pairs(queries: QuerySet, weights: Vector, balance: float) -> list[tuple[int, int, float]]:
    """Every (better, worse) pair with its weight."""
    found = []
    for query in range(len(queries)):
        span = queries.span(query)
        rows = range(span.start, span.stop)
        pairs = [(i, j) for i in rows for j in rows if queries.labels[i] > queries.labels[j]]
        found += [(i, j, weights[query] / len(pairs) ** balance) for i, j in pairs]
    return found


def by_definition(
    queries: QuerySet, weights: Vector, balance: float, n_rounds: int
) -> tuple[list[Round], Vector]:
    """Freund et al. (2003), figure 1, with the third way of section 3.2 to choose the step, pair by pair."""
    pairs = explicit_pairs(queries, weights, balance)
    distribution = np.array([weight for _, _, weight in pairs])
    distribution /= distribution.sum()
    rankers = []
    for feature in range(queries.n_features):
        column = queries.documents[:, feature].astype(float)
        values = np.unique(column)
        rankers += [(feature, (a + b) / 2, column > (a + b) / 2) for a, b in pairwise(values)]
    scores, rounds = np.zeros(queries.n_docs), []
    for _ in range(n_rounds):
        rates = [
            sum(d * (int(h[i]) - int(h[j])) for d, (i, j, _) in zip(distribution, pairs, strict=True))
            for _, _, h in rankers
        ]
        best = int(np.argmax(np.abs(np.round(rates, 12))))
        feature, threshold, h = rankers[best]
        # A perfect ranker would have an infinite step.
        rate = np.clip(rates[best], -1 + 1e-6, 1 - 1e-6)
        step = 0.5 * np.log((1 + rate) / (1 - rate))
        distribution *= [np.exp(step * (int(h[j]) - int(h[i]))) for i, j, _ in pairs]
        z = distribution.sum()
        distribution /= z
        scores += step * h
        rounds.append(Round(feature, threshold, step, rates[best], z))
    return rounds, scores


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), balance=st.sampled_from([0.0, 0.5, 1.0]), n_levels=st.integers(2, 4))
def test_every_round_equals_the_definition_over_pairs(
    judged: Judged, seed: int, balance: float, n_levels: int
) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, 3)
    labels = [np.append(rng.integers(0, n_levels, n - 2), [0, 1]) for n in sizes]
    queries = judged([np.round(rng.standard_normal((n, 2)), 1) for n in sizes], labels)
    weights = rng.random(3) + 0.1

    rounds = boost(
        ThresholdRankers.of(queries.documents, "all"),
        LevelPairs.of(queries, weights, balance),
        np.zeros(sizes.sum()),
        4,
    )

    expected, _ = by_definition(queries, weights, balance, len(rounds))
    for ours, theirs in zip(rounds, expected, strict=True):
        np.testing.assert_allclose(abs(ours.r), abs(theirs.r), atol=1e-9)
        if (ours.feature, ours.threshold) != (theirs.feature, theirs.threshold):
            break  # Two rankers were equally good; from here on both ways differ.
        if abs(theirs.r) < 0.999:
            np.testing.assert_allclose(ours.z, theirs.z, atol=1e-9)


def test_the_scorer_is_the_sum_of_the_rounds(queries: QuerySet) -> None:
    weights = np.array([1.0, 2.0, 0.5, 0.0, 1.0])

    scorer = boosted(RankBoost(rounds=10, thresholds="all", balance=0.0), Lesson(queries, weights=weights))

    _, scores = by_definition(queries, weights, 0.0, 10)
    np.testing.assert_allclose(scorer.score_rows(queries.documents), scores, atol=1e-9)


def test_the_product_of_z_bounds_the_misordered_pairs(queries: QuerySet) -> None:
    """Freund et al. (2003), theorem 1, and Z <= sqrt(1 - r^2) of section 3.2."""
    weights = np.array([1.0, 2.0, 0.5, 1.0, 1.0])
    rounds = boost(
        ThresholdRankers.of(queries.documents, 255),
        LevelPairs.of(queries, weights, 1.0),
        np.zeros(queries.n_docs),
        60,
    )
    pairs = explicit_pairs(queries, weights, 1.0)
    total = sum(weight for _, _, weight in pairs)

    scores, bound = np.zeros(queries.n_docs), 1.0
    for one in rounds:
        assert one.z <= np.sqrt(1 - one.r**2) + 1e-12
        scores = scores + one.step * (queries.documents[:, one.feature] > one.threshold)
        bound *= one.z
        misordered = sum(weight for i, j, weight in pairs if scores[i] <= scores[j])
        exponential = sum(weight * np.exp(scores[j] - scores[i]) for i, j, weight in pairs)
        np.testing.assert_allclose(bound, exponential / total)
        assert misordered / total <= bound
    assert bound < 0.9


def test_the_bound_is_noted(queries: QuerySet) -> None:
    with collected() as notes:
        boosted(RankBoost(rounds=7), Lesson(queries))

    rounds = boost(
        ThresholdRankers.of(queries.documents, 255),
        LevelPairs.of(queries, np.ones(5), 0.5),
        np.zeros(queries.n_docs),
        7,
    )
    assert notes[0].figures["rounds"] == 7
    np.testing.assert_allclose(notes[0].figures["bound"], np.prod([one.z for one in rounds]))


def test_validation_queries_choose_the_number_of_rounds(queries: QuerySet) -> None:
    taught, held = queries.select([0, 1, 2]), queries.select([3, 4])
    judgements = Judgements(held.labels, held.offsets)
    means = [
        judgements.measure(boosted(RankBoost(rounds=n), Lesson(taught)).score_rows(held.documents), ["map"])[
            0
        ].mean
        for n in range(1, 31)
    ]

    scorer = boosted(RankBoost(rounds=30, metric="map"), Lesson(taught, validation=held))

    best = int(np.argmax(means)) + 1
    assert 1 < best < 30
    np.testing.assert_allclose(
        scorer.score_rows(held.documents),
        boosted(RankBoost(rounds=best), Lesson(taught)).score_rows(held.documents),
        atol=1e-12,
    )


def test_thresholds_lie_at_the_quantiles() -> None:
    documents = np.arange(1000.0)[:, None].astype(np.float32)

    few = ThresholdRankers.of(documents, 9)

    np.testing.assert_array_equal(few.values[0], np.arange(100, 1000, 100) - 0.5)
    np.testing.assert_array_equal(few.codes[0], (documents > few.values[0]).sum(axis=1))
    np.testing.assert_array_equal(ThresholdRankers.of(documents, 999).values[0], np.arange(999) + 0.5)
    np.testing.assert_array_equal(ThresholdRankers.of(documents, "all").values[0], np.arange(999) + 0.5)


@settings(max_examples=60)
@given(
    values=st.lists(st.integers(-6, 6), min_size=2, max_size=40),
    most=st.integers(1, 9),
)
def test_a_threshold_is_the_lowest_with_its_share_of_documents_below(values: list[int], most: int) -> None:
    column = np.array(values, np.float32)[:, None]
    candidates = [(low + high) / 2 for low, high in pairwise(sorted(set(values)))]

    found = ThresholdRankers.of(column, most)

    expected = set(candidates)
    if len(candidates) > most:
        expected = {
            next(
                (one for one in candidates if (column < one).sum() * (most + 1) >= number * len(values)),
                candidates[-1],
            )
            for number in range(1, most + 1)
        }
    assert sorted(expected) == found.values[0].tolist()


def test_thresholds_are_midway_between_different_values_only() -> None:
    column = np.array([[3], [0], [1], [0], [1]], np.float32)

    thresholds = ThresholdRankers.of(column, "all")

    np.testing.assert_array_equal([0.5, 2.0], thresholds.values[0])
    np.testing.assert_array_equal([2, 0, 1, 0, 1], thresholds.codes[0])


def test_a_constant_feature_has_no_threshold(judged: Judged) -> None:
    queries = judged([[[5.0, 0.0], [5.0, 1.0], [5.0, 2.0]]], [[0, 1, 1]])

    scorer = boosted(RankBoost(), Lesson(queries))

    assert set(scorer.features) == {1}


def test_boosting_goes_on_from_a_given_scorer(queries: QuerySet) -> None:
    half = boosted(RankBoost(rounds=10), Lesson(queries))

    whole = RankBoost(rounds=10).fit(Lesson(queries, towards=half, blocks="normalised"))

    assert isinstance(whole, SumScorer)
    assert whole.rankers[0] is half
    (correction,) = [ranker for ranker in whole.rankers if ranker is not half]
    assert isinstance(correction, StumpScorer)
    np.testing.assert_allclose(
        half.score_rows(queries.documents) + correction.score_rows(queries.documents),
        boosted(RankBoost(rounds=20), Lesson(queries)).score_rows(queries.documents),
        atol=1e-9,
    )
    np.testing.assert_array_equal(
        boosted(RankBoost(rounds=10), Lesson(queries, start=half)).steps, half.steps
    )


def test_validation_queries_choose_the_rounds_on_top_of_a_given_scorer(queries: QuerySet) -> None:
    half = boosted(RankBoost(rounds=10), Lesson(queries))
    lesson = Lesson(queries, validation=queries.select(range(3)), towards=half, blocks="normalised")

    with collected() as notes:
        RankBoost(rounds=30, metric="map").fit(lesson)

    scores = half.score_rows(lesson.validation.documents)  # type: ignore[union-attr]
    rounds = boost(
        ThresholdRankers.of(queries.documents, 255),
        LevelPairs.of(queries, np.ones(len(queries)), 0.5),
        half.score_rows(queries.documents),
        30,
    )
    held = queries.select(range(3))
    judged = Judgements(held.labels, held.offsets)
    values = []
    for one in rounds:
        scores = scores + one.step * (held.documents[:, one.feature] > one.threshold)
        values.append(judged.per_query(scores, "map").mean())
    assert int(np.argmax(values)) + 1 == notes[-1].figures["rounds"]


def test_a_perfect_ranker_ends_the_boosting(judged: Judged) -> None:
    queries = judged([[[0.0, 7.0], [1.0, 3.0], [0.0, 5.0]]] * 2, [[0, 1, 0]] * 2)

    scorer = boosted(RankBoost(), Lesson(queries))

    np.testing.assert_array_equal(scorer.features, [0])
    assert scorer.steps[0] > 5
    assert np.isfinite(scorer.steps).all()


def test_a_query_of_weight_two_is_that_query_twice(queries: QuerySet) -> None:
    twice = boosted(RankBoost(), Lesson(queries.select([0, 1, 1, 2, 3, 4])))

    weighted = boosted(RankBoost(), Lesson(queries, weights=np.array([1.0, 2.0, 1.0, 1.0, 1.0])))

    np.testing.assert_allclose(
        weighted.score_rows(queries.documents), twice.score_rows(queries.documents), atol=1e-9
    )


def test_a_query_of_weight_zero_is_not_there(queries: QuerySet) -> None:
    four = queries.select([0, 1, 2, 4])

    weighted = boosted(
        RankBoost(thresholds="all"), Lesson(queries, weights=np.array([1.0, 1.0, 1.0, 0.0, 1.0]))
    )

    np.testing.assert_array_equal(
        weighted.score_rows(four.documents) > 0,
        boosted(RankBoost(thresholds="all"), Lesson(four)).score_rows(four.documents) > 0,
    )


def test_the_same_queries_give_the_same_bits(queries: QuerySet) -> None:
    np.testing.assert_array_equal(
        boosted(RankBoost(), Lesson(queries)).steps, boosted(RankBoost(), Lesson(queries)).steps
    )


def test_real_valued_labels_are_levels(judged: Judged) -> None:
    queries = judged([[[1.0], [2.0], [3.0], [4.0]]], [[0.1, 0.2, 0.35, 2.0]])

    scores = boosted(RankBoost(), Lesson(queries)).score_rows(queries.documents)

    assert (np.diff(scores) > 0).all()


@pytest.mark.parametrize(
    ("documents", "labels", "message"),
    [
        (np.eye(3), [1, 1, 1], "rankboost: expected two documents of one query with different labels"),
        (
            np.ones((3, 2)),
            [0, 1, 2],
            "rankboost: expected two documents of one query with different features",
        ),
        (
            [[1.0], [0.0], [1.0], [0.0]],
            [0, 0, 1, 1],
            "rankboost: expected a feature with a threshold that orders more pairs correctly than wrongly",
        ),
    ],
)
def test_what_teaches_nothing_is_refused(
    judged: Judged, documents: object, labels: list[int], message: str
) -> None:
    with pytest.raises(InvalidData, match=message):
        boosted(RankBoost(), Lesson(judged([documents], [labels])))


def test_a_scorer_that_cannot_be_improved_stays(judged: Judged) -> None:
    even = judged([[[1.0], [0.0], [1.0], [0.0]]], [[0, 0, 1, 1]])
    start = StumpScorer.of(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))

    assert RankBoost().fit(Lesson(even, towards=start, blocks="normalised")) is start


def test_missing_values_are_refused_by_name(queries: QuerySet) -> None:
    broken = replace(queries, labels=np.where(np.arange(queries.n_docs) == 10, np.nan, queries.labels))
    with pytest.raises(InvalidData, match="rankboost: query '1': expected a finite label, found nan"):
        boosted(RankBoost(), Lesson(broken))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rounds": 0}, "learner 'rankboost': rounds: expected at least 1, found 0"),
        ({"thresholds": "many"}, "thresholds: expected a whole number or 'all', found 'many'"),
        ({"balance": 2}, "balance: expected at most 1, found 2"),
        ({"blocks": "lists"}, "blocks: expected one of raw, .*, found 'lists'; did you mean 'list'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make("rankboost", values)


def test_a_perfect_ranker_has_the_step_of_a_rate_just_below_one(judged: Judged) -> None:
    """The rate is cut at 1 - 1e-6, so the step is half the logarithm of about two millions."""
    queries = judged([[[0.0], [1.0], [0.0]]], [[0, 1, 0]])

    (only,) = boost(
        ThresholdRankers.of(queries.documents, 255), LevelPairs.of(queries, np.ones(1), 0.5), np.zeros(3), 100
    )

    assert (0, 0.5) == (only.feature, only.threshold)
    assert only.r == pytest.approx(1.0)
    assert only.step == pytest.approx(0.5 * np.log((2 - 1e-6) / 1e-6))
    assert only.z == pytest.approx(np.exp(-only.step))


def test_a_ranker_may_prefer_small_values(judged: Judged) -> None:
    queries = judged([[[3.0], [1.0], [2.0]]], [[0, 1, 0]])

    scorer = boosted(RankBoost(), Lesson(queries))

    assert ([0], [1.5]) == (scorer.features.tolist(), scorer.thresholds.tolist())
    assert scorer.steps[0] < -5


@pytest.mark.parametrize(
    ("column", "most", "expected"),
    [
        ([0.0] * 900 + list(range(1, 101)), 2, [0.5]),
        ([100.0] * 900 + list(range(100)), 2, [99.5]),
        ([0.0, 1.0, 2.0, 3.0], 3, [0.5, 1.5, 2.5]),
        ([0.0, 1.0, 2.0, 3.0], 4, [0.5, 1.5, 2.5]),
    ],
)
def test_a_quantile_among_equal_values_is_the_threshold_that_ends_them(
    column: list[float], most: int, expected: list[float]
) -> None:
    thresholds = ThresholdRankers.of(np.array(column, np.float32)[:, None], most)

    assert expected == thresholds.values[0].tolist()


def test_sums_above_a_threshold_are_those_of_the_documents() -> None:
    rng = np.random.default_rng(0)
    documents = np.column_stack([np.round(rng.standard_normal(30)), np.ones(30), rng.standard_normal(30)])
    potential = rng.standard_normal(30)
    thresholds = ThresholdRankers.of(documents.astype(np.float32), "all")

    found = thresholds.sums_above(potential)

    assert (3, 29) == found.shape
    expected = np.zeros((3, 29))
    for feature, values in enumerate(thresholds.values):
        for number, value in enumerate(values):
            above = documents[:, feature] > value
            expected[feature, number] = potential[above].sum()
            np.testing.assert_array_equal(above, thresholds.above(feature, number))
            assert value == thresholds.value(feature, number)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_note_is_of_the_rounds_that_validation_queries_keep(queries: QuerySet) -> None:
    taught, held = queries.select([0, 1, 2]), queries.select([3, 4])

    with collected() as notes:
        learner = RankBoost(rounds=30, metric="map")
        scorer = boosted(learner, Lesson(taught, validation=held))

    kept = int(notes[0].figures["rounds"])
    assert 1 < kept < 30
    rounds = boost(
        ThresholdRankers.of(taught.documents, 255),
        LevelPairs.of(taught, np.ones(3), 0.5),
        np.zeros(taught.n_docs),
        30,
    )
    bound = np.prod([one.z for one in rounds[:kept]])
    assert notes[0].figures["bound"] == pytest.approx(bound)
    assert notes[0].text == (
        f"{kept} of 30 rounds kept; at most {bound:.4f} of the weighted training pairs are ordered wrongly"
    )
    settled = learner.settled(notes)
    assert kept == settled.rounds
    np.testing.assert_array_equal(scorer.steps, boosted(settled, Lesson(taught)).steps)


def test_rounds_are_settled_as_noted_and_one_is_the_least(judged: Judged) -> None:
    even = judged([[[1.0], [0.0], [1.0], [0.0]]], [[0, 0, 1, 1]])
    start = StumpScorer.of(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    learner = RankBoost(rounds=50)

    with collected() as notes:
        learner.fit(Lesson(even, towards=start, blocks="normalised"))

    assert {"rounds": 0} == notes[0].figures
    assert 1 == learner.settled(notes).rounds
    assert learner.settled([]) is learner


def test_the_settings_are_those_that_the_page_lists() -> None:
    assert listed("rankboost") == declared("rankboost")
    assert LEARNERS["rankboost"].continues is True
