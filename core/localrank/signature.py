r"""What a query looks like: the principal directions of its documents.

Shapes: documents ``[n_docs, n_features]``, directions ``[n_components, n_features]``. A signature always holds
``n_components`` rows; a cloud of lower rank has fewer directions, and the rows beyond its rank are zero, so that
they add nothing to any dot product.

What does not belong here: comparing signatures (`localrank.similarity`) and finding near ones (`localrank.routing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Matrix, Vector

__all__ = ["QuerySigner", "Signature", "Signatures", "choose_components", "spectrum"]

#: Eigenvalues below this share of the largest are rounding of float32 features, not directions of the cloud.
_RANK_TOLERANCE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """One query's principal directions.

    Attributes:
        directions: ``[n_components, n_features]`` float32, unit rows in order of decreasing eigenvalue, zero rows
            beyond the rank.
        eigenvalues: ``[n_components]`` float64, variances along the directions, zero beyond the rank.
        rank: how many directions the cloud has, at most ``n_components``. Zero: one document, or all alike.
    """

    directions: Matrix
    eigenvalues: Vector
    rank: int


@dataclass(frozen=True, slots=True, eq=False)
class Signatures:
    """Many queries' signatures, one array each.

    Attributes:
        directions: ``[n_queries, n_components, n_features]`` float32.
        eigenvalues: ``[n_queries, n_components]`` float64.
        ranks: ``[n_queries]``.
    """

    directions: Matrix
    eigenvalues: Vector
    ranks: Indices

    def __len__(self) -> int:
        return len(self.directions)

    def of(self, query: int) -> Signature:
        """Return one query's signature."""
        return Signature(self.directions[query], self.eigenvalues[query], int(self.ranks[query]))

    def take(self, queries: Indices) -> Signatures:
        """Return those queries' signatures, in that order."""
        return Signatures(self.directions[queries], self.eigenvalues[queries], self.ranks[queries])


@dataclass(frozen=True, slots=True)
class QuerySigner:
    """Sign queries with a fixed number of components (P), chosen when training, never per query."""

    components: int

    def sign(self, documents: Matrix) -> Signature:
        """Return the signature of one query's normalised documents."""
        n_features = documents.shape[1]
        directions = np.zeros((self.components, n_features), np.float32)
        eigenvalues = np.zeros(self.components)
        variances, axes = _principal_directions(documents)
        rank = min(self.components, len(variances))
        directions[:rank] = axes[:rank]
        eigenvalues[:rank] = variances[:rank]
        return Signature(directions, eigenvalues, rank)

    def sign_all(self, queries: Sequence[Matrix]) -> Signatures:
        """Sign many queries."""
        signed = [self.sign(documents) for documents in queries]
        return Signatures(
            directions=np.stack([one.directions for one in signed]),
            eigenvalues=np.stack([one.eigenvalues for one in signed]),
            ranks=np.array([one.rank for one in signed], np.int64),
        )


def spectrum(documents: Matrix) -> Vector:
    """Return the positive eigenvalues of the documents' covariance, largest first."""
    return _principal_directions(documents)[0]


def choose_components(spectra: Sequence[Vector], share: float = 0.8, most: int = 8) -> int:
    """Return P: the median over queries of the smallest number of directions that cover ``share`` of the variance.

    Clouds without variance have no say.
    """
    needed = [
        int(np.searchsorted(np.cumsum(values), share * values.sum() * (1 - 1e-12)) + 1)
        for values in spectra
        if len(values)
    ]
    return int(np.clip(np.median(needed), 1, most)) if needed else 1


def _principal_directions(documents: Matrix) -> tuple[Vector, Matrix]:
    """Return the positive eigenvalues of the covariance, largest first, and the directions as rows."""
    n_docs, n_features = documents.shape
    if n_docs < 2:
        return np.zeros(0), np.zeros((0, n_features), np.float32)
    centred = documents - documents.mean(axis=0, dtype=np.float64)
    extent = float(np.abs(centred).max(initial=0.0))
    if extent == 0.0:
        return np.zeros(0), np.zeros((0, n_features), np.float32)
    centred /= extent
    if n_docs < n_features:
        values, vectors = np.linalg.eigh(centred @ centred.T)
    else:
        values, vectors = np.linalg.eigh(centred.T @ centred)
    values, vectors = values[::-1], vectors[:, ::-1]
    real = values > _RANK_TOLERANCE * values[0]
    values, vectors = values[real], vectors[:, real]
    axes = vectors.T @ centred / np.sqrt(values)[:, None] if n_docs < n_features else vectors.T
    return values * (extent**2 / max(n_docs - 1, 1)), np.ascontiguousarray(axes, np.float32)
