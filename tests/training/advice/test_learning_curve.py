"""What more judged queries are worth."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.metrics import measure
from localrank_training.advice import learning_curve as module
from localrank_training.advice.learning_curve import (
    CurvePoint,
    LearningCurve,
    learning_curve,
    seconds_of_curve,
)
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.run.train import plan_for, train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet

LINEAR = TrainingConfig.read(
    method="global",
    learner="linear",
    overrides=["learner.blocks='zscore'", "learner.ridge=0.01", "selection.folds=2"],
)


def planted(n_queries: int = 96, features: int = 40) -> QuerySet:
    """Few documents and many features: a linear model needs many queries."""
    return synthesize(n_queries, Recipe(documents=(5, 8), features=features, kinds=1), seed=3)[0]


def test_nothing_is_learned_from_what_is_examined_and_small_shares_are_parts_of_large_ones() -> None:
    queries = planted()

    runs = list(module._runs(queries, 0))

    assert [0.125] * 3 + [0.25] * 3 + [0.5] * 3 + [1.0] * 3 == [share for share, _, _ in runs]
    assert all(not set(lesson) & set(exam) for _, lesson, exam in runs)
    for fold in range(3):
        lessons = [set(lesson.tolist()) for _, lesson, _ in runs[fold::3]]
        assert all(small < large for small, large in pairwise(lessons))
        assert 64 == len(lessons[-1])
    assert sorted(np.concatenate([exam for _, _, exam in runs[:3]])) == list(range(96))


def test_points_are_whole_training_runs_on_shares_of_the_queries() -> None:
    queries = planted()

    found = learning_curve(queries, LINEAR)

    assert found is not None
    runs = list(module._runs(queries, LINEAR.seed))
    for number, point in enumerate(found.points):
        figures = []
        for _, lesson, exam in runs[3 * number : 3 * number + 3]:
            of = queries.select(exam)
            scores = rank_all(train(queries.select(lesson), LINEAR).built.ranker, of).scores
            figures += measure(of.labels, scores, of.offsets, ["ndcg@10"])[0].per_query.tolist()
        assert point.mean == pytest.approx(np.mean(figures))
        assert point.queries == len(runs[3 * number][1])
        if point.behind is not None:
            assert found.points[-1].mean - point.mean == pytest.approx(point.behind.difference)


def test_more_queries_help_a_model_of_many_features() -> None:
    found = learning_curve(planted(48, 60), LINEAR)

    assert found is not None
    means = [point.mean for point in found.points]
    assert means == sorted(means)
    assert means[-1] > means[0] + 0.05
    assert found.sentence.startswith("From 16 to 32 queries, ndcg@10 rose by +")
    assert "more judged queries would help" in found.sentence
    assert found.sentence == json.loads(json.dumps(found.to_json()))["sentence"]


def test_more_queries_do_not_help_to_learn_noise() -> None:
    queries = planted()
    queries.labels[:] = np.random.default_rng(0).integers(0, 3, queries.n_docs)

    found = learning_curve(queries, LINEAR)

    assert found is not None
    assert "not clearly a rise" in found.sentence


def test_the_curve_begins_with_enough_queries_and_needs_two_points() -> None:
    found = learning_curve(planted(30), LINEAR)

    assert found is not None
    assert [10.0, 20.0] == [point.queries for point in found.points]
    assert learning_curve(planted(14), LINEAR) is None


def test_a_curve_of_too_few_differences_says_so() -> None:
    found = learning_curve(planted(30), LINEAR)
    assert found is not None
    few = found.doubling
    cut = LearningCurve(
        30,
        (
            CurvePoint(10.0, 0.5, few),
            CurvePoint(20.0, 0.6, None),
        ),
        replace(few, interval=None, wins=1, losses=1),
    )

    assert "2 of 30 queries differ: too few for an interval" in cut.sentence


def test_the_plan_of_the_curve_adds_up_the_plans_of_its_runs() -> None:
    queries = planted(30)
    config = TrainingConfig.read()

    planned = seconds_of_curve(config, queries)

    plans = [plan_for(config, queries.select(lesson)) for _, lesson, _ in module._runs(queries, config.seed)]
    assert planned == pytest.approx(sum(plan.seconds for plan in plans if plan is not None))
    assert 6 == len(plans)
    assert seconds_of_curve(LINEAR, queries) is None
