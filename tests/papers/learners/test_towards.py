"""Which scorers the learners of the papers can be learned towards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank.scorers import BordaScorer, LinearScorer
from localrank_papers.learners.mhr import MultipleHyperplanes
from localrank_training.learners.lesson import Lesson
from tests.training.learners.test_lesson import AIM, weights_of

if TYPE_CHECKING:
    from tests.training.learners.conftest import MakeQueries


class TestHyperplanes:
    """MHR shrinks every hyperplane to its own."""

    def test_one_for_each_pair_of_levels(self, make_queries: MakeQueries) -> None:
        queries = make_queries(12, 4, 3, seed=5)
        aims = tuple(LinearScorer(AIM * factor) for factor in (1.0, -1.0, 0.5))
        towards = BordaScorer(aims, np.full(3, 1 / 3), "borda")

        scorer = MultipleHyperplanes(C=1e-12).fit(Lesson(queries, towards=towards))

        assert isinstance(scorer, BordaScorer)
        for found, aim in zip(scorer.rankers, aims, strict=True):
            np.testing.assert_allclose(weights_of(found), aim.weights, rtol=1e-9)

    def test_one_for_all(self, make_queries: MakeQueries) -> None:
        scorer = MultipleHyperplanes(C=1e-12).fit(
            Lesson(make_queries(12, 4, 3, seed=5), towards=LinearScorer(AIM))
        )

        assert isinstance(scorer, BordaScorer)
        for found in scorer.rankers:
            np.testing.assert_allclose(weights_of(found), AIM, rtol=1e-9)

    def test_another_number_is_refused(self, make_queries: MakeQueries) -> None:
        towards = BordaScorer((LinearScorer(AIM), LinearScorer(AIM)), np.full(2, 0.5), "borda")

        with pytest.raises(InvalidConfiguration, match=r"expected a scorer of 3 hyperplanes, .* set levels"):
            MultipleHyperplanes().fit(Lesson(make_queries(12, 4, 3, seed=5), towards=towards))
