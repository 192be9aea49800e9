"""`/v2/rerank`: what clients of Cohere send and expect."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.examples import NAMED, ROWS
from localrank_service.describe.openapi.explanation import EXPLANATION
from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.parts import DEGRADED, EXPERIMENT_WITH_TEAMS, ROUTE
from localrank_service.describe.openapi.problems import BODY, KEY, MODEL
from localrank_service.describe.openapi.shapes import (
    COUNT,
    FREE,
    NUMBER,
    TEXT,
    closed,
    described_by,
    list_of,
    map_of,
)
from localrank_service.wire.members import COHERE, names_of

SCHEMAS: dict[str, Any] = {
    "CohereRequest": closed(
        described_by(COHERE),
        optional=tuple(name for name in names_of(COHERE) if name != "documents"),
        examples=[
            {
                "model": "demo",
                "query": "cheap flights",
                "documents": [{"features": ROWS[0], "text": "…"}, {"features": NAMED}],
                "top_n": 1,
            }
        ],
    ),
    "CohereAnswer": closed(
        {
            "id": TEXT,
            "results": list_of(
                closed(
                    {
                        "index": COUNT,
                        "relevance_score": {"type": "number", "minimum": 0, "maximum": 1},
                        "score": NUMBER,
                        "document": FREE,
                    },
                    optional=("document",),
                )
            )
            | {"description": "Ordered by score, then by position in the request."},
            "meta": closed(
                {
                    "api_version": closed({"version": {"const": "2"}}),
                    "billed_units": closed({}),
                    "warnings": list_of(TEXT),
                    "localrank": closed(
                        {
                            "model": TEXT,
                            "version": COUNT,
                            "relevance_score": TEXT | {"description": "How it is computed from the score."},
                            "route": ROUTE,
                            "degraded": DEGRADED,
                            "experiment": EXPERIMENT_WITH_TEAMS,
                            "explanation": EXPLANATION,
                            "timings_ms": map_of(NUMBER),
                        },
                        optional=("degraded", "experiment", "explanation"),
                    ),
                }
            ),
        }
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", "/v2/rerank"): Operation(
        "CohereRequest", "CohereAnswer", {*KEY, *BODY, *MODEL, 409, 504}, name="rerank_as_cohere"
    ),
}
