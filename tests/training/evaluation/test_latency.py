"""What serving costs is counted: it follows the work that a scorer does."""

from __future__ import annotations

import numpy as np
import pytest

from localrank.scorers import BlendScorer, LinearScorer
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.evaluation.latency import microseconds
from localrank_training.learners.catalogue import make
from localrank_training.learners.lesson import Lesson


def test_trees_cost_as_many_steps_as_they_are_deep() -> None:
    queries = synthesize(30, Recipe(features=5))[0]
    one, two, deep = (
        microseconds(make("extra_trees", settings).fit(Lesson(queries)))
        for settings in (
            {"trees": 50, "min_samples_leaf": 30},
            {"trees": 100, "min_samples_leaf": 30},
            {"trees": 50, "min_samples_leaf": 1},
        )
    )

    assert two == pytest.approx(2 * one, rel=0.4)
    assert deep > 1.5 * one


def test_a_blend_costs_more_than_its_members() -> None:
    line, wide = (LinearScorer(np.ones(width, np.float64), blocks="raw") for width in (10, 1000))

    assert microseconds(wide) > microseconds(line) > 0
    both = microseconds(BlendScorer((line, wide), np.ones(2)))
    assert both > microseconds(line) + microseconds(wide)
