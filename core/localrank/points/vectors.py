r"""Queries as vectors: which vectors there are, and how they are compared.

The similarity of two vectors is :math:`1 / (1 + \lVert u - v \rVert)`: 1 for the same vector, and falling with the
distance, so that it orders neighbours as the distance does.

A vector is what a query's documents have in common:

``variance``, ``skew``
    of every normalised feature over the documents [banerjee2009, section 2.1]:
    :math:`\sigma_j^2 = \frac1n \sum_i (x_{ij} - \mu_j)^2` and
    :math:`\varphi_j = \frac1n \sum_i (x_{ij} - \mu_j)^3 / \sigma_j^3`, which is 0 for a constant feature.
``top_documents``
    the mean of the :math:`T` documents in which one feature is largest, or smallest [cremers2020]. Documents of equal
    value share the last places, so the mean does not depend on the order of the documents.
``top_scores_pca``
    the :math:`h` largest values of each feature by itself, as :math:`h` rows, projected onto the principal directions of
    such rows of all training queries; then the mean of the rows [lwin].

Shapes: ``[width]`` for one query, ``[n_queries, width]`` for many. Everything is computed in float64 and stored as float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from localrank.arrays import Layout, anything, between, finite, one_line
from localrank.errors import InvalidConfiguration
from localrank.features.scaling import constant_features

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localrank.arrays import Bits, Indices, Layouts, Matrix, Sizes, Vector
    from localrank.features.blocks import Cloud
    from localrank.points.representation import Points

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


#: Which documents may be at the top.
ORDERS = ("largest", "smallest")
#: Largest number that float32 holds.
_LARGEST = float(np.finfo(np.float32).max)
#: Largest number of a direction or a mean; larger ones could give infinite sums.
_BOUND = 1e100


class _Aggregate(ABC):
    """A representation that makes one vector of a query's documents."""

    __slots__ = ()

    layout: ClassVar[Layouts] = {}
    points: ClassVar[type[Points]] = VectorPoints

    @abstractmethod
    def of_documents(self, documents: Matrix, /) -> Vector | None:
        """Return the vector of one or more normalised documents; ``None`` if they have no vector."""

    @abstractmethod
    def width(self, n_features: int, /) -> int:
        """Return the length of the vector."""

    def settings(self) -> dict[str, Any]:
        return {}

    def of(self, cloud: Cloud, /) -> VectorPoint:
        documents = cloud.normalised
        found = self.of_documents(documents) if len(documents) else None
        if found is None:
            return VectorPoint(np.zeros(self.width(documents.shape[1]), np.float32), known=False)
        return VectorPoint(np.clip(found, -_LARGEST, _LARGEST).astype(np.float32))

    def of_all(self, clouds: Iterable[Cloud], /) -> VectorPoints:
        return stacked(self.of(cloud) for cloud in clouds)

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:  # noqa: ARG004
        return {"width": n_features}


@dataclass(frozen=True, slots=True)
class VarianceRepresentation(_Aggregate):
    """The variance of every normalised feature; documents that are all alike have none."""

    method: ClassVar[str] = "variance"

    def of_documents(self, documents: Matrix, /) -> Vector | None:
        variances = _moments(documents)[1]
        return variances if variances.any() else None

    def width(self, n_features: int, /) -> int:
        return n_features


@dataclass(frozen=True, slots=True)
class SkewRepresentation(_Aggregate):
    """The skew of every normalised feature; documents that are all alike have none."""

    method: ClassVar[str] = "skew"

    def of_documents(self, documents: Matrix, /) -> Vector | None:
        apart, variances = _moments(documents)
        if not variances.any():
            return None
        # The division comes before the powers, so that powers of tiny values do not become zero.
        apart /= np.sqrt(np.where(variances > 0, variances, 1.0))
        return np.asarray((apart * apart * apart).mean(axis=0))

    def width(self, n_features: int, /) -> int:
        return n_features


@dataclass(frozen=True, slots=True)
class TopDocumentsRepresentation(_Aggregate):
    """The mean of the documents in which one feature is largest, or smallest.

    Attributes:
        feature: its column.
        documents: how many documents; all if a query has fewer.
        order: ``largest`` or ``smallest``.
    """

    feature: int
    documents: int
    order: str = "largest"

    method: ClassVar[str] = "top_documents"

    def __post_init__(self) -> None:
        if self.documents < 1 or self.feature < 0 or self.order not in ORDERS:
            raise InvalidConfiguration(
                f"representation: expected a feature, at least one document and one of {', '.join(ORDERS)}, found "
                f"{self.feature}, {self.documents} and {self.order!r:.60}"
            )

    def settings(self) -> dict[str, Any]:
        return {"feature": self.feature, "documents": self.documents, "order": self.order}

    def of_documents(self, documents: Matrix, /) -> Vector:
        values = documents[:, self.feature]
        if self.order == "smallest":
            values = -values
        wanted = min(self.documents, len(values))
        last = np.partition(values, len(values) - wanted)[len(values) - wanted]
        before, equal = values > last, values == last
        missing = wanted - np.count_nonzero(before)
        total = documents[before].sum(axis=0, dtype=np.float64)
        total += documents[equal].mean(axis=0, dtype=np.float64) * missing
        return np.asarray(total / wanted)

    def width(self, n_features: int, /) -> int:
        return n_features

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:
        feature = settings.get("feature")
        if not isinstance(feature, int) or not 0 <= feature < n_features:
            raise ValueError(f"expected a feature from 0 to {n_features - 1}, found {feature!r:.60}")
        return {"width": n_features}


@dataclass(frozen=True, slots=True, eq=False)
class TopScoresPcaRepresentation(_Aggregate):
    """The largest values of each feature by itself, on principal directions of all training queries.

    Attributes:
        centre: ``[n_features]``, what is subtracted: the mean of the training rows.
        axes: ``[width, n_features]``, the principal directions.
        scores: how many values of each feature; all if a query has fewer documents.
    """

    centre: Vector
    axes: Vector
    scores: int

    method: ClassVar[str] = "top_scores_pca"
    layout: ClassVar[Layouts] = {
        "centre": Layout(("float64",), ("features",), between(-_BOUND, _BOUND)),
        "axes": Layout(("float64",), ("width", "features"), between(-_BOUND, _BOUND)),
    }

    def __post_init__(self) -> None:
        if self.scores < 1:
            raise InvalidConfiguration(
                f"representation: expected at least one score of each feature, found {self.scores}"
            )

    def settings(self) -> dict[str, Any]:
        return {"components": len(self.axes), "scores": self.scores}

    def of_documents(self, documents: Matrix, /) -> Vector:
        # The mean of the projected rows is the projection of their mean.
        mean = top_scores(documents, self.scores).mean(axis=0, dtype=np.float64)
        return np.asarray(self.axes @ (mean - self.centre))

    def width(self, n_features: int, /) -> int:  # noqa: ARG002
        return len(self.axes)

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:  # noqa: ARG004
        return {}


def top_scores(documents: Matrix, scores: int) -> Matrix:
    """Return the largest values of each feature by itself, ``[min(scores, n_docs), n_features]``, the largest first."""
    return np.sort(documents, axis=0)[::-1][:scores]


def _moments(documents: Matrix) -> tuple[Vector, Vector]:
    """Return the documents less their mean, and the variances; both are 0 for a constant feature."""
    apart = documents - documents.mean(axis=0, dtype=np.float64)
    apart[:, constant_features(documents)] = 0.0
    return apart, (apart * apart).mean(axis=0)
