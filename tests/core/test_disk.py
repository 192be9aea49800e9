"""Small files are replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from localrank import disk

OLD = b"old"
NEW = b"new, and longer"


def fail_at(monkeypatch: pytest.MonkeyPatch, number: int, code: int) -> list[str]:
    """Let the n-th sync fail; return what was synced, a folder or a file."""
    synced: list[str] = []
    sync = os.fsync

    def failing(handle: int) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        if len(synced) == number:
            raise OSError(code, os.strerror(code))
        sync(handle)

    monkeypatch.setattr(os, "fsync", failing)
    return synced


@pytest.mark.parametrize("before", [None, OLD])
def test_a_file_is_written_whether_there_is_one_or_not(tmp_path: Path, before: bytes | None) -> None:
    path = tmp_path / "small.json"
    if before is not None:
        path.write_bytes(before)

    disk.replace_file(path, NEW)

    assert path.read_bytes() == NEW
    assert [path] == list(tmp_path.iterdir())


def test_whoever_reads_while_a_file_is_replaced_goes_on_reading_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_bytes(OLD)

    with path.open("rb") as reader:
        disk.replace_file(path, NEW)
        read = reader.read()

    assert read == OLD


def test_the_file_is_on_the_disk_before_it_has_its_name_and_the_name_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = fail_at(monkeypatch, 0, 0)

    disk.replace_file(tmp_path / "small.json", NEW)

    assert ["file", "folder"] == synced


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("before", [None, OLD])
def test_what_was_there_is_there_again_if_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None, number: int
) -> None:
    path = tmp_path / "small.json"
    if before is not None:
        path.write_bytes(before)
    fail_at(monkeypatch, number, errno.EIO)

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        disk.replace_file(path, NEW)

    assert before == (path.read_bytes() if path.exists() else None)
    assert [] == [one for one in tmp_path.iterdir() if one != path]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
def test_a_volume_that_cannot_sync_folders_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    fail_at(monkeypatch, 2, code)

    disk.replace_file(tmp_path / "small.json", NEW)

    assert (tmp_path / "small.json").read_bytes() == NEW


def test_a_file_in_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError):
        disk.replace_file(tmp_path / "file" / "small.json", NEW)


def test_what_is_no_plain_file_is_refused_and_closed(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))

    for _ in range(3):
        with pytest.raises(OSError, match="expected a plain file, found a folder"):
            disk.read_plain(tmp_path, 10)

    assert before == len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_says_who_may_read_the_file(tmp_path: Path, mask: int, mode: int) -> None:
    path = tmp_path / "small.json"
    before = os.umask(mask)
    try:
        disk.replace_file(path, NEW)
    finally:
        os.umask(before)

    assert mode == stat.S_IMODE(path.stat().st_mode)


def test_an_interrupted_writer_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)

    with pytest.raises(KeyboardInterrupt):
        disk.replace_file(tmp_path / "small.json", NEW)

    assert [] == list(tmp_path.iterdir())


def test_drafts_of_writers_that_are_gone_are_swept_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.json").write_bytes(OLD)
    # As if the process had died before it named its draft.
    monkeypatch.setattr(type(tmp_path), "replace", lambda *_: None)
    disk.replace_file(tmp_path / "small.json", NEW)
    assert 2 == len(list(tmp_path.iterdir()))

    disk.sweep_drafts(tmp_path)

    assert ["small.json"] == [one.name for one in tmp_path.iterdir()]


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="shows the open files of a process on Linux only"
)
def test_a_folder_that_is_synced_is_closed(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))

    disk.sync(tmp_path)

    assert before == len(list(Path("/proc/self/fd").iterdir()))
