"""The same faults again and again, for figures: ``pytest -s -m soak tests/faults``; docs/operate/reliability.md has them.

If the host took away too much processor time meanwhile, a fault is done again (`benchmarks.noise`). The faults of workers
are done on a machine with nothing else to do, and beside two busy processes.
"""

from __future__ import annotations

import os
import random
import signal
import time
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import pytest

from benchmarks import noise
from tests.faults.load import loaded
from tests.faults.running import running, small_disk, until
from tests.faults.test_disks import change, fill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.faults.load import Load
    from tests.faults.running import Running

pytestmark = pytest.mark.soak

CLIENTS = 8
#: How often each fault is done: figures are medians of these.
TIMES = 5
#: Seconds between two faults: longer than the life after which a death counts as the first.
PAUSE = 11.0


class Back(NamedTuple):
    """How long a service took to be whole again, and the processor time of the new worker until then."""

    seconds: float
    cpu: float


@pytest.fixture(params=[0, 2], ids=["quiet", "neighbours"])
def neighbours(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many other processes are busy."""
    with noise.neighbours(request.param):
        yield request.param


def back(service: Running, before: set[int], since: float) -> Back:
    """Wait until a new worker has loaded its model."""
    (fresh,) = until(lambda: set(service.workers) - before)
    until(lambda: service.logged("model demo@1 loaded", fresh))
    return Back(time.monotonic() - since, time.clock_gettime(cpu_clock(fresh)))


def cpu_clock(pid: int) -> int:
    """The clock of another process's processor time (``clock_getcpuclockid`` of Linux)."""
    return ~pid << 3 | 2


def again(once: Callable[[], Back]) -> tuple[list[Back], noise.Noise]:
    """Do a fault `TIMES` times; return what each took, and the largest noise."""

    def after_a_pause() -> Back:
        time.sleep(PAUSE)
        return once()

    found = [noise.measured(after_a_pause) for _ in range(TIMES)]
    return [one for one, _ in found], noise.largest([disturbed._asdict() for _, disturbed in found])


def show(name: str, found: list[Back], disturbed: noise.Noise, load: Load) -> None:
    latencies = sorted(one.ended - one.begun for one in load.answers if one.status == 200)
    seconds = [one.seconds for one in found]
    print(  # noqa: T201
        f"{name}: {len(found)} times; whole again after {median(seconds):.2f} s (median), {max(seconds):.2f} s (longest); "
        f"the new worker used {median(one.cpu for one in found):.2f} s of CPU (median); "
        f"{len(load.answers)} requests of {CLIENTS} connections, {len(load.lost)} lost "
        f"({len(load.lost) / len(seconds):.1f} each time), {len(load.failures) - len(load.lost)} refused; answered within "
        f"{1e3 * latencies[len(latencies) // 2]:.1f} ms (median), {1e3 * latencies[int(0.999 * len(latencies))]:.0f} ms (99.9 %); "
        f"{disturbed}"
    )


def test_workers_killed_one_after_the_other(models_dir: Path, body: bytes, neighbours: int) -> None:
    chance = random.Random(0)
    with running(models_dir) as service, loaded(service.url, body, CLIENTS) as load:

        def kill() -> Back:
            before = set(service.workers)
            killed = time.monotonic()
            os.kill(chance.choice(sorted(before)), signal.SIGKILL)
            return back(service, before, killed)

        found, disturbed = again(kill)
        deaths = service.metric("localrank_worker_deaths_total")
        counted = sum(service.metric("localrank_requests_total").values())
        files = len(list((models_dir.parent / "tmp").glob("localrank-*/metrics/*.series")))
        load.stop()
        assert 0 == service.stop()

    show(f"SIGKILL, {neighbours} neighbours", found, disturbed, load)
    kills = deaths['{cause="SIGKILL"}']
    assert 4.0 > max(one.seconds for one in found)
    assert list(deaths) == ['{cause="SIGKILL"}']
    assert kills >= TIMES  # more if a fault was done again
    assert len(load.lost) <= kills * CLIENTS
    assert {0} >= {one.status for one in load.lost}
    # What the dead have counted is not lost; the clients may have asked since.
    assert len(load.answers) - len(load.failures) - counted < 0.2 * len(load.answers)
    assert 3 == files


def test_all_workers_killed_at_once(models_dir: Path, body: bytes, neighbours: int) -> None:
    with running(models_dir) as service, loaded(service.url, body, CLIENTS) as load:

        def kill() -> Back:
            before = set(service.workers)
            killed = time.monotonic()
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            until(lambda: len(set(service.workers) - before) == 2)
            found = back(service, before | {max(service.workers)}, killed)
            answered = len(load.answers)
            until(lambda: len(load.answers) > answered + 100)
            return found

        found, disturbed = again(kill)
        load.stop()

    show(f"SIGKILL of both, {neighbours} neighbours", found, disturbed, load)
    assert 4.0 > max(one.seconds for one in found)


def test_workers_that_hang_one_after_the_other(models_dir: Path, body: bytes, neighbours: int) -> None:
    with (
        running(models_dir, "--hang-seconds", "2") as service,
        loaded(service.url, body, CLIENTS) as load,
    ):

        def stop() -> Back:
            before = set(service.workers)
            stopped = time.monotonic()
            os.kill(min(before), signal.SIGSTOP)
            return back(service, before, stopped)

        found, disturbed = again(stop)
        deaths = service.metric("localrank_worker_deaths_total")
        load.stop()

    show(f"SIGSTOP, {neighbours} neighbours", found, disturbed, load)
    assert 2.0 + 4.0 > max(one.seconds for one in found)
    assert list(deaths) == ['{cause="hung"}']
    assert len(load.lost) <= deaths['{cause="hung"}'] * CLIENTS


def test_a_disk_that_is_full_again_and_again(models_dir: Path, body: bytes) -> None:
    temporary = models_dir.parent / "tmp"
    with (
        running(models_dir, prepare=[small_disk(temporary, "8m")]) as service,
        loaded(service.url, body, CLIENTS) as load,
    ):
        for _ in range(4 * TIMES):
            everything = fill(service.sees(temporary))
            assert 200 == change(service, "promote", version=2).status_code
            everything.unlink()
            assert 200 == change(service, "rollback").status_code
        load.stop()

    print(  # noqa: T201
        f"full runtime disk: {4 * TIMES} promotions and rollbacks; {len(load.answers)} requests, {len(load.lost)} lost"
    )
    assert [] == load.lost
