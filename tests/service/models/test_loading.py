"""Published models come live, and what is wrong with one takes nothing else down."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from localrank import artifact
from localrank.registry import Registry
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

pytestmark = pytest.mark.anyio

ROWS = [[1.0, 2.0, 3.0, 4.0], [4.0, 1.0, 1.0, 0.5], [0.5, 0.25, 2.0, 1.0]]


def settings(models_dir: Path, **members: Any) -> Settings:
    return Settings(models_dir=models_dir, poll_seconds=0.01, **members)


async def version_of(client: httpx.AsyncClient, address: str) -> int:
    response = await client.post("/v1/rerank", json={"model": address, "features": ROWS})
    assert 200 == response.status_code, response.text
    version: int = response.json()["version"]
    return version


async def until(condition: Callable[[], Any]) -> None:
    """Wait until the condition is true of the running application."""
    deadline = time.monotonic() + 20
    while not await condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def damage(models_dir: Path, name: str, version: int) -> None:
    """Flip a bit of the scorers' weights."""
    weights = models_dir / name / str(version) / "scorers.weights.npy"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.chmod(0o644)
    weights.write_bytes(content)


async def test_every_model_with_a_champion_is_served(connect: Any, loaded: Any, models_dir: Path) -> None:
    async with connect(settings(models_dir)) as client:
        await loaded(client)

        assert {"ready": True, "models": {"demo": 1, "web": 1}, "broken": {}} == (
            await client.get("/readyz")
        ).json()
        assert 1 == await version_of(client, "demo")


async def test_a_version_scores_as_it_does_offline(connect: Any, loaded: Any, models_dir: Path) -> None:
    import numpy as np

    offline = artifact.load(models_dir / "demo" / "2").ranker.rank(np.array(ROWS, np.float32))

    async with connect(settings(models_dir)) as client:
        await loaded(client)
        answer = (await client.post("/v1/rerank", json={"model": "demo@2", "features": ROWS})).json()

    assert offline.scores[offline.order].tolist() == [result["score"] for result in answer["results"]]


