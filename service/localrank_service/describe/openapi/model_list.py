"""`/v1/models`: the models that answer."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.problems import KEY
from localrank_service.describe.openapi.shapes import COUNT, TEXT, closed, list_of, map_of, ref

#: What the list and the page of one model say alike.
SUMMARY: dict[str, Any] = {
    "name": TEXT,
    "version": COUNT,
    "aliases": map_of(COUNT),
    "contract": TEXT,
    "normalise": TEXT,
    "n_features": COUNT,
    "n_clusters": COUNT,
    "representation": {"type": "object", "required": ["method"], "properties": {"method": TEXT}}
    | {"description": "How a query is represented when queries are compared: the method and its settings."},
    "routing": TEXT,
}

SCHEMAS: dict[str, Any] = {
    "ModelSummary": closed(SUMMARY | {"default": {"type": "boolean"}}),
    "Models": closed(
        {"models": list_of(ref("ModelSummary")), "loading": map_of(COUNT), "broken": map_of(TEXT)}
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/v1/models"): Operation(None, "Models", KEY),
}
