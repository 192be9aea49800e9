r"""The minimum of a strictly convex function over weights whose signs are given: an active-set method [lawson1974].

.. math:: \min_w f(w) \quad\text{with}\quad \sigma_j w_j \ge 0

At the minimum the weights that are not zero, and those without a sign, minimise ``f`` with the others held at zero; and no weight
at zero would lower ``f`` by moving to its own side. Mostly few signs bind, so that a handful of minimisations without bounds
find these weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Bits, Indices, Vector

#: A slope below this share of the largest weight is rounding.
_FLAT = 1e-7


def within_signs(
    minimise: Callable[[Bits, Vector], Vector],
    slope: Callable[[Vector], Vector],
    signs: Indices,
    start: Vector,
) -> Vector:
    """Return the weights ``[n]`` that minimise a function and have the given signs.

    Args:
        minimise: returns the minimum if only some weights are free and the others zero, beginning from given ones.
        slope: returns the gradient of the function.
        signs: ``[n]`` 1, -1, or 0 for a weight of any sign.
        start: ``[n]`` where the first minimisation begins.
    """
    free = np.ones(len(signs), np.bool_)
    weights = minimise(free, start)
    while (wrong := signs * weights < 0).any():
        free &= ~wrong
        weights = minimise(free, np.where(free, weights, 0.0))
    for _ in range(3 * int(np.count_nonzero(signs))):
        gain = np.where(free, 0.0, -signs * slope(weights))
        best = int(np.argmax(gain))
        if gain[best] <= _FLAT * float(np.abs(weights).max(initial=1e-300)):
            break
        free[best] = True
        weights = _to_minimum(minimise, signs, free, weights)
    return weights


def _to_minimum(
    minimise: Callable[[Bits, Vector], Vector], signs: Indices, free: Bits, weights: Vector
) -> Vector:
    """Go from weights of right signs to the minimum of the free ones; those that reach zero on the way stay there."""
    while True:
        found = minimise(free, weights)
        wrong = np.flatnonzero(signs * found < 0)
        if not len(wrong):
            return found
        steps = weights[wrong] / (weights[wrong] - found[wrong])
        weights = weights + steps.min() * (found - weights)
        stopped = wrong[steps <= steps.min()]
        free[stopped], weights[stopped] = False, 0.0
