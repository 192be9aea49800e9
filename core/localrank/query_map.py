r"""Training queries in two dimensions, as training placed them, and the place of a new query among them.

The coordinates :math:`x_i` are those of classical scaling (`localrank_training.report.query_map` computes them): their columns have
mean 0, and :math:`\lambda_k = \sum_i x_{ik}^2` are the largest eigenvalues of the centred similarities. A query whose
similarities to the queries on the map are :math:`s_i` gets the place

.. math:: y_k = \frac{1}{\lambda_k} \sum_i x_{ik} (s_i - m_i)

with :math:`m_i` the mean of query *i*'s similarities to all queries on the map [gower1968]. For a query on the map, the
result is its own place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from localrank.brief import one_line
from localrank.errors import InvalidConfiguration
from localrank.layout import INTEGERS, Layout, Within, finite
from localrank.measures import MEASURES, measure_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.layout import Content, Sizes
    from localrank.representation import Point, Points
    from localrank.routing import Router

#: No training set has more queries than an int32 counts.
_MOST = 2**31


def _queries(sizes: Sizes) -> Content:
    """Return the rule for positions among the training queries that the router holds, if it holds some."""
    return Within(0, sizes.get("queries", _MOST) - 1)


def _clusters(sizes: Sizes) -> Content:
    return Within(0, sizes["clusters"] - 1)


@dataclass(frozen=True, slots=True, eq=False)
class QueryMap:
    """Where training queries are.

    Attributes:
        queries: ``[n]`` positions among the training queries that have a cluster, ascending: the numbers that
            `localrank.routing.Neighbour.query` names.
        clusters: ``[n]`` their clusters.
        coordinates: ``[n, 2]`` float32, both columns of mean 0.
        means: ``[n]`` float32, the mean of each query's similarities to all of these.
        similarity: the name in `localrank.measures.MEASURES`.
        shown: share of the information in the similarities that two dimensions show, from 0 to 1.
        points: the points of these queries, if the router does not hold them.
    """

    queries: Indices
    clusters: Indices
    coordinates: Matrix
    means: Matrix
    similarity: str
    shown: float
    points: Points | None = None

    layout: ClassVar[Mapping[str, Layout | str]] = {
        "queries": Layout(INTEGERS, ("mapped",), _queries),
        "clusters": Layout(INTEGERS, ("mapped",), _clusters),
        "coordinates": Layout(("float32",), ("mapped", "plane"), finite),
        "means": Layout(("float32",), ("mapped",), finite),
        "points": "mapped",
    }

    __repr__ = one_line

    def __post_init__(self) -> None:
        if self.similarity not in MEASURES:
            raise InvalidConfiguration(
                f"map: expected similarity to be one of {', '.join(MEASURES)}, found {self.similarity!r}"
            )
        if not 0 <= self.shown <= 1:
            raise InvalidConfiguration(f"map: expected shown from 0 to 1, found {self.shown}")
        if self.points is not None:
            measure_of(self.similarity, self.points)

    def __len__(self) -> int:
        return len(self.queries)

    def place(self, point: Point, router: Router) -> Vector | None:
        """Return where a query belongs, ``[2]``; ``None`` if it cannot be compared with the queries on the map.

        Args:
            point: of the query.
            router: of the same version.
        """
        points = self.points
        if points is None and router.queries is not None:
            points = router.queries.take(self.queries)
        if points is None or not point.known:
            return None
        return self.at(measure_of(self.similarity, points).one_to_many(point, points))

    def at(self, similarities: Vector) -> Vector:
        """Return the place of a query with these similarities ``[n]`` to the queries on the map."""
        coordinates = self.coordinates.astype(np.float64)
        sizes = (coordinates**2).sum(axis=0)
        sums = (np.asarray(similarities, np.float64) - self.means) @ coordinates
        found: Vector = np.divide(sums, sizes, out=np.zeros(2), where=sizes > 0)
        return found
