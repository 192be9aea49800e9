"""Which cluster's scorer answers a query.

A router maps a point to a `Route`. A query whose point is not known (one document, or all alike, for a signature) goes to
the global scorer, and the route says so.

Here are the routers that compare a query with training queries or with what stands for a cluster. Others are in
`localrank.classifying` and `localrank.overlap`; `localrank.routers` lists all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, cast

import numpy as np

from localrank.brief import one_line
from localrank.errors import InvalidConfiguration
from localrank.layout import INTEGERS, Layout, below
from localrank.measures import measure_of
from localrank.nearest import search_of
from localrank.representation import joined
from localrank.signature import Signatures
from localrank.vectors import VectorPoints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Indices, ShortInts, Vector
    from localrank.lsh import HyperplaneTables
    from localrank.nearest import Search
    from localrank.representation import Point, Points
    from localrank.signature import Signature

#: If the training queries together have this many numbers, the scan takes as long as the tables. Each query counts the
#: numbers of its directions and some more (`benchmarks/routing.py` measures where the times are equal).
_AS_FAST, _PER_QUERY = 1_500_000, 200

#: No setting counts more than an int32 does, which is what the tables hold.
_LARGEST = 2**31 - 1
#: Why the global scorer answered a query of a model that has clusters.
NO_SIGNATURE = "no_signature"
#: Why a hash table's answer is not one of its candidates.
NO_CANDIDATES = "no_candidates"
#: Which member of a cluster `ExactRouter` may judge the cluster by.
MEMBERS = ("nearest", "average", "farthest")


def exact_below(n_components: int, n_features: int) -> int:
    """Return the number of training queries below which it is faster to compare all of them than to use hash tables."""
    return _AS_FAST // (n_components * n_features + _PER_QUERY)


class Route(NamedTuple):
    """How a query found its scorer.

    A tuple, because one is made for every request and a frozen dataclass takes four times as long.

    Attributes:
        strategy: the router's name.
        cluster: whose scorer answers; ``None`` is the global scorer.
        similarity: to the most similar training query that was compared; or what else the router compares clusters by,
            such as their probability.
        margin: lead of this similarity over the most similar query of any other cluster; ``None`` if only one cluster
            was compared. If not all training queries were compared, but the similarity is that of an exact scan, the
            margin is at least the margin of the exact scan.
        candidates: how many training queries were compared.
        fallback: why this is not what the strategy promises: ``no_signature``, ``no_candidates``, or ``None``.
        local: false if the cluster's scorer is the global one, or there is no cluster. `Ranker.rank` tells.
        shares: ``[n_clusters]`` the weight of each cluster's scorer, for fusion; empty if one cluster answers alone.
        standard: whether each cluster's scores get mean 0 and deviation 1 within the list before shares weigh them.
    """

    strategy: str
    cluster: int | None
    similarity: float | None = None
    margin: float | None = None
    candidates: int = 0
    fallback: str | None = None
    local: bool = True
    shares: tuple[float, ...] = ()
    standard: bool = False


class Neighbour(NamedTuple):
    """A training query that a query is similar to.

    Attributes:
        query: its position among the training queries.
        cluster: whose it is.
        similarity: to the query.
    """

    query: int
    cluster: int
    similarity: float


def similar_queries(
    point: Point, points: Points, clusters: Indices, similarity: str, most: int
) -> list[Neighbour]:
    """Return the training queries that are most similar to a point, the most similar first; none if it is not known."""
    if not point.known:
        return []
    similarities = measure_of(similarity, points).one_to_many(point, points)
    first = np.argsort(-similarities, kind="stable")[:most]
    return [Neighbour(int(query), int(clusters[query]), float(similarities[query])) for query in first]


class Router(Protocol):
    """Chooses the cluster for a point."""

    #: Its name in configuration, artifacts and routes.
    strategy: ClassVar[str]
    #: The kind of points that it routes; ``None`` if any kind will do.
    takes: ClassVar[type[Points] | None]
    #: What its arrays must be. For a field that holds points or tables: what counts them.
    layout: ClassVar[Mapping[str, Layout | str]]

    def route(self, point: Point, /) -> Route: ...

    @property
    def compares(self) -> Points | None:
        """The points that queries are compared with; the model's representation makes points of the same kind."""
        ...

    @property
    def queries(self) -> Points | None:
        """The training queries that it holds, in the order of `Neighbour.query`; ``None`` if it holds none."""
        ...

    def nearest(self, point: Point, n_clusters: int, /) -> Vector | None:
        """Return ``[n_clusters]``: the similarity to the most similar point of each cluster, -inf if it has none.

        ``None`` if the router does not compare points, or this one cannot be compared.
        """
        ...

    def most_similar(self, point: Point, most: int, /) -> list[Neighbour]:
        """Return the training queries that are most similar to a point; none if the router does not know them."""
        ...

    def runner_up(self, point: Point, cluster: int, n_clusters: int, /) -> int | None:
        """Return the next best cluster after the one that `route` chose; ``None`` if there is none."""
        ...

    def sizes(self, n_clusters: int, /) -> Indices:
        """Return how many training queries of each cluster it holds, ``[n_clusters]``; zeros if it holds none."""
        ...

    def knowing(self, points: Points, clusters: Indices, /) -> Router | None:
        """Return a router that compares with all of these training queries in the same way.

        ``None`` if the router does not compare with training queries: then it treats them as it treats any other query.
        """
        ...

    def grown(self, points: Points, clusters: Indices, /, *, seed: int = 0) -> Router:
        """Return a router that knows more training queries, in clusters that there are; itself if it knows none."""
        ...


