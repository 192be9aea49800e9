"""The ranked documents of an answer, as JSON text.

It is joined from texts that are the same in every answer, except for scores and ids. Objects for each document and a
serialiser would take twice as long and would start the garbage collector.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.ranker import Ranking


class _Numbered:
    """``template % number`` for all numbers from ``first`` on, made once."""

    def __init__(self, template: bytes, first: int) -> None:
        self._template = template
        self._first = first
        self._texts: list[bytes] = []

    def most(self, count: int) -> list[bytes]:
        """Return ``count`` texts at least."""
        if len(self._texts) < count:
            # A new list, so that no other thread sees it half filled.
            numbers = range(self._first, self._first + max(count, 2 * len(self._texts)))
            self._texts = [self._template % number for number in numbers]
        return self._texts


_RANKS = _Numbered(b'},{"rank":%d,"index":', 1)
_INDICES = _Numbered(b"%d", 0)


def results(
    ranking: Ranking,
    ids: Sequence[str | int | None] | None,
    top_n: int | None,
    teams: Sequence[str | None] | None = None,
) -> bytes:
    """Return the JSON array of the best documents: rank, index, id if there are any, score, and team if there are any."""
    order = ranking.order if top_n is None else ranking.order[:top_n]
    count = len(order)
    if not count:
        return b"[]"
    indices = order.tolist()
    texts = _INDICES.most(len(ranking.order))
    parts = [b',"score":'] * ((4 if ids is None else 6) * count)
    width = len(parts) // count
    parts[0::width] = _RANKS.most(count)[:count]
    parts[1::width] = [texts[index] for index in indices]
    if ids is not None:
        parts[2::width] = [b',"id":'] * count
        parts[3::width] = [orjson.dumps(ids[index]) for index in indices]
    # Numbers hold no comma.
    scores = orjson.dumps(ranking.scores[order].tolist())[1:-1].split(b",")
    if teams is not None:
        named = map(orjson.dumps, chain(teams, repeat(None)))
        scores = [score + b',"team":' + team for score, team in zip(scores, named, strict=False)]
    parts[width - 1 :: width] = scores
    parts[0] = parts[0][2:]
    return b"".join([b"[", *parts, b"}]"])
