"""What went on in the last minutes, without Prometheus: ``/v1/stats``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson
from fastapi import APIRouter, Request, Response

if TYPE_CHECKING:
    from localrank_service.service import Service

__all__ = ["router"]

router = APIRouter(tags=["health"])


@router.get("/v1/stats")
async def stats(request: Request) -> Response:
    """Requests, their outcomes and the quantiles of their stages in the last 1, 5 and 15 minutes, over all workers."""
    service: Service = request.app.state.service
    # Aside, because it takes milliseconds with many models and workers.
    living = await asyncio.to_thread(service.workers.living)
    members = {"workers": len(living), **await asyncio.to_thread(service.meters.stats)}
    log = service.impressions
    members["impressions"] = None if log is None else await asyncio.to_thread(log.state)
    experiments = service.experiments
    members["experiments"] = None if experiments is None else experiments.states()
    return Response(
        orjson.dumps(members), media_type="application/json", headers={"cache-control": "no-store"}
    )
