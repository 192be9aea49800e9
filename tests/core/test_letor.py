"""LETOR text: what it says, and what is wrong in it with line and column. Training and the service read it by this."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank import letor
from localrank.letor import Lines, WrongLineError, longest_line
from tests.fuzzing.oracles import letor_lines

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


def parse(text: str | bytes, max_features: int = 100_000, first_line: int = 1) -> Lines:
    block = text.encode() if isinstance(text, str) else text
    return letor.parse(block, max_features=max_features, first_line=first_line)


def refused(text: str | bytes, max_features: int = 100_000, first_line: int = 1) -> WrongLineError:
    with pytest.raises(WrongLineError) as caught:
        parse(text, max_features, first_line)
    return caught.value


def comments(lines: Lines) -> list[str] | None:
    if lines.comments is None:
        return None
    return [lines.text[begin:end].decode() for begin, end in lines.comments.tolist()]


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_line_and_column(case: str) -> None:
    line, column, words = WRONG[case]
    line = line.encode() if isinstance(line, str) else line

    error = refused(b"0 qid:1 1:0\n\n" + line + b"\n2 qid:1 1:0\n")

    assert (3, column) == (error.line, error.column)
    assert words in f"{error.expected}, found {error.found}"
    assert "\n" not in str(error)


@pytest.mark.parametrize("place", range(9))
def test_the_first_wrong_line_is_named_wherever_it_is(place: int) -> None:
    lines = [b"1 qid:1 1:1 2:2", b"", b"# comment"] * 3
    lines[place] = b"1 qid:1 1:x"

    error = refused(b"\n".join([*lines, b"wrong", b""]), first_line=100)

    assert (100 + place, 11, "'x'") == (error.line, error.column, error.found)


@pytest.mark.parametrize(
    "text",
    [
        "2 qid:a 1:0.5 3:-1e-3 # one\r\n\r\n0 qid:b 2:7\t\r\n",
        "  1 qid:1 1:1   2:2  \n\n# only a comment\n\t\n0 qid:1 # none\n",
        "+1 qid:1 1:+0.5 2:.5 3:5. 4:1E+2 5:-0 6:0007 0008:1\n1 qid:0x1f\n0.25 qid:1\n",
        "1 qid:1 1:? 2:3 # is that so?\n",
        "1 qid:é 1:1 # 漢字 # twice\n0 qid:q?+x 1:1#tight\n2 qid:1 #\n",
        "1 qid:a:b::c 1:1\n0 qid:: 2:1\n",
        "1 qid:1 00000000000000000000007:0." + "1" * 5000 + "\n",
        "\n",
    ],
)
def test_whatever_is_allowed_is_read_as_value_by_value(text: str) -> None:
    assert_said(text.encode())


def assert_said(block: bytes, max_features: int = 100_000) -> None:
    """Compare with the oracle: the same documents, or both refuse."""
    expected = letor_lines(block, max_features)
    if isinstance(expected, int):
        assert expected == refused(block, max_features).line
        return
    lines = parse(block, max_features)
    ends = np.cumsum(lines.counts)
    texts = comments(lines) or [""] * len(ends)
    found = [
        (
            lines.line_numbers[at],
            lines.labels[at],
            lines.query_ids[lines.queries[at]],
            list(
                zip(
                    (lines.columns[begin:end] + 1).tolist(),
                    lines.values[begin:end].view(np.uint32).tolist(),
                    strict=True,
                )
            ),
            texts[at],
        )
        for at, (begin, end) in enumerate(zip(ends - lines.counts, ends, strict=True))
    ]
    wanted = [
        (
            one.line,
            one.label,
            one.query_id,
            [(i, np.float32(v).view(np.uint32)) for i, v in one.values],
            one.comment,
        )
        for one in expected
    ]
    assert wanted == found
    assert block.count(b"\n") == lines.n_lines
    assert len(set(lines.query_ids)) == len(lines.query_ids)


def test_a_line_becomes_what_it_says() -> None:
    lines = parse("2 qid:a 1:0.5 3:-1e-3 # one \r\n\n0.5 qid:b 2:? 4:3.4028235e38\n1 qid:a\n")

    assert [2.0, 0.5, 1.0] == lines.labels.tolist()
    assert ["a", "b"] == list(lines.query_ids)
    assert [0, 1, 0] == lines.queries.tolist()
    assert [2, 2, 0] == lines.counts.tolist()
    assert [0, 2, 1, 3] == lines.columns.tolist()
    np.testing.assert_array_equal(np.array([0.5, -1e-3, np.nan, MAX32], np.float32), lines.values)
    assert [1, 3, 4] == lines.line_numbers.tolist()
    assert [" one ", "", ""] == comments(lines)
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


@given(st.text("01:.-+e#?q id\tnaf\r\n\v\x00x9_é", max_size=60))
def test_any_text_is_read_or_refused_as_value_by_value(text: str) -> None:
    assert_said(("1 qid:1 1:2 " + text + "\n").encode(), 20)


TOKENS = [
    *(
        "1",
        "0",
        "+2",
        "nan",
        "1_0",
        "qid:1",
        "qid:2",
        "qid:a:b",
        "1:1",
        "2:?",
        "3:.5",
        "7:-0",
        "10:1e3",
        "0:1",
    ),
    *(
        "\n",
        "\n1 qid:3",
        "\r\n",
        "\r\r\n",
        "#c",
        "#",
        "\t",
        "1:1,2:1",
        "21:1",
        "9:1e39",
        "4:1_0",
        "5:nan",
        "007:1",
    ),
]


@given(st.lists(st.sampled_from(TOKENS), max_size=25))
def test_any_tokens_are_read_or_refused_as_value_by_value(tokens: list[str]) -> None:
    assert_said(("1 qid:1 " + " ".join(tokens) + "\n").encode(), 20)


def test_the_last_feature_that_is_allowed_is_read_and_the_next_one_is_not() -> None:
    assert [11] == parse("1 qid:1 12:0.5\n", 12).columns.tolist()
    assert [0] == parse("1 qid:1 1:0.5\n", 12).columns.tolist()
    assert "index 13" == refused("1 qid:1 13:0.5\n", 12).found


def test_a_hundred_thousand_features_are_allowed() -> None:
    assert [99_999] == parse("1 qid:1 100000:1\n").columns.tolist()
    assert "index 100001" == refused("1 qid:1 100001:1\n").found


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
    error = refused(f"1 qid:1 1:1 {index}:x\n" if "feature 5" in found else f"1 qid:1 {index}:1\n")

    assert found in str(error)


@pytest.mark.parametrize(("length", "shown"), [(40, "x" * 40), (41, "x" * 37 + "...")])
def test_what_was_found_is_cut_if_it_is_long(length: int, shown: str) -> None:
    assert f"'{shown}'" == refused(f"1 qid:1 1:{'x' * length}\n").found


def test_lines_are_numbered_from_where_the_block_begins() -> None:
    block = b"1 qid:1 1:1\n\n0 qid:2 1:2\n"

    lines = parse(block, first_line=11)

    assert [11, 13] == lines.line_numbers.tolist()
    assert 3 == lines.n_lines
    assert 12 == refused("1 qid:1 1:1\nx qid:1 1:1\n", first_line=11).line


@pytest.mark.parametrize("text", ["\n", " \t\n\n", "# only\n"])
def test_a_block_without_documents_counts_its_lines(text: str) -> None:
    lines = parse(text)

    assert (0, 0, 0, None) == (len(lines.labels), len(lines.values), len(lines.query_ids), lines.comments)
    assert text.count("\n") == lines.n_lines


@pytest.mark.parametrize("value", ["3.4028235e38", "-3.4028235e38", "3.40282356e38"])
def test_the_largest_float32_is_a_value(value: str) -> None:
    """The third is nearer to the largest float32 than to the next power of two, so it is rounded down to it."""
    assert [np.copysign(MAX32, float(value))] == parse(f"0 qid:1 1:{value}\n").values.tolist()
    assert "within the range of float32" in refused("0 qid:1 1:3.4028236e38\n").expected


@pytest.mark.parametrize("label", ["0", "-0", "1e308", "0.0"])
def test_a_label_is_at_least_zero(label: str) -> None:
    assert [float(label)] == parse(f"{label} qid:1 1:1\n").labels.tolist()
    assert "line 1, column 1: expected a label of at least 0, found '-1e-300'" == str(
        refused("-1e-300 qid:1 1:1\n")
    )


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
    error = refused(text)

    assert (line, column, "a carriage return alone") == (error.line, error.column, error.found)


def test_line_ends_that_were_made_windows_twice_are_read() -> None:
    lines = parse("1 qid:1 1:1 # a\r\r\n0 qid:1 1:2 #\r\r\n")

    assert [1, 2] == lines.values.tolist()
    assert [" a", ""] == comments(lines)


def test_a_line_has_a_longest_length() -> None:
    """16,384 bytes, and 64 for each of three features; the end of the line does not count."""
    line = "1 qid:a 1:1 #".ljust(longest_line(3), "x")

    assert 16_384 + 3 * 64 == len(line)
    assert ["a"] == list(parse(f"{line}\r\n", 3).query_ids)
    error = refused(f"1 qid:1\n1{line}\n", 3)
    assert "line 2, column 16577: expected at most 16576 bytes on a line, found more" == str(error)


LONG = [
    "0 qid:1 1:" + "111:" * 100_000 + "_",
    "0 qid:1 1:" + "1" * 400_000 + "x",
    "0 qid:1 " + "0" * 400_000 + "1:1",
    "0 qid:1 1:0." + "1" * 400_000 + "e-5",
    "0 qid:1 " + "1:" * 200_000,
    "0 qid:" + ":" * 400_000 + " 1:1",
    "0 qid:1" + " \t" * 200_000 + "x",
    "\r" * 400_000 + "x",
    "0 qid:1 1:1 " + "#" * 400_000,
    "#\n" * 200_000 + "x",
    "0 qid:1\n" * 50_000 + "x",
    "0 qid:1 " + " ".join(f"{'0' * 10}{i}:1" for i in range(1, 50_000)),
    "0 qid:1 1:" + "é" * 200_000,
]


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_time_grows_with_the_bytes(text: str) -> None:
    """Text of 0.4 MB: what is quadratic takes half a minute and more."""
    begun = time.process_time()

    with suppress(WrongLineError):
        parse(text + "\n", 60_000)

    assert time.process_time() - begun < 3
