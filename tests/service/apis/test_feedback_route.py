"""Feedback where nothing is logged, and how large it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio

EVENT = {"request_id": "r", "id": "d", "click": True}


async def test_events_are_refused_if_there_is_no_log(client: httpx.AsyncClient) -> None:
    off = await client.post("/v1/feedback", json={"events": [EVENT]})

    assert (409, "urn:localrank:problem:feature-off") == (off.status_code, off.json()["type"])
    assert "set LOCALRANK_IMPRESSION_LOG" in off.json()["detail"]


async def test_a_body_may_be_a_mebibyte_and_no_larger_than_any_other(
    connect: Any, tiny_model: LiveModel, tmp_path: Path
) -> None:
    logging = Settings(impression_log=1.0, impression_log_dir=tmp_path)
    async with connect(logging, models=[tiny_model]) as client:
        statuses = [
            (
                await client.post(
                    "/v1/feedback",
                    content=b'{"events": []}'.ljust(size),
                    headers={"content-type": "application/json"},
                )
            ).status_code
            for size in (2**20, 2**20 + 1)
        ]

    assert [200, 413] == statuses
