"""Read judged queries: the one road from files and tables to a `QuerySet`.

Each reader yields `Batch` after `Batch`. What only the whole input can tell (how many features there are, whether a
query is torn between files, whether a file of dense lines has a ragged one) is checked here, once, for all of them. Then
the documents of each query are put together.
"""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from localrank.errors import InvalidData
from localrank_training.data import letor
from localrank_training.data import rows as rows_module
from localrank_training.data.categories import described
from localrank_training.data.columnar import ArrowReader, ParquetReader
from localrank_training.data.looking_up import looked_up
from localrank_training.data.queries import (
    MAX_FEATURES,
    Gap,
    Origin,
    QuerySet,
    Skipped,
    Texts,
    default_names,
)
from localrank_training.data.rows import ScratchFile
from localrank_training.data.sources import Source, first_line, locate, read_names
from localrank_training.data.table_text import DelimitedReader, JsonReader, delimiter_of
from localrank_training.data.tables import (
    AS_NAMED,
    Batch,
    Columns,
    Sparse,
    TableLayout,
    Values,
    list_width,
    rows,
    weights_of,
)
from localrank_training.parallel.processes import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from localrank.arrays import Indices, Matrix

    Table: TypeAlias = ArrowReader | ParquetReader | DelimitedReader | JsonReader


