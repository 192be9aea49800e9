r"""SVMmap: a linear scorer that maximises a bound on mean average precision [yue2007].

.. math::

    \min_w \; \tfrac12 \|w - w_0\|^2 + C \sum_q c_q \max_y \Big[ \Delta(y_q, y) -
        w \cdot \big(\Psi(q, y_q) - \Psi(q, y)\big) \Big], \qquad \Delta = 1 - AP

with the queries' weights :math:`c_q` scaled to add up to one (:math:`1/n` each in the paper), so that ``C`` means the
same for a cluster and for all queries, and a query of weight two is the same as that query twice. It is the 1-slack
form [joachims2009] of the paper's n-slack one: the same optimum, one cut per round for all queries together. :math:`w_0`
is zero in the paper, and the weights of ``Lesson.towards`` if there is one.

This is the learner of LocalRank's experiments (section 4.1.2), where ``C`` is called B.

Minimises a regularised convex loss that is only known through its cuts.

.. math:: \min_w \; P(w) = \tfrac12 \|w\|^2 + C\,H(w), \qquad H(w) = \max_y \; \big(L_y - w \cdot g_y\big) \ge 0

The maximum runs over far too many ``y`` to write down, but an oracle finds it at any ``w``. Each answer is a cut, a
line below ``H``. If the cuts so far replace ``H``, the minimum of ``P`` is a lower bound. The next point lies on the
way to this minimum [joachims2009]. Its dual is a quadratic programme over a simplex with one variable per cut.

What is returned is the best point seen, so its objective never rises, and the gap to the lower bound is a proof
of how good it is, whatever the solver of the programme did.

Average precision as the loss of a structural SVM: the worst ranking of each query.

For a query with ``R`` relevant and ``N`` other documents, Yue et al. (2007) describe a ranking by

.. math:: \Psi(y) = \frac{1}{RN} \sum_{k\,\text{relevant}} \sum_{j\,\text{not}} y_{kj}\,(x_k - x_j)

with :math:`y_{kj} = 1` where ``k`` stands before ``j`` and -1 where it does not. The loss is
:math:`\Delta(y) = 1 - AP(y)` [yue2007].

Only the *positions* of the relevant documents decide the loss, so within each group the best order is by score, and
a ranking is told by ``above[j]``, the number of relevant documents before the ``j``-th best other one. A rank's
gain or loss for ``j`` does not depend on the other documents' places (section 4 there), so every ``above[j]``
is one argmax over a row, and all rows of a batch of queries are one array operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from localrank.errors import InvalidData
from localrank.features.blocks import parse
from localrank.scorers import LinearScorer
from localrank.settings import setting
from localrank_training.learners.linear import Products
from localrank_training.learners.notes import note
from localrank_training.learners.role import Grid, Learner

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Indices, Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson

#: How many cells (query, other document, place) one batch may have: small enough for the cache, large enough
#: that numpy's calls cost less than their work.
_CELLS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Violation:
    r"""The ranking of each query that breaks its margin most.

    Attributes:
        coefficients: ``[n_docs]``, with which :math:`\Psi(y^*) - \Psi(\hat y) = X^T \text{coefficients}` query
            by query.
        losses: ``[n_queries]`` the loss :math:`1 - AP(\hat y)`.
        slacks: ``[n_queries]`` how far the margin is broken, :math:`\Delta(\hat y) - w \cdot (\Psi(y^*) -
            \Psi(\hat y)) \ge 0`.
    """

    coefficients: Vector
    losses: Vector
    slacks: Vector


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Queries of similar size, padded to one shape.

    Attributes:
        queries: ``[B]``.
        relevant: ``[B, R]`` places of the relevant documents in the sorted documents; padding repeats one.
        other: ``[B, N]`` the same of the others.
        n_relevant, n_other: ``[B, 1]``.
    """

    queries: Indices
    relevant: Indices
    other: Indices
    n_relevant: Indices
    n_other: Indices


