"""LETOR / SVMlight text: one document per line.

    LABEL qid:QUERY INDEX:VALUE INDEX:VALUE ... # COMMENT

`parse` turns a block of whole lines into arrays. It has two ways to do so. The fast one works on all bytes of the block
at once (numpy finds the tokens, Arrow's compiled casts convert them) and gives up if anything is unusual. The exact one
goes line by line, has the same grammar, and says what is wrong where. A block goes to the exact one only if the fast
one gave up. So errors name line and column, and good files are always read fast.

Numbers are the double nearest to the text, then the float32 nearest to that double: what scikit-learn's loader and
the service's wire do too. Docs: docs/data.md, "Text".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from localrank.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from localrank.arrays import Indices, Vector

__all__ = ["MAX_FEATURES", "Lines", "parse", "parse_exactly"]

#: A wider matrix is refused: one stray index would otherwise ask for terabytes.
MAX_FEATURES = 100_000

_Bytes: TypeAlias = "NDArray[np.uint8]"


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """The documents of some lines, in their order; values as written, not yet a matrix.

    Attributes:
        labels: ``[n_docs]``.
        queries: ``[n_docs]`` position in ``query_ids``.
        query_ids: in order of their first appearance here.
        counts: ``[n_docs]`` values per document.
        columns: ``[n_values]`` int32 from 0, ascending within a document.
        values: ``[n_values]`` float32; NaN where missing.
        line_numbers: ``[n_docs]`` from 1.
        comments: ``[n_docs]`` an Arrow string array; None if no line has one.
        n_lines: lines in the text, blank ones included.
    """

    labels: Vector
    queries: Indices
    query_ids: Sequence[str]
    counts: Indices
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    line_numbers: Indices
    comments: Any
    n_lines: int


class _NotPlainError(Exception):
    """The fast way gives up on this block."""


def parse(
    block: bytes | bytearray, *, name: str, first_line: int = 1, max_features: int = MAX_FEATURES
) -> Lines:
    """Parse whole lines.

    Args:
        block: ends with a line feed.
        name: of the file, for messages.
        first_line: the number of the block's first line in its file.
        max_features: the largest index allowed.

    Raises:
        InvalidData: names file, line and column.
    """
    try:
        return _parse_fast(block, first_line, max_features)
    except (_NotPlainError, pa.ArrowInvalid):
        return parse_exactly(block, name=name, first_line=first_line, max_features=max_features)


# ---------------------------------------------------------------------------------------------------- all at once


def _parse_fast(block: bytes | bytearray, first_line: int, max_features: int) -> Lines:
    if block.count(b"\r") != block.count(b"\r\n"):
        raise _NotPlainError  # lines that end with a carriage return only
    text = np.frombuffer(block, np.uint8)
    line_ends = np.flatnonzero(text == ord("\n"))
    comments = None
    if b"#" in block:
        text = text.copy()
        comments = _blank_comments(text, line_ends)
    # Space, tab and carriage return separate; any other control character is the exact way's business.
    blank = text <= ord(" ")
    if int(np.count_nonzero(blank)) != sum(_count(text, character) for character in b" \t\r\n"):
        raise _NotPlainError
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1
    if not blank[0]:
        edges = np.concatenate([[0], edges])
    starts, ends = edges[0::2], edges[1::2]

    tokens_before = np.concatenate([[0], np.searchsorted(starts, line_ends)])
    tokens = np.diff(tokens_before)
    lines = np.flatnonzero(tokens)
    if len(lines) == 0:
        return _none(len(line_ends))
    tokens, first = tokens[lines], tokens_before[lines]
    if int(tokens.min()) < 2:
        raise _NotPlainError

    is_value = np.ones(len(starts), bool)
    is_value[first] = False
    is_value[first + 1] = False
    colons = np.flatnonzero(text == ord(":"))
    if len(colons) != len(starts) - len(lines):
        raise _NotPlainError
    query_start, query_end = starts[first + 1], ends[first + 1]
    if int((query_end - query_start).min()) < 5:
        raise _NotPlainError
    for offset, character in enumerate(b"qid:"):
        if not bool((text[query_start + offset] == character).all()):
            raise _NotPlainError
    # Every token except the label has one colon. Those of the queries are left out, so these belong to the values.
    value_colons = np.delete(colons, first - np.arange(len(first)))
    value_start, value_end = starts[is_value], ends[is_value]
    if not bool(((value_start < value_colons) & (value_colons < value_end - 1)).all()):
        raise _NotPlainError

    counts = tokens - 2
    columns = _columns(text, value_start, value_colons, counts, max_features)
    values = _values(text, value_colons + 1, value_end)
    labels = _numbers(text, starts[first], ends[first])
    if not bool((np.isfinite(labels) & (labels >= 0)).all()):
        raise _NotPlainError
    encoded = _slices(text, query_start + 4, query_end).cast(pa.string()).dictionary_encode()
    return Lines(
        labels=labels,
        queries=encoded.indices.to_numpy().astype(np.int64),
        query_ids=encoded.dictionary.to_pylist(),
        counts=counts,
        columns=columns,
        values=values,
        line_numbers=lines + first_line,
        comments=None if comments is None else _comment_texts(block, comments, line_ends, lines),
        n_lines=len(line_ends),
    )


def _count(text: _Bytes, character: int) -> int:
    return int(np.count_nonzero(text == character))


def _blank_comments(text: _Bytes, line_ends: Indices) -> Indices:
    """Overwrite every comment with spaces; return where each line's begins (its line feed if there is none)."""
    hashes = np.flatnonzero(text == ord("#"))
    lines, first = np.unique(np.searchsorted(line_ends, hashes), return_index=True)
    begins = line_ends.copy()
    begins[lines] = hashes[first]
    for begin, end in zip(begins[lines].tolist(), line_ends[lines].tolist(), strict=True):
        text[begin:end] = ord(" ")
    return begins


