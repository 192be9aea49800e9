"""What judgements are worth, by taking some away."""

from __future__ import annotations

import numpy as np
import pytest

from localrank.metrics import measure
from localrank_training.advice.removals import REMOVALS, removals
from localrank_training.data.queries import QuerySet
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.run.choosing import folds_of
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig


def planted(n_queries: int = 60, features: int = 8, seed: int = 3) -> QuerySet:
    return synthesize(n_queries, Recipe(documents=(12, 20), features=features, kinds=1), seed=seed)[0]


def left_of(what: str, queries: QuerySet, exam: QuerySet) -> list[tuple[QuerySet, QuerySet]]:
    return [REMOVALS[what][1](queries, exam, np.random.default_rng(5), which) for which in (0, 1)]


def test_half_of_the_queries_and_the_other_half_are_all() -> None:
    queries, exam = planted(31), planted(5, seed=1)

    (first, same), (second, _) = left_of("queries", queries, exam)

    assert same is exam
    assert sorted(queries.query_ids) == sorted(first.query_ids + second.query_ids)
    assert abs(len(first) - len(second)) <= 2


def test_half_of_the_documents_of_every_query_and_the_other_half_are_all() -> None:
    queries, exam = planted(9), planted(5, seed=1)

    (first, same), (second, _) = left_of("documents", queries, exam)

    assert same is exam
    assert sorted(queries.lines) == sorted([*first.lines, *second.lines])
    assert (np.abs(first.lengths - second.lengths) <= 1).all()
    for half in (first, second):
        for query in range(len(queries)):
            of_whole = dict(
                zip(queries.lines[queries.span(query)].tolist(), queries.labels_of(query), strict=True)
            )
            lines = half.lines[half.span(query)].tolist()
            assert [of_whole[line] for line in lines] == half.labels_of(query).tolist()


def test_a_query_of_one_document_keeps_it() -> None:
    queries = planted(4).select([0, 1])
    alone = QuerySet(
        queries.documents[:1],
        queries.labels[:1],
        np.array([0, 1]),
        ("q",),
        queries.feature_names,
        np.arange(1),
    )

    for left, _ in left_of("documents", alone, alone):
        assert 1 == left.n_docs


def test_half_of_the_features_go_from_both_sides() -> None:
    queries, exam = planted(9, features=7), planted(5, features=7, seed=1)

    (first, first_exam), (second, second_exam) = left_of("features", queries, exam)

    assert sorted(queries.feature_names) == sorted(first.feature_names + second.feature_names)
    assert first.feature_names == first_exam.feature_names
    column = queries.feature_names.index(second.feature_names[0])
    np.testing.assert_array_equal(queries.documents[:, column], second.documents[:, 0])
    np.testing.assert_array_equal(exam.documents[:, column], second_exam.documents[:, 0])


def test_a_tenth_of_the_labels_is_redrawn_from_those_of_the_same_query() -> None:
    queries = planted(200)
    before = queries.labels.copy()

    (first, exam), (second, _) = left_of("labels", queries, queries)

    np.testing.assert_array_equal(before, queries.labels)
    assert exam is queries
    assert not np.array_equal(first.labels, second.labels)
    changed = (first.labels != before).mean()
    # Some are redrawn as what they were.
    assert 0.03 < changed < 0.1
    for query in range(len(queries)):
        assert set(first.labels_of(query)) <= set(queries.labels_of(query))


def test_the_figure_of_everything_is_that_of_a_plain_cross_validation() -> None:
    queries = planted(30)
    config = TrainingConfig.read(
        method="global", learner="linear", overrides=["learner.blocks='zscore'", "learner.ridge=0.1"]
    )
    figures = []
    for fold in folds_of(30, 3, 0):
        built = build(
            queries.select(np.setdiff1d(np.arange(30), fold)), config, config.learner.candidates()[0]
        )
        exam = queries.select(fold)
        scores = rank_all(built.ranker, exam).scores
        figures += measure(exam.labels, scores, exam.offsets, ["ndcg@10"])[0].per_query.tolist()

    found = removals(queries)

    assert [pytest.approx(np.mean(figures))] * 4 == [one.loss.candidate for one in found]


def test_features_that_all_matter_are_missed() -> None:
    found = {one.what: one.loss for one in removals(planted(), workers=2)}

    assert found["features"].p_holm < 0.01
    assert found["features"].difference > 0.05
    assert found["features"].interval is not None
    assert found["features"].interval.low > 0


def test_nothing_is_missed_of_noise() -> None:
    queries = planted()
    queries.labels[:] = np.random.default_rng(0).integers(0, 3, queries.n_docs)

    found = removals(queries)

    assert all(one.loss.p_holm > 0.05 for one in found)


def test_the_same_seed_gives_the_same_losses_with_any_number_of_processes() -> None:
    queries = planted(20)

    assert removals(queries, seed=1) == removals(queries, seed=1, workers=2)
