"""`/v1/models/{name}/map`: a model's training queries as points."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.parts import PLACE
from localrank_service.describe.openapi.problems import KEY, MODEL
from localrank_service.describe.openapi.shapes import COUNT, TEXT, closed, list_of

SCHEMAS: dict[str, Any] = {
    "QueryMap": closed(
        {
            "model": TEXT,
            "version": COUNT,
            "similarity": TEXT,
            "shown": {"type": "number", "minimum": 0, "maximum": 1}
            | {"description": "How much of the similarities the two dimensions show, from 0 to 1."},
            "places": {"type": "boolean"}
            | {"description": "Whether `explain=route` answers the place of a query."},
            "queries": list_of(COUNT)
            | {"description": "The same numbers as in `neighbours` of an explanation."},
            "clusters": list_of(COUNT),
            "coordinates": list_of(PLACE),
        }
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/v1/models/{name}/map"): Operation(None, "QueryMap", {*KEY, *MODEL}),
}
