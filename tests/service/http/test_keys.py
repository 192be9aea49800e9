from __future__ import annotations

import asyncio
import re
import stat
from typing import TYPE_CHECKING, Any

import pytest

from localrank.errors import InvalidConfiguration
from localrank_service import app
from localrank_service.http.keys import Keys
from localrank_service.http.origin import Hosts
from localrank_service.http.problems import Problem
from localrank_service.process.settings import Settings
from localrank_service.telemetry.meters import Meters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio

BODY = {"features": [[1, 2, 3, 4]]}


@pytest.fixture
async def guarded(connect: Any, tiny_model: LiveModel) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that has both keys."""
    settings = Settings(api_key="serving-key", admin_key="the-admin-key")
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


@pytest.mark.parametrize(
    "path", ["/livez", "/readyz", "/startupz", "/metrics", "/docs", "/openapi.json", "/", "/page/main.js"]
)
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


async def test_without_an_admin_key_nobody_changes_anything(client: httpx.AsyncClient) -> None:
    for key in ("", "None", "admin"):
        response = await client.post(
            "/v1/models/tiny/promote", json={"version": 1}, headers={"x-api-key": key}
        )
        assert 403 == response.status_code


async def test_a_key_is_generated_into_the_runtime_folder_and_never_logged(
    connect: Any, tiny_model: LiveModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(runtime_dir=tmp_path / "run")

    async with (
        connect(settings, models=[tiny_model]) as first,
        connect(settings, models=[tiny_model]) as second,
    ):
        path = tmp_path / "run" / "admin.key"
        key = path.read_text().strip()
        statuses = [
            (await one.post("/v1/models/tiny/rollback", json={}, headers={"x-api-key": key})).status_code
            for one in (first, second)
        ]

    # Past the key: models that were given cannot be changed.
    assert [503, 503] == statuses
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert [path] == list(path.parent.glob("*.key*"))
    assert [f"no admin key is set; a new one was written to {path}"] == [
        record.getMessage() for record in caplog.records
    ]
    assert key not in caplog.text


async def test_if_no_key_can_be_written_the_service_says_so_and_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    settings = Settings(runtime_dir=tmp_path / "file" / "run")

    keys = app._keys(settings, Hosts(""), Meters())

    assert "Not a directory; routes that change something are closed" in caplog.text
    scope = {"path": "/v1/rerank", "headers": [(b"host", b"localhost"), (b"x-api-key", b"")]}
    keys.check(scope)
    with pytest.raises(Problem, match="not a key for this route"):
        keys.check_admin(scope)


async def test_several_keys_open_the_serving_routes(connect: Any, tiny_model: LiveModel) -> None:
    settings = Settings(api_key="one-key-1,shop:two-key-2", admin_key="admin-key-1,admin-key-2")
    async with connect(settings, models=[tiny_model]) as client:
        statuses = {
            key: (await client.get("/v1/models", headers={"x-api-key": key})).status_code
            for key in (
                "one-key-1",
                "two-key-2",
                "admin-key-1",
                "admin-key-2",
                "shop:two-key-2",
                "shop",
                "one-key-1,",
            )
        }
        changes = [
            (await client.post("/v1/models/tiny/rollback", json={}, headers={"x-api-key": key})).status_code
            for key in ("admin-key-1", "admin-key-2", "one-key-1")
        ]

    assert [200, 200, 200, 200, 403, 403, 403] == list(statuses.values())
    assert [503, 503, 403] == changes


async def test_metrics_name_keys_by_their_labels(connect: Any, tiny_model: LiveModel) -> None:
    settings = Settings(api_key="search:one-key-1,two-key-2", admin_key="the-admin-key")
    async with connect(settings, models=[tiny_model]) as client:
        for key in (
            "one-key-1",
            "one-key-1",
            "two-key-2",
            "the-admin-key",
            "wrong-key-1",
            "wrong-key-2",
            None,
        ):
            await client.get("/v1/models", headers={} if key is None else {"x-api-key": key})
        exposed = (await client.get("/metrics")).text

    counted = re.findall(r"localrank_key_checks_total\{(.*)\} (.*)", exposed)
    assert {
        ('key="search",outcome="accepted"', "2.0"),
        ('key="serving-2",outcome="accepted"', "1.0"),
        ('key="admin-1",outcome="accepted"', "1.0"),
        ('key="",outcome="refused"', "2.0"),
        ('key="",outcome="missing"', "1.0"),
    } == set(counted)
    assert "-key" not in exposed


async def test_keys_in_files_are_rotated_while_the_service_runs(
    connect: Any, tiny_model: LiveModel, tmp_path: Path
) -> None:
    (serving, admin) = (tmp_path / "serving.keys", tmp_path / "admin.keys")
    serving.write_text("old-key-1\n")
    admin.write_text("old-admin\n")
    settings = Settings(api_key_file=serving, admin_key_file=admin, poll_seconds=0.01)
    async with connect(settings, models=[tiny_model]) as client:

        async def status(key: str) -> int:
            return int((await client.get("/v1/models", headers={"x-api-key": key})).status_code)

        async def until(key: str, expected: int) -> None:
            for _ in range(2000):
                if expected == await status(key):
                    return
                await asyncio.sleep(0.002)
            raise TimeoutError

        assert [200, 403] == [await status(key) for key in ("old-key-1", "new-key-1")]
        serving.write_text("old-key-1\nnew-key-1\n")
        await until("new-key-1", 200)
        assert 200 == await status("old-key-1")
        serving.write_text("new-key-1\n")
        await until("old-key-1", 403)
        admin.write_text("new-admin\n")
        await until("new-admin", 200)
        assert [403, 200] == [await status(key) for key in ("old-admin", "new-key-1")]


PATHS = ("/v1/rerank", "/v1/rerank/batch", "/v2/rerank", "/v2/models/tiny/infer", "/v2/repository/index")
HOSTS = Settings(allowed_hosts="Rank.example, other.example")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "user@localhost",
        "localhost/..",
        "[::1",
        "",
    ],
)
async def test_without_a_key_a_page_cannot_rank_by_dns_rebinding(
    host: str, connect: Any, tiny_model: LiveModel
) -> None:
    async with connect(HOSTS, models=[tiny_model]) as client:
        answers = [await client.post(path, json=BODY, headers={"host": host}) for path in PATHS]
        answers += [await client.get(path, headers={"host": host}) for path in ("/v1/models", "/info")]
        probes = [
            (await client.get(path, headers={"host": host})).status_code for path in ("/livez", "/metrics")
        ]

    assert {403} == {answer.status_code for answer in answers}
    assert all("LOCALRANK_ALLOWED_HOSTS" in answer.json()["detail"] for answer in answers)
    assert [200, 200] == probes


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "10.1.2.3", "rank.example:80"]
)
async def test_without_a_key_its_own_names_and_addresses_are_answered(
    host: str, connect: Any, tiny_model: LiveModel
) -> None:
    async with connect(HOSTS, models=[tiny_model]) as client:
        assert 200 == (await client.post("/v1/rerank", json=BODY, headers={"host": host})).status_code
        assert 200 == (await client.get("/v1/models", headers={"host": host})).status_code


@pytest.mark.parametrize(
    "name", ["https://rank.example", "rank.example:8080", "*.example", "rank.example/", "a b"]
)
def test_a_name_that_no_request_can_address_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfiguration, match="expected host names such as rank"):
        Settings(allowed_hosts=f"other.example, {name}")


def test_addresses_may_stand_among_the_names() -> None:
    names = "10.1.2.3, ::1, rank_1.example"

    assert names == Settings(allowed_hosts=names).allowed_hosts


async def test_with_a_key_any_host_will_do(guarded: httpx.AsyncClient) -> None:
    """A page does not know the key; proxies may pass on whatever host they were asked for."""
    headers = {"x-api-key": "serving-key", "host": "evil.example"}

    assert 200 == (await guarded.post("/v1/rerank", json=BODY, headers=headers)).status_code


async def test_a_service_behind_a_proxy_may_allow_every_host(connect: Any, tiny_model: LiveModel) -> None:
    async with connect(Settings(allowed_hosts="*"), models=[tiny_model]) as client:
        answer = await client.post("/v1/rerank", json=BODY, headers={"host": "any.example"})

    assert 200 == answer.status_code


async def test_key_files_are_read_again_after_every_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    serving, admin = Settings().keyrings()
    keys = Keys(serving, admin, Hosts(""), Meters(None).key_checks)
    done: list[float | str] = []

    async def sleep(seconds: float) -> None:
        done.append(seconds)
        if len(done) > 4:
            raise asyncio.CancelledError

    monkeypatch.setattr("localrank_service.http.keys.asyncio.sleep", sleep)

    def refresh(_keys: Keys) -> None:
        done.append("read")
        assert len(done) < 5

    monkeypatch.setattr(Keys, "refresh", refresh)

    with pytest.raises(asyncio.CancelledError):
        await keys.follow(2.5)

    assert [2.5, "read", 2.5, "read", 2.5] == done


@pytest.mark.parametrize("path", ["/v1/models/tiny/promote", "/v2/repository/models/tiny/unload"])
@pytest.mark.parametrize(("size", "status"), [(64 * 1024, 422), (64 * 1024 + 1, 413)])
async def test_what_an_administrator_sends_is_small(
    path: str, size: int, status: int, guarded: httpx.AsyncClient
) -> None:
    body = b"[" + b" " * (size - 2) + b"]"
    headers = {"x-api-key": "the-admin-key", "content-type": "application/json"}

    assert status == (await guarded.post(path, content=body, headers=headers)).status_code
