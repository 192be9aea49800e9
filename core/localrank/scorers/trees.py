"""Scores that are sums over decision trees, from any library that grew them.

A forest is plain arrays with those of all trees one after the other. A split sends a document left where LightGBM
would [ke2017]: the decision bits are LightGBM's own, and scikit-learn's trees are the special case in which a missing
value has its own direction. Nothing of either library is needed to score.

Invariants, checked on construction: a child stands after its parent, so that there are no cycles; every split but the
root and every leaf is the child of exactly one split; every feature, category set and bit exists; no sum of leaves
overflows. So no file can make the compiled walk read beyond the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from localrank.arrays import Layout, anything, below
from localrank.errors import InvalidDocuments
from localrank.scorers.role import Leaf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from localrank.arrays import Array, Bits, Indices, Layouts, Matrix, Vector
    from localrank.contributions import Parts
    from localrank.scorers.walk import Walk

#: Bits of a decision: the split asks for membership in a set of categories rather than a threshold;
CATEGORICAL = 1
#: what is missing goes left;
DEFAULT_LEFT = 2
#: what is missing: nothing (NaN is taken for zero), zero and NaN, or NaN. The two bits above.
MISSING_TYPE = 12
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 4, 8
#: A node of the walk has this many bits for its feature (`localrank.scorers.walk`).
FEATURE_BITS = 29


@dataclass(frozen=True, eq=False)
class TreesScorer(Leaf):
    r"""A sum over trees of the value of the leaf that a document falls into.

    .. math:: f(x) = \sum_t v_{t,\,\ell_t(x)}

    A document goes left at a split of feature ``j`` and threshold ``s`` if :math:`x_j \le s` in double precision; at a
    categorical split, if :math:`\lfloor x_j \rfloor` (towards zero) is in the split's set, and a missing, negative or
    unknown category goes right. The trees are added in their order, so that the sum is the same to the bit wherever it
    is made.

    Attributes:
        splits: ``[n_trees]`` splits of each tree; it has one leaf more. A tree without splits is a constant.
        features: ``[n_splits]`` which feature a split looks at.
        thresholds: ``[n_splits]``; of a categorical split the position of its category set.
        decisions: ``[n_splits]`` bits: `CATEGORICAL`, `DEFAULT_LEFT`, `MISSING_TYPE`.
        left, right: ``[n_splits]`` children, counted within the tree: split ``c``, or leaf ``-1 - c`` if negative.
        values: ``[n_leaves]``.
        category_words: ``[n_category_sets]`` how many words of ``category_bits`` each set has.
        category_bits: category ``c`` is in a set if bit ``c % 32`` of its word ``c // 32`` is set.
        blocks: what the thresholds were learned on.
    """

    splits: NDArray[np.int32]
    features: NDArray[np.int32]
    thresholds: Vector
    decisions: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    values: Vector
    category_words: NDArray[np.int32]
    category_bits: NDArray[np.uint32]
    blocks: str = "raw"

    kind: ClassVar[str] = "trees"
    layout: ClassVar[Layouts] = {
        "splits": Layout(("int32",), ("trees",), anything),
        "features": Layout(("int32",), ("splits",), below("width"), empty=True),
        "thresholds": Layout(("float64",), ("splits",), anything, empty=True),
        "decisions": Layout(("uint8",), ("splits",), anything, empty=True),
        "left": Layout(("int32",), ("splits",), anything, empty=True),
        "right": Layout(("int32",), ("splits",), anything, empty=True),
        "values": Layout(("float64",), ("leaves",), anything),
        "category_words": Layout(("int32",), ("sets",), anything, empty=True),
        "category_bits": Layout(("uint32",), ("words",), anything, empty=True),
    }

    def __post_init__(self) -> None:
        if problem := self._problem():
            raise ValueError(problem)

    @property
    def n_trees(self) -> int:
        return len(self.splits)

    @cached_property
    def split_begins(self) -> Indices:
        """``[n_trees + 1]`` where each tree's splits begin; its leaves begin as many trees later."""
        begins: Indices = np.concatenate([[0], np.cumsum(self.splits, dtype=np.int64)])
        return begins

    @cached_property
    def tree_of(self) -> Indices:
        """``[n_splits]`` the tree of each split."""
        return np.repeat(np.arange(self.n_trees), self.splits)

    @cached_property
    def n_features(self) -> int:
        """How many features a document needs to have."""
        return int(self.features.max(initial=-1)) + 1

    @cached_property
    def walk(self) -> Walk:
        """How documents find their leaves on this machine; made once."""
        from localrank.scorers.walk import walk_of

        return walk_of(self)

    def score_rows(self, rows: Matrix, /) -> Vector:
        return self.walk.score(self._readable(rows))

    def parts_of(self, rows: Matrix, /) -> Parts:
        gains = self.walk.gains(self._readable(rows))
        return lambda chosen: self.walk.contributions(self._readable(chosen), gains)

    def first(self, count: int) -> Self:
        """Return only the first trees; their arrays are views of the arrays of all trees."""
        splits = int(self.split_begins[count])
        cut: dict[str, Any] = {
            name: getattr(self, name)[:splits]
            for name in ("features", "thresholds", "decisions", "left", "right")
        }
        return replace(self, splits=self.splits[:count], values=self.values[: splits + count], **cut)

    def plus(self, other: TreesScorer) -> TreesScorer:
        """Return the trees of both, as when boosting went on from the first."""
        joined = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.layout}
        sets = len(self.category_words)
        moved = np.where(other.decisions & CATEGORICAL, other.thresholds + sets, other.thresholds)
        joined["thresholds"] = np.concatenate([self.thresholds, moved])
        return TreesScorer(**joined, blocks=self.blocks)

    def __getstate__(self) -> dict[str, Any]:
        # The cache is made of these, and the compiled walk holds addresses of this process.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _readable(self, rows: Matrix) -> Matrix:
        """Return documents as the walk reads them, which has no bounds of its own."""
        if rows.ndim != 2 or rows.shape[1] < self.n_features:
            raise InvalidDocuments(
                f"these trees look at {self.n_features} features, found documents of shape {rows.shape}"
            )
        return np.ascontiguousarray(rows, np.float32)

    def _place(self, split: int) -> str:
        tree = int(self.tree_of[split])
        return f"tree {tree}, split {split - int(self.split_begins[tree])}"

    def _problem(self) -> str:
        """Return the first error, or nothing; each check relies on the checks before it."""
        if not self.n_trees:
            return "expected at least one tree, found none"
        if (self.splits < 0).any():
            return f"tree {int((self.splits < 0).argmax())}: expected a number of splits, found {self.splits.min()}"
        n_splits = int(self.splits.sum(dtype=np.int64))
        # Nodes of the walk's layout: two for a split, one for a tree, and one that ends each group of trees.
        if 2 * n_splits + 2 * self.n_trees > np.iinfo(np.int32).max:
            return f"expected at most a thousand million splits, found {n_splits}"
        for name in ("features", "thresholds", "decisions", "left", "right"):
            if len(getattr(self, name)) != n_splits:
                return f"{name}: expected one for each of {n_splits} splits, found {len(getattr(self, name))}"
        if len(self.values) != n_splits + self.n_trees:
            return (
                f"values: expected one for each of {n_splits + self.n_trees} leaves, found {len(self.values)}"
            )
        with np.errstate(over="ignore"):
            if not np.isfinite(np.abs(self.values).sum()):
                return "values: a leaf is not finite, or the leaves are too large to be added"
        return self._broken_splits() or self._broken_shape() or self._broken_categories()

    def _broken_splits(self) -> str:
        missing = self.decisions & MISSING_TYPE
        numeric = (self.decisions & CATEGORICAL) == 0
        wrong: list[tuple[Bits, Array, str]] = [
            ((self.features < 0) | (self.features >= 1 << FEATURE_BITS), self.features, "a feature"),
            ((self.decisions > 15) | (missing == MISSING_TYPE), self.decisions, "decision bits"),
            (numeric & np.isnan(self.thresholds), self.thresholds, "a threshold"),
        ]
        for bad, found, what in wrong:
            if bad.any():
                return f"{self._place(int(bad.argmax()))}: expected {what}, found {found[bad.argmax()]}"
        return ""

    def _broken_shape(self) -> str:
        size = self.splits[self.tree_of].astype(np.int64)
        own = np.arange(len(size)) - self.split_begins[self.tree_of]
        seen_splits = np.zeros(len(size), np.int64)
        seen_leaves = np.zeros(len(self.values), np.int64)
        for child in (self.left.astype(np.int64), self.right.astype(np.int64)):
            if (bad := (child >= size) | (child < -1 - size) | ((child >= 0) & (child <= own))).any():
                split = int(bad.argmax())
                return (
                    f"{self._place(split)}: expected a later split or a leaf of the same tree as its child, "
                    f"found {child[split]}"
                )
            inner = child >= 0
            np.add.at(seen_splits, (child + self.split_begins[self.tree_of])[inner], 1)
            np.add.at(seen_leaves, (-1 - child + self.split_begins[self.tree_of] + self.tree_of)[~inner], 1)
        seen_splits[self.split_begins[:-1][self.splits > 0]] += 1  # roots are nobody's child
        if (bad := seen_splits != 1).any():
            return f"{self._place(int(bad.argmax()))}: expected exactly one parent"
        constant = (self.split_begins[:-1] + np.arange(self.n_trees))[self.splits == 0]
        seen_leaves[constant] += 1
        if (bad := seen_leaves != 1).any():
            return f"values: leaf {int(bad.argmax())}: expected exactly one parent"
        return ""

    def _broken_categories(self) -> str:
        if (self.category_words < 0).any() or self.category_words.sum(dtype=np.int64) != len(
            self.category_bits
        ):
            return f"category_words: expected them to cover {len(self.category_bits)} words of category_bits"
        named = np.where(self.decisions & CATEGORICAL, self.thresholds, 0.0)
        bad = (self.decisions & CATEGORICAL > 0) & ~((named >= 0) & (named < len(self.category_words)))
        bad |= named != np.trunc(named)
        if bad.any():
            split = int(bad.argmax())
            return (
                f"{self._place(split)}: expected one of {len(self.category_words)} category sets, "
                f"found {named[split]}"
            )
        return ""
