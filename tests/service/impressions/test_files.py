"""Files of records: rotated, bounded, whole whatever happens to the disk or the folder."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING

import pytest

from localrank.journal import Journal, file_name, frame, journals_in, size_of
from localrank_service.impressions.files import LEAST_BYTES, Files, total_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.journal import Buffer


def one(number: int, size: int = 1000) -> list[Buffer]:
    return frame(b'{"number": %d, "arrays": {"x": ["<f4", [%d]]}}' % (number, size // 4), [bytes(size)])


def put(files: Files, *frames: list[Buffer]) -> int:
    assert files.make_room(sum(map(size_of, frames)))
    return files.append(frames)


def numbers(folder: Path) -> list[int]:
    return [record.members["number"] for path in journals_in(folder) for record in Journal(path).records()]


def test_records_go_to_one_file_until_it_is_full(tmp_path: Path) -> None:
    files = Files(tmp_path / "log", LEAST_BYTES)
    for number in range(600):
        put(files, one(number))

    assert list(range(600)) == numbers(tmp_path / "log")
    assert 3 == len(journals_in(tmp_path / "log"))
    assert 0o700 == (tmp_path / "log").stat().st_mode & 0o777
    assert {0o600} == {path.stat().st_mode & 0o777 for path in journals_in(tmp_path / "log")}


def test_the_total_is_bounded_and_the_oldest_files_go(tmp_path: Path) -> None:
    """Three writers in turn, as three workers."""
    several = [Files(tmp_path, LEAST_BYTES, 3) for _ in range(3)]
    largest = 0
    for number in range(4000):
        put(several[number % 3], one(number))
        largest = max(largest, total_bytes(tmp_path))

    kept = sorted(numbers(tmp_path))
    assert LEAST_BYTES // 2 < largest <= LEAST_BYTES
    assert 3999 == kept[-1]
    assert len(kept) > 400
    assert min(kept) > 2500


def test_files_of_others_are_neither_counted_nor_removed(tmp_path: Path) -> None:
    foreign = [tmp_path / name for name in ("notes.txt", "impressions-1.journal", f"{file_name(1, 1)}.gz")]
    for path in foreign:
        path.write_bytes(bytes(LEAST_BYTES))
    link = tmp_path / file_name(1, 1)
    link.symlink_to(foreign[0])
    folder = tmp_path / file_name(2, 2)
    folder.mkdir()
    files = Files(tmp_path, LEAST_BYTES)
    for number in range(3000):
        put(files, one(number))

    assert all(path.stat().st_size == LEAST_BYTES for path in foreign)
    assert link.is_symlink()
    assert folder.is_dir()
    assert total_bytes(tmp_path) <= LEAST_BYTES


def test_a_clock_that_is_set_back_does_not_make_new_files_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(tmp_path, LEAST_BYTES)
    put(files, one(1))
    files.close()
    monkeypatch.setattr(time, "time_ns", lambda: 10**15)
    put(files, one(2))

    assert [1, 2] == numbers(tmp_path)


def test_a_name_from_the_end_of_time_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / file_name(10**17 - 1, 1)).touch()
    files = Files(tmp_path, LEAST_BYTES)

    assert 1 == put(files, one(1))


def test_a_file_that_was_removed_is_replaced(tmp_path: Path) -> None:
    files = Files(tmp_path, LEAST_BYTES)
    put(files, one(1))
    [path] = journals_in(tmp_path)
    path.unlink()
    files.look()
    put(files, one(2))

    assert [2] == numbers(tmp_path)


def test_a_record_that_no_file_can_hold_has_no_room(tmp_path: Path) -> None:
    files = Files(tmp_path, LEAST_BYTES)

    assert not files.make_room(files.room + 1)
    assert files.make_room(files.room)


@pytest.mark.parametrize("accepted", [0, 7, 1500])
def test_a_write_that_fails_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: int
) -> None:
    """As a disk that becomes full in the middle of a record, or before it."""
    files = Files(tmp_path, LEAST_BYTES)
    put(files, one(1))
    writev = os.writev

    def full(descriptor: int, parts: list[bytes]) -> int:
        if not accepted:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return writev(descriptor, [b"".join(parts)[:accepted]])

    monkeypatch.setattr(os, "writev", full)
    assert 0 == put(files, one(2), one(3))
    [path] = journals_in(tmp_path)
    assert path.stat().st_size == size_of(one(1))
    monkeypatch.undo()
    put(files, one(4))

    assert [1, 4] == numbers(tmp_path)


def test_many_records_are_written_in_whole_pieces(tmp_path: Path) -> None:
    files = Files(tmp_path, 64 * LEAST_BYTES)

    assert 900 == put(files, *(one(number, 8) for number in range(900)))
    assert list(range(900)) == numbers(tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file")
    files = Files(tmp_path / "log", LEAST_BYTES)

    with pytest.raises(OSError, match="File exists"):
        put(files, one(1))


@pytest.mark.parametrize(
    ("most", "writers", "room"),
    [
        (LEAST_BYTES, 1, LEAST_BYTES // 4),
        (LEAST_BYTES, 3, LEAST_BYTES // 12),
        (LEAST_BYTES, 100, 2**16),
        (2**28, 1, 64 * 2**20),
        (2**40, 4, 64 * 2**20),
    ],
)
def test_a_folder_holds_four_files_of_each_worker(tmp_path: Path, most: int, writers: int, room: int) -> None:
    """From 64 KiB to 64 MiB."""
    files = Files(tmp_path, most, writers)

    assert (room, most) == (files.room, files.most_bytes)
    assert files.make_room(room)
    assert not files.make_room(room + 1)


def test_room_shrinks_as_it_is_filled_and_a_new_file_has_all_of_it(tmp_path: Path) -> None:
    files = Files(tmp_path, LEAST_BYTES)
    whole, size = files.room, size_of(one(1))
    put(files, one(1))
    files.contracts.add("digest")
    left = files.room
    files.look()
    still = files.room, files.contracts.copy()
    files.close()

    assert (whole - size, (whole - size, {"digest"}), whole, set()) == (
        left,
        still,
        files.room,
        files.contracts,
    )


def test_a_folder_that_is_not_there_has_no_bytes(tmp_path: Path) -> None:
    assert 0 == total_bytes(tmp_path / "none")
