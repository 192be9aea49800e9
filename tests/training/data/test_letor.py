from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank.errors import InvalidData
from localrank_training.data import letor

if TYPE_CHECKING:
    from localrank_training.data.letor import Lines

MAX32 = float(np.finfo(np.float32).max)

# One thing wrong per line: the text, the column where it is, and the words that the sentence must have.
WRONG: dict[str, tuple[str | bytes, int, str]] = {
    "label missing": ("qid:1 1:0.5", 1, "a label before the first colon"),
    "label is no number": ("x qid:1 1:0.5", 1, "a number as label, found 'x'"),
    "label is nan": ("nan qid:1 1:0.5", 1, "a number as label, found 'nan'"),
    "label beyond double": ("1e999 qid:1 1:0.5", 1, "a label within the range of float64"),
    "label with underscore": ("1_0 qid:1 1:0.5", 1, "a number as label"),
    "query missing": ("1 1:0.5", 3, "qid:QUERY after the label, found '1:0.5'"),
    "nothing after the label": ("1", 2, "qid:QUERY after the label, found the end of the line"),
    "nothing but a comment after the label": ("1  # x", 2, "found the end of the line"),
    "query empty": ("1 qid: 1:0.5", 3, "a query after qid:, found nothing"),
    "query not UTF-8": (b"1 qid:a\xe9 1:0.5", 8, "UTF-8 text, found the byte 0xe9"),
    "index zero": ("1 qid:1 0:0.5", 9, "counted from 1, found index 0"),
    "index negative": ("1 qid:1 -3:0.5", 9, "counted from 1, found index -3"),
    "index twice": ("1 qid:1 1:0.5 1:0.5", 15, "every feature once, found index 1 again"),
    "index descending": ("1 qid:1 2:0.5 1:0.5", 15, "ascending feature indices, found index 1 after 2"),
    "index not a number": ("1 qid:1 a:0.5", 9, "a feature index, found 'a'"),
    "index hexadecimal": ("1 qid:1 0x1:0.5", 9, "a feature index, found '0x1'"),
    "index with a plus": ("1 qid:1 +1:0.5", 9, "a feature index, found '+1'"),
    "index with a point": ("1 qid:1 1.0:0.5", 9, "a feature index, found '1.0'"),
    "index too large": ("1 qid:1 1000000:0.5", 9, "at most 100000 features, found index 1000000"),
    "index of many digits": (f"1 qid:1 {'9' * 5000}:0.5", 9, "at most 100000 features"),
    "no index": ("1 qid:1 :0.5", 9, "INDEX:VALUE, found ':0.5'"),
    "no colon": ("1 qid:1 1:0.5 0.5", 15, "INDEX:VALUE, found '0.5'"),
    "no value": ("1 qid:1 1: 2:1", 11, "a value for feature 1, found nothing"),
    "value is text": ("1 qid:1 1:abc", 11, "a number as value of feature 1, found 'abc'"),
    "value hexadecimal": ("1 qid:1 1:0x1p3", 11, "a number as value of feature 1"),
    "value with a comma": ("1 qid:1 1:0,5", 11, "found '0,5'"),
    "value with two colons": ("1 qid:1 1:2:3", 11, "found '2:3'"),
    "value nan": ("1 qid:1 1:NaN", 11, "a finite number, or '?' for a missing value, found 'NaN'"),
    "value inf": ("1 qid:1 1:-inf", 11, "a finite number, or '?' for a missing value, found '-inf'"),
    "value beyond float32": ("1 qid:1 1:1 2:3.5e38", 15, "a value within the range of float32"),
    "value beyond double": ("1 qid:1 1:1 2:-1e400", 15, "a value within the range of float32"),
    "two question marks": ("1 qid:1 1:??", 11, "found '??'"),
    "control character": ("1 qid:1 1:0.5\x00", 14, "the control character 0x00"),
    "comment not UTF-8": (b"1 qid:1 1:0.5 # caf\xe9", 20, "a comment in UTF-8, found the byte 0xe9"),
}


def parse(text: str | bytes) -> Lines:
    return letor.parse(text.encode() if isinstance(text, str) else text, name="x.txt")


def assert_equal(expected: Lines, actual: Lines) -> None:
    for field in ("labels", "queries", "counts", "columns", "line_numbers"):
        np.testing.assert_array_equal(getattr(expected, field), getattr(actual, field))
        assert getattr(expected, field).dtype == getattr(actual, field).dtype
    assert expected.values.tobytes() == actual.values.tobytes()
    assert list(expected.query_ids) == list(actual.query_ids)
    assert _texts(expected) == _texts(actual)
    assert expected.n_lines == actual.n_lines


