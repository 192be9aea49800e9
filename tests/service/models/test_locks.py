"""Files that tell whether a process lives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localrank_service.models.locks import hold, is_free, take


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
