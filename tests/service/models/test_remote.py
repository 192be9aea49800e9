"""A service whose folder of models follows one at a URL."""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from localrank.disk import replace_file
from localrank.errors import InvalidConfiguration
from localrank.registry.mirror import Mirror, leading
from localrank.registry.remote import RemoteStore, push
from localrank.registry.versions import Registry
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(models_dir: Path) -> str:
    """Where the models ``demo`` and ``web`` are."""
    folder = models_dir.with_name("there")
    folder.mkdir()
    store = RemoteStore(f"file://{folder}")
    for name in ("demo", "web"):
        push(store, Registry(models_dir), name)
    return store.url


@pytest.fixture
def following(url: str, tmp_path: Path) -> Settings:
    return Settings(
        models_dir=tmp_path / "here",
        models_url=url,
        models_url_seconds=0.02,
        poll_seconds=0.01,
        admin_key="the-admin-key",
    )


async def until(client: httpx.AsyncClient, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the condition is true of the answer of ``/readyz``; return that."""
    deadline = time.monotonic() + 60
    while True:
        answer: dict[str, Any] = (await client.get("/readyz")).json()
        if condition(answer):
            return answer
        assert time.monotonic() < deadline, answer
        await asyncio.sleep(0.02)


async def test_a_service_serves_what_is_at_the_url_and_follows_it(
    connect: Any, following: Settings, url: str, models_dir: Path
) -> None:
    registry = Registry(models_dir)

    async with connect(following) as client:
        first = await until(client, lambda answer: answer.get("models") == {"demo": 1, "web": 1})
        registry.promote("demo", 2)
        push(RemoteStore(url), registry, "demo")
        await until(client, lambda answer: answer["models"]["demo"] == 2)
        metrics = (await client.get("/metrics")).text

    assert {"error": None} == first["remote"]
    assert {} == first["broken"]
    (seen,) = [line for line in metrics.splitlines() if line.startswith("localrank_remote_seen_timestamp")]
    assert float(seen.split()[1]) > 1e9


async def test_what_cannot_be_fetched_is_named_and_what_was_served_still_is(
    connect: Any, following: Settings, url: str, models_dir: Path
) -> None:
    registry = Registry(models_dir)
    there = models_dir.with_name("there")

    registry.promote("demo", 2)
    push(RemoteStore(url), registry, "demo")
    # It is there, damaged, before anybody has fetched it; its alias moves later.
    weights = there / "demo" / "2" / "scorers.weights.npy"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    registry.rollback("demo")
    push(RemoteStore(url), registry, "demo")

    async with connect(following) as client:
        await until(client, lambda answer: answer.get("models") == {"demo": 1, "web": 1})
        registry.promote("demo", 2)
        # As a whole, as `push` does: half a file is broken too.
        replace_file(there / "demo" / "aliases.json", (models_dir / "demo" / "aliases.json").read_bytes())
        answer = await until(client, lambda answer: bool(answer.get("broken")))
        metrics = (await client.get("/metrics")).text

    assert {"demo": 1, "web": 1} == answer["models"]
    assert answer["broken"]["demo"].startswith("version 2: demo/2/scorers.weights.npy: expected SHA-256")
    assert url not in str(answer)
    assert 'localrank_model_broken{model="demo"} 1.0' in metrics


async def test_a_url_that_goes_away_is_said_and_takes_nothing_with_it(
    connect: Any, following: Settings, url: str, models_dir: Path
) -> None:
    there = models_dir.with_name("there")

    async with connect(following) as client:
        await until(client, lambda answer: answer.get("models") == {"demo": 1, "web": 1})
        there.rename(there.with_name("gone"))
        away = await until(client, lambda answer: answer["remote"]["error"] is not None)
        there.with_name("gone").rename(there)
        back = await until(client, lambda answer: answer["remote"]["error"] is None)

    assert {"demo": 1, "web": 1} == away["models"] == back["models"]
    assert "LOCALRANK_MODELS_URL: expected a folder of models: there is none" == away["remote"]["error"]
    assert url not in str(away)


async def test_a_service_starts_with_what_it_has_when_the_url_is_away(
    connect: Any, following: Settings, models_dir: Path
) -> None:
    async with connect(following) as client:
        await until(client, lambda answer: answer.get("models") == {"demo": 1, "web": 1})
    shutil.rmtree(models_dir.with_name("there"))

    async with connect(following) as client:
        answer = await until(
            client, lambda answer: answer.get("remote", {}).get("error") is not None and "models" in answer
        )

    assert {"demo": 1, "web": 1} == answer["models"]


async def test_a_service_without_models_says_that_its_url_is_away(
    connect: Any, following: Settings, models_dir: Path
) -> None:
    shutil.rmtree(models_dir.with_name("there"))

    async with connect(following) as client:
        answer = await until(client, lambda answer: "cannot be read" in answer.get("detail", ""))

    assert "its URL cannot be read: LOCALRANK_MODELS_URL: expected a folder of models" in answer["detail"]


async def test_another_process_that_pulls_is_left_alone_and_followed(
    connect: Any, following: Settings, url: str
) -> None:
    """The folder is one process's at a time; who waits serves what it finds."""
    with leading(following.models_dir):
        async with connect(following) as client:
            before = await until(client, lambda answer: "has a champion" in answer.get("detail", ""))
            await asyncio.to_thread(Mirror(RemoteStore(url), following.models_dir).pull)
            await until(client, lambda answer: answer.get("models") == {"demo": 1, "web": 1})

    assert 503 == before["status"]


async def test_an_alias_that_follows_a_url_is_not_moved_here(connect: Any, following: Settings) -> None:
    async with connect(following) as client:
        await until(client, lambda answer: answer.get("models") == {"demo": 1, "web": 1})
        answer = await client.post(
            "/v1/models/demo/promote", json={"version": 1}, headers={"x-api-key": "the-admin-key"}
        )

    assert 409 == answer.status_code
    assert "localrank models push" in answer.json()["detail"]


def test_a_url_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(
        InvalidConfiguration, match="LOCALRANK_MODELS_URL: expected a URL without a password"
    ) as caught:
        Settings.from_environ({"LOCALRANK_MODELS_URL": "s3://me:secret@bucket/models"})

    assert "secret" not in str(caught.value)
