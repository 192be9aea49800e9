"""The Open Inference Protocol's model repository: listing models, unloading and loading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from fastapi import APIRouter, Depends, Request, Response

from localrank_service.apis.openapi import BODY, FREE, KEY, MODEL, Schema, closed, operation
from localrank_service.apis.requests import check_admin, check_options, members_of
from localrank_service.apis.v2 import unloading
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.text import refuse

if TYPE_CHECKING:
    from localrank_service.ranking.service import Service

router = APIRouter(tags=["open inference protocol"], dependencies=[Depends(check_options)])

_INDEX = Schema("IndexRequest", FREE | {"properties": {"ready": {"type": "boolean", "default": False}}})
_CHANGE = Schema(
    "RepositoryRequest",
    {
        "type": "object",
        "properties": {"parameters": closed({"unload_dependents": {}}, optional=("unload_dependents",))},
    },
)


@router.post("/v2/repository/index")
@operation("Index", {*KEY, *BODY}, reads=_INDEX, name="list_repository")
async def index(request: Request) -> Response:
    """Every version of every model, and whether it is served."""
    service: Service = request.app.state.service
    members = await members_of(request, typed=False, may_be_empty=True)
    only_ready = members.get("ready", False)
    if type(only_ready) is not bool:
        refuse("ready", "true or false", only_ready, "/ready")
    return Response(
        orjson.dumps(await unloading.index(service, only_ready=only_ready)), media_type="application/json"
    )


@router.post("/v2/repository/models/{name}/load")
@operation("RepositoryAnswer", {*KEY, *BODY, *MODEL}, reads=_CHANGE, admin=True, name="load_model")
async def load(request: Request, name: str) -> Response:
    """Serve the model's champion in every worker; needs an admin key."""
    service: Service = request.app.state.service
    await _change(request)
    workers = await unloading.load(service, name)
    return Response(
        orjson.dumps({"name": name, "loaded": True, "workers": workers}), media_type="application/json"
    )


@router.post("/v2/repository/models/{name}/unload")
@operation("RepositoryAnswer", {*KEY, *BODY, *MODEL}, reads=_CHANGE, admin=True, name="unload_model")
async def unload(request: Request, name: str) -> Response:
    """Stop serving the model in every worker until it is loaded again; needs an admin key."""
    service: Service = request.app.state.service
    await _change(request)
    workers = await unloading.unload(service, name)
    return Response(
        orjson.dumps({"name": name, "loaded": False, "workers": workers}), media_type="application/json"
    )


async def _change(request: Request) -> None:
    """Check everything about a request that changes something."""
    check_admin(request)
    parameters = (await members_of(request, may_be_empty=True)).get("parameters", {})
    if type(parameters) is not dict:
        raise Problem(422, "parameters: expected an object", pointer="/parameters")
    for name in parameters:
        if name != "unload_dependents":
            # config and file:… would replace the model by content of the request.
            raise Problem(
                422,
                f"parameter {name!r} is not supported: models come from the registry only",
                pointer=pointer("parameters", name),
            )
