"""The Open Inference Protocol, version 2: what is served, health, inference. Stock clients of Triton and KServe speak it.

Content types are not looked at, since its clients do not send them; the header Inference-Header-Content-Length says
what a body is.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, Request, Response

from localrank import __version__
from localrank_service.apis.openapi import (
    BODY,
    COUNT,
    FREE,
    KEY,
    MODEL,
    ROWS,
    TEXT,
    Schema,
    described_by,
    maybe,
    operation,
)
from localrank_service.apis.requests import answer, check_options
from localrank_service.apis.v2 import reader as v2
from localrank_service.apis.v2.reader import BINARY_OUTPUT, INFER_PARAMETERS
from localrank_service.apis.v2.tensors import BINARY_INPUT, INPUTS
from localrank_service.http.body import read_body
from localrank_service.http.edge import DirectRoute
from localrank_service.ranking.reranking import Attempt
from localrank_service.wire.answer import server_timing
from localrank_service.wire.members import check_query_string, names_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.ranker import Ranking
    from localrank_service.models.live import LiveModel
    from localrank_service.ranking.service import Service

EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")

router = APIRouter(tags=["open inference protocol"])
#: Health checks may have options that some proxy adds.
_CHECKED = [Depends(check_options)]
inference = APIRouter(tags=["open inference protocol"], route_class=DirectRoute)

_BINARY_TENSORS = {
    "type": "string",
    "format": "binary",
    "description": "First the JSON; `Inference-Header-Content-Length` is its length in bytes. Then the binary tensors "
    "in order, little-endian, row by row. If a request says 0, there is no JSON, and the body is "
    "`features` as FP32.",
}
_LENGTH_OF_JSON = {
    "name": "Inference-Header-Content-Length",
    "in": "header",
    "required": False,
    "description": "How many bytes of the body are JSON, if binary tensors follow.",
    "schema": COUNT,
}
_INPUT = {
    "type": "object",
    "properties": {
        "name": {**TEXT, "description": f"{', '.join(INPUTS)}, or a category of the model."},
        "datatype": {"enum": sorted({kind for kinds in INPUTS.values() for kind in kinds})},
        "shape": {"type": "array", "items": COUNT, "minItems": 1},
        "parameters": maybe(FREE | {"properties": described_by(BINARY_INPUT)}),
        "data": {
            "type": "array",
            "items": {},
            "description": "Nested or flat; null is a missing value.",
        },
    },
    "required": ["name", "datatype", "shape"],
}
_OUTPUT = {
    "type": "object",
    "properties": {
        "name": {"enum": list(v2.OUTPUTS)},
        "parameters": maybe(FREE | {"properties": described_by(BINARY_OUTPUT)}),
    },
    "required": ["name"],
}
_REQUEST = Schema(
    "InferRequest",
    {
        "type": "object",
        "properties": {
            "id": maybe(TEXT) | {"description": "Is sent back."},
            "parameters": maybe(FREE | {"properties": described_by(INFER_PARAMETERS)})
            | {"description": "Others are ignored."},
            "inputs": {
                "type": "array",
                "items": _INPUT,
                "minItems": 1,
                "description": "`features` [documents, features]; `doc_ids` [documents]; `group` [queries], the "
                "number of documents of each query, if there are several queries; `query_features` [queries], objects of JSON. "
                "An input with the name of a category holds its values as texts; `features` holds codes.",
            },
            "outputs": maybe({"type": "array", "items": _OUTPUT})
            | {"description": "All outputs if left out."},
        },
        "required": ["inputs"],
        "examples": [
            {
                "id": "42",
                "inputs": [
                    {"name": "features", "shape": [2, 10], "datatype": "FP32", "data": ROWS},
                    {"name": "doc_ids", "shape": [2], "datatype": "BYTES", "data": ["d1", "d2"]},
                ],
            }
        ],
    },
)

_TABLE = ("id", "parameters", "inputs", "outputs", *names_of(INFER_PARAMETERS))

_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda content: gzip.compress(content, 1, mtime=0),
    "deflate": lambda content: zlib.compress(content, 1),
}

#: How many times longer it takes to compress bytes than to write them.
_COMPRESSING = 8


@inference.post("/v2/models/{name}/infer")  # noqa: FAST003 - read from the scope, without the framework's detour
@inference.post("/v2/models/{name}/versions/{version}/infer")
@operation(
    "InferAnswer",
    {*KEY, *BODY, *MODEL, 409, 504},
    reads=_REQUEST,
    parameters=(_LENGTH_OF_JSON,),
    other_bodies={"application/octet-stream": _BINARY_TENSORS},
    other_answers={"application/octet-stream": _BINARY_TENSORS},
)
async def infer(request: Request) -> Response:
    """Rank the documents of one query, or of several."""
    service: Service = request.app.state.service
    headers = request.headers
    with Attempt(service, "v2", request.scope) as attempt:
        check_query_string(request.scope["query_string"], _TABLE)
        body = await read_body(request, service.settings.max_body_bytes)
        attempt.timing.start("decode")
        declared = headers.get(v2.HEADER_LENGTH)
        call = await attempt.run(v2.read, len(body), body, declared, service.limits)
        model = await attempt.find(_address(**request.path_params), at=None)
        queries, ids = await attempt.run(call.queries, call.cost, model.ranker.contract)
        rankings: list[Ranking] = []
        rungs: list[str] = []
        tables: set[tuple[str, int]] = set()
        answered, part = (model.name, model.version), None
        further: dict[str, float] = {}
        for documents in queries:
            if not rankings:
                ranked = await attempt.rank(model, documents, call.options)
                answered, part = (ranked.name, ranked.version), ranked.experiment
                rankings.append(ranked.ranking)
                rungs.append("" if ranked.degraded is None else ranked.degraded.rung)
                tables.update(ranked.documents.generations.items())
                continue
            # Each query is counted; what they share is counted with the first.
            with Attempt(service, "v2", request.scope, len(rankings)) as other:
                other.drawn = attempt.drawn
                ranked = await other.rank(model, documents, call.options)
                rankings.append(ranked.ranking)
                rungs.append("" if ranked.degraded is None else ranked.degraded.rung)
                tables.update(ranked.documents.generations.items())
            for stage, elapsed in other.timing.stop().items():
                further[stage] = further.get(stage, 0.0) + elapsed
            await asyncio.sleep(0)
        attempt.timing("encode")
        content, header_length = await attempt.run(
            v2.encode,
            len(body),
            call,
            answered,
            rankings,
            ids,
            rungs if any(rungs) else (),
            part=part,
            tables=tables,
        )
        own = attempt.timing.stop()
        milliseconds = {stage: round(elapsed + further.get(stage, 0.0), 4) for stage, elapsed in own.items()}
    sent = {"server-timing": server_timing(milliseconds)}
    if header_length is not None:
        sent[v2.HEADER_LENGTH] = str(header_length)
    # Only where just one encoding is asked for: general clients list all that they know, and floats hardly shrink.
    accepted = headers.get("accept-encoding", "").strip().lower()
    if (compress := _COMPRESS.get(accepted)) is not None:
        content = await attempt.run(compress, len(content) * _COMPRESSING, content)
        sent |= {"content-encoding": accepted, "vary": "accept-encoding"}
    kind = "application/json" if header_length is None else "application/octet-stream"
    return Response(content, media_type=kind, headers=sent)


@router.get("/v2", dependencies=_CHECKED)
@operation("ServerMetadata", KEY)
async def server_metadata() -> Response:
    """What this server is."""
    return answer({"name": "localrank", "version": __version__, "extensions": list(EXTENSIONS)})


@router.get("/v2/health/live")
@operation("ServerHealth", name="server_live")
async def live(request: Request) -> Response:
    """200 as long as the process answers."""
    service: Service = request.app.state.service
    return answer({"live": True, "ready": service.unready() is None})


@router.get("/v2/health/ready")
@operation("ServerHealth", {503}, name="server_ready")
async def ready(request: Request) -> Response:
    """200 when requests should be sent here."""
    service: Service = request.app.state.service
    if (problem := service.unready()) is not None:
        problem.members |= {"live": True, "ready": False}
        raise problem
    return answer({"live": True, "ready": True})


@router.get("/v2/models/stats", dependencies=_CHECKED)
@operation("ModelStatistics", KEY)
async def all_statistics(request: Request) -> Response:
    """How many requests each version has answered since the start of the service, and the parts of their time."""
    service: Service = request.app.state.service
    models = {(model.name, model.version): model for model in service.live.addresses.values()}
    return await asyncio.to_thread(_statistics, service, [models[key] for key in sorted(models)])


@router.get("/v2/models/{name}", dependencies=_CHECKED)
@router.get("/v2/models/{name}/versions/{version}", dependencies=_CHECKED)
@operation("ModelMetadata", {*KEY, *MODEL})
async def model_metadata(request: Request, name: str, version: str | None = None) -> Response:
    """What a model takes and gives."""
    service: Service = request.app.state.service
    model = await _find(request, name, version)
    width = model.ranker.contract.n_features
    versions = {other.version for other in service.live.of(model.name).values()}
    return answer(
        {
            "name": model.name,
            "versions": [str(one) for one in sorted(versions)],
            "platform": "localrank",
            "inputs": [
                {"name": "features", "datatype": "FP32", "shape": [-1, width]},
                {"name": "doc_ids", "datatype": "BYTES", "shape": [-1], "parameters": {"optional": True}},
                {"name": "group", "datatype": "INT32", "shape": [-1], "parameters": {"optional": True}},
                *(
                    {"name": one, "datatype": "BYTES", "shape": [-1], "parameters": {"optional": True}}
                    for one in _texts(model)
                ),
            ],
            "outputs": [
                {"name": "scores", "datatype": "FP64", "shape": [-1]},
                {"name": "ranking", "datatype": "INT32", "shape": [-1]},
                {"name": "cluster", "datatype": "INT32", "shape": [-1]},
                {"name": "doc_ids", "datatype": "BYTES", "shape": [-1], "parameters": {"optional": True}},
            ],
        }
    )


@router.get("/v2/models/{name}/config", dependencies=_CHECKED)
@router.get("/v2/models/{name}/versions/{version}/config", dependencies=_CHECKED)
@operation(Schema("ModelConfiguration", FREE), {*KEY, *MODEL})
async def model_configuration(request: Request, name: str, version: str | None = None) -> Response:
    """The same as Triton's model configuration."""
    model = await _find(request, name, version)
    width = model.ranker.contract.n_features

    def tensor(name: str, kind: str, *dims: int, **more: Any) -> dict[str, Any]:
        return {"name": name, "data_type": kind, "dims": list(dims), **more}

    return answer(
        {
            "name": model.name,
            "platform": "localrank",
            "backend": "localrank",
            "max_batch_size": 0,
            "input": [
                tensor("features", "TYPE_FP32", -1, width),
                tensor("doc_ids", "TYPE_STRING", -1, optional=True),
                tensor("group", "TYPE_INT32", -1, optional=True),
                *(tensor(one, "TYPE_STRING", -1, optional=True) for one in _texts(model)),
            ],
            "output": [
                tensor("scores", "TYPE_FP64", -1),
                tensor("ranking", "TYPE_INT32", -1),
                tensor("cluster", "TYPE_INT32", -1),
                tensor("doc_ids", "TYPE_STRING", -1),
            ],
            "parameters": {"contract": {"string_value": model.ranker.contract.digest}},
        }
    )


