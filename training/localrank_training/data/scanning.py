"""Judged queries as a stream: any mixture of sources, block by block, checked against each other.

Blocks come in the order of the input and hold the documents as written. What only the whole input can tell (how many
features there are, whether a query is torn between files, whether a file of dense lines has a ragged one) is checked
here, once, for everything that reads: into memory, into the mapped form, into another format.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from localrank.errors import InvalidData
from localrank_training.data.letor import MAX_FEATURES, Lines, parse
from localrank_training.data.mapped import open_mapped
from localrank_training.data.parquet import ParquetReader
from localrank_training.data.queries import default_names
from localrank_training.data.sources import Source, blocks
from localrank_training.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from localrank.arrays import Indices, Matrix, Vector
    from localrank_training.data.queries import QuerySet

__all__ = ["Block", "Scan", "blocks_of", "read_names"]

#: Values of a stored matrix handled at a time.
_CELLS = 1 << 20
_MANY_LINES = 10


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some documents in input order.

    Attributes:
        labels: ``[n_docs]``.
        queries: ``[n_docs]`` position of the query in `Scan.query_ids`.
        comments: ``[n_docs]`` an Arrow string array; None where there is none.
        lines: the values as text had them; None when ``matrix`` has them.
        matrix: ``[n_docs, n_columns]`` float32, the values; None when ``lines`` has them.
    """

    labels: Vector
    queries: Indices
    comments: Any
    lines: Lines | None = None
    matrix: Matrix | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def dense(self, n_features: int) -> Matrix:
        """Return the values ``[n_docs, n_features]``, not to be written to."""
        if self.matrix is not None and self.matrix.shape[1] == n_features:
            return self.matrix
        documents = np.zeros((len(self), n_features), np.float32)
        self.fill(documents, slice(0, len(self)))
        return documents

    def fill(self, documents: Matrix, rows: Indices | slice) -> None:
        """Write the values into those rows of a matrix of zeros."""
        if self.matrix is not None:
            documents[rows, : self.matrix.shape[1]] = self.matrix
        elif self.lines is not None:
            if isinstance(rows, slice):
                rows = np.arange(rows.start, rows.stop)
            documents[np.repeat(rows, self.lines.counts), self.lines.columns] = self.lines.values