async def test_alive_but_not_ready_while_models_are_loaded(
    connect: Any, loaded: Any, models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_load = threading.Event()
    load = artifact.load

    def slow(path: Path, **more: Any) -> Any:
        assert may_load.wait(20)
        return load(path, **more)

    monkeypatch.setattr(artifact, "load", slow)
    async with connect(settings(models_dir)) as client:
        try:
            assert 200 == (await client.get("/livez")).status_code

            async def listed() -> Any:
                return (await client.get("/v1/models")).json()["loading"]

            await until(listed)
            assert {"demo": 1, "web": 1} == await listed()
            said = "models are being loaded: demo (version 1), web (version 1)"
            for path in ("/startupz", "/readyz", "/v2/health/ready"):
                response = await client.get(path)
                assert (503, "1") == (response.status_code, response.headers["retry-after"])
                members = response.json()
                assert (said, {"demo": 1, "web": 1}) == (members["detail"], members["loading"])
            early = await client.post("/v1/rerank", json={"model": "demo", "features": ROWS})
            assert (503, said) == (early.status_code, early.json()["detail"])
        finally:
            may_load.set()
        await loaded(client)
        assert 200 == (await client.get("/readyz")).status_code
        assert {} == await listed()


async def test_a_broken_model_is_named_and_the_others_serve(
    connect: Any, loaded: Any, models_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage(models_dir, "web", 1)

    async with connect(settings(models_dir)) as client:
        await loaded(client)
        ready = await client.get("/readyz")
        info = await client.get("/info")
        listed = await client.get("/v1/models")
        refused = await client.post("/v1/rerank", json={"model": "web", "features": ROWS})
        unnamed = await client.post("/v1/rerank", json={"features": ROWS})
        metrics = await client.get("/metrics")

        assert 1 == await version_of(client, "demo")

    assert 503 == ready.status_code
    assert "model 'web' is broken: version 1: web/1: scorers.weights.npy" in ready.json()["detail"]
    for response in (info, listed):
        assert "scorers.weights.npy" in response.json()["broken"]["web"]
    assert (503, "/model") == (refused.status_code, refused.json()["pointer"])
    assert any("web" in record.getMessage() and "broken" in record.getMessage() for record in caplog.records)
    # One model is left, but it is not the only one: it must not answer for the other.
    assert 422 == unnamed.status_code
    assert 'localrank_model_broken{model="web"} 1.0' in metrics.text
    assert 'localrank_model_broken{model="demo"} 0.0' in metrics.text


async def test_an_operator_may_call_that_ready(connect: Any, loaded: Any, models_dir: Path) -> None:
    damage(models_dir, "web", 1)

    async with connect(settings(models_dir, ready="any")) as client:
        await loaded(client)
        ready = await client.get("/readyz")

    assert 200 == ready.status_code
    assert {"demo": 1} == ready.json()["models"]
    assert "scorers.weights.npy" in ready.json()["broken"]["web"]


@pytest.mark.parametrize("damage_all", [True, False])
async def test_without_any_model_it_is_never_ready(
    connect: Any, loaded: Any, models_dir: Path, tmp_path: Path, *, damage_all: bool
) -> None:
    for name in ("demo", "web"):
        damage(models_dir, name, 1)

    async with connect(settings(models_dir if damage_all else tmp_path / "nowhere", ready="any")) as client:
        await loaded(client)
        ready = await client.get("/readyz")

    assert 503 == ready.status_code
    assert ("is broken" if damage_all else "has a champion") in ready.json()["detail"]


async def test_unreadable_aliases_break_one_model_only(connect: Any, loaded: Any, models_dir: Path) -> None:
    (models_dir / "web" / "aliases.json").write_text("{")

    async with connect(settings(models_dir)) as client:
        await loaded(client)
        broken = (await client.get("/info")).json()["broken"]

        assert 1 == await version_of(client, "demo")

    assert ["web"] == list(broken)
    assert "aliases.json" in broken["web"]


async def test_versions_and_aliases_are_addressed(connect: Any, loaded: Any, models_dir: Path) -> None:
    Registry(models_dir).promote("demo", 2, "challenger")

    async with connect(settings(models_dir)) as client:
        await loaded(client)

        assert {"demo": 1, "demo@champion": 1, "demo@challenger": 2, "demo@1": 1, "demo@2": 2} == {
            address: await version_of(client, address)
            for address in ("demo", "demo@champion", "demo@challenger", "demo@1", "demo@2")
        }
        for address in (
            "demo@" + "9" * 5000,
            "demo@01",
            "demo@٢",
            "demo@3",
            "demo@nope",
            "nope@1",
            "../demo@1",
            "demo@1/../2",
            "demo@" + "9" * 400,
        ):
            response = await client.post("/v1/rerank", json={"model": address, "features": ROWS})
            assert (404, "/model") == (response.status_code, response.json()["pointer"]), address


async def test_versions_without_an_alias_are_loaded_when_asked_for_and_forgotten(
    connect: Any, loaded: Any, tmp_path: Path, publisher: Any
) -> None:
    publisher(tmp_path, "demo", 1.0, 2.0, 3.0, 4.0)

    async with connect(settings(tmp_path, extra_versions=2)) as client:
        await loaded(client)
        live = client._transport.app.state.service.live
        for version in (2, 3, 4):
            assert version == await version_of(client, f"demo@{version}")

        assert ["demo", "demo@1", "demo@3", "demo@4", "demo@champion"] == sorted(live.addresses)


async def test_or_not_at_all(connect: Any, loaded: Any, models_dir: Path) -> None:
    async with connect(settings(models_dir, extra_versions=0)) as client:
        await loaded(client)
        response = await client.post("/v1/rerank", json={"model": "demo@2", "features": ROWS})

    assert 404 == response.status_code


async def test_a_promotion_elsewhere_is_noticed(
    connect: Any, loaded: Any, models_dir: Path, publisher: Any
) -> None:
    async with connect(settings(models_dir)) as client:
        await loaded(client)

        async def switched() -> bool:
            return 2 == await version_of(client, "demo")

        async def appeared() -> bool:
            return "new" in (await client.get("/readyz")).json()["models"]

        Registry(models_dir).promote("demo", 2)
        await until(switched)
        publisher(models_dir, "new", 1.0)
        await until(appeared)

        assert 1 == await version_of(client, "new")


async def test_a_champion_that_does_not_verify_leaves_the_old_one_serving(
    connect: Any, loaded: Any, models_dir: Path
) -> None:
    async with connect(settings(models_dir)) as client:
        await loaded(client)
        Registry(models_dir).promote("demo", 2)
        damage(models_dir, "demo", 2)
        # The alias has moved, or the application has noticed already and serves the sound version.
        damaged = json.loads((models_dir / "demo" / "aliases.json").read_text())

        async def decided() -> bool:
            info = (await client.get("/info")).json()
            return "demo" in info["broken"] or 2 == info["models"]["demo"]["version"]

        await until(decided)
        ready = await client.get("/readyz")

        assert await version_of(client, "demo") in {1, 2}
    assert 2 == damaged["aliases"]["champion"]
    assert 200 == ready.status_code


async def test_deleting_a_served_version_is_harmless(connect: Any, loaded: Any, models_dir: Path) -> None:
    import shutil

    async with connect(settings(models_dir)) as client:
        await loaded(client)
        shutil.rmtree(models_dir / "web" / "1")
        await asyncio.sleep(0.05)

        assert 1 == await version_of(client, "web")


@pytest.mark.parametrize("away", ["", "web", "web/aliases.json"], ids=["all", "model", "aliases"])
async def test_what_is_served_stays_when_its_folder_is_gone(
    connect: Any, loaded: Any, models_dir: Path, away: str
) -> None:
    """The disk may be gone for a while. Who wants to end serving a model unloads it."""
    moved = models_dir.with_name("away")
    async with connect(settings(models_dir)) as client:
        await loaded(client)
        (models_dir / away).rename(moved)

        async def broken() -> Any:
            return (await client.get("/readyz")).json()["broken"]

        await until(broken)
        reasons, ready = await broken(), await client.get("/readyz")
        versions = [await version_of(client, name) for name in ("demo", "web")]
        moved.rename(models_dir / away)

        async def whole() -> bool:
            return not await broken()

        await until(whole)

    assert "web/aliases.json: no such file" == reasons["web"]
    assert (200, {"demo": 1, "web": 1}) == (ready.status_code, ready.json()["models"])
    assert [1, 1] == versions


async def test_a_model_whose_folder_is_gone_can_be_unloaded(
    connect: Any, loaded: Any, models_dir: Path
) -> None:
    admin = {"x-api-key": "the-admin-key"}
    async with connect(settings(models_dir, admin_key=admin["x-api-key"])) as client:
        await loaded(client)
        shutil.rmtree(models_dir / "web")

        unloaded = await client.post("/v2/repository/models/web/unload", json={}, headers=admin)
        again = await client.post("/v2/repository/models/web/unload", json={}, headers=admin)
        listed = (await client.get("/v1/models")).json()

    assert (200, 404) == (unloaded.status_code, again.status_code)
    assert ["demo"] == [model["name"] for model in listed["models"]]
    assert {} == listed["broken"]


async def test_the_default_model_is_a_setting(connect: Any, loaded: Any, models_dir: Path) -> None:
    async with connect(settings(models_dir, model="web")) as client:
        await loaded(client)
        answer = await client.post("/v1/rerank", json={"features": ROWS})

        assert ("web", 200) == (answer.json()["model"], answer.status_code)
    async with connect(settings(models_dir, model="demo@2")) as client:
        await loaded(client)
        answers = [await client.post("/v1/rerank", json={"features": ROWS}) for _ in range(2)]

        assert [("demo", 2)] * 2 == [(one.json()["model"], one.json()["version"]) for one in answers]
        unknown = [
            (await client.post("/v1/rerank", json={"features": ROWS, "model": name})).json()["detail"]
            for name in ("demo@9", "n" * 5000)
        ]

        assert unknown[0].startswith("no model 'demo@9'; expected one of: demo@1, demo@2")
        assert f"no model '{'n' * 100}'; expected one of: demo, web" == unknown[1]
    async with connect(settings(models_dir, model="nope")) as client:
        await loaded(client)
        answer = await client.post("/v1/rerank", json={"features": ROWS})

        assert 404 == answer.status_code
        assert "no model 'nope'" in answer.json()["detail"]


async def test_a_broken_version_without_an_alias_is_503_where_it_is_asked_for(
    connect: Any, loaded: Any, models_dir: Path
) -> None:
    damage(models_dir, "demo", 2)

    async with connect(settings(models_dir)) as client:
        await loaded(client)
        response = await client.post("/v1/rerank", json={"model": "demo@2", "features": ROWS})
        shown = await client.get("/v1/models/demo@2")

        assert 1 == await version_of(client, "demo")

    assert (503, "/model") == (response.status_code, response.json()["pointer"])
    assert (503, None) == (shown.status_code, shown.json()["pointer"])
    assert "demo/2: scorers.weights.npy" in response.json()["detail"]
    assert str(models_dir) not in response.text
