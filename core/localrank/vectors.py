r"""Queries as vectors, compared by their distance.

The similarity of two vectors is :math:`1 / (1 + \lVert u - v \rVert)`: 1 for the same vector, and falling with the
distance, so that it orders neighbours as the distance does.

Shapes: ``[width]`` for one query, ``[n_queries, width]`` for many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from localrank.brief import one_line
from localrank.layout import Layout, anything, finite

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank.cloud import Cloud
    from localrank.layout import Layouts, Sizes
    from localrank.representation import Points

#: Numbers of differences that are held at a time.
_CELLS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class VectorPoint:
    """One query as a vector ``[width]``; a query without documents is not known."""

    values: Matrix
    known: bool = True

    kind: ClassVar[str] = "vector"

    __repr__ = one_line

    def summary(self) -> dict[str, Any]:
        return {"width": len(self.values)}


@dataclass(frozen=True, slots=True, eq=False)
class VectorPoints:
    """Many queries as vectors.

    Attributes:
        values: ``[n_queries, width]`` float32.
        known: ``[n_queries]``.
    """

    values: Matrix
    known: Bits

    layout: ClassVar[Layouts] = {
        "values": Layout(("float32",), ("points", "width"), finite),
        "known": Layout(("bool",), ("points",), anything),
    }

    __repr__ = one_line

    def __len__(self) -> int:
        return len(self.values)

    def of(self, query: int) -> VectorPoint:
        return VectorPoint(self.values[query], bool(self.known[query]))

    def take(self, queries: Indices) -> VectorPoints:
        return VectorPoints(self.values[queries], self.known[queries])


@dataclass(frozen=True, slots=True)
class MeanRepresentation:
    """The mean of a query's normalised documents."""

    method: ClassVar[str] = "mean"
    layout: ClassVar[Layouts] = {}
    points: ClassVar[type[Points]] = VectorPoints

    def settings(self) -> dict[str, Any]:
        return {}

    def of(self, cloud: Cloud, /) -> VectorPoint:
        documents = cloud.normalised
        if not len(documents):
            return VectorPoint(np.zeros(documents.shape[1], np.float32), known=False)
        return VectorPoint(documents.mean(axis=0, dtype=np.float64).astype(np.float32))

    def of_all(self, clouds: Iterable[Cloud], /) -> VectorPoints:
        return stacked(self.of(cloud) for cloud in clouds)

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:  # noqa: ARG004
        return {"width": n_features}


def stacked(points: Iterable[VectorPoint]) -> VectorPoints:
    """Return many vectors of one width."""
    found = list(points)
    values = np.stack([point.values for point in found]) if found else np.zeros((0, 0), np.float32)
    return VectorPoints(values, np.array([point.known for point in found], np.bool_))


def euclidean_to_many(point: VectorPoint, others: VectorPoints) -> Vector:
    """Return the similarity of one vector to many: ``[n_queries]``."""
    similarities = np.empty(len(others))
    step = max(1, _CELLS // max(1, len(point.values)))
    asked = point.values.astype(np.float64)
    for start in range(0, len(others), step):
        apart = others.values[start : start + step] - asked
        similarities[start : start + step] = 1.0 / (1.0 + np.sqrt(np.vecdot(apart, apart)))
    return similarities


def euclidean_to_all(points: VectorPoints) -> Vector:
    """Return the similarity of all pairs: ``[n_queries, n_queries]``, symmetric, ones on the diagonal."""
    found = np.empty((len(points), len(points)))
    for query in range(len(points)):
        found[query] = euclidean_to_many(points.of(query), points)
    return found
