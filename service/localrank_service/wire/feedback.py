"""``POST /v1/feedback``: what users did with documents that were shown, or what judges say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.members import FEEDBACK, by_name, check
from localrank_service.wire.query import Limits
from localrank_service.wire.text import Elements, checked, refuse

#: Events of one request, and bytes of its body, at most.
MOST_EVENTS, LARGEST = 1000, 2**20

_TABLE = by_name(FEEDBACK)
_LIMITS = Limits(MOST_EVENTS, refuse_extra_features=True, max_numbers=4 * MOST_EVENTS, max_members=2**14)
#: Characters of a document's or an event's name.
_LONGEST = 512


@dataclass(frozen=True, slots=True)
class Event:
    """One judgement of one document.

    Attributes:
        request_id: of the request that the document was ranked in.
        query: position of the query in that request.
        id: of the document; or
        index: its position in the request.
        click: whether the user chose it; or
        grade: how relevant it is.
        event_id: the caller's name for the event.
    """

    request_id: str
    query: int
    id: str | int | None
    index: int | None
    click: bool
    grade: float | None
    event_id: str | int | None


def read(body: bytes) -> list[Event]:
    """Return the events, or raise a `Problem`: 400, 413 or 422."""
    text = checked(body, _LIMITS)
    if text.kind != "{":
        refuse("the body", "an object", text, "")
    members = text.members()
    if unknown := members.keys() - {"events"}:
        name = min(unknown)
        raise Problem(422, f"unknown member {name!r}; expected events", pointer=pointer(name))
    events = members.get("events")
    if events is None or events.kind != "[":
        refuse("events", "a list of objects", events, "/events")
    elements = Elements(events)
    if elements.count > MOST_EVENTS:
        raise Problem(
            413, f"{elements.count} events; this server takes {MOST_EVENTS} per request", pointer="/events"
        )
    return [_event(one, position) for position, one in enumerate(elements.all())]


def _event(members: Any, position: int) -> Event:
    at = pointer("events", position)
    if type(members) is not dict:
        refuse(f"events[{position}]", "an object", members, at)
    for name in members:
        if name not in _TABLE:
            raise Problem(
                422,
                f"events[{position}] has the unknown member {name!r}; expected some of {', '.join(_TABLE)}",
                pointer=at + pointer(name),
            )
    check(members, _TABLE, at)
    given: Any = members.get
    if given("request_id") is None:
        raise Problem(422, f"events[{position}] has no request_id", pointer=at)
    for one, other, what in (("id", "index", "document"), ("click", "grade", "judgement")):
        if (given(one) is None) == (given(other) is None):
            found = "none" if given(one) is None else "both"
            raise Problem(
                422,
                f"events[{position}]: expected either {one} or {other} for its {what}, found {found}",
                pointer=at,
            )
    for name in ("id", "event_id"):
        value = given(name)
        if isinstance(value, str) and len(value) > _LONGEST:
            raise Problem(
                422,
                f"events[{position}]: {name}: expected at most {_LONGEST} characters, found {len(value)}",
                pointer=at + pointer(name),
            )
    return Event(
        given("request_id"),
        given("query") or 0,
        given("id"),
        given("index"),
        given("click") is True,
        None if given("grade") is None else float(given("grade")),
        given("event_id"),
    )
