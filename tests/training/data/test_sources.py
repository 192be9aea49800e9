"""Where judged queries lie, and their bytes."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
import zstandard

from localrank.errors import InvalidData
from localrank_training.data import sources
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_part_that_is_only_a_byte_order_mark_does_not_end_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(compress(MARK) + compress(b"1 qid:a 1:1\n0 qid:b 1:2\n"))
    whole = read(path)
    monkeypatch.setattr(sources, "_PIECE", len(MARK))

    pieces = read(path)

    assert ("a", "b") == whole.query_ids == pieces.query_ids


@pytest.mark.parametrize(("at", "kind"), [(4095, "binary"), (4096, "text")])
def test_a_zero_byte_in_the_first_four_kib_makes_a_file_binary(tmp_path: Path, at: int, kind: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1 qid:1 1:1\n" * 400)
    content = bytearray(path.read_bytes())
    content[at] = 0
    path.write_bytes(bytes(content))

    if kind == "text":
        assert ["text"] == [source.kind for source in sources.locate([path])]
    else:
        with pytest.raises(InvalidData, match=r"found a binary file \(byte 4096 is 0x00\)"):
            sources.locate([path])


def test_files_of_a_folder_that_hold_something_else_are_refused_or_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04")
    (tmp_path / "b.txt").write_text("1 qid:1 1:1\n")
    told: list[tuple[Path, str]] = []

    with pytest.raises(InvalidData, match=r"a\.zip: expected LETOR text or CSV .*, found a zip archive"):
        sources.locate([tmp_path])
    found = sources.locate([tmp_path], lambda path, error: told.append((path, str(error))))

    assert [tmp_path / "b.txt"] == [source.path for source in found]
    assert [tmp_path / "a.zip"] == [path for path, _ in told]
    # A file that is named is never left out.
    with pytest.raises(InvalidData, match="found a zip archive"):
        sources.locate([tmp_path / "a.zip"], lambda path, error: told.append((path, str(error))))


def test_several_paths_come_in_their_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text("1 qid:1 1:1\n")

    found = sources.locate([tmp_path / "b", str(tmp_path / "a")])

    assert ["b", "a"] == [source.path.name for source in found]
    with pytest.raises(InvalidData, match="no data: expected at least one file or folder"):
        sources.locate([])
    with pytest.raises(InvalidData, match="expected the path of a file or folder, found nothing"):
        sources.locate([tmp_path / "a", ""])


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_blocks_are_whole_lines_and_the_last_one_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: Callable[[bytes], bytes], ending: bytes
) -> None:
    lines = [b"%d qid:1 1:%s" % (number, b"1" * (number % 7 + 1)) for number in range(40)]
    path = tmp_path / "a"
    path.write_bytes(compress(b"\n".join(lines) + ending))
    (source,) = sources.locate([path])

    for block, piece in ((1, 1), (20, 7), (33, 100), (1 << 20, 1 << 18)):
        monkeypatch.setattr(sources, "BLOCK", block)
        monkeypatch.setattr(sources, "_PIECE", piece)
        told: list[int] = []
        found = list(sources.blocks(source, told.append))

        assert b"".join(line + b"\n" for line in lines) == b"".join(found)
        assert all(part.endswith(b"\n") for part in found)
        assert told == sorted(told)
        assert path.stat().st_size == told[-1]
        if piece <= block:
            assert max(len(part) for part in found[:-1] or [b""]) < block + piece + 20


def test_a_comment_is_the_first_line_only_if_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\n \n # one\n#two\nthree\n")
    (source,) = sources.locate([path])

    assert b"three" == sources.first_line(source)
    assert b" # one" == sources.first_line(source, comments=True)


def test_only_the_first_block_is_searched_for_a_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BLOCK", 8)
    monkeypatch.setattr(sources, "_PIECE", 8)
    path = tmp_path / "a"
    path.write_bytes(b"# 45678\n1 qid:1 1:1\n")
    (source,) = sources.locate([path])

    assert b"" == sources.first_line(source)
