"""`/v1/rerank`: one query."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.examples import NAMED, ROWS
from localrank_service.describe.openapi.explanation import EXPLANATION
from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.parameters import options_of
from localrank_service.describe.openapi.parts import ARM, DEGRADED, EXPERIMENT, ROUTE
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
)
from localrank_service.wire import npy
from localrank_service.wire.members import RERANK, names_of

#: Exactly one of `documents` and `features`. Not by `oneOf`: if alternatives differ only in required members, client
#: generators make an untyped body. Generators ignore conditions.
_ONE_FORM: dict[str, Any] = {
    "if": {"required": ["documents"]},
    "then": {"not": {"anyOf": [{"required": [other]} for other in ("ids", "features")]}},
    "else": {"required": ["features"]},
}

_ARRAY: dict[str, Any] = {
    "type": "string",
    "format": "binary",
    "description": "The bytes that `numpy.save` writes: `[documents, features]` of float16, float32 or "
    "float64; NaN is a missing value. Options are in the query string.",
}

SCHEMAS: dict[str, Any] = {
    "RerankRequest": closed(
        described_by(RERANK),
        optional=names_of(RERANK),
        **_ONE_FORM,
        examples=[
            {
                "model": "demo",
                "query_id": "q-17",
                "top_n": 10,
                "documents": [{"id": "d1", "features": ROWS[0]}, {"id": "d2", "features": NAMED}],
            },
            {"model": "demo", "ids": ["d1", "d2"], "features": ROWS},
        ],
    ),
    "RerankAnswer": closed(
        {
            "request_id": TEXT,
            "model": TEXT,
            "version": COUNT,
            "results": list_of(
                closed(
                    {
                        "rank": {"type": "integer", "minimum": 1},
                        "index": COUNT | {"description": "Position in the request."},
                        "id": {"type": ["string", "integer", "null"]},
                        "score": NUMBER,
                        "team": maybe(ARM)
                        | {
                            "description": "The version that the result comes from, only if the rankings of two "
                            "versions are interleaved."
                        },
                    },
                    optional=("id", "team"),
                )
            )
            | {
                "description": "Ordered by score, then by position in the request, unless they are interleaved."
            },
            "route": ROUTE,
            "degraded": maybe(DEGRADED),
            "experiment": EXPERIMENT,
            "warnings": list_of(
                closed(
                    {
                        "code": {"enum": ["feature_imputed", "feature_ignored", "warnings_omitted"]},
                        "feature": TEXT | {"description": "Empty if warnings are omitted."},
                        "count": {"type": "integer", "minimum": 1},
                    }
                )
            ),
            "explanation": EXPLANATION,
            "timings_ms": map_of(NUMBER)
            | {"description": "Each stage in the order of its run, and their total, as in `Server-Timing`."},
        },
        optional=("experiment", "explanation"),
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", "/v1/rerank"): Operation(
        "RerankRequest",
        "RerankAnswer",
        {*KEY, *BODY, *MODEL, 409, 504},
        parameters=options_of(RERANK, npy.OPTIONS, npy.MEDIA_TYPE),
        other_bodies={npy.MEDIA_TYPE: _ARRAY},
    ),
}
