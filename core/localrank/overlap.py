r"""The model whose training queries are most of a query's own neighbours: KNN offline-1 of [geng2008].

Every training query :math:`q_i` has a model, learned from its :math:`K` nearest training queries :math:`N_i`, itself among
them. A new query is answered by the model of

.. math:: i^* = \arg\max_i |N_i \cap N_K(t)|

with its own :math:`K` nearest training queries :math:`N_K(t)`. If several models have the same share, the model of the
most similar query answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from localrank.layout import INTEGERS, Layout, below
from localrank.measures import measure_of
from localrank.routing import NO_SIGNATURE, AmongQueries, Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Indices, Vector
    from localrank.representation import Point, Points


@dataclass(frozen=True, eq=False)
class OverlapRouter(AmongQueries):
    """Compare a query's neighbours with those that each model was learned from.

    The similarity of a route is the share of neighbours in common. The margin is the lead of this share over the next
    model. If the next model has the same share, the margin is the lead in similarity of the two models' queries.

    Attributes:
        points: of the training queries.
        clusters: ``[n_queries]``, the model of each training query.
        neighbours: ``[n_queries, K]`` the training queries that its model was learned from.
        similarity: one of `localrank.measures`.
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
