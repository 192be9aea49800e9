r"""Weights of local metrics by weighted approximate rank pairwise loss (WARP), a vector for each query [weston2011].

With :math:`\phi_r(x)` the curve of the distance to anchor ``r``, a document of query ``q`` scores :math:`f_q(x) =
-\theta_q \cdot \phi(x)`. A relevant document :math:`x^+` is drawn, then others until one, :math:`x^-`, comes within a
margin of it; if it took ``N`` draws from ``n`` documents, about :math:`\lfloor n / N \rfloor` of them rank too high:

.. math::

    \ell = L(\lfloor n / N \rfloor) \, [\epsilon - f_q(x^+) + f_q(x^-)]_+, \qquad L(k) = \sum_{i=1}^k \frac{1}{\log_2(1 + i)},

.. math::

    \frac{\partial \ell}{\partial \theta_q} = L \, \big(\phi(x^+) - \phi(x^-)\big), \qquad
    \theta_q \leftarrow \Big[\theta_q - \mu \, \frac{\partial \ell}{\partial \theta_q}\Big]_+.

The number of draws with replacement is geometric, and the document that ends them any of the violators alike; so both
are drawn at once, and one step is made for every query at the same time, which the paper remarks are independent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Bits, Indices, Vector


def rank_weights(most: int) -> Vector:
    """Return ``L(0)`` to ``L(most)``."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, most + 2)))])


def loss(weights: Vector, near: Vector, far: Vector, *, margin: float, weight: float) -> float:
    """Return the loss of one relevant and one other document, of curves ``[n_anchors]`` each."""
    return weight * max(0.0, margin + float(weights @ near) - float(weights @ far))


def gradient(near: Vector, far: Vector, weight: Vector) -> Vector:
    """Return the gradient of `loss` by the weights where it is positive; any leading axes."""
    return np.asarray(weight[..., None] * (near - far), np.float64)


def learn_weights(
    curves: Vector,
    relevant: Bits,
    offsets: Indices,
    *,
    start: Vector,
    rounds: int,
    step: float,
    margin: float,
    rng: np.random.Generator,
) -> Vector:
    """Return ``[n_queries, n_anchors]`` weights, none negative.

    Args:
        curves: ``[n_docs, n_anchors]``, what each distance is worth.
        relevant: ``[n_docs]``; each query has relevant and other documents.
        offsets: ``[n_queries + 1]``.
        start: ``[n_anchors]`` the weights of every query at first.
        rounds: steps for each query.
        step: size of a step.
        margin: how much better a relevant document must score.
        rng: draws documents.
    """
    n_queries = len(offsets) - 1
    query_of = np.repeat(np.arange(n_queries), np.diff(offsets))
    n_relevant = np.bincount(query_of[relevant], minlength=n_queries)
    n_other = np.diff(offsets) - n_relevant
    places = np.flatnonzero(relevant)
    begins = np.cumsum(n_relevant) - n_relevant
    of_rank = rank_weights(int(n_other.max()))
    weights = np.tile(start, (n_queries, 1))
    for _ in range(rounds):
        scores = -np.vecdot(curves, weights[query_of])
        positive = places[begins + rng.integers(n_relevant)]
        violates = ~relevant & (margin + scores > scores[positive][query_of])
        n_violating = np.bincount(query_of[violates], minlength=n_queries)
        steps = np.flatnonzero(n_violating)
        if not len(steps):
            # None of the drawn documents has a violator, but other relevant documents may have one.
            continue
        violating = n_violating[steps]
        draws = rng.geometric(violating / n_other[steps])
        first = (np.cumsum(n_violating) - n_violating)[steps]
        negative = np.flatnonzero(violates)[first + rng.integers(violating)]
        found = gradient(curves[positive[steps]], curves[negative], of_rank[n_other[steps] // draws])
        weights[steps] = np.maximum(weights[steps] - step * found, 0.0)
    return weights
