"""Scores that are a weighted sum of the features.

A matrix-vector product would not give identical documents identical scores (its kernel treats the last rows
differently), which is why these are row-wise dot products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from localrank.errors import ArtifactCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Array, Matrix, Vector
    from localrank.scorers.role import Scorer, View

__all__ = ["LinearScorer"]


@dataclass(frozen=True, slots=True, eq=False)
class LinearScorer:
    r"""A weighted sum of the features.

    .. math:: f(x) = w \cdot x

    There is no intercept: it would not change any order.
    """

    weights: Vector
    view: View = "normalised"

    kind: ClassVar[str] = "linear"

    def score(self, documents: Matrix, /) -> Vector:
        scores: Vector = np.vecdot(documents, self.weights)
        return scores

    def settings(self) -> dict[str, Any]:
        return {"view": self.view}

    def arrays(self) -> dict[str, Array]:
        return {"weights": self.weights}

    def members(self) -> Sequence[Scorer]:
        return ()

    @classmethod
    def rebuild(
        cls,
        settings: Mapping[str, Any],
        arrays: Mapping[str, Array],
        members: Sequence[Scorer],
        n_features: int,
    ) -> Self:
        weights, view = arrays.get("weights"), settings.get("view")
        if members or weights is None or view not in {"raw", "normalised"}:
            raise ArtifactCorrupt("manifest.json: a linear scorer has a view and weights, nothing else")
        if weights.shape != (n_features,) or weights.dtype != np.float64:
            raise ArtifactCorrupt(
                f"scorers.weights.npy: expected float64 ({n_features},), found {weights.dtype} {weights.shape}"
            )
        if not np.isfinite(weights).all():
            raise ArtifactCorrupt("scorers.weights.npy: a weight is not finite")
        return cls(weights=np.asarray(weights, np.float64), view=view)
