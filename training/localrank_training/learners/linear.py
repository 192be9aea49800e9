r"""A linear scorer by least squares on gains, in closed form.

.. math:: \min_w \; \sum_q \frac{c_q}{\sum c} \, \|L_q(y_q - X_q w)\|^2 + \rho \|w - w_0\|^2

With ``centre = "query"`` each query is centred on its own mean, so that only differences within a query count (ranking
least squares [pahikkala2009]); with ``"all"`` one mean serves all queries, which is ridge regression with an intercept.

Many models of the same queries cost little: each is a sum of small matrices and one Cholesky factorisation. For a query
with documents ``X`` ``[n, d]`` and gains ``y`` let ``L`` centre it, :math:`L = I - 11^T / n`. Then

.. math:: \|L(y - Xw)\|^2 = \frac{1}{n} \sum_{i < j} \big((y_i - y_j) - w \cdot (x_i - x_j)\big)^2

is ranking least squares over the query's pairs [pahikkala2009], and the normal equations of any weighting ``c`` of the
queries are sums over queries:

.. math:: \Big(\frac{\sum_q c_q G_q}{\sum_q c_q} + \rho I\Big) w = \frac{\sum_q c_q b_q}{\sum_q c_q},
    \qquad G_q = X_q^T L X_q, \quad b_q = X_q^T L y_q

`PerQueryMatrices` holds them, so the model of a cluster, of a query's neighbours, of soft memberships, or of all queries
but one costs no pass over the documents. Plain ridge regression, where one intercept serves all queries, is the same
with sums that are centred after they have been added.

Products with documents are in double precision, without a second copy of all documents in memory.

Shapes: ``d`` is ``n_features``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from localrank.features.blocks import parse
from localrank.features.columns import portions
from localrank.scorers import LinearScorer
from localrank.settings import setting
from localrank_training.learners.notes import note
from localrank_training.learners.role import Learner
from localrank_training.learners.signs import within_signs

if TYPE_CHECKING:
    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson

#: Numbers converted to double at a time.
BLOCK = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Documents to multiply with; converted once where they are few, else block by block each time.

    Attributes:
        documents: ``[n_docs, n_features]``.
    """

    documents: Matrix | Vector

    @classmethod
    def of(cls, documents: Matrix) -> Products:
        return cls(documents.astype(np.float64) if documents.size <= BLOCK else np.asarray(documents))

    def scores(self, weights: Vector) -> Vector:
        """Return ``documents @ weights``, ``[n_docs]``."""
        scores = np.empty(len(self.documents))
        for rows in portions(self.documents, BLOCK):
            scores[rows] = self.documents[rows].astype(np.float64, copy=False) @ weights
        return scores

    def combination(self, coefficients: Vector) -> Vector:
        """Return ``coefficients @ documents``, ``[n_features]``."""
        total = np.zeros(self.documents.shape[1])
        for rows in portions(self.documents, BLOCK):
            total += coefficients[rows] @ self.documents[rows].astype(np.float64, copy=False)
        return total


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

    def solve(self, ridge: float, towards: Vector | None = None, signs: Indices | None = None) -> Vector:
        """Return ``w`` ``[d]``, pulled towards zero or another ``w`` by ``ridge`` (positive).

        Args:
            ridge: how strongly.
            towards: ``[d]``, zero by default.
            signs: ``[d]`` that weights may have: 1, -1, or 0 for both.
        """
        d = len(self.gram)
        system = self.gram + ridge * np.eye(d)
        moment = self.moment if towards is None else self.moment + ridge * towards

        def minimise(free: Bits, _: Vector) -> Vector:
            weights = np.zeros(d)
            weights[free] = cho_solve(cho_factor(system[np.ix_(free, free)]), moment[free])
            return weights

        if signs is None or not signs.any():
            weights: Vector = cho_solve(cho_factor(system), moment)
            return weights
        scale = float(np.trace(system)) / d
        return within_signs(minimise, lambda weights: (system @ weights - moment) / scale, signs, np.zeros(d))


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


