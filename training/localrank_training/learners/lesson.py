"""What one model is learned from: judged queries, how much each counts, and the scorers that it may begin from.

`Lesson.start` and `Lesson.towards` are two different things. ``start`` may only save time: the model is the same without
it. ``towards`` changes the model: a linear learner shrinks its weights to those of ``towards`` instead of to zero, and
boosting goes on from its trees.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidConfiguration
from localrank.scorers import LinearScorer
from localrank_training.learners.judged import check_finite, check_informative, query_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector
    from localrank.scorers import Scorer, View
    from localrank_training.data.queries import QuerySet

__all__ = ["Lesson"]


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Weighted queries for one model.

    Attributes:
        queries: judged queries whose documents are as the learner wants them (`Learner.view`).
        weights: ``[n_queries]`` how much each query counts, not negative; all the same by default.
        validation: queries that tell a learner when to stop.
        start: a scorer that may be near the optimum, such as that of a neighbouring setting.
        towards: the scorer that the model is shrunk to, or continues; `None` stands for zero.

    Raises:
        InvalidData: the weights are not one finite number per query, or none is positive.
    """

    queries: QuerySet
    weights: Vector | None = None
    validation: QuerySet | None = None
    start: Scorer | None = None
    towards: Scorer | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            object.__setattr__(self, "weights", query_weights(self.queries, self.weights))

    @property
    def shares(self) -> Vector:
        """``[n_queries]`` how much each query counts."""
        return query_weights(self.queries, self.weights)

    def check(self, method: str, *, missing: bool = False) -> None:
        """Refuse queries that nothing can be learned from.

        Args:
            method: the learner's name in configuration.
            missing: whether the learner takes NaN for a missing value.

        Raises:
            InvalidData: there is no document, a feature or label is not finite, or no query that counts has documents
                with different labels and different features.
        """
        check_finite(self.queries, method, missing=missing)
        check_informative(self.queries, self.shares, method)

    def select(self, queries: Sequence[int] | Indices) -> Lesson:
        """Return the lesson of those queries, in that order; everything else stays."""
        weights = None if self.weights is None else self.weights[np.asarray(queries, np.int64)]
        return replace(self, queries=self.queries.select(queries), weights=weights)

    def counted(self) -> Lesson:
        """Return the lesson of the queries that count."""
        shares = self.shares
        return self if shares.all() else self.select(np.flatnonzero(shares))

    def refuse_towards(self, method: str, reason: str) -> None:
        """Refuse ``towards`` for a learner that cannot use it.

        Raises:
            InvalidConfiguration: there is one.
        """
        if self.towards is not None:
            raise InvalidConfiguration(f"{method} cannot be learned towards another scorer: {reason}")

    def towards_weights(self, method: str, view: View) -> Vector:
        """Return the weights that a linear learner shrinks to, ``[n_features]``; zeros by default.

        Raises:
            InvalidConfiguration: ``towards`` is not a linear scorer of the same features.
        """
        if self.towards is None:
            return np.zeros(self.queries.n_features)
        if not isinstance(self.towards, LinearScorer):
            raise InvalidConfiguration(
                f"{method}: towards: expected a linear scorer, found one of kind {self.towards.kind!r}"
            )
        found = len(self.towards.weights), self.towards.view
        if found != (self.queries.n_features, view):
            raise InvalidConfiguration(
                f"{method}: towards: expected weights of {self.queries.n_features} {view} features, found {found[0]} of "
                f"{found[1]} features"
            )
        return self.towards.weights

    def first_weights(self, default: Vector) -> Vector:
        """Return where a linear learner begins, ``[n_features]``: the weights of ``start`` if it is linear too."""
        if isinstance(self.start, LinearScorer) and self.start.weights.shape == default.shape:
            return self.start.weights
        return default
