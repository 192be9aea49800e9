"""What is wrong with delimited text is said with its row and its column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from localrank.errors import InvalidData
from localrank_training.data import delimited
from localrank_training.data.columns import AS_NAMED, Columns
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from pathlib import Path


def refused(path: Path, content: bytes, columns: Columns = AS_NAMED) -> str:
    path.write_bytes(content)
    with pytest.raises(InvalidData) as caught:
        read(path, columns=columns)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


GOOD = b"1,a,u,2\n"


@pytest.mark.parametrize("block", [32, 1 << 22])
@pytest.mark.parametrize(
    ("row", "words"),
    [
        (b"1,\xe9,u,2", "row 21, column 'qid': expected UTF-8 text, found other bytes"),
        (b"1,a,\xff,2", "row 21, column 'docid': expected UTF-8 text, found other bytes"),
        (b"1,a,u", "row 21: expected 4 columns, found 3"),
        (b"1,a,u,2,3", "row 21: expected 4 columns, found 5"),
        (
            b"1,a,u,2x",
            "row 21, column 'x y': expected a number, found '2x'; --ignore 'x y' leaves the column out",
        ),
        (b"good,a,u,2", "row 21, column 'label': expected a number, found 'good'"),
        (b"label,qid,docid,x y", "row 21 repeats the header"),
    ],
)
def test_rows_are_counted_without_the_header_and_blank_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: bytes, words: str, block: int
) -> None:
    monkeypatch.setattr(delimited, "_BLOCK", block)
    content = b"label,qid,docid,x y\n" + GOOD * 10 + b"\n\n" + GOOD * 10 + row + b"\n" + GOOD

    assert words == refused(tmp_path / "log.csv", content)


@pytest.mark.parametrize(
    ("header", "byte"), [(b"label,qid,x\xff", "0xff"), (b"label,\xe9tat,x", "0xe9"), (b"\x80,qid,x", "0x80")]
)
def test_a_header_that_is_not_utf_8_is_refused(tmp_path: Path, header: bytes, byte: str) -> None:
    content = header + b"\n1,\xff,2\n"

    expected = f"expected names of columns in UTF-8, found the byte {byte} in the first line"
    assert expected == refused(tmp_path / "log.csv", content)


def test_the_header_may_begin_like_a_comment(tmp_path: Path) -> None:
    content = b'\n#label,qid,"doc,id",docid\n1,a,u,v\n1,a,u,\xff\n'

    expected = "row 2, column 'docid': expected UTF-8 text, found other bytes"
    assert expected == refused(tmp_path / "log.csv", content, Columns(label="#label"))
