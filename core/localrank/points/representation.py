"""A representation turns the cloud of a query into a point, and points are compared.

A signature (`localrank.points.signature`) is one kind of point, a vector another (`localrank.points.vectors`). Points of one kind are
stored together, `Points`, and compared by the similarities that take them (`localrank.points.similarity`).

Invariant: a representation makes the same point of a cloud offline and online.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localrank.arrays import Bits, Indices, Layouts, Sizes
    from localrank.features.blocks import Cloud


class Point(Protocol):
    """One query."""

    #: Its name in explanations.
    kind: ClassVar[str]

    @property
    def known(self) -> bool:
        """Whether the point can be compared; if not, the query goes to the global scorer."""
        ...

    def summary(self) -> dict[str, Any]:
        """Return what is worth showing of it, as JSON values."""
        ...


class Points(Protocol):
    """Many queries, one array for each property."""

    #: The names, types and shapes of its arrays; the axis of the queries is called ``points``.
    layout: ClassVar[Layouts]

    def __len__(self) -> int: ...

    @property
    def known(self) -> Bits:
        """``[n_queries]`` which ones can be compared."""
        ...

    def of(self, query: int) -> Point:
        """Return one query's point."""
        ...

    def take(self, queries: Indices) -> Self:
        """Return those queries' points, in that order."""
        ...


AnyPoints = TypeVar("AnyPoints", bound=Points)


def joined(first: AnyPoints, then: AnyPoints) -> AnyPoints:
    """Return the points of both, ``first`` before ``then``; both are of one kind."""
    arrays = {name: np.concatenate([getattr(one, name) for one in (first, then)]) for name in first.layout}
    return type(first)(**arrays)


class Representation(Protocol):
    """Turns a query's cloud into a point. Training makes it once, for all queries."""

    #: Its name in configuration and in artifacts.
    method: ClassVar[str]
    #: What its arrays must be.
    layout: ClassVar[Layouts]
    #: What it makes of many queries.
    points: ClassVar[type[Points]]

    def settings(self) -> dict[str, Any]:
        """Its settings, as JSON values."""
        ...

    def of(self, cloud: Cloud, /) -> Point: ...

    def of_all(self, clouds: Iterable[Cloud], /) -> Points:
        """Make the points of many queries, each exactly as `of` does."""
        ...

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:
        """Return the sizes that the arrays of its points have, given its settings.

        Raises:
            ValueError: a setting is out of range.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoPoint:
    """A query of a model that compares none."""

    kind: ClassVar[str] = "none"

    @property
    def known(self) -> bool:
        return False

    def summary(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class NoPoints:
    """Queries of a model that compares none."""

    count: int

    layout: ClassVar[Layouts] = {}

    def __len__(self) -> int:
        return self.count

    @property
    def known(self) -> Bits:
        return np.zeros(self.count, np.bool_)

    def of(self, query: int) -> NoPoint:  # noqa: ARG002
        return NoPoint()

    def take(self, queries: Indices) -> NoPoints:
        return NoPoints(len(queries))


@dataclass(frozen=True, slots=True)
class NoRepresentation:
    """For a model of one global scorer, which compares no queries."""

    method: ClassVar[str] = "none"
    layout: ClassVar[Layouts] = {}
    points: ClassVar[type[Points]] = NoPoints

    def settings(self) -> dict[str, Any]:
        return {}

    def of(self, cloud: Cloud, /) -> NoPoint:  # noqa: ARG002
        return NoPoint()

    def of_all(self, clouds: Iterable[Cloud], /) -> NoPoints:
        return NoPoints(sum(1 for _ in clouds))

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:  # noqa: ARG004
        return {}
