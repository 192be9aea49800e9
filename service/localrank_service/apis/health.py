"""Is it alive, is it ready, what is it, what went on: ``/livez``, ``/readyz``, ``/startupz``, ``/info``, ``/metrics``, ``/v1/stats``.

Alive means that the process answers; started, that every model was tried; ready, that it should get requests.
"""

from __future__ import annotations

import asyncio
import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, Request, Response

from localrank import __version__
from localrank.native.library import library
from localrank_service.apis.openapi import FREE, KEY, TEXT, Schema, in_query, operation
from localrank_service.apis.requests import answer, check_options
from localrank_service.http.problems import Problem
from localrank_service.process import cpus

if TYPE_CHECKING:
    from localrank_service.ranking.service import Service

router = APIRouter(tags=["health"])

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/livez")
@operation("Live")
async def livez() -> Response:
    """200 as long as the process answers."""
    return answer({"live": True})


@router.get("/startupz")
@operation("Started", {503})
async def startupz(request: Request) -> Response:
    """200 once every worker has tried every model, broken ones too; else 503 and what is still being loaded."""
    service: Service = request.app.state.service
    if (problem := service.unstarted()) is not None:
        raise problem
    return answer({"started": True})


@router.get("/readyz")
@operation("Ready", {503})
async def readyz(request: Request) -> Response:
    """200 when requests should be sent here, and the workers that are not ready; else 503 and the reason."""
    service: Service = request.app.state.service
    if (problem := service.unready()) is not None:
        raise problem
    live = service.live
    members: dict[str, Any] = {
        "ready": True,
        "models": {name: model.version for name, model in live.champions.items()},
        "broken": dict(live.broken),
        "unready_workers": service.unready_workers(),
    }
    if service.loader is not None and service.loader.remote is not None:
        members["remote"] = {"error": service.loader.remote.error()}
    if tables := {
        f"{model.name}@{model.version}": model.tables.describe()
        for model in live.addresses.values()
        if model.tables is not None
    }:
        members["tables"] = tables
    return answer(members)


@router.get("/info", dependencies=[Depends(check_options)])
@operation(Schema("Info", FREE), KEY)
async def info(request: Request) -> Response:
    """Versions, models, limits and effective settings."""
    service: Service = request.app.state.service
    settings, live = service.settings, service.live
    members: dict[str, Any] = {
        "name": "localrank",
        "version": __version__,
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in ("numpy", "scipy", "fastapi", "uvicorn", "orjson")},
        # Whether there are compiled kernels; all answers are the same without them.
        "compiled": library() is not None,
        "pid": os.getpid(),
        "models": {
            name: {"version": model.version, "contract": model.ranker.contract.digest}
            for name, model in live.champions.items()
        },
        "broken": dict(live.broken),
        "ready": service.unready() is None,
        "settings": settings.public(),
        "threads": cpus.threads(),
        "workers": len(service.workers.living()),
        "cpus": cpus.bound(),
        "cpu_quota": cpus.quota(),
    }
    return answer(members)


@router.get("/metrics")
@operation(TEXT, media="text/plain")
async def metrics(request: Request) -> Response:
    """Prometheus text, over all workers."""
    service: Service = request.app.state.service
    # In a thread, because it takes milliseconds with many models and workers.
    text = await asyncio.to_thread(service.meters.expose)
    return Response(text, headers={"content-type": _METRICS_TYPE})


@router.get("/v1/stats", dependencies=[Depends(check_options)])
@operation(
    "Stats",
    {*KEY, 422},
    parameters=(
        in_query(
            "series",
            "Whether to answer the figures of each slice of time.",
            {"type": "boolean", "default": False},
        ),
    ),
)
async def stats(request: Request) -> Response:
    """Figures of the last 1, 5 and 15 minutes, and counts of each model since the start, over all workers."""
    service: Service = request.app.state.service
    asked = request.query_params.get("series", "false")
    if asked not in {"true", "false"}:
        raise Problem(422, f"series: expected true or false, found {asked[:40]!r}")
    # In a thread, because it takes milliseconds with many models and workers.
    living = await asyncio.to_thread(service.workers.living)
    log = service.impressions
    experiments = service.experiments
    members = {
        "workers": len(living),
        **await asyncio.to_thread(service.meters.stats, series=asked == "true"),
        "impressions": None if log is None else await asyncio.to_thread(log.state),
        "experiments": None if experiments is None else experiments.states(),
    }
    return answer(members)
