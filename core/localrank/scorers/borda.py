r"""One ranking out of several: rank aggregation over member scorers.

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

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from localrank.contributions import no_sum
from localrank.errors import InvalidDocuments
from localrank.layout import Layout, between
from localrank.scorers.combination import (
    LARGEST_WEIGHT,
    Combination,
    per_deviation,
    standardised,
    weighted_sum,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector
    from localrank.cloud import Cloud
    from localrank.layout import Layouts
    from localrank.scorers.role import Scorer

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
