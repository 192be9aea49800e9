"""Whether the service lives, has started and is ready; what it is; what it counts."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.problems import KEY
from localrank_service.describe.openapi.shapes import COUNT, FREE, TEXT, closed, map_of, maybe

SCHEMAS: dict[str, Any] = {
    "Ready": closed(
        {
            "ready": {"const": True},
            "models": map_of(COUNT),
            "broken": map_of(TEXT),
            "unready_workers": map_of(TEXT),
            "remote": closed({"error": maybe(TEXT)}),
        },
        optional=("remote",),
    ),
    "Live": closed({"live": {"const": True}}),
    "Started": closed({"started": {"const": True}}),
    "Info": FREE,
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/livez"): Operation(None, "Live"),
    ("get", "/startupz"): Operation(None, "Started", {503}),
    ("get", "/readyz"): Operation(None, "Ready", {503}),
    ("get", "/info"): Operation(None, "Info", KEY),
    ("get", "/metrics"): Operation(None, None, media="text/plain"),
}
