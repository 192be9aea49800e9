"""How documents find their leaves: the forest laid out for walking, and the walk in plain numpy.

The layout puts the two children of a split next to each other, so that one step is ``left + goes_right``. A leaf leads to
the root of the next tree, so that a document walks through many trees without a break. Thresholds become the greatest float32
that is not above them; every float32 value then goes the same way as with the double. Everything about missing values
is two numbers per node: values of magnitude up to ``reach`` and NaN go to the default side.

`walk_of` takes the compiled walk of `localrank.native.walk` if there is a library, else the walk here, which gives the
same bits more slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from localrank.scorers.trees import (
    CATEGORICAL,
    DEFAULT_LEFT,
    FEATURE_BITS,
    MISSING_NONE,
    MISSING_TYPE,
    MISSING_ZERO,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank.scorers.trees import TreesScorer

#: One node, as the compiled walk reads it. For a categorical split the threshold's bits are its set's position.
NODE = np.dtype([("threshold", "f4"), ("reach", "f4"), ("left", "i4"), ("feature", "u4")])
#: Flags in the three upper bits of a node's feature.
GOES_RIGHT_BY_DEFAULT = np.uint32(1 << 31)
IS_CATEGORICAL = np.uint32(1 << 30)
IS_LEAF = np.uint32(1 << FEATURE_BITS)
FEATURE = np.uint32((1 << FEATURE_BITS) - 1)
#: Trees of a group. All documents walk one group before the next, so that its nodes fit a core's first cache.
_GROUP = 16
#: LightGBM's constant: values up to this count as zero if zero means missing.
ZERO_REACH = np.float32(1e-35)
#: How many (tree, document) pairs the numpy walk moves at once: what it touches then fits a core's own cache.
_PAIRS = 16_384


class Walk(Protocol):
    """Scores documents with the forest that it was made of."""

    def score(self, documents: Matrix, /) -> Vector:
        """``[n_docs, n_features] -> [n_docs]``; C-contiguous."""
        ...

    def gains(self, documents: Matrix, /) -> Vector:
        """Return ``[n_nodes]``: what a step to each node changes of the mean leaf value of a list.

        A node's mean is over the documents of the list that reach it. If no document reaches a node, its number has no
        meaning. Roots have zero.
        """
        ...

    def contributions(self, documents: Matrix, gains: Vector, /) -> Vector:
        """Return ``[n_docs, n_features]``: the gains along each document's paths, each for the feature that is split."""
        ...


def walk_of(forest: TreesScorer) -> Walk:
    """Return the fastest walk that this machine has."""
    from localrank.native.library import library
    from localrank.native.walk import CompiledWalk
    from localrank.scorers.bits import LeafBits

    layout = ForestLayout.of(forest)
    return NumpyWalk(layout) if library() is None else CompiledWalk(layout, LeafBits.of(layout))


