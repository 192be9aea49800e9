"""The same faults again and again, for figures: ``pytest -s -m soak tests/faults``; docs/reliability.md has them."""

from __future__ import annotations

import os
import random
import signal
import time
from statistics import median
from typing import TYPE_CHECKING

import pytest

from tests.faults.load import loaded
from tests.faults.running import running, small_disk, until
from tests.faults.test_disks import change, fill

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.load import Load
    from tests.faults.running import Running

pytestmark = pytest.mark.soak

CLIENTS = 8
#: Seconds between two faults: longer than the life after which a death counts as the first.
PAUSE = 11.0


def back(service: Running, before: set[int], since: float) -> float:
    """Wait until a new worker has loaded its model; return how long that took."""
    (fresh,) = until(lambda: set(service.workers) - before)
    until(lambda: service.logged("model demo@1 loaded", fresh))
    return time.monotonic() - since


def show(name: str, seconds: list[float], load: Load) -> None:
    latencies = sorted(one.ended - one.begun for one in load.answers if one.status == 200)
    print(  # noqa: T201
        f"{name}: {len(seconds)} times; whole again after {median(seconds):.2f} s (median), {max(seconds):.2f} s (longest); "
        f"{len(load.answers)} requests of {CLIENTS} connections, {len(load.lost)} lost "
        f"({len(load.lost) / len(seconds):.1f} each time), {len(load.failures) - len(load.lost)} refused; answered within "
        f"{1e3 * latencies[len(latencies) // 2]:.1f} ms (median), {1e3 * latencies[int(0.999 * len(latencies))]:.0f} ms (99.9 %)"
    )


def test_workers_killed_one_after_the_other(models_dir: Path, body: bytes) -> None:
    chance = random.Random(0)
    with running(models_dir) as service, loaded(service.url, body, CLIENTS) as load:
        seconds = []
        for _ in range(20):
            time.sleep(PAUSE)
            before = set(service.workers)
            killed = time.monotonic()
            os.kill(chance.choice(sorted(before)), signal.SIGKILL)
            seconds.append(back(service, before, killed))
        deaths = service.metric("localrank_worker_deaths_total")
        counted = sum(service.metric("localrank_requests_total").values())
        files = len(list((models_dir.parent / "tmp").glob("localrank-*/metrics/*.series")))
        load.stop()
        assert 0 == service.stop()

    show("SIGKILL", seconds, load)
    assert max(seconds) < 2.0
    assert {'{cause="SIGKILL"}': 20.0} == deaths
    assert len(load.lost) <= 20 * CLIENTS
    assert {0} >= {one.status for one in load.lost}
    # What the dead have counted is not lost; the clients may have asked since.
    assert len(load.answers) - len(load.failures) - counted < 0.2 * len(load.answers)
    assert 3 == files


def test_all_workers_killed_at_once(models_dir: Path, body: bytes) -> None:
    with running(models_dir) as service, loaded(service.url, body, CLIENTS) as load:
        seconds = []
        for _ in range(5):
            time.sleep(PAUSE)
            before = set(service.workers)
            killed = time.monotonic()
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            until(lambda: len(set(service.workers) - before) == 2)  # noqa: B023
            seconds.append(back(service, before | {max(service.workers)}, killed))
            answered = len(load.answers)
            until(lambda: len(load.answers) > answered + 100)  # noqa: B023
        load.stop()

    show("SIGKILL of both", seconds, load)
    assert max(seconds) < 2.0


def test_workers_that_hang_one_after_the_other(models_dir: Path, body: bytes) -> None:
    with (
        running(models_dir, "--hang-seconds", "2") as service,
        loaded(service.url, body, CLIENTS) as load,
    ):
        seconds = []
        for _ in range(10):
            time.sleep(PAUSE)
            before = set(service.workers)
            stopped = time.monotonic()
            os.kill(min(before), signal.SIGSTOP)
            seconds.append(back(service, before, stopped))
        deaths = service.metric("localrank_worker_deaths_total")
        load.stop()

    show("SIGSTOP", seconds, load)
    assert max(seconds) < 2.0 + 2.0
    assert {'{cause="hung"}': 10.0} == deaths
    assert len(load.lost) <= 10 * CLIENTS


def test_a_disk_that_is_full_again_and_again(models_dir: Path, body: bytes) -> None:
    temporary = models_dir.parent / "tmp"
    with (
        running(models_dir, prepare=[small_disk(temporary, "8m")]) as service,
        loaded(service.url, body, CLIENTS) as load,
    ):
        seconds = []
        for _ in range(20):
            everything = fill(service.sees(temporary))
            begun = time.monotonic()
            assert 200 == change(service, "promote", version=2).status_code
            seconds.append(time.monotonic() - begun)
            everything.unlink()
            assert 200 == change(service, "rollback").status_code
        load.stop()

    show("full runtime disk, promotions", seconds, load)
    assert [] == load.lost
