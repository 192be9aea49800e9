"""Bodies of administrators: JSON, small, and without doubt about what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    import httpx

pytestmark = pytest.mark.anyio

ADMIN = {"x-api-key": "the-admin-key", "content-type": "application/json"}
ROUTES = {
    "promote": ("POST", "/v1/models/demo/promote"),
    "rollback": ("POST", "/v1/models/demo/rollback"),
    "put": ("PUT", "/v1/experiments/half"),
    "unload": ("POST", "/v2/repository/models/demo/unload"),
    "load": ("POST", "/v2/repository/models/demo/load"),
    "index": ("POST", "/v2/repository/index"),
}


@pytest.fixture
async def served(
    connect: Any, loaded: Callable[..., Awaitable[None]], models_dir: Path, tmp_path: Path
) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(
        models_dir=models_dir,
        admin_key="the-admin-key",
        experiments_file=tmp_path / "experiments.json",
        max_body_bytes=65_000,
    )
    async with connect(settings) as client:
        await loaded(client)
        yield client


@pytest.mark.parametrize("route", ROUTES)
async def test_what_is_wrong_with_a_body_is_the_same_everywhere(
    route: str, served: httpx.AsyncClient
) -> None:
    bodies = {
        b'{"name": "a", "name": "b"}': (400, "member 'name' stands twice in one object"),
        b'{"parameters": {"a": 1, "a": 1}}': (400, "member 'a' stands twice in one object"),
        b'{"name": ': (400, "the body is not JSON"),
        b"[1]": (422, "the body: expected an object, found a list"),
        b'{"name": "%s"}' % (b"a" * 64_989): (413, "more than 65000 bytes"),
    }

    for body, (status, said) in bodies.items():
        answer = await served.request(*ROUTES[route], content=body, headers=ADMIN)

        assert status == answer.status_code, answer.text
        assert said in answer.json()["detail"]


@pytest.mark.parametrize(
    ("route", "status"),
    [("promote", 400), ("rollback", 400), ("put", 400), ("unload", 200), ("load", 200), ("index", 200)],
)
async def test_only_the_repository_takes_no_body(route: str, status: int, served: httpx.AsyncClient) -> None:
    answer = await served.request(*ROUTES[route], content=b" \n", headers=ADMIN)

    assert status == answer.status_code, answer.text


@pytest.mark.parametrize("route", ROUTES)
async def test_another_content_type_is_refused(route: str, served: httpx.AsyncClient) -> None:
    answer = await served.request(
        *ROUTES[route], content=b"{}", headers=ADMIN | {"content-type": "text/plain"}
    )

    assert 415 == answer.status_code, answer.text


async def test_only_the_list_of_models_needs_no_content_type_and_no_key(served: httpx.AsyncClient) -> None:
    key = {"x-api-key": "the-admin-key"}

    untyped = {route: await served.request(*ROUTES[route], content=b"{}", headers=key) for route in ROUTES}
    keyless = {
        route: await served.request(
            *ROUTES[route], content=b"{}", headers={"content-type": "application/json"}
        )
        for route in ROUTES
    }

    assert {"index": 200} == {
        route: one.status_code for route, one in untyped.items() if one.status_code != 415
    }
    assert {"index": 200} == {
        route: one.status_code for route, one in keyless.items() if one.status_code != 401
    }


async def test_a_body_of_64_kib_is_read(connect: Any, tiny_model: Any) -> None:
    body = b'{"ready": true}'
    async with connect(models=[tiny_model]) as client:
        exactly = await client.post("/v2/repository/index", content=body.ljust(64 * 1024))
        one_more = await client.post("/v2/repository/index", content=body.ljust(64 * 1024 + 1))

    assert (200, 413) == (exactly.status_code, one_more.status_code)
