r"""Every router but the plainest two (`localrank.routing.router`), and all by name, `ROUTERS`.

`MedoidRouter` and `CentroidRouter` compare a query with what stands for a cluster, `LshRouter` with candidates from hash
tables.

`OverlapRouter` takes the model whose training queries are most of a query's own neighbours: KNN offline-1 of [geng2008].
Every training query :math:`q_i` has a model, learned from its :math:`K` nearest training queries :math:`N_i`, itself among
them. A new query is answered by the model of

.. math:: i^* = \arg\max_i |N_i \cap N_K(t)|

with its own :math:`K` nearest training queries :math:`N_K(t)`. If several models have the same share, the model of the
most similar query answers.

`ClassifierRouter` and `FusionRouter` predict a query's cluster from its vector by multinomial logistic regression. With the
weights :math:`w_c` and intercepts :math:`b_c` that training learned,

.. math:: p(c \mid x) = \frac{e^{w_c \cdot x + b_c}}{\sum_{c'} e^{w_{c'} \cdot x + b_{c'}}}.

The one sends the query to the most probable cluster ("selective cluster" [kuzi2019]). The other adds the scores of all
clusters, weighted by their probability ("cluster fusion"). The similarity of their routes is the probability of the
cluster, the margin what it is ahead of the next.

`KindRouter` compares nothing: the value of one feature of the query names the cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from localrank.arrays import INTEGERS, Layout, below, between, finite, one_line
from localrank.errors import InvalidConfiguration
from localrank.points.signature import Signatures
from localrank.points.similarity import measure_of
from localrank.points.vectors import VectorPoints
from localrank.routing.route import Route
from localrank.routing.router import NO_SIGNATURE, AmongQueries, ExactRouter, GlobalRouter, WithoutQueries
from localrank.routing.search import search_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Indices, Matrix, ShortInts, Vector
    from localrank.points.representation import Point, Points
    from localrank.points.signature import Signature
    from localrank.points.vectors import VectorPoint
    from localrank.routing.router import Router
    from localrank.routing.search import HyperplaneTables, Search

#: If the training queries together have this many numbers, the scan takes as long as the tables. Each query counts the
#: numbers of its directions and some more (`benchmarks/routing.py` measures where the times are equal): by eq. 5, whose scan is
#: compiled, and by the other forms, which compare in numpy.
_COMPILED, _IN_NUMPY = (1_500_000, 200), (780_000, 550)
#: No setting counts more than an int32 does, which is what the tables hold.
_LARGEST = 2**31 - 1
#: Why a hash table's answer is not one of its candidates.
NO_CANDIDATES = "no_candidates"


def exact_below(n_components: int, n_features: int, similarity: str = "eq5") -> int:
    """Return the number of training queries below which it is faster to compare all of them than to use hash tables."""
    as_fast, per_query = _COMPILED if similarity == "eq5" else _IN_NUMPY
    return as_fast // (n_components * n_features + per_query)


class _Standing(WithoutQueries, ABC):
    """Base of the routers that compare a query with one point for each cluster."""

    similarity: str

    strategy: ClassVar[str]

    def __post_init__(self) -> None:
        measure_of(self.similarity, self.compares)

    @property
    @abstractmethod
    def compares(self) -> Points:
        """The points."""

    def route(self, point: Point, /) -> Route:
        if not point.known:
            return Route(self.strategy, None, fallback=NO_SIGNATURE, local=False)
        return Route(self.strategy, *self._search.among_all(point), len(self.compares))

    def nearest(self, point: Point, n_clusters: int, /) -> Vector | None:  # noqa: ARG002
        if not point.known:
            return None
        return measure_of(self.similarity, self.compares).one_to_many(point, self.compares)

    @cached_property
    def _search(self) -> Search:
        return search_of(self.compares, np.arange(len(self.compares)), self.similarity)


@dataclass(frozen=True, eq=False)
class MedoidRouter(_Standing):
    """Compare with one training query per cluster, its medoid.

    Attributes:
        medoids: ``[n_clusters]`` points, the cluster's position being its number.
        similarity: one of `localrank.points.similarity`.
    """

    medoids: Points
    similarity: str = "eq5"

    strategy: ClassVar[str] = "medoid"
    takes: ClassVar[type[Points] | None] = None
    layout: ClassVar[Mapping[str, Layout | str]] = {"medoids": "clusters"}

    __repr__ = one_line

    @property
    def compares(self) -> Points:
        return self.medoids


@dataclass(frozen=True, eq=False)
class CentroidRouter(_Standing):
    r"""Compare with the mean of each cluster's vectors: :math:`c^* = \arg\min_c \lVert t - \bar x_c \rVert`.

    Attributes:
        centroids: ``[n_clusters]`` vectors, the cluster's position being its number.
        similarity: one of `localrank.points.similarity` that takes vectors.
    """

    centroids: VectorPoints
    similarity: str = "euclidean"

    strategy: ClassVar[str] = "centroid"
    takes: ClassVar[type[Points] | None] = VectorPoints
    layout: ClassVar[Mapping[str, Layout | str]] = {"centroids": "clusters"}

    __repr__ = one_line

    @property
    def compares(self) -> Points:
        return self.centroids


@dataclass(frozen=True, eq=False)
class LshRouter(AmongQueries):
    """Look candidates up in hash tables (Figure 3) and compare the best of them exactly.

    What is compared is bounded: ``cap`` entries of each bucket vote, the ``rerank`` candidates with most votes and
    the clusters' exemplars are compared. So the time of a request does not grow with the training queries. If all training
    queries were compared instead, the route says `ExactRouter`'s strategy.

    Attributes:
        points: signatures of the training queries.
        clusters, similarity: as for `ExactRouter`.
        tables: where the candidates are found.
        rerank: how many candidates with most votes are compared. 0 is the rule of Figure 3, line 17: the candidate with most
            votes answers, nothing is ahead of it, and the tables are used however few training queries there are.
        cap: how many entries of a bucket vote; 0 is all of them.
        probes: how many neighbouring buckets are looked at beside each bucket.
        exact_below: with fewer training queries than this all of them are compared; ``None`` is where that is faster.
        exemplars: one training query of every cluster that is always compared, so that there is a second cluster to
            be ahead of, and an answer when no table has one. Without them an empty look-up means an exact scan.
    """

    points: Signatures
    clusters: Indices
    tables: HyperplaneTables
    rerank: int = 256
    similarity: str = "eq5"
    cap: int = 64
    probes: int = 0
    exact_below: int | None = None
    exemplars: tuple[int, ...] = ()

    strategy: ClassVar[str] = "lsh"
    takes: ClassVar[type[Points] | None] = Signatures
    layout: ClassVar[Mapping[str, Layout | str]] = {**AmongQueries.layout, "tables": "queries"}

    __repr__ = one_line

    def __post_init__(self) -> None:
        measure_of(self.similarity, self.points)
        if not isinstance(self.points, Signatures):
            raise InvalidConfiguration(
                f"routing: hash tables hold signatures, found {type(self.points).__name__}"
            )
        for name in ("rerank", "cap", "probes", "exact_below"):
            if not 0 <= (getattr(self, name) or 0) <= _LARGEST:
                raise InvalidConfiguration(
                    f"routing: expected {name} from 0 to {_LARGEST}, found {getattr(self, name)}"
                )
        n_queries = len(self.points)
        if any(not 0 <= exemplar < n_queries for exemplar in self.exemplars):
            raise InvalidConfiguration(
                f"routing: expected exemplars among {n_queries} training queries, found {self.exemplars}"
            )

    def route(self, point: Point, /) -> Route:
        if not point.known:
            return Route(self.strategy, None, fallback=NO_SIGNATURE, local=False)
        signature = cast("Signature", point)
        if self._compares_all:
            return Route(ExactRouter.strategy, *self._search.among_all(signature), len(self.points))
        compared = self._candidates(signature)
        fallback = None if len(compared) else NO_CANDIDATES
        if self.exemplars and (self.rerank or fallback):
            compared = self._with_exemplars(compared)
        elif fallback:
            found = self._search.among_all(signature)
            return Route(ExactRouter.strategy, *found, len(self.points), fallback)
        return Route(self.strategy, *self._search.among(signature, compared), len(compared), fallback)

    def _more(self, points: Points, clusters: Indices, seed: int) -> dict[str, Any]:  # noqa: ARG002
        new = cast("Signatures", points)
        return {"tables": self.tables.grown(new, np.asarray(self.points.ranks), seed)}

    def runner_up(self, point: Point, cluster: int, n_clusters: int, /) -> int | None:
        """Return the best of the other clusters that `route` has compared, so that the time stays bounded."""
        if self._compares_all:
            return AmongQueries.runner_up(self, point, cluster, n_clusters)
        signature = cast("Signature", point)
        compared = self._with_exemplars(self._candidates(signature))
        others = compared[self.clusters[compared] != cluster]
        return self._search.among(signature, others).cluster if len(others) else None

    def _candidates(self, signature: Signature) -> Indices:
        most = self.rerank or 1
        return self.tables.candidates(signature, self._ranks, most, cap=self.cap, probes=self.probes)

    def _with_exemplars(self, candidates: Indices) -> Indices:
        """Add the exemplars that are not among the candidates, so that each training query is compared and counted once."""
        found = set(candidates.tolist())  # `numpy.isin` takes three times as long for so few
        more = [exemplar for exemplar in self.exemplars if exemplar not in found]
        return np.concatenate([candidates, np.array(list(dict.fromkeys(more)), np.int64)])

    @cached_property
    def _compares_all(self) -> bool:
        if not self.rerank and self.exact_below is None:
            return False
        n_queries, n_components, n_features = self.points.directions.shape
        below = self.exact_below
        if below is None:
            below = exact_below(n_components, n_features, self.similarity)
        return bool(n_queries < below)

    @cached_property
    def _ranks(self) -> ShortInts | None:
        """The training queries' ranks where some are not full; a copy of short numbers, read one here, one there."""
        ranks = np.asarray(self.points.ranks)
        return None if (ranks >= self.points.directions.shape[1]).all() else ranks.astype(np.uint16)


