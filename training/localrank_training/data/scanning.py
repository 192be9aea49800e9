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
from localrank_training.data.columns import AS_NAMED, Columns
from localrank_training.data.delimited import DelimitedReader, delimiter_of
from localrank_training.data.density import Density
from localrank_training.data.letor import MAX_FEATURES, comments_of, parse
from localrank_training.data.mapped import check_chosen, open_mapped
from localrank_training.data.parquet import ParquetReader
from localrank_training.data.queries import Gap, Skipped, default_names
from localrank_training.data.sources import Source, blocks, first_line
from localrank_training.data.weights import QueryWeights
from localrank_training.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.letor import Lines
    from localrank_training.data.queries import QuerySet

#: Values of a stored matrix handled at a time.
_CELLS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some documents in input order.

    Attributes:
        labels: ``[n_docs]``.
        queries: ``[n_docs]`` position of the query in `Scan.query_ids`.
        comments: ``[n_docs]`` an Arrow string array; None without comments.
        lines: the values as text had them; None when ``matrix`` has them.
        matrix: ``[n_docs, n_columns]`` float32, the values; None when ``lines`` has them.
        numbers: ``[n_docs]`` line or row of each document in its file; None if it has none.
        weights: ``[n_docs]`` of each document's query; None if all queries count the same.
        positions: ``[n_docs]`` where each document was shown, 0 for nowhere; None if the file does not say.
        source: position of the file in `Scan.sources`.
    """

    labels: Vector
    queries: Indices
    comments: Any
    lines: Lines | None = None
    matrix: Matrix | None = None
    numbers: Indices | None = None
    source: int = 0
    weights: Vector | None = None
    positions: Indices | None = None

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
        columns: what the columns of tables hold, and whether text leaves zeros out.
        say: told what was taken from a table and what was left out.
        query_ids: those met so far, in order of their first appearance.
        feature_names: known once the data or a sidecar has named the features.
        n_columns: the widest document met so far.
        weights: of the queries met so far, if the sources have them.
        gaps: files of text in which a few lines lack features that most have.
        skip: leave out files with which something is wrong. Each file is then read twice, first to see whether it is whole.
        skipped: the files that were left out.
    """

    sources: Sequence[Source]
    progress: Progress = silent
    n_features: int | None = None
    columns: Columns = AS_NAMED
    say: Callable[[str], None] = field(default=lambda _: None)
    query_ids: dict[str, int] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None
    n_columns: int = 0
    weights: QueryWeights = field(default_factory=QueryWeights)
    gaps: list[Gap] = field(default_factory=list)
    skip: bool = False
    skipped: list[Skipped] = field(default_factory=list)
    _weighted: tuple[Path, bool] | None = None
    _named_by: Path | None = None
    _described: str = ""
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

            if not self.skip or self._is_whole(position, source):
                for block in self._source(position, source, advance):
                    self._weigh(source, block)
                    yield block
            before += source.size
        if self.skipped and not self.query_ids:
            raise InvalidData(
                f"expected a file that can be read, found none; the first of {len(self.skipped)}: {self.skipped[0].reason}"
            )
        if not self.names():
            raise InvalidData(f"{self.sources[0].path}: expected at least one feature, found none")
        self.progress("reading", total, total)

    def _is_whole(self, position: int, source: Source) -> bool:
        """Read a file and forget it; remember it as skipped if something is wrong with it."""
        kept = {
            name: getattr(self, name)
            for name in ("feature_names", "n_columns", "_named_by", "_weighted", "_dense")
        }
        described, n_gaps, n_queries, say = self._described, len(self.gaps), len(self.query_ids), self.say
        weights, self.say, error = self.weights.copy(), lambda _: None, None
        try:
            for block in self._source(position, source, lambda _: None):
                self._weigh(source, block)
        except InvalidData as found:
            error = found
        for name, value in kept.items():
            setattr(self, name, value)
        self._described, self.say, self.weights = described, say, weights
        del self.gaps[n_gaps:], self._home[n_queries:]
        while len(self.query_ids) > n_queries:
            self.query_ids.popitem()
        if error is not None:
            self.skipped.append(Skipped(str(source.path), str(error)))
            self.say(f"skipped: {error}")
        return error is None

    def names(self) -> tuple[str, ...]:
        """Return the names of the features; they are known when everything is read."""
        if self.feature_names is not None:
            return self.feature_names
        return default_names(self.n_features or self.n_columns)

    def _weigh(self, source: Source, block: Block) -> None:
        """Refuse a query with several weights, and weights that only some inputs have."""
        weighted = block.weights is not None
        if self._weighted is not None and self._weighted[1] != weighted:
            found = "some" if weighted else "none"
            raise InvalidData(
                f"{source.path}: expected query weights in all inputs or in none, found {found}, unlike in "
                f"{self._weighted[0]}"
            )
        self._weighted = (source.path, weighted)
        if block.weights is not None:
            numbers = block.numbers
            self.weights.add(
                block.queries,
                block.weights,
                tuple(self.query_ids),
                lambda row: str(source.path) if numbers is None else f"{source.path}: row {numbers[row]}",
            )

    def _source(self, position: int, source: Source, advance: Callable[[int], None]) -> Iterator[Block]:
        if source.names is not None:
            self._name(source.names, read_names(source.names))
        if source.kind == "parquet":
            yield from self._table(position, source, ParquetReader(source.path, self.columns), advance)
        elif source.kind == "mapped":
            yield from self._mapped(position, source)
        elif (delimiter := delimiter_of(first_line(source), str(source.path))) is not None:
            yield from self._table(
                position, source, DelimitedReader(source, delimiter, self.columns), advance
            )
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
            found = repr(names[differing]) if differing < len(names) else "nothing"
            expected = repr(other[differing]) if differing < len(other) else "nothing"
            raise InvalidData(
                f"{path}: expected the features of {self._named_by}, found {found} instead of {expected} as "
                f"feature {differing + 1}"
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
        for option, column in (("--weight", self.columns.weight), ("--position", self.columns.position)):
            if column is not None:
                raise InvalidData(
                    f"{source.path}: expected a table (CSV, Parquet) with the column {column!r} of {option}, found LETOR "
                    "text, which has no place for it"
                )
        density = Density(str(source.path))
        line = 1
        documents = 0
        for text in blocks(source, advance):
            lines = parse(text, name=str(source.path), first_line=line, max_features=self._limit())
            line += lines.n_lines
            if len(lines.labels) == 0:
                continue
            documents += len(lines.labels)
            density.add(lines)
            self.n_columns = max(self.n_columns, int(lines.columns.max(initial=-1)) + 1)
            codes = self._enter(position, lines.query_ids, lines)
            matrix = _matrix_of(lines)
            yield Block(
                labels=lines.labels,
                queries=codes[lines.queries],
                comments=comments_of(lines),
                lines=lines if matrix is None else None,
                matrix=matrix,
                numbers=lines.line_numbers,
                source=position,
            )
        if documents == 0:
            size = source.size
            found = "an empty file" if size == 0 else "only blank lines and comments"
            raise InvalidData(f"{source.path}: expected judged documents, found {found}")
        if self.columns.sparse:
            return
        width = density.width()
        if width is not None:
            self._same_width(source.path, width, "; if absent features are zeros here, add --sparse")
        elif (gap := density.gap()) is not None:
            self.gaps.append(gap)
            self.say(f"{gap}; add --sparse if this is right")

    def _table(
        self,
        position: int,
        source: Source,
        reader: ParquetReader | DelimitedReader,
        advance: Callable[[int], None],
    ) -> Iterator[Block]:
        layout = reader.layout
        names = layout.names
        expected = self.feature_names or default_names(len(names))
        if layout.named and sorted(names) == sorted(expected):
            names = expected
        if names != default_names(len(names)):
            self._name(source.path, names)
        self._same_width(source.path, len(names))
        self.n_columns = max(self.n_columns, len(names))
        description = layout.describe()
        if description != self._described:
            self._described = description
            self.say(f"{source.path}: {description}")
        row = 1
        for batch, share in reader.batches(names):
            codes = self._enter(position, batch.query_ids, None)
            numbers = np.arange(row, row + len(batch.labels))
            row += len(batch.labels)
            yield Block(
                labels=batch.labels,
                queries=codes[batch.queries],
                comments=batch.comments,
                matrix=batch.matrix,
                numbers=numbers,
                source=position,
                weights=batch.weights,
                positions=batch.positions,
            )
            advance(int(source.size * share))

    def _mapped(self, position: int, source: Source) -> Iterator[Block]:
        stored = open_mapped(source.path)
        check_chosen(source.path, stored, self.columns)
        if stored.feature_names != default_names(stored.n_features):
            self._name(source.path, stored.feature_names)
        self._same_width(source.path, stored.n_features)
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
                    f"{query_id!r}, which is also in {self.sources[self._home[code]].path}"
                )
            codes[i] = code
        return codes

    def _same_width(self, path: Path, width: int, hint: str = "") -> None:
        """Refuse a dense file with another number of columns than the others, or than the caller asks for."""
        if self._limit() < MAX_FEATURES:
            if width != self._limit():
                where = " on every line" if hint else ""
                raise InvalidData(f"{path}: expected {self._limit()} features, found {width}{where}{hint}")
            return
        if self._dense is not None and self._dense[1] != width:
            raise InvalidData(
                f"{path}: expected {self._dense[1]} features on every line, as in {self._dense[0]}, found {width}"
            )
        self._dense = (path, width)


def _matrix_of(lines: Lines) -> Matrix | None:
    """Return a view of the values if every line has the features ``1..n``; else None."""
    width = int(lines.counts[0])
    if width == 0 or bool((lines.counts != width).any()):
        return None
    if not bool((lines.columns.reshape(-1, width)[:, -1] == width - 1).all()):
        return None
    return lines.values.reshape(-1, width)


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
            weights=None if queries.weights is None else queries.weights[queries.query_of[rows]],
            positions=None if queries.positions is None else queries.positions[rows],
        )


def read_names(path: Path) -> tuple[str, ...]:
    """Read feature names, one per line.

    Raises:
        InvalidData: a name is empty or there twice, or the file is not UTF-8 text.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        # Its positions count from behind a byte order mark.
        line = error.object[: error.start].count(b"\n") + 1
        found = f"the byte 0x{error.object[error.start]:02x} on line {line}"
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
