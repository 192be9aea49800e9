"""Which cluster's scorer answers a query.

A router maps a signature to a `Route`. A query without a signature (one document, or all alike) goes to the global
scorer, and the route says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from localrank.errors import InvalidConfiguration
from localrank.nearest import search_of
from localrank.similarity import SIMILARITIES

if TYPE_CHECKING:
    from localrank.arrays import Indices, ShortInts
    from localrank.lsh import HyperplaneTables
    from localrank.nearest import Search
    from localrank.signature import Signature, Signatures
    from localrank.similarity import Similarity

__all__ = ["CentroidRouter", "ExactRouter", "GlobalRouter", "LshRouter", "Route", "Router", "exact_below"]

#: The scan takes as long as the tables when the training queries have this many numbers together. Each query counts for
#: some more than its directions hold (`benchmarks/routing.py` measures where the two meet).
_AS_FAST, _PER_QUERY = 1_500_000, 200

#: No setting counts more than an int32 does, which is what the tables hold.
_LARGEST = 2**31 - 1
#: Why the global scorer answered a query of a model that has clusters.
NO_SIGNATURE = "no_signature"
#: Why a hash table's answer is not one of its candidates.
NO_CANDIDATES = "no_candidates"


def exact_below(n_components: int, n_features: int) -> int:
    """Return the number of training queries below which comparing all of them takes less time than hash tables do."""
    return _AS_FAST // (n_components * n_features + _PER_QUERY)


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


@dataclass(frozen=True, eq=False)
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
        return Route(self.strategy, *self._search.among_all(signature), len(self.signatures))

    @cached_property
    def _search(self) -> Search:
        return search_of(self.signatures, self.clusters, self.similarity)


@dataclass(frozen=True, eq=False)
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
        return Route(self.strategy, *self._search.among_all(signature), len(self.medoids))

    @cached_property
    def _search(self) -> Search:
        return search_of(self.medoids, np.arange(len(self.medoids)), self.similarity)


@dataclass(frozen=True, eq=False)
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
        exact_below: with fewer training queries than this all of them are compared; ``None`` is where that is faster.
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
    exact_below: int | None = None
    exemplars: tuple[int, ...] = ()

    strategy: ClassVar[str] = "lsh"

    def __post_init__(self) -> None:
        _check_similarity(self.similarity)
        for name, least in (("rerank", 1), ("cap", 0), ("probes", 0), ("exact_below", 0)):
            if name == "exact_below" and self.exact_below is None:
                continue
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
        if self._compares_all:
            return Route(self.strategy, *self._search.among_all(signature), len(self.signatures))
        compared = self.tables.candidates(
            signature, self._ranks, self.rerank, cap=self.cap or None, probes=self.probes
        )
        fallback = None if len(compared) else NO_CANDIDATES
        if self.exemplars:
            compared = np.concatenate([compared, self._exemplars])
        elif fallback:
            found = self._search.among_all(signature)
            return Route(self.strategy, *found, len(self.signatures), fallback)
        return Route(self.strategy, *self._search.among(signature, compared), len(compared), fallback)

    @cached_property
    def _search(self) -> Search:
        return search_of(self.signatures, self.clusters, self.similarity)

    @cached_property
    def _compares_all(self) -> bool:
        n_queries, n_components, n_features = self.signatures.directions.shape
        below = exact_below(n_components, n_features) if self.exact_below is None else self.exact_below
        return bool(n_queries < below)

    @cached_property
    def _ranks(self) -> ShortInts | None:
        """The training queries' ranks where some are not full; a copy of short numbers, read one here, one there."""
        ranks = np.asarray(self.signatures.ranks)
        return None if (ranks >= self.signatures.directions.shape[1]).all() else ranks.astype(np.uint16)

    @cached_property
    def _exemplars(self) -> Indices:
        return np.array(self.exemplars, np.int64)


def _check_similarity(similarity: str) -> None:
    if similarity not in SIMILARITIES:
        raise InvalidConfiguration(
            f"similarity: expected one of {', '.join(SIMILARITIES)}, found {similarity!r}"
        )