class _ByNearness:
    """Finds the next best cluster among all that `nearest` tells of."""

    def nearest(self, point: Point, n_clusters: int, /) -> Vector | None:
        raise NotImplementedError

    def runner_up(self, point: Point, cluster: int, n_clusters: int, /) -> int | None:
        near = self.nearest(point, n_clusters)
        if near is None:
            return None
        near = np.array(near, np.float64)
        near[cluster] = -np.inf
        second = int(np.argmax(near))
        return second if np.isfinite(near[second]) else None


class WithoutQueries(_ByNearness):
    """Base of the routers that hold no training queries; only their training needs these."""

    @property
    def queries(self) -> None:
        return None

    def most_similar(self, point: Point, most: int, /) -> list[Neighbour]:  # noqa: ARG002
        return []

    def sizes(self, n_clusters: int, /) -> Indices:
        return np.zeros(n_clusters, np.int64)

    def knowing(self, points: Points, clusters: Indices, /) -> None:  # noqa: ARG002
        return None

    def grown(self, points: Points, clusters: Indices, /, *, seed: int = 0) -> Self:  # noqa: ARG002
        return self


@dataclass(frozen=True, slots=True, eq=False)
class GlobalRouter(WithoutQueries):
    """Send every query to the global scorer."""

    strategy: ClassVar[str] = "global"
    takes: ClassVar[type[Points] | None] = None
    layout: ClassVar[Mapping[str, Layout | str]] = {}

    def route(self, point: Point, /) -> Route:  # noqa: ARG002
        return Route(self.strategy, None, local=False)

    @property
    def compares(self) -> None:
        return None

    def nearest(self, point: Point, n_clusters: int, /) -> None:  # noqa: ARG002
        return None


class AmongQueries(_ByNearness):
    """Base of the routers that compare a query with training queries of known clusters."""

    points: Points
    clusters: Indices
    similarity: str

    layout: ClassVar[Mapping[str, Layout | str]] = {
        "points": "queries",
        "clusters": Layout(INTEGERS, ("queries",), below("clusters")),
    }

    @property
    def compares(self) -> Points:
        return self.points

    @property
    def queries(self) -> Points:
        return self.points

    def nearest(self, point: Point, n_clusters: int, /) -> Vector | None:
        return self._nearest(point, n_clusters) if point.known else None

    def _nearest(self, point: Point, n_clusters: int) -> Vector:
        found = np.full(n_clusters, -np.inf)
        similarities = measure_of(self.similarity, self.points).one_to_many(point, self.points)
        np.maximum.at(found, self.clusters, similarities)
        return found

    def most_similar(self, point: Point, most: int, /) -> list[Neighbour]:
        return similar_queries(point, self.points, self.clusters, self.similarity, most)

    def sizes(self, n_clusters: int, /) -> Indices:
        return np.bincount(self.clusters, minlength=n_clusters)

    def knowing(self, points: Points, clusters: Indices, /) -> ExactRouter:
        """Return a router to the nearest of these queries, without other knowledge about the old ones."""
        return ExactRouter(points, clusters, self.similarity)

    def grown(self, points: Points, clusters: Indices, /, *, seed: int = 0) -> Router:
        """Return the router with more training queries, behind those that it knows."""
        known = joined(self.points, points)
        theirs = np.concatenate([self.clusters, clusters])
        more = self._more(points, clusters, seed)
        # Every router that inherits this is a dataclass.
        grown: Router = replace(self, points=known, clusters=theirs, **more)  # type: ignore[type-var, assignment]
        return grown

    def _more(self, points: Points, clusters: Indices, seed: int) -> dict[str, Any]:  # noqa: ARG002
        """Return what else changes when the router gets these training queries."""
        return {}

    @cached_property
    def _search(self) -> Search:
        return search_of(self.points, self.clusters, self.similarity)


