r"""R-MLR: a metric by structural SVM on rankings, with few features taking part [lim2013]; for comparison.

.. math::

    \min_{M \succeq 0} \; \|M\|_{2,1} + C \sum_q c_q \max_y \Big[\Delta(y_q, y) -
        \big\langle M, \Psi(q, y_q) - \Psi(q, y)\big\rangle \Big], \qquad
    \Psi(q, y) = \frac{1}{RN} \sum_{k\,\text{relevant}} \sum_{j\,\text{not}} y_{kj} \, (\phi_k - \phi_j)

with :math:`\phi_i = -(x_i - a)(x_i - a)^\top`, so that a document scores :math:`\langle M, \phi_i \rangle = -\|x_i -
a\|_M^2`, and :math:`\Delta = 1 - AP`. The score is linear in ``M``, so the most violated ranking is that of SVMmap
(`localrank_training.learners.svmmap`).

With the trace of ``M`` in the place of :math:`\|M\|_{2,1}` (``size = "trace"``) it is MLR [mcfee2010].

The paper retrieves what is near to a query that is a point of the same space. Judged queries have no such point; an
ideal document stands for it, as in `localrank_papers.learners.gmml`. If there are such points, give the documents as
differences from them, and ``anchor = "origin"``.

Minimises a loss known through its cuts over metrics that few features take part in [lim2013], or of small trace [mcfee2010].

.. math:: \min_{M \succeq 0} \; P(M) = \|M\|_{2,1} + C\,H(M), \qquad H(M) = \max_y \big(L_y - \langle M, G_y \rangle\big) \ge 0,

where :math:`\|M\|_{2,1}` adds up the lengths of the rows, so that features without use have rows of zeros. Each answer of
the oracle is a cut below ``H``. The minimum over the cuts seen so far is found by the alternating direction method of
multipliers, with a copy of ``M`` for each of the three parts [boyd2011]: one near the others that meets the cuts (a
quadratic programme with one variable per cut), one whose rows are shrunk, one that is positive semidefinite.

With cut weights :math:`\alpha \ge 0` of sum at most ``C``, any :math:`S \succeq 0` and any antisymmetric ``A`` such that
no row of :math:`\sum_y \alpha_y G_y + S + A` is longer than one, :math:`\alpha \cdot L` is a lower bound of ``P``: the
method's multipliers give all three, up to a factor that makes the rows short enough. What is returned is the best metric
seen, with that proof of how good it is.

With :math:`\mathrm{tr}\,M` in the place of :math:`\|M\|_{2,1}` the shrunk copy loses :math:`1/\rho` along its diagonal, and
:math:`\alpha \cdot L` is a lower bound if no eigenvalue of :math:`\sum_y \alpha_y G_y` is larger than one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np

from localrank.features.blocks import parse
from localrank.metrics import Metric
from localrank.scorers import AnchoredScorer
from localrank.settings import setting
from localrank_papers.learners.gmml import ANCHOR, Anchor, best_document, relevant_mean, usable_queries
from localrank_training.learners.notes import note
from localrank_training.learners.role import Grid, Learner
from localrank_training.learners.svmmap import AveragePrecisionLoss, best_of_simplex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localrank.arrays import Bits, Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson

#: What is small of a metric: the lengths of its rows, so that some are zero, or its trace.
Size: TypeAlias = Literal["rows", "trace"]

#: Rounds of the alternating directions for one set of cuts, at most.
_ROUNDS = 400
#: Loss that is rounding.
_FLAT = 1e-9
#: Rounds between two looks at the bounds.
_LOOK = 10


@dataclass(frozen=True, slots=True, eq=False)
class MetricSolution:
    """Where the search ended.

    Attributes:
        matrix: of the best metric seen, ``[d, d]`` symmetric, positive semidefinite.
        objective: its value.
        bound: no metric has a lower value than this.
        cuts: how many were made.
    """

    matrix: Vector
    objective: float
    bound: float
    cuts: int

    @property
    def gap(self) -> float:
        """How much better the optimum may still be."""
        return self.objective - self.bound


def minimise_metric(
    oracle: Callable[[Vector], tuple[float, Vector]],
    d: int,
    *,
    C: float,
    tolerance: float = 1e-2,
    max_cuts: int = 200,
    size: Size = "rows",
) -> MetricSolution:
    """Minimise ``P`` until the gap is at most ``tolerance`` of the objective, or ``max_cuts`` cuts are made.

    Args:
        oracle: from a metric to the ``(L, G)`` that attains ``H`` there; ``G`` is symmetric, ``[d, d]``.
        d: number of features.
        C: weight of the loss.
        tolerance: relative gap to stop at.
        max_cuts: a bound on the work.
        size: what is small of the metric.
    """
    point = best = np.zeros((d, d))
    objective, bound = np.inf, 0.0
    cuts = _Cuts.none(d)
    state = _State.start(d, C, size)
    while len(cuts.losses) <= max_cuts:
        loss, direction = oracle(point)
        value = _size_of(point, size) + C * max(0.0, loss - float(np.vdot(point, direction)))
        if value < objective:
            objective, best = float(value), point
        # A metric that is better than zero has a size of at most C times the loss of zero. If the cut is flat up to this
        # size, its direction counts as zero.
        flat = C * float(np.abs(direction).max()) < _FLAT
        cuts = cuts.with_one(loss, np.zeros((d, d)) if flat else direction)
        state = state.with_cut()
        point, lower = state.solve(cuts, C, 0.2 * tolerance)
        bound = max(bound, lower)
        if objective - bound <= tolerance * objective:
            break
    return MetricSolution(best, objective, bound, len(cuts.losses) - 1)


def row_lengths(matrix: Vector) -> Vector:
    """Return the lengths of the rows, ``[d]``."""
    return np.asarray(np.sqrt(np.vecdot(matrix, matrix)), np.float64)


def _size_of(matrix: Vector, size: Size) -> float:
    return float(np.trace(matrix) if size == "trace" else row_lengths(matrix).sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """The cuts seen; the first is ``H >= 0``.

    Attributes:
        directions: ``[n, d * d]``.
        losses: ``[n]``.
        gram: ``[n, n]`` their products.
    """

    directions: Vector
    losses: Vector
    gram: Vector

    @classmethod
    def none(cls, d: int) -> _Cuts:
        return cls(np.zeros((1, d * d)), np.zeros(1), np.zeros((1, 1)))

    def with_one(self, loss: float, direction: Vector) -> _Cuts:
        directions = np.vstack([self.directions, direction.reshape(-1)])
        gram = np.pad(self.gram, (0, 1))
        gram[-1] = gram[:, -1] = directions @ directions[-1]
        return _Cuts(directions, np.append(self.losses, loss), gram)

    def value(self, matrix: Vector) -> float:
        """Return the largest cut."""
        return float((self.losses - self.directions @ matrix.reshape(-1)).max())


@dataclass(slots=True, eq=False)
class _State:
    """Where the alternating directions stand, kept from one set of cuts to the next.

    Attributes:
        shares: ``[n]`` weights of the cuts, of sum ``C``.
        short: the copy whose rows are shrunk.
        positive: the copy that is positive semidefinite.
        of_short: its multiplier over the penalty.
        of_positive: its multiplier over the penalty.
        penalty: for the copies' being apart.
        size: what is small of the metric.
    """

    shares: Vector
    short: Vector
    positive: Vector
    of_short: Vector
    of_positive: Vector
    penalty: float = field(default=1.0)
    size: Size = "rows"

    @classmethod
    def start(cls, d: int, C: float, size: Size) -> _State:
        zero = np.zeros((d, d))
        return cls(np.array([C]), zero, zero, zero, zero, size=size)

    def with_cut(self) -> _State:
        self.shares = np.append(self.shares, 0.0)
        return self

    def solve(self, cuts: _Cuts, C: float, tolerance: float) -> tuple[Vector, float]:
        """Return the best metric found for these cuts, and a lower bound of the minimum."""
        best, value, bound = self.positive, np.inf, 0.0
        for turn in range(1, _ROUNDS + 1):
            moved = self._turn(cuts)
            if turn % _LOOK:
                continue
            # Near the optimum both copies are almost equal, but only ``short`` has rows of exact zeros.
            part = (row_lengths(self.short) > 0) | (self.size == "trace")
            matrix = self.positive * np.outer(part, part)
            found = _size_of(matrix, self.size) + C * cuts.value(matrix)
            if found < value:
                best, value = matrix, float(found)
            bound = max(bound, self._bound(cuts))
            if value - bound <= tolerance * value:
                break
            self._balance(moved)
        return best, bound

    def _turn(self, cuts: _Cuts) -> tuple[float, float]:
        """Move every copy once; return how far they are apart, and how far they moved."""
        rho, shape = self.penalty, self.short.shape
        middle = 0.5 * (self.short - self.of_short + self.positive - self.of_positive)
        losses = cuts.losses - cuts.directions @ middle.reshape(-1)
        self.shares = best_of_simplex(cuts.gram / (2 * rho), losses, self.shares)
        meeting = middle + (self.shares @ cuts.directions).reshape(shape) / (2 * rho)

        wanted = meeting + self.of_short
        short = wanted - np.eye(len(wanted)) / rho if self.size == "trace" else _shrunk(wanted, 1 / rho)
        self.of_short = wanted - short

        wanted = meeting + self.of_positive
        values, axes = np.linalg.eigh(0.5 * (wanted + wanted.T))
        positive = (axes * np.maximum(values, 0.0)) @ axes.T
        positive = 0.5 * (positive + positive.T)
        self.of_positive = wanted - positive

        apart = float(np.linalg.norm(meeting - short) + np.linalg.norm(meeting - positive))
        moved = float(rho * (np.linalg.norm(short - self.short) + np.linalg.norm(positive - self.positive)))
        self.short, self.positive = short, positive
        return apart, moved

    def _bound(self, cuts: _Cuts) -> float:
        if self.size == "trace":
            direction = (self.shares @ cuts.directions).reshape(self.short.shape)
            largest = float(np.linalg.eigvalsh(0.5 * (direction + direction.T))[-1])
            return float(self.shares @ cuts.losses) / max(1.0, largest)
        multiplier = -self.penalty * self.of_positive
        even, odd = 0.5 * (multiplier + multiplier.T), 0.5 * (multiplier - multiplier.T)
        values, axes = np.linalg.eigh(even)
        slack = (axes * np.maximum(values, 0.0)) @ axes.T + odd
        rows = row_lengths((self.shares @ cuts.directions).reshape(slack.shape) + slack)
        return float(self.shares @ cuts.losses) / max(1.0, float(rows.max()))

    def _balance(self, moved: tuple[float, float]) -> None:
        """Set the penalty so that neither residual lags far behind the other."""
        apart, changed = moved
        factor = 2.0 if apart > 5 * changed else 0.5 if changed > 5 * apart else 1.0
        self.penalty *= factor
        self.of_short = self.of_short / factor
        self.of_positive = self.of_positive / factor


def _shrunk(matrix: Vector, by: float) -> Vector:
    """Return a matrix whose rows are so much shorter."""
    lengths = row_lengths(matrix)
    return np.asarray(
        matrix * (np.maximum(lengths - by, 0.0) / np.maximum(lengths, 1e-300))[:, None], np.float64
    )


#: Documents that are worked on at a time.
_PORTION = 1 << 14


@dataclass(frozen=True, slots=True)
class RobustMetric(Learner):
    """Learn one metric that few features take part in; documents score by nearness to an ideal one."""

    C: float = setting(
        100.0,
        above=0,
        meaning="weight of the loss against the size of the metric, for a mean squared distance of 1",
    )
    relevant: float = setting(1.0, meaning="lowest label that counts as relevant")
    size: Size = setting(
        "rows",
        meaning="how the size of the metric is measured: by the lengths of its rows, so that few features take "
        "part (R-MLR), or by its trace (MLR)",
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
    tolerance: float = setting(
        1e-3,
        above=0,
        high=1,
        meaning="stop when the objective is proven to be within this share of its optimum",
    )
    max_cuts: int = setting(500, low=1, meaning="stop after this many cutting planes in any case")
    seed: int = setting(0, low=0, meaning="seed for drawing the candidates")
    blocks: str = setting(
        "normalised", check=parse, meaning="blocks of features that distances are measured in"
    )

    method: ClassVar[str] = "rmlr"
    grid: ClassVar[Grid] = {"C": (10.0, 100.0, 1000.0)}

    def fit(self, lesson: Lesson) -> AnchoredScorer:
        lesson.refuse_towards(self.method, "metrics around different anchors cannot be compared")
        lesson.check(self.method)
        queries = lesson.queries
        relevant, shares = usable_queries(queries, self.relevant, lesson.shares, self.method)
        anchor = self._anchor(queries, relevant, shares)
        trained = np.flatnonzero(shares)
        some, own = queries.select(trained), shares[trained]
        document_shares = own[some.query_of]
        # By the largest difference first, so that no square overflows or vanishes.
        extent = max(float(np.abs(apart).max()) for _, apart in _differences(some, anchor, 1.0)) or 1.0
        squares = sum(
            float((document_shares / some.lengths[some.query_of])[part] @ np.vecdot(apart, apart))
            for part, apart in _differences(some, anchor, extent)
        )
        scale = extent * (np.sqrt(squares) or 1.0)
        loss = AveragePrecisionLoss(some, relevant=self.relevant)

        def oracle(matrix: Vector) -> tuple[float, Vector]:
            scores, direction = np.empty(some.n_docs), np.zeros_like(matrix)
            for part, apart in _differences(some, anchor, scale):
                scores[part] = -np.vecdot(apart @ matrix, apart)
            worst = loss.worst(scores)
            counts = worst.coefficients * document_shares
            for part, apart in _differences(some, anchor, scale):
                direction -= (apart.T * counts[part]) @ apart
            return float(own @ worst.losses), 0.5 * (direction + direction.T)

        solution = minimise_metric(
            oracle,
            queries.n_features,
            C=self.C,
            tolerance=self.tolerance,
            max_cuts=self.max_cuts,
            size=self.size,
        )
        features = int(np.count_nonzero(row_lengths(solution.matrix)))
        note(
            self.method,
            f"{solution.cuts} cuts, objective {solution.objective:.6g} proven within {solution.gap:.3g} of the "
            f"optimum; {features} of {queries.n_features} features take part"
            + ("" if features else ": C is too small, so documents are ranked by their Euclidean distance"),
            cuts=solution.cuts,
            objective=solution.objective,
            gap=solution.gap,
            features=features,
        )
        matrix = solution.matrix if features else np.eye(queries.n_features)
        transform = _root(matrix) / scale
        return AnchoredScorer(
            transform[None], (transform @ anchor)[None], np.ones(1), "distance", self.blocks
        )

    def _anchor(self, queries: QuerySet, relevant: Bits, shares: Vector) -> Vector:
        if self.anchor == "origin":
            return np.zeros(queries.n_features)
        if self.anchor == "mean":
            return relevant_mean(queries, relevant, shares)
        anchor, _ = best_document(
            queries,
            relevant,
            shares,
            np.eye(queries.n_features),
            metric=self.metric,
            candidates=self.candidates,
            rng=np.random.default_rng(self.seed),
        )
        return anchor


def _differences(queries: QuerySet, anchor: Vector, scale: float) -> Iterator[tuple[slice, Vector]]:
    """Yield portions of the documents and how far they are from the anchor, over a scale; all at once take much memory."""
    for begin in range(0, queries.n_docs, _PORTION):
        part = slice(begin, begin + _PORTION)
        yield part, (queries.documents[part] - anchor) / scale


def _root(matrix: Vector) -> Vector:
    """Return the ``W`` of a metric that is not zero: a row for each direction that it does not ignore."""
    used = np.flatnonzero(row_lengths(matrix))
    # Features without a part are left out, or rounding would give them one.
    values, axes = np.linalg.eigh(matrix[np.ix_(used, used)])
    kept = values > 1e-12 * values[-1]
    root = np.zeros((np.count_nonzero(kept), len(matrix)))
    root[:, used] = np.sqrt(values[kept])[:, None] * axes[:, kept].T
    return root
