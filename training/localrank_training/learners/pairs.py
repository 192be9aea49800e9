r"""Sums over pairs of documents with different labels, without making the pairs.

Shapes: ``labels``, ``weights``, ``scores`` are ``[n_docs]`` with the documents of a query adjacent; ``values`` may have
columns, ``[n_docs, n_columns]``. A pair ``(i, j)`` is two documents of one query with ``label_i > label_j``; its weight
is ``weight_i * weight_j``. It is *active* at some scores when its margin ``score_i - score_j`` is below one.

How it is fast: write each document's label as its rank among the labels of its query, in binary. The ranks of a pair
first differ in exactly one bit, where ``i`` has 1 and ``j`` has 0, and agree in all bits above. So the pairs of any
number of levels are, bit by bit, the pairs of two levels within groups of documents (same query, same bits above), and
with both sides of a group sorted by score the active partners of a document are one contiguous range: a sum over them
is the difference of two prefix sums. ``O(n log n log K)`` for the sorting and ``O(n log K)`` for every further sum, for
``K`` levels (real-valued labels: ``K`` up to the length of the list), all queries at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector


@dataclass(frozen=True, slots=True, eq=False)
class LabelledPairs:
    """Which documents form pairs; does not depend on scores.

    Attributes:
        weights: ``[n_docs]``; a pair weighs the product of its documents' weights.
        splits: one per bit of the label ranks.
    """

    weights: Vector
    splits: tuple[_Split, ...]

    @classmethod
    def of(cls, labels: Vector, offsets: Indices, weights: Vector) -> LabelledPairs:
        """Find the pairs of queries that have the documents ``offsets[q]:offsets[q + 1]``."""
        ranks = levels_within(labels, offsets)
        queries = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        bits = int(ranks.max(initial=0)).bit_length()
        return cls(weights, tuple(_Split.of(queries, ranks, bit) for bit in reversed(range(bits))))

    def weight_by_query(self, offsets: Indices) -> Vector:
        """Return the total weight of each query's pairs; zero where all labels are equal."""
        partners = np.zeros(len(self.weights))
        for split in self.splits:
            below = _prefix(self.weights[split.low])
            partners[split.high] += below[split.low_end] - below[split.low_begin]
        paired = np.diff(_prefix(np.where(partners > 0, 1.0, 0.0))[offsets]) > 0
        # A difference of prefix sums may leave rounding if there is no pair at all.
        return np.where(paired, np.diff(_prefix(self.weights * partners)[offsets]), 0.0)

    def at(self, scores: Vector) -> ActivePairs:
        """Find the pairs that are active at these scores."""
        return ActivePairs.at(self.weights, scores, [split.at(scores) for split in self.splits])


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """The two sides of one bit: documents in order of their group.

    Attributes:
        high, low: positions of the documents with 1 and with 0.
        high_group, low_group: the group of each, ascending.
        low_begin, low_end: per ``high`` document, where its group is in ``low``.
        high_begin: per ``low`` document, where its group begins in ``high``.
        n_groups: how many groups have both sides.
    """

    high: Indices
    low: Indices
    high_group: Indices
    low_group: Indices
    low_begin: Indices
    low_end: Indices
    high_begin: Indices
    n_groups: int

    @classmethod
    def of(cls, queries: Indices, ranks: Indices, bit: int) -> _Split:
        width = (int(ranks.max()) >> (bit + 1)) + 1
        groups = queries * width + (ranks >> (bit + 1))
        ones = (ranks >> bit) & 1 == 1
        both = np.intersect1d(groups[ones], groups[~ones])
        paired = np.isin(groups, both)
        high, low = np.flatnonzero(ones & paired), np.flatnonzero(~ones & paired)
        high = high[np.argsort(groups[high], kind="stable")]
        low = low[np.argsort(groups[low], kind="stable")]
        high_group, low_group = np.searchsorted(both, groups[high]), np.searchsorted(both, groups[low])
        return cls(
            high=high,
            low=low,
            high_group=high_group,
            low_group=low_group,
            low_begin=np.searchsorted(low_group, high_group, side="left"),
            low_end=np.searchsorted(low_group, high_group, side="right"),
            high_begin=np.searchsorted(high_group, low_group, side="left"),
            n_groups=len(both),
        )

    def at(self, scores: Vector) -> _Ranges:
        """Sort both sides by score within their groups and find every document's active partners.

        One sort does all groups: each gets an interval of its own on one line, more than a margin from the next.
        Rounding on that line may misjudge a pair whose margin differs from one by about 1e-9; its loss is almost zero.
        """
        high_scores, low_scores = scores[self.high], scores[self.low]
        least = np.full(self.n_groups, np.inf)
        most = np.full(self.n_groups, -np.inf)
        for group, values in ((self.high_group, high_scores), (self.low_group, low_scores)):
            begins = np.searchsorted(group, np.arange(self.n_groups))
            np.minimum(least, np.minimum.reduceat(values, begins), out=least)
            np.maximum(most, np.maximum.reduceat(values, begins), out=most)
        place = np.concatenate([[0.0], np.cumsum(most - least + 3.0)[:-1]]) - least
        high_line, low_line = high_scores + place[self.high_group], low_scores + place[self.low_group]
        by_high, by_low = np.argsort(high_line, kind="stable"), np.argsort(low_line, kind="stable")
        high_line, low_line = high_line[by_high], low_line[by_low]
        return _Ranges(
            high=self.high[by_high],
            low=self.low[by_low],
            low_from=np.searchsorted(low_line, high_line - 1.0, side="right"),
            low_to=self.low_end,
            high_from=self.high_begin,
            high_to=np.searchsorted(high_line, low_line + 1.0, side="left"),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    """The two sides of one bit in order of score, and where the active partners of each document are.

    Groups stay in place when their members are sorted, so ``low_to`` and ``high_from`` hold for either order.
    """

    high: Indices
    low: Indices
    low_from: Indices
    low_to: Indices
    high_from: Indices
    high_to: Indices


@dataclass(frozen=True, slots=True, eq=False)
class ActivePairs:
    r"""The pairs with margin below one at some scores, as sums over each document's active partners.

    With ``a`` the documents' weights and ``i ~ j`` for an active pair whichever is the higher:

    Attributes:
        weights: ``[n_docs]``, ``a``.
        scores: ``[n_docs]``, ``s``.
        degree: ``[n_docs]``, :math:`\sum_{j \sim i} a_j`.
        lead: ``[n_docs]``, the same but counting partners above ``i`` negatively.
        ranges: one per bit.
    """

    weights: Vector
    scores: Vector
    degree: Vector
    lead: Vector
    ranges: list[_Ranges]

    @classmethod
    def at(cls, weights: Vector, scores: Vector, ranges: list[_Ranges]) -> ActivePairs:
        degree, lead = np.zeros_like(scores), np.zeros_like(scores)
        for of in ranges:
            below, above = _prefix(weights[of.low]), _prefix(weights[of.high])
            lower = below[of.low_to] - below[of.low_from]
            upper = above[of.high_to] - above[of.high_from]
            degree[of.high] += lower
            lead[of.high] += lower
            degree[of.low] += upper
            lead[of.low] -= upper
        return cls(weights, scores, degree, lead, ranges)

    def partners(self, values: Vector) -> Vector:
        r"""Return :math:`\sum_{j \sim i} a_j\, values_j` for every document, column by column."""
        total = np.zeros_like(values)
        weighted = (self.weights * values.T).T
        for of in self.ranges:
            below, above = _prefix(weighted[of.low]), _prefix(weighted[of.high])
            total[of.high] += below[of.low_to] - below[of.low_from]
            total[of.low] += above[of.high_to] - above[of.high_from]
        return total

    def laplacian(self, values: Vector) -> Vector:
        r"""Return :math:`a_i \sum_{j \sim i} a_j (values_i - values_j)`, the active pairs' graph Laplacian."""
        return (self.weights * (self.degree * values.T - self.partners(values).T)).T

    def squared_hinge(self) -> float:
        r"""Return :math:`\sum_{i > j} a_i a_j \max(0, 1 - (s_i - s_j))^2`.

        With ``m`` the margins, :math:`(1 - m)^2 = 1 - 2m + m^2`; the three sums are the number of active pairs,
        ``s`` times `lead`, and the Laplacian's quadratic form.
        """
        pairs = 0.5 * (self.weights @ self.degree)
        margins = (self.weights * self.lead) @ self.scores
        return float(pairs - 2.0 * margins + self.scores @ self.laplacian(self.scores))

    def slope(self) -> Vector:
        """Return the gradient of `squared_hinge` by the scores."""
        return 2.0 * (self.laplacian(self.scores) - self.weights * self.lead)


def levels_within(labels: Vector, offsets: Indices) -> Indices:
    """Return each label's rank among the different labels of its query, from 0."""
    queries = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((labels, queries))
    new_query = np.diff(queries[order], prepend=-1) != 0
    rises = np.cumsum((np.diff(labels[order], prepend=0.0) != 0) & ~new_query)
    first = np.maximum.accumulate(np.where(new_query, np.arange(len(labels)), 0))
    ranks = np.empty(len(labels), np.int64)
    ranks[order] = rises - rises[first]
    return ranks


def _prefix(values: Vector) -> Vector:
    """Return ``[n + 1, ...]`` prefix sums, the first being zero."""
    sums = np.zeros((len(values) + 1, *values.shape[1:]))
    np.cumsum(values, axis=0, out=sums[1:])
    return sums
