r"""Scorers made of scorers. Each member has its own blocks and is scored once per query, even if several scorers use
it.

``blend`` adds the members' scores, put on one scale: with :math:`z_k(x)` the score of member ``k`` less its mean over
the list, divided by its deviation in the list (0 if the member scores all documents alike),

.. math:: f(x) = \sum_k w_k \, z_k(x).

``sum`` adds the scores as they are, :math:`f(x) = \sum_k f_k(x)`: a base and a correction that was learned on top of it.

One ranking out of several: rank aggregation over member scorers.

Each member ranks the list; :math:`s_k(x)` is how many documents member ``k`` puts behind ``x``, a tie counting one half,
so that identical documents stay tied. With a weight :math:`\alpha_k` per member, the rules are

``borda``
    :math:`\sum_k \alpha_k s_k(x)`, weighted Borda count; with equal weights Borda count [borda1781].
``median``
    the weighted median of :math:`s_k(x)` [fagin2003]; ties by Borda count.
``markov``
    the stationary distribution of a walk that goes from ``x`` to a document drawn at random if more weight ranks that
    one higher, and stays otherwise: chain MC4 of [dwork2001].
``scores``
    :math:`\sum_k \alpha_k z_k(x)`, the members' scores themselves, put on one scale by their mean and deviation in the
    list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np

from localrank.arrays import Layout, between, one_line
from localrank.contributions import no_sum
from localrank.errors import InvalidDocuments
from localrank.scorers.role import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Array, Indices, Layouts, Vector
    from localrank.features.blocks import Cloud
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

    def counting(self) -> BlendScorer:
        """Return the blend without members of weight 0, which scores the same; itself if all count."""
        if self.weights.all():
            return self
        rankers = tuple(ranker for weight, ranker in zip(self.weights, self.rankers, strict=True) if weight)
        return BlendScorer(rankers, self.weights[self.weights != 0])

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


Rule: TypeAlias = Literal["borda", "median", "markov", "scores"]
RULES: tuple[Rule, ...] = get_args(Rule)
#: How often the walk starts anew at any document, so that it has one stationary distribution.
_RESTART = 0.05
#: Documents of a list, alike ones counted once, that the walk takes: it needs the square of memory and the cube of time.
_MOST_STATES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class BordaScorer(Combination):
    """Aggregates the rankings of its members.

    Attributes:
        rankers: the members.
        weights: ``[n_members]`` how much each counts; none negative, one positive.
        rule: how the rankings become one.
    """

    rankers: tuple[Scorer, ...]
    weights: Vector
    rule: Rule = "borda"

    kind: ClassVar[str] = "borda"
    layout: ClassVar[Layouts] = {"weights": Layout(("float64",), ("members",), between(0.0, LARGEST_WEIGHT))}

    def __post_init__(self) -> None:
        if not (self.weights > 0).any():
            raise ValueError("weights: expected one positive, found none")
        if self.rule not in RULES:
            raise ValueError(f"rule: expected one of {', '.join(RULES)}, found {self.rule!r:.60}")

    def score(self, cloud: Cloud, /) -> Vector:
        """Score the list; ``markov`` costs the cube of its length, the others little more than sorting."""
        if not len(cloud):
            return np.zeros(0)
        shares = self.weights / self.weights.sum()
        scores = [cloud.scored(ranker) for ranker in self.rankers]
        if self.rule == "scores":
            return weighted_sum(shares, [standardised(one) for one in scores])
        behind = [ranked_behind(one) for one in scores]
        if self.rule == "borda":
            return weighted_sum(shares, behind)
        if self.rule == "median":
            # Medians differ by at least a quarter, so a smaller addition of the Borda count decides ties.
            return _median(shares, behind) + weighted_sum(shares, behind) / (5 * len(cloud))
        return _stationary(shares, behind)

    def terms(self, cloud: Cloud, /) -> Sequence[tuple[float, Scorer]]:
        if self.rule != "scores":
            raise no_sum(f"{self.kind} ({self.rule})")
        shares = (self.weights / self.weights.sum()).tolist()
        return [
            (share * per_deviation(cloud.scored(ranker)), ranker)
            for share, ranker in zip(shares, self.rankers, strict=True)
        ]


def ranked_behind(scores: Vector) -> Vector:
    """Return how many documents each is ranked ahead of, ``[n_docs]``; half of those it is tied with."""
    ordered = np.sort(scores)
    lower, upper = np.searchsorted(ordered, scores, "left"), np.searchsorted(ordered, scores, "right")
    return np.asarray(0.5 * (lower + upper - 1), np.float64)


def _median(shares: Vector, values: Sequence[Vector]) -> Vector:
    """Return the weighted median of each column: halfway between two values where they divide the weight evenly."""
    table = np.stack(values)
    order = np.argsort(table, axis=0, kind="stable")
    ordered = np.take_along_axis(table, order, axis=0)
    reached = shares[order].cumsum(axis=0)
    slack = 1e-9
    lower = (reached >= 0.5 - slack).argmax(axis=0)
    upper = (reached > 0.5 + slack).argmax(axis=0)
    columns = np.arange(table.shape[1])
    median: Vector = 0.5 * (ordered[lower, columns] + ordered[upper, columns])
    return median


def _stationary(shares: Vector, behind: Sequence[Vector]) -> Vector:
    r"""Return the stationary probabilities of the walk.

    Documents that every member ranks alike are one state of several documents. Otherwise the rounding of a solver could
    give them different probabilities. For a state of ``m`` documents, per document, with the restart :math:`\epsilon`:

    .. math:: \pi_g = \frac{\epsilon}{n} + (1 - \epsilon) \Big(\pi_g - \frac{\pi_g}{n} \sum_{h \succ g} m_h
              + \frac{1}{n} \sum_{h \prec g} m_h \pi_h\Big)
    """
    states, state_of, sizes = np.unique(
        np.stack(behind, axis=1), axis=0, return_inverse=True, return_counts=True
    )
    if len(states) > _MOST_STATES:
        raise InvalidDocuments(
            f"expected at most {_MOST_STATES} documents, those that all members rank alike counted once, as 'markov' costs "
            f"their cube, found {len(states)}"
        )
    n_docs = len(state_of)
    lead = np.zeros((len(states), len(states)))
    for share, column in zip(shares, states.T, strict=True):
        lead += share * np.sign(column[:, None] - column[None, :])
    # A sum of shares that should be zero may be off by rounding.
    wins = lead > 1e-9
    flow = (1.0 - _RESTART) / n_docs * wins
    system = -flow * sizes
    system[np.diag_indices_from(system)] += _RESTART + flow.T @ sizes
    probabilities = np.linalg.solve(system, np.full(len(states), _RESTART / n_docs))
    spread: Vector = probabilities[state_of.reshape(-1)]
    return spread
