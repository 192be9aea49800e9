"""What went on in the last minutes and since the start, without Prometheus: ``/v1/stats``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson
from fastapi import APIRouter, Depends, Request, Response

from localrank_service.apis.openapi import KEY, in_query, operation
from localrank_service.http.problems import Problem
from localrank_service.routes.options import check_options

if TYPE_CHECKING:
    from localrank_service.service import Service

router = APIRouter(tags=["health"], dependencies=[Depends(check_options)])


@router.get("/v1/stats")
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
    return Response(
        orjson.dumps(members), media_type="application/json", headers={"cache-control": "no-store"}
    )
