"""Small trees laid out for bit vectors: every split is asked for every document, and says which leaves it cannot reach.

The leaves of a tree are bits from left to right. A document that goes right at a split does not reach the leaves on its
left, so these bits are cleared; the lowest bit that is left is the document's leaf [lucchese2015]. The order of the
splits does not matter and no step depends on another, so the compiled code (`localrank.native.walk`) asks one split for
32 documents at once. It adds the same values in the same order as the walk, so the scores are equal to the bit.

A split compares and does nothing else: what is missing is in the documents' columns, where it became NaN (never above a
threshold: left) or infinity (above every finite threshold: right).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from localrank.scorers.walk import (
    FEATURE,
    GOES_RIGHT_BY_DEFAULT,
    IS_CATEGORICAL,
    IS_LEAF,
    ZERO_REACH,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from localrank.arrays import Bits, Vector
    from localrank.scorers.walk import ForestLayout

#: What a feature is to some splits, and a split with the leaves on its left, as native.h has them.
COLUMN = np.dtype([("feature", "u4"), ("categorical", "u4"), ("reach", "f4"), ("missing", "f4")])
SPLIT = np.dtype([("threshold", "f4"), ("column", "u4"), ("on_left", "u4", (2,))])
#: Leaves that the bits of a split have room for.
MOST_LEAVES = 64


@dataclass(frozen=True, slots=True, eq=False)
class LeafBits:
    """A forest of small trees laid out for bit vectors.

    Attributes:
        columns: ``[n_columns]`` of `COLUMN`, by feature.
        splits: ``[n_splits]`` of `SPLIT`; of each tree first those with a threshold, then those with a category set.
        ends: ``[2 * n_trees]`` where these two parts of each tree end.
        leaves: ``[n_trees]`` where each tree's values begin.
        values: ``[n_leaves]``, of each tree from left to right.
        most_leaves: of a tree.
    """

    columns: NDArray[np.void]
    splits: NDArray[np.void]
    ends: NDArray[np.int32]
    leaves: NDArray[np.int32]
    values: Vector
    most_leaves: int

    @classmethod
    def of(cls, layout: ForestLayout) -> Self | None:
        """Lay out a forest; None if a tree has more than `MOST_LEAVES` leaves, or infinity is no way to the right."""
        nodes, n_trees = layout.nodes, len(layout.roots)
        is_leaf = (nodes["feature"] & IS_LEAF) > 0
        is_leaf_of_tree = is_leaf.copy()
        is_leaf_of_tree[layout.ends] = False
        tree_of = np.searchsorted(layout.roots, np.arange(len(nodes)), "right") - 1
        n_leaves = np.bincount(tree_of[is_leaf_of_tree], minlength=n_trees)
        asked = nodes[~is_leaf]
        to_right = (asked["feature"] & GOES_RIGHT_BY_DEFAULT) > 0
        if n_leaves.max() > MOST_LEAVES or (np.isposinf(asked["threshold"]) & to_right).any():
            return None

        first, count = _spans(layout, is_leaf)
        categorical = (asked["feature"] & IS_CATEGORICAL) > 0
        zero_too = asked["reach"] >= 0
        feature = (asked["feature"] & FEATURE).astype(np.int64)
        kinds, column = np.unique(
            8 * feature + 4 * categorical + 2 * zero_too + to_right, return_inverse=True
        )
        columns = np.zeros(len(kinds), COLUMN)
        columns["feature"], columns["categorical"] = kinds // 8, kinds & 4
        columns["reach"] = np.where(kinds & 2, ZERO_REACH, np.float32(-1))
        columns["missing"] = np.where(kinds & 1, np.inf, np.nan)
        splits = np.zeros(len(asked), SPLIT)
        splits["threshold"], splits["column"] = asked["threshold"], column
        left = asked["left"]
        on_left = ((np.uint64(1) << count[left]) - np.uint64(1)) << first[left]
        splits["on_left"] = np.stack([on_left & np.uint64(0xFFFF_FFFF), on_left >> np.uint64(32)], axis=1)

        own = tree_of[~is_leaf]
        ends = np.repeat(np.cumsum(np.bincount(own, minlength=n_trees)), 2)
        ends[::2] -= np.bincount(own[categorical], minlength=n_trees)
        leaves = np.cumsum(n_leaves) - n_leaves
        values = np.empty(int(n_leaves.sum()))
        values[(leaves[tree_of] + first.astype(np.int64))[is_leaf_of_tree]] = layout.values[is_leaf_of_tree]
        return cls(
            columns=columns,
            splits=splits[np.lexsort((categorical, own))],
            ends=ends.astype(np.int32),
            leaves=leaves.astype(np.int32),
            values=values,
            most_leaves=int(n_leaves.max()),
        )


def _spans(layout: ForestLayout, is_leaf: Bits) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the first leaf below each node, counted from left to right in its tree, and how many there are."""
    left = layout.nodes["left"]
    levels, level = [], layout.roots[~is_leaf[layout.roots]]
    while len(level):
        levels.append(level)
        children = np.concatenate([left[level], left[level] + 1])
        level = children[~is_leaf[children]]
    first, count = np.zeros(len(left), np.uint64), np.ones(len(left), np.uint64)
    for level in reversed(levels):
        count[level] = count[left[level]] + count[left[level] + 1]
    for level in levels:
        first[left[level]] = first[level]
        first[left[level] + 1] = first[level] + count[left[level]]
    return first, count