@dataclass(frozen=True, eq=False)
class OverlapRouter(AmongQueries):
    """Compare a query's neighbours with those that each model was learned from.

    The similarity of a route is the share of neighbours in common. The margin is the lead of this share over the next
    model. If the next model has the same share, the margin is the lead in similarity of the two models' queries.

    Attributes:
        points: of the training queries.
        clusters: ``[n_queries]``, the model of each training query.
        neighbours: ``[n_queries, K]`` the training queries that its model was learned from.
        similarity: one of `localrank.points.similarity`.
    """

    points: Points
    clusters: Indices
    neighbours: Indices
    similarity: str = "eq5"

    strategy: ClassVar[str] = "overlap"
    takes: ClassVar[type[Points] | None] = None
    layout: ClassVar[Mapping[str, Layout | str]] = {
        **AmongQueries.layout,
        "neighbours": Layout(INTEGERS, ("queries", "neighbours"), below("queries")),
    }

    def __post_init__(self) -> None:
        measure_of(self.similarity, self.points)

    def route(self, point: Point, /) -> Route:
        if not point.known:
            return Route(self.strategy, None, fallback=NO_SIGNATURE, local=False)
        shared, similarities = self._shared(point)
        best = int(np.lexsort((-similarities, -shared))[0])
        cluster = int(self.clusters[best])
        margin = None
        if (others := self.clusters != cluster).any():
            margin = float(shared[best] - shared[others].max())
            if not margin:
                tied = others & (shared == shared[best])
                margin = float(similarities[best] - similarities[tied].max())
        return Route(self.strategy, cluster, float(shared[best]), margin, len(self.points))

    def _more(self, points: Points, clusters: Indices, seed: int) -> dict[str, Any]:  # noqa: ARG002
        """Let each new query stand for the model of its cluster, which was learned from the same queries as before."""
        first = np.full(int(self.clusters.max()) + 1, -1)
        first[self.clusters[::-1]] = np.arange(len(self.clusters))[::-1]
        return {"neighbours": np.concatenate([self.neighbours, self.neighbours[first[clusters]]])}

    def _nearest(self, point: Point, n_clusters: int) -> Vector:
        """Return the share of neighbours that each model has in common with the query."""
        found = np.full(n_clusters, -np.inf)
        np.maximum.at(found, self.clusters, self._shared(point)[0])
        return found

    def _shared(self, point: Point) -> tuple[Vector, Vector]:
        """Return the share of neighbours in common with each training query's model, and how similar each query is."""
        similarities = measure_of(self.similarity, self.points).one_to_many(point, self.points)
        count = self.neighbours.shape[1]
        own = np.zeros(len(self.points), np.bool_)
        own[np.argsort(-similarities, kind="stable")[:count]] = True
        return own[self.neighbours].mean(axis=1), similarities


