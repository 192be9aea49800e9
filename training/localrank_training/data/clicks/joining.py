r"""Impressions and feedback of a service's log, joined into judged queries.

Each impression becomes a query, each document of it that was shown a row. A grade is a label; without a grade, a click
is one; the rest is 0 or left out. Impressions that nobody judged are left out.

With propensities, clicks are corrected for the places at which documents were shown, by inverse propensity weights
[joachims2017]_: each click becomes a query of its own, in which the clicked document is better than all others, and which counts

.. math:: w = \min(1 / \theta_k, \text{max weight})

for a click at place :math:`k`. Other clicked documents of the list are left out of this query; they get queries of
their own. So the pairs that a learner sees have, on average, the same weights as if users looked at every place. A
greater ``max weight`` has less bias and more variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from localrank.errors import InvalidData
from localrank.features.feature import Feature, special
from localrank_training.data.clicks.propensities import Tally
from localrank_training.data.queries import QuerySet, default_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.journal import Logged
    from localrank_training.data.clicks.propensities import Propensities

#: What becomes of documents that were shown and not judged.
Rest: TypeAlias = Literal["zero", "drop"]


@dataclass(frozen=True, slots=True)
class Which:
    """The impressions of a log that are used.

    Attributes:
        model: that ranked them; None means any model.
        since: the earliest time of an answer, in seconds since 1970.
        until: from this time on they are left out.
    """

    model: str | None = None
    since: float = -math.inf
    until: float = math.inf

    def __contains__(self, impression: dict[str, Any]) -> bool:
        return self.model in {None, impression["model"]} and self.since <= impression["time"] < self.until


#: Every impression of a log.
ALL: Final = Which()


@dataclass(slots=True)
class Joined:
    """The judged queries, and what became of the records.

    Attributes:
        impressions: read, without repeated ones.
        repeated: impressions of a request that had an impression before.
        unjudged: impressions without feedback.
        events: of feedback, without repeated ones.
        repeated_events: events with the name of an earlier event.
        unmatched: events of requests that are not in the log, or of documents that they did not have.
        unplaced: clicks that propensities cannot correct, because the document was not shown.
        degraded: impressions that a cheaper ranking answered; they are used as any other.
        clicks: documents with a click and no grade.
        grades: documents with a grade.
        unseen: values of categories that the model did not know, which the log does not hold; they are missing.
    """

    queries: QuerySet
    impressions: int = 0
    repeated: int = 0
    unjudged: int = 0
    events: int = 0
    repeated_events: int = 0
    unmatched: int = 0
    unplaced: int = 0
    degraded: int = 0
    clicks: int = 0
    grades: int = 0
    unseen: int = 0


class _Key(NamedTuple):
    request_id: str
    query: int


@dataclass(slots=True)
class _ImpressionFeedback:
    """What was said of the documents of one impression, by id or position."""

    clicks: set[tuple[str, Any]] = field(default_factory=set)
    grades: dict[tuple[str, Any], tuple[float, float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.clicks) + len(self.grades)


#: Most impressions have no feedback.
_NOTHING_SAID: Final = _ImpressionFeedback()


class JudgedImpression(NamedTuple):
    """One impression with what was said of its documents.

    Attributes:
        impression: as it was logged.
        places: ``[n_docs]`` from 1; 0 is not shown.
        clicked: positions of the documents that were clicked.
        grades: by position.
    """

    impression: dict[str, Any]
    places: Indices
    clicked: set[int]
    grades: dict[int, float]


class _Feedback:
    """The feedback to the impressions of a log. A service logs all feedback, and only a share of the impressions."""

    def __init__(self, logged: Logged) -> None:
        self.events = self.repeated = self.unmatched = 0
        self.said = {_Key(one["request_id"], one["query"]): _NOTHING_SAID for one in logged.impressions()}
        seen: set[str | int] = set()
        for event in logged.feedback():
            key = _Key(event["request_id"], event["query"])
            said = self.said.get(key)
            if said is None:
                self.events += 1
                self.unmatched += 1
                continue
            name = event["event_id"]
            if name is not None:
                if name in seen:
                    self.repeated += 1
                    continue
                seen.add(name)
            self.events += 1
            if said is _NOTHING_SAID:
                said = self.said[key] = _ImpressionFeedback()
            document = ("id", event["id"]) if event.get("id") is not None else ("index", event["index"])
            if event["click"]:
                said.clicks.add(document)
            elif (before := said.grades.get(document)) is None or before[0] <= event["time"]:
                said.grades[document] = event["time"], float(event["grade"])

    def judge(self, key: _Key, impression: dict[str, Any]) -> tuple[JudgedImpression, int]:
        """Return the impression with its judgements, and how many of them are of documents that it does not have."""
        order, n_documents = impression["order"], len(impression["order"])
        places = np.zeros(n_documents, np.int64)
        begin = impression["offset"]
        end = begin + impression["shown"]
        places[order[begin:end]] = np.arange(begin + 1, end + 1)
        said = self.said.get(key, _NOTHING_SAID)
        if not said:
            return JudgedImpression(impression, places, set(), {}), 0
        found = {("index", position): position for position in range(n_documents)}
        for position in range(n_documents - 1, -1, -1):
            if impression["ids"] is not None:
                found["id", impression["ids"][position]] = position
        clicked = {found[one] for one in said.clicks if one in found}
        latest: dict[int, tuple[float, float]] = {}
        for one, graded in said.grades.items():
            if one in found and latest.get(found[one], graded)[0] <= graded[0]:
                latest[found[one]] = graded
        lacking = sum(one not in found for one in (*said.clicks, *said.grades))
        return JudgedImpression(
            impression, places, clicked, {one: grade for one, (_, grade) in latest.items()}
        ), lacking


def _judged(logged: Logged, which: Which, joined: Joined, feedback: _Feedback) -> Iterator[JudgedImpression]:
    """Yield every impression once, with its judgements; count on the way."""
    seen: set[_Key] = set()
    for impression in logged.impressions():
        if impression not in which:
            continue
        key = _Key(impression["request_id"], impression["query"])
        if key in seen:
            joined.repeated += 1
            continue
        seen.add(key)
        joined.impressions += 1
        joined.degraded += impression["degraded"] is not None
        judged, lacking = feedback.judge(key, impression)
        joined.unmatched += lacking
        yield judged
    joined.unmatched += feedback.unmatched


def judged(logged: Logged, *, which: Which = ALL) -> Iterator[JudgedImpression]:
    """Yield every impression once, with what was said of its documents."""
    yield from _judged(logged, which, Joined(_nothing()), _Feedback(logged))


def tally(logged: Logged, *, which: Which = ALL) -> Tally:
    """Count how often each document of each query was shown and clicked at each place.

    Queries without `query_id` cannot be found again and are left out. Documents without id are known by their features.
    """
    found = Tally()
    for judged in _judged(logged, which, Joined(_nothing()), _Feedback(logged)):
        impression = judged.impression
        query, ids = impression["query_id"], impression["ids"]
        if query is None:
            continue
        for position in np.flatnonzero(judged.places).tolist():
            document = None if ids is None else ids[position]
            if document is None:
                document = impression["features"][position].tobytes()
            pair = impression["model"], query, document
            found.add(pair, int(judged.places[position]), clicked=position in judged.clicked)
    return found


def join(
    logged: Logged,
    *,
    which: Which = ALL,
    rest: Rest = "zero",
    click_label: float = 1.0,
    propensities: Propensities | None = None,
    max_weight: float = 10.0,
) -> Joined:
    """Return judged queries.

    Args:
        logged: the log.
        which: impressions are used.
        rest: what becomes of documents that were shown and not judged.
        click_label: of documents that were clicked and not graded.
        propensities: by which clicks are corrected; without them each impression is one query, all of weight 1.
        max_weight: of a query.

    Raises:
        InvalidData: there is nothing to export, or the impressions have different features.
    """
    joined = Joined(_nothing())
    parts = _Parts(logged)
    for judged in _judged(logged, which, joined, feedback := _Feedback(logged)):
        clicks = judged.clicked - judged.grades.keys()
        if not clicks and not judged.grades:
            joined.unjudged += 1
            continue
        joined.clicks += len(clicks)
        joined.grades += len(judged.grades)
        impression = judged.impression
        name = impression["request_id"] + (f"/{impression['query']}" if impression["query"] else "")
        shown = [position for position in impression["order"].tolist() if judged.places[position]]
        if propensities is None or judged.grades:
            labels = dict.fromkeys(clicks, click_label) | judged.grades
            # Judged documents that were not in the answer are kept: somebody has seen them.
            rows = [one for one in shown if rest == "zero" or one in labels]
            rows += sorted(one for one in labels if not judged.places[one])
            parts.add(judged, name, rows, [labels.get(one, 0.0) for one in rows], 1.0)
            continue
        joined.unplaced += sum(not judged.places[one] for one in clicks)
        seen = shown if rest == "zero" else [one for one in shown if one in clicks]
        for position, place, rows, weight in corrected(seen, clicks, judged.places, propensities, max_weight):
            labels_of = [click_label if one == position else 0.0 for one in rows]
            parts.add(judged, f"{name}:{place}", rows, labels_of, weight)
    joined.events, joined.repeated_events = feedback.events, feedback.repeated
    if not parts.lengths:
        raise InvalidData(
            f"the log has {joined.impressions} impressions and {joined.events} events of feedback, but no "
            "judged query: expected an impression with a click or a grade, found none"
        )
    joined.queries, joined.unseen = parts.queries(weighted=propensities is not None), parts.unseen
    return joined


def corrected(
    shown: Sequence[int],
    clicked: Collection[int],
    places: Indices,
    propensities: Propensities,
    max_weight: float,
) -> Iterator[tuple[int, int, list[int], float]]:
    """Yield the query that each click of a list becomes: the clicked document, its place, all documents, and the weight.

    Args:
        shown: documents of the list, best first.
        clicked: those of them that were clicked.
        places: of any document, from 1.
        propensities: by which clicks are corrected.
        max_weight: of a query.
    """
    for document in sorted(set(shown) & set(clicked), key=lambda one: int(places[one])):
        place = int(places[document])
        rows = [one for one in shown if one == document or one not in clicked]
        yield document, place, rows, min(1 / propensities.of(place), max_weight)


class _Parts:
    """Judged queries as they are put together.

    Versions may know other values of a category, so each of their codes gets one that is the same for all.
    """

    def __init__(self, logged: Logged) -> None:
        self._logged = logged
        self._contract: str | None = None
        self._features: tuple[Feature, ...] = ()
        #: Of each category its values in the order in which they were met, and the code of each of the contract's codes.
        self._values: dict[int, dict[str, int]] = {}
        self._codes: dict[int, Vector] = {}
        self.unseen = 0
        self._ids: list[str] = []
        self._documents: list[Matrix] = []
        self._labels: list[float] = []
        self._places: list[int] = []
        self._weights: list[float] = []
        self.lengths: list[int] = []

    def add(
        self, judged: JudgedImpression, name: str, rows: list[int], labels: list[float], weight: float
    ) -> None:
        impression = judged.impression
        self._check(impression)
        self._ids.append(name)
        self._documents.append(self._recoded(np.asarray(impression["features"][rows], np.float32)))
        self._labels += labels
        self._places += judged.places[rows].tolist()
        self._weights.append(weight)
        self.lengths.append(len(rows))

    def _recoded(self, documents: Matrix) -> Matrix:
        for at, codes in self._codes.items():
            column = documents[:, at]
            there = ~np.isnan(column)
            documents[there, at] = codes[np.minimum(column[there], len(codes) - 1).astype(np.intp)]
            self.unseen += int(np.isnan(documents[there, at]).sum())
        return documents

    def _check(self, impression: dict[str, Any]) -> None:
        """Refuse other features than those before."""
        if impression["contract"] == self._contract:
            return
        width = impression["features"].shape[1]
        features = self._logged.features.get(
            impression["contract"], tuple(map(Feature, default_names(width)))
        )
        if self._contract is not None and [(one.name, one.kind) for one in features] != [
            (one.name, one.kind) for one in self._features
        ]:
            raise InvalidData(
                f"request {impression['request_id']!r} of model {impression['model']!r} has other features than those before: "
                f"expected {len(self._features)} ({self._features[0].name!r}, …), found {len(features)} "
                f"({features[0].name!r}, …); export one model at a time: --model NAME"
            )
        if width != len(features):
            raise InvalidData(
                f"request {impression['request_id']!r}: expected {len(features)} features, found {width}"
            )
        self._contract, self._features = impression["contract"], features
        for at, one in enumerate(features):
            if one.kind == "category":
                known = self._values.setdefault(at, {})
                self._codes[at] = np.array(
                    [*(known.setdefault(value, len(known)) for value in one.values), np.nan]
                )

    def queries(self, *, weighted: bool) -> QuerySet:
        labels: Vector = np.array(self._labels, np.float64)
        features = [
            replace(one, values=tuple(self._values.get(at, ()))) for at, one in enumerate(self._features)
        ]
        return QuerySet(
            documents=np.ascontiguousarray(np.concatenate(self._documents)),
            labels=labels,
            offsets=np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64),
            query_ids=tuple(self._ids),
            feature_names=tuple(one.name for one in features),
            lines=np.arange(len(labels)),
            weights=np.array(self._weights) if weighted else None,
            positions=np.array(self._places, np.int64),
            special=special(features),
        )


def _nothing() -> QuerySet:
    return QuerySet(
        np.zeros((0, 1), np.float32), np.zeros(0), np.zeros(1, np.int64), (), ("f1",), np.zeros(0, np.int64)
    )
