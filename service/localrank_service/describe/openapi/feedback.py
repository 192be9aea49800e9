"""`/v1/feedback`: clicks and grades."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.problems import BODY, KEY
from localrank_service.describe.openapi.shapes import COUNT, TEXT, closed, described_by, list_of
from localrank_service.wire.feedback import MOST_EVENTS
from localrank_service.wire.members import FEEDBACK, names_of

SCHEMAS: dict[str, Any] = {
    "FeedbackRequest": closed(
        {
            "events": list_of(
                closed(
                    described_by(FEEDBACK),
                    optional=tuple(name for name in names_of(FEEDBACK) if name != "request_id"),
                    allOf=[
                        {"oneOf": [{"required": ["id"]}, {"required": ["index"]}]},
                        {"oneOf": [{"required": ["click"]}, {"required": ["grade"]}]},
                    ],
                ),
                maxItems=MOST_EVENTS,
            )
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
    "FeedbackAnswer": closed(
        {
            "request_id": TEXT,
            "accepted": COUNT | {"description": "Events that will be logged."},
            "dropped": COUNT
            | {
                "description": "Events that the queue or the caller's quota had no room for; send them again."
            },
        }
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", "/v1/feedback"): Operation("FeedbackRequest", "FeedbackAnswer", {*KEY, *BODY, 409}),
}
