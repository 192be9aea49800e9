"""Which versions a request may name, and which requests have one loaded."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from localrank import artifact
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import httpx

pytestmark = pytest.mark.anyio

ADMIN = {"x-api-key": "the-admin-key"}
SERVING = {"x-api-key": "the-serving-key"}
ROWS = [[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], [0.0, 9.0, 0.0, 0.0]]
INPUTS = {"inputs": [{"name": "features", "datatype": "FP32", "shape": [3, 4], "data": ROWS}]}
HITS: dict[str, Any] = {"hits": {"hits": []}}
JUDGED = {"queries": [{"documents": [{"features": row, "label": 1} for row in ROWS]}]}

#: Every route by which a caller names a version: method, path, body.
DOORS: dict[str, tuple[str, str, Any]] = {
    "rerank": ("POST", "/v1/rerank", {"model": "demo@2", "features": ROWS}),
    "cohere": ("POST", "/v2/rerank", {"model": "demo@2", "documents": [{"features": row} for row in ROWS]}),
    "compare": ("POST", "/v1/compare", {"baseline": "demo", "candidate": "demo@2", "features": ROWS}),
    "evaluate": ("POST", "/v1/evaluate", {"model": "demo@2", **JUDGED}),
    "text": ("POST", "/v1/evaluate?model=demo@2", b"1 qid:1 1:1 2:2 3:3 4:4\n"),
    "elasticsearch": ("POST", "/v1/adapters/elasticsearch?model=demo@2", HITS),
    "infer": ("POST", "/v2/models/demo/versions/2/infer", INPUTS),
    "metadata": ("GET", "/v2/models/demo/versions/2", None),
    "ready": ("GET", "/v2/models/demo/versions/2/ready", None),
    "show": ("GET", "/v1/models/demo@2", None),
    "schema": ("GET", "/v1/models/demo@2/schema", None),
    "clusters": ("GET", "/v1/models/demo@2/clusters", None),
    "diff": ("GET", "/v1/models/demo/diff?before=1&after=2", None),
}


def settings(models_dir: Path, **members: Any) -> Settings:
    return Settings(
        models_dir=models_dir,
        poll_seconds=0.01,
        api_key="the-serving-key",
        admin_key="the-admin-key",
        **members,
    )


async def through(client: httpx.AsyncClient, door: str, key: dict[str, str]) -> httpx.Response:
    method, path, body = DOORS[door]
    if isinstance(body, bytes):
        return await client.request(method, path, content=body, headers=key | {"content-type": "text/plain"})
    return await client.request(method, path, json=body, headers=key)


async def rank(client: httpx.AsyncClient, model: str, key: dict[str, str] = SERVING) -> httpx.Response:
    return await client.post("/v1/rerank", json={"model": model, "features": ROWS}, headers=key)


async def loaded_versions(client: httpx.AsyncClient) -> list[int]:
    listed = (await client.get("/v1/models/demo/versions", headers=SERVING)).json()["versions"]
    return sorted(one["version"] for one in listed if one["live"])


@pytest.mark.parametrize("door", DOORS)
async def test_by_no_door_does_a_serving_key_load_a_version(
    door: str, connect: Any, loaded: Callable[..., Awaitable[None]], models_dir: Path
) -> None:
    async with connect(settings(models_dir, extra_versions=2)) as client:
        await loaded(client)
        refused = await through(client, door, SERVING)
        before = await loaded_versions(client)
        allowed = await through(client, door, ADMIN)
        after = await loaded_versions(client)
        named = await through(client, door, SERVING)

    assert (409, "urn:localrank:problem:version-not-loaded") == (refused.status_code, refused.json()["type"])
    assert (
        "version demo@2 is published, but not loaded; send an admin key to have it loaded now, or start the "
        "service with --preload demo@2" == refused.json()["detail"]
    )
    assert ([1], [1, 2]) == (before, after)
    # What is loaded may be named by everybody.
    assert allowed.status_code == named.status_code != 409


async def test_by_default_no_request_loads_a_version(
    connect: Any, loaded: Callable[..., Awaitable[None]], models_dir: Path
) -> None:
    async with connect(settings(models_dir)) as client:
        await loaded(client)
        answers = [await rank(client, "demo@2", key) for key in (SERVING, ADMIN)]
        unknown = [
            await rank(client, model) for model in ("demo@3", "demo@0", "nope@1", "../demo@2", "demo@٢")
        ]

    said = "version demo@2 is published, but not loaded; give it an alias, or start the service with --preload demo@2"
    assert [(409, said, "/model")] * 2 == [
        (one.status_code, one.json()["detail"], one.json()["pointer"]) for one in answers
    ]
    assert [404] * 5 == [one.status_code for one in unknown]


@pytest.mark.parametrize("named", [{"preload": "web@1, demo@2"}, {"model": "demo@2"}])
async def test_what_a_setting_names_is_loaded_at_the_start(
    named: dict[str, str], connect: Any, loaded: Callable[..., Awaitable[None]], models_dir: Path
) -> None:
    async with connect(settings(models_dir, **named)) as client:
        await loaded(client)
        answer = await rank(client, "demo@2")
        listed = (await client.get("/v1/models/demo", headers=SERVING)).json()

    assert (200, 2) == (answer.status_code, answer.json()["version"])
    assert {"champion": 1} == listed["aliases"]


async def test_a_preloaded_version_that_is_broken_is_named_and_not_read_for_requests(
    connect: Any, loaded: Callable[..., Awaitable[None]], models_dir: Path
) -> None:
    (models_dir / "demo" / "2" / "scorers.weights.npy").unlink()
    async with connect(settings(models_dir, preload="demo@2", extra_versions=1)) as client:
        await loaded(client)
        answers = [await rank(client, "demo@2", key) for key in (SERVING, ADMIN)]
        ready = await client.get("/readyz")

    assert [503, 503] == [one.status_code for one in answers]
    assert (200, ["demo@2"]) == (ready.status_code, list(ready.json()["broken"]))


async def test_extra_versions_make_room_for_each_other_by_number_and_by_bytes(
    connect: Any, loaded: Callable[..., Awaitable[None]], tmp_path: Path, publisher: Any
) -> None:
    registry = publisher(tmp_path, "demo", 1.0, 2.0, 3.0, 4.0)
    size = artifact.read_manifest(registry.resolve("demo@2").path).size
    found = []
    for limits in (
        {"extra_versions": 2},
        {"extra_versions": 3, "extra_versions_bytes": 3 * size - 1},
        {"extra_versions": 3, "extra_versions_bytes": size // 2},
    ):
        async with connect(settings(tmp_path, **limits)) as client:
            await loaded(client)
            answers = [await rank(client, f"demo@{version}", ADMIN) for version in (2, 3, 4)]
            found.append((answers[-1].status_code, await loaded_versions(client)))

    assert [(200, [1, 3, 4]), (200, [1, 3, 4]), (409, [1])] == found
    assert f"version demo@4 has {size:,} bytes" in answers[-1].json()["detail"]


async def test_versions_are_loaded_at_a_limited_pace(
    connect: Any,
    loaded: Callable[..., Awaitable[None]],
    tmp_path: Path,
    publisher: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("localrank_service.models.extra.monotonic", lambda: 7.0)
    publisher(tmp_path, "demo", *map(float, range(1, 8)))
    async with connect(settings(tmp_path, extra_versions=10)) as client:
        await loaded(client)
        queries = [{"model": f"demo@{version}", "features": ROWS} for version in range(2, 8)]
        answer = await client.post("/v1/rerank/batch", json={"queries": queries}, headers=ADMIN)
        alone = await rank(client, "demo@7", ADMIN)

    assert [200, 200, 200, 200, 429, 429] == [one["status"] for one in answer.json()["answers"]]
    assert (429, "4") == (alone.status_code, alone.headers["retry-after"])


async def test_a_batch_names_a_limited_number_of_models(
    connect: Any, loaded: Callable[..., Awaitable[None]], models_dir: Path
) -> None:
    """The models need not be there."""
    async with connect(settings(models_dir)) as client:
        await loaded(client)
        names = ["demo", *(f"demo@{version}" for version in range(3, 40)), "demo"]
        queries = [{"model": name, "features": ROWS} for name in names]
        answer = await client.post("/v1/rerank/batch", json={"queries": queries}, headers=SERVING)

    statuses = [one["status"] for one in answer.json()["answers"]]
    assert [200, *[404] * 31, *[422] * 6, 200] == statuses
    refused = answer.json()["answers"][32]["problem"]
    assert "/queries/32/model" == refused["pointer"]
    assert "expected at most 32 different models in one request" in refused["detail"]


async def test_a_promotion_does_not_wait_for_a_version_that_a_request_has_loaded(
    connect: Any,
    loaded: Callable[..., Awaitable[None]],
    tmp_path: Path,
    publisher: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher(tmp_path / "models", "demo", 1.0, 2.0, 3.0)
    begun, going_on = asyncio.Event(), threading.Event()
    loop, load = asyncio.get_running_loop(), artifact.load

    def slow(folder: Path, **more: Any) -> Any:
        if folder.name == "3":
            loop.call_soon_threadsafe(begun.set)
            assert going_on.wait(20)
        return load(folder, **more)

    shared = settings(tmp_path / "models", runtime_dir=tmp_path / "run", extra_versions=1)
    async with connect(shared) as client:
        await loaded(client)
        monkeypatch.setattr(artifact, "load", slow)
        asked = asyncio.create_task(rank(client, "demo@3", ADMIN))
        await begun.wait()
        promoted = await client.post("/v1/models/demo/promote", json={"version": 2}, headers=ADMIN)
        waiting = not asked.done()
        going_on.set()
        answer = await asked

    assert (200, True, 200, 3) == (
        promoted.status_code,
        waiting,
        answer.status_code,
        answer.json()["version"],
    )


async def test_a_version_that_loads_for_ever_is_given_up_and_keeps_its_place(
    connect: Any,
    loaded: Callable[..., Awaitable[None]],
    models_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    going_on = threading.Event()
    async with connect(settings(models_dir, extra_versions=4, load_timeout_seconds=0.02)) as client:
        await loaded(client)
        with monkeypatch.context() as patched:
            patched.setattr(artifact, "load", lambda *_, **__: going_on.wait())
            answers = [await rank(client, "demo@2", ADMIN) for _ in range(5)]
        going_on.set()

    assert [503] * 4 + [429] == [one.status_code for one in answers]
    assert "given up: expected to be loaded within 0.02 seconds" in answers[0].json()["detail"]


async def test_a_broken_version_is_refused_without_a_path_of_the_server(
    connect: Any, loaded: Callable[..., Awaitable[None]], models_dir: Path
) -> None:
    (models_dir / "demo" / "2" / "scorers.weights.npy").unlink()
    async with connect(settings(models_dir, extra_versions=1)) as client:
        await loaded(client)
        response = await rank(client, "demo@2", ADMIN)

    assert (503, "/model") == (response.status_code, response.json()["pointer"])
    assert "demo/2" in response.json()["detail"]
    assert str(models_dir) not in response.text