def read(
    paths: Sequence[str | Path] | str | Path,
    *,
    progress: Progress = silent,
    n_features: int | None = None,
    columns: Columns = AS_NAMED,
    say: Callable[[str], None] = lambda _: None,
    skip: bool = False,
    held: int | None = None,
) -> QuerySet:
    """Read judged queries; their documents need not be adjacent within a file.

    Documents that are too many to be held (`localrank_training.data.rows`) come as a mapped file, which lies in the folder for
    temporary files as long as it is needed. An Arrow file that `localrank data convert` wrote is mapped itself.

    Args:
        paths: files or folders of partitions: LETOR text, CSV or JSON lines (plain, gzip, zstd), Parquet, Arrow.
        progress: told ``("reading", bytes read, bytes in all)``.
        n_features: how many features there are, where the data may not show it (sparse text whose last feature is
            never there); a document with more is refused. Data that name their features have those.
        columns: what the columns of tables hold, and whether text leaves zeros out.
        say: told what was taken from a table and what was left out.
        skip: leave out files with which something is wrong; they are in `QuerySet.skipped`.
        held: bytes of documents that are held.

    Returns:
        Queries in the order of their first documents, documents of a query in the order of the input.

    Raises:
        InvalidData: names file, line and column if there are any.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    reading = _InputReading(progress, n_features, columns, say, rows_module.HELD if held is None else held)
    sources = locate(given, reading.skip if skip else None)
    if not sources:
        raise reading.nothing()
    found = reading.mapped(sources) or reading.all_of(sources, skip=skip)
    return looked_up(found, columns, say)


def read_table(
    table: object, *, columns: Columns = AS_NAMED, say: Callable[[str], None] = lambda _: None
) -> QuerySet:
    """Take judged queries from a table in memory: a pandas or polars frame, an Arrow table, a dictionary of columns.

    Whatever speaks Arrow's C stream interface is taken without a copy of its own. Missing values are null or NaN.

    Args:
        table: a row per document.
        columns: what the columns hold.
        say: told what was taken and what was left out.

    Raises:
        InvalidData: names row and column.
    """
    try:
        arrow = pa.table(table)
    except (TypeError, ValueError, pa.ArrowException) as error:
        found = str(error).splitlines()[0][:160]
        kind = type(table).__name__
        hint = "; collect() it first" if hasattr(table, "collect") else ""
        raise InvalidData(
            f"expected a table with named columns (pandas, polars, Arrow, a dictionary), found a {kind}{hint}: {found}"
        ) from None
    if not arrow.num_rows:
        raise InvalidData("table: expected judged documents, found no rows")
    layout = TableLayout("table", arrow.schema, columns, list_width(arrow), in_python=True)
    say(f"table: {layout.describe()}")
    (whole,) = arrow.select(layout.columns).combine_chunks().to_batches()
    values = Values()
    batch = rows(whole, 1, layout, layout.names, values)
    blocks = _Blocks(rows_module.HELD)
    blocks.add(batch)
    if batch.weights is not None:
        weights_of(batch.queries, batch.weights, batch.query_ids, lambda row: f"table: row {row + 1}")
    queries = _together(blocks, ["table"], tuple(batch.query_ids), layout.names)
    return looked_up(described(queries, columns, values, say), columns, say)


class _StoredArrays(NamedTuple):
    """Where arrays lie in a `ScratchFile`."""

    begin: int
    end: int
    arrays: tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]


class _Blocks:
    """Batches as they were read; the values of very many are in a temporary file.

    Attributes:
        batches: without their values.
        sources: position of each one's file.
    """

    def __init__(self, held: int) -> None:
        self.batches: list[Batch] = []
        self.sources: list[int] = []
        self._values: list[Matrix | Sparse | _StoredArrays | None] = []
        self._room = held
        self._store: ScratchFile | None = None
        self._n_stored = 0

    def add(self, batch: Batch, source: int = 0) -> None:
        """Keep a batch, whose queries have their numbers in the whole input."""
        self._values.append(batch.values)
        self.batches.append(replace(batch, values=_NO_VALUES))
        self.sources.append(source)
        self._room -= sum(array.nbytes for array in _arrays(batch.values))
        if self._room < 0:
            self._store = self._store or ScratchFile()
            for at in range(self._n_stored, len(self._values)):
                self._values[at] = _stored(cast("Matrix | Sparse", self._values[at]), self._store)
            self._n_stored = len(self._values)

    def cut(self, count: int) -> None:
        """Forget all batches but the first ``count``."""
        places = [one.end for one in self._values[:count] if isinstance(one, _StoredArrays)]
        if self._store is not None:
            self._store.cut(places[-1] if places else 0)
        self._n_stored = min(self._n_stored, count)
        del self.batches[count:], self.sources[count:], self._values[count:]

    def as_stored(self, n_docs: int, n_features: int) -> Matrix | None:
        """Return the values as they lie in the temporary file, if all of them do, each document with every feature."""
        for batch, values in zip(self.batches, self._values, strict=True):
            if not isinstance(values, _StoredArrays) or values.arrays[0][1] != (len(batch), n_features):
                return None
        return None if self._store is None else self._store.mapped(0, np.float32, (n_docs, n_features))

    def fill(self, documents: Matrix, grouping: Grouping) -> None:
        """Write the values into a matrix of zeros."""
        done = 0
        for at, batch in enumerate(self.batches):
            values, places = self._values[at], grouping.rows(done, len(batch))
            if isinstance(values, _StoredArrays):
                values = _loaded(values, cast("ScratchFile", self._store))
            if isinstance(values, Sparse):
                if isinstance(places, slice):
                    places = np.arange(places.start, places.stop)
                documents[np.repeat(places, values.counts), values.columns] = values.values
            elif values is not None:
                documents[places, : values.shape[1]] = values
            done += len(batch)
            # Freed while the matrix fills, so that both are never whole in memory at once.
            self._values[at] = None


_NO_VALUES: Matrix = np.empty((0, 0), np.float32)


def _arrays(values: Matrix | Sparse) -> tuple[Any, ...]:
    return values if isinstance(values, Sparse) else (values,)


def _stored(values: Matrix | Sparse, store: ScratchFile) -> _StoredArrays:
    begin = store.end
    for array in _arrays(values):
        store.add(np.ascontiguousarray(array))
    return _StoredArrays(begin, store.end, tuple((array.dtype, array.shape) for array in _arrays(values)))


def _loaded(place: _StoredArrays, store: ScratchFile) -> Matrix | Sparse:
    begin, found = place.begin, []
    for dtype, shape in place.arrays:
        found.append(store.read(begin, dtype, shape))
        begin += found[-1].nbytes
    return Sparse(*found) if len(found) > 1 else found[0]


class _InputReading:
    """What is known of the input so far."""

    def __init__(
        self,
        progress: Progress,
        n_features: int | None,
        columns: Columns,
        say: Callable[[str], None],
        held: int,
    ) -> None:
        self._progress, self._columns, self._say = progress, columns, say
        self._asked = n_features
        self._blocks = _Blocks(held)
        self._values = Values()
        self._skipped: list[Skipped] = []
        self._gaps: list[Gap] = []
        #: The number of each query, in the order of their first appearance, and the position of its file.
        self._query_ids: dict[str, int] = {}
        self._home: list[int] = []
        #: Known once the data or a sidecar has named the features.
        self._names: tuple[str, ...] | None = None
        self._named_by: Path | None = None
        #: The widest document so far.
        self._n_columns = 0
        self._weighted: tuple[Path, bool] | None = None
        self._dense: tuple[Path, int] | None = None
        self._described = ""
        #: The last file of lines, whose numbers say where a query is.
        self._of_lines: Path | None = None

    def skip(self, path: Path, error: InvalidData) -> None:
        """Leave out a file."""
        self._skipped.append(Skipped(str(path), str(error)))
        self._say(f"skipped: {error}")

    def nothing(self) -> InvalidData:
        """Return the error if every file was left out."""
        return InvalidData(
            f"expected a file that can be read, found none; the first of {len(self._skipped)}: {self._skipped[0].reason}"
        )

    def mapped(self, sources: Sequence[Source]) -> QuerySet | None:
        """Return the queries of a single Arrow file that needs not be read."""
        if len(sources) > 1 or sources[0].kind != "arrow" or sources[0].names is not None:
            return None
        path = sources[0].path
        reader = ArrowReader(path, self._columns)
        found = reader.mapped()
        if found is not None:
            unnamed = found.feature_names == default_names(found.n_features)
            if unnamed and self._asked is not None and found.n_features != self._asked:
                raise InvalidData(f"{path}: expected {self._asked} features, found {found.n_features}")
            self._say(f"{path}: {reader.layout.describe()}")
            found = described(found, self._columns, self._values, self._say)
        return found

    def all_of(self, sources: Sequence[Source], *, skip: bool) -> QuerySet:
        """Read all files."""
        if self._asked is not None and not 1 <= self._asked <= MAX_FEATURES:
            raise InvalidData(f"expected 1 to {MAX_FEATURES} features, found {self._asked} asked for")
        total, before = sum(source.size for source in sources), 0
        for position, source in enumerate(sources):

            def advance(done: int, before: int = before) -> None:
                self._progress("reading", before + done, total)

            if skip:
                self._try(position, source, sources, advance)
            else:
                self._take(position, source, sources, advance)
            before += source.size
        if not self._query_ids:
            raise self.nothing()
        names = self._names or default_names(self._asked or self._n_columns)
        if not names:
            raise InvalidData(f"{sources[0].path}: expected at least one feature, found none")
        self._progress("reading", total, total)
        found = _together(
            self._blocks, [str(source.path) for source in sources], tuple(self._query_ids), names
        )
        found = described(found, self._columns, self._values, self._say)
        return replace(found, gaps=tuple(self._gaps), skipped=tuple(self._skipped))

    def _try(
        self, position: int, source: Source, sources: Sequence[Source], advance: Callable[[int], None]
    ) -> None:
        """Read a file; if something is wrong with it, forget it."""
        before = {name: copy.copy(value) for name, value in vars(self).items() if name != "_blocks"}
        count, said = len(self._blocks.batches), list[str]()
        self._say = said.append
        try:
            self._take(position, source, sources, advance)
        except InvalidData as error:
            vars(self).update(before)
            self._blocks.cut(count)
            self.skip(source.path, error)
        else:
            self._say = before["_say"]
            for sentence in said:
                self._say(sentence)

    def _take(
        self, position: int, source: Source, sources: Sequence[Source], advance: Callable[[int], None]
    ) -> None:
        count = len(self._blocks.batches)
        for batch in self._batches(source, advance):
            self._n_columns = max(self._n_columns, _width(batch.values))
            codes = self._enter(position, batch, sources)
            self._blocks.add(replace(batch, queries=codes[batch.queries]), position)
        self._weigh(source, self._blocks.batches[count:])

    def _batches(self, source: Source, advance: Callable[[int], None]) -> Iterator[Batch]:
        if source.names is not None:
            self._name(source.names, read_names(source.names))
        if source.kind == "parquet":
            yield from self._table(source, ParquetReader(source.path, self._columns), advance)
        elif source.kind == "arrow":
            yield from self._table(source, ArrowReader(source.path, self._columns), advance)
        elif (line := first_line(source)).lstrip().startswith(b"{"):
            yield from self._table(source, JsonReader(source, self._columns), advance)
        elif (delimiter := delimiter_of(line, str(source.path))) is not None:
            yield from self._table(source, DelimitedReader(source, delimiter, self._columns), advance)
        else:
            yield from self._text(source, advance)

    def _name(self, path: Path, names: tuple[str, ...]) -> None:
        """Take feature names from a file; they must be the ones that another has given."""
        if self._names is not None and names != self._names:
            other = self._names
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
        if self._n_columns > len(names):
            raise InvalidData(
                f"{path}: expected the {self._n_columns} features of the files before it, found {len(names)}"
            )
        self._names, self._named_by = names, path

    def _limit(self) -> int:
        if self._names is not None:
            return len(self._names)
        return self._asked if self._asked is not None else MAX_FEATURES

    def _text(self, source: Source, advance: Callable[[int], None]) -> Iterator[Batch]:
        if self._columns.items:
            first = first_line(source).decode(errors="replace").strip()
            found = f"only the column {first!r}" if first == self._columns.qid else "text without columns"
            raise InvalidData(
                f"{source.path}: expected a table (CSV, JSON lines, Parquet, Arrow) with the column {self._columns.qid!r} and "
                f"features, found {found}"
            )
        for option, column in (("--weight", self._columns.weight), ("--position", self._columns.position)):
            if column is not None:
                raise InvalidData(
                    f"{source.path}: expected a table (CSV, JSON lines, Parquet, Arrow) with the column {column!r} of {option}, found LETOR "
                    "text, which has no place for it"
                )
        self._of_lines = source.path
        density = letor.Density(str(source.path))
        yield from letor.batches(source, self._limit(), density, advance)
        if density.empty:
            found = "an empty file" if source.size == 0 else "only blank lines and comments"
            raise InvalidData(f"{source.path}: expected judged documents, found {found}")
        if self._columns.sparse:
            return
        width = density.width()
        if width is not None:
            self._same_width(source.path, width, "; if absent features are zeros here, add --sparse")
        elif (gap := density.gap()) is not None:
            self._gaps.append(gap)
            self._say(f"{gap}; add --sparse if this is right")

    def _table(self, source: Source, reader: Table, advance: Callable[[int], None]) -> Iterator[Batch]:
        layout = reader.layout
        names = layout.names
        expected = self._names or default_names(len(names))
        if layout.named and sorted(names) == sorted(expected):
            names = expected
        if names != default_names(len(names)):
            self._name(source.path, names)
        self._same_width(source.path, len(names))
        description = layout.describe()
        if description != self._described:
            self._described = description
            self._say(f"{source.path}: {description}")
        for batch, share in reader.batches(names, self._values):
            yield batch
            advance(int(source.size * share))

    def _enter(self, position: int, batch: Batch, sources: Sequence[Source]) -> Indices:
        """Give a batch's queries their numbers; refuse one that an earlier file has."""
        codes = np.empty(len(batch.query_ids), np.int64)
        for i, query_id in enumerate(batch.query_ids):
            code = self._query_ids.setdefault(query_id, len(self._query_ids))
            if code == len(self._home):
                self._home.append(position)
            elif self._home[code] != position:
                path, number = sources[position].path, batch.numbers[np.flatnonzero(batch.queries == i)[0]]
                if self._columns.items:
                    raise InvalidData(
                        f"{path}: row {number}: expected every id once, found {query_id!r} again, which is also in "
                        f"{sources[self._home[code]].path}"
                    )
                raise InvalidData(
                    f"{path}{f':{number}' if path == self._of_lines else ''}: expected every query in one file, found query "
                    f"{query_id!r}, which is also in {sources[self._home[code]].path}"
                )
            codes[i] = code
        return codes

    def _weigh(self, source: Source, batches: Sequence[Batch]) -> None:
        """Refuse a query with several weights, and weights that only some inputs have."""
        weighted = batches[0].weights is not None
        if self._weighted is not None and self._weighted[1] != weighted:
            found = "some" if weighted else "none"
            raise InvalidData(
                f"{source.path}: expected query weights in all inputs or in none, found {found}, unlike in "
                f"{self._weighted[0]}"
            )
        self._weighted = (source.path, weighted)
        if weighted:
            numbers = _joined(batches, "numbers")
            weights_of(
                _joined(batches, "queries"),
                _joined(batches, "weights"),
                tuple(self._query_ids),
                lambda row: f"{source.path}: row {numbers[row]}",
            )

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


