"""The LETOR text of a file is read as `localrank.letor` reads text, with Arrow's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank import letor as core
from localrank.errors import InvalidData
from localrank_training.data import letor

if TYPE_CHECKING:
    from localrank.letor import Lines

#: What numbers are made of, and what Arrow or Python take besides.
PARTS = [
    "0",
    "1",
    "9",
    ".",
    "e",
    "E",
    "+",
    "-",
    "_",
    "x",
    "nan",
    "inf",
    "infinity",
    "1e999",
    "1e-999",
    "0x1p3",
]


def said(lines: Lines) -> list[bytes]:
    parts = (lines.labels, lines.queries, lines.counts, lines.columns, lines.values, lines.line_numbers)
    return [part.tobytes() for part in parts]


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=6).map("".join), st.booleans())
def test_arrow_and_python_take_the_same_numbers(number: str, label: bool) -> None:  # noqa: FBT001
    line = f"{number} qid:1 1:1\n" if label else f"1 qid:1 1:{number} 2:0.25\n"
    try:
        expected = core.parse(line.encode(), max_features=2)
    except core.WrongLineError:
        with pytest.raises(InvalidData):
            letor.parse(line.encode(), name="x", max_features=2)
    else:
        assert said(expected) == said(letor.parse(line.encode(), name="x", max_features=2))


def test_an_error_names_file_line_and_column() -> None:
    with pytest.raises(InvalidData) as caught:
        letor.parse(b"0 qid:1 1:0\n\n1 qid:1 1:NaN\n", name="x.txt", first_line=11)

    expected = "x.txt:13:11: expected a finite number, or '?' for a missing value, found 'NaN'"
    assert expected == str(caught.value)


def test_comments_become_a_column() -> None:
    lines = letor.parse("2 qid:a 1:0.5 # é \r\r\n\n1 qid:a # one # two\r\n0 qid:b\n".encode(), name="x")

    assert [" é ", " one # two", ""] == letor.comments_of(lines).to_pylist()
    assert letor.comments_of(letor.parse(b"# none\n0 qid:1 #\n", name="x")) is None