#: Of a weight or an intercept; sums of larger ones could be infinite.
LARGEST = 1e100
#: How the scores of clusters may be added.
SCORES = ("standard", "raw")


class _Predicting(WithoutQueries):
    """Base of both routers."""

    weights: Vector
    intercepts: Vector

    takes: ClassVar[type[Points] | None] = VectorPoints
    layout: ClassVar[Mapping[str, Layout | str]] = {
        "weights": Layout(("float64",), ("clusters", "width"), between(-LARGEST, LARGEST)),
        "intercepts": Layout(("float64",), ("clusters",), between(-LARGEST, LARGEST)),
    }

    def probabilities(self, point: VectorPoint) -> Vector:
        """Return ``[n_clusters]``; they sum to 1."""
        logits = self.weights @ point.values.astype(np.float64) + self.intercepts
        powers = np.exp(logits - logits.max())
        found: Vector = powers / powers.sum()
        return found

    @property
    def compares(self) -> None:
        return None

    def nearest(self, point: Point, n_clusters: int, /) -> Vector | None:  # noqa: ARG002
        """Return the probability of each cluster."""
        return self.probabilities(cast("VectorPoint", point)) if point.known else None


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierRouter(_Predicting):
    """Send a query to its most probable cluster.

    Attributes:
        weights: ``[n_clusters, width]``.
        intercepts: ``[n_clusters]``.
    """

    weights: Vector
    intercepts: Vector

    strategy: ClassVar[str] = "classifier"

    def route(self, point: Point, /) -> Route:
        if not point.known:
            return Route(self.strategy, None, fallback=NO_SIGNATURE, local=False)
        return Route(self.strategy, *_likeliest(self.probabilities(cast("VectorPoint", point))))


