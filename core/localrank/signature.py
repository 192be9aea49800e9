r"""What a query looks like: the principal directions of its documents.

Shapes: documents ``[n_docs, n_features]``, directions ``[n_components, n_features]``. A signature always holds
``n_components`` rows; a cloud of lower rank has fewer directions, and the rows beyond its rank are zero, so that
they add nothing to any dot product.

What does not belong here: how directions are computed (`localrank.principal`), comparing signatures (`localrank.similarity`) and finding near ones (`localrank.routing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank.principal import principal_directions, principal_variances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Matrix, Vector

__all__ = ["QuerySigner", "Signature", "Signatures", "choose_components", "spectrum"]


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
        directions = np.zeros((self.components, documents.shape[1]), np.float32)
        eigenvalues = np.zeros(self.components)
        variances, axes = principal_directions(documents, self.components)
        rank = len(variances)
        directions[:rank] = axes
        eigenvalues[:rank] = variances
        return Signature(directions, eigenvalues, rank)

    def sign_all(self, queries: Sequence[Matrix]) -> Signatures:
        """Sign many queries, each exactly as `sign` does.

        One by one: for a stack of small matrices LAPACK computes all eigenvectors of each, which takes longer than
        calling it once per query for the few that are wanted.
        """
        n_features = queries[0].shape[1] if len(queries) else 0
        directions = np.zeros((len(queries), self.components, n_features), np.float32)
        eigenvalues = np.zeros((len(queries), self.components))
        ranks = np.zeros(len(queries), np.int64)
        for query, documents in enumerate(queries):
            variances, axes = principal_directions(documents, self.components)
            rank = ranks[query] = len(variances)
            directions[query, :rank] = axes
            eigenvalues[query, :rank] = variances
        return Signatures(directions, eigenvalues, ranks)


def spectrum(documents: Matrix) -> Vector:
    """Return the positive eigenvalues of the documents' covariance, largest first."""
    return principal_variances(documents)


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
