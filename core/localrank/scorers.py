"""What gives a query's documents their scores.

A scorer sees the whole list at once, because Borda counts, blends and list-relative features need it. It is made of
plain settings, plain arrays and other scorers, so that any of them is stored the same way (see `localrank.artifact`):
a new kind is one class here with its ``kind`` in `SCORERS`.

Invariant: identical documents get identical scores wherever they stand in the list. A matrix-vector product does not
keep that (its kernel treats the last rows differently), which is why linear scores are row-wise dot products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeAlias

import numpy as np

from localrank.errors import ArtifactCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Array, Matrix, Vector

__all__ = ["SCORERS", "LinearScorer", "Scorer", "View"]

#: What a scorer wants to see: imputed raw values, or imputed and normalised ones.
View: TypeAlias = Literal["raw", "normalised"]


class Scorer(Protocol):
    """Scores one query's documents."""

    kind: ClassVar[str]

    @property
    def view(self) -> View:
        """Which view of the documents `score` takes."""
        ...

    def score(self, documents: Matrix, /) -> Vector:
        """``[n_docs, n_features] -> [n_docs]``; higher is better; finite."""
        ...

    def settings(self) -> dict[str, Any]:
        """Whatever is neither an array nor another scorer, as JSON values."""
        ...

    def arrays(self) -> dict[str, Array]:
        """The arrays by role; the same roles for every scorer of a kind."""
        ...

    def members(self) -> Sequence[Scorer]:
        """The scorers this one is made of."""
        ...

    @classmethod
    def rebuild(
        cls,
        settings: Mapping[str, Any],
        arrays: Mapping[str, Array],
        members: Sequence[Scorer],
        n_features: int,
    ) -> Self:
        """Undo `settings`, `arrays` and `members`; raise `ArtifactCorrupt` where they do not fit."""
        ...


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


#: Every kind of scorer that an artifact may hold.
SCORERS: dict[str, type[Scorer]] = {scorer.kind: scorer for scorer in (LinearScorer,)}
