"""Workers that die or hang are replaced, and the others lose nothing."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.faults.load import loaded
from tests.faults.running import running, until

if TYPE_CHECKING:
    from tests.faults.load import Load
    from tests.faults.running import Running

CLIENTS = 4


def replacement(service: Running, load: Load, before: set[int], victim: int) -> float:
    """Wait until the service is whole again; return when, on the monotonic clock."""
    (fresh,) = until(lambda: set(service.workers) - before)
    until(lambda: service.logged("model demo@1 loaded", fresh))
    back = time.monotonic()
    assert victim not in service.workers
    asked = len(load.answers)
    until(lambda: len(load.answers) > asked + 100)
    return back


def test_a_killed_worker_is_replaced_and_loses_only_what_it_was_answering(
    models_dir: Path, body: bytes
) -> None:
    with running(models_dir) as service, loaded(service.url, body, CLIENTS) as load:
        until(lambda: len(load.answers) > 100)
        workers = set(service.workers)
        victim = min(workers)

        killed = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        back = replacement(service, load, workers, victim)

        deaths = service.metric("localrank_worker_deaths_total")
        load.stop()
        assert 0 == service.stop()
    assert back - killed < 2.0
    # Each connection has one request in work at most; the rest is answered by the other worker, then by both.
    assert len(load.lost) <= CLIENTS
    assert {0} >= {one.status for one in load.lost}
    assert {'{cause="SIGKILL"}': 1.0} == deaths
    (line,) = service.logged(f"worker {victim} ended")
    assert "SIGKILL, after" in line


def test_requests_wait_for_the_first_worker_after_all_were_killed(models_dir: Path, body: bytes) -> None:
    with running(models_dir) as service, loaded(service.url, body, CLIENTS) as load:
        until(lambda: len(load.answers) > 100)
        workers = set(service.workers)

        killed = time.monotonic()
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        until(lambda: load.answers[-1].begun > killed + 0.5 and load.answers[-1].status == 200)
        until(lambda: len(set(service.workers) - workers) == 2)
        load.stop()

    # The listener is the supervisor's: no connection is refused, none is answered with 503.
    assert len(load.lost) <= 2 * CLIENTS
    assert {0} >= {one.status for one in load.lost}


def test_a_hung_worker_is_replaced(models_dir: Path, body: bytes) -> None:
    with (
        running(models_dir, "--hang-seconds", "2") as service,
        loaded(service.url, body, CLIENTS) as load,
    ):
        until(lambda: len(load.answers) > 100)
        workers = set(service.workers)
        killed = time.monotonic()
        os.kill(min(workers), signal.SIGKILL)
        starting = replacement(service, load, workers, min(workers)) - killed
        lost = len(load.lost)

        workers = set(service.workers)
        victim = max(workers)
        stopped = time.monotonic()
        os.kill(victim, signal.SIGSTOP)
        back = replacement(service, load, workers, victim)

        deaths = service.metric("localrank_worker_deaths_total")
    # It is noticed within a second after those two, or late on a busy machine; then another starts, as after a death.
    assert 2.0 < back - stopped < 6.0 + 3 * starting
    assert len(load.lost) - lost <= CLIENTS
    assert {'{cause="SIGKILL"}': 1.0, '{cause="hung"}': 1.0} == deaths
    assert 1 == len(service.logged(f"worker {victim} hangs: its event loop did not respond for 2 s"))
    assert 1 == len(service.logged(f"worker {victim} ended: hung, after"))


def test_a_stopped_supervisor_does_not_take_its_workers_for_hung(models_dir: Path) -> None:
    """As when a machine was suspended: afterwards much time has passed, and nobody has beaten."""
    with running(models_dir, "--hang-seconds", "0.5") as service:
        workers = service.workers
        os.kill(service.process.pid, signal.SIGSTOP)
        time.sleep(2.0)
        os.kill(service.process.pid, signal.SIGCONT)
        time.sleep(1.0)

        assert workers == service.workers


def test_a_worker_that_dies_again_and_again_is_started_ever_more_rarely(models_dir: Path) -> None:
    with running(models_dir) as service:
        spared = min(service.workers)
        begun = time.monotonic()
        killed: list[int] = []
        while time.monotonic() - begun < 4.0:
            for victim in set(service.workers) - {spared, *killed}:
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                killed.append(victim)
            time.sleep(0.005)
        deaths = service.metric("localrank_worker_deaths_total")
        answered = service.client.get("/livez").status_code

    # At once, at once, after 1 s, after 2 s, after 4 s.
    assert 4 == len(killed)
    assert {'{cause="SIGKILL"}': 4.0} == deaths
    assert 1 == len(service.logged("another one starts in 4 s"))
    assert 200 == answered


def test_workers_do_not_outlive_their_supervisor(models_dir: Path) -> None:
    with running(models_dir, "--hang-seconds", "1") as service:
        workers = service.workers
        service.process.kill()
        service.process.wait()

        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 20)

        with pytest.raises(httpx.TransportError):
            service.client.get("/livez")
    assert 2 == len(service.logged("the supervisor of worker"))


def test_a_worker_that_is_hung_does_not_keep_the_service_from_ending(models_dir: Path) -> None:
    with running(models_dir, "--hang-seconds", "1") as service:
        os.kill(min(service.workers), signal.SIGSTOP)

        begun = time.monotonic()
        code = service.stop()

    assert 0 == code
    assert time.monotonic() - begun < 10


def test_the_supervisor_forks_with_one_thread(models_dir: Path) -> None:
    with running(models_dir) as service:
        threads = list(Path(f"/proc/{service.process.pid}/task").iterdir())

    assert 1 == len(threads)


def connections_of(pid: int, port: int) -> int:
    """Return how many clients a worker has."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {line[9] for line in lines if line[3] == "01" and int(line[1].rpartition(":")[2], 16) == port}
    found = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found += descriptor.readlink().name.removeprefix("socket:[").rstrip("]") in inodes
    return found


def test_clients_that_ask_again_at_once_are_shared_by_all_workers_also_by_new_ones(
    models_dir: Path, body: bytes
) -> None:
    """Whichever worker is awake accepts what waits; it hands over what another has time for."""
    with running(models_dir) as service, loaded(service.url, body, 2 * CLIENTS) as load:
        port = int(service.url.rpartition(":")[2])

        def shared() -> bool:
            return all(connections_of(pid, port) >= CLIENTS - 1 for pid in service.workers)

        until(shared)
        assert not load.lost
        workers = set(service.workers)
        os.kill(min(workers), signal.SIGKILL)
        until(lambda: len(set(service.workers) - workers) == 1 and shared())
        load.stop()
    assert len(load.lost) <= CLIENTS + 1
    assert {0} >= {one.status for one in load.lost}
