"""What the answers of all wires are made from: the ranking, what to warn of, and how long each stage took.

The documents of an answer are joined from texts that are the same in every answer, except for scores and ids. Objects for
each document and a serialiser would take twice as long and would start the garbage collector.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from localrank_service.wire.relevance import relevance_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.ladder import Degraded
    from localrank.ranker import Ranker, Ranking
    from localrank.routing.route import Route
    from localrank_service.wire.query import Documents, Options
    from localrank_service.wire.rules import Ruled

#: The arms of an experiment. The first two are also its teams.
BASELINE, CANDIDATE, INTERLEAVED = "baseline", "candidate", "interleaved"


class Part(NamedTuple):
    """The part that a request took in an experiment.

    Attributes:
        experiment: its name.
        arm: ``baseline``, ``candidate`` or ``interleaved``.
        unit: what was drawn for: the session, the query or the request, as text.
        share: the probability with which ``unit`` gets the arm ``candidate``, or is interleaved.
        teams: which version each of the first results is from, if they are interleaved; ``None`` of one that is from both.
            Pinned documents are left out.
        ranks: the ranks that the two versions gave each of these results, the baseline's first.
    """

    experiment: str
    arm: str
    unit: str
    share: float
    teams: tuple[str | None, ...] | None = None
    ranks: tuple[tuple[int, int], ...] | None = None

    def answer(self) -> dict[str, Any]:
        """Return what a caller is told."""
        return {"name": self.experiment, "arm": self.arm}

    def record(self) -> dict[str, Any]:
        """Return what the impression log holds, which is all that an analysis needs."""
        members: dict[str, Any] = {**self.answer(), "unit": self.unit, "share": self.share}
        if self.teams is not None:
            members |= {"teams": self.teams, "ranks": self.ranks}
        return members


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """One query, answered.

    Attributes:
        name: of the model that ranked it, with its version.
        explanation: of the route, if the request asked for it.
        out_of_range: how many values are out of the training range.
        degraded: which cheaper way of ranking answered, if one did.
        experiment: the part that the query took in one, if it did.
        ruled: what the rules of the request changed, if it has any.
        placed: the query was signed only to be compared with the map: the kind that it is like, ``(None,)`` if it cannot be
            compared.
    """

    name: str
    version: int
    ranker: Ranker
    options: Options
    documents: Documents
    ranking: Ranking
    explanation: dict[str, Any] | None
    out_of_range: int
    degraded: Degraded | None = None
    experiment: Part | None = None
    ruled: Ruled | None = None
    placed: tuple[int | None] | None = None

    @property
    def teams(self) -> tuple[str | None, ...] | None:
        """Whose each of the first results is, if two versions' rankings are interleaved; a pinned document is of neither."""
        teams = None if self.experiment is None else self.experiment.teams
        return teams if teams is None or self.ruled is None else (*(None for _ in self.ruled.pinned), *teams)


def route_members(route: Route) -> dict[str, Any]:
    """Return the route as the answer shows it.

    ``local`` and ``shares`` are left out of the route of a query that the scorer of one cluster, or by ``cluster`` the
    global scorer, answers: most routes.
    """
    members: dict[str, Any] = {
        "strategy": route.strategy,
        "cluster": route.cluster,
        "similarity": route.similarity,
        "margin": route.margin,
        "candidates": route.candidates,
        "fallback": route.fallback,
    }
    if not route.local and (route.cluster is not None or route.shares):
        members["local"] = False
    if route.shares:
        members["shares"] = route.shares
    return members


def experiment_members(ranked: Ranked, shown: int) -> dict[str, Any]:
    """Return the part in an experiment, if there is one, for an answer whose results have no room for their teams."""
    part = ranked.experiment
    if part is None:
        return {}
    members = part.answer()
    if (teams := ranked.teams) is not None:
        members["teams"] = [*teams[:shown], *([None] * (shown - len(teams)))]
    return {"experiment": members}


def table_members(ranked: Ranked) -> dict[str, Any]:
    """Return the generations of the tables in which the documents were looked up, if they were."""
    generations = ranked.documents.generations
    return {"tables": generations} if generations else {}


def warnings_of(ranked: Ranked, most: int | None = None) -> list[dict[str, Any]]:
    """Return what the caller should know although the request was answered; the last says how many are left out."""
    imputed, ignored, contract = ranked.ranking.imputed, ranked.documents.ignored, ranked.ranker.contract
    unseen = contract.unseen(ranked.documents.matrix) if contract.categories else {}
    unknown = ranked.documents.unknown
    if not imputed and not ignored and not unseen and not unknown:
        return []
    names = contract.names
    every = chain(
        (("id_unknown", table, count) for table, count in unknown.items()),
        (("feature_imputed", names[feature], count) for feature, count in imputed.items()),
        (("feature_ignored", name, count) for name, count in ignored.items()),
        (("value_unseen", names[feature], count) for feature, count in unseen.items()),
    )
    found = [
        {"code": code, "feature": feature, "count": count} for code, feature, count in islice(every, most)
    ]
    if omitted := len(unknown) + len(imputed) + len(ignored) + len(unseen) - len(found):
        found.append({"code": "warnings_omitted", "feature": "", "count": omitted})
    return found


def server_timing(milliseconds: Mapping[str, float]) -> str:
    """Return the value of the ``Server-Timing`` header."""
    # A list, because a generator is entered once for each.
    return ", ".join([f"{name};dur={elapsed:g}" for name, elapsed in milliseconds.items()])


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
_INDICES, _BEFORE_ID = _Numbered(b"%d", 0), _Numbered(b'%d,"id":', 0)


def results(ranked: Ranked) -> bytes:
    """Return the JSON array of the best documents.

    Each has rank, index, id if there are any, score, relevance if that is asked for, what the rules of the request did, team
    if there are any, and the document if that is asked for.
    """
    ranking, ids, first = ranked.ranking, ranked.documents.ids, ranked.options.offset
    order = ranked.options.shown(ranking.order)
    count = len(order)
    if not count:
        return b"[]"
    indices = order.tolist()
    texts = (_INDICES if ids is None else _BEFORE_ID).most(len(ranking.order))
    width = 4 if ids is None else 5
    parts = [b',"score":'] * (width * count)
    parts[0::width] = _RANKS.most(first + count)[first : first + count]
    parts[1::width] = map(texts.__getitem__, indices)
    if ids is not None:
        shown = list(map(ids.__getitem__, indices))
        written = orjson.dumps(shown)[1:-1].split(b",")
        # More pieces than ids if one of them holds a comma.
        parts[2::width] = written if len(written) == count else map(orjson.dumps, shown)
    # Numbers hold no comma.
    scores = orjson.dumps(ranking.scores[order], option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
    if ranked.options.relevance is not None:
        # Clients read a double: 1.0, never 1.
        relevance = orjson.dumps(relevance_of(ranked).tolist())[1:-1].split(b",")
        scores = [one + b',"relevance_score":' + other for one, other in zip(scores, relevance, strict=True)]
    if ranked.ruled is not None:
        scores = [score + said for score, said in zip(scores, ranked.ruled.said(indices), strict=True)]
    if (teams := ranked.teams) is not None:
        named = map(orjson.dumps, chain(teams, repeat(None)))
        scores = [score + b',"team":' + team for score, team in zip(scores, named, strict=False)]
    if (sent := ranked.documents.sent) is not None:
        scores = [one + b',"document":' + sent[at] for one, at in zip(scores, indices, strict=True)]
    parts[width - 1 :: width] = scores
    parts[0] = parts[0][2:]
    return b"".join([b"[", *parts, b"}]"])
