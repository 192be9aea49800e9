"""Files that tell whether a process lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from localrank.locks import hold, is_free, take


def test_a_held_file_is_not_free_and_cannot_be_held_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    before = is_free(path)
    descriptor = hold(path)

    held = is_free(path)
    with pytest.raises(BlockingIOError):
        hold(path)
    mode = path.stat().st_mode & 0o777
    os.close(descriptor)

    assert (True, False, True, 0o600) == (before, held, is_free(path), mode)


def test_free_files_are_taken_before_new_ones_are_made(tmp_path: Path) -> None:
    (tmp_path / "other-0.lock").touch()
    several = [take(tmp_path, "worker-") for _ in range(3)]
    names = [path.name for path, _ in several]
    os.close(several[1][1])

    again, descriptor = take(tmp_path, "worker-")
    fourth, last = take(tmp_path, "worker-")
    for one in (several[0][1], several[2][1], descriptor, last):
        os.close(one)

    assert ["worker-0.lock", "worker-1.lock", "worker-2.lock"] == names
    assert ("worker-1.lock", "worker-3.lock") == (again.name, fourth.name)
    assert is_free(tmp_path / "worker-0.lock")


def test_looking_leaves_no_file_open(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    descriptor = hold(path)
    before = len(list(Path("/dev/fd").iterdir()))

    for _ in range(5):
        assert not is_free(path)
        with pytest.raises(BlockingIOError):
            hold(path)

    assert before == len(list(Path("/dev/fd").iterdir()))
    os.close(descriptor)


def test_two_that_look_at_once_do_not_see_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    os.close(hold(path))
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        free = is_free(path)
        with pytest.raises(BlockingIOError):
            hold(path)

    assert free
    assert is_free(tmp_path / "missing")


def test_a_file_that_is_only_looked_at_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second look finds it free: whoever looked is gone."""
    path = tmp_path / "worker-0.lock"
    looking = hold(path)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            os.close(looking)

    monkeypatch.setattr("localrank.locks.time.sleep", sleep)

    taken, descriptor = take(tmp_path, "worker-")
    other, another = take(tmp_path, "worker-")
    os.close(descriptor)
    os.close(another)

    assert (path, tmp_path / "worker-1.lock") == (taken, other)
    assert [0.005] * 5 == slept


def test_a_new_file_that_somebody_else_takes_first_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []

    def sleep(_seconds: float) -> None:
        if not held:
            held.append(hold(tmp_path / "w0.lock"))

    monkeypatch.setattr("localrank.locks.time.sleep", sleep)

    path, descriptor = take(tmp_path, "w")
    for one in (*held, descriptor):
        os.close(one)

    assert tmp_path / "w1.lock" == path


def test_locks_are_not_inherited(tmp_path: Path) -> None:
    descriptor = hold(tmp_path / "a.lock")

    assert not os.get_inheritable(descriptor)
    os.close(descriptor)