@dataclass(frozen=True, eq=False)
class ExactRouter(AmongQueries):
    """Compare with every training query (Figure 2, line 5).

    Attributes:
        points: of the training queries.
        clusters: ``[n_queries]``, each training query's cluster.
        similarity: one of `localrank.measures`.
        member: how near a cluster is: as near as its ``nearest`` query (the paper), its queries on ``average``, or its
            ``farthest`` query.
    """

    points: Points
    clusters: Indices
    similarity: str = "eq5"
    member: str = "nearest"

    strategy: ClassVar[str] = "exact"
    takes: ClassVar[type[Points] | None] = None

    __repr__ = one_line

    def __post_init__(self) -> None:
        measure_of(self.similarity, self.points)
        if self.member not in MEMBERS:
            raise InvalidConfiguration(
                f"routing: expected member to be one of {', '.join(MEMBERS)}, found {self.member!r}"
            )

    def route(self, point: Point, /) -> Route:
        if not point.known:
            return Route(self.strategy, None, fallback=NO_SIGNATURE, local=False)
        if self.member == "nearest":
            return Route(self.strategy, *self._search.among_all(point), len(self.points))
        near = self._near(point, int(self.clusters.max()) + 1)
        first, *others = np.argsort(-near, kind="stable")[:2].tolist()
        margin = float(near[first] - near[others[0]]) if others and np.isfinite(near[others[0]]) else None
        return Route(self.strategy, first, float(near[first]), margin, len(self.points))

    def nearest(self, point: Point, n_clusters: int, /) -> Vector | None:
        return self._near(point, n_clusters) if point.known else None

    def knowing(self, points: Points, clusters: Indices, /) -> ExactRouter:
        return ExactRouter(points, clusters, self.similarity, self.member)

    def _near(self, point: Point, n_clusters: int) -> Vector:
        """Return how near each cluster is, -inf if it has no query that can be compared."""
        if self.member == "nearest":
            return self._nearest(point, n_clusters)
        # If a query cannot be compared, it is ignored when its cluster is judged.
        known = np.flatnonzero(self.points.known)
        theirs = self.clusters[known]
        similarities = measure_of(self.similarity, self.points).one_to_many(point, self.points)[known]
        found = np.full(n_clusters, np.inf)
        counts = np.bincount(theirs, minlength=n_clusters)
        if self.member == "farthest":
            np.minimum.at(found, theirs, similarities)
        else:
            np.divide(np.bincount(theirs, similarities, n_clusters), counts, out=found, where=counts > 0)
        found[counts == 0] = -np.inf
        return found


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
        similarity: one of `localrank.measures`.
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
        similarity: one of `localrank.measures` that takes vectors.
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
    the clusters' exemplars are compared. So the time of a request does not grow with the training queries.

    Attributes:
        points: signatures of the training queries.
        clusters, similarity: as for `ExactRouter`.
        tables: where the candidates are found.
        rerank: how many candidates with most votes are compared.
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
        for name, least in (("rerank", 1), ("cap", 0), ("probes", 0), ("exact_below", 0)):
            if name == "exact_below" and self.exact_below is None:
                continue
            if not least <= getattr(self, name) <= _LARGEST:
                raise InvalidConfiguration(
                    f"routing: expected {name} from {least} to {_LARGEST}, found {getattr(self, name)}"
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
            return Route(self.strategy, *self._search.among_all(signature), len(self.points))
        compared = self._candidates(signature)
        fallback = None if len(compared) else NO_CANDIDATES
        if self.exemplars:
            compared = self._with_exemplars(compared)
        elif fallback:
            found = self._search.among_all(signature)
            return Route(self.strategy, *found, len(self.points), fallback)
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
        return self.tables.candidates(signature, self._ranks, self.rerank, cap=self.cap, probes=self.probes)

    def _with_exemplars(self, candidates: Indices) -> Indices:
        """Add the exemplars that are not among the candidates, so that each training query is compared and counted once."""
        found = set(candidates.tolist())  # `numpy.isin` takes three times as long for so few
        more = [exemplar for exemplar in self.exemplars if exemplar not in found]
        return np.concatenate([candidates, np.array(list(dict.fromkeys(more)), np.int64)])

    @cached_property
    def _compares_all(self) -> bool:
        n_queries, n_components, n_features = self.points.directions.shape
        below = exact_below(n_components, n_features) if self.exact_below is None else self.exact_below
        return bool(n_queries < below)

    @cached_property
    def _ranks(self) -> ShortInts | None:
        """The training queries' ranks where some are not full; a copy of short numbers, read one here, one there."""
        ranks = np.asarray(self.points.ranks)
        return None if (ranks >= self.points.directions.shape[1]).all() else ranks.astype(np.uint16)
