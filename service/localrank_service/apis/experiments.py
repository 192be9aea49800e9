"""What experiments there are, how they go, and changing them: ``/v1/experiments``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends, Request, Response

from localrank_service.apis.openapi import BODY, KEY, closed, described_by, operation, request_of
from localrank_service.apis.requests import answer, check_admin, check_options, members_of
from localrank_service.http.problems import Problem
from localrank_service.online.definition import GUARDRAILS, MEMBERS, defined
from localrank_service.online.experiments import OFF
from localrank_service.wire.members import names_of

if TYPE_CHECKING:
    from localrank_service.online.experiments import Experiments
    from localrank_service.ranking.service import Service

router = APIRouter(tags=["experiments"], dependencies=[Depends(check_options)])

_SETTINGS = request_of(
    "ExperimentSettings",
    MEMBERS,
    required=("kind", "model", "candidate"),
    examples=[{"kind": "canary", "model": "demo", "candidate": "demo@2", "percent": 5}],
)
_SETTINGS.members["properties"]["guardrails"] = closed(
    described_by(GUARDRAILS), optional=names_of(GUARDRAILS)
)


@router.get("/v1/experiments")
@operation("Experiments", {*KEY, 409})
async def list_experiments(request: Request) -> Response:
    """Every experiment: its settings, its state, and the counts of its arms over all workers."""
    service: Service = request.app.state.service
    experiments = _on(service)
    return answer(await asyncio.to_thread(experiments.shown))


@router.put("/v1/experiments/{name}")
@operation("ExperimentChanged", {*KEY, *BODY, 404, 409, 503}, reads=_SETTINGS, admin=True)
async def put_experiment(request: Request, name: str) -> Response:
    """Add an experiment or change its settings, in every worker; needs an admin key."""
    service: Service = request.app.state.service
    check_admin(request)
    experiments = _on(service)
    members = await members_of(request)
    if members.setdefault("name", name) != name:
        raise Problem(422, f"name: expected {name!r}, as in the path, or none", pointer="/name")
    definition = defined(members)
    workers = await experiments.change(name, definition, service.settings.switch_timeout_seconds)
    return answer({"name": name, "run": definition.run, "workers": workers})


@router.delete("/v1/experiments/{name}")
@operation("ExperimentChanged", {*KEY, 404, 409, 503}, admin=True)
async def delete_experiment(request: Request, name: str) -> Response:
    """End an experiment, in every worker, and forget its counts; needs an admin key."""
    service: Service = request.app.state.service
    check_admin(request)
    experiments = _on(service)
    workers = await experiments.change(name, None, service.settings.switch_timeout_seconds)
    return answer({"name": name, "run": None, "workers": workers})


def _on(service: Service) -> Experiments:
    if service.experiments is None:
        raise Problem(409, OFF, kind="feature-off")
    return service.experiments
