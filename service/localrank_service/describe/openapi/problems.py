"""Errors: one schema for all, and what each status means."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.shapes import COUNT, TEXT, closed, map_of, maybe

#: Statuses of routes that need a key, that read a body, and that use a model.
KEY = frozenset({401, 403})
BODY = frozenset({400, 413, 415, 422})
MODEL = frozenset({404, 409, 503})

SUMMARIES = {
    400: "Malformed: not JSON, truncated, a member twice, or impossible to decompress",
    401: "No key",
    403: "The key is not one for this route, or the host or origin is not allowed",
    404: "No such model or version",
    409: "Another contract, the version is not loaded or does not verify, or the feature is off",
    413: "Too many bytes or documents",
    415: "Another content type or encoding",
    422: "Breaks the feature contract",
    429: "Too busy; try again",
    500: "The server failed",
    503: "Not ready, or the model is broken",
    504: "The timeout of the request has passed",
}

SCHEMAS: dict[str, Any] = {
    "Problem": closed(
        {
            "type": TEXT,
            "title": TEXT,
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": TEXT,
            "instance": TEXT,
            "error": TEXT,
            "pointer": maybe(TEXT),
            "live": {"type": "boolean", "description": "Of `/v2/health/ready` only."},
            "ready": {"type": "boolean", "description": "Of `/v2/health/ready` only."},
            "message": TEXT | {"description": "Of `/v2/rerank` only: the same text."},
            "loading": map_of(COUNT)
            | {
                "description": "While models are being loaded: the addresses that are left, with their versions."
            },
        },
        optional=("live", "ready", "message", "loading"),
    ),
}
