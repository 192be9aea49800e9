"""Disks that are full or read-only: requests are answered all the same, and changes tell the truth."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from localrank.artifact import Provenance
from localrank.errors import PublishFailed
from localrank.registry.versions import Registry
from tests.faults.load import loaded
from tests.faults.running import read_only, running, small_disk, until

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from localrank.artifact import Artifact
    from tests.faults.load import Answer
    from tests.faults.running import Running

pytestmark = pytest.mark.soak


def fill(folder: Path) -> Path:
    """Write a file that takes all the room that is left."""
    path = folder / "everything"
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return path


def change(service: Running, action: str, **members: Any) -> httpx.Response:
    return service.client.post(f"/v1/models/demo/{action}", json=members)


def test_a_full_runtime_disk_stops_neither_answers_nor_promotions_nor_new_workers(
    models_dir: Path, body: bytes
) -> None:
    temporary = models_dir.parent / "tmp"
    with (
        running(models_dir, prepare=[small_disk(temporary, "4m")]) as service,
        loaded(service.url, body) as load,
    ):
        until(lambda: len(load.answers) > 100)
        workers = set(service.workers)
        everything = fill(service.sees(temporary))

        promoted = change(service, "promote", version=2)
        switched = time.monotonic()

        def after() -> list[Answer]:
            return [one for one in load.answers if one.begun > switched]

        until(lambda: len(after()) > 100)
        versions = {one.document["version"] for one in after()}
        killed = min(workers)
        os.kill(killed, signal.SIGKILL)
        (fresh,) = until(lambda: set(service.workers) - workers)
        until(lambda: service.logged("model demo@2 loaded", fresh))
        rolled_back = until(lambda: (answer := change(service, "rollback")).status_code == 200 and answer, 10)
        everything.unlink()
        again = change(service, "promote", version=2)
        deaths = service.metric("localrank_worker_deaths_total")
        load.stop()

    assert 200 == promoted.status_code, promoted.text
    assert workers == set(promoted.json()["workers"])
    assert {2} == versions
    assert 200 == rolled_back.status_code, rolled_back.text
    assert workers - {killed} | {fresh} == set(again.json()["workers"]), again.text
    assert {'{cause="SIGKILL"}': 1.0} == deaths
    assert len(load.failures) <= 4
    assert {0} >= {one.status for one in load.failures}


def test_a_full_models_disk_changes_nothing_and_says_so(
    models_dir: Path, body: bytes, demo: Artifact, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    with (
        running(disk, prepare=[small_disk(disk, "1m", holding=models_dir)]) as service,
        loaded(service.url, body) as load,
    ):
        registry = Registry(service.sees(disk))
        before = sorted(registry.models_dir.rglob("*"))
        everything = fill(registry.models_dir)
        provenance = Provenance("2026-01-03T00:00:00Z", source={}, probe=demo.probe.documents)

        refused = change(service, "promote", version=2)
        with pytest.raises(PublishFailed, match="No space left on device"):
            registry.publish("demo", demo.ranker, provenance)
        aliases = registry.aliases("demo")
        everything.unlink()
        left = sorted(registry.models_dir.rglob("*"))
        published = registry.publish("demo", demo.ranker, provenance)
        promoted = change(service, "promote", version=published.version)
        load.stop()

    assert (503, {"champion": 1}) == (refused.status_code, aliases), refused.text
    assert "No space left on device" in refused.json()["detail"]
    assert before == left
    assert (200, 3) == (promoted.status_code, promoted.json()["version"])
    assert [] == load.failures


def test_a_read_only_models_folder_is_served_and_cannot_be_changed(models_dir: Path, body: bytes) -> None:
    with (
        running(models_dir, prepare=[read_only(models_dir)]) as service,
        loaded(service.url, body) as load,
    ):
        refused = change(service, "promote", version=2)
        until(lambda: len(load.answers) > 50)
        models = service.client.get("/v1/models").json()["models"]
        load.stop()

    assert 503 == refused.status_code
    assert "Read-only file system" in refused.json()["detail"]
    assert [1] == [model["version"] for model in models]
    assert [] == load.failures


def test_a_version_that_does_not_fit_the_runtime_disk_is_served_from_memory(large: Path, body: bytes) -> None:
    temporary = large.parent / "tmp"
    with (
        running(large, prepare=[small_disk(temporary, "3m")]) as service,
        loaded(service.url, body) as load,
    ):
        fill(service.sees(temporary))
        promoted = change(service, "promote", version=2)
        switched = time.monotonic()
        until(lambda: load.answers and load.answers[-1].begun > switched)
        warned = service.logged("cannot copy model demo@2 to")
        load.stop()

    assert 200 == promoted.status_code, promoted.text
    assert 2 == len(warned)
    assert 2 == load.answers[-1].document["version"]
    assert [] == load.failures
