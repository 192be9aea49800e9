"""One list of results made from two rankings, so that one reader's clicks compare them.

Rankings are ``[n_docs]`` positions of the same documents, best first. The first ranking is the baseline's and the second
the candidate's. Only the first ``depth`` results are interleaved; the baseline's order follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from localrank.agreement import ranks_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from localrank.arrays import Indices

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
