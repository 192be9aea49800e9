r"""The geometric mean metric: near where documents are alike, far where they differ, in closed form [zadeh2016].

Given the scatter ``S`` of differences within the relevant documents and the scatter ``D`` of differences between
relevant and other ones, the metric is the point at ``t`` on the geodesic from :math:`S^{-1}` to ``D``:

.. math:: M = S^{-1} \#_t D = S^{-1/2} (S^{1/2} D S^{1/2})^t S^{-1/2},

which for :math:`t = 1/2` minimises :math:`\mathrm{tr}(M S) + \mathrm{tr}(M^{-1} D)` and is the one positive solution of
:math:`M S M = D`. With :math:`S = L L^\top` (Cholesky) and :math:`L^\top D L = U \Lambda U^\top`,

.. math:: M = W^\top W, \qquad W = \Lambda^{t/2} U^\top L^{-1},

so no matrix is inverted, and a distance :math:`\|W(x - a)\|` is never the root of a negative number.

Sums over pairs need no pairs: with ``n`` documents of mean :math:`\mu`, :math:`\sum_{i<j} (x_i - x_j)(x_i - x_j)^\top =
n \sum_i (x_i - \mu)(x_i - \mu)^\top`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

if TYPE_CHECKING:
    from localrank.arrays import Bits, Matrix, Vector
    from localrank_training.data.queries import QuerySet


@dataclass(frozen=True, slots=True, eq=False)
class PairScatter:
    """How documents differ, summed over pairs of one query's documents.

    Attributes:
        similar: ``[n_features, n_features]`` over the pairs of relevant documents.
        dissimilar: ``[n_features, n_features]`` over the pairs of a relevant and another document.
    """

    similar: Vector
    dissimilar: Vector

    @classmethod
    def of(cls, queries: QuerySet, relevant: Bits, weights: Vector, *, balance: float = 1.0) -> PairScatter:
        """Sum over queries.

        Args:
            queries: judged queries.
            relevant: ``[n_docs]``.
            weights: ``[n_queries]`` how much each query counts.
            balance: a query's pairs are divided by this power of their number: 0 counts every pair the same, 1 every
                query.
        """
        d = queries.n_features
        similar, dissimilar = np.zeros((d, d)), np.zeros((d, d))
        for query in np.flatnonzero(weights).tolist():
            chosen = relevant[queries.span(query)]
            documents = queries.documents_of(query)
            near, far = documents[chosen], documents[~chosen]
            n, m = len(near), len(far)
            if n > 1:
                similar += weights[query] * (n * (n - 1) / 2) ** -balance * n * _scatter(near)[0]
            if n and m:
                own, own_mean = _scatter(near)
                other, other_mean = _scatter(far)
                apart = own_mean - other_mean
                pairs = m * own + n * other + n * m * np.outer(apart, apart)
                dissimilar += weights[query] * (n * m) ** -balance * pairs
        return cls(similar, dissimilar)


def metric_transform(scatter: PairScatter, *, regularisation: float, t: float = 0.5) -> Vector:
    r"""Return the ``W`` of a metric, ``[n_features, n_features]``.

    Features that never differ get no weight: nothing is known of them, and a document that differs in one later is not
    far because of it.

    Args:
        scatter: of the pairs.
        regularisation: multiple of the identity that is added to both scatters when their mean variance is one.
        t: between 0 (all of :math:`S^{-1}`) and 1 (all of ``D``).
    """
    differ = np.flatnonzero(scatter.similar.diagonal() + scatter.dissimilar.diagonal())
    square = np.ix_(differ, differ)
    transform = np.zeros_like(scatter.similar)
    transform[square] = geodesic(
        regularised(scatter.similar[square], regularisation),
        regularised(scatter.dissimilar[square], regularisation),
        t,
    )
    return transform


def regularised(scatter: Vector, regularisation: float) -> Vector:
    r"""Return :math:`S\,d / \mathrm{tr}\,S + \lambda I`; the identity stands for a scatter of zero."""
    d = len(scatter)
    trace = float(np.trace(scatter))
    scaled = scatter / trace * d if trace > 0 else np.eye(d)
    scaled[np.diag_indices(d)] += regularisation
    return scaled


def geodesic(similar: Vector, dissimilar: Vector, t: float) -> Vector:
    r"""Return ``W`` with :math:`W^\top W = S^{-1} \#_t D`, ``[d, d]``, for positive definite ``S``.

    Cost: one Cholesky factorisation, two triangular solves or products and one symmetric eigensolve.
    """
    lower = np.linalg.cholesky(similar)
    middle = lower.T @ dissimilar @ lower
    values, vectors = np.linalg.eigh(0.5 * (middle + middle.T))
    # Rounding may leave a small eigenvalue below zero.
    powers = np.maximum(values, 0.0) ** (0.5 * t)
    return np.asarray(solve_triangular(lower, vectors * powers, lower=True, trans="T").T, np.float64)


def reduced(transform: Vector, rank: int | None) -> Vector:
    """Return ``[rank, n_features]`` of the nearest metric of that rank, or the transform where it has no more rows.

    The rows lie along the largest eigenvectors of the metric, so no squared distance is off by more than the next
    eigenvalue times the squared length of the difference.
    """
    if rank is None or rank >= len(transform):
        return transform
    _, values, axes = np.linalg.svd(transform)
    return np.ascontiguousarray(values[:rank, None] * axes[:rank])


def _scatter(documents: Matrix) -> tuple[Vector, Vector]:
    """Return the scatter about the mean, and the mean."""
    mean = documents.mean(axis=0, dtype=np.float64)
    centred = documents - mean
    return centred.T @ centred, mean
