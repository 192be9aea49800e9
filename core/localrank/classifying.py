r"""Routers that predict a query's cluster from its vector by multinomial logistic regression.

With the weights :math:`w_c` and intercepts :math:`b_c` that training learned,

.. math:: p(c \mid x) = \frac{e^{w_c \cdot x + b_c}}{\sum_{c'} e^{w_{c'} \cdot x + b_{c'}}}.

`ClassifierRouter` sends the query to the most probable cluster ("selective cluster" [kuzi2019]). `FusionRouter` adds the
scores of all clusters, weighted by their probability ("cluster fusion"). The similarity of their routes is the probability
of the cluster, the margin what it is ahead of the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from localrank.errors import InvalidConfiguration
from localrank.layout import Layout, between
from localrank.routing import NO_SIGNATURE, Route, WithoutQueries
from localrank.vectors import VectorPoints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Vector
    from localrank.representation import Point, Points
    from localrank.vectors import VectorPoint

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


def _likeliest(shares: Vector) -> tuple[int, float, float | None]:
    """Return the most probable cluster, its probability, and its lead over the next cluster."""
    first, *others = np.argsort(-shares, kind="stable")[:2].tolist()
    return first, float(shares[first]), float(shares[first] - shares[others[0]]) if others else None