def _texts(lines: Lines) -> list[str] | None:
    return None if lines.comments is None else lines.comments.to_pylist()


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_file_line_and_column(case: str) -> None:
    line, column, words = WRONG[case]
    line = line.encode() if isinstance(line, str) else line

    with pytest.raises(InvalidData) as caught:
        parse(b"0 qid:1 1:0\n\n" + line + b"\n2 qid:1 1:0\n")

    message = str(caught.value)
    assert message.startswith(f"x.txt:3:{column}: expected ")
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize("case", WRONG)
def test_the_fast_way_gives_up_on_everything_that_is_wrong(case: str) -> None:
    line = WRONG[case][0]
    line = line.encode() if isinstance(line, str) else line

    with pytest.raises((letor._NotPlainError, pa.ArrowInvalid)):
        letor._parse_fast(line + b"\n", 1, letor.MAX_FEATURES)


@pytest.mark.parametrize(
    "text",
    [
        "2 qid:a 1:0.5 3:-1e-3 # one\r\n\r\n0 qid:b 2:7\t\r\n",
        "  1 qid:1 1:1   2:2  \n\n# only a comment\n\t\n0 qid:1 # none\n",
        "+1 qid:1 1:+0.5 2:.5 3:5. 4:1E+2 5:-0 6:0007 0008:1\n1 qid:0x1f\n0.25 qid:1\n",
        "1 qid:1 1:? 2:3 # is that so?\n",
        "1 qid:é 1:1 # 漢字 # twice\n0 qid:q?+x 1:1#tight\n2 qid:1 #\n",
        "\n",
    ],
)
def test_both_ways_read_the_same(text: str) -> None:
    block = text.encode()

    fast = letor._parse_fast(block, 7, letor.MAX_FEATURES)

    assert_equal(letor.parse_exactly(block, name="x", first_line=7), fast)


def test_a_line_becomes_what_it_says() -> None:
    lines = parse("2 qid:a 1:0.5 3:-1e-3 # one \r\n\n0.5 qid:b 2:? 4:3.4028235e38\n1 qid:a\n")

    assert [2.0, 0.5, 1.0] == lines.labels.tolist()
    assert ["a", "b"] == list(lines.query_ids)
    assert [0, 1, 0] == lines.queries.tolist()
    assert [2, 2, 0] == lines.counts.tolist()
    assert [0, 2, 1, 3] == lines.columns.tolist()
    np.testing.assert_array_equal(np.array([0.5, -1e-3, np.nan, MAX32], np.float32), lines.values)
    assert [1, 3, 4] == lines.line_numbers.tolist()
    assert [" one ", "", ""] == lines.comments.to_pylist()
    assert 4 == lines.n_lines


def test_vertical_space_separates_and_a_colon_may_be_part_of_a_query() -> None:
    lines = parse("1 qid:a:b\v1:2\f2:3\n")

    assert ["a:b"] == list(lines.query_ids)
    assert [2.0, 3.0] == lines.values.tolist()


def test_a_tiny_value_rounds_to_zero() -> None:
    assert [0.0, 0.0] == parse("1 qid:1 1:1e-60 2:1e-400\n").values.tolist()


@given(
    st.floats(width=64, allow_nan=False, min_value=-MAX32, max_value=MAX32),
    st.sampled_from(["{!r}", "{:.12f}"]),
)
def test_a_value_is_the_float32_of_the_double_nearest_to_the_text(value: float, form: str) -> None:
    text = form.format(value)

    lines = parse(f"0 qid:1 1:{text}\n")

    assert np.float32(float(text)).tobytes() == lines.values.tobytes()


@given(st.text("01:.-+e#?q id\tnaf\r\nx9", max_size=60))
def test_both_ways_agree_on_any_text(text: str) -> None:
    """Whatever the fast way accepts, the exact one accepts and reads as the same."""
    block = ("1 qid:1 1:2 " + text + "\n").encode()
    try:
        fast = letor._parse_fast(block, 1, letor.MAX_FEATURES)
    except (letor._NotPlainError, pa.ArrowInvalid):
        return

    assert_equal(letor.parse_exactly(block, name="x"), fast)


@given(
    st.lists(
        st.sampled_from(
            [
                "1",
                "0",
                "qid:1",
                "qid:2",
                "1:1",
                "2:?",
                "3:.5",
                "7:-0",
                "\n",
                "\r\n",
                "#c",
                "#",
                "\t",
                "10:1e3",
                "+2",
                "0:1",
            ]
        ),
        max_size=25,
    )
)
def test_both_ways_agree_on_any_tokens(tokens: list[str]) -> None:
    block = ("1 qid:1 " + " ".join(tokens) + "\n").encode()
    try:
        fast = letor._parse_fast(block, 1, letor.MAX_FEATURES)
    except (letor._NotPlainError, pa.ArrowInvalid):
        return

    assert_equal(letor.parse_exactly(block, name="x"), fast)


