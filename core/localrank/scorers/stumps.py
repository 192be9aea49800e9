r"""Scores that add a step wherever a feature exceeds a threshold: what boosting with threshold rankers learns.

.. math:: f(x) = \sum_t \alpha_t \, [x_{i_t} > \theta_t]

A list is scored by one comparison of every document with every step. (One binary search per feature in tables of its
steps added up would take fewer operations and three to fifteen times as long.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from localrank.errors import ArtifactCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Array, Indices, Matrix, Vector
    from localrank.scorers.role import Scorer, View

__all__ = ["StumpScorer"]

#: How many comparisons are made at a time.
_CELLS = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class StumpScorer:
    """A sum of steps.

    Attributes:
        features: ``[n_steps]`` which feature; ascending.
        thresholds: ``[n_steps]`` above which value; ascending for each feature.
        steps: ``[n_steps]`` what is added.
        view: of the documents.
    """

    features: Indices
    thresholds: Vector
    steps: Vector
    view: View = "normalised"

    kind: ClassVar[str] = "stumps"

    @classmethod
    def of(cls, features: Indices, thresholds: Vector, steps: Vector, view: View = "normalised") -> Self:
        """Make a scorer of steps in any order; those at the same place are added up."""
        order = np.lexsort((thresholds, features))
        features, thresholds = features[order], thresholds[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (features[1:] != features[:-1]) | (thresholds[1:] != thresholds[:-1])
        together = np.add.reduceat(steps[order], np.flatnonzero(first)) if len(order) else steps
        return cls(features[first], thresholds[first], together, view)

    def score(self, documents: Matrix, /) -> Vector:
        scores = np.empty(len(documents))
        rows = max(1, _CELLS // max(1, len(self.steps)))
        for begin in range(0, len(documents), rows):
            exceeded = documents[begin : begin + rows, self.features] > self.thresholds
            # Row by row, for the reason given in `localrank.scorers.linear`.
            np.vecdot(exceeded.astype(np.float64), self.steps, out=scores[begin : begin + rows])
        return scores

    def settings(self) -> dict[str, Any]:
        return {"view": self.view}

    def arrays(self) -> dict[str, Array]:
        return {"features": self.features, "thresholds": self.thresholds, "steps": self.steps}

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
        view = settings.get("view")
        if members or set(arrays) != {"features", "thresholds", "steps"} or view not in {"raw", "normalised"}:
            raise ArtifactCorrupt(
                "manifest.json: a stumps scorer has a view, features, thresholds and steps, nothing else"
            )
        n_steps = len(arrays["features"]) if arrays["features"].ndim == 1 else -1
        for role, dtype in (("features", np.int64), ("thresholds", np.float64), ("steps", np.float64)):
            found = arrays[role]
            if found.dtype != dtype or found.shape != (n_steps,):
                raise ArtifactCorrupt(
                    f"scorers.{role}.npy: expected {np.dtype(dtype)} ({max(n_steps, 0)},), found {found.dtype} "
                    f"{found.shape}"
                )
            if not np.isfinite(found).all():
                raise ArtifactCorrupt(f"scorers.{role}.npy: a number is not finite")
        features = np.asarray(arrays["features"], np.int64)
        thresholds, steps = (
            np.asarray(arrays["thresholds"], np.float64),
            np.asarray(arrays["steps"], np.float64),
        )
        if n_steps and not (features.min() >= 0 and features.max() < n_features):
            raise ArtifactCorrupt(
                f"scorers.features.npy: expected 0 to {n_features - 1}, found {features.min()} to {features.max()}"
            )
        rising = (features[1:] > features[:-1]) | (
            (features[1:] == features[:-1]) & (thresholds[1:] > thresholds[:-1])
        )
        if not rising.all():
            raise ArtifactCorrupt("scorers.thresholds.npy: expected them ascending for each feature")
        # A step may be huge and the next its opposite, but no document may score what is not finite.
        if (np.abs(steps) > np.finfo(np.float64).max / (n_steps + 1)).any():
            raise ArtifactCorrupt("scorers.steps.npy: a step is so large that their sum may not be finite")
        return cls(features, thresholds, steps, view)
