"""Published models come live, and what is wrong with one takes nothing else down."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import re
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from localrank import artifact
from localrank.disk import replace_file
from localrank.registry.versions import Registry
from localrank_service.models.copies import Copies, TableCopies
from localrank_service.models.extra import ExtraVersions
from localrank_service.models.live import LiveModel, LiveModels
from localrank_service.models.loading import Loader
from localrank_service.models.tables import Tables
from localrank_service.models.workers import Workers
from localrank_service.process import runtime_folder
from localrank_service.process.settings import Settings
from localrank_service.telemetry.meters import Meters
from tests.service.telemetry.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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

        assert {"ready": True, "models": {"demo": 1, "web": 1}, "broken": {}, "unready_workers": {}} == (
            await client.get("/readyz")
        ).json()
        assert 1 == await version_of(client, "demo")


async def test_a_version_scores_as_it_does_offline(connect: Any, loaded: Any, models_dir: Path) -> None:
    import numpy as np

    offline = artifact.load(models_dir / "demo" / "2").ranker.rank(np.array(ROWS, np.float32))

    async with connect(settings(models_dir, preload="demo@2")) as client:
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


@contextlib.contextmanager
def endless(folder: Path, version: str) -> Iterator[None]:
    """Let a version take for ever: another process of the service copies it and never ends."""
    folder.mkdir(exist_ok=True)
    with (folder / f".{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def test_a_model_that_loads_for_ever_is_given_up_and_holds_up_no_other(
    connect: Any, models_dir: Path, tmp_path: Path
) -> None:
    patient = settings(
        models_dir,
        runtime_dir=tmp_path / "run",
        load_timeout_seconds=0.05,
        ready="any",
        admin_key="the-admin-key",
    )

    other = runtime_folder.join(tmp_path / "run", patient)
    with endless(tmp_path / "run" / "versions", "web@1"):
        async with connect(patient) as client:

            async def given_up() -> bool:
                return bool(200 == (await client.get("/startupz")).status_code)

            await until(given_up)
            ready = (await client.get("/readyz")).json()
            promoted = await client.post(
                "/v1/models/demo/promote", json={"version": 2}, headers={"x-api-key": "the-admin-key"}
            )
            versions = await version_of(client, "demo")
            broken = await client.post("/v1/rerank", json={"model": "web", "features": ROWS})

    assert {"demo": 1} == ready["models"]
    assert {"web": "version 1: given up: expected to be loaded within 0.05 seconds"} == ready["broken"]
    assert (200, 2, 503) == (promoted.status_code, versions, broken.status_code)
    assert "given up: expected to be loaded within 0.05 seconds" in broken.json()["detail"]
    del other


async def test_while_one_model_loads_the_others_answer_and_it_is_served_when_it_comes_after_all(
    connect: Any, models_dir: Path, tmp_path: Path
) -> None:
    patient = settings(models_dir, runtime_dir=tmp_path / "run", load_timeout_seconds=3.0)

    async with connect(patient) as client:
        with endless(tmp_path / "run" / "versions", "demo@1"):

            async def answers() -> bool:
                answer = await client.post("/v1/rerank", json={"model": "web", "features": ROWS})
                return bool(200 == answer.status_code)

            await until(answers)
            waiting = (await client.get("/readyz")).json()

        async def ready() -> bool:
            return bool((await client.get("/readyz")).json().get("models") == {"demo": 1, "web": 1})

        await until(ready)

    assert {"demo": 1} == waiting["loading"]


async def test_a_version_that_verifies_for_ever_is_not_promoted(
    connect: Any, loaded: Any, models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on = threading.Event()
    async with connect(settings(models_dir, load_timeout_seconds=0.05, admin_key="the-admin-key")) as client:
        await loaded(client)
        monkeypatch.setattr(artifact, "load", lambda *_, **__: going_on.wait())
        late = await client.post(
            "/v1/models/demo/promote", json={"version": 2}, headers={"x-api-key": "the-admin-key"}
        )
        going_on.set()
        assert 1 == await version_of(client, "demo")

    assert 409 == late.status_code
    assert "expected the version to verify within 0.05 seconds; nothing was changed" in late.json()["detail"]
    assert {"champion": 1} == Registry(models_dir).aliases("demo")


@pytest.mark.parametrize("seconds", [0.3, None])
async def test_a_promotion_that_is_being_written_is_not_called_given_up(
    seconds: float | None, connect: Any, loaded: Any, models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version has verified; what takes long is the disk, or another process that has the lock."""
    written = threading.Event()

    def late(path: Path, content: bytes) -> None:
        assert written.wait(10)
        replace_file(path, content)

    async with connect(settings(models_dir, load_timeout_seconds=0.2, admin_key="the-admin-key")) as client:
        await loaded(client)
        monkeypatch.setattr("localrank.registry.versions.replace_file", late)
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, written.set)
        answer = await client.post(
            "/v1/models/demo/promote", json={"version": 2}, headers={"x-api-key": "the-admin-key"}
        )
        written.set()

        async def moved() -> bool:
            return 2 == await version_of(client, "demo")

        await until(moved)

    if seconds is None:
        said = "demo: the version has verified, but its alias is not written yet; it may move later"
        assert (503, said) == (answer.status_code, answer.json()["detail"])
    else:
        assert (200, 2) == (answer.status_code, answer.json()["version"])


