from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from localrank.locks import hold
from localrank_service.models.workers import Report, Workers

if TYPE_CHECKING:
    from pathlib import Path


def another(folder: Path) -> subprocess.Popen[str]:
    """Another process that enters the folder and stays until it is killed."""
    code = (
        "import sys, time, pathlib\n"
        "from localrank_service.models.workers import Workers\n"
        "workers = Workers(pathlib.Path(sys.argv[1]))\n"
        "workers.enter()\n"
        "workers.report({'demo': {'champion': 2}}, {'web': 'why'})\n"
        "print('in', flush=True)\n"
        "time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "in\n" == process.stdout.readline()
    process.stdout.close()
    return process


def test_live_workers_are_told_from_dead_ones(tmp_path: Path) -> None:
    workers = Workers(tmp_path)
    workers.enter()
    process = another(tmp_path)
    try:
        both = {report.pid: report for report in workers.living()}
    finally:
        process.kill()
        process.wait()
    one = workers.living()
    left = sorted(path.name for path in tmp_path.iterdir())
    successor = Workers(tmp_path)
    successor.enter()
    nothing = {report.pid: report for report in workers.living()}
    workers.leave()

    assert {os.getpid(), process.pid} == set(both)
    assert ({"demo": {"champion": 2}}, {"web": "why"}) == both[process.pid][1:3]
    assert [os.getpid()] == [report.pid for report in one]
    assert {os.getpid(): Report(os.getpid(), {}, {})} == nothing
    assert left == sorted(path.name for path in tmp_path.iterdir())
    assert [Report(os.getpid(), {}, {})] == successor.living()


def test_a_single_process_knows_itself_without_a_folder() -> None:
    workers = Workers(None)
    workers.enter()
    workers.report({"demo": {"champion": 1}}, {})

    assert [Report(os.getpid(), {"demo": {"champion": 1}}, {}, loaded=True)] == workers.living()


def test_a_worker_can_tell_what_it_serves_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written in place needs no room; what is longer than its file waits for some."""
    one, other = Workers(tmp_path), Workers(tmp_path)
    one.enter()
    other.enter()
    many = {f"model-{number}": {"champion": 1} for number in range(2000)}
    write, size = os.pwrite, {path.name: path.stat().st_size for path in tmp_path.iterdir()}

    def full(file: int, content: bytes, start: int) -> int:
        if start + len(content) > os.fstat(file).st_size:
            raise OSError(28, "No space left on device")
        return write(file, content, start)

    def served() -> list[int]:
        return sorted(len(report.serving) for report in other.living())

    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", full)
        one.report({"demo": {"champion": 2}}, {})
        one.mark("demo", unloaded=True)
        short, unloaded = served(), set(other.unloaded())
        one.report(many, {})
        long, itself = served(), sorted(len(report.serving) for report in one.living())
        same = size == {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    one.tell()

    assert ([0, 1], {"demo"}, [0, 1], [0, 2000], True) == (short, unloaded, long, itself, same)
    assert [0, 2000] == served()


def test_a_worker_that_has_only_just_entered_serves_nothing(tmp_path: Path) -> None:
    workers = Workers(tmp_path)
    workers.enter()
    (tmp_path / "worker-1.lock").touch()
    lock = hold(tmp_path / "worker-1.lock")

    found = workers.living()

    os.close(lock)
    assert {os.getpid(): {}, 0: {}} == {report.pid: report.serving for report in found}


def test_a_worker_that_takes_the_place_of_one_that_served_knows_it(tmp_path: Path) -> None:
    first = Workers(tmp_path)
    first.enter()
    alone = first.replaces, first.others_serve()
    first.report({"demo": {"champion": 2}}, {})
    first.follow("generation-1")
    second = Workers(tmp_path)
    second.enter()
    beside = second.replaces, second.others_serve(), second.served()
    assert first._lock is not None
    os.close(first._lock)  # it dies

    third = Workers(tmp_path)
    third.enter()

    assert (False, False) == alone
    # All of them are this process here; another one would count.
    assert (False, False, {"demo": {"champion": 2}}) == beside
    assert (True, False) == (third.replaces, second.replaces)


def test_a_worker_that_leaves_serves_nothing_and_makes_room(tmp_path: Path) -> None:
    one, other = Workers(tmp_path), Workers(tmp_path)
    one.enter()
    other.enter()
    one.report({"demo": {"champion": 2}}, {})

    one.leave()
    one.leave()
    seen = other.living()
    successor = Workers(tmp_path)
    successor.enter()

    assert [Report(os.getpid(), {}, {})] == seen
    assert not successor.replaces
    assert 2 == len(list(tmp_path.glob("worker-*.lock")))


def test_other_workers_that_serve_are_known(tmp_path: Path) -> None:
    workers = Workers(tmp_path)
    workers.enter()
    workers.report({"demo": {"champion": 1}}, {})
    alone = workers.others_serve()
    process = another(tmp_path)
    try:
        beside = workers.others_serve()
    finally:
        process.kill()
        process.wait()

    assert (False, True, False) == (alone, beside, workers.others_serve())


@pytest.mark.parametrize("shared", [True, False])
def test_models_are_unloaded_for_all_workers_until_they_are_loaded_again(
    tmp_path: Path, *, shared: bool
) -> None:
    folder = tmp_path if shared else None
    workers = Workers(folder)
    workers.enter()
    other = Workers(folder) if shared else workers
    found = [other.unloaded()]

    for name, unloaded in (("web", True), ("demo", True), ("web", True), ("web", False), ("shop", False)):
        workers.mark(name, unloaded=unloaded)
        found.append(other.unloaded())

    both = {"web", "demo"}
    assert [set(), {"web"}, both, both, {"demo"}, {"demo"}] == found


def test_what_workers_tell_each_other_is_private(tmp_path: Path) -> None:
    Workers(tmp_path).enter()

    assert {0o600} == {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert {16 * 1024} == {path.stat().st_size for path in tmp_path.glob("*.note")}