@router.get("/v2/models/{name}/ready", dependencies=_CHECKED)
@router.get("/v2/models/{name}/versions/{version}/ready", dependencies=_CHECKED)
@operation("ModelReady", {*KEY, *MODEL})
async def model_ready(request: Request, name: str, version: str | None = None) -> Response:
    """200 when the model answers requests."""
    model = await _find(request, name, version)
    return answer({"name": model.name, "ready": True})


@router.get("/v2/models/{name}/stats", dependencies=_CHECKED)
@router.get("/v2/models/{name}/versions/{version}/stats", dependencies=_CHECKED)
@operation("ModelStatistics", {*KEY, *MODEL})
async def model_statistics(request: Request, name: str, version: str | None = None) -> Response:
    """How many requests a model has answered since the start of the service, and the parts of their time."""
    model = await _find(request, name, version)
    return await asyncio.to_thread(_statistics, request.app.state.service, [model])


def _texts(model: LiveModel) -> list[str]:
    """Return the inputs of texts that depend on the model: its categories, and features of the query."""
    contract = model.ranker.contract
    found = [contract.names[at] for at in contract.categories]
    return [*found, "query_features"] if contract.of_query else found


def _address(name: str, version: str | None = None) -> str:
    return name if version is None else f"{name}@{version}"


