"""What is wrong with delimited text is said with its row and its column."""

from __future__ import annotations

from pathlib import Path

import pytest

from localrank.errors import InvalidData
from localrank_training.data import delimited
from localrank_training.data.columns import AS_NAMED, Columns
from localrank_training.data.delimited import DelimitedReader, delimiter_of
from localrank_training.data.reading import read
from localrank_training.data.sources import Source


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


@pytest.mark.parametrize(
    ("line", "delimiter"),
    [
        (b"1 qid:1 1:1", None),
        (b"1\tqid:1\t1:1", None),
        (b"1 qid:1", None),
        (b"1", None),
        (b"a", None),
        (b"a b c", None),
        (b"label,qid", ","),
        (b"label;qid", ";"),
        (b"label|qid", "|"),
        (b"label\tqid", "\t"),
        (b"a qid,b", ","),
        (b"qid:1,b", ","),
        (b"a;b;c,d", ";"),
        # As many of each: tabs come first, then commas.
        (b"a,b\tc", "\t"),
        (b"a;b,c", ","),
        (b"a|b;c", ";"),
        (b"1,a,2\r\n", ","),
        (b"1,2,a b", ","),
    ],
)
def test_what_separates_the_columns_is_what_occurs_most(line: bytes, delimiter: str | None) -> None:
    assert delimiter == delimiter_of(line, "x")


@pytest.mark.parametrize(
    "line", [b"1,2", b"1,,2", b",", b'"1",2', b"1; 2.5e3 ;.5", b"-1,+2.\r\n", b"1|2|\n", b"1\t"]
)
def test_a_first_line_of_numbers_is_no_header(line: bytes) -> None:
    with pytest.raises(InvalidData) as caught:
        delimiter_of(line, "x.csv")

    expected = "expected a header line with the names of the columns, found only numbers in the first line"
    assert f"x.csv: {expected}" == str(caught.value)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"1,b,c", "expected a header line with the names of the columns, found '1' in the first line"),
        (b"label,1,2", "expected a column 'qid', found 'label', '1', '2'; "),
        (b"qid,1,2", "expected a column 'label', found 'qid', '1', '2'; "),
        (b"a,b,c", "expected columns 'label', 'qid', found 'a', 'b', 'c'; "),
    ],
)
def test_a_document_as_the_first_line_is_told_from_other_names(
    tmp_path: Path, header: bytes, words: str
) -> None:
    assert refused(tmp_path / "log.csv", header + b"\n1,a,2\n").startswith(words)


def test_a_column_may_be_called_by_a_number(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,qid,2020,2021\n1,a,5,6\n")

    found = read(tmp_path / "a.csv")

    assert ("2020", "2021") == found.feature_names
    assert [[5, 6]] == found.documents.tolist()


def test_columns_are_read_as_their_first_values_look(tmp_path: Path) -> None:
    content = (
        "label,qid,flag,whole,empty,day,url\n1,007,true,1,,2024-01-02,u\n0,007,false,2.5,,2024-01-03,v\n"
    )
    (tmp_path / "a.csv").write_text(content)
    said: list[str] = []

    found = read(tmp_path / "a.csv", say=said.append)

    assert ("007",) == found.query_ids
    assert ("flag", "whole", "empty") == found.feature_names
    assert [[1, 1], [0, 2.5]] == found.documents[:, :2].tolist()
    assert said[0].endswith("left out: 'day' (text), 'url' (text)")


def test_labels_that_are_not_wanted_may_be_anything(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,qid,x\n1,a,5\n?!,a,6\n")

    assert [[5], [6]] == read(tmp_path / "a.csv", columns=Columns(judged=False)).documents.tolist()


def test_other_words_of_arrow_are_cut() -> None:
    reader = DelimitedReader.__new__(DelimitedReader)
    reader._source = Source(Path("a.csv"), "text", None)

    found = str(reader._explained("x" * 300 + "\ny"))

    assert "a.csv: expected a table of delimited text, found: " + "x" * 200 == found


def test_four_mib_are_read_at_a_time() -> None:
    assert 2**22 == delimited._BLOCK


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b'label,qid,"a\nb",docid', "4"),
        (b'label,qid,"a,b",docid', "docid"),
        (b'label,qid,a"b,docid', "docid"),
        (b"label,qid," + b"x" * 200_000 + b",docid", "4"),
    ],
)
def test_a_column_that_the_first_line_does_not_name_has_its_number(
    tmp_path: Path, header: bytes, name: str
) -> None:
    content = header + b"\n1,a,2,u\n1,a,2,\xff\n"

    expected = f"row 2, column {name!r}: expected UTF-8 text, found other bytes"
    assert expected == refused(tmp_path / "log.csv", content)
