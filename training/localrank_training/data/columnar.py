"""Judged queries in Parquet and in Arrow files. Docs: docs/use/data.md, "Parquet" and "Arrow files".

An Arrow file that `write_arrow` wrote holds the documents of each query together, and all values as one array. It is
opened without reading the values: they are mapped.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from localrank.errors import InvalidData
from localrank_training.data.queries import QuerySet, Texts
from localrank_training.data.tables import (
    FEATURES,
    IDS,
    LINE,
    NAMES,
    POSITION,
    SPECIAL,
    WEIGHT,
    TableLayout,
    Values,
    list_width,
    rows,
    weights_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from localrank.arrays import Indices, Matrix
    from localrank.features.feature import Feature
    from localrank_training.data.tables import Batch, Columns, Piece

_LABEL, _QUERY, _COMMENT, _WEIGHT, _POSITION, _LINE = "label", "qid", "comment", "weight", "position", "line"
_RESERVED = {_LABEL, _QUERY, FEATURES, *IDS}
#: Wider sets are written as one list column: a Parquet file pays for each column.
_MOST_COLUMNS = 4096
#: What Arrow raises for damaged files; its text decoding raises a ValueError of its own.
_DAMAGE = (pa.ArrowException, OSError, ValueError)
_CELLS_READ = 1 << 20
_CELLS_WRITTEN = 1 << 24


class ParquetReader:
    """One Parquet file; its columns are checked when it is opened.

    Attributes:
        layout: what each column is.
    """

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path = path
        try:
            # Arrow would keep all that it has read ahead until the last row.
            self._file = pq.ParquetFile(path, pre_buffer=False)
        except _DAMAGE as error:
            raise InvalidData(
                f"{path}: expected a whole Parquet file, found damage ({_line(error)})"
            ) from None
        self.layout = TableLayout(path, self._file.schema_arrow, columns, self._list_width())
        if self.n_rows == 0:
            raise InvalidData(f"{path}: expected {columns.rows_are}, found no rows")

    @property
    def n_rows(self) -> int:
        return int(self._file.metadata.num_rows)

    def batches(self, names: Sequence[str], values: Values) -> Iterator[tuple[Batch, float]]:
        """Yield the rows, features in the order of ``names``, and which share of the file is read with them."""
        row = 1
        size = max(_CELLS_READ // len(names), 64)
        try:
            for batch in self._file.iter_batches(
                batch_size=size, columns=self.layout.columns, use_threads=False
            ):
                if batch.num_rows:
                    found = rows(batch, row, self.layout, names, values)
                    row += batch.num_rows
                    yield found, (row - 1) / self.n_rows
            if row - 1 != self.n_rows:
                raise InvalidData(f"{self._path}: expected {self.n_rows} rows, found {row - 1}")
        except _DAMAGE as error:
            raise InvalidData(
                f"{self._path}: expected a whole Parquet file, found damage after row {row - 1}, {self._group(row)} "
                f"({_line(error)})"
            ) from None

    def _group(self, row: int) -> str:
        """Say in which row group a row is, both counted from 1."""
        metadata = self._file.metadata
        ends = np.cumsum([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)])
        return f"in row group {int(np.searchsorted(ends, row)) + 1} of {len(ends)}"

    def _list_width(self) -> int | None:
        """Return how many values the first list of features has; None without such a column."""
        schema = self._file.schema_arrow
        if FEATURES not in schema.names or not pa.types.is_nested(schema.field(FEATURES).type):
            return None
        try:
            first = next(self._file.iter_batches(batch_size=1, columns=[FEATURES]), None)
        except _DAMAGE as error:
            raise InvalidData(
                f"{self._path}: expected a whole Parquet file, found damage ({_line(error)})"
            ) from None
        return None if first is None or not len(first) else len(first[FEATURES][0].as_py() or ())


class ArrowReader:
    """One Arrow file, mapped; its columns are checked when it is opened.

    Attributes:
        layout: what each column is.
    """

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path = path
        try:
            mapped = pa.memory_map(str(path))
            self._file = pa.ipc.open_file(mapped)
            self._batches = [self._file.get_batch(at) for at in range(self._file.num_record_batches)]
            _ = self._file.schema.names  # are decoded
            for batch in self._batches:
                batch.validate(full=True)
                for column in batch.columns:
                    if pa.types.is_dictionary(column.type):
                        column.dictionary.validate(full=True)
            mapped.seek(0)
            whole = mapped.read_buffer()
        except _DAMAGE as error:
            raise InvalidData(f"{path}: expected a whole Arrow file, found damage ({_line(error)})") from None
        #: Where the file lies in memory.
        self._begin, self._size = int(whole.address), whole.size
        if not sum(batch.num_rows for batch in self._batches):
            raise InvalidData(f"{path}: expected {columns.rows_are}, found no rows")
        self.layout = TableLayout(
            path, self._file.schema, columns, list_width(pa.Table.from_batches(self._batches))
        )

    def batches(self, names: Sequence[str], values: Values) -> Iterator[tuple[Batch, float]]:
        """Yield the rows, features in the order of ``names``, and which share of the file is read with them."""
        size, row = max(_CELLS_READ // len(names), 64), 1
        n_rows = sum(batch.num_rows for batch in self._batches)
        for batch in self._batches:
            for begin in range(0, batch.num_rows, size):
                some = batch.slice(begin, size).select(self.layout.columns)
                found = rows(some, row, self.layout, names, values)
                row += some.num_rows
                yield found, (row - 1) / n_rows

    def mapped(self) -> QuerySet | None:
        """Return the queries with their documents mapped; None for a file that `write_arrow` did not write.

        Raises:
            InvalidData: names row and column.
        """
        layout = self.layout
        begin = self._place_of_values()
        if begin is None:
            return None
        (batch,) = self._batches
        found = rows(batch, 1, layout, (), Values())
        if bool((np.diff(found.queries) < 0).any()):
            return None
        n_docs, n_queries = len(found), len(found.query_ids)
        weights = None
        if found.weights is not None:
            at = f"{self._path}: row "
            weights = weights_of(found.queries, found.weights, found.query_ids, lambda row: f"{at}{row + 1}")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(found.queries, minlength=n_queries))])
        return QuerySet(
            documents=np.memmap(self._path, np.float32, "r", begin, (n_docs, len(layout.names))),
            labels=found.labels.copy(),
            offsets=offsets.astype(np.int64),
            query_ids=tuple(found.query_ids),
            feature_names=layout.names,
            lines=self._lines(batch, n_docs),
            comments=None if found.comments is None else Texts(found.comments),
            weights=weights,
            positions=found.positions,
            special=layout.special,
        )

    def _place_of_values(self) -> int | None:
        """Return where in the file the values lie; None if they do not lie there as they are used."""
        layout = self.layout
        if not layout.listed or not layout.named or len(self._batches) != 1:
            return None
        column = self._batches[0][FEATURES]
        kind = column.type
        if not pa.types.is_fixed_size_list(kind) or kind.value_type != pa.float32():
            return None
        values = column.flatten()
        if (
            kind.list_size != len(layout.names)
            or values.null_count
            or len(values) != kind.list_size * len(column)
        ):
            return None
        place = int(values.buffers()[1].address) - self._begin
        return place if 0 <= place < self._size else None  # compressed values lie elsewhere

    def _lines(self, batch: Any, n_docs: int) -> Indices:
        name = (self._file.schema.metadata or {}).get(LINE, b"").decode(errors="replace")
        if not name or name not in batch.schema.names:
            return np.arange(n_docs)
        found = batch[name]
        if pa.types.is_integer(found.type) and not found.null_count:
            lines: Indices = found.to_numpy().astype(np.int64)
            inside = bool(((lines >= 0) & (lines < n_docs)).all())
            if inside and bool((np.bincount(lines, minlength=n_docs) == 1).all()):
                return lines
        raise InvalidData(
            f"{self._path}: column {name!r}: expected each position from 0 to {n_docs - 1} once, found other values"
        )


def write_arrow(path: Path, queries: QuerySet) -> None:
    """Write a set as one batch: the documents of each query together, and all values as one array."""
    documents = np.ascontiguousarray(queries.documents)  # rows that are not held come as a mapped file
    ids = pa.array(queries.query_ids, pa.string())
    columns = {
        _LABEL: pa.array(queries.labels),
        _QUERY: pa.DictionaryArray.from_arrays(pa.array(queries.query_of.astype(np.int32)), ids),
    }
    metadata = {NAMES: json.dumps(list(queries.feature_names))}
    if categories := _categories(queries.special):
        metadata[SPECIAL] = json.dumps(categories)
    every = np.arange(queries.n_docs)
    if queries.comments is not None:
        columns[_COMMENT] = Texts.of(queries.comments).arrow(every).cast(pa.large_string())
    if queries.weights is not None:
        columns[_WEIGHT] = pa.array(queries.weights[queries.query_of])
        metadata[WEIGHT] = _WEIGHT
    if queries.positions is not None:
        columns[_POSITION] = pa.array(queries.positions, mask=queries.positions == 0)
        metadata[POSITION] = _POSITION
    if not np.array_equal(queries.lines, every):
        columns[_LINE] = pa.array(np.argsort(np.argsort(queries.lines, kind="stable")))
        metadata[LINE] = _LINE
    values = pa.Array.from_buffers(pa.float32(), documents.size, [None, pa.py_buffer(documents)])
    columns[FEATURES] = pa.FixedSizeListArray.from_arrays(values, documents.shape[1])
    batch = pa.record_batch(columns, metadata=metadata)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


class ParquetWriter:
    """Writes blocks of documents as row groups of a useful size."""

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        *,
        comments: bool,
        weights: bool,
        positions: bool,
        special: Mapping[str, Feature] = MappingProxyType({}),
    ) -> None:
        self._names = tuple(names)
        self._values = {name: np.array(values, object) for name, values in _categories(special).items()}
        self._comments, self._weights, self._positions = comments, weights, positions
        reserved = _RESERVED | ({_WEIGHT} if weights else set()) | ({_POSITION} if positions else set())
        self._listed = len(names) > _MOST_COLUMNS or not reserved.isdisjoint(names)
        fields = [pa.field(_LABEL, pa.float64()), pa.field(_QUERY, pa.string())]
        if comments:
            fields.append(pa.field(_COMMENT, pa.string()))
        metadata: dict[bytes, str] = {}
        if weights:
            fields.append(pa.field(_WEIGHT, pa.float64()))
            metadata[WEIGHT] = _WEIGHT
        if positions:
            fields.append(pa.field(_POSITION, pa.int64()))
            metadata[POSITION] = _POSITION
        if self._listed:
            fields.append(pa.field(FEATURES, pa.list_(pa.float32(), len(names))))
            metadata[NAMES] = json.dumps(list(names))
            if self._values:
                metadata[SPECIAL] = json.dumps(_categories(special))
        else:
            fields += [
                pa.field(name, pa.string() if name in self._values else pa.float32()) for name in names
            ]
        self._schema = pa.schema(fields, metadata=metadata or None)
        self._pending: list[Any] = []
        self._rows = 0
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, piece: Piece) -> None:
        """Append documents; NaN becomes null, and so does a place of 0."""
        labels, comments, matrix = piece.labels, piece.comments, piece.documents
        columns = [pa.array(labels), pa.array(piece.query_ids, pa.string())]
        if self._comments:
            columns.append(
                pa.array([""] * len(labels), pa.string()) if comments is None else comments.cast(pa.string())
            )
        if self._weights:
            columns.append(pa.array(piece.weights))
        if self._positions:
            columns.append(pa.array(piece.positions, mask=piece.positions == 0))
        if self._listed:
            values = pa.array(np.ascontiguousarray(matrix).reshape(-1), from_pandas=True)
            columns.append(pa.FixedSizeListArray.from_arrays(values, len(self._names)))
        else:
            columns += [
                _texts(column, self._values[name])
                if name in self._values
                else pa.array(np.ascontiguousarray(column), from_pandas=True)
                for name, column in zip(self._names, matrix.T, strict=True)
            ]
        self._pending.append(pa.record_batch(columns, schema=self._schema))
        self._rows += len(labels)
        if self._rows * len(self._names) >= _CELLS_WRITTEN:
            self._flush()

    def close(self) -> None:
        """Write what is pending and the footer."""
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._rows:
            self._file.write_table(pa.Table.from_batches(self._pending), row_group_size=self._rows)
        self._pending, self._rows = [], 0


def _categories(special: Mapping[str, Feature]) -> dict[str, list[str]]:
    """Return the values of the features that are categories."""
    return {name: list(one.values) for name, one in special.items() if one.kind == "category"}


def _texts(codes: Matrix, values: NDArray[np.object_]) -> Any:
    """Return a column of codes as texts; a value that is none of these becomes null."""
    known = codes < len(values)  # not NaN
    found = np.full(len(codes), None, object)
    found[known] = values[codes[known].astype(np.intp)]
    return pa.array(found, pa.string())


def _line(error: Exception) -> str:
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__
