"""LETOR / SVMlight text: one document per line, read by the service and by training alike.

    LABEL qid:QUERY INDEX:VALUE INDEX:VALUE ... # COMMENT

`parse` alone decides what is text of this form. It works on all bytes of a block at once and knows only whether every
line is right. If one is not, the block is halved until the first wrong line is found, and only that line is then looked
at token by token, to say what is wrong in it. All of it takes time in proportion to the bytes. Nothing here knows of
files or of HTTP. Docs: docs/use/data.md, "Text".

Numbers as text: decimal digits with a sign, a point and an exponent (``-1.5e-3``).

Python's `float` also takes blanks, underscores, digits of other scripts, ``nan`` and ``inf``. These are refused here,
without a regular expression: over these characters `float` takes just the decimal numbers, in linear time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from localrank.arrays import Indices, Vector

    Bytes: TypeAlias = NDArray[np.uint8]
    #: Converts ``text[start:end]`` for each; None if one is no decimal number.
    Converter: TypeAlias = Callable[[Bytes, Indices, Indices], Vector | None]

_CHARACTERS = b"0123456789+-.eE"


def decimal(text: bytes) -> float | None:
    """Return the double nearest to a decimal number, which may be infinite; None if the text is anything else."""
    if text.translate(None, _CHARACTERS):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def decimals(text: bytes) -> Vector | None:
    """Return the numbers of a text in which spaces separate them; None if one of them is no decimal number."""
    if text.translate(None, _CHARACTERS + b" "):
        return None
    try:
        return np.array(list(map(float, text.split())), np.float64)
    except ValueError:
        return None


#: Bytes that a line may have besides its features, and for each of them.
_SHORT_LINE, _PAIR = 2**14, 64
#: Digits of an index that are converted at once.
_DIGITS = 9
#: The bytes that separate, besides the line feed and the carriage return before it.
_BLANKS = b" \t\v\f"


def longest_line(n_features: int) -> int:
    """Return how many bytes a line may have, if there may be that many features."""
    return _SHORT_LINE + _PAIR * n_features


class WrongLineError(ValueError):
    """A line is not as it should be.

    Attributes:
        line: its number.
        column: of the first byte that is wrong, from 1.
        expected: what should be there.
        found: what is there.
    """

    def __init__(self, line: int, column: int, expected: str, found: str) -> None:
        super().__init__(f"line {line}, column {column}: expected {expected}, found {found}")
        self.line, self.column, self.expected, self.found = line, column, expected, found


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
        text: of the lines, without carriage returns.
        comments: ``[n_docs, 2]`` where in ``text`` each comment begins and ends; None if no line has one.
        n_lines: lines in the text, blank ones included.
    """

    labels: Vector
    queries: Indices
    query_ids: Sequence[str]
    counts: Indices
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    line_numbers: Indices
    text: bytes
    comments: Indices | None
    n_lines: int


def convert(text: Bytes, starts: Indices, ends: Indices) -> Vector | None:
    """Convert numbers; see `Converter`."""
    return decimals(np.where(_inside(len(text), starts, ends), text, np.uint8(ord(" "))).tobytes())


def parse(block: bytes, *, max_features: int, first_line: int = 1, converter: Converter = convert) -> Lines:
    """Parse whole lines.

    Numbers are the double nearest to the text, then the float32 nearest to that double.

    Args:
        block: ends with a line feed.
        max_features: the largest index allowed.
        first_line: the number of the block's first line.
        converter: takes what `convert` takes, and no other numbers except infinite ones and NaN.

    Raises:
        WrongLineError: of the first line that is wrong.
    """
    try:
        return _parse(block, max_features, first_line, converter)
    except _WrongError:
        raise _first_wrong(block, max_features, first_line, converter) from None


