"""Which cluster's scorer answers a query.

A router maps a signature to a `Route`. A query without a signature (one document, or all alike) goes to the global
scorer, and the route says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from localrank.similarity import one_to_many

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.lsh import HyperplaneTables
    from localrank.signature import Signature, Signatures

__all__ = ["CentroidRouter", "ExactRouter", "GlobalRouter", "LshRouter", "Route", "Router"]

#: Why the global scorer answered a query of a model that has clusters.
NO_SIGNATURE = "no_signature"


@dataclass(frozen=True, slots=True)
class Route:
    """How a query found its scorer.

    Attributes:
        strategy: the router's name.
        cluster: whose scorer answers; ``None`` is the global scorer.
        similarity: to the most similar candidate.
        margin: what the best cluster is ahead of the second, where the candidates are of several.
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
    """

    signatures: Signatures
    clusters: Indices

    strategy: ClassVar[str] = "exact"

    def route(self, signature: Signature, /) -> Route:
        if signature.rank == 0:
            return Route(self.strategy, None, fallback=NO_SIGNATURE)
        return _nearest_cluster(self.strategy, one_to_many(signature, self.signatures), self.clusters)


@dataclass(frozen=True, slots=True, eq=False)
class CentroidRouter:
    """Compare with one training query per cluster, its medoid.

    Attributes:
        medoids: ``[n_clusters]`` signatures, the cluster's position being its number.
    """

    medoids: Signatures

    strategy: ClassVar[str] = "centroid"

    def route(self, signature: Signature, /) -> Route:
        if signature.rank == 0:
            return Route(self.strategy, None, fallback=NO_SIGNATURE)
        similarities = one_to_many(signature, self.medoids)
        return _nearest_cluster(self.strategy, similarities, np.arange(len(self.medoids)))


@dataclass(frozen=True, slots=True, eq=False)
class LshRouter:
    """Look candidates up in hash tables (Figure 3) and compare the best of them exactly.

    Attributes:
        signatures, clusters: as for `ExactRouter`.
        tables: where the candidates are found.
        rerank: how many candidates with most votes are compared by eq. 5.
    """

    signatures: Signatures
    clusters: Indices
    tables: HyperplaneTables
    rerank: int = 64

    strategy: ClassVar[str] = "lsh"

    def route(self, signature: Signature, /) -> Route:
        if signature.rank == 0:
            return Route(self.strategy, None, fallback=NO_SIGNATURE)
        found, votes = self.tables.votes(signature)
        if not len(found):
            exact = _nearest_cluster(self.strategy, one_to_many(signature, self.signatures), self.clusters)
            return Route(
                self.strategy,
                exact.cluster,
                exact.similarity,
                exact.margin,
                exact.candidates,
                "no_candidates",
            )
        best = found[np.argsort(-votes, kind="stable")[: self.rerank]]
        return _nearest_cluster(
            self.strategy, one_to_many(signature, self.signatures.take(best)), self.clusters[best]
        )


def _nearest_cluster(strategy: str, similarities: Vector, clusters: Indices) -> Route:
    best = int(np.argmax(similarities))
    cluster = int(clusters[best])
    others = similarities[clusters != cluster]
    margin = float(similarities[best] - others.max()) if len(others) else None
    return Route(strategy, cluster, float(similarities[best]), margin, len(similarities))
