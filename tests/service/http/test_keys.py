from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio

BODY = {"features": [[1, 2, 3, 4]]}


@pytest.fixture
async def guarded(connect: Any, tiny_model: LiveModel) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that has both keys."""
    settings = Settings.model_validate({"api_key": "serving-key", "admin_key": "the-admin-key"})
    async with connect(settings, models=[tiny_model]) as client:
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer serving-key"},
        {"authorization": "bearer  serving-key "},
        {"x-api-key": "serving-key"},
        {"x-api-key": "the-admin-key"},
    ],
)
async def test_a_key_opens_the_serving_routes(headers: dict[str, str], guarded: httpx.AsyncClient) -> None:
    assert 200 == (await guarded.post("/v1/rerank", json=BODY, headers=headers)).status_code
    assert 200 == (await guarded.get("/v1/models", headers=headers)).status_code
    assert 200 == (await guarded.get("/info", headers=headers)).status_code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "serving-key"}, 401),
        ({"authorization": "Basic serving-key"}, 401),
        ({"authorization": "Bearer"}, 403),
        ({"authorization": "Bearer serving-key2"}, 403),
        ({"authorization": "Bearer serving-ke"}, 403),
        ({"x-api-key": ""}, 403),
        ({"x-api-key": "SERVING-KEY"}, 403),
        ({"x-api-key": "schlüssel"}, 403),
    ],
)
async def test_anything_else_does_not(
    headers: dict[str, str], status: int, guarded: httpx.AsyncClient
) -> None:
    encoded = {name.encode(): value.encode() for name, value in headers.items()}
    for path in ("/v1/rerank", "/v1/nope", "/v2/anything"):
        response = await guarded.post(path, json=BODY, headers=encoded)
        assert status == response.status_code
        assert ("www-authenticate" in response.headers) == (status == 401)
    assert status == (await guarded.get("/info", headers=encoded)).status_code


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/startupz", "/metrics", "/docs", "/openapi.json"])
async def test_health_metrics_and_documentation_need_no_key(path: str, guarded: httpx.AsyncClient) -> None:
    assert 200 == (await guarded.get(path)).status_code


async def test_the_serving_key_does_not_change_anything(guarded: httpx.AsyncClient) -> None:
    response = await guarded.post(
        "/v1/models/tiny/promote", json={"version": 1}, headers={"x-api-key": "serving-key"}
    )

    assert 403 == response.status_code


async def test_keys_are_never_shown(guarded: httpx.AsyncClient) -> None:
    shown = (await guarded.get("/info", headers={"x-api-key": "serving-key"})).text

    assert "serving-key" not in shown
    assert "the-admin-key" not in shown


async def test_without_an_admin_key_one_is_made(client: httpx.AsyncClient) -> None:
    for key in ("", "None", "admin"):
        response = await client.post(
            "/v1/models/tiny/promote", json={"version": 1}, headers={"x-api-key": key}
        )
        assert 403 == response.status_code
