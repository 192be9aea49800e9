r"""Minimises a regularised convex loss that is only known through its cuts.

.. math:: \min_w \; P(w) = \tfrac12 \|w\|^2 + C\,H(w), \qquad H(w) = \max_y \; \big(L_y - w \cdot g_y\big) \ge 0

The maximum runs over far too many ``y`` to write down, but an oracle finds it at any ``w``. Each answer is a cut, a
line below ``H``. If the cuts so far replace ``H``, the minimum of ``P`` is a lower bound. The next point lies on the
way to this minimum [joachims2009]. Its dual is a quadratic programme over a simplex with one variable per cut.

What is returned is the best point seen, so its objective never rises, and the gap to the lower bound is a proof
of how good it is, whatever the solver of the programme did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Vector

#: How far to go from the best point towards the minimum of the cuts.
_STRIDE = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Where the search ended.

    Attributes:
        weights: the best point seen.
        objective: its value.
        bound: no point has a lower value than this.
        objectives: the best value after each cut; never rises.
        bounds: the lower bound after each cut; never falls except for rounding.
    """

    weights: Vector
    objective: float
    bound: float
    objectives: tuple[float, ...]
    bounds: tuple[float, ...]

    @property
    def gap(self) -> float:
        """How much better the optimum may still be."""
        return self.objective - self.bound

    @property
    def cuts(self) -> int:
        return len(self.objectives)


def minimise(
    oracle: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    *,
    C: float,
    tolerance: float = 1e-3,
    max_cuts: int = 1000,
) -> Solution:
    """Minimise ``P`` until the gap is at most ``tolerance`` of the objective, or ``max_cuts`` cuts are made.

    Args:
        oracle: from a point to the ``(L, g)`` that attains ``H`` there.
        start: ``[n_features]`` where to look first.
        C: weight of the loss.
        tolerance: relative gap to stop at.
        max_cuts: a bound on the work.
    """
    d = len(start)
    # Cut 0 is H(w) >= 0: with it the dual's variables add up to C exactly.
    directions, losses = np.zeros((64, d)), np.zeros(64)
    gram = np.zeros((64, 64))
    shares = np.zeros(64)
    shares[0] = C
    point = best = start
    objective, bound = np.inf, -np.inf
    objectives: list[float] = []
    bounds: list[float] = []
    n = 1
    while n <= max_cuts:
        loss, direction = oracle(point)
        value = 0.5 * float(point @ point) + C * max(0.0, loss - float(point @ direction))
        if value < objective:
            objective, best = value, point
        if n == len(losses):
            directions, losses, gram, shares = _doubled(directions, losses, gram, shares)
        directions[n], losses[n] = direction, loss
        gram[n, : n + 1] = gram[: n + 1, n] = directions[: n + 1] @ direction
        n += 1
        shares[:n] = best_of_simplex(gram[:n, :n], losses[:n], shares[:n])
        lowest: Vector = shares[:n] @ directions[:n]
        bound = max(bound, float(shares[:n] @ losses[:n]) - 0.5 * float(lowest @ lowest))
        objectives.append(objective)
        bounds.append(bound)
        # The start may already be good enough for the objective, but if it is zero it ranks nothing.
        if len(objectives) > 1 and objective - bound <= tolerance * objective:
            break
        # The minimum of few cuts lies far out. A point nearer to the best one gives an equally useful cut and needs a
        # fraction of the rounds [franc2009].
        point = best + _STRIDE * (lowest - best)
    return Solution(best, objective, bound, tuple(objectives), tuple(bounds))


def best_of_simplex(gram: Vector, losses: Vector, shares: Vector) -> Vector:
    r"""Maximise :math:`L \cdot \alpha - \tfrac12 \alpha^T G \alpha` over :math:`\alpha \ge 0` of the given sum.

    An active-set method: the optimum on the present support is one linear system; where it leaves the simplex the
    step ends at the border and the blocking variable leaves the support, else the most promising one enters. The
    objective never falls, so it can be stopped anywhere.

    Args:
        gram: ``[n, n]`` positive semidefinite.
        losses: ``[n]``.
        shares: ``[n]`` where to start; not negative. Its sum is kept.
    """
    total = float(shares.sum())
    shares = shares.copy()
    support: list[int] = np.flatnonzero(shares).tolist()
    magnitudes = np.abs(gram)
    size = float(np.abs(losses).max())
    # In units of the Gram matrix all parts of the linear system are of one size. If that matrix is almost zero, losses
    # in its units would be so large that the sum is lost beside them.
    unit = max(float(np.trace(gram)) / len(gram), 1e-10 * size / total) or 1.0
    for _ in range(20 * len(losses) + 100):
        m = len(support)
        system = np.ones((m + 1, m + 1))
        system[:m, :m] = gram[np.ix_(support, support)] / unit
        system[range(m), range(m)] += 1e-12
        system[m, m] = 0.0
        solution = np.linalg.solve(system, np.append(losses[support] / unit, total))
        target, level = solution[:m], solution[m] * unit
        leaving = target < 0.0
        if leaving.any():
            here = shares[support]
            steps = np.where(leaving, here / np.where(leaving, here - target, 1.0), np.inf)
            blocking = int(steps.argmin())
            shares[support] = np.maximum(here + steps[blocking] * (target - here), 0.0)
            shares[support[blocking]] = 0.0
            del support[blocking]
            continue
        shares[support] = target
        slope = losses - gram @ shares
        entering = int(slope.argmax())
        rounding = 1e-12 * size + 1e-14 * float((magnitudes @ shares).max())
        if entering in support or slope[entering] <= level + rounding:
            break
        support.append(entering)
    # Give back what rounding took from the sum.
    settled: Vector = shares * (total / shares.sum())
    return settled


def _doubled(directions: Vector, losses: Vector, gram: Vector, shares: Vector) -> tuple[Vector, ...]:
    n = len(losses)
    return (
        np.pad(directions, ((0, n), (0, 0))),
        np.pad(losses, (0, n)),
        np.pad(gram, ((0, n), (0, n))),
        np.pad(shares, (0, n)),
    )
