r"""Scorers made of scorers. Each member has its own blocks and is scored once per query, even if several scorers use
it.

``blend`` adds the members' scores, put on one scale: with :math:`z_k(x)` the score of member ``k`` less its mean over
the list, divided by its deviation in the list (0 if the member scores all documents alike),

.. math:: f(x) = \sum_k w_k \, z_k(x).

``sum`` adds the scores as they are, :math:`f(x) = \sum_k f_k(x)`: a base and a correction that was learned on top of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from localrank.brief import one_line
from localrank.layout import Layout, between
from localrank.scorers.role import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Array, Indices, Vector
    from localrank.cloud import Cloud
    from localrank.layout import Layouts
    from localrank.scorers.role import Scorer

#: Of a member; larger ones could make scores that are not finite.
LARGEST_WEIGHT = 1e100


class Combination(ABC):
    """A scorer of scorers: a dataclass of ``rankers``, of the arrays in `layout` and of settings."""

    __slots__ = ()

    kind: ClassVar[str]
    layout: ClassVar[Layouts]
    made_of: ClassVar[tuple[str, ...]] = ("rankers",)
    rankers: tuple[Scorer, ...]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Before a dataclass writes one that prints every number.
        cls.__repr__ = one_line  # type: ignore[method-assign]

    @abstractmethod
    def score(self, cloud: Cloud, /) -> Vector:
        """Return ``[n_docs]``; members are scored by `Cloud.scored`, so that each is scored once."""

    @abstractmethod
    def terms(self, cloud: Cloud, /) -> Sequence[tuple[float, Scorer]]:
        """Return weights and members, as every scorer does."""

    def contributions(self, cloud: Cloud, which: Indices, /) -> Vector:
        return contributions_of([(1.0, self)], cloud, which)

    def settings(self) -> dict[str, Any]:
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)  # type: ignore[arg-type]
            if field.name not in self.made_of and field.name not in self.layout
        }

    def arrays(self) -> dict[str, Array]:
        return {role: getattr(self, role) for role in self.layout}

    def members(self) -> Sequence[Scorer]:
        return self.rankers

    @classmethod
    def rebuild(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, Array], members: Sequence[Scorer]
    ) -> Self:
        return cls(rankers=tuple(members), **arrays, **settings)  # type: ignore[call-arg]


@dataclass(frozen=True, slots=True, eq=False)
class BlendScorer(Combination):
    """A weighted sum of its members' scores, each with mean 0 and deviation 1 within the list.

    Attributes:
        rankers: the members.
        weights: ``[n_members]``; one at least is not zero.
    """

    rankers: tuple[Scorer, ...]
    weights: Vector

    kind: ClassVar[str] = "blend"
    layout: ClassVar[Layouts] = {
        "weights": Layout(("float64",), ("members",), between(-LARGEST_WEIGHT, LARGEST_WEIGHT))
    }

    def __post_init__(self) -> None:
        if not self.weights.any():
            raise ValueError("weights: expected one that is not zero, found none")

    def score(self, cloud: Cloud, /) -> Vector:
        counted = [(w, ranker) for w, ranker in zip(self.weights, self.rankers, strict=True) if w]
        return weighted_sum(
            [weight for weight, _ in counted], [standardised(cloud.scored(ranker)) for _, ranker in counted]
        )

    def terms(self, cloud: Cloud, /) -> Sequence[tuple[float, Scorer]]:
        return [
            (weight * per_deviation(cloud.scored(ranker)), ranker)
            for weight, ranker in zip(self.weights.tolist(), self.rankers, strict=True)
            if weight
        ]


@dataclass(frozen=True, slots=True, eq=False)
class SumScorer(Combination):
    """The sum of its members' scores.

    Attributes:
        rankers: the members, such as the global scorer and a cluster's correction.
    """

    rankers: tuple[Scorer, ...]

    kind: ClassVar[str] = "sum"
    layout: ClassVar[Layouts] = {}

    def score(self, cloud: Cloud, /) -> Vector:
        return weighted_sum([1.0] * len(self.rankers), [cloud.scored(ranker) for ranker in self.rankers])

    def terms(self, cloud: Cloud, /) -> Sequence[tuple[float, Scorer]]:  # noqa: ARG002
        return [(1.0, ranker) for ranker in self.rankers]


def contributions_of(terms: Sequence[tuple[float, Scorer]], cloud: Cloud, which: Indices) -> Vector:
    """Return ``[len(which), n_features]``: contributions to a weighted sum of scorers' scores.

    Args:
        terms: weights and scorers.
        cloud: the list.
        which: positions of the documents.

    Raises:
        ExplanationRefused: a scorer is no sum over features.
    """
    weights = dict.fromkeys((scorer for _, scorer in terms), 0.0)
    for weight, scorer in terms:
        weights[scorer] += weight
    found = np.zeros((len(which), cloud.contract.n_features))
    # Backwards, so that all weights of a scorer are known when its turn comes.
    for scorer in reversed(distinct(weights)):
        if scorer not in weights:
            continue
        members = scorer.terms(cloud)
        for weight, member in members:
            weights[member] = weights.get(member, 0.0) + weight * weights[scorer]
        if not members:
            found += weights[scorer] * scorer.contributions(cloud, which)
    return found


def weighted_sum(weights: Sequence[float] | Vector, values: Sequence[Vector]) -> Vector:
    """Return the sum in the order of the members."""
    total = np.zeros(values[0].shape)
    for weight, value in zip(weights, values, strict=True):
        total += weight * value
    return total


def standardised(scores: Vector) -> Vector:
    """Return the scores less their mean over their deviation; zero if all are alike."""
    found = _scaled(scores)
    return np.zeros(len(scores)) if found is None else found[0] / found[2]


def per_deviation(scores: Vector) -> float:
    """Return what turns contributions to the scores of a list into contributions to its `standardised` scores."""
    found = _scaled(scores)
    return 0.0 if found is None else float(1.0 / found[1] / found[2])


def _scaled(scores: Vector) -> tuple[Vector, float, float] | None:
    """Return the scores less their mean over the largest, that, and their deviation; nothing if all are alike."""
    if not len(scores) or scores.max() == scores.min():
        return None
    # Scores far beyond the squares that a double holds are scaled down first.
    largest = float(np.abs(scores).max())
    scaled = scores / largest
    centred = scaled - scaled.mean()
    deviation = float(np.sqrt((centred * centred).mean()))
    return (centred, largest, deviation) if deviation > 0 else None
