"""The walk of a forest, and what its splits add to scores (walk.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.native.library import library

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.scorers.walk import Layout

__all__ = ["CompiledWalk"]


class CompiledWalk:
    """Walks one layout, whose indices were checked; other threads run meanwhile."""

    def __init__(self, layout: Layout) -> None:
        opened = library()
        if opened is None:
            raise ValueError("there is no compiled library")
        self._layout = layout  # keeps the arrays alive
        self._library = opened
        self._forest = (
            layout.nodes.ctypes.data,
            layout.roots.ctypes.data,
            layout.depths.ctypes.data,
            len(layout.roots),
            layout.values.ctypes.data,
            layout.set_begins.ctypes.data,
            layout.category_bits.ctypes.data,
            len(layout.set_begins) - 1,
        )

    def score(self, documents: Matrix, /) -> Vector:
        documents = np.ascontiguousarray(documents, np.float32)
        n_docs, n_features = documents.shape
        scores = np.empty(n_docs)
        self._library.localrank_walk(
            documents.ctypes.data, n_docs, n_features, *self._forest, scores.ctypes.data
        )
        return scores

    def gains(self, documents: Matrix, /) -> Vector:
        documents = np.ascontiguousarray(documents, np.float32)
        layout = self._layout
        gains, counts = np.empty(len(layout.nodes)), np.empty(len(layout.nodes), np.int64)
        self._library.localrank_gains(
            documents.ctypes.data,
            *documents.shape,
            layout.nodes.ctypes.data,
            len(layout.nodes),
            layout.roots.ctypes.data,
            len(layout.roots),
            layout.values.ctypes.data,
            layout.set_begins.ctypes.data,
            layout.category_bits.ctypes.data,
            len(layout.set_begins) - 1,
            counts.ctypes.data,
            gains.ctypes.data,
        )
        return gains

    def contributions(self, documents: Matrix, gains: Vector, /) -> Vector:
        documents = np.ascontiguousarray(documents, np.float32)
        layout = self._layout
        contributions = np.empty(documents.shape)
        self._library.localrank_contributions(
            documents.ctypes.data,
            *documents.shape,
            layout.nodes.ctypes.data,
            layout.roots.ctypes.data,
            len(layout.roots),
            layout.set_begins.ctypes.data,
            layout.category_bits.ctypes.data,
            len(layout.set_begins) - 1,
            gains.ctypes.data,
            contributions.ctypes.data,
        )
        return contributions
