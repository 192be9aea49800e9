"""Which training query is nearest to a query by eq. 5 (nearest.c)."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank.native.addresses import address_of
from localrank.native.library import library

if TYPE_CHECKING:
    from localrank.arrays import Indices, Matrix

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
