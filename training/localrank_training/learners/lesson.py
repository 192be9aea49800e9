"""The input of one model's training: judged queries, how much each counts, and the scorers that it may begin from.

`Lesson.start` and `Lesson.towards` are two different things. ``start`` may only save time: the model is the same without
it. ``towards`` changes the model: a linear learner shrinks its weights to those of ``towards`` instead of to zero, and
boosting goes on from its trees.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidConfiguration
from localrank.features.blocks import parse
from localrank.scorers import LinearScorer
from localrank_training.learners.judged import check_finite, check_informative, query_weights
from localrank_training.learners.seen import scores_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Indices, Vector
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet

#: Largest number that float32 holds.
_LARGEST = np.finfo(np.float32).max


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Weighted queries for one model.

    Attributes:
        queries: judged queries whose documents are the blocks that the learner wants (`Learner.blocks`).
        weights: ``[n_queries]`` how much each query counts, not negative; all the same by default.
        validation: queries that tell a learner when to stop.
        start: a scorer that may be near the optimum, such as that of a neighbouring setting.
        towards: the scorer that the model is shrunk to, or continues; `None` stands for zero.
        blocks: what the columns of the documents are.
        widths: of every block (`FeatureContract.widths`); for `seen_as`.
        directions: how each column of a block may move a score (`Clouds.directions`); empty if nothing is said.

    Raises:
        InvalidData: the weights are not one finite number per query, or none is positive.
    """

    queries: QuerySet
    weights: Vector | None = None
    validation: QuerySet | None = None
    start: Scorer | None = None
    towards: Scorer | None = None
    blocks: str = "raw"
    widths: Mapping[str, int] = field(default_factory=dict)
    directions: Mapping[str, Indices] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.weights is not None:
            object.__setattr__(self, "weights", query_weights(self.queries, self.weights))

    @property
    def shares(self) -> Vector:
        """``[n_queries]`` how much each query counts."""
        return query_weights(self.queries, self.weights)

    @property
    def signs(self) -> Indices:
        """``[n_features]`` 1 if a larger value may never lower a score, -1 if it may never raise one, else 0."""
        if not self.directions:
            return np.zeros(self.queries.n_features, np.int64)
        return np.concatenate([self.directions[block.name] for block in parse(self.blocks)])

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

    def seen_as(self, blocks: str) -> Lesson:
        """Return the lesson with the columns of some of its blocks, for a learner made of learners.

        Args:
            blocks: each of them is, without a scale, among those of this lesson.

        Raises:
            InvalidConfiguration: one is not.
        """
        if blocks == self.blocks:
            return self
        begins: dict[str, int] = {}
        width = 0
        for block in parse(self.blocks):
            if block.scale == 1:
                begins[block.name] = width
            width += self.widths.get(block.name, 0)
        if width != self.queries.n_features or not all(block.name in begins for block in parse(blocks)):
            raise InvalidConfiguration(
                f"expected a lesson that holds {blocks}, found one that holds {self.blocks}"
            )
        columns = np.concatenate(
            [
                np.arange(begins[block.name], begins[block.name] + self.widths[block.name])
                for block in parse(blocks)
            ]
        )
        scales = np.repeat(
            np.array([block.scale for block in parse(blocks)], np.float32),
            [self.widths[block.name] for block in parse(blocks)],
        )

        codes = any(str(block) == "raw" for block in parse(blocks))

        def seen(queries: QuerySet) -> QuerySet:
            documents = queries.documents[:, columns]
            with np.errstate(over="ignore"):
                documents *= scales
            # As `Cloud.rows` does; a missing value stays one.
            np.clip(documents, -_LARGEST, _LARGEST, out=documents)
            return replace(
                queries,
                documents=np.ascontiguousarray(documents),
                feature_names=tuple(queries.feature_names[column] for column in columns),
                special=queries.special if codes else {},
            )

        held = None if self.validation is None else seen(self.validation)
        return replace(self, queries=seen(self.queries), validation=held, blocks=blocks)

    def base_scores(self) -> tuple[Vector, Vector | None]:
        """Return where boosting begins: the scores of ``towards``, zeros by default, on queries and validation queries."""
        held = None if self.validation is None else replace(self, queries=self.validation, weights=None)
        if self.towards is None:
            return np.zeros(self.queries.n_docs), None if held is None else np.zeros(held.queries.n_docs)
        return scores_of(self.towards, self), None if held is None else scores_of(self.towards, held)

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

    def towards_weights(self, method: str, blocks: str) -> Vector:
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
        found = len(self.towards.weights), self.towards.blocks
        if found != (self.queries.n_features, blocks):
            raise InvalidConfiguration(
                f"{method}: towards: expected weights of {self.queries.n_features} {blocks} features, found {found[0]} of "
                f"{found[1]} features"
            )
        return self.towards.weights

    def first_weights(self, default: Vector) -> Vector:
        """Return where a linear learner begins, ``[n_features]``: the weights of ``start`` if it is linear too."""
        if isinstance(self.start, LinearScorer) and self.start.weights.shape == default.shape:
            return self.start.weights
        return default