def _width(values: Matrix | Sparse) -> int:
    return int(values.columns.max(initial=-1)) + 1 if isinstance(values, Sparse) else values.shape[1]


def _joined(batches: Sequence[Batch], name: str) -> Any:
    return np.concatenate([getattr(batch, name) for batch in batches])


class Grouping:
    """Puts the documents of each query next to each other, keeping their order.

    Attributes:
        order: ``[n_docs]`` position in the input of each document in its place.
        offsets: ``[n_queries + 1]``.
    """

    def __init__(self, queries: Indices, n_queries: int) -> None:
        """Take ``[n_docs]`` query numbers in input order, numbered by first appearance."""
        self._places: Indices | None = None
        if bool((queries[1:] >= queries[:-1]).all()):
            self.order = np.arange(len(queries))
        else:
            self.order = np.argsort(queries, kind="stable")
            self._places = np.empty_like(self.order)
            self._places[self.order] = np.arange(len(queries))
        self.offsets = np.concatenate([[0], np.cumsum(np.bincount(queries, minlength=n_queries))]).astype(
            np.int64
        )

    @property
    def adjacent(self) -> bool:
        """Whether they were next to each other already."""
        return self._places is None

    def rows(self, start: int, count: int) -> Indices | slice:
        """Return the places of the documents ``start:start + count`` of the input."""
        return slice(start, start + count) if self._places is None else self._places[start : start + count]