def _first_wrong(block: bytes, max_features: int, first_line: int, converter: Converter) -> WrongLineError:
    """Halve the block until one line is left, and return what is wrong in it."""
    number = first_line
    while (n_lines := block.count(b"\n")) > 1:
        middle = (block.rfind(b"\n", 0, len(block) // 2) + 1) or (block.find(b"\n") + 1)
        head = block[:middle]
        try:
            _parse(head, max_features, number, converter)
        except _WrongError:
            block = head
        else:
            block = block[middle:]
            number += n_lines - block.count(b"\n")
    line = block.removesuffix(b"\n").rstrip(b"\r")
    try:
        _Line(line, number).check(max_features)
    except WrongLineError as error:
        return error
    return WrongLineError(number, 1, "LABEL qid:QUERY INDEX:VALUE ...", _quoted(line))


# ---------------------------------------------------------------------------------------------------- all at once


class _WrongError(Exception):
    """Some line is wrong."""


def _parse(block: bytes, max_features: int, first_line: int, converter: Converter) -> Lines:
    block = _plain(block)
    text = np.frombuffer(block, np.uint8)
    line_ends = np.flatnonzero(text == ord("\n"))
    _require(int(np.diff(line_ends, prepend=-1).max()) <= longest_line(max_features) + 1)
    comments = None
    if b"#" in block:
        text = text.copy()
        comments = _blank_comments(text, line_ends)
    blank = text <= ord(" ")
    _require(not (blank & (text != ord(" ")) & (text - np.uint8(ord("\t")) > 4)).any())
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1
    if not blank[0]:
        edges = np.concatenate([[0], edges])
    starts, ends = edges[0::2], edges[1::2]

    tokens_before = np.concatenate([[0], np.searchsorted(starts, line_ends)])
    tokens = np.diff(tokens_before)
    lines = np.flatnonzero(tokens)
    tokens, first = tokens[lines], tokens_before[lines]
    _require((tokens >= 2).all())
    is_label = np.zeros(len(starts), bool)
    is_label[first] = True
    is_value = ~is_label
    is_value[first + 1] = False

    query_ids, queries = _queries(block, text, starts[first + 1], ends[first + 1])
    value_start, value_end = starts[is_value], ends[is_value]
    colons = _colons(text, starts, is_value, first)
    _require(((value_start < colons) & (colons < value_end - 1)).all())
    counts = tokens - 2
    columns = _columns(text, value_start, colons, counts, max_features)
    starts[is_value] = colons + 1
    is_number = is_label | is_value
    labels, values = _numbers(text, starts[is_number], ends[is_number], is_label[is_number], converter)
    if comments is not None:
        comments = comments[lines]
        comments = comments if bool((comments[:, 0] < comments[:, 1]).any()) else None
    return Lines(
        labels=labels,
        queries=queries,
        query_ids=query_ids,
        counts=counts,
        columns=columns,
        values=values,
        line_numbers=lines + first_line,
        text=block,
        comments=comments,
        n_lines=len(line_ends),
    )


def _require(right: object) -> None:
    if not right:
        raise _WrongError


def _plain(block: bytes) -> bytes:
    """Return the lines without carriage returns at their ends; they must be UTF-8, and have no other carriage returns."""
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            raise _WrongError from None
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
        if b"\r" in block:
            # Line ends that were made Windows' twice.
            block = b"\n".join([line.rstrip(b"\r") for line in block.split(b"\n")])
            _require(b"\r" not in block)
    return block


def _blank_comments(text: Bytes, line_ends: Indices) -> Indices:
    """Overwrite every comment with spaces; return where each line's begins and ends."""
    hashes = np.flatnonzero(text == ord("#"))
    lines = np.searchsorted(line_ends, hashes)
    first = np.ones(len(hashes), bool)
    first[1:] = lines[1:] != lines[:-1]
    begins, lines = hashes[first], lines[first]
    text[_inside(len(text), begins, line_ends[lines])] = ord(" ")
    spans = np.stack([line_ends, line_ends], axis=1)
    spans[lines, 0] = begins + 1
    return spans


def _inside(size: int, starts: Indices, ends: Indices) -> NDArray[np.bool_]:
    """Tell which of the first bytes are within a span; no two spans touch."""
    edges = np.zeros(size, np.int8)
    edges[starts] = 1
    edges[ends] = -1
    return np.cumsum(edges, dtype=np.int8).view(np.bool_)


def _queries(block: bytes, text: Bytes, starts: Indices, ends: Indices) -> tuple[tuple[str, ...], Indices]:
    """Return the queries' ids, and which of them each document has."""
    _require((ends - starts > 4).all())
    for offset, character in enumerate(b"qid:"):
        _require((text[starts + offset] == character).all())
    known: dict[bytes, int] = {}
    found = [
        known.setdefault(block[start:end], len(known))
        for start, end in zip((starts + 4).tolist(), ends.tolist(), strict=True)
    ]
    return tuple(query_id.decode() for query_id in known), np.array(found, np.int64)


def _colons(text: Bytes, starts: Indices, is_value: NDArray[np.bool_], first: Indices) -> Indices:
    """Return where the colon of each value is, if there is one for each; ``first`` is the first token of each line."""
    colons = np.flatnonzero(text == ord(":"))
    if len(colons) == len(starts) - len(first):
        # Every token except the label has one.
        return np.delete(colons, first - np.arange(len(first)))
    # A query may have more than its first colon.
    colons = colons[is_value[np.searchsorted(starts, colons, "right") - 1]]
    _require(len(colons) == len(starts) - 2 * len(first))
    return colons


def _columns(
    text: Bytes, starts: Indices, ends: Indices, counts: Indices, max_features: int
) -> NDArray[np.int32]:
    """Return the indices, counted from 0; they must ascend within a line."""
    lengths = ends - starts
    for token in np.flatnonzero(lengths > _DIGITS).tolist():
        index = text[starts[token] : ends[token]].tobytes()
        lengths[token] = len(index.lstrip(b"0"))
        _require(index.isdigit() and 0 < lengths[token] <= _DIGITS)
    indices = np.zeros(len(starts), np.int32)
    for place in range(int(lengths.max(initial=0))):
        digits = text[np.maximum(ends - 1 - place, 0)] - np.uint8(ord("0"))
        here = lengths > place
        _require((digits[here] <= 9).all())
        indices += np.where(here, digits, np.uint8(0)) * np.int32(10**place)
    _require(((indices > 0) & (indices <= max_features)).all())
    rises = np.ones(len(indices), bool)
    rises[1:] = indices[1:] > indices[:-1]
    line_starts = np.cumsum(counts) - counts
    rises[line_starts[counts > 0]] = True
    _require(rises.all())
    return indices - np.int32(1)


def _numbers(
    text: Bytes, starts: Indices, ends: Indices, is_label: NDArray[np.bool_], converter: Converter
) -> tuple[Vector, NDArray[np.float32]]:
    """Return labels and values."""
    missing = (text[starts] == ord("?")) & (ends - starts == 1)
    some_missing = bool(missing.any())
    if some_missing:
        _require(not missing[is_label].any())
        text = text.copy()
        text[starts[missing]] = ord("0")
    found = converter(text, starts, ends)
    if found is None:
        raise _WrongError
    labels = found[is_label]
    _require((np.isfinite(labels) & (labels >= 0)).all())
    with np.errstate(over="ignore"):
        values = found[~is_label].astype(np.float32)
    _require(np.isfinite(values).all())
    if some_missing:
        values[missing[~is_label]] = np.nan
    return labels, values


# ---------------------------------------------------------------------------------------------------- what is wrong


class _Line:
    """One line that was refused, without its end; it says what is wrong."""

    def __init__(self, line: bytes, number: int) -> None:
        self._line = line
        self._number = number
        self._content = line.partition(b"#")[0]

    def check(self, max_features: int) -> None:
        if len(self._line) > (longest := longest_line(max_features)):
            self._wrong(longest, f"at most {longest} bytes on a line", "more")
        if (lone := self._line.find(b"\r")) >= 0:
            self._wrong(lone, "lines that end with a line feed", "a carriage return alone")
        for at, byte in enumerate(self._content):
            if byte < ord(" ") and byte not in _BLANKS:
                self._wrong(at, "text", f"the control character 0x{byte:02x}")
        tokens = list(_tokens(self._content))
        if tokens:
            self._check_label(*tokens[0])
            self._check_query(tokens)
            previous = 0
            for at, token in tokens[2:]:
                previous = self._check_index(at, token, previous, max_features)
                self._check_value(at, token)
        self._check_text(0, self._line, "a comment in UTF-8")

    def _wrong(self, offset: int, expected: str, found: str) -> NoReturn:
        raise WrongLineError(self._number, offset + 1, expected, found)

    def _check_label(self, at: int, text: bytes) -> None:
        if b":" in text:
            self._wrong(at, "a label before the first colon", _quoted(text))
        label = decimal(text)
        if label is None:
            self._wrong(at, "a number as label", _quoted(text))
        if abs(label) == np.inf:
            self._wrong(at, "a label within the range of float64", _quoted(text))
        if label < 0:
            self._wrong(at, "a label of at least 0", _quoted(text))

    def _check_query(self, tokens: Sequence[tuple[int, bytes]]) -> None:
        if len(tokens) < 2:
            self._wrong(len(self._content.rstrip()), "qid:QUERY after the label", "the end of the line")
        at, text = tokens[1]
        if not text.startswith(b"qid:"):
            self._wrong(at, "qid:QUERY after the label", _quoted(text))
        if len(text) == 4:
            self._wrong(at, "a query after qid:", "nothing")
        self._check_text(at, text, "UTF-8 text")

    def _check_text(self, at: int, text: bytes, expected: str) -> None:
        try:
            text.decode()
        except UnicodeDecodeError as error:
            self._wrong(at + error.start, expected, f"the byte 0x{text[error.start]:02x}")

    def _check_index(self, at: int, token: bytes, previous: int, max_features: int) -> int:
        text, colon, _ = token.partition(b":")
        if not colon or not text:
            self._wrong(at, "INDEX:VALUE", _quoted(token))
        digits = text.removeprefix(b"-")
        if not digits.isdigit():
            self._wrong(at, "a feature index", _quoted(text))
        # int() refuses thousands of digits; this many digits are more than any index has.
        index = int(digits.lstrip(b"0")[:18] or b"0")
        if text[:1] == b"-" or index == 0:
            self._wrong(at, "feature indices counted from 1", f"index {text.decode()[:40]}")
        if index > max_features:
            self._wrong(at, f"at most {max_features} features", f"index {text.decode()[:40]}")
        if index == previous:
            self._wrong(at, "every feature once", f"index {index} again")
        if index < previous:
            self._wrong(at, "ascending feature indices", f"index {index} after {previous}")
        return index

    def _check_value(self, at: int, token: bytes) -> None:
        index, _, text = token.partition(b":")
        start = at + len(index) + 1
        name = index.lstrip(b"0").decode()
        if text == b"?":
            return
        if not text:
            self._wrong(start, f"a value for feature {name}", "nothing")
        if text.lower().lstrip(b"+-").startswith((b"nan", b"inf")):
            self._wrong(start, "a finite number, or '?' for a missing value", _quoted(text))
        value = decimal(text)
        if value is None:
            self._wrong(start, f"a number as value of feature {name}", _quoted(text))
        with np.errstate(over="ignore"):
            if np.isinf(np.float32(value)):
                largest = "a value within the range of float32 (at most 3.4028235e38)"
                self._wrong(start, largest, _quoted(text))


def _tokens(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each token with its place."""
    at = 0
    for token in content.split():
        at = content.index(token, at)
        yield at, token
        at += len(token)


def _quoted(text: bytes) -> str:
    shown = text[:200].decode("utf-8", "backslashreplace")
    return repr(shown if len(shown) <= 40 else shown[:37] + "...")
