r"""Which training queries are near a query: all of them compared, or candidates from hash tables.

Which training query is nearest to a query, and how far it is ahead of any other cluster.

`search_of` takes the compiled comparison of `localrank.native.search` for eq. 5 if there is a library, else the one in
numpy, which finds the same up to rounding in float32. Of equally near ones the first is taken.

Hyperplane hash tables over signatures (LocalRank [banerjee2009], section 3.2 and Figure 3).

A unit vector is hashed by the sides of ``h`` random hyperplanes it falls on; ``m`` tables are made for each of the
``P`` components. The sign of a direction has no meaning, so its negative is looked up, too. The bits of the negative
are the complement, so one projection is enough for both look-ups.

Invariant: within every bucket of every table the training queries stand in one fixed random order. Cutting long
buckets after the same number of entries then keeps the same queries in all tables, and their votes stay comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, cast

import numpy as np

from localrank.arrays import INTEGERS, Buckets, Layout, below, finite, one_line
from localrank.errors import ArtifactCorrupt, InvalidConfiguration
from localrank.native.library import library
from localrank.native.search import LookUp, TrainingQueries
from localrank.points.similarity import one_to_many

if TYPE_CHECKING:
    from localrank.arrays import Bits, Ids, Indices, Layouts, Matrix, ShortInts, Vector
    from localrank.native.search import Found
    from localrank.points.representation import Point, Points
    from localrank.points.signature import Signature, Signatures


class Nearest(NamedTuple):
    """The nearest training query.

    Attributes:
        cluster: whose it is.
        similarity: how near.
        margin: lead of this similarity over the nearest query of any other cluster; ``None`` if there is no other
            cluster.
    """

    cluster: int
    similarity: float
    margin: float | None


class Search(Protocol):
    """Compares a query with training queries."""

    def among_all(self, point: Any, /) -> Nearest: ...

    def among(self, point: Any, which: Indices, /) -> Nearest:
        """Compare with these training queries only; there must be at least one."""
        ...


def search_of(points: Points, clusters: Indices, similarity: str) -> Search:
    """Return the fastest search that this machine has."""
    if similarity == "eq5" and len(points) and library() is not None:
        return CompiledSearch(cast("Signatures", points), clusters)
    return NumpySearch(points, clusters, similarity)


class NumpySearch:
    """Any similarity of any points."""

    def __init__(self, points: Points, clusters: Indices, similarity: str) -> None:
        self._points, self._similarity = points, similarity
        self._clusters = np.asarray(clusters)

    def among_all(self, point: Point, /) -> Nearest:
        return _nearest(one_to_many(point, self._points, self._similarity), self._clusters)

    def among(self, point: Point, which: Indices, /) -> Nearest:
        similarities = one_to_many(point, self._points.take(which), self._similarity)
        return _nearest(similarities, self._clusters[which])


def _nearest(similarities: Vector, clusters: Indices) -> Nearest:
    best = int(np.argmax(similarities))
    cluster = int(clusters[best])
    others = similarities[clusters != cluster]
    margin = float(similarities[best] - others.max()) if len(others) else None
    return Nearest(cluster, float(similarities[best]), margin)


class CompiledSearch:
    """Eq. 5, read where the training queries lie in memory; other threads run meanwhile."""

    def __init__(self, signatures: Signatures, clusters: Indices) -> None:
        self._training = TrainingQueries(signatures.directions, signatures.ranks, clusters)

    def among_all(self, signature: Signature, /) -> Nearest:
        return _checked(self._training.nearest(signature.directions, signature.rank))

    def among(self, signature: Signature, which: Indices, /) -> Nearest:
        return _checked(self._training.nearest(signature.directions, signature.rank, which))


def _checked(found: Found | None) -> Nearest:
    if found is None:
        raise ArtifactCorrupt("the training queries' directions hold no numbers")
    cluster, similarity, other = found
    return Nearest(cluster, similarity, None if other == -np.inf else similarity - other)


#: More hyperplanes than this make more buckets than a table has use for.
MOST_PLANES = 24
#: How many training queries ``planes = "auto"`` wants in a bucket.
_BUCKET = 16
#: Queries hashed at a time while tables are built.
_BLOCK = 1024


def automatic_planes(n_queries: int) -> int:
    r"""Return the number of planes ``h`` for ``n_queries`` training queries, :math:`\log_2 (n / 16)` rounded, from 4 to 18.

    A random bucket then holds about sixteen queries, so that the time of a look-up does not depend on ``n_queries``.
    """
    return int(np.clip(round(np.log2(max(n_queries, 1) / _BUCKET)), 4, 18))


def draw_planes(n_features: int, tables: int, planes: int, seed: int) -> Matrix:
    """Draw hyperplane normals ``[tables, planes, n_features]`` from a standard normal.

    The components share them: "a different random projection is used for each j" (Figure 3), not for each p.

    Raises:
        InvalidConfiguration: no tables, no planes, or more planes than make sense.
    """
    if tables < 1 or not 1 <= planes <= MOST_PLANES:
        raise InvalidConfiguration(
            f"routing: expected at least 1 table of 1 to {MOST_PLANES} planes, found {tables} of {planes}"
        )
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
    return _projections(vectors, planes) >= 0


@dataclass(frozen=True, eq=False)
class HyperplaneTables:
    """Which training queries fall into which bucket.

    The arrays may be read-only maps of files: a look-up touches the buckets it needs, nothing else.

    Attributes:
        planes: ``[m, h, n_features]`` hyperplane normals.
        offsets: ``[P, m, 2**h + 1]`` int32; bucket ``b`` of a table is ``ids[p, j, offsets[b]:offsets[b + 1]]``.
        ids: ``[P, m, n_queries]`` int32, training queries in order of their bucket, within it in one random order.
            Those that have no p-th direction stand behind the last bucket.
    """

    planes: Matrix
    offsets: Ids
    ids: Ids

    layout: ClassVar[Layouts] = {
        "planes": Layout(("float32",), ("tables", "bits", "features"), finite),
        "offsets": Layout(
            INTEGERS,
            ("components", "tables", "buckets"),
            lambda sizes: Buckets(sizes["buckets"], sizes["points"]),
        ),
        "ids": Layout(INTEGERS, ("components", "tables", "points"), below("points")),
    }

    __repr__ = one_line

    @classmethod
    def build(cls, signatures: Signatures, planes: Matrix, seed: int = 0) -> Self:
        """Insert every training query into its bucket of every table.

        Args:
            signatures: of the training queries.
            planes: as drawn by `draw_planes`.
            seed: of the order within buckets.
        """
        n_queries = len(signatures)
        order = np.random.default_rng(seed).permutation(n_queries).astype(np.int32)
        codes = _hashed(signatures, planes, order)
        return cls(planes, *_filled(codes, order, np.asarray(signatures.ranks)[order], planes.shape[1]))

    def grown(self, signatures: Signatures, ranks: Indices, seed: int = 0) -> Self:
        """Return the tables with more training queries, numbered on from those that are there.

        Only the new ones are hashed: the codes of the others are the numbers of their buckets. A new random order is drawn
        for all of them, so that new queries are as likely to vote in a crowded bucket as the others.

        Args:
            signatures: of the new queries.
            ranks: ``[n_queries]`` of those that are there.
            seed: of the order within buckets.
        """
        h = self.planes.shape[1]
        n_old = self.ids.shape[2]
        n_queries = n_old + len(signatures)
        new = _hashed(signatures, self.planes, np.arange(len(signatures)))
        codes = np.zeros((*new.shape[:2], n_queries), new.dtype)
        codes[:, :, n_old:] = new
        buckets = np.arange(2**h, dtype=new.dtype)
        for p, j in np.ndindex(*new.shape[:2]):
            within = self.ids[p, j, : self.offsets[p, j, -1]]
            codes[p, j, within] = np.repeat(buckets, np.diff(self.offsets[p, j]))
        order = np.random.default_rng(seed).permutation(n_queries).astype(np.int32)
        every = np.concatenate([ranks, signatures.ranks])[order]
        return type(self)(self.planes, *_filled(codes[:, :, order], order, every, h))

    def votes(
        self, signature: Signature, *, cap: int | None = None, probes: int = 0
    ) -> tuple[Indices, Indices]:
        """Return the candidates in increasing order and their votes, as Figure 3 counts them.

        A candidate's votes are ``sum_p max(CP[p], CM[p])``. For each component, ``CP`` counts the tables in which it
        shares the bucket of ``u_p``, and ``CM`` those in which it shares the bucket of ``-u_p``.

        Args:
            signature: of the query.
            cap: how many entries of a bucket are looked at; 0 or ``None`` is all of them.
            probes: how many buckets beside its own are looked at for each direction: those across the hyperplanes
                that it is nearest to [lv2007].
        """
        if signature.rank == 0 or not self.ids.size:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        if self._look_up is not None:
            return self._look_up.votes(self._projected(signature), cap, probes)
        n_queries = self.ids.shape[2]
        first, lengths = self._buckets(signature, cap, probes)  # [rank, 2, m * (1 + probes)]
        rank, sides, looked = first.shape
        ends = np.cumsum(lengths)
        total = int(ends[-1])
        if total == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        # The positions of all entries of all buckets, one range after the other.
        positions = np.repeat(first.ravel() - ends + lengths.ravel(), lengths.ravel())
        positions += np.arange(total)
        entries = np.asarray(self.ids).reshape(-1)[positions]
        # One number stands for candidate, component and side. After sorting, equal numbers are adjacent, and so are
        # both sides.
        bits = (2 * rank - 1).bit_length()
        tags = np.repeat(np.arange(rank * sides), lengths.reshape(rank * sides, looked).sum(axis=1))
        wide = n_queries << bits > np.iinfo(np.int32).max
        keys = (entries.astype(np.int64 if wide else np.int32) << bits) | tags.astype(
            np.int64 if wide else np.int32
        )
        keys.sort()
        runs = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        counts = np.diff(np.append(runs, total))
        keys = keys[runs] >> 1
        pairs = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        best = np.maximum.reduceat(counts, pairs)
        candidates = keys[pairs] >> (bits - 1)
        starts = np.flatnonzero(np.concatenate([[True], candidates[1:] != candidates[:-1]]))
        return candidates[starts].astype(np.int64), np.add.reduceat(best, starts)

    def candidates(
        self,
        signature: Signature,
        ranks: ShortInts | None,
        most: int,
        *,
        cap: int | None = None,
        probes: int = 0,
    ) -> Indices:
        """Return the candidates with most votes, best first, equal ones in increasing order.

        A training query of lower rank can win votes only for its own directions, as in eq. 5. So its votes count as a
        share of the votes that it could win. If there are no more candidates than wanted, they come in increasing
        order.

        Args:
            signature: of the query.
            ranks: ``[n_queries]``, of the training queries; ``None`` where all are full.
            most: how many are wanted.
            cap: as for `votes`.
            probes: as for `votes`.
        """
        if signature.rank == 0 or not self.ids.size:
            return np.zeros(0, np.int64)
        if self._look_up is not None:
            return self._look_up.candidates(self._projected(signature), cap, probes, ranks, most)
        found, votes = self.votes(signature, cap=cap, probes=probes)
        if len(found) <= most:
            return found
        shared = np.full(len(found), signature.rank)
        if ranks is not None:
            np.minimum(shared, ranks[found], out=shared)
        # Whole numbers of 16 bits are sorted by radix, and equal ones keep their order on every processor.
        lost = 65_535 - 65_535 * votes // (np.maximum(shared, 1) * len(self.planes))
        return found[np.argsort(lost.astype(np.uint16), kind="stable")[:most]]

    @cached_property
    def _look_up(self) -> LookUp | None:
        return None if library() is None else LookUp(self.offsets, self.ids, self.planes.shape[1])

    def _projected(self, signature: Signature) -> Matrix:
        """Return ``[rank, m, h]``; the same for every way to look up."""
        return _projections(signature.directions[: signature.rank], self.planes)

    def _buckets(self, signature: Signature, cap: int | None, probes: int) -> tuple[Indices, Indices]:
        """Return where the buckets to be looked at begin in the flat ``ids``, and how much of them is."""
        m, h = self.planes.shape[:2]
        rank = signature.rank
        projected = self._projected(signature)
        codes = _codes(projected >= 0)[..., None]  # [rank, m, 1]
        if probes:
            closest = np.argsort(np.abs(projected), axis=-1, kind="stable")[..., : min(probes, h)]
            codes = np.concatenate([codes, codes ^ (1 << closest)], axis=-1)
        both = np.stack([codes, 2**h - 1 - codes], axis=1)  # [rank, 2, m, 1 + probes]
        table = np.arange(rank * m).reshape(rank, 1, m, 1)
        where = table * (2**h + 1) + both
        offsets = np.asarray(self.offsets).reshape(-1)
        begin = offsets[where].astype(np.int64)
        lengths = offsets[where + 1] - begin
        if cap:
            np.minimum(lengths, cap, out=lengths)
        begin += table * self.ids.shape[2]
        return begin.reshape(rank, 2, -1), lengths.reshape(rank, 2, -1)


def _hashed(signatures: Signatures, planes: Matrix, order: Indices | Ids) -> Indices:
    """Return the codes of the queries in this order: ``[P, m, n_queries]``."""
    m, h = planes.shape[:2]
    # Codes of 16 bits are sorted by radix.
    codes = np.empty((signatures.directions.shape[1], m, len(order)), np.uint16 if h <= 16 else np.uint32)
    for start in range(0, len(order), _BLOCK):
        part = order[start : start + _BLOCK]
        block = _codes(hash_bits(signatures.directions[part], planes))
        codes[:, :, start : start + _BLOCK] = block.transpose(1, 2, 0)
    return codes


def _filled(codes: Indices, order: Ids, ranks: Indices, h: int) -> tuple[Ids, Ids]:
    """Return the offsets and ids of tables; codes and ranks are of the queries in this order."""
    n_components, m, n_queries = codes.shape
    offsets = np.zeros((n_components, m, 2**h + 1), np.int32)
    ids = np.empty((n_components, m, n_queries), np.int32)
    for p in range(n_components):
        has = ranks > p
        known, absent = order[has], order[~has]
        for j in range(m):
            theirs = codes[p, j] if not len(absent) else codes[p, j, has]
            ids[p, j, : len(known)] = known[np.argsort(theirs, kind="stable")]
            ids[p, j, len(known) :] = absent
            np.cumsum(np.bincount(theirs, minlength=2**h), out=offsets[p, j, 1:])
    return offsets, ids


def _projections(vectors: Matrix, planes: Matrix) -> Matrix:
    tables, width, n_features = planes.shape
    projected = np.asarray(vectors).reshape(-1, n_features) @ planes.reshape(tables * width, n_features).T
    return projected.reshape(*vectors.shape[:-1], tables, width)


def _codes(bits: Bits) -> Indices:
    """Read the last axis as a binary number, its first bit being the lowest."""
    # Whole bytes, so that all rows are packed in one go.
    width = -(-bits.shape[-1] // 8)
    padded = np.zeros((*bits.shape[:-1], 8 * width), np.bool_)
    padded[..., : bits.shape[-1]] = bits
    packed = np.packbits(padded.reshape(-1), bitorder="little").reshape(*bits.shape[:-1], width)
    codes = packed[..., 0].astype(np.int64)
    for byte in range(1, packed.shape[-1]):
        codes |= packed[..., byte].astype(np.int64) << 8 * byte
    return codes