@dataclass(frozen=True, slots=True, eq=False)
class FusionRouter(_Predicting):
    """Add the scores of all clusters, each weighted by its probability.

    Attributes:
        weights: ``[n_clusters, width]``.
        intercepts: ``[n_clusters]``.
        scores: ``standard`` gives each cluster's scores mean 0 and deviation 1 within the list first; ``raw`` adds them
            as they are, as published.
    """

    weights: Vector
    intercepts: Vector
    scores: str = "standard"

    strategy: ClassVar[str] = "fusion"

    def __post_init__(self) -> None:
        if self.scores not in SCORES:
            raise InvalidConfiguration(
                f"routing: expected scores to be one of {', '.join(SCORES)}, found {self.scores!r}"
            )

    def route(self, point: Point, /) -> Route:
        if not point.known:
            return Route(self.strategy, None, fallback=NO_SIGNATURE, local=False)
        shares = self.probabilities(cast("VectorPoint", point))
        return Route(
            self.strategy,
            *_likeliest(shares),
            shares=tuple(shares.tolist()),
            standard=self.scores == "standard",
        )


#: Why the global scorer answered a query of a model that has a cluster for each kind.
UNKNOWN_KIND = "unknown_kind"


@dataclass(frozen=True, eq=False)
class KindRouter(WithoutQueries):
    """Send a query to the cluster of its kind, the value of one feature of the query.

    A value without a cluster, because training saw too few queries of it or none, goes to the global scorer.

    Attributes:
        values: ``[n_clusters]`` the value of each cluster.
    """

    values: Matrix

    strategy: ClassVar[str] = "kind"
    takes: ClassVar[type[Points] | None] = VectorPoints
    layout: ClassVar[Mapping[str, Layout | str]] = {"values": Layout(("float32",), ("clusters",), finite)}

    __repr__ = one_line

    def route(self, point: Point, /) -> Route:
        if not point.known:
            return Route(self.strategy, None, fallback=UNKNOWN_KIND, local=False)
        cluster = self._clusters.get(float(cast("VectorPoint", point).values[0]))
        return Route(self.strategy, cluster, fallback=UNKNOWN_KIND if cluster is None else None)

    @property
    def compares(self) -> None:
        return None

    def nearest(self, point: Point, n_clusters: int, /) -> None:  # noqa: ARG002
        return None

    @cached_property
    def _clusters(self) -> dict[float, int]:
        return {value: cluster for cluster, value in enumerate(self.values.tolist())}


def _likeliest(shares: Vector) -> tuple[int, float, float | None]:
    """Return the most probable cluster, its probability, and its lead over the next cluster."""
    first, *others = np.argsort(-shares, kind="stable")[:2].tolist()
    return first, float(shares[first]), float(shares[first] - shares[others[0]]) if others else None


#: Every router that an artifact may hold. A new one is its class and an entry here.
ROUTERS: dict[str, type[Router]] = {
    router.strategy: router
    for router in (
        GlobalRouter,
        ExactRouter,
        MedoidRouter,
        CentroidRouter,
        LshRouter,
        OverlapRouter,
        ClassifierRouter,
        FusionRouter,
        KindRouter,
    )
}
