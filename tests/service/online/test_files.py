"""Files of records: rotated, bounded, whole whatever happens to the disk or the folder."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING

import pytest

from localrank.journal import RecordFile, file_name, frame, journals_in, size_of
from localrank_service.online.files import LEAST_BYTES, Files, total_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.journal import Buffer


def one(number: int, size: int = 1000) -> list[Buffer]:
    return frame(b'{"number": %d, "arrays": {"x": ["<f4", [%d]]}}' % (number, size // 4), [bytes(size)])


def put(files: Files, *frames: list[Buffer]) -> int:
    assert files.make_room(sum(map(size_of, frames)))
    return files.append(frames)


def numbers(folder: Path) -> list[int]:
    return [record.members["number"] for path in journals_in(folder) for record in RecordFile(path).records()]


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


def test_one_write_has_at_most_512_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame has three parts."""
    writev, written = os.writev, []

    def counting(descriptor: int, parts: list[Buffer]) -> int:
        written.append(len(parts))
        return writev(descriptor, parts)

    monkeypatch.setattr(os, "writev", counting)
    files = Files(tmp_path, 64 * LEAST_BYTES)

    assert 172 == put(files, *(one(number, 8) for number in range(172)))
    assert [510, 6] == written


def test_after_a_write_that_fails_in_the_middle_the_first_ones_are_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writev, calls = os.writev, []

    def second_fails(descriptor: int, parts: list[Buffer]) -> int:
        calls.append(len(parts))
        return writev(descriptor, parts) if len(calls) != 2 else writev(descriptor, parts[:1])

    files = Files(tmp_path, 64 * LEAST_BYTES)
    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", second_fails)
        assert 170 == files.append([one(number, 8) for number in range(400)])
    put(files, one(999, 8))

    assert [*range(170), 999] == numbers(tmp_path)
    assert 2 == len(calls)


def test_a_file_that_cannot_be_cut_is_left_and_another_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    files = Files(tmp_path, LEAST_BYTES)
    put(files, one(1))
    files.contracts.add("digest")
    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", fails)
        patched.setattr(os, "ftruncate", fails)
        assert 0 == put(files, one(2))
    put(files, one(3))

    assert set() == files.contracts
    assert [1, 3] == numbers(tmp_path)
    assert 2 == len(journals_in(tmp_path))


def test_names_that_are_taken_are_skipped_and_a_thousand_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers of other machines may have the same number, and the clock the same microsecond."""
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    begun = 1_700_000_000_000_000
    opened = os.open
    taken: list[str] = []
    limit = 999

    def crowded(path: Path, flags: int, mode: int = 0o777) -> int:
        if len(taken) < limit:
            taken.append(path.name)
            raise FileExistsError
        return opened(path, flags, mode)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", crowded)
        put(Files(tmp_path, LEAST_BYTES), one(1))
        limit, files = 10_000, Files(tmp_path / "other", LEAST_BYTES)
        taken.clear()
        with pytest.raises(FileExistsError, match="every name is taken"):
            put(files, one(2))

    assert [file_name(begun + 999, os.getpid())] == [path.name for path in tmp_path.glob("*.journal")]
    assert [file_name(begun + number, os.getpid()) for number in range(1000)] == taken


def test_a_new_file_is_later_than_all_others_and_never_later_than_the_last_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_999)
    files = Files(tmp_path, LEAST_BYTES)
    (tmp_path / file_name(5, 7)).touch()
    put(files, one(1))
    first = max(path.name for path in tmp_path.iterdir())
    files.close()
    (tmp_path / file_name(1_800_000_000_000_000, 7)).touch()
    put(files, one(2))
    second = max(path.name for path in tmp_path.iterdir())

    assert file_name(1_700_000_000_000_000, os.getpid()) == first
    assert file_name(1_800_000_000_000_001, os.getpid()) == second


@pytest.mark.parametrize(
    ("sizes", "left"),
    [
        ([0, 0, 0], 3),
        ([1, 0, 0], 2),
        ([2**18, 1, 0], 2),
        ([2**18, 2**18, 1], 1),
        ([0, 0, 2**19 + 1], 0),
    ],
)
def test_as_many_of_the_oldest_files_go_as_a_new_one_needs(
    sizes: list[int], left: int, tmp_path: Path
) -> None:
    """A folder of 1 MiB for one worker: a file has at most 256 KiB, so the others may have 768 KiB."""
    for number, more in enumerate(sizes):
        (tmp_path / file_name(number, 1)).write_bytes(bytes(2**18 + more))

    put(Files(tmp_path, LEAST_BYTES), one(1))

    kept = sorted(path.name for path in tmp_path.iterdir())
    assert [file_name(number, 1) for number in range(3 - left, 3)] == kept[:-1]


def test_a_file_that_somebody_else_removes_meanwhile_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (tmp_path / file_name(number, 1)).write_bytes(bytes(2**18))
    unlink = type(tmp_path).unlink

    def removed(path: Path) -> None:
        unlink(path)
        raise FileNotFoundError

    monkeypatch.setattr(type(tmp_path), "unlink", removed)

    assert 1 == put(Files(tmp_path, LEAST_BYTES), one(1))
    assert [file_name(number, 1) for number in range(1, 4)] == sorted(
        path.name for path in tmp_path.iterdir()
    )[:-1]


def test_the_bytes_of_a_folder_are_those_of_its_records(tmp_path: Path) -> None:
    (tmp_path / file_name(1, 1)).write_bytes(bytes(10))
    (tmp_path / file_name(2, 1)).write_bytes(bytes(5))
    (tmp_path / "notes").write_bytes(bytes(100))
    (tmp_path / file_name(3, 1)).symlink_to(tmp_path / "notes")
    (tmp_path / "file").touch()

    assert 15 == total_bytes(tmp_path)
    assert 0 == total_bytes(tmp_path / "file")


def test_files_are_neither_followed_nor_given_to_other_programs(tmp_path: Path) -> None:
    put(files := Files(tmp_path, LEAST_BYTES), one(1))

    assert not os.get_inheritable(files._file)
    assert (2**20, 64 * 2**20) == (LEAST_BYTES, Files(tmp_path, 2**40).room)