class AveragePrecisionLoss:
    """Finds the most violated ranking of every query.

    Queries without a relevant or without any other document have one ranking only and therefore never a loss.
    """

    def __init__(self, queries: QuerySet, *, relevant: float = 1.0) -> None:
        self._query_of = queries.query_of
        self._relevant = queries.labels >= relevant
        n_docs, self.n_queries = queries.lengths, len(queries)
        self.n_relevant = np.bincount(self._query_of[self._relevant], minlength=self.n_queries)
        self.n_other = n_docs - self.n_relevant
        #: ``[n_queries]`` whether there is anything to learn from the query.
        self.usable = (self.n_relevant > 0) & (self.n_other > 0)
        # The relevant documents of a query come first in the sorted order, then the others.
        self._group = 2 * self._query_of + ~self._relevant
        self._begins = queries.offsets[:-1]
        self._batches = list(self._packed())
        self._places = _gain_of_place(
            int(self.n_other[self.usable].max(initial=0)), int(self.n_relevant[self.usable].max(initial=0))
        )

    def worst(self, scores: Vector) -> Violation:
        """Return the most violated ranking of every query under ``scores`` ``[n_docs]``.

        Cost: one sort of the documents and ``O(R N)`` array work per query.
        """
        order = np.lexsort((-scores, self._group))
        in_order = scores[order]
        sorted_coefficients = np.zeros(len(scores))
        losses = np.zeros(self.n_queries)
        for batch in self._batches:
            before = self._relevant_before(batch, in_order)
            losses[batch.queries] = self._fill(batch, before, sorted_coefficients)
        coefficients = np.empty(len(scores))
        coefficients[order] = sorted_coefficients
        gains = np.bincount(self._query_of, coefficients * scores, self.n_queries)
        return Violation(coefficients, losses, losses - gains)

    def _relevant_before(self, batch: _Batch, in_order: Vector) -> Indices:
        r"""``[B, N]`` how many relevant documents stand before each other document.

        For the ``j``-th other document the value of ``a`` relevant ones before it is, up to a constant,

        .. math:: \frac{1}{R} \sum_{k > a} \frac{k}{(k + j)(k + j - 1)} + \frac{2}{RN} \Big(\sum_{k \le a} s_k - a s_j\Big)
        """
        relevant, other = in_order[batch.relevant], in_order[batch.other]
        n, width = other.shape[1], relevant.shape[1] + 1
        before = np.zeros((len(relevant), width))
        np.cumsum(relevant, axis=1, out=before[:, 1:])
        before[np.arange(width) > batch.n_relevant] = -np.inf
        value = other[:, :, None] * -np.arange(width, dtype=np.float64)
        value += before[:, None, :]
        value *= (2.0 / batch.n_other)[:, :, None]
        value += self._places[None, :n, :width]
        # Monotone except for rounding: within its group, a worse document never stands before a better one.
        return np.maximum.accumulate(value.argmax(axis=2), axis=1)

    @staticmethod
    def _fill(batch: _Batch, before: Indices, coefficients: Vector) -> Vector:
        """Write the coefficients of the batch's documents, and return its losses."""
        size, n = before.shape
        width = batch.relevant.shape[1] + 1
        real = np.arange(n) < batch.n_other
        cells = (np.arange(size)[:, None] * width + before)[real]
        others_above = np.bincount(cells, minlength=size * width).reshape(size, width).cumsum(axis=1)[:, :-1]
        rank = np.arange(1, width)
        exists = rank <= batch.n_relevant
        unit = 2.0 / (batch.n_relevant * batch.n_other)
        coefficients[batch.relevant[exists]] = (others_above * unit)[exists]
        coefficients[batch.other[real]] = ((before - batch.n_relevant) * unit)[real]
        precisions = np.where(exists, rank / (rank + others_above), 0.0)
        losses: Vector = 1.0 - precisions.sum(axis=1) / batch.n_relevant[:, 0]
        return losses

    def _packed(self) -> list[_Batch]:
        """Batch the usable queries so that padding stays below half of the work."""
        chosen = np.flatnonzero(self.usable)
        chosen = chosen[np.lexsort((self.n_relevant[chosen], self.n_other[chosen]))]
        batches, start, work, tall, wide = [], 0, 0.0, 0.0, 0.0
        for end, query in enumerate(chosen):
            r, n = self.n_relevant[query] + 1, self.n_other[query]
            tall, wide, work = max(tall, n), max(wide, r), work + r * n
            cells = tall * wide * (end + 1 - start)
            if end > start and (cells > _CELLS or cells > 2 * work + 1024):
                batches.append(self._batch(chosen[start:end]))
                start, work, tall, wide = end, r * n, n, r
        if len(chosen):
            batches.append(self._batch(chosen[start:]))
        return batches

    def _batch(self, queries: Indices) -> _Batch:
        n_relevant, n_other = self.n_relevant[queries][:, None], self.n_other[queries][:, None]
        begins = self._begins[queries][:, None]
        relevant = begins + np.minimum(np.arange(n_relevant.max()), n_relevant - 1)
        other = begins + n_relevant + np.minimum(np.arange(n_other.max()), n_other - 1)
        return _Batch(queries, relevant.astype(np.int64), other.astype(np.int64), n_relevant, n_other)


