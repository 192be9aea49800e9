"""Routes that are known by their whole path are called without the router in between; callers cannot tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from localrank.errors import ArtifactCorrupt
from localrank_service.app import create_app
from localrank_service.models.live import LiveModels
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio

BODY = {"features": [[1, 2, 3, 4], [4, 3, 2, 1]]}


async def test_the_service_answers_the_same_below_a_root_path(tiny_model: LiveModel) -> None:
    answers: list[dict[str, Any]] = []
    for root in ("", "/ranking"):
        app = create_app(Settings(), models=[tiny_model])
        transport = httpx.ASGITransport(app=app, root_path=root)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answers.append((await client.post(f"{root}/v1/rerank", json=BODY)).json())
            counted = (await client.get(f"{root}/metrics")).text

        assert 'localrank_http_requests_total{method="POST",route="/v1/rerank",status="200"} 1.0' in counted
    assert answers[0]["results"] == answers[1]["results"]


@pytest.mark.parametrize("path", ["/v1/rerank", "/v1/rerank/batch", "/v2/rerank"])
async def test_other_methods_are_refused_by_the_router(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)

    assert (405, "POST") == (answer.status_code, answer.headers["allow"])


async def test_an_error_of_core_is_a_problem(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def corrupt(*_: object) -> None:
        raise ArtifactCorrupt("planes.npy: truncated")

    monkeypatch.setattr(LiveModels, "find", corrupt)

    answer = await client.post("/v1/rerank", json=BODY)

    assert "application/problem+json" == answer.headers["content-type"]
    assert "planes.npy: truncated" in answer.json()["detail"]
