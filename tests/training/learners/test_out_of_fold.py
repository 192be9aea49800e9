"""What is chosen from out-of-fold scores, calculated by hand, and how they come about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank.scorers.combination import standardised
from localrank_training.journal import Journal
from localrank_training.learners.forests import ExtraTrees
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.linear import LeastSquares
from localrank_training.learners.out_of_fold import OutOfFold, Tried, fitted, out_of_fold, parts_of
from localrank_training.learners.seen import scores_of
from localrank_training.learners.weights import Pairs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged, MakeQueries

LEARNERS = tuple(LeastSquares(ridge=ridge, blocks="raw") for ridge in (0.1, 1.0, 10.0))


@pytest.fixture
def queries(make_queries: MakeQueries) -> QuerySet:
    return make_queries(12, 3, 3, seed=1)


def of_scores(queries: QuerySet, *members: Sequence[Vector], shares: Vector | None = None) -> OutOfFold:
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
    return OutOfFold(tried, queries.labels, queries.offsets, counted, np.arange(len(queries)) % 3, pairs)


def everything(queries: QuerySet) -> np.ndarray:
    return np.ones(len(queries), np.bool_)


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


def test_the_frontier_leaves_out_the_member_that_is_worth_least_for_its_time(queries: QuerySet) -> None:
    """Noise that costs ten times as much goes first; then what is left is the labels themselves."""
    noise = np.random.default_rng(0).standard_normal(queries.n_docs)
    found = of_scores(queries, [queries.labels], [noise], [queries.labels + noise])
    costs = (1.0, 50.0, 4.0)
    tried = tuple(
        Tried(one.position, one.learners, one.scores, one.seconds, np.array([cost]))
        for one, cost in zip(found.tried, costs, strict=True)
    )
    frontier = OutOfFold(
        tried, found.labels, found.offsets, found.shares, found.part_of, found.pairs
    ).frontier()

    assert [(0, 1, 2), (0, 2), (0,)] == [one.members for one in frontier]
    assert [55.0, 5.0, 1.0] == [one.microseconds for one in frontier]
    assert frontier[-1].value == 1.0


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


def test_a_candidate_that_fails_in_one_part_is_left_out_and_the_other_parts_are_scored(
    queries: QuerySet, tmp_path: Path
) -> None:
    """No tree can split without the first part, which is nearly everything."""
    trees = ExtraTrees(trees=2, min_samples_leaf=60, blocks="raw")
    part_of = np.array([0] * 9 + [1] * 3)
    journal = Journal(tmp_path / "run.jsonl", "data")
    told: list[tuple[int, int]] = []

    def found() -> OutOfFold:
        return out_of_fold(
            [[trees, LEARNERS[0]], [LEARNERS[1], LEARNERS[2]]],
            Lesson(queries),
            part_of,
            most_pairs=20,
            seed=3,
            journal=journal,
            progress=lambda _, done, total: told.append((done, total)),
        )

    scored = found()

    assert [(0, (LEARNERS[0],)), (1, LEARNERS[1:])] == [(one.position, one.learners) for one in scored.tried]
    assert [(0, 1)] * 8 == told
    for one in scored.tried:
        for learner, scores in zip(one.learners, one.scores, strict=True):
            for part in (0, 1):
                model = learner.fit(Lesson(queries.select(np.flatnonzero(part_of != part))))
                for query in np.flatnonzero(part_of == part).tolist():
                    own = scores_of(model, Lesson(queries.select([query])))
                    np.testing.assert_allclose(scores[queries.span(query)], standardised(own), atol=1e-9)
    again = found()
    assert 8 == len((tmp_path / "run.jsonl").read_text().splitlines())
    for one, other in zip(scored.tried, again.tried, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.seconds, other.seconds)
    with pytest.raises(InvalidData, match=r"^extra_trees: "):
        out_of_fold([[trees]], Lesson(queries), part_of, most_pairs=20, seed=3)
