"""The search among training queries.

Which training query is nearest to a query by eq. 5 (nearest.c).

The look-up in hyperplane tables (tables.c).

What `localrank.routing.search.HyperplaneTables` does in numpy, to the bit: the same candidates, votes and order.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank.native.library import address_of, library

if TYPE_CHECKING:
    from localrank.arrays import Ids, Indices, Matrix, ShortInts

#: Numbers of one vector of the compiled comparison, to which rows are padded.
_LANES = 16


class Found(NamedTuple):
    """The nearest training query.

    Attributes:
        cluster: the cluster of this query.
        similarity: how near.
        other: the similarity of the nearest one of any other cluster; minus infinity if there is none.
    """

    cluster: int
    similarity: float
    other: float


class _Neighbour(ctypes.Structure):
    _fields_ = (
        ("place", ctypes.c_int64),
        ("cluster", ctypes.c_int64),
        ("similarity", ctypes.c_double),
        ("other", ctypes.c_double),
    )


class TrainingQueries:
    """Training queries that are compared where they lie in memory.

    Args:
        directions: ``[n_queries, n_components, n_features]``.
        ranks: ``[n_queries]``.
        clusters: ``[n_queries]``.
        compiled: the library.
    """

    def __init__(
        self, directions: Matrix, ranks: Indices, clusters: Indices, compiled: ctypes.CDLL | None = None
    ) -> None:
        opened = compiled or library()
        if opened is None:
            raise ValueError("the compiled library is missing")
        directions = np.ascontiguousarray(directions, np.float32)
        ranks = np.ascontiguousarray(ranks, np.int64)
        clusters = np.ascontiguousarray(clusters, np.int64)
        self._arrays = directions, ranks, clusters  # kept alive, for their addresses
        self._nearest = opened.localrank_nearest
        self._n_queries, *self._shape = directions.shape
        if ranks.shape != (self._n_queries,) or clusters.shape != (self._n_queries,):
            raise ValueError(
                f"expected ranks and clusters of {self._n_queries} training queries, "
                f"found {ranks.shape} and {clusters.shape}"
            )
        self._training = (
            address_of(directions),
            address_of(ranks),
            address_of(clusters),
            *directions.shape,
        )
        n_components, n_features = self._shape
        self._scratch = n_components * (n_features + _LANES)

    def nearest(self, directions: Matrix, rank: int, which: Indices | None = None) -> Found | None:
        """Compare a query with these training queries, or with all.

        ``None`` if none of them has a similarity, because their directions hold no numbers.
        """
        if list(directions.shape) != self._shape:
            raise ValueError(f"expected directions {tuple(self._shape)}, found {directions.shape}")
        directions = np.ascontiguousarray(directions, np.float32)
        if which is not None:
            which = np.ascontiguousarray(which, np.int64)
        scratch = np.empty(self._scratch, np.float32)
        found = _Neighbour()
        self._nearest(
            *self._training,
            address_of(directions),
            rank,
            None if which is None else address_of(which),
            self._n_queries if which is None else len(which),
            address_of(scratch),
            ctypes.addressof(found),
        )
        return None if found.place < 0 else Found(found.cluster, found.similarity, found.other)


#: As `candidate` in native.h.
_CANDIDATE = np.dtype([(name, "i4") for name in ("query", "votes", "component", "plus", "minus")])


class _Scratch(threading.local):
    """Memory that every thread keeps from one look-up to the next."""

    def __init__(self) -> None:
        self.room = self.buckets = 0
        self.reserve(4096, 256)

    def reserve(self, room: int, buckets: int) -> None:
        """Make room for at least this many candidates and buckets."""
        if room > self.room:
            self.room = 1 << (room - 1).bit_length()
            self.slots = np.empty(2 * self.room, np.int32)
            self.candidates = np.empty(self.room, _CANDIDATE)
            self.keys = np.empty(2 * self.room, np.uint64)
            self.keys_at = address_of(self.keys)
        if buckets > self.buckets:
            self.buckets = buckets
            self.ranges = np.empty((buckets, 2), np.int64)
        arrays = self.ranges, self.slots, self.candidates
        self.addresses = tuple(address_of(array) for array in arrays)


_scratch = _Scratch()


class LookUp:
    """Looks up in one set of tables; other threads run meanwhile."""

    def __init__(self, offsets: Ids, ids: Ids, planes: int) -> None:
        opened = library()
        if opened is None:
            raise ValueError("the compiled library is missing")
        self._offsets = np.ascontiguousarray(offsets, np.int32)
        self._ids = np.ascontiguousarray(ids, np.int32)
        self._components, self._tables, self._n_queries = self._ids.shape
        expected = (self._components, self._tables, 2**planes + 1)
        if self._offsets.shape != expected:
            raise ValueError(f"expected offsets {expected}, found {self._offsets.shape}")
        self._planes = planes
        self._at = address_of(self._offsets), address_of(self._ids), self._n_queries
        self._votes, self._most_votes = opened.localrank_votes, opened.localrank_most_votes

    def votes(self, projected: Matrix, cap: int | None, probes: int) -> tuple[Indices, Indices]:
        """Return the candidates in increasing order and their votes."""
        count = self._count(projected, cap, probes)
        found = _scratch.candidates[:count]
        order = np.argsort(found["query"])
        return found["query"][order].astype(np.int64), found["votes"][order].astype(np.int64)

    def candidates(
        self, projected: Matrix, cap: int | None, probes: int, ranks: ShortInts | None, most: int
    ) -> Indices:
        """Return the candidates with most votes."""
        count = self._count(projected, cap, probes)
        if ranks is not None:
            ranks = np.ascontiguousarray(ranks, np.uint16)
            if ranks.shape != (self._n_queries,):
                raise ValueError(f"expected ranks of {self._n_queries} training queries, found {ranks.shape}")
        chosen = np.empty(min(count, most), np.int64)
        self._most_votes(
            _scratch.addresses[2],
            count,
            None if ranks is None else address_of(ranks),
            self._n_queries,
            len(projected),
            self._tables,
            most,
            _scratch.keys_at,
            address_of(chosen),
        )
        return chosen

    def _count(self, projected: Matrix, cap: int | None, probes: int) -> int:
        """Count the votes into this thread's scratch; return of how many candidates."""
        rank = len(projected)
        if projected.shape[1:] != (self._tables, self._planes) or rank > self._components:
            raise ValueError(f"expected projections on {self._tables} tables, found {projected.shape}")
        _scratch.reserve(0, 2 * rank * self._tables * (1 + min(probes, self._planes)))
        while True:
            count: int = self._votes(
                address_of(projected),
                rank,
                self._tables,
                self._planes,
                *self._at,
                cap or 0,
                probes,
                *_scratch.addresses,
                _scratch.room,
            )
            if count >= 0:
                return count
            _scratch.reserve(-count, 0)
