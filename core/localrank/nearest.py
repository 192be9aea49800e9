"""Which training query is nearest to a query, and how far it is ahead of any other cluster.

`search_of` takes the compiled comparison of `localrank.native` where there is one for the form of similarity, else the one
in numpy, which finds the same up to rounding in float32. Of equally near ones the first is taken.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from localrank.errors import ArtifactCorrupt
from localrank.native import library
from localrank.similarity import one_to_many

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.signature import Signature, Signatures
    from localrank.similarity import Similarity

__all__ = ["CompiledSearch", "Nearest", "NumpySearch", "Search", "search_of"]

#: Numbers of one vector of the compiled comparison, to which rows are padded.
_LANES = 16


class Nearest(NamedTuple):
    """The nearest training query.

    Attributes:
        cluster: whose it is.
        similarity: how near.
        margin: how far that is ahead of the nearest of any other cluster; ``None`` where there is no other.
    """

    cluster: int
    similarity: float
    margin: float | None


class Search(Protocol):
    """Compares a query with training queries."""

    def among_all(self, signature: Signature, /) -> Nearest: ...

    def among(self, signature: Signature, which: Indices, /) -> Nearest:
        """Compare with these training queries only, of which there is one at least."""
        ...


def search_of(signatures: Signatures, clusters: Indices, similarity: Similarity) -> Search:
    """Return the fastest search that this machine has."""
    opened = library() if similarity == "eq5" and len(signatures) else None
    if opened is None:
        return NumpySearch(signatures, clusters, similarity)
    return CompiledSearch(signatures, clusters, opened)


class NumpySearch:
    """Any form of similarity."""

    def __init__(self, signatures: Signatures, clusters: Indices, similarity: Similarity) -> None:
        self._signatures, self._similarity = signatures, similarity
        self._clusters = np.asarray(clusters)

    def among_all(self, signature: Signature, /) -> Nearest:
        return _nearest(one_to_many(signature, self._signatures, self._similarity), self._clusters)

    def among(self, signature: Signature, which: Indices, /) -> Nearest:
        similarities = one_to_many(signature, self._signatures.take(which), self._similarity)
        return _nearest(similarities, self._clusters[which])


def _nearest(similarities: Vector, clusters: Indices) -> Nearest:
    best = int(np.argmax(similarities))
    cluster = int(clusters[best])
    others = similarities[clusters != cluster]
    margin = float(similarities[best] - others.max()) if len(others) else None
    return Nearest(cluster, float(similarities[best]), margin)


class _Found(ctypes.Structure):
    _fields_ = (
        ("place", ctypes.c_int64),
        ("cluster", ctypes.c_int64),
        ("similarity", ctypes.c_double),
        ("other", ctypes.c_double),
    )

    def nearest(self) -> Nearest:
        if self.place < 0:
            raise ArtifactCorrupt("the training queries' directions hold no numbers")
        similarity, other = self.similarity, self.other
        return Nearest(self.cluster, similarity, None if other == -np.inf else similarity - other)


class CompiledSearch:
    """Eq. 5, read where the training queries lie in memory; other threads run meanwhile."""

    def __init__(self, signatures: Signatures, clusters: Indices, opened: ctypes.CDLL) -> None:
        directions = np.ascontiguousarray(signatures.directions, np.float32)
        ranks = np.ascontiguousarray(signatures.ranks, np.int64)
        clusters = np.ascontiguousarray(clusters, np.int64)
        self._arrays = directions, ranks, clusters  # kept alive, for their addresses
        self._opened = opened
        self._shape = directions.shape[1:]
        self._training = (
            directions.ctypes.data,
            ranks.ctypes.data,
            clusters.ctypes.data,
            *directions.shape,
        )
        n_components, n_features = self._shape
        self._scratch = n_components * (n_features + _LANES)

    def among_all(self, signature: Signature, /) -> Nearest:
        return self._compare(signature, 0, len(self._arrays[0]))

    def among(self, signature: Signature, which: Indices, /) -> Nearest:
        which = np.ascontiguousarray(which, np.int64)
        return self._compare(signature, which.ctypes.data, len(which))

    def _compare(self, signature: Signature, which: int, count: int) -> Nearest:
        directions = self._checked(signature)
        scratch = np.empty(self._scratch, np.float32)
        found = _Found()
        self._opened.localrank_nearest(
            *self._training,
            directions.ctypes.data,
            signature.rank,
            which,
            count,
            scratch.ctypes.data,
            ctypes.addressof(found),
        )
        return found.nearest()

    def _checked(self, signature: Signature) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        if signature.directions.shape != self._shape:
            raise ValueError(f"expected directions {self._shape}, found {signature.directions.shape}")
        return np.ascontiguousarray(signature.directions, np.float32)
