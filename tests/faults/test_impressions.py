"""The impression log of a real service: killed workers, a full disk, a folder that is removed."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import httpx

from localrank.journal import Logged
from tests.faults.load import loaded
from tests.faults.running import running, small_disk, until
from tests.faults.test_disks import fill

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.running import Running


def counted(service: Running, outcome: str) -> float:
    return service.metric("localrank_impressions_total").get(f'{{outcome="{outcome}"}}', 0.0)


def until_logged(service: Running, count: float) -> None:
    until(lambda: counted(service, "logged") > count)


def until_replaced(service: Running, before: set[int]) -> None:
    until(lambda: len(service.workers) == 2 and set(service.workers) != before)


def log_flags(folder: Path, **more: Any) -> list[str]:
    settings = {"impression-log": 1, "impression-log-dir": folder, **more}
    return [text for name, value in settings.items() for text in (f"--{name.replace('_', '-')}", str(value))]


def test_workers_killed_under_load_leave_whole_records(models_dir: Path, body: bytes) -> None:
    folder = models_dir.parent / "log"
    with (
        running(models_dir, *log_flags(folder), workers=2) as service,
        loaded(service.url, body) as load,
    ):
        for round_ in range(3):
            until_logged(service, 200 * (round_ + 1))
            before = set(service.workers)
            os.kill(min(before), signal.SIGKILL)
            until_replaced(service, before)
        load.stop()
        answered = {one.document["request_id"] for one in load.answers if one.status == 200}
        service.stop()

    logged = Logged([folder])
    shown = [one["request_id"] for one in logged.impressions()]
    # A killed worker loses what waits, which is a fifth of a second, and an answer that was not sent may be logged.
    assert len(shown) > 600
    assert len(set(shown) & answered) > 0.5 * len(answered)
    assert (0, []) == (logged.damaged, logged.foreign)
    assert len(logged.files) >= 3
    assert 1 == len(logged.features)


def test_a_full_disk_loses_records_and_no_answer(models_dir: Path, body: bytes) -> None:
    folder = models_dir.parent / "log"
    with (
        running(models_dir, *log_flags(folder), prepare=[small_disk(folder, "1m")]) as service,
        loaded(service.url, body) as load,
    ):
        seen = service.sees(folder)
        everything = fill(seen)
        until(lambda: counted(service, "lost") > 50)
        lost = counted(service, "lost")
        said = httpx.post(
            f"{service.url}/v1/feedback",
            json={"events": [{"request_id": "r", "index": 0, "click": True}]},
            trust_env=False,
        )
        everything.unlink()
        until_logged(service, 20)
        load.stop()
        statuses = {one.status for one in load.answers}
        copied = models_dir.parent / "copied"
        shutil.copytree(seen, copied)

    logged = Logged([copied])
    assert {200} == statuses
    assert (200, 1) == (said.status_code, said.json()["accepted"])
    assert lost > 50
    assert len(list(logged.impressions())) >= 20
    assert 0 == logged.damaged
    assert service.logged("loses records: ")


def test_a_folder_that_is_removed_is_made_again_and_strangers_in_it_stay(
    models_dir: Path, body: bytes
) -> None:
    folder = models_dir.parent / "log"
    with (
        running(models_dir, *log_flags(folder, impression_log_bytes=2**20), workers=1) as service,
        loaded(service.url, body) as load,
    ):
        until_logged(service, 20)
        # At once, as a service that writes meanwhile would make new files in it.
        shutil.rmtree(folder.rename(models_dir.parent / "removed"))
        until_logged(service, counted(service, "logged") + 50)
        (folder / "notes.txt").write_text("mine")
        until(lambda: service.client.get("/v1/stats").json()["impressions"]["bytes"] > 0.7 * 2**20)
        sizes = []
        for _ in range(20):
            until_logged(service, counted(service, "logged") + 20)
            sizes.append(service.client.get("/v1/stats").json()["impressions"]["bytes"])
        load.stop()
        statuses = {one.status for one in load.answers}

    assert {200} == statuses
    assert max(sizes) <= 2**20
    assert "mine" == (folder / "notes.txt").read_text()