def _together(
    blocks: _Blocks, files: Sequence[str], query_ids: tuple[str, ...], names: tuple[str, ...]
) -> QuerySet:
    """Return the set that batches make, the documents of each query together."""
    batches = blocks.batches
    queries = _joined(batches, "queries")
    grouping = Grouping(queries, len(query_ids))
    order = grouping.order
    weights = None
    if batches[0].weights is not None:
        weights = np.empty(len(query_ids))
        weights[queries] = _joined(batches, "weights")
    positions = None
    if any(batch.positions is not None for batch in batches):
        found = [np.zeros(len(one), np.int64) if one.positions is None else one.positions for one in batches]
        positions = np.concatenate(found)[order]
    lengths = np.zeros(len(files), np.int64)
    np.add.at(lengths, blocks.sources, [len(batch) for batch in batches])
    n_docs, n_features = len(order), len(names)
    documents = blocks.as_stored(n_docs, n_features) if grouping.adjacent else None
    if documents is None:
        documents = rows_module.room(n_docs, n_features)
        blocks.fill(documents, grouping)
    return QuerySet(
        documents=documents,
        labels=_joined(batches, "labels")[order],
        offsets=grouping.offsets,
        query_ids=query_ids,
        feature_names=names,
        lines=order,
        comments=_comments(batches, grouping),
        origin=Origin(
            tuple(files), np.cumsum(lengths) - lengths, _joined(batches, "numbers").astype(np.int32)
        ),
        weights=weights,
        positions=positions,
    )


def _comments(batches: Sequence[Batch], grouping: Grouping) -> Texts | None:
    if all(batch.comments is None for batch in batches):
        return None
    found = [pa.nulls(len(one), pa.string()) if one.comments is None else one.comments for one in batches]
    joined = pa.chunked_array([one.cast(pa.large_string()) for one in found]).combine_chunks()
    return Texts(joined, None if grouping.adjacent else grouping.order)
