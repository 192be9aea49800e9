"""`/v1/compare`: two versions rank the same documents."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.examples import ROWS
from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.parts import ROUTE
from localrank_service.describe.openapi.problems import BODY, KEY, MODEL
from localrank_service.describe.openapi.shapes import (
    COUNT,
    NUMBER,
    TEXT,
    closed,
    described_by,
    list_of,
    map_of,
    maybe,
    ref,
)
from localrank_service.wire.members import COMPARE, names_of

SCHEMAS: dict[str, Any] = {
    "CompareRequest": closed(
        described_by(COMPARE),
        optional=tuple(name for name in names_of(COMPARE) if name != "candidate"),
        examples=[{"baseline": "demo", "candidate": "demo@1", "ids": ["d1", "d2"], "features": ROWS}],
    ),
    "CompareAnswer": closed(
        {
            "request_id": TEXT,
            "baseline": ref("CompareSide"),
            "candidate": ref("CompareSide"),
            "moves": list_of(
                closed(
                    {
                        "index": COUNT | {"description": "Position in the request."},
                        "id": {"type": ["string", "integer", "null"]},
                        "baseline": {"type": "integer", "minimum": 1, "description": "Its rank there."},
                        "candidate": {"type": "integer", "minimum": 1, "description": "Its rank there."},
                        "move": {
                            "type": "integer",
                            "description": "By how many ranks the candidate moves it up; less than 0 is down.",
                        },
                    },
                    optional=("id",),
                )
            )
            | {
                "description": "Every document; with `top_n`, every document that is among the first in at least one of the "
                "rankings."
            },
            "agreement": closed(
                {
                    "kendall_tau": maybe(NUMBER)
                    | {
                        "description": "Tau-b of the scores; null if one version gives all documents the same score."
                    },
                    "rbo": NUMBER | {"description": "Rank-biased overlap, persistence 0.9."},
                    "overlap": map_of(NUMBER)
                    | {
                        "description": "Share of the first documents that both rankings have in common, by the number of "
                        "documents."
                    },
                }
            ),
            "timings_ms": map_of(NUMBER),
        }
    ),
    "CompareSide": closed(
        {
            "model": TEXT,
            "version": COUNT,
            "results": list_of(
                closed(
                    {
                        "rank": {"type": "integer", "minimum": 1},
                        "index": COUNT,
                        "id": {"type": ["string", "integer", "null"]},
                        "score": NUMBER,
                    },
                    optional=("id",),
                )
            ),
            "route": ROUTE,
            "warnings": list_of(closed({"code": TEXT, "feature": TEXT, "count": COUNT})),
        }
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", "/v1/compare"): Operation("CompareRequest", "CompareAnswer", {*KEY, *BODY, *MODEL, 409}),
}
