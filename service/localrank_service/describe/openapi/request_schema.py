"""`/v1/models/{name}/schema`: the JSON Schema of a model's requests."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.problems import KEY, MODEL
from localrank_service.describe.openapi.shapes import FREE

SCHEMAS: dict[str, Any] = {
    "JsonSchema": FREE,
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/v1/models/{name}/schema"): Operation(
        None, "JsonSchema", {*KEY, *MODEL}, media="application/schema+json"
    ),
}