#: What ``ridge = "auto"`` chooses from, in units of the mean variance of a feature.
RIDGES = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
#: The ridge for a single query, because no query can be left out to choose it.
_UNCHOSEN = 0.3
#: More queries than these do not change the choice, only its cost.
_ENOUGH = 500


@dataclass(frozen=True, slots=True)
class LeastSquares(Learner):
    """Learn a linear scorer by regression on gains."""

    ridge: float | Literal["auto"] = setting(
        "auto",
        above=0.0,
        meaning="penalty that pulls the weights towards zero or towards given weights, in units of the mean "
        "variance of a feature; `auto` tries ten and takes the one with the least squared error on "
        "held-out queries",
    )
    centre: Centre = setting(
        "query", meaning="learn differences within each query, or have one intercept for all queries"
    )
    gain: Literal["label", "exponential"] = setting(
        "label", meaning="regress on the label itself, or on 2^label - 1"
    )
    balance: Literal["documents", "queries"] = setting(
        "documents",
        meaning="count every document the same, or every query, whatever its length and the variance of its gains",
    )
    blocks: str = setting("normalised", check=parse, meaning="blocks of features that are weighed")

    method: ClassVar[str] = "linear"
    continues: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    def fit(self, lesson: Lesson) -> LinearScorer:
        lesson.check(self.method)
        queries = lesson.queries
        shares = lesson.shares * self.counts(queries)
        towards = lesson.towards_weights(self.method, self.blocks)
        gains = self.gains(queries)
        equations = NormalEquations.of(queries, gains, weights=shares, centre=self.centre)
        if self.ridge == "auto":
            ridge = equations.ridge(
                choose_ridge(queries, gains, equations, shares, centre=self.centre, towards=towards)
            )
        else:
            ridge = equations.ridge(self.ridge)
        return LinearScorer(equations.solve(ridge, towards, lesson.signs), blocks=self.blocks)

    def gains(self, queries: QuerySet) -> Vector:
        """Return what is regressed on, ``[n_docs]``."""
        gains: Vector = queries.labels if self.gain == "label" else np.exp2(queries.labels) - 1
        if self.balance == "documents":
            return gains
        spreads = np.array(
            [
                gains[queries.span(query)].std() if length else 0.0
                for query, length in enumerate(queries.lengths)
            ]
        )
        scaled: Vector = gains / np.repeat(np.where(spreads > 0, spreads, 1.0), queries.lengths)
        return scaled

    def counts(self, queries: QuerySet) -> Vector:
        """Return how much each query counts by its length, ``[n_queries]``."""
        if self.balance == "documents":
            return np.ones(len(queries))
        return 1.0 / np.maximum(queries.lengths, 1)


def choose_ridge(
    queries: QuerySet,
    gains: Vector,
    equations: NormalEquations,
    weights: Vector,
    *,
    centre: Centre,
    towards: Vector | None = None,
) -> float:
    """Return the one of `RIDGES` whose models err least on the queries that were left out of them.

    The error is what `centre` "query" minimises, the squared error about each query's mean, in both cases: only that
    part of it changes an order.
    """
    counted = np.flatnonzero(weights)
    if len(counted) < 2:
        note(
            "linear",
            f"ridge {_UNCHOSEN:g}: there is only one query, so none can be held out to choose it",
            ridge=_UNCHOSEN,
        )
        return _UNCHOSEN
    chosen = counted[np.unique(np.linspace(0, len(counted) - 1, _ENOUGH).astype(np.int64))]
    some, shares = queries.select(chosen), weights[chosen]
    gains = gains[np.isin(queries.query_of, chosen)]
    matrices = PerQueryMatrices.of(some, gains, centre=centre)
    within = matrices if centre == "query" else PerQueryMatrices.of(some, gains)
    errors = [
        float(
            shares
            @ within.errors(matrices.leave_query_out(equations.ridge(relative), shares, towards=towards))
        )
        for relative in RIDGES
    ]
    best = RIDGES[int(np.argmin(errors))]
    note(
        "linear",
        f"ridge {best:g} has the least error on {len(chosen)} queries, each held out in turn",
        ridge=best,
    )
    return best
