"""`/v1/rerank/batch`: several queries."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.examples import ROWS
from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.problems import BODY, KEY
from localrank_service.describe.openapi.shapes import NUMBER, TEXT, closed, list_of, map_of, ref

SCHEMAS: dict[str, Any] = {
    "BatchRequest": closed(
        {"queries": list_of(ref("RerankRequest"))},
        examples=[{"queries": [{"model": "demo", "top_n": 1, "features": ROWS}, {"features": ROWS[:1]}]}],
    ),
    "BatchAnswer": closed(
        {
            "request_id": TEXT,
            "answers": list_of(
                {
                    "oneOf": [
                        closed({"status": {"const": 200}, "answer": ref("RerankAnswer")}),
                        closed(
                            {
                                "status": {"type": "integer", "minimum": 400, "maximum": 599},
                                "problem": ref("Problem"),
                            }
                        ),
                    ]
                }
            )
            | {"description": "One for each query, in their order. Pointers start at the whole body."},
            "timings_ms": map_of(NUMBER),
        }
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", "/v1/rerank/batch"): Operation("BatchRequest", "BatchAnswer", {*KEY, *BODY}),
}
