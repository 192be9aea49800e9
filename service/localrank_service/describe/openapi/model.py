"""`/v1/models/{name}`: one model, its clusters and a sample of its queries."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.model_list import SUMMARY
from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.parameters import in_query
from localrank_service.describe.openapi.problems import KEY, MODEL
from localrank_service.describe.openapi.shapes import (
    COUNT,
    FREE,
    NUMBER,
    TEXT,
    closed,
    list_of,
    map_of,
    maybe,
)

SCHEMAS: dict[str, Any] = {
    "Model": closed(
        SUMMARY
        | {
            "created": TEXT,
            "sha256": TEXT,
            "metrics": FREE,
            "notes": list_of({}),
            "source": FREE,
            "guard": map_of(closed({"blend": maybe(NUMBER), "global": maybe(NUMBER)}))
            | {
                "description": "Thresholds of `similarity`, `margin` and `distance`, if the model has a guard."
            },
            "features": list_of(closed({"name": TEXT, "missing": TEXT, "lowest": NUMBER, "highest": NUMBER})),
            "list_lengths": map_of(NUMBER)
            | {"description": "Documents of the training queries, by quantile."},
            "samples": {"type": "integer", "minimum": 1}
            | {"description": "How many sample queries `/v1/models/{name}/sample` has."},
            "map": maybe(closed({"queries": COUNT, "shown": {"type": "number", "minimum": 0, "maximum": 1}}))
            | {"description": "What `/v1/models/{name}/map` shows; null if there is no map."},
        },
        optional=("created", "sha256", "metrics", "notes", "source", "guard"),
    ),
    "Clusters": closed(
        {
            "model": TEXT,
            "version": COUNT,
            "clusters": list_of(
                closed(
                    {
                        "cluster": COUNT,
                        "scorer": TEXT,
                        "size": COUNT,
                        "exemplar": maybe(TEXT),
                        "validation": maybe(FREE),
                    },
                    optional=("size", "exemplar", "validation"),
                )
            ),
            "global": closed({"scorer": TEXT}),
        }
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/v1/models/{name}"): Operation(None, "Model", {*KEY, *MODEL}),
    ("get", "/v1/models/{name}/clusters"): Operation(None, "Clusters", {*KEY, *MODEL}),
    ("get", "/v1/models/{name}/sample"): Operation(
        None,
        "RerankRequest",
        {*KEY, *MODEL, 422},
        parameters=(in_query("query", "Which of the model's `samples`; the first if left out.", COUNT),),
    ),
}
