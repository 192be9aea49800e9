"""Products with documents in double precision, without a second copy of all of them in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank.features.columns import portions

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector

#: Numbers converted to double at a time.
BLOCK = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Documents to multiply with; converted once where they are few, else block by block each time.

    Attributes:
        documents: ``[n_docs, n_features]``.
    """

    documents: Matrix | Vector

    @classmethod
    def of(cls, documents: Matrix) -> Products:
        return cls(documents.astype(np.float64) if documents.size <= BLOCK else np.asarray(documents))

    def scores(self, weights: Vector) -> Vector:
        """Return ``documents @ weights``, ``[n_docs]``."""
        scores = np.empty(len(self.documents))
        for rows in portions(self.documents, BLOCK):
            scores[rows] = self.documents[rows].astype(np.float64, copy=False) @ weights
        return scores

    def combination(self, coefficients: Vector) -> Vector:
        """Return ``coefficients @ documents``, ``[n_features]``."""
        total = np.zeros(self.documents.shape[1])
        for rows in portions(self.documents, BLOCK):
            total += coefficients[rows] @ self.documents[rows].astype(np.float64, copy=False)
        return total
