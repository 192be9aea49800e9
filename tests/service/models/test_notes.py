from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from localrank_service.models import notes
from localrank_service.models.notes import Note

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@given(st.lists(st.binary() | st.integers(0, 40_000).map(lambda length: b"x" * length)))
def test_the_last_text_is_read(tmp_path_factory: pytest.TempPathFactory, texts: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("notes") / "note"
    note = Note(path)
    found = [notes.read(path)]
    for text in texts:
        note.write(text)
        found.append(notes.read(path))
    note.close()

    assert [None, *texts] == found


def test_a_torn_text_is_none(tmp_path: Path) -> None:
    path = tmp_path / "note"
    note = Note(path)
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