@pytest.mark.parametrize("read", [letor._parse_fast, None], ids=["fast", "exact"])
def test_the_last_feature_that_is_allowed_is_read_and_the_next_one_is_not(read: Any) -> None:
    def parsed(index: int) -> Lines:
        block = f"1 qid:1 {index}:0.5\n".encode()
        if read is None:
            return letor.parse_exactly(block, name="x", max_features=12)
        found: Lines = read(block, 1, 12)
        return found

    assert [11] == parsed(12).columns.tolist()
    assert [0] == parsed(1).columns.tolist()
    with pytest.raises((letor._NotPlainError, InvalidData)):
        parsed(13)


def test_a_hundred_thousand_features_are_allowed() -> None:
    assert [99_999] == parse("1 qid:1 100000:1\n").columns.tolist()
    with pytest.raises(InvalidData, match="at most 100000 features, found index 100001"):
        parse("1 qid:1 100001:1\n")


@pytest.mark.parametrize(
    ("index", "found"),
    [
        ("0" * 30 + "5", "feature 5"),
        ("9" * 17, "at most 100000 features, found index " + "9" * 17),
        ("9" * 18, "at most 100000 features, found index " + "9" * 18),
        ("1" * 50, "at most 100000 features, found index " + "1" * 40),
    ],
)
def test_an_index_of_many_digits_is_its_number(index: str, found: str) -> None:
    with pytest.raises(InvalidData) as caught:
        parse(f"1 qid:1 1:1 {index}:x\n" if "feature 5" in found else f"1 qid:1 {index}:1\n")

    message = str(caught.value)
    assert message.endswith(found) or f"value of feature {index}" in message


@pytest.mark.parametrize(("length", "shown"), [(40, "x" * 40), (41, "x" * 37 + "...")])
def test_what_was_found_is_cut_if_it_is_long(length: int, shown: str) -> None:
    with pytest.raises(InvalidData) as caught:
        parse(f"1 qid:1 1:{'x' * length}\n")

    assert str(caught.value).endswith(f"found '{shown}'")


def test_lines_are_numbered_from_where_the_block_begins() -> None:
    block = b"1 qid:1 1:1\n\n0 qid:2 1:2\n"

    lines = letor.parse(block, name="x", first_line=11)

    assert [11, 13] == lines.line_numbers.tolist()
    assert 3 == lines.n_lines
    with pytest.raises(InvalidData, match=r"^x:12:1: "):
        letor.parse(b"1 qid:1 1:1\nx qid:1 1:1\n", name="x", first_line=11)


@pytest.mark.parametrize("text", ["\n", " \t\n\n", "# only\n"])
def test_a_block_without_documents_counts_its_lines(text: str) -> None:
    lines = parse(text)

    assert (0, 0, 0, None) == (len(lines.labels), len(lines.values), len(lines.query_ids), lines.comments)
    assert text.count("\n") == lines.n_lines


@pytest.mark.parametrize("value", ["3.4028235e38", "-3.4028235e38", "3.40282356e38"])
def test_the_largest_float32_is_a_value(value: str) -> None:
    """The third is nearer to the largest float32 than to the next power of two, so it is rounded down to it."""
    assert [np.copysign(MAX32, float(value))] == parse(f"0 qid:1 1:{value}\n").values.tolist()
    with pytest.raises(InvalidData, match="within the range of float32"):
        parse("0 qid:1 1:3.4028236e38\n")


@pytest.mark.parametrize("label", ["0", "-0", "1e308", "0.0"])
def test_a_label_is_at_least_zero(label: str) -> None:
    assert [float(label)] == parse(f"{label} qid:1 1:1\n").labels.tolist()
    with pytest.raises(InvalidData, match=r"x\.txt:1:1: expected a label of at least 0, found '-1e-300'"):
        parse("-1e-300 qid:1 1:1\n")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("1 qid:1 1:1\r0 qid:1 1:2\r\n", 1, 12),
        ("1 qid:1 1:1 # a\r0 qid:1 1:2 # b\r\n", 1, 16),
        ("1 qid:1 1:1\n# remark\r0 qid:1 1:2\n", 2, 9),
        ("\r\r1 qid:1 1:1\n", 1, 1),
    ],
)
def test_lines_that_end_with_a_carriage_return_only_are_refused(text: str, line: int, column: int) -> None:
    with pytest.raises(InvalidData) as caught:
        parse(text)

    expected = "expected lines that end with a line feed, found a carriage return alone"
    assert f"x.txt:{line}:{column}: {expected}" == str(caught.value)


def test_line_ends_that_were_made_windows_twice_are_read() -> None:
    lines = parse("1 qid:1 1:1 # a\r\r\n0 qid:1 1:2 #\r\r\n")

    assert [1, 2] == lines.values.tolist()
    assert [" a", ""] == lines.comments.to_pylist()
