"""Products with documents in double precision, without a second copy of all of them in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank_training.data.rows import portions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Matrix, Vector

__all__ = ["BLOCK", "Products", "row_blocks"]

#: Numbers converted to double at a time.
BLOCK = 4_000_000


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield the rows of a matrix in portions of about `BLOCK` numbers."""
    return portions(n_rows, n_columns, BLOCK)


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
        for rows in row_blocks(*self.documents.shape):
            scores[rows] = self.documents[rows].astype(np.float64, copy=False) @ weights
        return scores

    def combination(self, coefficients: Vector) -> Vector:
        """Return ``coefficients @ documents``, ``[n_features]``."""
        total = np.zeros(self.documents.shape[1])
        for rows in row_blocks(*self.documents.shape):
            total += coefficients[rows] @ self.documents[rows].astype(np.float64, copy=False)
        return total
