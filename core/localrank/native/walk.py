"""The scores of a forest by walking (walk.c) or by bit vectors (leaves.c), and what its splits add to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.native.library import address_of, library

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.scorers.bits import LeafBits
    from localrank.scorers.walk import ForestLayout

#: Documents that bit vectors take at once; shorter lists than the second number are walked.
_BLOCK, _FEW = 32, 8
#: Bytes of the widest vector, and the floats that it holds.
_VECTOR, _NUMBERS = 64, 16


class CompiledWalk:
    """Scores with one layout, whose indices were checked; other threads run meanwhile.

    Bit vectors score if the trees are small enough for the vectors of this processor (docs/decisions/trees.md has the
    measurements). The bits of the scores are the same.
    """

    def __init__(self, layout: ForestLayout, bits: LeafBits | None = None) -> None:
        opened = library()
        if opened is None:
            raise ValueError("the compiled library is missing")
        self._layout = layout  # keeps the arrays alive
        self._library = opened
        if bits is not None and bits.most_leaves > opened.localrank_most_leaves():
            bits = None
        self._bits = bits
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
        if bits is not None:
            self._room = len(bits.columns) * _BLOCK + _NUMBERS
            self._trees = (
                address_of(bits.columns),
                len(bits.columns),
                address_of(bits.splits),
                address_of(bits.ends),
                address_of(bits.leaves),
                len(bits.leaves),
                1 if bits.most_leaves <= _BLOCK else 2,
                address_of(bits.values),
                address_of(layout.set_begins),
                address_of(layout.category_bits),
            )

    def score(self, documents: Matrix, /) -> Vector:
        documents = np.ascontiguousarray(documents, np.float32)
        n_docs, n_features = documents.shape
        scores = np.empty(n_docs)
        at, into = address_of(documents), address_of(scores)
        if self._bits is None or n_docs < _FEW:
            self._library.localrank_walk(at, n_docs, n_features, *self._forest, into)
        else:
            space = np.empty(self._room, np.float32)
            columns = -(-address_of(space) // _VECTOR) * _VECTOR
            self._library.localrank_leaves(at, n_docs, n_features, *self._trees, columns, into)
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
