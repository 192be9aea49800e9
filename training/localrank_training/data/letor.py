"""LETOR text in files: `localrank.letor` with Arrow's conversion of numbers, and lines written. Docs: docs/use/data.md, "Text".

In a *sparse* file an index that is absent is a zero. In a *dense* one it is a mistake: a value that was lost. One line
does not show which of the two a file is, so the decision needs all lines:

- Every line has the indices ``1..n`` with the same ``n``: dense.
- Every line has the indices ``1..n``, and ``n`` differs: dense, and a line is damaged. Lines of a sparse file leave out
  other features than their last ones.
- More than half of the lines have all indices, some do not, and several lines write a zero: dense, and a line is
  damaged. (One written zero may only show how many features there are.)
- Anything else: sparse. If most of its lines are complete, it may still be a damaged dense file. Then there is a `Gap`,
  and readers report it.

A number is written as the shortest text that reads back as itself. What text cannot hold is refused: see
`check_query_ids` and `check_feature_names`.
"""

from __future__ import annotations

import gzip
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from localrank import letor
from localrank.errors import InvalidData
from localrank_training.data.queries import MAX_FEATURES, Gap
from localrank_training.data.sources import blocks
from localrank_training.data.tables import Batch, Sparse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank.letor import Bytes, Lines
    from localrank_training.data.sources import Source
    from localrank_training.data.tables import Piece


def batches(
    source: Source, max_features: int, density: Density, advance: Callable[[int], None]
) -> Iterator[Batch]:
    """Yield the documents of a file.

    Args:
        source: of text.
        max_features: the largest index allowed.
        density: shown every line.
        advance: told how many bytes of the file, as stored, have been read so far.

    Raises:
        InvalidData: names file, line and column.
    """
    line = 1
    for text in blocks(source, advance):
        lines = parse(text, name=str(source.path), first_line=line, max_features=max_features)
        line += lines.n_lines
        if len(lines.labels):
            density.add(lines)
            yield Batch(
                labels=lines.labels,
                queries=lines.queries,
                query_ids=lines.query_ids,
                numbers=lines.line_numbers,
                values=_values(lines),
                comments=_comments(lines),
            )


def parse(block: bytes, *, name: str, first_line: int = 1, max_features: int = MAX_FEATURES) -> Lines:
    """Parse whole lines; see `localrank.letor.parse`.

    Raises:
        InvalidData: names file, line and column.
    """
    try:
        return letor.parse(block, max_features=max_features, first_line=first_line, converter=_convert)
    except letor.WrongLineError as error:
        raise InvalidData(
            f"{name}:{error.line}:{error.column}: expected {error.expected}, found {error.found}"
        ) from None


def _values(lines: Lines) -> Matrix | Sparse:
    """Return the values as a matrix if every line has the features ``1..n``."""
    width = int(lines.counts[0])
    whole = width > 0 and bool((lines.counts == width).all())
    if whole and bool((lines.columns.reshape(-1, width)[:, -1] == width - 1).all()):
        return lines.values.reshape(-1, width)
    return Sparse(lines.counts, lines.columns, lines.values)


def _comments(lines: Lines) -> Any:
    """Return the comments as an Arrow string array; None if no line has one."""
    if lines.comments is None:
        return None
    text = np.frombuffer(lines.text, np.uint8)
    return _slices(text, lines.comments[:, 0], lines.comments[:, 1]).cast(pa.string())


