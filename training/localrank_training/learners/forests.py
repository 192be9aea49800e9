r"""Forests on gains: many deep trees of randomised splits, averaged.

At a node a tree tries a share of the features and takes the split that lowers the squared error of :math:`2^y - 1` most.
`ExtraTrees` draws one threshold for each of these features, and every tree sees all documents [geurts2006]. `RandomForest`
finds the best threshold of each, and every tree sees documents drawn with replacement [breiman2001]. scikit-learn grows both.
What comes out is a `TreesScorer` with scikit-learn's predictions.

A tree sees no more than ``max_samples`` documents, so that the time grows with the number of documents only up to there.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from localrank.errors import InvalidData
from localrank.features.blocks import parse
from localrank.settings import setting
from localrank_training.learners.judged import check_grades
from localrank_training.learners.plain_trees import from_sklearn
from localrank_training.learners.role import Learner

if TYPE_CHECKING:
    from localrank.scorers import TreesScorer
    from localrank_training.learners.lesson import Lesson


@dataclass(frozen=True, slots=True)
class Forest(Learner):
    """What both learners have: how trees are grown, how many, and of how many documents."""

    trees: int = setting(500, low=1, high=100_000, meaning="how many trees")
    min_samples_leaf: int = setting(10, low=1, meaning="smallest number of documents in a leaf")
    max_features: float = setting(
        0.1, above=0.0, high=1.0, meaning="share of the features tried at each split"
    )
    max_depth: int = setting(0, low=0, meaning="largest number of splits on the way to a leaf; 0 is no limit")
    bootstrap: bool = setting(
        default=False, meaning="let each tree see documents drawn with replacement, as many as there are"
    )
    max_samples: int = setting(
        200_000,
        low=1,
        meaning="largest number of documents that a tree sees; if there are more, they are drawn with replacement",
    )
    gain: Literal["label", "exponential"] = setting(
        "exponential", meaning="regress on the label itself, or on 2^label - 1"
    )
    seed: int = setting(0, low=0, high=2**30, meaning="seed for drawing features, thresholds and documents")
    num_threads: int = setting(
        0, low=0, meaning="number of training threads, 0 for one per core; the trees do not depend on it"
    )
    blocks: str = setting("raw", check=parse, meaning="blocks of features that trees split")

    def fit(self, lesson: Lesson) -> TreesScorer:
        """Learn one scorer; see `Learner.fit`. NaN is a missing value and may stay."""
        lesson.refuse_towards(self.method, "its trees do not build on each other")
        lesson.check(self.method, missing=True)
        check_grades(lesson.queries, self.method)
        lesson = lesson.counted()
        queries, shares = lesson.queries, lesson.shares
        drawn = queries.n_docs > self.max_samples
        forest = self.grower()(
            n_estimators=self.trees,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            max_depth=self.max_depth or None,
            bootstrap=self.bootstrap or drawn,
            max_samples=self.max_samples if drawn else None,
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
                f"{self.method}: expected documents that a tree can split, found {queries.n_docs}, too few "
                f"for min_samples_leaf {self.min_samples_leaf}"
            )
        return scorer

    @abstractmethod
    def grower(self) -> Any:
        """Return scikit-learn's class of these forests."""


@dataclass(frozen=True, slots=True)
class ExtraTrees(Forest):
    """Learn the gain of every document as a mean of extremely randomised trees."""

    method: ClassVar[str] = "extra_trees"

    def grower(self) -> Any:
        from sklearn.ensemble import ExtraTreesRegressor

        return ExtraTreesRegressor


@dataclass(frozen=True, slots=True)
class RandomForest(Forest):
    """Learn the gain of every document as a mean of trees with the best splits, each of a random sample."""

    min_samples_leaf: int = setting(30, low=1, meaning="smallest number of documents in a leaf")
    bootstrap: bool = setting(
        default=True, meaning="let each tree see documents drawn with replacement, as many as there are"
    )
    max_samples: int = setting(
        50_000,
        low=1,
        meaning="largest number of documents that a tree sees; if there are more, they are drawn with replacement",
    )

    method: ClassVar[str] = "random_forest"

    def grower(self) -> Any:
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor
