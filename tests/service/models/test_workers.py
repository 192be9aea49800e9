from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from localrank_service.models.workers import Workers, make_runtime_dir, sweep_runtime_dirs

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def another(directory: Path) -> subprocess.Popen[str]:
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
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(directory)], stdout=subprocess.PIPE, text=True
    )
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
    workers.leave()

    assert {os.getpid(), process.pid} == set(both)
    assert ({"demo": {"champion": 2}}, {"web": "why"}) == both[process.pid][1:]
    assert [os.getpid()] == [report.pid for report in one]
    assert [f"worker-{os.getpid()}.json", f"worker-{os.getpid()}.lock"] == left
    assert [] == list(tmp_path.iterdir())


def test_a_single_process_knows_itself_without_a_folder() -> None:
    workers = Workers(None)
    workers.enter()
    workers.report({"demo": {"champion": 1}}, {})

    assert [(os.getpid(), {"demo": {"champion": 1}}, {})] == workers.living()


def test_folders_of_dead_services_are_swept_away_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    old = time.time() - 3600
    ours = make_runtime_dir()
    dead = tmp_path / "localrank-dead"
    dead.mkdir()
    (dead / "master.lock").touch()
    fresh = tmp_path / "localrank-fresh"
    fresh.mkdir()
    (fresh / "master.lock").touch()
    foreign = tmp_path / "localrank-notes"
    foreign.mkdir()
    for directory in (ours, dead, foreign):
        os.utime(directory, (old, old))

    sweep_runtime_dirs()

    assert {ours, fresh, foreign} == set(tmp_path.iterdir())


def test_a_worker_that_looks_around_while_another_enters_does_not_clear_it_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Workers(tmp_path), Workers(tmp_path)
    first._pid = 1
    first.enter()
    second._pid = 2
    lock = fcntl.flock

    def look_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        first.living()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", look_first)
    second.enter()

    assert [1, 2] == [report.pid for report in first.living()]
