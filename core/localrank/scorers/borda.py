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
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np

from localrank.errors import ArtifactCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Array, Matrix, Vector
    from localrank.scorers.role import Scorer, View

__all__ = ["RULES", "BordaScorer", "Rule", "ranked_behind"]

Rule: TypeAlias = Literal["borda", "median", "markov", "scores"]
RULES: tuple[Rule, ...] = get_args(Rule)

#: How often the walk starts anew at any document, so that it has one stationary distribution.
_RESTART = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class BordaScorer:
    """Aggregates the rankings of its members.

    Attributes:
        rankers: the members; all take the same view.
        weights: ``[n_members]`` how much each counts; none negative, one positive.
        rule: how the rankings become one.
    """

    rankers: tuple[Scorer, ...]
    weights: Vector
    rule: Rule = "borda"

    kind: ClassVar[str] = "borda"

    @property
    def view(self) -> View:
        return self.rankers[0].view

    def score(self, documents: Matrix, /) -> Vector:
        """Score the list; ``markov`` costs the cube of its length, the others little more than sorting."""
        if not len(documents):
            return np.zeros(0)
        shares = self.weights / self.weights.sum()
        scores = [ranker.score(documents) for ranker in self.rankers]
        if self.rule == "scores":
            return _weighted_sum(shares, [_standardised(one) for one in scores])
        behind = [ranked_behind(one) for one in scores]
        if self.rule == "borda":
            return _weighted_sum(shares, behind)
        if self.rule == "median":
            # Medians differ by a quarter at least; the Borda count decides below that.
            return _median(shares, behind) + _weighted_sum(shares, behind) / (5 * len(documents))
        return _stationary(shares, behind)

    def settings(self) -> dict[str, Any]:
        return {"rule": self.rule}

    def arrays(self) -> dict[str, Array]:
        return {"weights": self.weights}

    def members(self) -> Sequence[Scorer]:
        return self.rankers

    @classmethod
    def rebuild(
        cls,
        settings: Mapping[str, Any],
        arrays: Mapping[str, Array],
        members: Sequence[Scorer],
        n_features: int,  # noqa: ARG003 - its members have checked it
    ) -> Self:
        weights, rule = arrays.get("weights"), settings.get("rule")
        if not members or weights is None or len(arrays) != 1 or rule not in RULES:
            raise ArtifactCorrupt(
                f"manifest.json: a borda scorer has members, weights and a rule ({', '.join(RULES)}), nothing else"
            )
        if len({member.view for member in members}) > 1:
            raise ArtifactCorrupt("manifest.json: the members of a borda scorer take different views")
        if weights.shape != (len(members),) or weights.dtype != np.float64:
            raise ArtifactCorrupt(
                f"scorers.weights.npy: expected float64 ({len(members)},), found {weights.dtype} {weights.shape}"
            )
        settled = np.asarray(weights, np.float64)
        if not (np.isfinite(settled).all() and (settled >= 0).all() and 0 < settled.max() < 1e100):
            raise ArtifactCorrupt(
                "scorers.weights.npy: expected finite weights below 1e100, none negative and one positive"
            )
        return cls(tuple(members), settled, rule)


def ranked_behind(scores: Vector) -> Vector:
    """Return how many documents each is ranked ahead of, ``[n_docs]``; half of those it is tied with."""
    ordered = np.sort(scores)
    lower, upper = np.searchsorted(ordered, scores, "left"), np.searchsorted(ordered, scores, "right")
    return np.asarray(0.5 * (lower + upper - 1), np.float64)


def _weighted_sum(shares: Vector, values: Sequence[Vector]) -> Vector:
    total = np.zeros(len(values[0]))
    for share, value in zip(shares, values, strict=True):
        total += share * value
    return total


def _standardised(scores: Vector) -> Vector:
    """Return the scores less their mean over their deviation; zero where all are alike."""
    if scores.max() == scores.min():
        return np.zeros(len(scores))
    # Scores far beyond the squares that a double holds are scaled down first.
    scaled = scores / np.abs(scores).max()
    centred = scaled - scaled.mean()
    deviation = float(np.sqrt((centred * centred).mean()))
    return centred / deviation if deviation > 0 else np.zeros(len(scores))


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

    Documents that every member ranks alike are one state of that many documents: a solver's rounding would otherwise
    part them. For a state of ``m`` documents, per document, with the restart :math:`\epsilon`:

    .. math:: \pi_g = \frac{\epsilon}{n} + (1 - \epsilon) \Big(\pi_g - \frac{\pi_g}{n} \sum_{h \succ g} m_h
              + \frac{1}{n} \sum_{h \prec g} m_h \pi_h\Big)
    """
    states, state_of, sizes = np.unique(
        np.stack(behind, axis=1), axis=0, return_inverse=True, return_counts=True
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
