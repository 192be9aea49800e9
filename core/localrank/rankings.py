r"""Two rankings of the same documents: how far they agree, and one list made of both.

How far two rankings of the same documents agree.

Arrays are ``[n_docs]``, position by position the same document: ``scores`` are what sorts them, ``ranks`` count from 0,
the best document's.

One list of results made from two rankings, so that one reader's clicks compare them.

Rankings are ``[n_docs]`` positions of the same documents, best first. The first ranking is the baseline's and the second
the candidate's. Only the first ``depth`` results are interleaved; the baseline's order follows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

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


#: The teams, as they are numbered in `Interleaved.teams`.
FIRST: Final = 0
SECOND: Final = 1


class Interleaved(NamedTuple):
    """A list made from two.

    Attributes:
        order: ``[n_docs]`` positions of all documents.
        teams: 0 or 1 for each of the first results, by the ranking that contributed it.
        ranks: of the same results in both rankings, from 0.
    """

    order: Indices
    teams: tuple[int, ...]
    ranks: tuple[tuple[int, int], ...]


def team_draft(first: Indices, second: Indices, depth: int, coins: Iterator[bool]) -> Interleaved:
    """Interleave by team draft [radlinski2008], algorithm 2.

    The team with fewer results, or the one that the coin chooses if both have as many, contributes the best document that
    its ranking still has. A click counts for the team whose result was clicked.

    Args:
        first: the baseline's ranking.
        second: the candidate's ranking.
        depth: how many results.
        coins: true if the baseline is next.
    """
    rankings = first.tolist(), second.tolist()
    places = [0, 0]
    taken: set[int] = set()
    order: list[int] = []
    teams: list[int] = []
    ahead = 0  # how many more results the baseline has
    while len(order) < min(depth, len(first)):
        team = FIRST if ahead < 0 or (ahead == 0 and next(coins)) else SECOND
        ahead += 1 if team == FIRST else -1
        ranking, place = rankings[team], places[team]
        while ranking[place] in taken:
            place += 1
        places[team] = place + 1
        taken.add(ranking[place])
        order.append(ranking[place])
        teams.append(team)
    return _completed(first, second, order, teams)


def balanced(first: Indices, second: Indices, depth: int, coins: Iterator[bool]) -> Interleaved:
    """Interleave so that each list of results holds the beginnings of both rankings [joachims2002] [radlinski2008].

    Algorithm 1 there: one coin decides which ranking is ahead when both are equally far. Clicks are compared by
    `balanced_preference`.

    Args:
        first: the baseline's ranking.
        second: the candidate's ranking.
        depth: how many results.
        coins: the first one is true if the baseline is ahead.
    """
    begins = next(coins)
    rankings = first.tolist(), second.tolist()
    places = [0, 0]
    taken: set[int] = set()
    order: list[int] = []
    teams: list[int] = []
    while len(order) < min(depth, len(first)):
        team = FIRST if places[0] < places[1] or (places[0] == places[1] and begins) else SECOND
        document = rankings[team][places[team]]
        places[team] += 1
        if document not in taken:
            taken.add(document)
            order.append(document)
            teams.append(team)
    return _completed(first, second, order, teams)


def _completed(first: Indices, second: Indices, order: list[int], teams: list[int]) -> Interleaved:
    """Return the results, followed by what the baseline has left."""
    ranks = np.stack([ranks_of(first)[order], ranks_of(second)[order]], axis=1).tolist()
    taken = np.zeros(len(first), bool)
    taken[order] = True
    whole = np.concatenate([np.array(order, np.intp), first[~taken[first]]]).astype(np.intp)
    return Interleaved(whole, tuple(teams), tuple((one, other) for one, other in ranks))


METHODS: Final = {"team_draft": team_draft, "balanced": balanced}


def team_preference(teams: Sequence[int | None], clicks: Collection[int]) -> int:
    """Return 1 if the candidate's results were clicked more often, -1 if the baseline's, 0 if neither.

    Args:
        teams: of the first results.
        clicks: ranks that were clicked, from 0; each counts once.
    """
    credited = [teams[rank] for rank in set(clicks) if rank < len(teams)]
    return _sign(credited.count(SECOND) - credited.count(FIRST))


def balanced_preference(ranks: Sequence[tuple[int, int]], clicks: Collection[int]) -> int:
    r"""Return 1 if the candidate has more of the clicked results near its top, -1 if the baseline has, 0 if neither.

    Definition [radlinski2008], section 4.1: the lowest clicked result was contributed by the first :math:`k` of one of the
    rankings, where :math:`k` is the smaller of its ranks in both. The ranking with more clicked results among its own first
    :math:`k` wins.

    Args:
        ranks: of the first results in both rankings, from 0.
        clicks: ranks that were clicked, from 0; each counts once.
    """
    clicked = [rank for rank in set(clicks) if rank < len(ranks)]
    if not clicked:
        return 0
    k = min(ranks[max(clicked)])
    return _sign(sum((ranks[rank][1] <= k) - (ranks[rank][0] <= k) for rank in clicked))


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)
