r"""Extremely randomised trees on gains: many deep trees, each grown with random thresholds, averaged.

Every tree sees all documents [geurts2006]; at a node it draws one threshold for each of ``max_features`` features and
takes the split that lowers the squared error of :math:`2^y - 1` most. scikit-learn grows them. What comes out is a
`TreesScorer` with scikit-learn's predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from localrank.blocks import parse
from localrank.errors import InvalidData
from localrank_training.learners.judged import check_grades
from localrank_training.learners.plain_trees import from_sklearn
from localrank_training.learners.role import Learner, settle_blocks
from localrank_training.settings import check_bounds, setting

if TYPE_CHECKING:
    from localrank.scorers import TreesScorer
    from localrank_training.learners.lesson import Lesson

__all__ = ["ExtraTrees"]


@dataclass(frozen=True, slots=True)
class ExtraTrees(Learner):
    """Learn the gain of every document as a mean of randomised trees."""

    trees: int = setting(500, low=1, high=100_000, meaning="how many trees")
    min_samples_leaf: int = setting(10, low=1, meaning="documents that a leaf has at least")
    max_features: float = setting(
        0.1, above=0.0, high=1.0, meaning="share of the features tried at each split"
    )
    max_depth: int = setting(0, low=0, meaning="splits on the way to a leaf at most; 0 has no limit")
    bootstrap: bool = setting(default=False, meaning="let each tree see a random sample of the documents")
    gain: Literal["label", "exponential"] = setting(
        "exponential", meaning="regress on the label itself, or on 2^label - 1"
    )
    seed: int = setting(0, low=0, high=2**30, meaning="draws features, thresholds and samples")
    num_threads: int = setting(
        0, low=0, meaning="threads that train, 0 for one per core; the trees do not depend on it"
    )
    blocks: str = setting("raw", check=parse, meaning="blocks of features that trees split")

    method: ClassVar[str] = "extra_trees"

    def __post_init__(self) -> None:
        check_bounds(self)
        settle_blocks(self)

    def fit(self, lesson: Lesson) -> TreesScorer:
        """Learn one scorer; see `Learner.fit`. NaN is a missing value and may stay."""
        from sklearn.ensemble import ExtraTreesRegressor

        lesson.refuse_towards(self.method, "its trees do not build on each other")
        lesson.check(self.method, missing=True)
        check_grades(lesson.queries, self.method)
        lesson = lesson.counted()
        queries, shares = lesson.queries, lesson.shares
        forest = ExtraTreesRegressor(
            n_estimators=self.trees,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            max_depth=self.max_depth or None,
            bootstrap=self.bootstrap,
            random_state=self.seed,
            n_jobs=self.num_threads or -1,
        )
        gains = queries.labels if self.gain == "label" else np.exp2(queries.labels) - 1
        forest.fit(
            queries.documents,
            gains,
            sample_weight=None if (shares == shares[0]).all() else shares[queries.query_of],
        )
        scorer = from_sklearn(forest.estimators_, blocks=self.blocks)
        if not len(scorer.features):
            raise InvalidData(
                f"{self.method}: expected documents that a tree can split, found {queries.n_docs} that none could with "
                f"min_samples_leaf {self.min_samples_leaf}"
            )
        return scorer
