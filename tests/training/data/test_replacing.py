"""Files and folders get their name when they are whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from localrank.errors import InvalidData
from localrank_training.data.replacing import replacing, telling

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"

    with replacing(path, overwrite=False) as temporary:
        temporary.write_text("new")
        assert not path.exists()
        assert path.name == temporary.name
        assert temporary.parent.name.startswith(".a.")
        assert tmp_path == temporary.parent.parent

    assert "new" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def fail() -> None:
        with replacing(tmp_path / "a", overwrite=True) as temporary:
            temporary.write_text("new")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()

    assert [tmp_path / "a"] == list(tmp_path.iterdir())
    assert "old" == (tmp_path / "a").read_text()


def test_a_name_in_use_is_refused_unless_it_may_be_replaced(tmp_path: Path) -> None:
    for name in ("file", "folder"):
        (tmp_path / "file").write_text("old")
        (tmp_path / "folder").mkdir()
        with pytest.raises(InvalidData) as caught, replacing(tmp_path / name, overwrite=False):
            pass
        (tmp_path / "file").unlink()
        (tmp_path / "folder").rmdir()

        expected = "expected a name that is not in use, found a file or folder (--overwrite replaces it)"
        assert f"{tmp_path / name}: {expected}" == str(caught.value)
    assert [] == list(tmp_path.iterdir())


def test_a_folder_replaces_a_folder_with_all_that_it_held(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("old")

    with replacing(tmp_path / "a", overwrite=True) as temporary:
        temporary.mkdir()
        (temporary / "new").write_text("new")

    assert [tmp_path / "a"] == list(tmp_path.iterdir())
    assert [tmp_path / "a" / "new"] == list((tmp_path / "a").iterdir())


def test_what_is_neither_a_file_nor_a_folder_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InvalidData) as caught, replacing(tmp_path / "pipe", overwrite=True):
        pass

    assert f"{tmp_path / 'pipe'}: expected a file or a folder to replace, found neither" == str(caught.value)


@pytest.mark.parametrize(
    ("error", "words"),
    [(OSError(28, "No space left on device"), "No space left on device"), (OSError("x"), "x")],
)
def test_what_could_not_be_written_is_said(tmp_path: Path, error: OSError, words: str) -> None:
    with pytest.raises(InvalidData) as caught, telling(tmp_path / "a"):
        raise error

    assert f"{tmp_path / 'a'}: cannot be written: {words}" == str(caught.value)
