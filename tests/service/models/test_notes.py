from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank_service.models import notes
from localrank_service.models.notes import NoteFile

if TYPE_CHECKING:
    from pathlib import Path


@given(st.lists(st.binary() | st.integers(0, 40_000).map(lambda length: b"x" * length)))
def test_the_last_text_is_read(tmp_path_factory: pytest.TempPathFactory, texts: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("notes") / "note"
    note = NoteFile(path)
    found = [notes.read(path)]
    for text in texts:
        note.write(text)
        found.append(notes.read(path))
    note.close()

    assert [None, *texts] == found


def test_a_torn_text_is_none(tmp_path: Path) -> None:
    path = tmp_path / "note"
    note = NoteFile(path)
    note.write(b"demo 1")
    torn = path.read_bytes().replace(b"demo 1", b"demo 2")

    path.write_bytes(torn)
    note.close()

    assert notes.read(path) is None
    assert notes.read(tmp_path / "nothing") is None


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert notes.read(tmp_path) is None
    assert notes.read(tmp_path / "file") is None
    assert notes.read(tmp_path / "file" / "note") is None


def test_a_note_has_room_from_the_start_and_grows_as_its_text_does(tmp_path: Path) -> None:
    """16 KiB, 16 bytes of which are the checksum and the length."""
    path = tmp_path / "note"
    note = NoteFile(path)
    sizes = [path.stat().st_size]
    for length in (1, 2**14 - 16, 2**14 - 15, 1):
        note.write(b"x" * length)
        sizes.append(path.stat().st_size)
    note.close()

    assert [2**14, 2**14, 2**14, 2**14 + 1, 2**14 + 1] == sizes
    assert (b"x", 0o600) == (notes.read(path), path.stat().st_mode & 0o777)
    assert path.read_bytes().startswith(b"%08x00000001x" % zlib.crc32(b"00000001x"))


def test_a_note_that_is_opened_again_keeps_its_text(tmp_path: Path) -> None:
    first = NoteFile(tmp_path / "note")
    first.write(b"demo 1")
    first.close()
    NoteFile(tmp_path / "note").close()

    assert b"demo 1" == notes.read(tmp_path / "note")


@pytest.mark.parametrize(("torn", "found"), [(1, b"demo 1"), (4, b"demo 1"), (5, None)])
def test_a_note_that_is_being_written_is_read_again_up_to_five_times(
    torn: int, found: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "note"
    note = NoteFile(path)
    note.write(b"demo 1")
    note.close()
    whole, reads, slept = path.read_bytes(), [0], list[float]()
    monkeypatch.setattr("localrank_service.models.notes.time.sleep", slept.append)

    def read(_path: Path) -> bytes:
        reads[0] += 1
        return whole.replace(b"demo", b"damo") if reads[0] <= torn else whole

    monkeypatch.setattr(type(path), "read_bytes", read)

    assert found == notes.read(path)
    assert min(torn + 1, 5) == reads[0]
    assert [0.001] * torn == slept


def test_a_disk_that_is_full_keeps_the_text_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = NoteFile(tmp_path / "note")
    note.write(b"demo 1")
    pwrite = os.pwrite
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", lambda file, content, start: pwrite(file, content[:100], start))
        with pytest.raises(OSError, match="the disk is full"):
            note.write(b"x" * 2**15)
        with pytest.raises(OSError, match="the disk is full"):
            NoteFile(tmp_path / "other")
    note.close()

    assert b"demo 1" == notes.read(tmp_path / "note")