def _convert(text: Bytes, starts: Indices, ends: Indices) -> Vector | None:
    """Convert numbers: what Arrow refuses, such as ``+1``, may still be one."""
    try:
        found: Vector = pc.cast(_slices(text, starts, ends).cast(pa.string()), pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return letor.convert(text, starts, ends)
    return found


def _slices(text: Bytes, starts: Indices, ends: Indices) -> Any:
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


class Density:
    """What the lines of one file show so far."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines = 0
        self._with_zeros = 0
        #: For each number of values on a line that leaves no feature out: how many such lines, and the first.
        self._runs: dict[int, tuple[int, int]] = {}
        #: The first line that leaves a feature out before its last one, and that feature.
        self._hole: tuple[int, int] | None = None
        self._width = 0

    @property
    def empty(self) -> bool:
        """Whether there was no document."""
        return self._lines == 0

    def add(self, lines: Lines) -> None:
        """Look at some more lines."""
        counts = lines.counts
        self._lines += len(counts)
        self._width = max(self._width, int(lines.columns.max(initial=-1)) + 1)
        if self._with_zeros < 2:
            # Sparse text keeps -0, which is not the zero that an absent feature means.
            zeros = np.flatnonzero((lines.values == 0) & ~np.signbit(lines.values))
            ends = np.cumsum(counts)
            self._with_zeros += len(np.unique(np.searchsorted(ends, zeros, side="right")))
        last = _last_columns(lines)
        run = last == counts
        if self._hole is None and not bool(run.all()):
            document = int(np.argmin(run))
            start = int(counts[:document].sum())
            columns = lines.columns[start : start + int(counts[document])]
            hole = int(np.argmax(columns != np.arange(len(columns))))
            self._hole = int(lines.line_numbers[document]), hole + 1
        numbers = lines.line_numbers[run]
        for width, first, count in zip(
            *np.unique(counts[run], return_index=True, return_counts=True), strict=True
        ):
            seen, line = self._runs.get(int(width), (0, int(numbers[first])))
            self._runs[int(width)] = seen + int(count), line

    def width(self) -> int | None:
        """Return how many values every line of a dense file has; None if the file is sparse.

        Raises:
            InvalidData: names the line of a dense file that lacks a value.
        """
        complete, _ = self._runs.get(self._width, (0, 0))
        if self._hole is None:
            if len(self._runs) == 1:
                return self._width
            self._refuse_ragged()
        if self._with_zeros > 1 and 2 * complete > self._lines:
            self._refuse_incomplete()
        return None

    def gap(self) -> Gap | None:
        """Return the features that most lines have and a few lack, as a `Gap`; None if there is no such gap."""
        complete, _ = self._runs.get(self._width, (0, 0))
        if complete == self._lines or 2 * complete <= self._lines:
            return None
        lacking = [(line, width + 1) for width, (_, line) in self._runs.items() if width < self._width]
        if self._hole is not None:
            lacking.append(self._hole)
        line, feature = min(lacking)
        return Gap(self._name, line, feature, self._lines - complete, self._lines)

    def _refuse_ragged(self) -> None:
        most = max(self._runs, key=lambda width: (self._runs[width][0], width))
        line, width = min((line, width) for width, (_, line) in self._runs.items() if width != most)
        raise InvalidData(
            f"{self._name}:{line}: expected {most} features as on most lines of this file, found {width}; "
            "if an absent feature is a zero here, add --sparse"
        )

    def _refuse_incomplete(self) -> None:
        lacking = [
            (line, f"only the first {width}")
            for width, (_, line) in self._runs.items()
            if width < self._width
        ]
        if self._hole is not None:
            line, feature = self._hole
            lacking.append((line, f"none for feature {feature}"))
        line, found = min(lacking)
        raise InvalidData(
            f"{self._name}:{line}: expected a value for each of {self._width} features, because most lines of "
            f"this file write every feature, zeros too; found {found}; if an absent feature is a zero here, "
            "add --sparse"
        )


def _last_columns(lines: Lines) -> Indices:
    """Return for each document one more than its last column, 0 for a document without values."""
    last = np.zeros(len(lines.counts), np.int64)
    some = lines.counts > 0
    last[some] = lines.columns[np.cumsum(lines.counts)[some] - 1] + 1
    return last


class LetorWriter:
    """Writes blocks of documents as lines.

    Args:
        path: of a new file.
        to: how the text is compressed, or ``text``.
        n_features: columns of the set.
        sparse: whether zeros are left out; None does so if most values of the first block are zero.
    """

    def __init__(
        self, path: Path, to: Literal["text", "gz", "zst"], n_features: int, *, sparse: bool | None
    ) -> None:
        self._sparse = sparse
        self._first = True
        self._prefixes = pa.array([f" {index}:" for index in range(1, n_features + 1)])
        self._stack = ExitStack()
        file = self._stack.enter_context(path.open("wb"))
        self._file: Any = file
        if to == "gz":
            self._file = self._stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        elif to == "zst":
            compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
            self._file = self._stack.enter_context(compressor.stream_writer(file))

    def write(self, piece: Piece) -> None:
        """Append documents."""
        labels, comments, matrix = piece.labels, piece.comments, piece.documents
        if self._sparse is None:
            # If a file leaves out only last features, it looks like a damaged dense file.
            self._sparse = float(np.mean(matrix == 0)) > 0.5 and _has_hole(matrix)
        lines = pc.binary_join_element_wise(
            _numerals(labels), pa.array(piece.query_ids, pa.string()), " qid:"
        )
        tails = (
            pa.array(["\n"] * len(labels)) if comments is None else _comment_tails(comments.cast(pa.string()))
        )
        lines = pc.binary_join_element_wise(lines, self._values(matrix), tails, "")
        _, offsets, text = lines.buffers()
        ends = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
        self._file.write(memoryview(text)[int(ends[0]) : int(ends[-1])])
        self._first = False

    def close(self) -> None:
        """Write what is pending."""
        self._stack.close()

    def _values(self, matrix: Matrix) -> Any:
        if self._sparse:
            kept = _kept(matrix)
            if self._first:
                kept[0, -1] = True  # shows how many features there are
            columns = np.nonzero(kept)[1]
            offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
            values = matrix[kept]
        else:
            values = matrix.reshape(-1)
            columns = np.tile(np.arange(matrix.shape[1]), len(matrix))
            offsets = np.arange(len(matrix) + 1) * matrix.shape[1]
        prefixes = self._prefixes.take(pa.array(columns.astype(np.int32)))
        texts = pc.binary_join_element_wise(prefixes, _numerals(values), "")
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), texts), "")


def _has_hole(matrix: Matrix) -> bool:
    """Whether a document of sparse text leaves a feature out before one that it has."""
    kept = _kept(matrix)
    return bool((~kept[:, :-1] & kept[:, 1:]).any())


def _kept(matrix: Matrix) -> Bits:
    """Return which values sparse text has: all but zeros, which an absent feature means."""
    kept: Bits = (matrix != 0) | np.signbit(matrix)
    return kept


def _numerals(values: Vector | Matrix) -> Any:
    """Return the shortest text of each number; ``?`` for NaN."""
    texts = pa.array(values).cast(pa.string())
    if values.dtype == np.float32:
        # A reader first converts the text to the nearest double. If that does not give the same float32, all digits are
        # written.
        back = texts.cast(pa.float64()).to_numpy().astype(np.float32)
        wrong = (back != values) & ~np.isnan(values)
        if bool(wrong.any()):
            exact = pa.array([repr(float(value)) for value in values[wrong]])
            texts = pc.replace_with_mask(texts, pa.array(wrong), exact)
    missing = np.isnan(values)
    return pc.if_else(pa.array(missing), "?", texts) if bool(missing.any()) else texts


def _comment_tails(comments: Any) -> Any:
    for character, name in (("\n", "a line feed"), ("\r", "a carriage return"), ("\x00", "a zero byte")):
        found = pc.match_substring(comments, character)
        if pc.any(found).as_py():
            raise InvalidData(f"expected comments of one line of text, found one with {name}")
    marked = pc.binary_join_element_wise(" #", comments, "\n", "")
    return pc.if_else(pc.equal(comments, ""), "\n", marked)


_NOT_IN_QUERY = re.compile(r"[\x00-\x20#]")


def check_query_ids(query_ids: Sequence[str]) -> None:
    """Refuse query ids that would not come back."""
    for query_id in query_ids:
        if not query_id or _NOT_IN_QUERY.search(query_id):
            raise InvalidData(
                f"expected query ids that text can hold (no blank, no '#', not empty), found {query_id!r}"
            )


def check_feature_names(names: Sequence[str]) -> None:
    """Refuse feature names that would not come back from a line each."""
    for name in names:
        if not name.strip() or name != name.strip() or "\n" in name:
            raise InvalidData(f"expected feature names that fit on a line, found {name!r}")
