"""A blend: what its members score without having seen a query, who is left out, and what clusters share."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.scorers import LinearScorer
from localrank.scorers.combination import standardised
from localrank_training.learners.blend import Blend
from localrank_training.learners.catalogue import make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.linear import LeastSquares
from localrank_training.learners.notes import collected
from localrank_training.learners.out_of_fold import OutOfFold, parts_of
from localrank_training.learners.seen import scores_of

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged

LINEAR = {"method": "linear", "blocks": "raw", "ridge": 0.1}
TREES = {"method": "extra_trees", "blocks": "raw", "trees": 20, "min_samples_leaf": 2}


def blend(*members: dict[str, Any], **settings: Any) -> Blend:
    made = make("blend", {"members": list(members or (LINEAR, TREES)), **settings})
    assert isinstance(made, Blend)
    return made


def made(judged: Judged, n_queries: int = 24, seed: int = 0, *, signal: float = 1.0) -> QuerySet:
    rng = np.random.default_rng(seed)
    clouds = [rng.standard_normal((int(rng.integers(4, 15)), 4)) for _ in range(n_queries)]
    labels = [
        np.clip(np.round(1 + signal * cloud[:, 0] + rng.normal(0, 0.5, len(cloud))), 0, 2) for cloud in clouds
    ]
    return judged(clouds, labels)


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    return made(judged)


def scored_by(learner: Blend, lesson: Lesson) -> OutOfFold:
    found = learner.out_of_fold(lesson)
    assert found is not None
    return found


def test_the_score_is_the_weighted_sum_of_standardised_members(queries: QuerySet) -> None:
    scorer = blend().fit(Lesson(queries))

    assert [ranker.kind for ranker in scorer.rankers] == ["linear", "trees"]
    found = scores_of(scorer, Lesson(queries))
    for query in (0, 5):
        rows = queries.select([query])
        expected = sum(
            weight * standardised(scores_of(ranker, Lesson(rows)))
            for weight, ranker in zip(scorer.weights, scorer.rankers, strict=True)
        )
        np.testing.assert_allclose(found[queries.span(query)], expected)


def test_members_are_what_they_would_be_alone(queries: QuerySet) -> None:
    """A candidate alone is no choice, so the member is the learner on all queries."""
    scorer = blend().fit(Lesson(queries))

    alone = LeastSquares(ridge=0.1, blocks="raw").fit(Lesson(queries))
    assert isinstance(scorer.rankers[0], LinearScorer)
    np.testing.assert_array_equal(scorer.rankers[0].weights, alone.weights)


def test_every_query_is_scored_by_models_that_have_not_seen_it(queries: QuerySet) -> None:
    lesson = Lesson(queries)

    found = scored_by(blend(parts=3), lesson)

    assert sorted(set(found.part_of.tolist())) == [0, 1, 2]
    for query in (0, 7, 20):
        others = np.flatnonzero(found.part_of != found.part_of[query])
        model = LeastSquares(ridge=0.1, blocks="raw").fit(lesson.select(others))
        own = standardised(model.score_rows(queries.documents_of(query)))
        np.testing.assert_allclose(found.tried[0].scores[0, queries.span(query)], own)


def test_a_member_that_learns_by_heart_is_found_out(judged: Judged) -> None:
    """Labels that no feature explains: trees with leaves of one document know them all, and nothing of new queries."""
    queries = made(judged, 60, signal=0.0)
    learner = blend({**TREES, "trees": 50, "min_samples_leaf": 1})

    found = scored_by(learner, Lesson(queries))

    figures = found.figures[0][0]
    by_heart = scores_of(learner.fit(Lesson(queries)), Lesson(queries))
    chance = found.figure(np.random.default_rng(0).normal(size=queries.n_docs))
    assert np.nanmean(found.figure(by_heart)) > 0.98
    assert np.nanmean(figures) == pytest.approx(np.nanmean(chance), abs=0.08)
    assert np.nanmean(found.figure(found.nested()[0])) == pytest.approx(np.nanmean(chance), abs=0.08)


def test_settings_are_chosen_by_queries_that_were_held_out(queries: QuerySet) -> None:
    learner = blend(
        {"method": "linear", "blocks": "raw", "ridge": [0.1, 1e9]}, {**TREES, "min_samples_leaf": [2, 60]}
    )

    found = scored_by(learner, Lesson(queries))
    scorer = learner.fit(Lesson(queries))

    means = [[np.nanmean(one) for one in of_member] for of_member in found.figures]
    assert found.weigh().candidates == tuple(int(np.argmax(of_member)) for of_member in means)
    ridge = (0.1, 1e9)[found.weigh().candidates[0]]
    alone = LeastSquares(ridge=ridge, blocks="raw").fit(Lesson(queries))
    assert isinstance(scorer.rankers[0], LinearScorer)
    np.testing.assert_array_equal(scorer.rankers[0].weights, alone.weights)


def test_the_order_of_documents_in_the_file_is_no_score(queries: QuerySet) -> None:
    """A list that is sorted by its labels pays no member that scores all documents alike."""
    by_label = np.lexsort((-queries.labels, queries.query_of))
    found = scored_by(
        blend(),
        Lesson(
            replace(queries, documents=queries.documents[by_label], labels=queries.labels[by_label]),
        ),
    )

    flat = np.nanmean(found.figure(np.zeros(queries.n_docs)))

    at_random = [found.figure(np.random.default_rng(draw).random(queries.n_docs)) for draw in range(20)]
    assert flat == pytest.approx(np.nanmean(at_random), abs=0.08)
    assert np.nanmean(found.figure(found.labels)) == 1.0


def test_a_nested_figure_does_not_use_a_part_to_choose_for_it(queries: QuerySet) -> None:
    """Other labels in one part change what is chosen for the others, and nothing of its own scores."""
    found = scored_by(blend(), Lesson(queries))
    part = found.part_of == 0
    rows = found.rows_of(part)
    labels = found.labels.copy()
    labels[rows] = 2 - labels[rows]
    swapped = OutOfFold(
        found.tried,
        labels,
        found.offsets,
        found.shares,
        found.part_of,
        type(found.pairs).of(labels, found.offsets, found.shares, most=150, seed=0),
    )

    before, after = found.nested()[0], swapped.nested()[0]

    np.testing.assert_array_equal(before[rows], after[rows])
    assert (before[~rows] != after[~rows]).any()


def test_a_query_that_counts_twice_counts_twice(queries: QuerySet) -> None:
    twice = np.ones(len(queries))
    twice[:5] = 2.0
    found = scored_by(blend(), Lesson(queries, twice))

    figures = found.figures[0][0]

    known = ~np.isnan(figures)
    everything = np.ones(len(queries), np.bool_)
    expected = (twice * figures)[known].sum() / twice[known].sum()
    assert found.mean(figures, everything) == pytest.approx(expected)
    assert found.pairs.shares.sum() > len(set(found.pairs.query.tolist()))


def test_a_member_that_cannot_learn_is_left_out_and_the_others_are_weighed_again(queries: QuerySet) -> None:
    hopeless = {"method": "lambdamart", "blocks": "raw", "min_data_in_leaf": 10_000}

    with collected() as notes:
        scorer = blend(LINEAR, hopeless, TREES).fit(Lesson(queries))

    without = blend(LINEAR, TREES).fit(Lesson(queries))
    np.testing.assert_array_equal(scorer.weights, without.weights)
    assert len(scorer.rankers) == 2
    assert [one.text for one in notes if "left out: lambdamart" in one.text]


def test_nothing_left_is_an_error(queries: QuerySet) -> None:
    hopeless = {"method": "lambdamart", "blocks": "raw", "min_data_in_leaf": 10_000}
    with pytest.raises(InvalidData, match="lambdamart: expected documents that a tree can split"):
        blend(hopeless).fit(Lesson(queries))


@pytest.mark.parametrize("n_queries", [1, 2, 7])
def test_of_few_queries_all_members_count_the_same(judged: Judged, n_queries: int) -> None:
    queries = made(judged, n_queries, seed=3)

    with collected() as notes:
        scorer = blend().fit(Lesson(queries))

    assert set(scorer.weights.tolist()) == {1.0}
    assert [one.text for one in notes if "all members get the same weight" in one.text]


def test_parts_hold_as_many_queries_that_teach(judged: Judged) -> None:
    queries = made(judged, 40)
    labels = queries.labels.copy()
    for query in range(25):
        labels[queries.span(query)] = 0.0
    some = Lesson(replace(queries, labels=labels))

    part_of = parts_of(some, 4, 0)

    assert max(np.bincount(part_of[25:])) - min(np.bincount(part_of[25:])) <= 1
    assert min(np.bincount(part_of)) >= 9


def test_a_clusters_blend_has_its_own_local_member_and_shares_the_rest(queries: QuerySet) -> None:
    learner = blend(LINEAR, TREES, local=1)
    globally = learner.fit(Lesson(queries))
    some = np.linspace(0.01, 2.0, len(queries))

    own = learner.fit(Lesson(queries, some, towards=globally))

    assert own.rankers[1] is globally.rankers[1]
    np.testing.assert_array_equal(own.weights, globally.weights)
    expected = LeastSquares(ridge=0.1, blocks="raw").fit(Lesson(queries, some))
    assert isinstance(own.rankers[0], LinearScorer)
    np.testing.assert_array_equal(own.rankers[0].weights, expected.weights)


def test_without_a_local_member_clusters_are_alike(queries: QuerySet) -> None:
    learner = blend(LINEAR, TREES)
    globally = learner.fit(Lesson(queries))

    assert learner.fit(Lesson(queries, towards=globally)) is globally


def test_a_blend_continues_blends_only(queries: QuerySet) -> None:
    linear = LinearScorer(np.ones(4), blocks="raw")
    with pytest.raises(
        InvalidConfiguration, match="blend: towards: expected a blend, found a scorer of kind 'linear'"
    ):
        blend().fit(Lesson(queries, towards=linear))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"members": [3]}, "members 1: expected a table of settings, found 3"),
        ({"members": [{"method": "nothing"}]}, "no learner 'nothing'"),
        ({"members": [LINEAR], "local": 2}, "local: expected at most 1, the number of members, found 2"),
        ({"parts": 1}, "parts: expected at least 2, found 1"),
        ({"members": [{"method": "ranksvm", "C": [1.0, -1.0]}]}, "C: expected more than 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make("blend", settings)


def test_the_default_members_are_of_four_families() -> None:
    found = Blend()

    assert {member.method for member in found.members} == {
        "ranksvm",
        "linear",
        "lambdamart",
        "gbrt",
        "extra_trees",
    }
    assert found.blocks == "[minmax, zscore, rank, raw]"
    assert found.members[found.local - 1].method == "linear"


def test_a_latency_leaves_out_what_is_worth_least_for_its_time(queries: QuerySet) -> None:
    slow = {"method": "extra_trees", "blocks": "raw", "trees": 80, "min_samples_leaf": 2}
    learner, lesson = blend(LINEAR, TREES, slow), Lesson(queries)
    found = scored_by(learner, lesson)

    frontier = found.frontier()

    assert [len(one.members) for one in frontier] == [3, 2, 1]
    costs = [float(one.microseconds[0]) for one in found.tried]
    assert costs[2] > 1.5 * costs[1] > 1.5 * costs[0] > 0
    for one, fewer in pairwise(frontier):
        assert set(fewer.members) < set(one.members)
        assert one.microseconds == pytest.approx(sum(costs[position] for position in one.members))
    weights, scores = found.weigh().weights, [one.scores[0] for one in found.tried]
    together = sum(weight * each for weight, each in zip(weights, scores, strict=True))
    values = [
        (frontier[0].value - np.nanmean(found.figure(together - weight * each))) / cost
        for weight, each, cost in zip(weights, scores, costs, strict=True)
    ]
    assert set(range(3)) - set(frontier[1].members) == {int(np.argmin(values))}
    for latency, kept in (
        (None, 3),
        (int(sum(costs)) + 1, 3),
        (int(frontier[1].microseconds) + 1, 2),
        (1, 1),
    ):
        with collected() as notes:
            scorer = blend(LINEAR, TREES, slow, latency=latency).fit(lesson)
        assert len(scorer.rankers) == kept
        assert bool(notes) == (kept < 3)


def test_what_fewer_members_are_worth_is_what_they_score_on_held_out_queries(queries: QuerySet) -> None:
    found = scored_by(blend(), Lesson(queries))

    both, one = found.frontier()

    weighed = found.weigh()
    together = np.nanmean(found.figure(found.members(weighed.candidates) @ weighed.weights))
    assert both.value == pytest.approx(together)
    (kept,) = one.members
    assert one.value == pytest.approx(np.nanmean(found.figure(found.tried[kept].scores[0])))


def test_a_member_alone_is_scored_by_what_the_other_parts_chose(queries: QuerySet) -> None:
    found = scored_by(
        blend({"method": "linear", "blocks": "raw", "ridge": [0.1, 1000.0]}, TREES), Lesson(queries)
    )

    first, second = found.alone()

    np.testing.assert_array_equal(second, found.tried[1].scores[0])
    for part in range(4):
        held = found.part_of == part
        (best, _) = found.choose(~held)
        rows = found.rows_of(held)
        np.testing.assert_array_equal(first[rows], found.tried[0].scores[best][rows])


def of_few(judged: Judged, n_queries: int) -> QuerySet:
    """Every query teaches."""
    rng = np.random.default_rng(5)
    return judged([rng.standard_normal((5, 4)) for _ in range(n_queries)], [[0, 1, 2, 0, 1]] * n_queries)


def test_eight_queries_that_teach_and_count_are_enough_to_choose_by(judged: Judged) -> None:
    queries = of_few(judged, 8)
    flat = replace(queries, labels=np.where(queries.query_of == 3, 1.0, queries.labels))
    without_one = np.where(np.arange(8) == 3, 0.0, 1.0)

    assert blend(LINEAR).out_of_fold(Lesson(queries)) is not None
    for lesson in (Lesson(flat), Lesson(queries, without_one), Lesson(queries.select(range(7)))):
        with collected() as notes:
            assert blend(LINEAR).out_of_fold(lesson) is None
        assert "7 queries can teach, which is too few: all members get the same weight" == notes[0].text


@pytest.mark.parametrize(("ridges", "middle"), [([0.1, 1.0, 100.0], 1.0), ([0.1, 50.0], 50.0), ([3.0], 3.0)])
def test_of_few_queries_a_member_has_the_setting_in_the_middle(
    judged: Judged, ridges: list[float], middle: float
) -> None:
    queries = of_few(judged, 3)

    scorer = blend({**LINEAR, "ridge": ridges}).fit(Lesson(queries))

    expected = LeastSquares(ridge=middle, blocks="raw").fit(Lesson(queries))
    assert isinstance(scorer.rankers[0], LinearScorer)
    np.testing.assert_array_equal(expected.weights, scorer.rankers[0].weights)


def test_a_blend_settles_to_the_members_that_could_learn(queries: QuerySet) -> None:
    """The second of three could not; the local member is counted among the others, and none if it was that one."""
    hopeless = {"method": "gbrt", "blocks": "raw", "members": 1, "min_data_in_leaf": 10_000}
    learner = blend({**LINEAR, "ridge": [1e9, 0.1]}, hopeless, {**TREES, "trees": 2})
    found = scored_by(learner, Lesson(queries))
    weighed = found.weigh([1, 0])

    for local, found_at, settled_local in ((0, None, 0), (1, 0, 1), (2, None, 0), (3, 1, 2)):
        own = replace(learner, local=local)
        settled = own.settled_to(found, weighed)
        assert found_at == own.position_in(found)
        assert settled_local == settled.local
        first, second = (member.candidates() for member in settled.members)
        assert [LeastSquares(ridge=0.1, blocks="raw")] == first
        assert [make("extra_trees", {"blocks": "raw", "trees": 2, "min_samples_leaf": 2})] == second


def test_a_local_member_that_the_global_blend_left_out_is_not_learned(queries: QuerySet) -> None:
    globally = blend(LINEAR, TREES).fit(Lesson(queries))
    elsewhere = blend({**LINEAR, "blocks": "zscore"}, LINEAR, local=1)

    assert elsewhere.own(Lesson(queries), globally) is globally
