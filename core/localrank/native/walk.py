"""The walk of a forest, and what its splits add to scores (walk.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.native.library import address_of, library

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.scorers.walk import ForestLayout


class CompiledWalk:
    """Walks one layout, whose indices were checked; other threads run meanwhile."""

    def __init__(self, layout: ForestLayout) -> None:
        opened = library()
        if opened is None:
            raise ValueError("the compiled library is missing")
        self._layout = layout  # keeps the arrays alive
        self._library = opened
        self._forest = (
            address_of(layout.nodes),
            address_of(layout.ends),
            len(layout.ends),
            address_of(layout.values),
            address_of(layout.set_begins),
            address_of(layout.category_bits),
            len(layout.set_begins) - 1,
            layout.zero_is_missing,
        )

    def score(self, documents: Matrix, /) -> Vector:
        documents = np.ascontiguousarray(documents, np.float32)
        n_docs, n_features = documents.shape
        scores = np.empty(n_docs)
        self._library.localrank_walk(
            address_of(documents), n_docs, n_features, *self._forest, address_of(scores)
        )
        return scores

    def gains(self, documents: Matrix, /) -> Vector:
        documents = np.ascontiguousarray(documents, np.float32)
        layout = self._layout
        gains, counts = np.empty(len(layout.nodes)), np.empty(len(layout.nodes), np.int64)
        self._library.localrank_gains(
            address_of(documents),
            *documents.shape,
            address_of(layout.nodes),
            len(layout.nodes),
            address_of(layout.roots),
            len(layout.roots),
            address_of(layout.values),
            address_of(layout.set_begins),
            address_of(layout.category_bits),
            len(layout.set_begins) - 1,
            address_of(counts),
            address_of(gains),
        )
        return gains

    def contributions(self, documents: Matrix, gains: Vector, /) -> Vector:
        documents = np.ascontiguousarray(documents, np.float32)
        layout = self._layout
        contributions = np.empty(documents.shape)
        self._library.localrank_contributions(
            address_of(documents),
            *documents.shape,
            address_of(layout.nodes),
            address_of(layout.roots),
            len(layout.roots),
            address_of(layout.set_begins),
            address_of(layout.category_bits),
            len(layout.set_begins) - 1,
            address_of(gains),
            address_of(contributions),
        )
        return contributions
