"""`/v2/models/{name}/infer`: the Open Inference protocol ranks."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.examples import ROWS
from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.parameters import in_path
from localrank_service.describe.openapi.parts import ARM
from localrank_service.describe.openapi.problems import BODY, KEY, MODEL
from localrank_service.describe.openapi.shapes import COUNT, FREE, TEXT, closed, described_by, list_of, maybe
from localrank_service.wire.members import BINARY_INPUT, BINARY_OUTPUT, INFER_PARAMETERS
from localrank_service.wire.tensors import INPUTS
from localrank_service.wire.v2 import OUTPUTS

_BINARY_TENSORS: dict[str, Any] = {
    "type": "string",
    "format": "binary",
    "description": "First the JSON; `Inference-Header-Content-Length` is its length in bytes. Then the binary tensors "
    "in order, little-endian, row by row. If a request says 0, there is no JSON, and the body is "
    "`features` as FP32.",
}
_LENGTH_OF_JSON: dict[str, Any] = {
    "name": "Inference-Header-Content-Length",
    "in": "header",
    "required": False,
    "description": "How many bytes of the body are JSON, if binary tensors follow.",
    "schema": COUNT,
}

SCHEMAS: dict[str, Any] = {
    "InferRequest": {
        "type": "object",
        "properties": {
            "id": maybe(TEXT) | {"description": "Is sent back."},
            "parameters": maybe(FREE | {"properties": described_by(INFER_PARAMETERS)})
            | {"description": "Others are ignored."},
            "inputs": list_of(
                {
                    "type": "object",
                    "properties": {
                        "name": {"enum": list(INPUTS)},
                        "datatype": {"enum": sorted({kind for kinds in INPUTS.values() for kind in kinds})},
                        "shape": list_of(COUNT, minItems=1),
                        "parameters": maybe(FREE | {"properties": described_by(BINARY_INPUT)}),
                        "data": {
                            "type": "array",
                            "items": {},
                            "description": "Nested or flat; null is a missing value.",
                        },
                    },
                    "required": ["name", "datatype", "shape"],
                },
                minItems=1,
            )
            | {
                "description": "`features` [documents, features]; `doc_ids` [documents]; `group` [queries], the "
                "number of documents of each query, if there are several queries."
            },
            "outputs": maybe(
                list_of(
                    {
                        "type": "object",
                        "properties": {
                            "name": {"enum": list(OUTPUTS)},
                            "parameters": maybe(FREE | {"properties": described_by(BINARY_OUTPUT)}),
                        },
                        "required": ["name"],
                    }
                )
            )
            | {"description": "All outputs if left out."},
        },
        "required": ["inputs"],
        "examples": [
            {
                "id": "42",
                "inputs": [
                    {
                        "name": "features",
                        "shape": [2, 10],
                        "datatype": "FP32",
                        "data": ROWS,
                    },
                    {"name": "doc_ids", "shape": [2], "datatype": "BYTES", "data": ["d1", "d2"]},
                ],
            }
        ],
    },
    "InferAnswer": closed(
        {
            "model_name": TEXT,
            "model_version": TEXT,
            "id": TEXT,
            "parameters": closed(
                {
                    "degraded": TEXT
                    | {"description": "Which cheaper ranking answered each query, separated by commas."},
                    "experiment": TEXT | {"description": "The experiment that the request took part in."},
                    "arm": ARM | {"description": "Which arm of the experiment answered."},
                },
                optional=("degraded", "experiment", "arm"),
            ),
            "outputs": list_of(
                closed(
                    {
                        "name": {"enum": list(OUTPUTS)},
                        "datatype": {"enum": ["FP64", "INT32", "INT64", "BYTES"]},
                        "shape": list_of(COUNT, minItems=1, maxItems=1),
                        "parameters": closed({"binary_data_size": COUNT}),
                        "data": {"type": "array", "items": {}},
                    },
                    optional=("parameters", "data"),
                )
            )
            | {
                "description": "`scores` in the order of the request; `ranking`: the positions in the request, best "
                "first, query by query; only `ranking` decides the order; `cluster` of each query, where "
                "-1 is the global scorer; `doc_ids` in the order of `ranking`."
            },
        },
        optional=("id", "parameters"),
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", f"/v2/models/{{name}}{version}/infer"): Operation(
        "InferRequest",
        "InferAnswer",
        {*KEY, *BODY, *MODEL, 409, 504},
        parameters=(*map(in_path, parts), _LENGTH_OF_JSON),
        other_bodies={"application/octet-stream": _BINARY_TENSORS},
        other_answers={"application/octet-stream": _BINARY_TENSORS},
    )
    for version, parts in {"": ("name",), "/versions/{version}": ("name", "version")}.items()
}
