"""``POST /v1/feedback``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from fastapi import APIRouter, Depends, Request, Response

from localrank_service.apis.openapi import BODY, KEY, Schema, closed, described_by, operation
from localrank_service.http.body import media_type, read_body
from localrank_service.http.problems import Problem
from localrank_service.routes.options import check_options
from localrank_service.wire.feedback import LARGEST, MOST_EVENTS, read
from localrank_service.wire.members import FEEDBACK, names_of

if TYPE_CHECKING:
    from localrank_service.service import Service

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
