"""What a reader makes of another library's file.

Trees of any shape, added one at a time, as the arrays of a `TreesScorer`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from localrank.arrays import one_line
from localrank.errors import InvalidData
from localrank.features.feature import MOST_VALUES, Feature, spelled
from localrank.scorers import TreesScorer
from localrank_training.data.queries import default_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from localrank.features.feature import Missing
    from localrank.scorers import Scorer


class TreeSplit(NamedTuple):
    """A document goes left if its feature is not above the threshold, or if it is in the category set of this number.

    ``left`` and ``right`` are the arguments of the function that looks up a node; ``decision`` holds the bits of
    `localrank.scorers.trees` that say where a missing value goes.
    """

    feature: int
    threshold: float
    decision: int
    left: Any
    right: Any


class Grove:
    """Collects trees; a node of each is looked up as a `TreeSplit` or as the value of a leaf."""

    def __init__(self) -> None:
        self._splits: list[int] = []
        self._nodes: list[tuple[int, float, int]] = []
        self._children: list[list[int]] = []
        self._values: list[float] = []
        self._sets: dict[bytes, int] = {}

    def category_set(self, codes: Iterable[int]) -> int:
        """Return the number of the set of these codes, which is added if it is new."""
        among = np.fromiter(codes, np.int64)
        words = np.zeros(int(among.max(initial=-1)) // 32 + 1, np.uint32)
        np.bitwise_or.at(words, among // 32, np.uint32(1) << (among % 32).astype(np.uint32))
        return self._sets.setdefault(words.tobytes(), len(self._sets))

    def plant(self, root: Any, look: Callable[[Any], TreeSplit | float], most: int) -> None:
        """Add a tree.

        Args:
            root: its first node.
            look: returns what a node is.
            most: how many nodes it has at most.

        Raises:
            ValueError: it has more nodes, so that one of them is its own ancestor or has two parents.
        """
        n_splits, n_leaves, first = 0, 0, len(self._nodes)
        waiting: list[tuple[Any, int, int]] = [(root, -1, 0)]
        while waiting:
            if n_splits + n_leaves >= most:
                raise ValueError(
                    f"expected a tree of at most {most} nodes, found more: a node has two parents"
                )
            node, parent, side = waiting.pop()
            found = look(node)
            if isinstance(found, TreeSplit):
                number = n_splits
                n_splits += 1
                self._nodes.append((found.feature, found.threshold, found.decision))
                self._children.append([0, 0])
                waiting += [(found.right, number, 1), (found.left, number, 0)]
            else:
                number = -1 - n_leaves
                n_leaves += 1
                self._values.append(found)
            if parent >= 0:
                self._children[first + parent][side] = number
        self._splits.append(n_splits)

    def plant_constant(self, value: float) -> None:
        """Add a tree that gives every document the same."""
        self._splits.append(0)
        self._values.append(value)

    def scorer(self) -> TreesScorer:
        """Return the sum of all trees, over the features as they come.

        Raises:
            ValueError: they are no trees; the message says where.
        """
        nodes = np.array(self._nodes, np.float64).reshape(-1, 3)
        children = np.array(self._children, np.int32).reshape(-1, 2)
        return TreesScorer(
            splits=np.array(self._splits, np.int32),
            features=nodes[:, 0].astype(np.int32),
            thresholds=nodes[:, 1].copy(),
            decisions=nodes[:, 2].astype(np.uint8),
            left=children[:, 0].copy(),
            right=children[:, 1].copy(),
            values=np.array(self._values, np.float64),
            category_words=np.array([len(words) // 4 for words in self._sets], np.int32),
            category_bits=np.frombuffer(b"".join(self._sets), np.uint32),
        )


def values_of(origin: str, values: Iterable[object]) -> tuple[str, ...]:
    """Return the values of a category as the contract spells them.

    Raises:
        InvalidData: there are too many, two have the same spelling, or one is no value.
    """
    try:
        spelt = tuple("" if (text := spelled(value)) is None else text for value in values)
    except TypeError as error:
        raise InvalidData(f"{origin}: expected values of a category: {error}") from None
    if "" in spelt:
        raise InvalidData(f"{origin}: expected values of a category, found one that is empty")
    if len(spelt) > MOST_VALUES:
        raise InvalidData(
            f"{origin}: expected at most {MOST_VALUES} values of a category, found {len(spelt)}"
        )
    if len(set(spelt)) < len(spelt):
        raise InvalidData(
            f"{origin}: expected different values of a category, found two with the same spelling"
        )
    return spelt


#: Features that a model may have: more would fill the memory with synthetic documents.
MOST_FEATURES = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class OriginModel:
    """A model that another library learned.

    Attributes:
        format: which reader read it.
        scorer: what LocalRank serves.
        n_features: how many features a document has.
        names: of the features, if the file names them.
        missing: what a missing value becomes.
        offset: what the origin adds to every score and `scorer` leaves out; it changes no order.
        rounds: how many rounds of boosting count, if early stopping chose fewer than the file has.
        tolerance: how far the scores may be from the origin's, as a share of the largest; 0 means equal bits.
        ranges: of each feature in the training data, lowest and highest, if the file says so; None for a feature of
            which it does not.
        notes: what somebody who imports it should know.
        content: of the file.
        categories: by the position of a feature the values that its codes stand for, if it is a category.
    """

    format: str
    scorer: Scorer
    n_features: int
    names: tuple[str, ...] | None
    missing: Missing
    offset: float = 0.0
    rounds: int | None = None
    tolerance: float = 0.0
    ranges: tuple[tuple[float, float] | None, ...] | None = None
    notes: tuple[str, ...] = ()
    content: bytes = field(default=b"", repr=False)
    categories: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def features(self) -> tuple[Feature, ...]:
        """What a document must have."""
        names = self.names or default_names(self.n_features)
        return tuple(
            Feature(name, "category", self.categories[at])
            if at in self.categories
            else Feature(name, missing=self.missing)
            for at, name in enumerate(names)
        )

    __repr__ = one_line
