r"""Hyperplane hash tables over signatures (LocalRank, section 3.2 and Figure 3).

A unit vector is hashed by the sides of ``h`` random hyperplanes it falls on; ``m`` tables are made for each of the
``P`` components. A direction and its negative are the same direction, and the negative's bits are the complement, so
one projection serves both look-ups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Bits, Indices, Matrix
    from localrank.signature import Signature, Signatures

__all__ = ["HyperplaneTables", "draw_planes", "hash_bits"]


def draw_planes(n_features: int, tables: int, planes: int, seed: int) -> Matrix:
    """Draw hyperplane normals ``[tables, planes, n_features]`` from a standard normal.

    The components share them: "a different random projection is used for each j" (Figure 3), not for each p.
    """
    return np.random.default_rng(seed).standard_normal((tables, planes, n_features), np.float32)


def hash_bits(vectors: Matrix, planes: Matrix) -> Bits:
    r"""Return which side of each hyperplane every vector falls on.

    Definition [charikar2002], section 3:

    .. math::
        h_r(u) = 1 \;\text{if}\; r \cdot u \ge 0 \;\text{else}\; 0,
        \qquad \Pr[h_r(u) = h_r(v)] = 1 - \theta(u, v) / \pi

    Args:
        vectors: ``[..., n_features]``; need not be normalised, since only the sign is used.
        planes: ``[tables, planes, n_features]``.

    Returns:
        ``[..., tables, planes]``.
    """
    tables, width, n_features = planes.shape
    projected = vectors @ planes.reshape(tables * width, n_features).T
    return projected.reshape(*vectors.shape[:-1], tables, width) >= 0


@dataclass(frozen=True, slots=True, eq=False)
class HyperplaneTables:
    """Which training queries fall into which bucket.

    Attributes:
        planes: ``[m, h, n_features]`` hyperplane normals.
        offsets: ``[P, m, 2**h + 1]``; bucket ``b`` of a table is ``ids[p, j, offsets[b]:offsets[b + 1]]``.
        ids: ``[P, m, n_queries]`` training queries in order of their bucket.
    """

    planes: Matrix
    offsets: Indices
    ids: Indices

    @classmethod
    def build(cls, signatures: Signatures, planes: Matrix) -> Self:
        """Insert every training query into its bucket of every table."""
        m, h = planes.shape[:2]
        n_queries, n_components = signatures.directions.shape[:2]
        buckets = hash_bits(signatures.directions, planes) @ (1 << np.arange(h))  # [Q, P, m]
        buckets = np.moveaxis(buckets, 0, -1)  # [P, m, Q]
        ids = np.argsort(buckets, axis=-1, kind="stable").astype(np.int64)
        offsets = np.zeros((n_components, m, 2**h + 1), np.int64)
        for p in range(n_components):
            for j in range(m):
                offsets[p, j, 1:] = np.cumsum(np.bincount(buckets[p, j], minlength=2**h))
        assert ids.shape[-1] == n_queries  # noqa: S101
        return cls(planes, offsets, ids)

    def votes(self, signature: Signature) -> tuple[Indices, Indices]:
        """Return the candidates and their votes, as Figure 3 counts them.

        A candidate's votes are ``sum_p max(CP[p], CM[p])``: for each component the tables in which it shares the
        bucket of ``u_p``, or those in which it shares that of ``-u_p``, whichever are more.
        """
        m, h = self.planes.shape[:2]
        powers = 1 << np.arange(h)
        counts: dict[int, int] = {}
        plus = hash_bits(signature.directions[: signature.rank], self.planes) @ powers
        for p in range(signature.rank):
            tallies: tuple[dict[int, int], dict[int, int]] = ({}, {})
            for j in range(m):
                for tally, bucket in zip(tallies, (plus[p, j], 2**h - 1 - plus[p, j]), strict=True):
                    for query in self.ids[p, j, self.offsets[p, j, bucket] : self.offsets[p, j, bucket + 1]]:
                        tally[int(query)] = tally.get(int(query), 0) + 1
            for query in tallies[0].keys() | tallies[1].keys():
                best = max(tallies[0].get(query, 0), tallies[1].get(query, 0))
                counts[query] = counts.get(query, 0) + best
        found = np.array(sorted(counts), np.int64)
        return found, np.array([counts[int(query)] for query in found], np.int64)