def _comment_texts(block: bytes | bytearray, begins: Indices, line_ends: Indices, lines: Indices) -> Any:
    text = np.frombuffer(block, np.uint8)
    begin, end = begins[lines], line_ends[lines]
    end = np.where((begin < end) & (text[end - 1] == ord("\r")), end - 1, end)
    begin = np.minimum(begin + 1, end)
    return _slices(text, begin, end).cast(pa.string()) if bool((begin < end).any()) else None


def _slices(text: _Bytes, starts: Indices, ends: Indices) -> Any:
    """Return ``text[start:end]`` for each, as an Arrow binary array.

    Arrow's strings lie end to end, so the gaps become strings as well, and every other one is taken.
    """
    if len(starts) == 0:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    both = pa.BinaryArray.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )
    return both.take(pa.array(np.arange(0, len(offsets), 2, dtype=np.int32)))


def _numbers(text: _Bytes, starts: Indices, ends: Indices) -> Vector:
    strings = _slices(text, starts, ends).cast(pa.string())
    numbers: Vector = pc.cast(strings, pa.float64()).to_numpy()
    return numbers


def _columns(
    text: _Bytes, starts: Indices, ends: Indices, counts: Indices, max_features: int
) -> NDArray[np.int32]:
    if len(starts) == 0:
        return np.empty(0, np.int32)
    if bool((text[starts] < ord("0")).any()) or bool((text[np.minimum(starts + 1, ends)] > ord(":")).any()):
        raise _NotPlainError  # a sign, or Arrow's 0x
    strings = _slices(text, starts, ends).cast(pa.string())
    columns: NDArray[np.int32] = pc.cast(strings, pa.int32()).to_numpy() - np.int32(1)
    rises = np.empty(len(columns), bool)
    rises[1:] = columns[1:] > columns[:-1]
    line_starts = np.cumsum(counts) - counts
    rises[line_starts[counts > 0]] = True
    if not bool(rises.all()) or int(columns.min()) < 0 or int(columns.max()) >= max_features:
        raise _NotPlainError
    return columns


def _values(text: _Bytes, starts: Indices, ends: Indices) -> NDArray[np.float32]:
    missing = (text[starts] == ord("?")) & (ends - starts == 1)
    some_missing = bool(missing.any())
    if some_missing:
        text = text.copy()
        text[starts[missing]] = ord("0")
    with np.errstate(over="ignore"):
        values = _numbers(text, starts, ends).astype(np.float32)
    if not bool(np.isfinite(values).all()):
        raise _NotPlainError
    if some_missing:
        values[missing] = np.nan
    return values


def _none(n_lines: int) -> Lines:
    nothing = np.empty(0, np.int64)
    return Lines(
        labels=np.empty(0, np.float64),
        queries=nothing,
        query_ids=(),
        counts=nothing,
        columns=np.empty(0, np.int32),
        values=np.empty(0, np.float32),
        line_numbers=nothing,
        comments=None,
        n_lines=n_lines,
    )


# ---------------------------------------------------------------------------------------------------- line by line

