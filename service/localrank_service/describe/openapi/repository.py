"""`/v2/repository`: models of the Open Inference protocol that are loaded and unloaded."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.problems import BODY, KEY, MODEL
from localrank_service.describe.openapi.shapes import COUNT, FREE, TEXT, closed, list_of

SCHEMAS: dict[str, Any] = {
    "IndexRequest": FREE | {"properties": {"ready": {"type": "boolean", "default": False}}},
    "Index": list_of(
        closed(
            {
                "name": TEXT,
                "version": TEXT,
                "state": {"enum": ["READY", "UNAVAILABLE", "LOADING"]},
                "reason": TEXT,
            }
        )
    ),
    "RepositoryRequest": {
        "type": "object",
        "properties": {"parameters": closed({"unload_dependents": {}}, optional=("unload_dependents",))},
    },
    "RepositoryAnswer": closed({"name": TEXT, "loaded": {"type": "boolean"}, "workers": list_of(COUNT)}),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", "/v2/repository/index"): Operation(
        "IndexRequest", "Index", {*KEY, *BODY}, name="list_repository"
    ),
    **{
        ("post", f"/v2/repository/models/{{name}}/{verb}"): Operation(
            "RepositoryRequest",
            "RepositoryAnswer",
            {*KEY, *BODY, *MODEL},
            admin=True,
            name=f"{verb}_model",
        )
        for verb in ("load", "unload")
    },
}
