"""A forest as nested nodes, which is how the engines read trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank.scorers.trees import DEFAULT_LEFT, MISSING_NONE, MISSING_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from localrank.scorers import TreesScorer


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value; ``number`` counts the nodes of the tree, parents first."""

    number: int
    value: float


@dataclass(frozen=True, slots=True)
class Split:
    """A document goes left if its feature is not above ``threshold``, a float32."""

    number: int
    depth: int
    feature: int
    threshold: np.float32
    missing_left: bool


def nested(
    forest: TreesScorer, leaf: Callable[[Leaf], Any], split: Callable[[Split, Any, Any], Any]
) -> Iterator[Any]:
    """Yield each tree, built from the leaves up: ``leaf(Leaf)`` and ``split(Split, left, right)``.

    A threshold becomes the greatest float32 that is not above it. Every float32 value then goes the same way as with
    the double.
    """
    with np.errstate(over="ignore"):
        near = forest.thresholds.astype(np.float32)
        thresholds = np.where(near > forest.thresholds, np.nextafter(near, np.float32(-np.inf)), near)
    none_missing = (forest.decisions & MISSING_TYPE) == MISSING_NONE
    # Where nothing is missing, NaN is taken for zero.
    missing_left = np.where(none_missing, forest.thresholds >= 0, (forest.decisions & DEFAULT_LEFT) > 0)
    for tree, n_splits in enumerate(forest.splits.tolist()):
        begin, first_leaf = int(forest.split_begins[tree]), int(forest.split_begins[tree]) + tree
        if not n_splits:
            yield leaf(Leaf(0, float(forest.values[first_leaf])))
            continue
        depths = np.zeros(n_splits, np.int64)
        built: list[Any] = [None] * n_splits
        for number in range(n_splits):
            for child in (forest.left[begin + number], forest.right[begin + number]):
                if child >= 0:
                    depths[child] = depths[number] + 1
        # A child stands after its parent, so that going backwards finds children built.
        for number in reversed(range(n_splits)):
            at = begin + number
            sides = [
                built[child]
                if child >= 0
                else leaf(Leaf(n_splits - 1 - child, float(forest.values[first_leaf - 1 - child])))
                for child in (int(forest.left[at]), int(forest.right[at]))
            ]
            built[number] = split(
                Split(
                    number,
                    int(depths[number]),
                    int(forest.features[at]),
                    thresholds[at],
                    bool(missing_left[at]),
                ),
                *sides,
            )
        yield built[0]
