"""Interleaving: the published algorithms written out again, and what they promise, by trying every toss of the coin."""

from __future__ import annotations

from itertools import chain, combinations, cycle, permutations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank.rankings import FIRST, SECOND, balanced, balanced_preference, team_draft, team_preference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.arrays import Indices


def arrays(first: Sequence[int], second: Sequence[int]) -> tuple[Indices, Indices]:
    return np.array(first, np.int64), np.array(second, np.int64)


def published_team_draft(
    a: Sequence[int], b: Sequence[int], coins: Iterator[bool]
) -> tuple[list[int], list[int]]:
    """Radlinski et al. (2008), algorithm 2, line by line."""
    interleaved: list[int] = []
    team_a: set[int] = set()
    team_b: set[int] = set()
    while any(one not in interleaved for one in a) and any(one not in interleaved for one in b):
        if len(team_a) < len(team_b) or (len(team_a) == len(team_b) and next(coins)):
            k = min(i for i, one in enumerate(a) if one not in interleaved)
            interleaved.append(a[k])
            team_a.add(a[k])
        else:
            k = min(i for i, one in enumerate(b) if one not in interleaved)
            interleaved.append(b[k])
            team_b.add(b[k])
    return interleaved, [0 if one in team_a else 1 for one in interleaved]


def published_balanced(a: Sequence[int], b: Sequence[int], *, a_first: bool) -> list[int]:
    """Radlinski et al. (2008), algorithm 1, line by line; positions count from 1."""
    interleaved: list[int] = []
    k_a = k_b = 1
    while k_a <= len(a) and k_b <= len(b):
        if k_a < k_b or (k_a == k_b and a_first):
            if a[k_a - 1] not in interleaved:
                interleaved.append(a[k_a - 1])
            k_a += 1
        else:
            if b[k_b - 1] not in interleaved:
                interleaved.append(b[k_b - 1])
            k_b += 1
    return interleaved


@given(st.data())
def test_team_draft_is_the_published_algorithm(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    a, b = (data.draw(st.permutations(range(count))) for _ in range(2))
    coins = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    depth = data.draw(st.integers(1, 15))

    found = team_draft(*arrays(a, b), depth, iter(coins))

    order, teams = published_team_draft(a, b, iter(coins))
    first = min(depth, count)
    assert order[:first] == found.order[:first].tolist()
    assert teams[:first] == list(found.teams)
    assert [one for one in a if one not in order[:first]] == found.order[first:].tolist()
    assert [(a.index(one), b.index(one)) for one in order[:first]] == list(found.ranks)


@given(st.data())
def test_balanced_is_the_published_algorithm(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    a, b = (data.draw(st.permutations(range(count))) for _ in range(2))
    a_first = data.draw(st.booleans())
    depth = data.draw(st.integers(1, 15))

    found = balanced(*arrays(a, b), depth, iter([a_first]))

    first = min(depth, count)
    assert published_balanced(a, b, a_first=a_first)[:first] == found.order[:first].tolist()
    for top in range(1, len(found.teams) + 1):
        shown = set(found.order[:top].tolist())
        # The beginnings of both rankings, which differ in length by one at most.
        lengths = [next((k for k, one in enumerate(r) if one not in shown), len(r)) for r in (a, b)]
        assert any(
            set(a[:k]) | set(b[:j]) == shown
            for k, j in product(range(lengths[0] + 1), range(lengths[1] + 1))
            if abs(k - j) <= 1
        )


@pytest.mark.parametrize("clicks", list(chain.from_iterable(combinations(range(4), n) for n in range(1, 5))))
def test_team_draft_is_fair_to_both_whatever_ranks_are_clicked(clicks: tuple[int, ...]) -> None:
    """A user who looks at ranks alone prefers neither ranking, for every pair of rankings: all tosses are tried."""
    a = (0, 1, 2, 3)
    for b in permutations(range(4)):
        preferences = [
            team_preference(team_draft(*arrays(a, b), 4, cycle(coins)).teams, clicks)
            for coins in product([True, False], repeat=2)  # four results are two rounds
        ]

        assert 0 == sum(preferences), b


def test_balanced_prefers_one_of_two_rankings_that_are_only_shifted() -> None:
    """The example of Radlinski et al. (2008), section 4.1: a user who clicks one result at random favours the second."""
    a, b = arrays((0, 1, 2, 3), (1, 2, 3, 0))

    preferences = [
        balanced_preference(balanced(a, b, 4, iter([coin])).ranks, [click])
        for coin in (True, False)
        for click in range(4)
    ]

    assert (2, 0, 6) == tuple(map(preferences.count, (-1, 0, 1)))


def test_clicks_are_credited_as_published() -> None:
    ranks = [(0, 2), (1, 0), (2, 1), (3, 3)]

    # The lowest click is rank 2 there, in the first 2 of the second ranking (k = 1): one of A's first 2, both of B's.
    assert 1 == balanced_preference(ranks, [1, 2])
    assert -1 == balanced_preference(ranks, [0])
    assert 0 == balanced_preference(ranks, [3])
    assert 0 == balanced_preference(ranks, [])
    assert 0 == balanced_preference(ranks, [9])
    assert (1, -1, 0, 0) == tuple(team_preference([0, 1, 1, 0], c) for c in ([1], [0, 0], [0, 1], [7]))


def test_clicks_beyond_the_teams_are_of_neither() -> None:
    """A position that equals the number of results is the first beyond them."""
    assert 0 == team_preference([FIRST], [1])
    assert -1 == team_preference([FIRST, SECOND], [0, 0, 2, 9])
    assert 1 == team_preference([FIRST, SECOND], [1])
