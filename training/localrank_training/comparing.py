"""The similarity of many points to many others, a block at a time.

Memory holds one block at a time, never all pairs: comparing a million training queries with thousands of them takes a
few megabytes. `localrank.points.similarity` compares one point with many, or all with all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.points.signature import Signatures
from localrank.points.similarity import measure_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Indices, Vector
    from localrank.points.representation import Points

#: Bytes of similarities that are made at a time: few enough to stay within the cache.
_BLOCK = 1 << 21


def between(points: Points, others: Points, similarity: str) -> Iterator[tuple[int, Vector]]:
    """Yield the similarities of a block of points to all others, ``[n_block, n_others]``, with the position of its first.

    Eq. 5 is one product of matrices for each component; others are compared point by point.
    """
    block = max(1, _BLOCK // max(1, 4 * len(others)))
    if similarity == "eq5" and isinstance(points, Signatures) and isinstance(others, Signatures):
        yield from _eq5(points, others, block)
        return
    compare = measure_of(similarity, others).one_to_many
    for start in range(0, len(points), block):
        stop = min(start + block, len(points))
        yield start, np.stack([compare(points.of(one), others) for one in range(start, stop)])


def _eq5(points: Signatures, others: Signatures, block: int) -> Iterator[tuple[int, Vector]]:
    right = np.ascontiguousarray(np.asarray(others.directions).transpose(1, 2, 0))
    for start in range(0, len(points), block):
        left = np.asarray(points.directions[start : start + block])
        found = np.zeros((len(left), len(others)), np.float32)
        for p, directions in enumerate(right):
            dots = left[:, p] @ directions
            found += np.abs(dots, out=dots)
        shared = np.minimum(points.ranks[start : start + block, None], others.ranks[None, :])
        found /= np.maximum(shared, 1).astype(np.float32)
        yield start, np.minimum(found, np.float32(1.0), out=found)


def most_similar(points: Points, others: Points, similarity: str) -> Indices:
    """Return ``[n_points]`` the position of the most similar other point of each; the first if several are equal."""
    found = np.empty(len(points), np.int64)
    for start, block in between(points, others, similarity):
        found[start : start + len(block)] = block.argmax(axis=1)
    return found


def total_similarity(points: Points, others: Points, similarity: str) -> Vector:
    """Return ``[n_points]`` the sum of the similarities of each to all others."""
    found = np.empty(len(points))
    for start, block in between(points, others, similarity):
        found[start : start + len(block)] = block.sum(axis=1, dtype=np.float64)
    return found


def farthest_members(points: Points, groups: Indices, similarity: str) -> Vector:
    r"""Return ``[n_groups, n_groups]``, how unlike the two least similar members of every two groups are, zeros on the diagonal.

    .. math:: d(A, B) = 1 - \min_{a \in A,\, b \in B} \mathrm{sim}(a, b)

    Every pair of points is compared, in time quadratic in the points; what is held is quadratic in the groups only.

    Args:
        points: all known.
        groups: ``[n_points]`` the group of each, from 0, none of them empty.
        similarity: one of `localrank.points.similarity`.
    """
    order = np.argsort(groups, kind="stable")
    of = groups[order]
    starts = np.searchsorted(of, np.arange(of[-1] + 1))
    nearest = np.ones((len(starts), len(starts)), np.float32)
    # A slice of whole groups against those from its first group on, so that each pair is compared once.
    step = max(1, len(points) // 64)
    first = 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + step)))
        stop = int(starts[last]) if last < len(starts) else len(points)
        rows = order[starts[first] : stop]
        beyond = starts[first:] - starts[first]
        for start, block in between(points.take(rows), points.take(order[starts[first] :]), similarity):
            least = np.minimum.reduceat(block, beyond, axis=1)
            theirs = of[starts[first] + start : starts[first] + start + len(block)]
            numbers, begin = np.unique(theirs, return_index=True)
            found = np.minimum.reduceat(least, begin, axis=0)
            nearest[numbers, first:] = np.minimum(nearest[numbers, first:], found)
        first = last
    distances = 1.0 - np.minimum(nearest, nearest.T).astype(np.float64)
    np.fill_diagonal(distances, 0.0)
    return distances
