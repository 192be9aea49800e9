r"""Queries as points of their own features: what a request says of the query, not of its documents.

``value``
    the value of one feature, as it is: the number, or the code of the category. Kinds are equal or not.
``query``
    numbers :math:`(x_j - \mu_j) / \sigma_j` by the mean and deviation of the training queries, 0 if missing; a category
    is :math:`1 / \sqrt 2` at its code and 0 elsewhere, so that two values of it are at distance 1.
``pca+query``
    these, and the projector :math:`\sum_p u_p u_p^\top` on the first principal directions of the documents: its upper
    triangle, times :math:`\sqrt 2` beside the diagonal. The distance of two vectors is then that of the subspaces, which
    does not depend on the sign or the order of the directions.

A feature of the query has one value for all documents, so the first document tells it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from localrank.arrays import INTEGERS, Layout, Within, below, between, one_line
from localrank.features.principal import principal_directions
from localrank.points.vectors import VectorPoint, VectorPoints, stacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localrank.arrays import Indices, Layouts, Matrix, Sizes, Vector
    from localrank.features.blocks import Cloud
    from localrank.points.representation import Points

#: Largest mean or deviation of a feature; larger ones could give infinite differences.
_BOUND = 1e100
#: Largest number that float32 holds.
_LARGEST = float(np.finfo(np.float32).max)
_MOST_CODES = 1 << 20


@dataclass(frozen=True, slots=True)
class KindRepresentation:
    """The value of one feature of the query; a query without it is not known.

    Attributes:
        feature: its column.
    """

    feature: int

    method: ClassVar[str] = "value"
    layout: ClassVar[Layouts] = {}
    points: ClassVar[type[Points]] = VectorPoints

    def settings(self) -> dict[str, Any]:
        return {"feature": self.feature}

    def of(self, cloud: Cloud, /) -> VectorPoint:
        if not len(cloud) or np.isnan(cloud.raw[0, self.feature]):
            return VectorPoint(np.zeros(1, np.float32), known=False)
        return VectorPoint(cloud.raw[0, self.feature : self.feature + 1])

    def of_all(self, clouds: Iterable[Cloud], /) -> VectorPoints:
        return stacked(self.of(cloud) for cloud in clouds)

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:
        feature = settings.get("feature")
        if not isinstance(feature, int) or not 0 <= feature < n_features:
            raise ValueError(f"expected a feature from 0 to {n_features - 1}, found {feature!r:.60}")
        return {"width": 1}


@dataclass(frozen=True, slots=True, eq=False)
class QueryRepresentation:
    """Features of the query: numbers on one scale, categories as one number for each code.

    Attributes:
        columns: ``[n_query_features]`` of these features.
        codes: ``[n_query_features]`` how many codes a category has; 0 for a number.
        centre, scale: ``[n_query_features]`` mean and deviation over the training queries; 0 and 1 for a category.
        width: numbers of a point.
    """

    columns: Indices
    codes: Indices
    centre: Vector
    scale: Vector
    width: int

    method: ClassVar[str] = "query"
    layout: ClassVar[Layouts] = {
        "columns": Layout(INTEGERS, ("query_features",), below("features")),
        "codes": Layout(INTEGERS, ("query_features",), lambda _: Within(0, _MOST_CODES)),
        "centre": Layout(("float64",), ("query_features",), between(-_BOUND, _BOUND)),
        "scale": Layout(("float64",), ("query_features",), between(1.0 / _BOUND, _BOUND)),
    }
    points: ClassVar[type[Points]] = VectorPoints

    __repr__ = one_line

    def __post_init__(self) -> None:
        if self.width != int(np.maximum(self.codes, 1).sum()):
            raise ValueError(f"expected a width of {np.maximum(self.codes, 1).sum()}, found {self.width}")

    def settings(self) -> dict[str, Any]:
        return {"columns": np.asarray(self.columns).tolist()}

    def of(self, cloud: Cloud, /) -> VectorPoint:
        if not len(cloud):
            return VectorPoint(np.zeros(self.width, np.float32), known=False)
        return VectorPoint(self.of_values(cloud.raw[0]))

    def of_all(self, clouds: Iterable[Cloud], /) -> VectorPoints:
        return stacked(self.of(cloud) for cloud in clouds)

    def of_values(self, document: Matrix) -> Matrix:
        """Return the vector of the values ``[n_features]`` of any document."""
        values = document[self.columns].astype(np.float64)
        lengths = np.maximum(self.codes, 1)
        places = np.cumsum(lengths) - lengths
        category = np.asarray(self.codes) > 0
        # The contract has replaced an absent category by its code, and refused what is no code.
        places[category] += values[category].astype(np.int64)
        numbers = np.where(np.isnan(values), 0.0, (values - self.centre) / self.scale)
        vector = np.zeros(self.width)
        vector[places] = np.where(category, np.sqrt(0.5), numbers)
        return np.clip(vector, -_LARGEST, _LARGEST).astype(np.float32)

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:  # noqa: ARG004
        return {"width": _width(settings)}


@dataclass(frozen=True, slots=True, eq=False)
class PcaQueryRepresentation(QueryRepresentation):
    """Features of the query beside the principal directions of its documents.

    Attributes:
        columns, codes, centre, scale, width: of the features of the query.
        components: how many directions.
    """

    components: int

    method: ClassVar[str] = "pca+query"

    __repr__ = one_line

    def settings(self) -> dict[str, Any]:
        return {**QueryRepresentation.settings(self), "components": self.components}

    def of(self, cloud: Cloud, /) -> VectorPoint:
        beside = QueryRepresentation.of(self, cloud)
        shape = _subspace(cloud.normalised, self.components)
        return VectorPoint(np.concatenate([beside.values, shape]), beside.known)

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:
        components = settings.get("components")
        if not isinstance(components, int) or components < 1:
            raise ValueError(f"expected at least one component, found {components!r:.60}")
        return {"width": _width(settings) + n_features * (n_features + 1) // 2}


def _width(settings: Mapping[str, Any]) -> int:
    width = settings.get("width")
    if not isinstance(width, int) or width < 1:
        raise ValueError(f"expected a width of at least 1, found {width!r:.60}")
    return width


def _subspace(documents: Matrix, components: int) -> Matrix:
    """Return the upper triangle of the projector on the first directions, times the root of 2 beside the diagonal."""
    n_features = documents.shape[1]
    _, axes = principal_directions(documents, components)
    projector = axes.T.astype(np.float64) @ axes if len(axes) else np.zeros((n_features, n_features))
    rows, columns = np.triu_indices(n_features)
    found: Matrix = (projector[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))).astype(
        np.float32
    )
    return found
