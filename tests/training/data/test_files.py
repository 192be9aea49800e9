"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localrank.errors import PublishFailed
from localrank_training.data.writing import check_writable, whole_file


def test_a_file_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"

    with whole_file(path) as file:
        file.write("a\r\nb\n")
        assert not path.exists()

    assert b"a\r\nb\n" == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt])
def test_what_is_interrupted_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    path = tmp_path / "report.csv"
    path.write_text("old")

    def write() -> None:
        with whole_file(path) as file:
            file.write("new")
            raise interruption

    with pytest.raises(interruption):
        write()

    assert "old" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)

    with whole_file(link) as file:
        file.write("new")

    assert link.is_symlink()
    assert "new" == target.read_text()


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with whole_file(pipe) as file:
            file.write("new")
        assert b"new" == os.read(reader, 10)
    finally:
        os.close(reader)

    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("folder", "it is a folder"),
        ("nowhere/report.csv", "no such folder: .*nowhere"),
        ("file/report.csv", ".*file is a file"),
    ],
)
def test_what_cannot_be_written_is_refused_before_and_while_it_is_written(
    tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    path = tmp_path / name

    with pytest.raises(PublishFailed, match=f"{name}: cannot be written: {why}"):
        check_writable(path)
    with pytest.raises(PublishFailed, match=f"{name}: cannot be written: "), whole_file(path):
        pass


def test_devices_and_new_files_can_be_written(tmp_path: Path) -> None:
    check_writable(Path(os.devnull))
    check_writable(tmp_path / "new.csv")
