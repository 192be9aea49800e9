"""``POST /v1/feedback``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from fastapi import APIRouter, Depends, Request, Response

from localrank_service.http.body import media_type, read_body
from localrank_service.http.problems import Problem
from localrank_service.routes.options import check_options
from localrank_service.wire.feedback import LARGEST, read

if TYPE_CHECKING:
    from localrank_service.service import Service

router = APIRouter(tags=["online"], dependencies=[Depends(check_options)])


@router.post("/v1/feedback")
async def feedback(request: Request) -> Response:
    """Take clicks or grades for documents that were shown; they go to the impression log."""
    service: Service = request.app.state.service
    log = service.impressions
    if log is None:
        raise Problem(
            409,
            "feedback is off: set LOCALRANK_IMPRESSION_LOG to the share of requests to log, such as 0.1, and start again",
            kind="feature-off",
        )
    media_type(request.headers, ("application/json",))
    events = read(await read_body(request, min(LARGEST, service.settings.max_body_bytes)))
    found = log.say(request.scope, events)
    return Response(
        orjson.dumps({"request_id": request.scope["request_id"], **found}), media_type="application/json"
    )