_TOKEN = re.compile(rb"[^ \t\r\n\v\f]+")
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(rb"[+-]?(?:nan(?:\(.*\))?|inf(?:inity)?)", re.IGNORECASE)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def parse_exactly(
    block: bytes | bytearray, *, name: str, first_line: int = 1, max_features: int = MAX_FEATURES
) -> Lines:
    """Parse line by line; see `parse`."""
    labels: list[float] = []
    queries: list[int] = []
    known: dict[str, int] = {}
    counts: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    line_numbers: list[int] = []
    comments: list[str] = []
    lines = bytes(block).split(b"\n")[:-1]
    for number, line in enumerate(lines, first_line):
        at = _Position(name, number)
        # A line may end with it, even after a comment. Then the comment would include the next line.
        if (lone := line.rstrip().find(b"\r")) >= 0:
            raise at.wrong(lone, "lines that end with a line feed", "a carriage return alone")
        hash_at = line.find(b"#")
        content = line if hash_at < 0 else line[:hash_at]
        tokens = list(_TOKEN.finditer(content))
        if not tokens:
            continue
        control = _CONTROL.search(content)
        if control:
            raise at.wrong(control.start(), "text", f"the control character 0x{control[0][0]:02x}")
        labels.append(_exact_label(tokens[0], at))
        queries.append(known.setdefault(_exact_query(tokens, len(content.rstrip()), at), len(known)))
        counts.append(len(tokens) - 2)
        previous = 0
        for token in tokens[2:]:
            previous = _exact_index(token, previous, max_features, at)
            columns.append(previous - 1)
            values.append(_exact_value(token, at))
        line_numbers.append(number)
        comments.append("" if hash_at < 0 else _exact_comment(line, hash_at + 1, at))
    return Lines(
        labels=np.array(labels, np.float64),
        queries=np.array(queries, np.int64),
        query_ids=tuple(known),
        counts=np.array(counts, np.int64),
        columns=np.array(columns, np.int32),
        values=np.array(values, np.float64).astype(np.float32),
        line_numbers=np.array(line_numbers, np.int64),
        comments=pa.array(comments, pa.string()) if any(comments) else None,
        n_lines=len(lines),
    )


@dataclass(frozen=True, slots=True)
class _Position:
    name: str
    line: int

    def wrong(self, offset: int, expected: str, found: str) -> InvalidData:
        return InvalidData(f"{self.name}:{self.line}:{offset + 1}: expected {expected}, found {found}")


def _exact_label(token: re.Match[bytes], at: _Position) -> float:
    text = token[0]
    if b":" in text:
        raise at.wrong(token.start(), "a label before the first colon", _quoted(text))
    if _NUMBER.fullmatch(text) is None:
        raise at.wrong(token.start(), "a number as label", _quoted(text))
    label = float(text)
    if abs(label) == np.inf:
        raise at.wrong(token.start(), "a label within the range of float64", _quoted(text))
    if label < 0:
        raise at.wrong(token.start(), "a label of at least 0", _quoted(text))
    return label


def _exact_query(tokens: Sequence[re.Match[bytes]], end: int, at: _Position) -> str:
    if len(tokens) < 2:
        raise at.wrong(end, "qid:QUERY after the label", "the end of the line")
    token = tokens[1]
    text = token[0]
    if not text.startswith(b"qid:"):
        raise at.wrong(token.start(), "qid:QUERY after the label", _quoted(text))
    if len(text) == 4:
        raise at.wrong(token.start(), "a query after qid:", "nothing")
    try:
        return text[4:].decode()
    except UnicodeDecodeError as error:
        raise at.wrong(
            token.start() + 4 + error.start, "UTF-8 text", f"the byte 0x{text[4 + error.start]:02x}"
        ) from None


def _exact_index(token: re.Match[bytes], previous: int, max_features: int, at: _Position) -> int:
    text, colon, _ = token[0].partition(b":")
    if not colon or not text:
        raise at.wrong(token.start(), "INDEX:VALUE", _quoted(token[0]))
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit():
        raise at.wrong(token.start(), "a feature index", _quoted(text))
    # int() refuses thousands of digits; this many digits are more than any index has.
    index = int(digits.lstrip(b"0")[:18] or b"0")
    if text[:1] == b"-" or index == 0:
        raise at.wrong(token.start(), "feature indices counted from 1", f"index {text.decode()}")
    if index > max_features:
        raise at.wrong(token.start(), f"at most {max_features} features", f"index {text.decode()[:40]}")
    if index == previous:
        raise at.wrong(token.start(), "every feature once", f"index {index} again")
    if index < previous:
        raise at.wrong(token.start(), "ascending feature indices", f"index {index} after {previous}")
    return index


def _exact_value(token: re.Match[bytes], at: _Position) -> float:
    index, _, text = token[0].partition(b":")
    start = token.start() + len(index) + 1
    if text == b"?":
        return float("nan")
    if not text:
        raise at.wrong(start, f"a value for feature {index.decode()}", "nothing")
    if _NOT_FINITE.fullmatch(text):
        raise at.wrong(start, "a finite number, or '?' for a missing value", _quoted(text))
    if _NUMBER.fullmatch(text) is None:
        raise at.wrong(start, f"a number as value of feature {index.decode()}", _quoted(text))
    with np.errstate(over="ignore"):
        value = float(text)
        if np.isinf(np.float32(value)):
            raise at.wrong(start, "a value within the range of float32 (at most 3.4028235e38)", _quoted(text))
    return value


def _exact_comment(line: bytes, start: int, at: _Position) -> str:
    text = line[start:].rstrip(b"\r")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise at.wrong(
            start + error.start, "a comment in UTF-8", f"the byte 0x{text[error.start]:02x}"
        ) from None


def _quoted(text: bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace")
    return repr(shown if len(shown) <= 40 else shown[:37] + "...")
