r"""How much each member of a blend counts, learned from scores of queries that no member has learned from.

With :math:`z` ``[n_docs, n_members]`` the members' scores on one scale (`localrank.scorers.combination.standardised`) and
:math:`P_q` the pairs of a query's documents whose first one has the higher label, the weights minimise

.. math::
    \frac{1}{Q} \sum_q \frac{1}{|P_q|} \sum_{(i, j) \in P_q} \log\big(1 + e^{-w \cdot (z_i - z_j)}\big)
    + \lambda \, \lVert w - c \mathbf{1} \rVert^2, \qquad w \ge 0

where ``c`` is the best scale of equal weights and :math:`\lambda` the pull towards them; with an infinite pull all
members count the same. Queries count alike, and of a long list a seeded sample of pairs is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Bits, Indices, Vector

#: What the pull towards equal weights is chosen from, the strongest first.
PULLS = (np.inf, 1.0, 0.1, 0.01, 0.001)

#: The largest scale of equal weights that is tried; standardised scores need no larger one.
_LARGEST_SCALE = 100.0
_STEPS = 60
#: For margins above this, one minus the logistic function is precise enough.
_SURE = -15.0


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of documents of the same query with different labels.

    Attributes:
        better, worse: ``[n_pairs]`` positions of the documents.
        query: ``[n_pairs]``.
        shares: ``[n_pairs]`` how much each counts; those of a query add up to its weight.
    """

    better: Indices
    worse: Indices
    query: Indices
    shares: Vector

    @classmethod
    def of(cls, labels: Vector, offsets: Indices, weights: Vector, *, most: int, seed: int) -> Self:
        """Take at most ``most`` pairs of each query that counts; ``weights`` is ``[n_queries]``."""
        rng = np.random.default_rng(seed)
        found = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
        for query, (begin, end) in enumerate(pairwise(offsets.tolist())):
            own = labels[begin:end]
            if not weights[query] or end == begin or own.max() == own.min():
                continue
            better, worse = np.nonzero(own[:, None] > own)
            if len(better) > most:
                chosen = rng.choice(len(better), most, replace=False)
                better, worse = better[chosen], worse[chosen]
            count = len(better)
            share = np.full(count, weights[query] / count)
            found.append((begin + better, begin + worse, np.full(count, query), share))
        return cls(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.better)

    def of_queries(self, wanted: Bits) -> Self:
        """Return the pairs of some queries; ``wanted`` ``[n_queries]`` is true for those."""
        kept = wanted[self.query]
        return type(self)(self.better[kept], self.worse[kept], self.query[kept], self.shares[kept])


def learn_weights(members: Vector, pairs: Pairs, pulls: Sequence[float]) -> list[Vector]:
    """Return weights ``[n_members]`` for each pull, not negative and not all zero.

    Args:
        members: ``[n_docs, n_members]`` scores on one scale.
        pairs: of these documents; without any, all members count the same.
        pulls: towards equal weights, infinite for exactly those.
    """
    equal = np.ones(members.shape[1])
    if not len(pairs):
        return [equal for _ in pulls]
    differences = members[pairs.better] - members[pairs.worse]
    shares = pairs.shares / pairs.shares.sum()
    weights = _best_scale(differences.sum(axis=1), shares) * equal
    centre = weights.copy()
    found = []
    for pull in pulls:
        if np.isfinite(pull):
            # Each begins from the one before: a weaker pull moves it a little further.
            weights = _least(differences, shares, centre, pull, weights)
        found.append(weights.copy() if np.isfinite(pull) and weights.any() else equal)
    return found


def _least(differences: Vector, shares: Vector, centre: Vector, pull: float, start: Vector) -> Vector:
    def loss(weights: Vector) -> tuple[float, Vector]:
        margins = differences @ weights
        away = weights - centre
        wrong = expit(-margins)
        # log(1 + exp(-m)) = -log(expit(m)), and the two add up to one.
        value = float(shares @ -np.log1p(-wrong)) if margins.min() > _SURE else _value(margins, shares)
        return value + pull * float(away @ away), 2.0 * pull * away - (shares * wrong) @ differences

    bounds = [(0.0, None)] * len(centre)
    return np.asarray(minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x, np.float64)


def _value(margins: Vector, shares: Vector) -> float:
    return float(shares @ np.logaddexp(0.0, -margins))


def _best_scale(together: Vector, shares: Vector) -> float:
    """Return the factor of equal weights with the least loss, by Newton's method on a convex function."""
    factor = 0.0
    for _ in range(_STEPS):
        wrong = expit(-factor * together)
        slope = -float(shares @ (together * wrong))
        curve = float(shares @ (together * together * wrong * (1.0 - wrong)))
        if curve <= 0.0:
            break
        moved = min(max(factor - slope / curve, 0.0), _LARGEST_SCALE, 2.0 * factor + 1.0)
        if abs(moved - factor) <= 1e-9 * (1.0 + factor):
            return moved
        factor = moved
    return factor


def standardised_within(scores: Vector, offsets: Indices) -> Vector:
    """Return ``[n_docs]`` scores with mean 0 and deviation 1 within every list, as a blend makes them when it serves."""
    from localrank.scorers.combination import standardised

    found = np.empty(len(scores))
    for begin, end in pairwise(offsets.tolist()):
        found[begin:end] = standardised(scores[begin:end])
    return found