def _gain_of_place(n_other: int, n_relevant: int) -> Vector:
    r"""``[n_other, n_relevant + 1]``, :math:`\sum_{k > a} \frac{k}{(k + j)(k + j - 1)}` for the ``j``-th other.

    The sum ends at ``n_relevant`` for every query; the additional terms are the same for every place.
    """
    j = np.arange(1, n_other + 1, dtype=np.float64)[:, None]
    k = np.arange(n_relevant, 0, -1, dtype=np.float64)
    places = np.zeros((n_other, n_relevant + 1))
    np.cumsum(k / ((k + j) * (k + j - 1)), axis=1, out=places[:, 1:])
    return np.ascontiguousarray(places[:, ::-1])


#: How far to go from the best point towards the minimum of the cuts.
_STRIDE = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class CutSolution:
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
) -> CutSolution:
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
    return CutSolution(best, objective, bound, tuple(objectives), tuple(bounds))


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


@dataclass(frozen=True, slots=True)
class SvmMap(Learner):
    """Learn a linear scorer by structural SVM on average precision."""

    C: float = setting(3.0, above=0.0, meaning="weight of the loss against the size of the weights")
    relevant: float = setting(1.0, meaning="lowest label that counts as relevant")
    tolerance: float = setting(
        1e-4,
        above=0.0,
        high=1.0,
        meaning="stop when the objective is proven to be within this share of its optimum",
    )
    max_cuts: int = setting(1000, low=1, meaning="stop after this many cutting planes in any case")
    blocks: str = setting("normalised", check=parse, meaning="blocks of features that are weighed")

    method: ClassVar[str] = "svmmap"
    grid: ClassVar[Grid] = {"C": (0.1, 1.0, 10.0, 100.0)}
    continues: ClassVar[bool] = True

    def fit(self, lesson: Lesson) -> LinearScorer:
        lesson.check(self.method)
        queries = lesson.queries
        towards = lesson.towards_weights(self.method, self.blocks)
        loss = AveragePrecisionLoss(queries, relevant=self.relevant)
        shares = np.where(loss.usable, lesson.shares, 0.0)
        if not shares.any():
            raise InvalidData(
                f"svmmap: expected a query with documents below and from label {self.relevant:g} on, found none "
                f"(labels {queries.labels.min():g} to {queries.labels.max():g}, {len(queries)} queries)"
            )
        shares /= shares.sum()
        documents = Products.of(queries.documents)
        document_shares = shares[queries.query_of]

        def oracle(apart: Vector) -> tuple[float, Vector]:
            """Return the cut at ``towards + apart`` as a line in ``apart``."""
            worst = loss.worst(documents.scores(towards + apart))
            direction = documents.combination(worst.coefficients * document_shares)
            return float(shares @ worst.losses - towards @ direction), direction

        solution = minimise(
            oracle,
            lesson.first_weights(towards) - towards,
            C=self.C,
            tolerance=self.tolerance,
            max_cuts=self.max_cuts,
        )
        left_out = int(len(queries) - loss.usable.sum())
        note(
            self.method,
            f"{solution.cuts} cuts, objective {solution.objective:.6g} proven within {solution.gap:.3g} of the optimum"
            + (f"; {left_out} of {len(queries)} queries have nothing to learn from" if left_out else ""),
            cuts=solution.cuts,
            objective=solution.objective,
            gap=solution.gap,
            queries_left_out=left_out,
        )
        return LinearScorer(towards + solution.weights, self.blocks)
