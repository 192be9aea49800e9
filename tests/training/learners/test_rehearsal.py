"""What is chosen from out-of-fold scores, calculated by hand, and how they come about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank_training.blending import Pairs
from localrank_training.learners import rehearsal
from localrank_training.learners.boosting import Gbrt
from localrank_training.learners.budget import seconds_of
from localrank_training.learners.forests import ExtraTrees
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.linear import LeastSquares
from localrank_training.learners.notes import collected
from localrank_training.learners.rehearsal import Rehearsal, Tried, fitted, parts_of, rehearse
from localrank_training.prototypes import Locality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged, MakeQueries

LEARNERS = tuple(LeastSquares(ridge=ridge, blocks="raw") for ridge in (0.1, 1.0, 10.0))


@pytest.fixture
def queries(make_queries: MakeQueries) -> QuerySet:
    return make_queries(12, 3, 3, seed=1)


def of_scores(queries: QuerySet, *members: Sequence[Vector], shares: Vector | None = None) -> Rehearsal:
    counted = np.ones(len(queries)) if shares is None else shares
    tried = tuple(
        Tried(
            number,
            LEARNERS[: len(scores)],
            np.stack(list(scores)),
            np.arange(1.0, 1 + len(scores)),
            10 * np.arange(1.0, 1 + len(scores)),
        )
        for number, scores in enumerate(members)
    )
    pairs = Pairs.of(queries.labels, queries.offsets, counted, most=50, seed=0)
    return Rehearsal(tried, queries.labels, queries.offsets, counted, np.arange(len(queries)) % 3, pairs)


def everything(queries: QuerySet) -> np.ndarray:
    return np.ones(len(queries), np.bool_)


def test_a_candidate_alone_keeps_what_is_known_of_it(queries: QuerySet) -> None:
    scores = np.random.default_rng(0).random((3, queries.n_docs))
    one = Tried(4, LEARNERS, scores, np.arange(3.0), 10 * np.arange(3.0), (Locality(0.1, 0.0),), gate=2.0)

    alone = one.only(1)

    assert (2, 1) == (one.free, alone.free)
    assert (4, LEARNERS[1:2], (), 0.0) == (alone.position, alone.learners, alone.localities, alone.gate)
    np.testing.assert_array_equal(scores[1:2], alone.scores)
    assert ([1.0], [10.0]) == (alone.seconds.tolist(), alone.microseconds.tolist())


def test_differences_stand_out_by_standard_errors(judged: Judged) -> None:
    """Of 1, 2 and 3 the mean is 2, the standard error 1 / sqrt(3): 3.46 of them. The others do not count."""
    queries = judged([np.ones((2, 1))] * 6, [[0, 1]] * 6)
    found = of_scores(queries, [np.zeros(12)], shares=np.array([1.0, 2.0, 1.0, 1.0, 0.0, 1.0]))
    differences = np.array([1.0, 2.0, 3.0, np.nan, 100.0, 50.0])
    some = np.array([True] * 5 + [False])

    assert found.stands_out(differences, some, 3.46)
    assert not found.stands_out(differences, some, 3.47)
    assert not found.stands_out(-differences, some, 0.0)
    assert not found.stands_out(np.array([-1.0, 0.0, 1.0, 0, 0, 0]), some, 0.0)
    assert not found.stands_out(differences, np.eye(6)[1] > 0, 0.0)
    assert found.stands_out(differences, np.eye(6)[1] + np.eye(6)[2] > 0, 1.0)


def test_means_leave_out_queries_without_a_figure_and_count_by_share(judged: Judged) -> None:
    queries = judged([np.ones((2, 1))] * 4, [[0, 1]] * 4)
    found = of_scores(queries, [np.zeros(8)], shares=np.array([1.0, 3.0, 2.0, 5.0]))
    figures = np.array([[0.2, 0.6, np.nan, 0.9], [np.nan] * 4])

    means = found.mean(figures, np.array([True, True, True, False]))

    np.testing.assert_allclose([(0.2 + 3 * 0.6) / 4, 0.0], means)


def test_of_equal_candidates_the_first_is_chosen(queries: QuerySet) -> None:
    good, bad = queries.labels, -queries.labels
    found = of_scores(queries, [bad, good, good], [good, good], [bad])

    assert (1, 0, 0) == found.choose(everything(queries))
    assert [LEARNERS[1], LEARNERS[0], LEARNERS[0]] == found.learners(found.weigh())


def test_candidates_are_chosen_by_the_queries_that_are_asked(queries: QuerySet) -> None:
    first = np.arange(len(queries)) < 6
    rows = np.repeat(first, queries.lengths)
    here = np.where(rows, queries.labels, -queries.labels)
    found = of_scores(queries, [here, -here])

    assert ((0,), (1,)) == (found.choose(first), found.choose(~first))
    np.testing.assert_array_equal(rows, found.rows_of(first))
    weighed = found.weigh(judged=~first)
    assert (1,) == weighed.candidates
    assert (0,) == found.weigh([0], judged=~first).candidates


def test_another_member_takes_its_place(queries: QuerySet) -> None:
    good, bad = queries.labels, -queries.labels
    found = of_scores(queries, [good], [bad])

    swapped = found.with_member(1, found.tried[0])

    assert (found.tried[0], found.tried[0]) == swapped.tried
    assert (found.tried[1],) == found.only([1]).tried
    assert found.worth(good) == 1.0
    assert found.worth(bad) < 1.0


def test_the_frontier_leaves_out_the_member_that_is_worth_least_for_its_time(queries: QuerySet) -> None:
    """Noise that costs ten times as much goes first; then what is left is the labels themselves."""
    noise = np.random.default_rng(0).standard_normal(queries.n_docs)
    found = of_scores(queries, [queries.labels], [noise], [queries.labels + noise])
    costs = (1.0, 50.0, 4.0)
    tried = tuple(
        Tried(one.position, one.learners, one.scores, one.seconds, np.array([cost]))
        for one, cost in zip(found.tried, costs, strict=True)
    )
    frontier = Rehearsal(
        tried, found.labels, found.offsets, found.shares, found.part_of, found.pairs
    ).frontier()

    assert [(0, 1, 2), (0, 2), (0,)] == [one.members for one in frontier]
    assert [55.0, 5.0, 1.0] == [one.microseconds for one in frontier]
    assert frontier[-1].value == 1.0


@dataclass(frozen=True, slots=True)
class Piece:
    """What fitting and scoring one part gave, if it did."""

    seconds: float
    cost: float
    problem: str | None = None


def rehearsed_as(
    monkeypatch: pytest.MonkeyPatch, queries: QuerySet, pieces: dict[tuple[int, int], Piece], **more: Any
) -> Rehearsal:
    """Three candidates, of ridge 0.1 for the first member and of 1 and 10 for the second, in two parts."""

    def score_part(
        learner: LeastSquares, lesson: Lesson, part_of: np.ndarray, part: int
    ) -> tuple[Vector | None, float, float, str | None]:
        number = [one.ridge for one in LEARNERS].index(learner.ridge)
        piece = pieces[number, part]
        n = int(lesson.queries.lengths[part_of == part].sum())
        scores = None if piece.problem else np.asarray((number + 1) * np.arange(n) + 100.0 * part, np.float64)
        return scores, piece.seconds, piece.cost, piece.problem

    monkeypatch.setattr(rehearsal, "_score_part", score_part)
    part_of = np.arange(len(queries)) % 2
    candidates = [[LEARNERS[0]], [LEARNERS[1], LEARNERS[2]]]
    return rehearse(candidates, Lesson(queries), part_of, most_pairs=20, seed=3, **more)


FINE = {
    (number, part): Piece(1 + number + part, 10 * (1 + number) + part)
    for number in range(3)
    for part in range(2)
}


def test_scores_of_the_parts_are_put_together_and_costs_are_means(
    queries: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int]] = []
    monkeypatch.setattr(rehearsal, "seconds_of", lambda *_: 1.25)

    found = rehearsed_as(monkeypatch, queries, FINE, progress=lambda *said: told.append(said))

    assert [0, 1] == [one.position for one in found.tried]
    assert [(LEARNERS[0],), LEARNERS[1:]] == [one.learners for one in found.tried]
    # Of parts 0 and 1 each fit took 1 + number and 2 + number seconds.
    assert [[1.5], [2.5, 3.5]] == [one.seconds.tolist() for one in found.tried]
    assert [[10.5], [20.5, 30.5]] == [one.microseconds.tolist() for one in found.tried]
    for query in range(len(queries)):
        own = found.tried[1].scores[1][queries.span(query)]
        if len(own) > 1:
            np.testing.assert_allclose(own.mean(), 0.0, atol=1e-12)
            np.testing.assert_allclose(np.diff(own), np.diff(own)[0])
    # Six pieces of 1.25 planned seconds are 7.5, which is rounded to 8.
    assert [("members, in planned CPU seconds", done, 8) for done in (1, 2, 4, 5, 6, 8)] == told
    assert queries.labels is found.labels


def test_a_candidate_that_fails_in_one_part_is_left_out(
    queries: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collected() as notes:
        found = rehearsed_as(monkeypatch, queries, {**FINE, (1, 1): Piece(0, 0, "second: no")})
        only = rehearsed_as(monkeypatch, queries, {**FINE, (0, 0): Piece(0, 0, "first: no")})

    assert [(LEARNERS[0],), (LEARNERS[2],)] == [one.learners for one in found.tried]
    assert [3.5] == found.tried[1].seconds.tolist()
    assert [1] == [one.position for one in only.tried]
    assert ["left out: first: no"] == [one.text for one in notes]
    broken = {key: Piece(0, 0, f"{key[0]}: no") for key in FINE}
    with pytest.raises(InvalidData, match=r"^0: no; 2: no$"):
        rehearsed_as(monkeypatch, queries, broken)


def test_the_plan_counts_the_columns_of_one_block(queries: QuerySet, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def ask(*of: Any) -> float:
        asked.append(of)
        return seconds_of(*of)

    monkeypatch.setattr(rehearsal, "seconds_of", ask)

    rehearsed_as(monkeypatch, queries, FINE)

    assert [(one, queries.n_docs, 3) for one in LEARNERS] == asked


def test_lists_of_one_query_are_in_one_part_and_parts_depend_on_the_seed(queries: QuerySet) -> None:
    names = tuple("abcabdefghij")
    lesson = Lesson(replace(queries, query_ids=names))

    first, again, other = (parts_of(lesson, 4, seed) for seed in (0, 0, 1))

    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first[0], first[1]) == (first[3], first[4])
    assert {0, 1, 2, 3} == set(first.tolist())


def test_every_learner_is_fitted_with_one_thread_or_says_what_is_wrong(queries: QuerySet) -> None:
    trees = ExtraTrees(trees=3, min_samples_leaf=10**6, num_threads=2)

    (linear, nothing), (none, problem) = fitted([LEARNERS[0], trees], Lesson(queries))

    assert linear is not None
    assert (None, None) == (nothing, none)
    assert "extra_trees: expected documents that a tree can split" in (problem or "")
    assert Gbrt(num_threads=1) == rehearsal._alone(Gbrt(num_threads=4))
    assert LEARNERS[0] == rehearsal._alone(LEARNERS[0])
