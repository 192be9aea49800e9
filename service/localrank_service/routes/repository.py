"""The Open Inference Protocol's model repository: listing models, unloading and loading them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request, Response

from localrank_service.http.body import LARGEST_CHANGE, media_type, read_body
from localrank_service.http.problems import Problem, pointer
from localrank_service.models import repository

if TYPE_CHECKING:
    from localrank_service.service import Service

__all__ = ["router"]

router = APIRouter(tags=["open inference protocol"])


@router.post("/v2/repository/index")
async def index(request: Request) -> Response:
    """Every version of every model, and whether it is served."""
    service: Service = request.app.state.service
    # Clients of the protocol send no content type here.
    if "content-type" in request.headers:
        media_type(request.headers, ("application/json",))
    members = await _members(request)
    only_ready = members.get("ready", False)
    if type(only_ready) is not bool:
        raise Problem(422, "ready: expected true or false", pointer="/ready")
    return Response(
        orjson.dumps(await repository.index(service, only_ready=only_ready)), media_type="application/json"
    )


@router.post("/v2/repository/models/{name}/load")
async def load(request: Request, name: str) -> Response:
    """Serve the model's champion in every worker; needs an admin key."""
    service: Service = request.app.state.service
    await _change(request)
    workers = await repository.load(service, name)
    return Response(
        orjson.dumps({"name": name, "loaded": True, "workers": workers}), media_type="application/json"
    )


@router.post("/v2/repository/models/{name}/unload")
async def unload(request: Request, name: str) -> Response:
    """Stop serving the model in every worker until it is loaded again; needs an admin key."""
    service: Service = request.app.state.service
    await _change(request)
    workers = await repository.unload(service, name)
    return Response(
        orjson.dumps({"name": name, "loaded": False, "workers": workers}), media_type="application/json"
    )


async def _change(request: Request) -> None:
    """Check everything about a request that changes something."""
    service: Service = request.app.state.service
    service.hosts.check_change(request.headers)
    service.keys.check_admin(request.scope)
    # A page can send a body without a content type unasked, but not JSON.
    media_type(request.headers, ("application/json",))
    parameters = (await _members(request)).get("parameters", {})
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


async def _members(request: Request) -> dict[str, Any]:
    """Return the body's members; there may be no body."""
    service: Service = request.app.state.service
    body = await read_body(request, min(LARGEST_CHANGE, service.settings.max_body_bytes))
    if not body.strip():
        return {}
    try:
        members = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the body is not JSON: {error}", pointer="") from None
    if type(members) is not dict:
        raise Problem(422, "the body: expected an object", pointer="")
    found: dict[str, Any] = members
    return found
