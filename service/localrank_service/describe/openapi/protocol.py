"""`/v2`: what the Open Inference protocol says of the server and its models."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.problems import KEY, MODEL
from localrank_service.describe.openapi.shapes import COUNT, FREE, TEXT, closed, list_of, map_of

_TENSOR = closed(
    {
        "name": TEXT,
        "datatype": TEXT,
        "shape": list_of({"type": "integer", "minimum": -1}),
        "parameters": closed({"optional": {"const": True}}),
    },
    optional=("parameters",),
)

SCHEMAS: dict[str, Any] = {
    "ServerMetadata": closed({"name": TEXT, "version": TEXT, "extensions": list_of(TEXT)}),
    "ServerHealth": closed({"live": {"const": True}, "ready": {"type": "boolean"}}),
    "ModelMetadata": closed(
        {
            "name": TEXT,
            "versions": list_of(TEXT),
            "platform": TEXT,
            "inputs": list_of(_TENSOR),
            "outputs": list_of(_TENSOR),
        }
    ),
    "ModelReady": closed({"name": TEXT, "ready": {"const": True}}),
    "ModelConfiguration": FREE,
    "ModelStatistics": closed(
        {
            "model_stats": list_of(
                closed(
                    {
                        "name": TEXT,
                        "version": TEXT,
                        "last_inference": COUNT,
                        "inference_count": COUNT,
                        "execution_count": COUNT,
                        "inference_stats": map_of(closed({"count": COUNT, "ns": COUNT})),
                        "batch_stats": list_of({}),
                    }
                )
            )
        }
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/v2"): Operation(None, "ServerMetadata", KEY),
    ("get", "/v2/health/live"): Operation(None, "ServerHealth", name="server_live"),
    ("get", "/v2/health/ready"): Operation(None, "ServerHealth", {503}, name="server_ready"),
    ("get", "/v2/models/stats"): Operation(None, "ModelStatistics", KEY),
    **{
        ("get", f"/v2/models/{{name}}{version}{path}"): Operation(None, answers, {*KEY, *MODEL})
        for path, answers in {
            "": "ModelMetadata",
            "/config": "ModelConfiguration",
            "/ready": "ModelReady",
            "/stats": "ModelStatistics",
        }.items()
        for version in ("", "/versions/{version}")
    },
}
