r"""GMML as a ranker: documents are near to one ideal document, in one geometric mean metric [su2017, algorithm 1].

.. math:: f(x) = -\|W(x - a)\|

The metric is described below. The anchor ``a`` is also used for queries without
judgements, so it is chosen on the training queries: the relevant document by whose nearness they are ranked best, or
the mean of the relevant documents.

The geometric mean metric: near where documents are alike, far where they differ, in closed form [zadeh2016].

Given the scatter ``S`` of differences within the relevant documents and the scatter ``D`` of differences between
relevant and other ones, the metric is the point at ``t`` on the geodesic from :math:`S^{-1}` to ``D``:

.. math:: M = S^{-1} \#_t D = S^{-1/2} (S^{1/2} D S^{1/2})^t S^{-1/2},

which for :math:`t = 1/2` minimises :math:`\mathrm{tr}(M S) + \mathrm{tr}(M^{-1} D)` and is the one positive solution of
:math:`M S M = D`. With :math:`S = L L^\top` (Cholesky) and :math:`L^\top D L = U \Lambda U^\top`,

.. math:: M = W^\top W, \qquad W = \Lambda^{t/2} U^\top L^{-1},

so no matrix is inverted, and a distance :math:`\|W(x - a)\|` is never the root of a negative number.

Sums over pairs need no pairs: with ``n`` documents of mean :math:`\mu`, :math:`\sum_{i<j} (x_i - x_j)(x_i - x_j)^\top =
n \sum_i (x_i - \mu)(x_i - \mu)^\top`.

Ideal candidate documents: the points that relevant documents are near to [su2017, section 3].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np
from scipy.linalg import solve_triangular

from localrank.errors import InvalidData
from localrank.features.blocks import parse
from localrank.metrics import Judgements, Metric
from localrank.scorers import AnchoredScorer
from localrank.settings import setting
from localrank_training.learners.notes import note
from localrank_training.learners.role import Grid, Learner

if TYPE_CHECKING:
    from localrank.arrays import Bits, Matrix, Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson


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


Anchor: TypeAlias = Literal["document", "mean", "origin"]
#: What it means, for people.
ANCHOR = (
    "the ideal: a relevant document, the mean of the relevant ones, or the origin, for documents that are differences from a "
    "query of the same space"
)

#: More queries than this only cost time; they find the same best document.
_ENOUGH = 300


def usable_queries(queries: QuerySet, relevant: float, shares: Vector, method: str) -> tuple[Bits, Vector]:
    """Return which documents are relevant, and the shares of the queries that have both kinds; the others get none.

    Raises:
        InvalidData: no query that counts has both, or none whose two kinds differ in a feature.
    """
    chosen = queries.labels >= relevant
    query_of = queries.query_of
    n_relevant = np.bincount(query_of[chosen], minlength=len(queries))
    usable = (n_relevant > 0) & (n_relevant < queries.lengths)
    counted = np.where(usable, shares, 0.0)
    if not counted.any():
        raise InvalidData(
            f"{method}: expected a query with documents below and from label {relevant:g} on, found none "
            f"(labels {queries.labels.min():g} to {queries.labels.max():g}, {len(queries)} queries)"
        )
    first = queries.documents[queries.offsets[:-1][query_of]] if queries.n_docs else queries.documents
    differs = np.bincount(query_of[(queries.documents != first).any(axis=1)], minlength=len(queries)) > 0
    counted[~differs] = 0.0
    if not counted.any():
        raise InvalidData(
            f"{method}: expected relevant and other documents of one query with different features, found none in "
            f"{np.count_nonzero(usable)} queries with both"
        )
    return chosen, counted / counted.sum()


def relevant_mean(queries: QuerySet, relevant: Bits, shares: Vector) -> Vector:
    """Return the mean over queries of the mean of their relevant documents, ``[n_features]``."""
    anchor = np.zeros(queries.n_features)
    for query in np.flatnonzero(shares).tolist():
        span = queries.span(query)
        anchor += shares[query] * queries.documents[span][relevant[span]].mean(axis=0, dtype=np.float64)
    return np.asarray(anchor / shares.sum(), np.float64)


def best_document(
    queries: QuerySet,
    relevant: Bits,
    shares: Vector,
    transform: Vector,
    *,
    metric: str,
    candidates: int,
    rng: np.random.Generator,
) -> tuple[Vector, float]:
    """Return the relevant document by whose nearness the queries are ranked best, and how well.

    Args:
        queries: judged queries.
        relevant: ``[n_docs]``.
        shares: ``[n_queries]`` how much each counts; none relevant and zero for those that do not.
        transform: ``[n_rows, n_features]``, the metric's ``W``.
        metric: what is measured, such as ``ndcg@10``.
        candidates: how many relevant documents are tried; drawn at random if there are more.
        rng: for drawing them, and queries if there are very many.
    """
    counted = np.flatnonzero(shares)
    if len(counted) > _ENOUGH:
        counted = np.sort(rng.choice(counted, _ENOUGH, replace=False))
    rows = np.isin(queries.query_of, counted)
    some, own = queries.select(counted), shares[counted] / shares[counted].sum()
    places = np.flatnonzero(relevant[rows])
    if len(places) > candidates:
        places = np.sort(rng.choice(places, candidates, replace=False))
    judgements = Judgements(some.labels, some.offsets)
    projected = some.documents @ transform.T
    values = np.empty(len(places))
    for number, place in enumerate(places):
        apart = projected - projected[place]
        values[number] = own @ judgements.per_query(-np.vecdot(apart, apart), metric)
    best = int(values.argmax())
    return some.documents[places[best]].astype(np.float64), float(values[best])


@dataclass(frozen=True, slots=True)
class GeometricMeanMetric(Learner):
    """Learn one geometric mean metric; documents score by nearness to an ideal one."""

    regularisation: float = setting(0.1, above=0, meaning="added to both scatters, whose mean variance is 1")
    t: float = setting(
        0.5,
        low=0,
        high=1,
        meaning="from the inverse scatter within relevant documents (0) to the scatter between relevant and other "
        "documents (1)",
    )
    relevant: float = setting(1.0, meaning="lowest label that counts as relevant")
    balance: float = setting(1.0, low=0, high=1, meaning="0 counts every pair the same, 1 every query")
    rank: int | None = setting(
        None, low=1, meaning="number of rows of the metric that are kept; all by default"
    )
    anchor: Anchor = setting("document", meaning=ANCHOR)
    metric: str = setting(
        "ndcg@10",
        check=Metric.parse,
        meaning="metric that the anchor document maximises on the training queries",
    )
    candidates: int = setting(
        200,
        low=1,
        meaning="number of documents tried as the anchor; if there are more, they are drawn at random",
    )
    seed: int = setting(0, low=0, meaning="seed for drawing the candidates")
    blocks: str = setting(
        "normalised", check=parse, meaning="blocks of features that distances are measured in"
    )

    method: ClassVar[str] = "gmml"
    grid: ClassVar[Grid] = {"t": (0.3, 0.5, 0.7, 0.9)}

    def fit(self, lesson: Lesson) -> AnchoredScorer:
        lesson.refuse_towards(self.method, "a geometric mean of two scatters cannot continue a third one")
        lesson.check(self.method)
        queries = lesson.queries
        relevant, shares = usable_queries(queries, self.relevant, lesson.shares, self.method)
        scatter = PairScatter.of(queries, relevant, shares, balance=self.balance)
        transform = reduced(
            metric_transform(scatter, regularisation=self.regularisation, t=self.t), self.rank
        )
        if self.anchor == "origin":
            anchor = np.zeros(queries.n_features)
        elif self.anchor == "mean":
            anchor = relevant_mean(queries, relevant, shares)
        else:
            anchor, value = best_document(
                queries,
                relevant,
                shares,
                transform,
                metric=self.metric,
                candidates=self.candidates,
                rng=np.random.default_rng(self.seed),
            )
            note(
                self.method,
                f"nearness to the anchor reaches {self.metric} {value:.4f} in training",
                value=value,
            )
        return AnchoredScorer(
            transform[None], (transform @ anchor)[None], np.ones(1), "distance", self.blocks
        )
