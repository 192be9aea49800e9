"""`/v1/evaluate`: how well a model ranks judged queries."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.examples import ROWS
from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.parameters import options_of
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
from localrank_service.wire import evaluate, letor
from localrank_service.wire.members import EVALUATE, names_of

_LETOR: dict[str, Any] = {
    "type": "string",
    "description": "LETOR text, a line for each document: `2 qid:17 1:0.5 2:3 # comment`. Options are in "
    "the query string.",
}

SCHEMAS: dict[str, Any] = {
    "EvaluateRequest": closed(
        described_by(EVALUATE),
        optional=tuple(name for name in names_of(EVALUATE) if name != "queries"),
        examples=[
            {
                "model": "demo",
                "metrics": ["ndcg@10", "mrr"],
                "queries": [{"query_id": "q-17", "features": ROWS, "labels": [1, 0]}],
            }
        ],
    ),
    "EvaluateAnswer": closed(
        {
            "request_id": TEXT,
            "model": TEXT,
            "version": COUNT,
            "alias": maybe(TEXT)
            | {"description": "The alias in the request; null if the request named a version."},
            "queries": COUNT,
            "documents": COUNT,
            "metrics": list_of(
                closed(
                    {
                        "metric": TEXT,
                        "mean": maybe(NUMBER),
                        "convention": TEXT,
                        "queries": COUNT,
                        "empty_queries": COUNT,
                        "empty_queries_are": TEXT,
                        "ties": TEXT,
                    }
                )
            ),
            "latency_ms": maybe(closed(dict.fromkeys(("mean", "p50", "p90", "p99", "max"), NUMBER)))
            | {
                "description": "Milliseconds to rank one query, without reading the request and writing the answer."
            },
            "stages_ms": map_of(NUMBER) | {"description": "Mean of each stage."},
            "routes": map_of(COUNT) | {"description": "Queries by cluster, or `global`."},
            "per_query": list_of(
                closed(
                    {"query_id": {"type": ["string", "integer", "null"]}, "metrics": map_of(maybe(NUMBER))}
                )
            ),
            "timings_ms": closed(dict.fromkeys(("read", "rank", "measure"), NUMBER)),
        },
        optional=("per_query",),
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", "/v1/evaluate"): Operation(
        "EvaluateRequest",
        "EvaluateAnswer",
        {*KEY, *BODY, *MODEL, 409, 429, 504},
        parameters=options_of(EVALUATE, evaluate.OPTIONS, letor.MEDIA_TYPE),
        other_bodies={letor.MEDIA_TYPE: _LETOR},
    ),
}