@dataclass(slots=True, eq=False)
class Scan:
    """Reads sources once, in order.

    Attributes:
        sources: what to read.
        progress: told the bytes read.
        n_features: of the caller, for data that name no features; None to take it from the data.
        query_ids: those met so far, in order of their first appearance.
        feature_names: known once the data or a sidecar has named the features.
        n_columns: the widest document met so far.
    """

    sources: Sequence[Source]
    progress: Progress = silent
    n_features: int | None = None
    query_ids: dict[str, int] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None
    n_columns: int = 0
    _named_by: Path | None = None
    _dense: tuple[Path, int] | None = None
    _home: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Block]:
        if self.n_features is not None and not 1 <= self.n_features <= MAX_FEATURES:
            raise InvalidData(f"expected 1 to {MAX_FEATURES} features, found {self.n_features} asked for")
        total = sum(source.size for source in self.sources)
        before = 0
        for position, source in enumerate(self.sources):

            def advance(done: int, before: int = before) -> None:
                self.progress("reading", before + done, total)

            yield from self._source(position, source, advance)
            before += source.size
        if not self.names():
            raise InvalidData(f"{self.sources[0].path}: expected at least one feature, found none")
        self.progress("reading", total, total)

    def names(self) -> tuple[str, ...]:
        """Return the features' names, once everything is read."""
        if self.feature_names is not None:
            return self.feature_names
        return default_names(self.n_features or self.n_columns)

    def _source(self, position: int, source: Source, advance: Callable[[int], None]) -> Iterator[Block]:
        if source.names is not None:
            self._name(source.names, read_names(source.names))
        if source.kind == "parquet":
            yield from self._parquet(position, source, advance)
        elif source.kind == "mapped":
            yield from self._mapped(position, source)
        else:
            yield from self._text(position, source, advance)

    def _name(self, path: Path, names: tuple[str, ...]) -> None:
        """Take feature names from a file; they must be the ones that another has given."""
        if self.feature_names is not None and names != self.feature_names:
            other = self.feature_names
            differing = next(
                (i for i, (a, b) in enumerate(zip(names, other, strict=False)) if a != b),
                min(len(names), len(other)),
            )
            found = repr(names[differing]) if differing < len(names) else "no more"
            expected = repr(other[differing]) if differing < len(other) else "no more"
            raise InvalidData(
                f"{path}: expected the features of {self._named_by}, found another feature {differing + 1}: "
                f"{found} instead of {expected}"
            )
        if self.n_columns > len(names):
            raise InvalidData(
                f"{path}: expected the {self.n_columns} features of the files before it, found {len(names)}"
            )
        self.feature_names, self._named_by = names, path

    def _limit(self) -> int:
        if self.feature_names is not None:
            return len(self.feature_names)
        return self.n_features if self.n_features is not None else MAX_FEATURES

    def _text(self, position: int, source: Source, advance: Callable[[int], None]) -> Iterator[Block]:
        shape = _Shape(str(source.path))
        line = 1
        documents = 0
        for text in blocks(source, advance):
            lines = parse(text, name=str(source.path), first_line=line, max_features=self._limit())
            line += lines.n_lines
            if len(lines.labels) == 0:
                continue
            documents += len(lines.labels)
            shape.add(lines)
            self.n_columns = max(self.n_columns, int(lines.columns.max(initial=-1)) + 1)
            codes = self._enter(position, lines.query_ids, lines)
            matrix = _matrix_of(lines)
            yield Block(
                labels=lines.labels,
                queries=codes[lines.queries],
                comments=lines.comments,
                lines=lines if matrix is None else None,
                matrix=matrix,
            )
        if documents == 0:
            size = source.size
            found = "an empty file" if size == 0 else "only blank lines and comments"
            raise InvalidData(f"{source.path}: expected judged documents, found {found}")
        width = shape.dense()
        if width is not None:
            self._same_width(source.path, width, certain=shape.writes_zeros)

    def _parquet(self, position: int, source: Source, advance: Callable[[int], None]) -> Iterator[Block]:
        reader = ParquetReader(source.path)
        names = reader.names
        expected = self.feature_names or default_names(len(names))
        if reader.named and sorted(names) == sorted(expected):
            names = expected
        if names != default_names(len(names)):
            self._name(source.path, names)
        self._same_width(source.path, len(names), certain=True)
        self.n_columns = max(self.n_columns, len(names))
        rows = 0
        for batch in reader.batches(names):
            codes = self._enter(position, batch.query_ids, None)
            yield Block(batch.labels, codes[batch.queries], batch.comments, matrix=batch.matrix)
            rows += len(batch.labels)
            advance(source.size * rows // reader.n_rows)

    def _mapped(self, position: int, source: Source) -> Iterator[Block]:
        stored = open_mapped(source.path)
        if stored.feature_names != default_names(stored.n_features):
            self._name(source.path, stored.feature_names)
        self._same_width(source.path, stored.n_features, certain=True)
        self.n_columns = max(self.n_columns, stored.n_features)
        codes = self._enter(position, stored.query_ids, None)
        yield from blocks_of(stored, codes)

    def _enter(self, position: int, ids: Sequence[str], lines: Lines | None) -> Indices:
        """Give a block's queries their numbers; refuse one that an earlier file has."""
        codes = np.empty(len(ids), np.int64)
        for i, query_id in enumerate(ids):
            code = self.query_ids.setdefault(query_id, len(self.query_ids))
            if code == len(self._home):
                self._home.append(position)
            elif self._home[code] != position:
                at = "" if lines is None else f":{lines.line_numbers[np.flatnonzero(lines.queries == i)[0]]}"
                raise InvalidData(
                    f"{self.sources[position].path}{at}: expected every query in one file, found query "
                    f"{query_id!r}, which {self.sources[self._home[code]].path} has as well"
                )
            codes[i] = code
        return codes

    def _same_width(self, path: Path, width: int, *, certain: bool) -> None:
        """Refuse a dense file that lacks columns, which others or the caller have.

        Without written zeros a file may be dense by chance, and then only other files speak against it.
        """
        if self._limit() < MAX_FEATURES:
            if certain and width != self._limit():
                raise InvalidData(
                    f"{path}: expected {self._limit()} features, as every document of a dense file has, found {width}"
                )
            return
        if self._dense is not None and self._dense[1] != width:
            raise InvalidData(
                f"{path}: expected {self._dense[1]} features on every line, as in {self._dense[0]}, found {width}"
            )
        self._dense = (path, width)


def _matrix_of(lines: Lines) -> Matrix | None:
    """Return the values of lines that all hold ``1..n``, a view that needs no columns; None for others."""
    width = int(lines.counts[0])
    if width == 0 or bool((lines.counts != width).any()):
        return None
    if not bool((lines.columns.reshape(-1, width)[:, -1] == width - 1).all()):
        return None
    return lines.values.reshape(-1, width)


class _Shape:
    """Whether every line of a text file has the same columns ``1..n``.

    A file that writes its zeros means every line to have all the columns, so a shorter or longer one is an error. A
    file that leaves zeros out is sparse, and its lines may differ. So: where all lines hold a run ``1..k`` with
    differing k, and zeros are written on two lines or more, the first line that differs from most is refused.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._runs = True
        self._zeros = 0
        self._widths: dict[int, tuple[int, int]] = {}

    def add(self, lines: Lines) -> None:
        if not self._runs:
            return
        counts = lines.counts
        ends = np.cumsum(counts)
        last = np.zeros(len(counts), np.int64)
        some = counts > 0
        last[some] = lines.columns[ends[some] - 1] + 1
        if not bool((last == counts).all()):
            self._runs = False
            return
        if self._zeros < 2:
            zero = np.flatnonzero((lines.values == 0) & ~np.signbit(lines.values))
            self._zeros += len(np.unique(np.searchsorted(ends, zero, side="right")))
        for width, first, count in zip(
            *np.unique(counts, return_index=True, return_counts=True), strict=True
        ):
            seen, line = self._widths.get(int(width), (0, int(lines.line_numbers[first])))
            self._widths[int(width)] = (seen + int(count), line)

    @property
    def writes_zeros(self) -> bool:
        return self._zeros >= 2

    def dense(self) -> int | None:
        """Return the width of a dense file, None for a sparse one; refuse a ragged line.

        Raises:
            InvalidData: names the line.
        """
        if not self._runs:
            return None
        lines = sum(count for count, _ in self._widths.values())
        if len(self._widths) == 1:
            # Few lines without a zero may be dense by chance.
            return next(iter(self._widths)) if self.writes_zeros or lines >= _MANY_LINES else None
        if not self.writes_zeros:
            return None
        most = max(self._widths, key=lambda width: (self._widths[width][0], width))
        line, width = min((line, width) for width, (_, line) in self._widths.items() if width != most)
        raise InvalidData(
            f"{self._name}:{line}: expected {most} features as on most lines of this file, which writes its zeros, "
            f"found {width}"
        )


def blocks_of(queries: QuerySet, codes: Indices) -> Iterator[Block]:
    """Yield a set's documents in the order of their input; ``codes`` ``[n_queries]`` numbers its queries."""
    order = np.argsort(queries.lines, kind="stable")
    query_of = codes[queries.query_of]
    size = max(_CELLS // queries.n_features, 1)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        texts = None if queries.comments is None else [queries.comments[row] for row in rows.tolist()]
        yield Block(
            labels=queries.labels[rows],
            queries=query_of[rows],
            comments=pa.array(texts, pa.string()) if texts is not None and any(texts) else None,
            matrix=queries.documents[rows],
        )


def read_names(path: Path) -> tuple[str, ...]:
    """Read feature names, one per line.

    Raises:
        InvalidData: a name is empty or there twice, or the file is not UTF-8 text.
    """
    try:
        stored = path.read_bytes()
        lines = stored.decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        line = stored.count(b"\n", 0, error.start) + 1
        found = f"the byte 0x{stored[error.start]:02x} on line {line}"
        raise InvalidData(f"{path}: expected feature names in UTF-8, found {found}") from None
    except OSError as error:
        raise InvalidData(f"{path}: cannot be read: {error.strerror or error}") from None
    names = tuple(line.strip() for line in lines)
    if names == ("",):
        raise InvalidData(f"{path}: expected feature names, found an empty file")
    first: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if not name:
            raise InvalidData(f"{path}:{number}: expected a feature name, found a blank line")
        if name in first:
            raise InvalidData(
                f"{path}:{number}: expected every name once, found {name!r} as on line {first[name]}"
            )
        first[name] = number
    return names
