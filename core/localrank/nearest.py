"""Which training query is nearest to a query, and how far it is ahead of any other cluster.

`search_of` takes the compiled comparison of `localrank.native` where there is one for the form of similarity, else the one
in numpy, which finds the same up to rounding in float32. Of equally near ones the first is taken.
"""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from localrank.errors import ArtifactCorrupt
from localrank.native import library
from localrank.similarity import one_to_many
from localrank.sketch import LANES, Sketch

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.signature import Signature, Signatures
    from localrank.similarity import Similarity

__all__ = ["CompiledSearch", "Nearest", "NumpySearch", "Search", "search_of"]

#: A sketch is made of so many numbers: of fewer it saves nothing, of more it would take too much memory of every worker.
_LEAST_SKETCHED, _MOST_SKETCHED = 1 << 14, 1 << 24
#: Products of more features could be beyond 32 bits.
_MOST_FEATURES = 1 << 19


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
        n_queries, n_components, n_features = directions.shape
        #: Numbers of float32 that a comparison and the use of a sketch need.
        self._row_scratch = n_components * (n_features + LANES)
        self._scratch = self._row_scratch + n_components * (n_features // 2 + 1) + 2 * n_queries + 2 * LANES

    def among_all(self, signature: Signature, /) -> Nearest:
        sketched = self._sketched
        if sketched is None:
            return self._compare(signature, 0, len(self._arrays[0]))
        directions = self._checked(signature)
        scratch = np.empty(self._scratch, np.float32)
        found = _Found()
        self._opened.localrank_nearest_by_sketch(
            *self._training,
            *sketched[1:],
            directions.ctypes.data,
            signature.rank,
            scratch.ctypes.data,
            ctypes.addressof(found),
        )
        return found.nearest()

    def among(self, signature: Signature, which: Indices, /) -> Nearest:
        which = np.ascontiguousarray(which, np.int64)
        return self._compare(signature, which.ctypes.data, len(which))

    def _compare(self, signature: Signature, which: int, count: int) -> Nearest:
        directions = self._checked(signature)
        scratch = np.empty(self._row_scratch, np.float32)
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

    @cached_property
    def _sketched(self) -> tuple[Sketch, int, int, int, int, float] | None:
        directions, ranks, _ = self._arrays
        if not _LEAST_SKETCHED <= directions.size <= _MOST_SKETCHED or self._shape[1] > _MOST_FEATURES:
            return None
        sketch = Sketch.of(directions, ranks)
        if sketch is None:
            return None
        codes, scales, errors = (a.ctypes.data for a in (sketch.codes, sketch.scales, sketch.errors))
        return (sketch, codes, scales, errors, sketch.ranks.ctypes.data, sketch.reach)
