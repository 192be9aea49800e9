"""Which cluster's scorer answers a query.

A router maps a signature to a `Route`. A query without a signature (one document, or all alike) goes to the global
scorer, and the route says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from localrank.errors import InvalidConfiguration
from localrank.similarity import SIMILARITIES, one_to_many

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.lsh import HyperplaneTables
    from localrank.signature import Signature, Signatures
    from localrank.similarity import Similarity

__all__ = ["CentroidRouter", "ExactRouter", "GlobalRouter", "LshRouter", "Route", "Router"]

#: With fewer training queries than this, comparing all of them takes less time than looking candidates up
#: (`benchmarks/routing.py` measures where the two meet).
EXACT_BELOW = 6000

#: No setting counts more than an int32 does, which is what the tables hold.
_LARGEST = 2**31 - 1
#: Why the global scorer answered a query of a model that has clusters.
NO_SIGNATURE = "no_signature"
#: Why a hash table's answer is not one of its candidates.
NO_CANDIDATES = "no_candidates"


@dataclass(frozen=True, slots=True)
class Route:
    """How a query found its scorer.

    Attributes:
        strategy: the router's name.
        cluster: whose scorer answers; ``None`` is the global scorer.
        similarity: to the most similar training query that was compared.
        margin: how far that is ahead of the most similar one of any other cluster; ``None`` where only one cluster
            was compared. Where not all training queries are compared, it is at least what the exact scan would say
            if the similarity is the same.
        candidates: how many training queries were compared.
        fallback: why this is not what the strategy promises: ``no_signature``, ``no_candidates``, or ``None``.
    """

    strategy: str
    cluster: int | None
    similarity: float | None = None
    margin: float | None = None
    candidates: int = 0
    fallback: str | None = None


class Router(Protocol):
    """Chooses the cluster for a signature."""

    strategy: ClassVar[str]

    def route(self, signature: Signature, /) -> Route: ...


@dataclass(frozen=True, slots=True, eq=False)
class GlobalRouter:
    """Send every query to the global scorer."""

    strategy: ClassVar[str] = "global"

    def route(self, signature: Signature, /) -> Route:  # noqa: ARG002
        return Route(self.strategy, None)


@dataclass(frozen=True, slots=True, eq=False)
class ExactRouter:
    """Compare with every training query (Figure 2, line 5).

    Attributes:
        signatures: of the training queries.
        clusters: ``[n_queries]``, each training query's cluster.
        similarity: by which form of `localrank.similarity`.
    """

    signatures: Signatures
    clusters: Indices
    similarity: Similarity = "eq5"

    strategy: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        _check_similarity(self.similarity)

    def route(self, signature: Signature, /) -> Route:
        if signature.rank == 0:
            return Route(self.strategy, None, fallback=NO_SIGNATURE)
        similarities = one_to_many(signature, self.signatures, self.similarity)
        return _nearest_cluster(self.strategy, similarities, self.clusters)


@dataclass(frozen=True, slots=True, eq=False)
class CentroidRouter:
    """Compare with one training query per cluster, its medoid.

    Attributes:
        medoids: ``[n_clusters]`` signatures, the cluster's position being its number.
        similarity: by which form of `localrank.similarity`.
    """

    medoids: Signatures
    similarity: Similarity = "eq5"

    strategy: ClassVar[str] = "centroid"

    def __post_init__(self) -> None:
        _check_similarity(self.similarity)

    def route(self, signature: Signature, /) -> Route:
        if signature.rank == 0:
            return Route(self.strategy, None, fallback=NO_SIGNATURE)
        similarities = one_to_many(signature, self.medoids, self.similarity)
        return _nearest_cluster(self.strategy, similarities, np.arange(len(self.medoids)))


@dataclass(frozen=True, slots=True, eq=False)
class LshRouter:
    """Look candidates up in hash tables (Figure 3) and compare the best of them exactly.

    What is compared is bounded: ``cap`` entries of each bucket vote, the ``rerank`` candidates with most votes and
    the clusters' exemplars are compared. So the time of a request does not grow with the training queries.

    Attributes:
        signatures, clusters, similarity: as for `ExactRouter`.
        tables: where the candidates are found.
        rerank: how many candidates with most votes are compared.
        cap: how many entries of a bucket vote; 0 is all of them.
        probes: how many neighbouring buckets are looked at beside each bucket.
        exact_below: with fewer training queries than this all of them are compared, which is faster.
        exemplars: one training query of every cluster that is always compared, so that there is a second cluster to
            be ahead of, and an answer when no table has one. Without them an empty look-up means an exact scan.
    """

    signatures: Signatures
    clusters: Indices
    tables: HyperplaneTables
    rerank: int = 256
    similarity: Similarity = "eq5"
    cap: int = 64
    probes: int = 0
    exact_below: int = EXACT_BELOW
    exemplars: tuple[int, ...] = ()

    strategy: ClassVar[str] = "lsh"

    def __post_init__(self) -> None:
        _check_similarity(self.similarity)
        for name, least in (("rerank", 1), ("cap", 0), ("probes", 0), ("exact_below", 0)):
            if not least <= getattr(self, name) <= _LARGEST:
                raise InvalidConfiguration(
                    f"routing: expected {name} from {least} to {_LARGEST}, found {getattr(self, name)}"
                )
        n_queries = len(self.signatures)
        if any(not 0 <= exemplar < n_queries for exemplar in self.exemplars):
            raise InvalidConfiguration(
                f"routing: expected exemplars among {n_queries} training queries, found {self.exemplars}"
            )

    def route(self, signature: Signature, /) -> Route:
        if signature.rank == 0:
            return Route(self.strategy, None, fallback=NO_SIGNATURE)
        if len(self.signatures) < self.exact_below:
            return self._scan(signature, None)
        found, votes = self.tables.votes(signature, cap=self.cap or None, probes=self.probes)
        fallback = None if len(found) else NO_CANDIDATES
        if not len(found) and not self.exemplars:
            return self._scan(signature, fallback)
        compared = self._compared(signature, found, votes)
        similarities = one_to_many(signature, self.signatures.take(compared), self.similarity)
        return _nearest_cluster(self.strategy, similarities, self.clusters[compared], fallback)

    def _compared(self, signature: Signature, found: Indices, votes: Indices) -> Indices:
        """Return the training queries that are compared: those with most votes, then the exemplars."""
        if len(found) > self.rerank:
            # A training query of lower rank can win votes for its own directions only, as in eq. 5. Whole numbers of
            # 16 bits are sorted by radix, and equal ones stay in order whatever the processor.
            shared = np.minimum(signature.rank, np.asarray(self.signatures.ranks)[found])
            lost = 65_535 - 65_535 * votes // (np.maximum(shared, 1) * len(self.tables.planes))
            found = found[np.argsort(lost.astype(np.uint16), kind="stable")[: self.rerank]]
        return np.concatenate([found, np.array(self.exemplars, np.int64)]) if self.exemplars else found

    def _scan(self, signature: Signature, fallback: str | None) -> Route:
        similarities = one_to_many(signature, self.signatures, self.similarity)
        return _nearest_cluster(self.strategy, similarities, self.clusters, fallback)


def _nearest_cluster(
    strategy: str, similarities: Vector, clusters: Indices, fallback: str | None = None
) -> Route:
    clusters = np.asarray(clusters)
    best = int(np.argmax(similarities))
    cluster = int(clusters[best])
    others = similarities[clusters != cluster]
    margin = float(similarities[best] - others.max()) if len(others) else None
    return Route(strategy, cluster, float(similarities[best]), margin, len(similarities), fallback)


def _check_similarity(similarity: str) -> None:
    if similarity not in SIMILARITIES:
        raise InvalidConfiguration(
            f"similarity: expected one of {', '.join(SIMILARITIES)}, found {similarity!r}"
        )
