"""Multiple hyperplanes: which base rankers there are, how weights are fitted, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.metrics import Judgements
from localrank.scorers import BordaScorer, LinearScorer, Scorer
from localrank.scorers.combination import ranked_behind
from localrank_papers.learners.mhr import MultipleHyperplanes, Part, fit_weights
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import Note, collected
from localrank_training.learners.ranksvm import RankSvm
from tests.core.clouds import as_cloud
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged


def graded(judged: Judged, n_levels: int, seed: int = 0) -> QuerySet:
    rng = np.random.default_rng(seed)
    clouds = [rng.standard_normal((n, 4)) for n in (19, 30, 17, 21, 26)]
    labels = [
        np.clip(np.round(cloud[:, 0] + cloud[:, 1] ** 2 + rng.standard_normal(len(cloud))), 0, n_levels - 1)
        for cloud in clouds
    ]
    return judged(clouds, labels)


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    return graded(judged, 3)


def only(queries: QuerySet, labels: set[float], judged: Judged) -> QuerySet:
    """The queries without the documents of other labels."""
    kept = [np.isin(queries.labels_of(q), list(labels)) for q in range(len(queries))]
    return judged(
        [queries.documents_of(q)[rows] for q, rows in enumerate(kept)],
        [queries.labels_of(q)[rows] for q, rows in enumerate(kept)],
    )


def planes(scorer: Scorer) -> list[np.ndarray]:
    assert isinstance(scorer, BordaScorer)
    return [member.weights for member in scorer.members() if isinstance(member, LinearScorer)]


@pytest.mark.parametrize("n_levels", [3, 4, 5])
def test_k_levels_have_a_ranker_per_pair(judged: Judged, n_levels: int) -> None:
    scorer = MultipleHyperplanes().fit(Lesson(graded(judged, n_levels)))

    assert isinstance(scorer, BordaScorer)
    assert scorer.rule == "borda"
    assert len(scorer.members()) == n_levels * (n_levels - 1) / 2
    np.testing.assert_allclose(scorer.weights, 1 / len(scorer.members()))


def test_a_pair_of_levels_is_ranksvm_on_those_documents(queries: QuerySet, judged: Judged) -> None:
    weights = np.array([1.0, 2.0, 0.5, 0.0, 1.0])

    found = planes(MultipleHyperplanes(C=3.0, balance=1.0).fit(Lesson(queries, weights=weights)))

    svm = RankSvm(C=3.0, balance=1.0)
    for plane, pair in zip(found, [{0.0, 1.0}, {0.0, 2.0}, {1.0, 2.0}], strict=True):
        alone = svm.fit(Lesson(only(queries, pair, judged), weights=weights))
        np.testing.assert_allclose(plane, alone.weights, atol=1e-6)


def test_two_levels_are_ranksvm(judged: Judged) -> None:
    binary = graded(judged, 2)

    scorer = MultipleHyperplanes(C=2.0).fit(Lesson(binary))

    assert isinstance(scorer, LinearScorer)
    np.testing.assert_array_equal(scorer.weights, RankSvm(C=2.0).fit(Lesson(binary)).weights)


def test_adjacent_pairs_only(queries: QuerySet) -> None:
    every = planes(MultipleHyperplanes().fit(Lesson(queries)))

    adjacent = planes(MultipleHyperplanes(base="adjacent").fit(Lesson(queries)))

    assert len(adjacent) == 2
    np.testing.assert_array_equal(adjacent[0], every[0])
    np.testing.assert_array_equal(adjacent[1], every[2])


def test_overlapping_rankers_part_all_levels_at_one_border(queries: QuerySet) -> None:
    found = planes(MultipleHyperplanes(base="overlapping").fit(Lesson(queries)))

    assert len(found) == 2
    for plane, border in zip(found, (1, 2), strict=True):
        binary = replace(queries, labels=(queries.labels >= border).astype(float))
        np.testing.assert_array_equal(plane, RankSvm().fit(Lesson(binary)).weights)


def test_sampled_rankers_see_some_queries_and_depend_on_the_seed_only(queries: QuerySet) -> None:
    sampled = MultipleHyperplanes(base="sampled", samples=6, share=0.4, seed=7)
    single = [
        RankSvm().fit(Lesson(queries.select([i, j]))).weights for i in range(5) for j in range(i + 1, 5)
    ]

    found = planes(sampled.fit(Lesson(queries)))

    assert len(found) == 6
    for plane in found:
        assert min(float(np.abs(plane - one).max()) for one in single) < 1e-5
    for plane, again in zip(found, planes(sampled.fit(Lesson(queries))), strict=True):
        np.testing.assert_array_equal(plane, again)
    assert any(
        not np.array_equal(plane, other)
        for plane, other in zip(found, planes(replace(sampled, seed=8).fit(Lesson(queries))), strict=True)
    )


@pytest.mark.parametrize("aggregate", ["borda", "median", "markov", "scores"])
def test_the_aggregation_is_a_setting(queries: QuerySet, aggregate: Any) -> None:
    scorer = MultipleHyperplanes(aggregate=aggregate).fit(Lesson(queries))

    assert isinstance(scorer, BordaScorer)
    assert scorer.rule == aggregate
    scores = np.concatenate([scorer.score(as_cloud(cloud)) for cloud in queries.clouds()])
    assert Judgements(queries.labels, queries.offsets).per_query(scores, "map").mean() > 0.5


def test_weights_may_be_set_by_pair_of_levels(queries: QuerySet) -> None:
    learner = make("mhr", {"weights": {"0-2": 3, "1-2": 0}})

    scorer = learner.fit(Lesson(queries))

    assert isinstance(scorer, BordaScorer)
    np.testing.assert_array_equal(scorer.weights, [1.0, 3.0, 0.0])


def test_weights_by_level_hold_if_a_cluster_lacks_a_level(queries: QuerySet) -> None:
    """Without documents of level 0 only the pair (1, 2) is left; a list of weights would not fit."""
    labels = np.maximum(queries.labels, 1.0)
    labels[queries.span(0)] = queries.labels_of(0) + 1
    learner = make("mhr", {"weights": {"0-1": 5, "1-2": 2, "2-3": 7}})

    with collected() as notes:
        scorer = learner.fit(Lesson(replace(queries, labels=labels)))

    assert isinstance(scorer, BordaScorer)
    np.testing.assert_array_equal(scorer.weights, [2.0, 1.0, 7.0])
    assert ["weights: no base ranker has the levels '0-1' (there are 1-2, 1-3, 2-3)"] == [
        n.text for n in notes
    ]


def test_weights_of_overlapping_rankers_are_set_by_their_border(queries: QuerySet) -> None:
    scorer = make("mhr", {"base": "overlapping", "weights": {"2": 4}}).fit(Lesson(queries))

    assert isinstance(scorer, BordaScorer)
    np.testing.assert_array_equal(scorer.weights, [1.0, 4.0])


def test_weights_by_hand_are_used_with_any_aggregation(queries: QuerySet) -> None:
    for aggregate in ("borda", "weighted_borda", "scores"):
        scorer = MultipleHyperplanes(aggregate=aggregate, weights=(3.0, 0.0, 1.0)).fit(Lesson(queries))
        assert isinstance(scorer, BordaScorer)
        np.testing.assert_array_equal(scorer.weights, [3.0, 0.0, 1.0])


def behind(rankers: list[LinearScorer], queries: QuerySet) -> np.ndarray:
    return np.array(
        [np.concatenate([ranked_behind(one.score_rows(c)) for c in queries.clouds()]) for one in rankers]
    )


@pytest.mark.parametrize("metric", ["map", "ndcg@3"])
def test_fitted_weights_of_two_rankers_are_the_best_on_the_grid(queries: QuerySet, metric: str) -> None:
    rng = np.random.default_rng(3)
    rankers = [LinearScorer(rng.standard_normal(4)) for _ in range(2)]
    counted = np.array([1.0, 2.0, 0.0, 1.0, 0.5])
    judgements = Judgements(queries.labels, queries.offsets)

    weights, value = fit_weights(rankers, queries, metric, counted)

    ranks = behind(rankers, queries)
    values = {
        step: counted
        @ judgements.per_query(step / 20 * ranks[0] + (1 - step / 20) * ranks[1], metric)
        / counted.sum()
        for step in range(21)
    }
    np.testing.assert_allclose(value, max(values.values()))
    np.testing.assert_allclose(weights.sum(), 1.0)
    np.testing.assert_allclose(value, counted @ judgements.per_query(weights @ ranks, metric) / counted.sum())


def test_no_change_of_one_share_improves_fitted_weights(queries: QuerySet) -> None:
    rng = np.random.default_rng(5)
    rankers = [LinearScorer(rng.standard_normal(4)) for _ in range(4)]
    judgements = Judgements(queries.labels, queries.offsets)
    ranks = behind(rankers, queries)

    weights, value = fit_weights(rankers, queries, "map", np.ones(5))

    assert value > judgements.per_query(ranks.mean(axis=0), "map").mean()
    for number in range(4):
        others = np.where(np.arange(4) == number, 0, weights)
        for step in range(20 if others.any() else 0):
            tried = (1 - step / 20) * others / others.sum() + step / 20 * (np.arange(4) == number)
            assert judgements.per_query(tried @ ranks, "map").mean() <= value + 1e-9


def test_weighted_borda_fits_its_weights_on_the_training_queries(queries: QuerySet) -> None:
    with collected() as notes:
        scorer = MultipleHyperplanes(aggregate="weighted_borda", metric="map").fit(Lesson(queries))

    assert isinstance(scorer, BordaScorer)
    assert scorer.rule == "borda"
    members = [m for m in scorer.members() if isinstance(m, LinearScorer)]
    expected, value = fit_weights(members, queries, "map", np.ones(5))
    np.testing.assert_array_equal(scorer.weights, expected)
    assert f"reach map {value:.4f} on training queries" in notes[0].text


def test_weights_may_be_fitted_on_validation_queries(queries: QuerySet, judged: Judged) -> None:
    held = graded(judged, 3, seed=1)
    learner = MultipleHyperplanes(aggregate="weighted_borda", fitted_on="validation")

    scorer = learner.fit(Lesson(queries, validation=held))

    assert isinstance(scorer, BordaScorer)
    members = [m for m in scorer.members() if isinstance(m, LinearScorer)]
    np.testing.assert_array_equal(scorer.weights, fit_weights(members, held, "ndcg@10", np.ones(5))[0])
    with pytest.raises(InvalidConfiguration, match="mhr: fitted_on: expected validation queries, found none"):
        learner.fit(Lesson(queries))


def test_a_pair_of_levels_that_no_query_has_is_left_out_and_noted(judged: Judged) -> None:
    rng = np.random.default_rng(0)
    labels = [[0, 0, 1, 1], [0, 0, 2, 2], [0, 1, 0, 1]]
    queries = judged([rng.standard_normal((4, 3)) for _ in labels], labels)

    with collected() as notes:
        scorer = MultipleHyperplanes().fit(Lesson(queries))

    assert len(planes(scorer)) == 2
    assert [one.text for one in notes] == [
        "no base ranker for labels 1 and 2: no query has a pair of such documents"
    ]
    weighted = MultipleHyperplanes(weights=(3.0, 1.0, 5.0)).fit(Lesson(queries))
    assert isinstance(weighted, BordaScorer)
    np.testing.assert_array_equal(weighted.weights, [3.0, 1.0])


def test_weights_by_hand_know_their_level_where_a_cluster_lacks_one(judged: Judged) -> None:
    rng = np.random.default_rng(0)
    queries = judged([rng.standard_normal((4, 3))] * 2, [[0, 0, 2, 2], [0, 2, 3, 3]])
    named = MultipleHyperplanes(weights=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), levels=(0, 1, 2, 3))

    scorer = named.fit(Lesson(queries))

    assert isinstance(scorer, BordaScorer)
    np.testing.assert_array_equal(scorer.weights, [2.0, 3.0, 6.0])
    with pytest.raises(
        InvalidData, match=r"as many base rankers as weights \(6\), found 3 to learn; set levels"
    ):
        replace(named, levels=None).fit(Lesson(queries))


def test_equal_weights_where_those_by_hand_leave_nothing(judged: Judged) -> None:
    rng = np.random.default_rng(0)
    labels = [[0, 0, 1, 1], [0, 0, 2, 2]]
    queries = judged([rng.standard_normal((4, 3)) for _ in labels], labels)

    with collected() as notes:
        scorer = MultipleHyperplanes(weights=(0.0, 0.0, 5.0)).fit(Lesson(queries))

    assert isinstance(scorer, BordaScorer)
    np.testing.assert_array_equal(scorer.weights, [0.5, 0.5])
    assert "equal weights" in notes[1].text


def test_a_start_does_not_change_the_optimum(queries: QuerySet) -> None:
    cold = MultipleHyperplanes().fit(Lesson(queries))

    for start in (cold, LinearScorer(np.ones(4)), MultipleHyperplanes(base="adjacent").fit(Lesson(queries))):
        warm = MultipleHyperplanes().fit(Lesson(queries, start=start))
        for plane, other in zip(planes(warm), planes(cold), strict=True):
            np.testing.assert_allclose(plane, other, atol=1e-5)


def test_real_valued_labels_are_no_levels(judged: Judged) -> None:
    rng = np.random.default_rng(0)
    queries = judged([rng.standard_normal((30, 3))], [rng.random(30)])

    with pytest.raises(InvalidData, match=r"mhr: expected at most 16 different labels.*found 30"):
        MultipleHyperplanes().fit(Lesson(queries))
    assert len(planes(MultipleHyperplanes(base="sampled", samples=2).fit(Lesson(queries)))) == 2


@pytest.mark.parametrize(
    ("documents", "labels", "message"),
    [
        (np.eye(3), [1, 1, 1], "mhr: expected two documents of one query with different labels"),
        (np.ones((3, 2)), [0, 1, 2], "mhr: expected two documents of one query with different features"),
    ],
)
def test_what_teaches_nothing_is_refused(
    judged: Judged, documents: np.ndarray, labels: list[int], message: str
) -> None:
    with pytest.raises(InvalidData, match=message):
        MultipleHyperplanes().fit(Lesson(judged([documents], [labels])))


def test_levels_that_are_not_there_are_refused(queries: QuerySet) -> None:
    with pytest.raises(
        InvalidData, match="mhr: expected documents of one query with different labels and features"
    ):
        MultipleHyperplanes(levels=(7.0, 8.0)).fit(Lesson(queries))


def test_missing_values_are_refused_by_name(queries: QuerySet) -> None:
    broken = queries.documents.copy()
    broken[0, 1] = np.nan
    with pytest.raises(InvalidData, match="mhr: query '0', feature 'f2': expected a finite value, found nan"):
        MultipleHyperplanes().fit(Lesson(queries.with_documents(broken)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"C": 0}, "learner 'mhr': C: expected more than 0"),
        ({"weights": [1.0, -1.0]}, "learner 'mhr': weights: expected at least 0, found -1.0"),
        ({"weights": [0.0, 0.0]}, "learner 'mhr': weights: expected at least one positive, found none"),
        ({"aggregate": "mean"}, "aggregate: expected one of 'borda', 'weighted_borda', 'median'"),
        ({"metric": "ndgc"}, "learner 'mhr': metric: metric 'ndgc': expected one of map"),
        ({"share": 1.5}, "share: expected at most 1, found 1.5"),
    ],
)
def test_settings_that_do_not_fit_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make("mhr", values)


def test_one_ranker_may_hold_all_the_weight(judged: Judged) -> None:
    """Its ranking is right, and a twentieth of any other is enough to spoil it."""
    right = np.arange(40.0)[::-1]
    # What the others have first is second, and the other way round.
    wrong = np.argsort(np.argsort(np.concatenate([[0.0, 1e3], np.arange(1.0, 39)])))
    queries = judged([np.column_stack([right, wrong, wrong])], [np.eye(40)[0]])
    rankers = [LinearScorer(np.eye(3)[number]) for number in range(3)]

    weights, value = fit_weights(rankers, queries, "map", np.ones(1))

    np.testing.assert_array_equal([1.0, 0.0, 0.0], weights)
    assert 1.0 == value


def parts_of(queries: QuerySet, weights: np.ndarray | None = None, **settings: Any) -> list[Part]:
    return list(MultipleHyperplanes(**settings).parts(Lesson(queries, weights)))


def test_sixteen_levels_are_the_most_that_have_a_ranker_for_each_pair(judged: Judged) -> None:
    cloud = np.random.default_rng(0).standard_normal((17, 2))

    assert 120 == len(parts_of(judged([cloud[:16]], [np.arange(16)])))
    with pytest.raises(InvalidData, match=r"expected at most 16 different labels.*found 17"):
        parts_of(judged([cloud], [np.arange(17)]))


def test_parts_are_named_by_their_levels_and_hold_their_documents(judged: Judged) -> None:
    """Minus zero is zero; the labels of a query that does not count are no levels."""
    queries = judged([np.ones((4, 1)), np.ones((2, 1))], [[-0.0, 2, 0, 1.5], [7, 0]])
    counted = np.array([3.0, 0.0])

    pairs = parts_of(queries, counted)
    borders = parts_of(queries, counted, base="overlapping")

    assert ["0-1.5", "0-2", "1.5-2"] == [one.levels for one in pairs]
    assert ["labels 0 and 1.5", "labels 0 and 2", "labels 1.5 and 2"] == [one.name for one in pairs]
    assert [[0, 2, 3, 5], [0, 1, 2, 5], [1, 3]] == [np.flatnonzero(one.documents).tolist() for one in pairs]
    assert ["0-1.5", "1.5-2"] == [one.levels for one in parts_of(queries, counted, base="adjacent")]
    assert [("1.5", "labels below and from 1.5 on"), ("2", "labels below and from 2 on")] == [
        (one.levels, one.name) for one in borders
    ]
    assert [[0, 1, 0, 1, 1, 0], [0, 1, 0, 0, 1, 0]] == [one.labels.tolist() for one in borders]
    for one in (*pairs, *borders):
        np.testing.assert_array_equal(counted, one.weights)
    assert all(one.documents.all() for one in borders)


@pytest.mark.parametrize(("share", "size"), [(0.01, 1), (0.5, 2), (0.8, 3), (1.0, 4)])
def test_a_sample_is_a_share_of_the_queries_that_count_with_their_weights(
    queries: QuerySet, share: float, size: int
) -> None:
    weights = np.array([1.0, 2.0, 0.0, 3.0, 4.0])

    samples = parts_of(queries, weights, base="sampled", samples=20, share=share)

    assert [f"sample {number}" for number in range(20)] == [one.name for one in samples]
    drawn = np.array([one.weights for one in samples])
    np.testing.assert_array_equal((drawn > 0).sum(axis=1), size)
    np.testing.assert_array_equal(drawn, np.where(drawn > 0, weights, 0.0))
    # Each of the four is drawn by some sample: chance (3/4)^20 that one is not.
    assert [0, 1, 3, 4] == np.flatnonzero(drawn.any(axis=0)).tolist()
    assert all(one.documents.all() and not one.levels for one in samples)


def test_shares_of_two_rankers_are_twentieths(queries: QuerySet) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        rankers = [LinearScorer(rng.standard_normal(4)) for _ in range(2)]

        weights, _ = fit_weights(rankers, queries, "map", np.ones(5))

        np.testing.assert_allclose(20 * weights, np.round(20 * weights), atol=1e-9)


def test_rankers_that_agree_keep_equal_shares(queries: QuerySet) -> None:
    """No share is better than another, and only a better value changes anything."""
    plane = LinearScorer(np.array([1.0, 2.0, 0.5, -1.0]))

    weights, _ = fit_weights([plane, plane, plane], queries, "map", np.ones(5))

    np.testing.assert_array_equal(np.full(3, 1 / 3), weights)


def test_weights_that_validation_queries_chose_are_kept(queries: QuerySet, judged: Judged) -> None:
    learner = MultipleHyperplanes(aggregate="weighted_borda", fitted_on="validation")
    with collected() as notes:
        chosen = learner.fit(Lesson(queries, validation=graded(judged, 3, seed=1)))

    settled = learner.settled(notes)

    assert isinstance(chosen, BordaScorer)
    assert tuple(chosen.weights.tolist()) == settled.weights
    again = settled.fit(Lesson(queries))
    assert isinstance(again, BordaScorer)
    np.testing.assert_array_equal(chosen.weights, again.weights)


def test_a_ranker_that_could_not_be_learned_is_kept_without_weight() -> None:
    learner = MultipleHyperplanes(aggregate="weighted_borda", fitted_on="validation")
    figures = {"weight 0": 0.25, "weight 2": 0.75}

    assert (0.25, 0.0, 0.75) == learner.settled([Note("mhr", "", figures)]).weights
    assert 120 == len(learner.settled([Note("mhr", "", {"weight 119": 1.0})]).weights or ())
    assert learner.settled([Note("mhr", "nothing fitted")]) is learner
    trained = replace(learner, fitted_on="training")
    assert trained.settled([Note("mhr", "", figures)]) is trained


def test_the_settings_are_those_that_the_page_lists() -> None:
    assert listed("mhr") == declared("mhr")
    assert LEARNERS["mhr"].continues is True


def test_base_rankers_go_on_from_those_at_the_same_place(queries: QuerySet) -> None:
    """With hardly any weight on the loss, each stays what it is learned towards."""
    given = BordaScorer(tuple(LinearScorer(np.eye(4)[place]) for place in range(3)), np.ones(3) / 3)
    lesson = Lesson(queries, towards=given, blocks="normalised")

    pulled = MultipleHyperplanes(C=1e-9).fit(lesson)
    free = MultipleHyperplanes(C=1.0).fit(lesson)

    np.testing.assert_allclose(planes(pulled), np.eye(4)[:3], atol=1e-6)
    for part, (towards, found) in enumerate(zip(given.rankers, planes(free), strict=True)):
        (one,) = [part_ for number, part_ in enumerate(MultipleHyperplanes().parts(lesson)) if number == part]
        alone = RankSvm(C=1.0).fit(Lesson(one.of(queries), one.weights, towards=towards, blocks="normalised"))
        np.testing.assert_allclose(found, alone.weights, atol=1e-9)


def test_all_base_rankers_go_on_from_the_only_one(queries: QuerySet) -> None:
    given = LinearScorer(np.array([1.0, -2.0, 0.5, 0.0]))

    pulled = MultipleHyperplanes(C=1e-9).fit(Lesson(queries, towards=given, blocks="normalised"))

    np.testing.assert_allclose(planes(pulled), [given.weights] * 3, atol=1e-6)


def test_another_number_of_hyperplanes_cannot_be_continued(queries: QuerySet) -> None:
    given = BordaScorer((LinearScorer(np.ones(4)), LinearScorer(np.eye(4)[0])), np.ones(2) / 2)

    with pytest.raises(
        InvalidConfiguration,
        match="mhr: towards: expected a scorer of 3 hyperplanes, one for each base ranker, found another number",
    ):
        MultipleHyperplanes().fit(Lesson(queries, towards=given, blocks="normalised"))


def test_no_ranker_has_more_than_all_of_the_weight(judged: Judged) -> None:
    """The first one leans a little to the second, of which a weight below zero would be the cure."""
    cloud = np.random.default_rng(0).standard_normal((200, 2))
    queries = judged([cloud], [np.round(cloud[:, 0] * 4) - np.round(cloud[:, 0] * 4).min()])
    rankers = [LinearScorer(np.array([1.0, 0.2])), LinearScorer(np.array([0.0, 1.0]))]

    weights, _ = fit_weights(rankers, queries, "ndcg@100", np.ones(1))

    assert [1.0, 0.0] == weights.tolist()
