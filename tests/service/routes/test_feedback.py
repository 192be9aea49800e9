"""Feedback where nothing is logged: it reaches those that listen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.anyio

EVENT = {"request_id": "r", "id": "d", "click": True}


async def test_events_that_are_not_logged_are_counted_as_unsampled(client: httpx.AsyncClient) -> None:
    heard: list[int] = []
    service = client._transport.app.state.service  # type: ignore[attr-defined]
    off = await client.post("/v1/feedback", json={"events": [EVENT]})
    service.feedback_listeners.append(lambda events: heard.append(len(events)))

    answer = await client.post("/v1/feedback", json={"events": [EVENT, EVENT]})

    assert (409, "urn:localrank:problem:feature-off") == (off.status_code, off.json()["type"])
    assert "set LOCALRANK_IMPRESSION_LOG" in off.json()["detail"]
    assert {
        "request_id": answer.headers["x-request-id"],
        "accepted": 0,
        "unsampled": 2,
        "dropped": 0,
    } == answer.json()
    assert [2] == heard


async def test_a_body_may_be_a_mebibyte_and_no_larger_than_any_other(client: httpx.AsyncClient) -> None:
    service = client._transport.app.state.service  # type: ignore[attr-defined]
    service.feedback_listeners.append(lambda _: None)

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