async def _find(request: Request, name: str, version: str | None) -> LiveModel:
    service: Service = request.app.state.service
    address = _address(name, version)
    return service.live.find(address) or await service.resolve(address, request.scope, at=None)


def _statistics(service: Service, models: list[LiveModel]) -> Response:
    figures = service.meters.statistics()
    found = []
    for model in models:
        one = figures.get((model.name, str(model.version)), {})
        success = int(one.get("ok", 0) + one.get("degraded", 0))

        def part(name: str, count: int, figures: dict[str, float] = one) -> dict[str, int]:
            return {"count": count, "ns": round(figures.get(name, 0.0) * 1e9)}

        found.append(
            {
                "name": model.name,
                "version": str(model.version),
                "last_inference": round(one.get("last", 0.0) * 1e3),
                "inference_count": success,
                "execution_count": success,
                "inference_stats": {
                    "success": part("success", success),
                    "fail": part("fail", int(one.get("invalid", 0) + one.get("error", 0))),
                    "queue": part("queue", success),
                    "compute_input": part("input", success),
                    "compute_infer": part("compute", success),
                    "compute_output": part("output", success),
                    "cache_hit": part("", 0),
                    "cache_miss": part("", 0),
                },
                "batch_stats": [],
            }
        )
    return answer({"model_stats": found})
