"""``POST /v1/feedback``: what users did with documents that were shown, or what judges say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Depends, Request, Response

from localrank_service.apis.openapi import BODY, KEY, Schema, closed, described_by, operation
from localrank_service.apis.requests import check_options
from localrank_service.http.body import media_type, read_body
from localrank_service.http.problems import Problem, pointer
from localrank_service.online.impressions import Event
from localrank_service.wire.members import (
    ID,
    Kind,
    Member,
    by_name,
    check,
    integer,
    names_of,
    number,
    text_of,
)
from localrank_service.wire.query import Limits
from localrank_service.wire.text import list_in, refuse

if TYPE_CHECKING:
    from localrank_service.ranking.service import Service

#: The highest grade that a document may get.
HIGHEST_GRADE = 100

#: Of each event of ``POST /v1/feedback``; any other is refused by name.
FEEDBACK = (
    Member(
        "request_id",
        text_of(1, 128),
        "The `request_id` of the answer that showed the documents; its header `X-Request-ID` has it too.",
        nullable=False,
    ),
    Member(
        "query",
        integer(0),
        "Position of the query in its request, if the request had several queries; the first one if left "
        "out.",
    ),
    Member(
        "id",
        ID,
        "The id that the document had in the request; the first document with it, if several had it.",
    ),
    Member("index", integer(0), "The position of the document in the request; use this or `id`."),
    Member(
        "click",
        Kind("true", {"type": "boolean", "not": {"const": False}}, lambda value: value is True),
        "The user chose the document.",
        nullable=False,
    ),
    Member(
        "grade",
        number(0, HIGHEST_GRADE),
        "How relevant the document is; higher is better. If a document gets several grades, the last one "
        "counts. An event has either `click` or `grade`.",
        nullable=False,
    ),
    Member(
        "event_id",
        ID,
        "The caller's name for the event. Events with the same name count once, so an event can be sent "
        "again.",
    ),
)

#: Events of one request, and bytes of its body, at most.
MOST_EVENTS, LARGEST = 1000, 2**20

_TABLE = by_name(FEEDBACK)
_LIMITS = Limits(MOST_EVENTS, refuse_extra_features=True, max_numbers=4 * MOST_EVENTS, max_members=2**14)
#: Characters of a document's or an event's name.
_LONGEST = 512


def read(body: bytes) -> list[Event]:
    """Return the events, or raise a `Problem`: 400, 413 or 422."""
    elements = list_in(body, _LIMITS, "events", "a list of objects")
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


router = APIRouter(tags=["online"], dependencies=[Depends(check_options)])

_REQUEST = Schema(
    "FeedbackRequest",
    closed(
        {
            "events": {
                "type": "array",
                "items": closed(
                    described_by(FEEDBACK),
                    optional={*names_of(FEEDBACK)} - {"request_id"},
                    allOf=[
                        {"oneOf": [{"required": ["id"]}, {"required": ["index"]}]},
                        {"oneOf": [{"required": ["click"]}, {"required": ["grade"]}]},
                    ],
                ),
                "maxItems": MOST_EVENTS,
            }
        },
        examples=[
            {
                "events": [
                    {"request_id": "0f9d3c1e", "id": "d2", "click": True, "event_id": "c-1"},
                    {"request_id": "0f9d3c1e", "index": 0, "grade": 3},
                ]
            }
        ],
    ),
)


@router.post("/v1/feedback")
@operation("FeedbackAnswer", {*KEY, *BODY, 409}, reads=_REQUEST)
async def feedback(request: Request) -> Response:
    """Take clicks or grades for documents that were shown; they go to the impression log."""
    service: Service = request.app.state.service
    log = service.impressions
    if log is None:
        raise Problem(
            409,
            "feedback is off: set LOCALRANK_IMPRESSION_LOG to the share of requests to log, such as 0.1, and start again",
            kind="feature-off",
        )
    media_type(request.headers, ("application/json",))
    events = read(await read_body(request, min(LARGEST, service.settings.max_body_bytes)))
    found = log.say(request.scope, events)
    return Response(
        orjson.dumps({"request_id": request.scope["request_id"], **found}), media_type="application/json"
    )
