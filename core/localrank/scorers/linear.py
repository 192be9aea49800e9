r"""Scores that are sums over single features: weighted values, and steps.

Weighted sums are row-wise dot products, because a matrix-vector product would not give identical documents identical
scores: its kernel treats the last rows differently.

Steps are added wherever a feature exceeds a threshold. Boosting with threshold rankers learns them:

.. math:: f(x) = \sum_t \alpha_t \, [x_{i_t} > \theta_t]

A list is scored by one comparison of every document with every step. (The alternative is one binary search per feature
in a table of cumulative steps. It needs fewer operations, but takes three to fifteen times as long.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from localrank.arrays import Layout, below, finite
from localrank.scorers.role import Leaf

if TYPE_CHECKING:
    from localrank.arrays import Indices, Layouts, Matrix, Vector
    from localrank.contributions import Parts


@dataclass(frozen=True, slots=True, eq=False)
class LinearScorer(Leaf):
    r"""A weighted sum of the features.

    .. math:: f(x) = w \cdot x

    There is no intercept: it would not change any order.

    Attributes:
        weights: ``[width]``.
        blocks: of the documents.
    """

    weights: Vector
    blocks: str = "normalised"

    kind: ClassVar[str] = "linear"
    layout: ClassVar[Layouts] = {"weights": Layout(("float64",), ("width",), finite)}

    def score_rows(self, rows: Matrix, /) -> Vector:
        scores: Vector = np.vecdot(rows, self.weights)
        return scores

    def parts_of(self, rows: Matrix, /) -> Parts:
        mean = rows.mean(axis=0, dtype=np.float64)
        return lambda chosen: (chosen - mean) * self.weights


#: How many comparisons are made at a time.
_CELLS = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class StumpScorer(Leaf):
    """A sum of steps.

    Attributes:
        features: ``[n_steps]`` which feature; ascending.
        thresholds: ``[n_steps]`` above which value; ascending for each feature.
        steps: ``[n_steps]`` what is added.
        blocks: of the documents.
    """

    features: Indices
    thresholds: Vector
    steps: Vector
    blocks: str = "normalised"

    kind: ClassVar[str] = "stumps"
    layout: ClassVar[Layouts] = {
        "features": Layout(("int64",), ("steps",), below("width"), empty=True),
        "thresholds": Layout(("float64",), ("steps",), finite, empty=True),
        "steps": Layout(("float64",), ("steps",), finite, empty=True),
    }

    def __post_init__(self) -> None:
        features, thresholds = self.features, self.thresholds
        rising = (features[1:] > features[:-1]) | (
            (features[1:] == features[:-1]) & (thresholds[1:] > thresholds[:-1])
        )
        if not rising.all():
            raise ValueError("thresholds: expected them ascending for each feature")
        # A huge step may be followed by its opposite, but every score must be finite.
        if (np.abs(self.steps) > np.finfo(np.float64).max / (len(self.steps) + 1)).any():
            raise ValueError("steps: one is so large that their sum may not be finite")

    @classmethod
    def of(cls, features: Indices, thresholds: Vector, steps: Vector, blocks: str = "normalised") -> Self:
        """Make a scorer of steps in any order; those at the same place are added up."""
        order = np.lexsort((thresholds, features))
        features, thresholds = features[order], thresholds[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (features[1:] != features[:-1]) | (thresholds[1:] != thresholds[:-1])
        together = np.add.reduceat(steps[order], np.flatnonzero(first)) if len(order) else steps
        return cls(features[first], thresholds[first], together, blocks)

    def score_rows(self, rows: Matrix, /) -> Vector:
        scores = np.empty(len(rows))
        size = max(1, _CELLS // max(1, len(self.steps)))
        for begin in range(0, len(rows), size):
            exceeded = rows[begin : begin + size, self.features] > self.thresholds
            # Row by row, for the reason given in `localrank.scorers.linear`.
            np.vecdot(exceeded.astype(np.float64), self.steps, out=scores[begin : begin + size])
        return scores

    def parts_of(self, rows: Matrix, /) -> Parts:
        shares = np.zeros(len(self.steps))
        size = max(1, _CELLS // max(1, len(self.steps)))
        for begin in range(0, len(rows), size):
            shares += (rows[begin : begin + size, self.features] > self.thresholds).sum(axis=0)
        shares /= len(rows)
        first = np.flatnonzero(np.diff(self.features, prepend=-1))

        def parts(chosen: Matrix) -> Vector:
            found = np.zeros(chosen.shape)
            for begin in range(0, len(chosen) if len(first) else 0, size):
                part = slice(begin, begin + size)
                steps = ((chosen[part, self.features] > self.thresholds) - shares) * self.steps
                found[part, self.features[first]] = np.add.reduceat(steps, first, axis=1)
            return found

        return parts
