"""Which cluster's scorer answers a query.

A router maps a point to a `Route`. A query whose point is not known (one document, or all alike, for a signature) goes to
the global scorer, and the route says so.

Here are the role, the router without clusters, and the one that compares all training queries; `localrank.routing.routers`
has the others, and lists all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from localrank.arrays import INTEGERS, Layout, below, one_line
from localrank.errors import InvalidConfiguration
from localrank.points.representation import joined
from localrank.points.similarity import measure_of
from localrank.routing.route import Neighbour, Route
from localrank.routing.search import search_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Indices, Vector
    from localrank.points.representation import Point, Points
    from localrank.routing.search import Search

#: Why the global scorer answered a query of a model that has clusters.
NO_SIGNATURE = "no_signature"
#: Which member of a cluster `ExactRouter` may judge the cluster by.
MEMBERS = ("nearest", "average", "farthest")


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
    #: Whether the route depends on the point; if not, `Ranker.rank` makes none.
    chooses: ClassVar[bool]
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

    chooses: ClassVar[bool] = True

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


_GLOBAL = Route("global", None, local=False)


@dataclass(frozen=True, slots=True, eq=False)
class GlobalRouter(WithoutQueries):
    """Send every query to the global scorer."""

    strategy: ClassVar[str] = "global"
    chooses: ClassVar[bool] = False
    takes: ClassVar[type[Points] | None] = None
    layout: ClassVar[Mapping[str, Layout | str]] = {}

    def route(self, point: Point, /) -> Route:  # noqa: ARG002
        return _GLOBAL

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
        similarity: one of `localrank.points.similarity`.
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