@dataclass(frozen=True, slots=True, eq=False)
class ForestLayout:
    """A forest laid out for walking.

    Attributes:
        nodes: ``[n_nodes]`` of `NODE`; splits and leaves of all trees, and an end behind each group of trees, which leads
            to itself.
        ends: ``[n_groups]`` positions of these ends in ``nodes``.
        roots: ``[n_trees]`` positions in ``nodes``.
        depths: ``[n_trees]`` steps from the root to the deepest leaf.
        values: ``[n_nodes]``, zero except at leaves.
        set_begins: ``[n_category_sets + 1]`` positions in ``category_bits``.
        category_bits: as in the forest.
    """

    nodes: NDArray[np.void]
    ends: NDArray[np.int32]
    roots: NDArray[np.int32]
    depths: NDArray[np.int32]
    values: Vector
    set_begins: Indices
    category_bits: NDArray[np.uint32]

    @classmethod
    def of(cls, forest: TreesScorer) -> Self:
        tree_of, n_splits = forest.tree_of, len(forest.features)
        # Tree t owns 2 * splits + 1 nodes: the root, then the two children of each split in turn.
        trees = np.arange(forest.n_trees)
        roots = 2 * forest.split_begins[:-1] + trees + trees // _GROUP
        pair = 2 * np.arange(n_splits) + tree_of + tree_of // _GROUP + 1
        ends = np.append(roots[_GROUP::_GROUP] - 1, 2 * n_splits + trees[-1] + 1 + trees[-1] // _GROUP)
        following = np.append(roots[1:], ends[-1])
        following[_GROUP - 1 :: _GROUP] = ends[: len(following[_GROUP - 1 :: _GROUP])]
        node_of = np.empty(n_splits, np.int64)
        node_of[forest.split_begins[:-1][forest.splits > 0]] = roots[forest.splits > 0]
        leaf_of = np.empty(len(forest.values), np.int64)
        leaf_of[(forest.split_begins[:-1] + np.arange(forest.n_trees))[forest.splits == 0]] = roots[
            forest.splits == 0
        ]
        for side, child in enumerate((forest.left.astype(np.int64), forest.right.astype(np.int64))):
            inner = child >= 0
            begin = forest.split_begins[tree_of]
            node_of[(child + begin)[inner]] = (pair + side)[inner]
            leaf_of[(-1 - child + begin + tree_of)[~inner]] = (pair + side)[~inner]

        missing = forest.decisions & MISSING_TYPE
        categorical = (forest.decisions & CATEGORICAL) > 0
        # If the split has no missing values, NaN counts as zero and is compared with the threshold.
        right = np.where(
            missing == MISSING_NONE, forest.thresholds < 0, (forest.decisions & DEFAULT_LEFT) == 0
        )
        nodes = np.zeros(ends[-1] + 1, NODE)
        nodes["threshold"], nodes["reach"], nodes["feature"] = np.inf, -1.0, IS_LEAF
        nodes["left"][ends] = ends
        nodes["left"][leaf_of] = np.repeat(following, forest.splits + 1)
        threshold = _greatest_float32(forest.thresholds)
        threshold[categorical] = forest.thresholds[categorical].astype(np.int32).view(np.float32)
        nodes["threshold"][node_of] = threshold
        nodes["reach"][node_of] = np.where(missing == MISSING_ZERO, ZERO_REACH, np.float32(-1.0))
        nodes["left"][node_of] = pair
        nodes["feature"][node_of] = (
            forest.features.astype(np.uint32)
            | np.where(right & ~categorical, GOES_RIGHT_BY_DEFAULT, np.uint32(0))
            | np.where(categorical, IS_CATEGORICAL, np.uint32(0))
        )
        values = np.zeros(len(nodes))
        values[leaf_of] = forest.values
        return cls(
            nodes=nodes,
            ends=ends.astype(np.int32),
            roots=roots.astype(np.int32),
            depths=_depths(forest),
            values=values,
            set_begins=np.concatenate([[0], np.cumsum(forest.category_words, dtype=np.int64)]),
            category_bits=np.ascontiguousarray(forest.category_bits),
        )

    @property
    def has_categories(self) -> bool:
        return len(self.set_begins) > 1

    @property
    def zero_is_missing(self) -> bool:
        """Whether any split takes zero for a missing value."""
        return bool((self.nodes["reach"] >= 0).any())


class NumpyWalk:
    """All trees and a block of documents take one step at a time."""

    def __init__(self, layout: ForestLayout) -> None:
        # Deepest trees first, so that those still walking are the first rows.
        order = np.argsort(-layout.depths, kind="stable")
        self._back = np.argsort(order)
        self._roots = layout.roots[order].astype(np.int64)[:, None]
        depths = layout.depths[order]
        self._walking = [int((depths > step).sum()) for step in range(int(depths.max()))]
        feature = layout.nodes["feature"]
        self._feature = (feature & FEATURE).astype(np.int64)
        self._default = (feature & GOES_RIGHT_BY_DEFAULT) > 0
        self._categorical = (feature & IS_CATEGORICAL) > 0
        # All documents take as many steps as the tree is deep; here a leaf leads to itself.
        is_leaf = (feature & IS_LEAF) > 0
        self._left = np.where(is_leaf, np.arange(len(feature)), layout.nodes["left"])
        self._threshold = layout.nodes["threshold"].copy()
        self._reach = layout.nodes["reach"].copy()
        self._zero_is_missing = layout.zero_is_missing
        # One more, which is looked at for what is in no set; there may be none.
        self._words = np.append(layout.category_bits, np.uint32(0))
        self._layout = layout

    def score(self, documents: Matrix, /) -> Vector:
        scores = np.empty(len(documents))
        size = max(1, _PAIRS // len(self._roots))
        for begin in range(0, len(documents), size):
            block = documents[begin : begin + size]
            scores[begin : begin + size] = self._score(block)
        return scores

    def gains(self, documents: Matrix, /) -> Vector:
        counts = np.zeros(len(self._layout.nodes), np.int64)
        size = max(1, _PAIRS // len(self._roots))
        for begin in range(0, len(documents), size):
            leaves = self._leaves(documents[begin : begin + size])
            counts += np.bincount(leaves.ravel(), minlength=len(counts))
        means, gains = self._layout.values.copy(), np.zeros(len(counts))
        for splits in reversed(self._levels()):
            left = self._left[splits]
            right = left + 1
            counts[splits] = counts[left] + counts[right]
            share = counts[right] / np.maximum(counts[splits], 1)
            between = means[left] + (means[right] - means[left]) * share
            one_side = np.where(counts[left] == 0, means[right], means[left])
            means[splits] = np.where((counts[left] == 0) | (counts[right] == 0), one_side, between)
            for child in (left, right):
                gains[child] = means[child] - means[splits]
        return gains

    def contributions(self, documents: Matrix, gains: Vector, /) -> Vector:
        found = np.zeros(documents.shape)
        documents = np.ascontiguousarray(documents)
        rows = np.arange(len(documents))
        # One tree after the other, so that gains are added in the order of the compiled walk.
        for root in self._layout.roots.tolist():
            at = np.full(len(documents), root)
            while (walking := self._left[at] != at).any():
                now = at
                at = self._next(now, documents.ravel(), rows * documents.shape[1])
                found[rows, self._feature[now]] += np.where(walking, gains[at], 0.0)
        return found

    def _levels(self) -> list[Indices]:
        """Return the splits of all trees, those of one depth together, the roots first."""
        levels = []
        level = self._roots[:, 0]
        while len(splits := level[self._left[level] != level]):
            levels.append(splits)
            level = np.concatenate([self._left[splits], self._left[splits] + 1])
        return levels

    def _score(self, documents: Matrix) -> Vector:
        # Added in the order of the trees, as the compiled walk adds them: so the bits are equal.
        added: Vector = np.cumsum(self._layout.values.take(self._leaves(documents))[self._back], axis=0)[-1]
        return added

    def _leaves(self, documents: Matrix) -> Indices:
        """Return ``[n_trees, n_docs]``, trees in the order in which they walk."""
        flat, rows = documents.ravel(), np.arange(len(documents)) * documents.shape[1]
        asks_default = self._zero_is_missing or bool(np.isnan(documents).any())
        at = np.repeat(self._roots, len(documents), axis=1)
        for walking in self._walking:
            at[:walking] = self._next(at[:walking], flat, rows, asks_default=asks_default)
        return at

    def _next(self, now: Indices, flat: Matrix, rows: Indices, *, asks_default: bool = True) -> Indices:
        """Return which node follows, given all documents' values and where each document's begin."""
        seen = flat.take(self._feature.take(now) + rows)
        right = seen > self._threshold.take(now)
        if asks_default:
            by_default = ~(np.abs(seen) > self._reach.take(now))
            right = np.where(by_default, self._default.take(now), right)
        if self._layout.has_categories:
            right = np.where(self._categorical.take(now), self._not_among(now, seen), right)
        following: Indices = self._left.take(now) + right
        return following

    def _not_among(self, now: Indices, seen: Matrix) -> Bits:
        """Tell which categories are not in their node's set. The answer has no meaning for nodes that are not
        categorical.
        """
        begins = self._layout.set_begins
        which = np.where(self._categorical.take(now), self._threshold.view(np.int32).take(now), 0)
        bits = 32 * (begins[which + 1] - begins[which])
        # False for NaN. A set may be empty, even the only one.
        known = (seen > -1) & (seen < bits) & (bits > 0)
        category = np.where(known, seen, 0).astype(np.int64)
        word = np.where(known, begins[which] + category // 32, 0)
        inside = (self._words[word] >> (category % 32).astype(np.uint32)) & 1
        not_among: Bits = ~(known & (inside > 0))
        return not_among


def _greatest_float32(thresholds: Vector) -> Matrix:
    """Return the greatest float32 not above each: ``x <= threshold`` is the same for every float32 ``x``."""
    with np.errstate(over="ignore"):
        rounded = thresholds.astype(np.float32)
        return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _depths(forest: TreesScorer) -> NDArray[np.int32]:
    """``[n_trees]`` steps from the root to the deepest leaf."""
    depths = np.zeros(forest.n_trees, np.int32)
    level = forest.split_begins[:-1][forest.splits > 0]
    while len(level):
        trees = forest.tree_of[level]
        depths[trees] += 1  # once per tree: fancy indexing does not add up repetitions
        children = np.concatenate([forest.left[level], forest.right[level]]).astype(np.int64)
        begins = np.tile(forest.split_begins[trees], 2)
        level = (children + begins)[children >= 0]
    return depths
