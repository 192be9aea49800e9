r"""How far two rankings of the same documents agree.

Arrays are ``[n_docs]``, position by position the same document: ``scores`` are what sorts them, ``ranks`` count from 0,
the best document's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector


def ranks_of(order: Indices) -> Indices:
    """Return the rank of each document, from 0; ``order`` are their positions, best first."""
    ranks = np.empty(len(order), np.intp)
    ranks[order] = np.arange(len(order))
    return ranks


def kendall_tau(first: Vector | Indices, second: Vector | Indices) -> float:
    r"""Return Kendall's tau-b of two lists of scores, NaN if all scores of a list are the same.

    Definition [kendall1945]:

    .. math:: \tau_b = \frac{C - D}{\sqrt{(N - T_1)(N - T_2)}}, \qquad N = \tfrac12 n (n - 1)

    with the numbers of pairs that both lists order alike (:math:`C`) and the opposite way (:math:`D`), and of pairs that the
    first list (:math:`T_1`) and the second (:math:`T_2`) do not order.

    Cost: :math:`O(n \log^2 n)`, because the pairs of :math:`D` are counted digit by digit.
    """
    x, y = _dense(first), _dense(second)
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    pairs = len(x) * (len(x) - 1) // 2
    in_first, in_second = _tied(x), _tied(y)
    in_both = _tied(x * (int(y.max(initial=0)) + 1) + y)
    ordered = (pairs - in_first) * (pairs - in_second)
    if not ordered:
        return math.nan
    discordant = _inversions(y)
    concordant = pairs - in_first - in_second + in_both - discordant
    # A product of two roots would not be 1 for two lists that agree.
    return (concordant - discordant) / math.sqrt(ordered)


def rank_biased_overlap(first: Indices, second: Indices, *, persistence: float = 0.9) -> float:
    r"""Return the rank-biased overlap of two rankings of the same documents, from 0 to 1.

    Definition [webber2010], equation 4, for a reader who goes on to the next rank with probability :math:`p`:

    .. math:: \mathrm{RBO} = (1 - p) \sum_{d=1}^{\infty} p^{d-1} \frac{X_d}{d}

    with :math:`X_d` documents among the first :math:`d` of both. Beyond the last rank both lists hold the same documents,
    so :math:`X_d / d = 1` there, and the sum of that part is :math:`p^n`. This equals their extrapolated form, equation
    32.

    Args:
        first: ranks from 0.
        second: ranks of the same documents.
        persistence: :math:`p`, above 0 and below 1.
    """
    n_docs = len(first)
    if not n_docs:
        return 1.0
    depths = np.arange(1, n_docs + 1)
    weights = persistence ** (depths - 1.0)
    agreement = _shared(first, second) / depths
    return float((1 - persistence) * (weights @ agreement) + persistence**n_docs)


def overlap(first: Indices, second: Indices, k: int) -> float:
    """Return the share of the first ``k`` documents that both rankings have in common; of all if there are fewer."""
    k = min(k, len(first))
    return 1.0 if not k else float(_shared(first, second)[k - 1] / k)


def _shared(first: Indices, second: Indices) -> Indices:
    """Return how many documents both rankings have among their first 1, 2, …."""
    found: Indices = np.cumsum(np.bincount(np.maximum(first, second), minlength=len(first))).astype(np.intp)
    return found


def _dense(scores: Vector | Indices) -> Indices:
    """Return the scores as whole numbers in the same order, from 0."""
    return np.unique(scores, return_inverse=True)[1].astype(np.intp)


def _tied(values: Indices) -> int:
    """Count the pairs of equal values."""
    counts = np.unique(values, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _inversions(values: Indices) -> int:
    """Count the pairs whose first value is greater; values are whole numbers from 0.

    Two values are told apart at the first binary digit in which they differ. So at each digit, from the highest, the pairs are
    counted among values that are alike in all higher digits, which stand together and in their given order.
    """
    found = 0
    for digit in reversed(range(int(values.max(initial=0)).bit_length())):
        ones = (values >> digit) & 1
        groups = values >> (digit + 1)
        before = np.cumsum(ones) - ones
        starts = np.concatenate(([True], groups[1:] != groups[:-1]))
        before -= before[starts][np.cumsum(starts) - 1]
        found += int(before[ones == 0].sum())
        values = values[np.argsort(values >> digit, kind="stable")]
    return found
