r"""How alike two queries are: every similarity by its name, with the kind of points that it takes.

Invariant: a similarity is symmetric, lies in [0, 1], and is 1 for a point and itself. So ``1 - similarity`` orders pairs
as a distance would, whatever the points are.

A new similarity is an entry of `MEASURES`.

Training also places its queries in two dimensions (`QueryMap`), and a new query gets a place among them. The
coordinates :math:`x_i` are those of classical scaling (`localrank_training.report.query_map` computes them): their
columns have mean 0, and :math:`\lambda_k = \sum_i x_{ik}^2` are the largest eigenvalues of the centred similarities. A
query whose similarities to the queries on the map are :math:`s_i` gets the place

.. math:: y_k = \frac{1}{\lambda_k} \sum_i x_{ik} (s_i - m_i)

with :math:`m_i` the mean of query *i*'s similarities to all queries on the map [gower1968]. For a query on the map, the
result is its own place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from localrank.arrays import INTEGERS, Layout, Within, finite, one_line
from localrank.errors import InvalidConfiguration
from localrank.points.gaussian import (
    GaussianPoints,
    bhattacharyya_to_all,
    bhattacharyya_to_many,
    divergence_to_all,
    divergence_to_many,
)
from localrank.points.signature import SIMILARITIES, Signatures
from localrank.points.signature import all_pairs as signature_pairs
from localrank.points.signature import one_to_many as signature_to_many
from localrank.points.vectors import VectorPoints, euclidean_to_all, euclidean_to_many

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from localrank.arrays import Content, Indices, Matrix, Sizes, Vector
    from localrank.points.representation import Point, Points
    from localrank.routing.router import Router


@dataclass(frozen=True, slots=True)
class Measure:
    """One similarity.

    Attributes:
        takes: the kind of points that it compares.
        one_to_many: ``(point, points) -> [n_queries]``.
        all_pairs: ``(points) -> [n_queries, n_queries]``.
    """

    takes: type[Points]
    one_to_many: Callable[[Any, Any], Vector]
    all_pairs: Callable[[Any], Vector]


#: By the name that configuration and artifacts use.
MEASURES: dict[str, Measure] = {
    **{
        form: Measure(
            Signatures, partial(signature_to_many, similarity=form), partial(signature_pairs, similarity=form)
        )
        for form in SIMILARITIES
    },
    "euclidean": Measure(VectorPoints, euclidean_to_many, euclidean_to_all),
    "kl": Measure(GaussianPoints, divergence_to_many, divergence_to_all),
    "bhattacharyya": Measure(GaussianPoints, bhattacharyya_to_many, bhattacharyya_to_all),
}


def measure_of(similarity: str, points: Points) -> Measure:
    """Return a similarity by name.

    Raises:
        InvalidConfiguration: no similarity has this name, or it compares other points.
    """
    measure = MEASURES.get(similarity)
    if measure is None:
        raise InvalidConfiguration(f"similarity: expected one of {', '.join(MEASURES)}, found {similarity!r}")
    if not isinstance(points, measure.takes):
        raise InvalidConfiguration(
            f"similarity: {similarity!r} compares {measure.takes.__name__}, found {type(points).__name__}"
        )
    return measure


def one_to_many(point: Point, others: Points, similarity: str) -> Vector:
    """Return the similarity of one point to many: ``[n_queries]``."""
    return measure_of(similarity, others).one_to_many(point, others)


def all_pairs(points: Points, similarity: str) -> Vector:
    """Return the similarity of all pairs: ``[n_queries, n_queries]``."""
    return measure_of(similarity, points).all_pairs(points)


#: No training set has more queries than an int32 counts.
_MOST = 2**31


def _queries(sizes: Sizes) -> Content:
    """Return the rule for positions among the training queries that the router holds, if it holds some."""
    return Within(0, sizes.get("queries", _MOST) - 1)


def _clusters(sizes: Sizes) -> Content:
    """Return the rule for clusters: those of the version, or any kinds if it has none."""
    return Within(0, (sizes["clusters"] or _MOST) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class QueryMap:
    """Where training queries are.

    Attributes:
        queries: ``[n]`` positions among the training queries that have a cluster, ascending: the numbers that
            `localrank.routing.route.Neighbour.query` names.
        clusters: ``[n]`` their clusters. If the version has none: the kinds that training told apart, and found to need no
            models of their own.
        coordinates: ``[n, 2]`` float32, both columns of mean 0.
        means: ``[n]`` float32, the mean of each query's similarities to all of these.
        similarity: the name in `localrank.points.similarity.MEASURES`.
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
        similarities = self._similarities(point, router)
        return None if similarities is None else self.at(similarities)

    def nearest(self, point: Point, router: Router) -> int | None:
        """Return the cluster, or the kind, of the query on the map that a query is most similar to; as for `place`."""
        similarities = self._similarities(point, router)
        return None if similarities is None else int(self.clusters[np.argmax(similarities)])

    def _similarities(self, point: Point, router: Router) -> Vector | None:
        points = self.points
        if points is None and router.queries is not None:
            points = router.queries.take(self.queries)
        if points is None or not point.known:
            return None
        return measure_of(self.similarity, points).one_to_many(point, points)

    def at(self, similarities: Vector) -> Vector:
        """Return the place of a query with these similarities ``[n]`` to the queries on the map."""
        coordinates = self.coordinates.astype(np.float64)
        sizes = (coordinates**2).sum(axis=0)
        sums = (np.asarray(similarities, np.float64) - self.means) @ coordinates
        found: Vector = np.divide(sums, sizes, out=np.zeros(2), where=sizes > 0)
        return found
