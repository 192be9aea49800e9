r"""Least squares whose every weighted model is a sum of small matrices and one Cholesky factorisation.

For a query with documents ``X`` ``[n, d]`` and gains ``y`` let ``L`` centre it, :math:`L = I - 11^T / n`. Then

.. math:: \|L(y - Xw)\|^2 = \frac{1}{n} \sum_{i < j} \big((y_i - y_j) - w \cdot (x_i - x_j)\big)^2

is ranking least squares over the query's pairs [pahikkala2009], and the normal equations of any weighting ``c`` of the
queries are sums over queries:

.. math:: \Big(\frac{\sum_q c_q G_q}{\sum_q c_q} + \rho I\Big) w = \frac{\sum_q c_q b_q}{\sum_q c_q},
    \qquad G_q = X_q^T L X_q, \quad b_q = X_q^T L y_q

`PerQueryMatrices` holds them, so the model of a cluster, of a query's neighbours, of soft memberships, or of all queries
but one costs no pass over the documents. Plain ridge regression, where one intercept serves all queries, is the same
with sums that are centred after they have been added.

Shapes: ``d`` is ``n_features``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from localrank_training.learners.products import BLOCK, Products

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank_training.data.queries import QuerySet

#: Whose mean is taken off documents and gains: each query's own, or that of all of them (an intercept).
Centre: TypeAlias = Literal["query", "all"]
CENTRES: tuple[Centre, ...] = get_args(Centre)

#: How many numbers the stacked systems of one call may have.
_CELLS = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class NormalEquations:
    """``(gram + ridge I) w = moment``.

    Attributes:
        gram: ``[..., d, d]`` positive semidefinite.
        moment: ``[..., d]``.
    """

    gram: Vector
    moment: Vector

    @classmethod
    def of(
        cls, queries: QuerySet, gains: Vector, *, weights: Vector | None = None, centre: Centre = "query"
    ) -> Self:
        """Add up all queries without the matrices of each.

        Args:
            queries: the documents.
            gains: ``[n_docs]`` what is regressed on.
            weights: ``[n_queries]`` how much each query counts.
            centre: whose mean is taken off.
        """
        shares = np.ones(len(queries)) if weights is None else weights
        rows = np.repeat(shares, queries.lengths)
        if centre == "all":
            mean = Products(queries.documents).combination(rows) / rows.sum()
            mean_gain = rows @ gains / rows.sum()
        gram, moment = np.zeros((queries.n_features, queries.n_features)), np.zeros(queries.n_features)
        for begin, end in queries.portions(BLOCK):
            block = slice(int(queries.offsets[begin]), int(queries.offsets[end]))
            documents = queries.documents[block].astype(np.float64)
            targets = gains[block]
            if centre == "query":
                lengths = queries.lengths[begin:end]
                starts = queries.offsets[begin:end] - queries.offsets[begin]
                mean = np.repeat(_means(documents, starts, lengths), lengths, axis=0)
                mean_gain = np.repeat(_means(targets, starts, lengths), lengths)
            documents -= mean
            weighted = documents * rows[block, None]
            gram += weighted.T @ documents
            moment += (targets - mean_gain) @ weighted
        return cls(gram / shares.sum(), moment / shares.sum())

    def ridge(self, relative: float) -> float:
        """Return a ridge in units of the mean variance of a feature, so that scaling all features changes no order."""
        return relative * float(np.trace(self.gram)) / len(self.gram)

    def solve(self, ridge: float, towards: Vector | None = None) -> Vector:
        """Return ``w`` ``[d]``, pulled towards zero or another ``w`` by ``ridge`` (positive)."""
        d = len(self.gram)
        moment = self.moment if towards is None else self.moment + ridge * towards
        weights: Vector = cho_solve(cho_factor(self.gram + ridge * np.eye(d)), moment)
        return weights


@dataclass(frozen=True, slots=True, eq=False)
class PerQueryMatrices:
    """What each query adds to the normal equations.

    Attributes:
        grams: ``[n_queries, d, d]``.
        moments: ``[n_queries, d]``.
        squares: ``[n_queries]`` the products of the gains with themselves.
        sums: ``[n_queries, d + 2]`` each query's documents, gains and number of documents added up, which centring
            on all takes off; none where each query is centred.
    """

    grams: Vector
    moments: Vector
    squares: Vector
    sums: Vector | None

    @classmethod
    def of(cls, queries: QuerySet, gains: Vector, *, centre: Centre = "query") -> Self:
        """Compute the matrices; ``gains`` ``[n_docs]`` is what is regressed on."""
        n, d = len(queries), queries.n_features
        grams, moments, squares = np.empty((n, d, d)), np.empty((n, d)), np.empty(n)
        sums = None if centre == "query" else np.empty((n, d + 2))
        for query in range(n):
            documents = queries.documents_of(query).astype(np.float64)
            targets = gains[queries.span(query)]
            if sums is None and len(documents):
                documents -= documents.mean(axis=0)
                targets = targets - targets.mean()
            elif sums is not None:
                sums[query] = [*documents.sum(axis=0), targets.sum(), len(documents)]
            grams[query], moments[query] = documents.T @ documents, targets @ documents
            squares[query] = targets @ targets
        return cls(grams, moments, squares, sums)

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.grams)

    def total(self, weights: Vector | None = None) -> NormalEquations:
        """Add up the queries.

        Args:
            weights: ``[n_queries]`` how much each counts; or ``[..., n_queries]`` for many models at once.
        """
        shares = np.ones(len(self)) if weights is None else np.asarray(weights, np.float64)
        n, d = self.moments.shape
        if shares.ndim == 1 and 2 * np.count_nonzero(shares) < n:
            # Neighbourhoods are small: read only their matrices.
            chosen = np.flatnonzero(shares)
            shares, grams, moments = shares[chosen], self.grams[chosen], self.moments[chosen]
            sums = None if self.sums is None else self.sums[chosen]
        else:
            grams, moments, sums = self.grams, self.moments, self.sums
        gram = (shares @ grams.reshape(len(grams), d * d)).reshape(*shares.shape[:-1], d, d)
        moment = shares @ moments
        if sums is not None:
            gram, moment = _centred(gram, moment, shares @ sums)
        whole = shares.sum(axis=-1)
        return NormalEquations(gram / whole[..., None, None], moment / whole[..., None])

    def solve(self, ridge: float, weights: Vector | None = None, towards: Vector | None = None) -> Vector:
        """Return the model ``[d]`` of a weighting ``[n_queries]`` of the queries."""
        return self.total(weights).solve(ridge, towards)

    def leave_query_out(
        self,
        ridge: float,
        weights: Vector | None = None,
        queries: Indices | None = None,
        towards: Vector | None = None,
    ) -> Vector:
        """Return for every query ``[n_queries, d]`` the model of all others, by taking its matrices off their sum.

        Args:
            ridge: the same for every model.
            weights: ``[n_queries]`` how much each query counts; at least two must.
            queries: ``[k]`` only leave out these, and return ``[k, d]``.
            towards: ``[d]`` what ``ridge`` pulls every model to; zero by default.
        """
        shares = np.ones(len(self)) if weights is None else np.asarray(weights, np.float64)
        chosen = np.arange(len(self)) if queries is None else queries
        n, d = self.moments.shape
        whole = (shares @ self.grams.reshape(n, d * d)).reshape(d, d)
        moment = shares @ self.moments
        sums = None if self.sums is None else shares @ self.sums
        models = np.empty((len(chosen), d))
        step = max(1, _CELLS // (d * d))
        for begin in range(0, len(chosen), step):
            left = chosen[begin : begin + step]
            share = shares[left]
            grams = whole - share[:, None, None] * self.grams[left]
            moments = moment - share[:, None] * self.moments[left]
            if sums is not None and self.sums is not None:
                grams, moments = _centred(grams, moments, sums - share[:, None] * self.sums[left])
            rest = (shares.sum() - share)[:, None]
            system = grams / rest[:, :, None] + ridge * np.eye(d)
            moments = moments / rest
            if towards is not None:
                moments = moments + ridge * towards
            models[begin : begin + step] = np.linalg.solve(system, moments[:, :, None])[:, :, 0]
        return models

    def errors(self, models: Vector) -> Vector:
        r"""Return each query's squared error ``[n_queries]`` under its own model ``[n_queries, d]``.

        :math:`\|L(y - Xw)\|^2 = y^T L y - 2 w \cdot b + w^T G w`; with sums, about zero rather than about the mean.
        """
        quadratic = np.einsum("qi,qij,qj->q", models, self.grams, models, optimize=True)
        errors: Vector = self.squares - 2.0 * np.vecdot(models, self.moments) + quadratic
        return errors


def _centred(gram: Vector, moment: Vector, sums: Vector) -> tuple[Vector, Vector]:
    """Take the mean off sums of products: ``sum x x^T - s s^T / n``."""
    documents, gains, count = sums[..., :-2], sums[..., -2], sums[..., -1]
    mean = documents / count[..., None]
    return gram - documents[..., :, None] * mean[..., None, :], moment - mean * gains[..., None]


def _means(values: Vector, starts: Indices, lengths: Indices) -> Vector:
    """``[n_queries, ...]`` the mean of each query's rows; empty ones get zero."""
    filled = np.flatnonzero(lengths)
    means = np.zeros((len(lengths), *values.shape[1:]))
    if len(filled):
        sums = np.add.reduceat(values, starts[filled], axis=0)
        means[filled] = (sums.T / lengths[filled]).T
    return means
