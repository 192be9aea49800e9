"""Rules of the business in a request: documents that come first, and what is added to scores.

The order is that of scores plus boosts; pinned documents then come first, in the order of the request. `shown` of the options cuts
the page out of it. Documents are named by their ids or, in a request without ids, by their positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from localrank.ranker import best_first
from localrank_service.http.problems import Problem, pointer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localrank.ranker import Ranking
    from localrank_service.wire.query import Documents, Options


class Ruled(NamedTuple):
    """What the rules of a request changed.

    Attributes:
        pinned: positions of the documents that come first, in their order.
        boosts: what was added to scores, by position.
        ranking: of the model alone.
    """

    pinned: tuple[int, ...]
    boosts: Mapping[int, float]
    ranking: Ranking

    def of(self, position: int) -> dict[str, Any]:
        """Return what an answer says of one document."""
        said: dict[str, Any] = {"pinned": True} if position in self.pinned else {}
        return said if (boost := self.boosts.get(position)) is None else {**said, "boost": boost}

    def said(self, positions: Iterable[int]) -> list[bytes]:
        """Return the same of many documents, as members that follow others."""
        few = {one: b"," + orjson.dumps(self.of(one))[1:-1] for one in {*self.pinned, *self.boosts}}
        return [few.get(position, b"") for position in positions]

    def named(self, documents: Documents) -> dict[str, Any]:
        """Return what was pinned and boosted, for an answer whose results have no room for it."""
        names = range(len(documents.matrix)) if documents.ids is None else documents.ids
        return {
            "pinned": [names[position] for position in self.pinned],
            "boosted": {str(names[position]): addend for position, addend in self.boosts.items()},
        }


def applied(ranking: Ranking, documents: Documents, options: Options) -> tuple[Ranking, Ruled]:
    """Return the ranking by the rules of the request, and what they changed.

    Raises:
        Problem: 422 where a rule names no document, or one twice.
    """
    known = _positions(documents)
    pinned = tuple(
        _found(known, one, pointer("pin", place), options) for place, one in enumerate(options.pin)
    )
    if len({*pinned}) < len(pinned):
        place = next(place for place, one in enumerate(pinned) if one in pinned[:place])
        raise _refused(f"pin names document {options.pin[place]!r} twice", pointer("pin", place), options)
    boosts = {
        _found(known, one, pointer("boost", one), options): float(addend)
        for one, addend in (options.boost or {}).items()
    }
    scores, order = ranking.scores, ranking.order
    if boosts:
        with np.errstate(over="ignore"):
            scores = scores.copy()
            scores[[*boosts]] += [*boosts.values()]
        if not np.isfinite(scores).all():
            raise _refused("boost: expected finite sums of scores and boosts", "/boost", options)
        order = best_first(scores)
    if pinned:
        is_pinned = np.zeros(len(order), bool)
        is_pinned[[*pinned]] = True
        order = np.concatenate([np.array(pinned, order.dtype), order[~is_pinned[order]]])
    return replace(ranking, order=order, scores=scores), Ruled(pinned, boosts, ranking)


def _positions(documents: Documents) -> dict[str, int]:
    """Return the position of each document by its name, -1 if several have it."""
    if documents.ids is None:
        return {str(position): position for position in range(len(documents.matrix))}
    known: dict[str, int] = {}
    for position, one in enumerate(documents.ids):
        if one is not None:
            name = str(one)
            known[name] = -1 if name in known else position
    return known


def _found(known: Mapping[str, int], name: str | int, at: str, options: Options) -> int:
    position = known.get(str(name))
    if position is None:
        raise _refused(f"no document of the request is {name!r}", at, options)
    if position < 0:
        raise _refused(f"several documents of the request are {name!r}; expected one", at, options)
    return position


def _refused(said: str, at: str, options: Options) -> Problem:
    return Problem(422, said, pointer=None if options.in_query_string else at)