# The loader of one worker without an application.


@pytest.fixture
def alone(models_dir: Path) -> Callable[..., Loader]:
    def made(*, models: Path = models_dir) -> Loader:
        extra, meters = ExtraVersions(0, 0), Meters()
        tables = Tables(models, TableCopies(None), meters, ())
        return Loader(
            models, LiveModels(), meters, Workers(None), copies=Copies(None), tables=tables, extra=extra
        )

    return made


def series(loader: Loader, name: str) -> dict[tuple[str, ...], float]:
    [family] = [one for one in loader._meters.collect() if one.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


async def test_what_is_served_is_told_to_the_workers_and_the_meters(
    alone: Callable[..., Loader], models_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    Registry(models_dir).promote("demo", 2, "stable")
    loader = alone()

    await loader.refresh()

    live = loader._live
    assert {
        "demo", "demo@champion", "demo@1", "demo@stable", "demo@2", "web", "web@champion", "web@1"
    } == live.addresses.keys()  # fmt: skip
    assert (1, 2) == (live.addresses["demo"].version, live.addresses["demo@stable"].version)
    assert (True, {}, {}, True) == (live.loaded, live.broken, live.loading, loader.tried.is_set())
    [report] = loader._workers.living()
    assert {"demo": {"champion": 1, "stable": 2}, "web": {"champion": 1}} == report.serving
    assert {("demo", "champion"): 1.0, ("demo", "stable"): 2.0, ("web", "champion"): 1.0} == series(
        loader, "localrank_model_version"
    )
    assert {("demo",): 0.0, ("web",): 0.0} == series(loader, "localrank_model_broken")
    assert {"1", "2"} == {version for _, version, _ in series(loader, "localrank_training_share")}
    assert 3 == len(
        [said for said in caplog.messages if re.fullmatch(r"model \w+@\d loaded in 0\.\d{3} s", said)]
    )
    first = live.addresses["demo"]
    assert (first.name, first.version) == ("demo", 1)
    assert None not in (first.manifest, first.probe)


def reads_of(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the models whose aliases are read from now on."""
    reads: list[str] = []
    aliases = loader.registry.aliases

    def reading(name: str) -> dict[str, int]:
        reads.append(name)
        return aliases(name)

    monkeypatch.setattr(loader.registry, "aliases", reading)
    return reads


async def test_nothing_is_read_again_until_something_changes(
    alone: Callable[..., Loader], models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = alone()
    await loader.refresh()
    before = loader._live.addresses
    reads = reads_of(loader, monkeypatch)

    await loader.refresh()
    await loader.refresh(retry=True)
    unchanged = reads.copy()
    Registry(models_dir).promote("demo", 2)
    await loader.refresh()

    after = loader._live.addresses
    assert ([], ["demo", "web"]) == (unchanged, reads)
    assert (2, before["web"]) == (after["demo"].version, after["web"])


async def test_a_version_that_is_broken_is_tried_again_after_thirty_seconds(
    alone: Callable[..., Loader],
    models_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    clock.perf_counter = lambda: 0.0  # type: ignore[attr-defined]
    monkeypatch.setattr("localrank_service.models.loading.time", clock)
    aliases = models_dir / "demo" / "aliases.json"
    whole = aliases.read_text()
    damage(models_dir, "demo", 1)
    loader = alone()
    await loader.refresh()
    broken = dict(loader._live.broken)
    (models_dir / "demo" / "1").rename(models_dir / "away")
    (models_dir / "demo" / "2").rename(models_dir / "demo" / "1")
    reads = reads_of(loader, monkeypatch)
    counts = []
    for seconds in (29.9, 0.1, 30.0):
        clock.now += seconds
        await loader.refresh()
        counts.append(len(reads))
    await loader.refresh(retry=True)

    assert ["demo"] == list(broken)
    assert broken["demo"].startswith("version 1: demo/1")
    assert [0, 2, 4] == counts
    assert 6 == len(reads)
    assert {("demo",): 1.0, ("web",): 0.0} == series(loader, "localrank_model_broken")
    assert whole == aliases.read_text()
    assert any(said.startswith("model demo is broken: version 1: ") for said in caplog.messages)


async def test_while_models_are_loaded_those_that_are_left_are_named(
    alone: Callable[..., Loader], models_dir: Path
) -> None:
    Registry(models_dir).promote("demo", 2, "a-stable")
    loader = alone()
    left: list[dict[str, int]] = []
    read = loader._read

    def reading(name: str, version: int) -> LiveModel:
        left.append(dict(loader._live.loading))
        return read(name, version)

    loader._read = reading  # type: ignore[method-assign]

    await loader.refresh()

    assert [
        {"demo": 1, "demo@a-stable": 2, "web": 1}, {"demo@a-stable": 2, "web": 1}, {"web": 1}
    ] == left  # fmt: skip
    assert {} == loader._live.loading


async def test_messages_hold_no_path_of_this_machine(alone: Callable[..., Loader], models_dir: Path) -> None:
    loader = alone()

    assert "demo/1: gone" == loader.shown(ValueError(f"{models_dir}/demo/1: gone"))


async def test_a_folder_of_models_that_cannot_be_read_is_tried_again_and_again(
    alone: Callable[..., Loader], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loader = alone()
    looks: list[int] = []
    look = loader._look

    def failing() -> Any:
        looks.append(len(looks))
        if len(looks) == 1:
            raise RuntimeError("anything")
        return look()

    monkeypatch.setattr(loader, "_look", failing)
    following = asyncio.create_task(loader.follow(0.001))

    async def followed() -> bool:
        return loader.tried.is_set() and len(looks) > 3

    await until(followed)
    following.cancel()

    assert [f"cannot read the folder of models {loader.registry.models_dir}; trying again"] == caplog.messages
    assert caplog.records[0].exc_info


async def test_hidden_folders_and_files_are_no_models(alone: Callable[..., Loader], models_dir: Path) -> None:
    shutil.copytree(models_dir / "demo", models_dir / ".hidden")
    (models_dir / "notes").write_text("")
    (models_dir / "empty").mkdir()
    loader = alone()

    await loader.refresh()

    assert ({}, ["demo", "web"]) == (loader._live.broken, list(loader._live.champions))
