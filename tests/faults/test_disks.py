"""Disks that are full or read-only: requests are answered all the same, and changes tell the truth."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

from tests.faults.load import loaded
from tests.faults.running import running, until

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.faults.load import Answer
    from tests.faults.running import Running


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
        running(models_dir, mounts={temporary: "size=4m"}) as service,
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
