r"""Average precision as the loss of a structural SVM: the worst ranking of each query.

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
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank_training.data.queries import QuerySet

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
