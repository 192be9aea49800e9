"""Scores that are a weighted sum of the features.

A matrix-vector product would not give identical documents identical scores (its kernel treats the last rows
differently), which is why these are row-wise dot products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from localrank.layout import Layout, finite
from localrank.scorers.role import Leaf

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.contributions import Parts
    from localrank.layout import Layouts


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
