"""Judged queries in Parquet. Docs: docs/use/data.md, "Parquet"."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from localrank.errors import InvalidData
from localrank_training.data.tables import FEATURES, IDS, NAMES, POSITION, WEIGHT, Batch, Layout, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from localrank_training.data.columns import Columns
    from localrank_training.data.scanning import Block

_LABEL, _QUERY, _COMMENT, _WEIGHT, _POSITION = "label", "qid", "comment", "weight", "position"
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
        self.layout = Layout(path, self._file.schema_arrow, columns, self._list_width())
        if self.n_rows == 0:
            raise InvalidData(f"{path}: expected judged documents, found no rows")

    @property
    def n_rows(self) -> int:
        return int(self._file.metadata.num_rows)

    def batches(self, names: Sequence[str]) -> Iterator[tuple[Batch, float]]:
        """Yield the rows, features in the order of ``names``, and which share of the file is read with them."""
        order = [self.layout.names.index(name) for name in names]
        row = 1
        size = max(_CELLS_READ // len(names), 64)
        try:
            for batch in self._file.iter_batches(
                batch_size=size, columns=self.layout.columns, use_threads=False
            ):
                if batch.num_rows:
                    found = rows(batch, row, self.layout, names, order)
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


class ParquetWriter:
    """Writes blocks of documents as row groups of a useful size."""

    def __init__(
        self, path: Path, names: Sequence[str], *, comments: bool, weights: bool, positions: bool
    ) -> None:
        self._names = tuple(names)
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
        else:
            fields += [pa.field(name, pa.float32()) for name in names]
        self._schema = pa.schema(fields, metadata=metadata or None)
        self._pending: list[Any] = []
        self._rows = 0
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, block: Block, query_ids: Sequence[str]) -> None:
        """Append documents; NaN becomes null, and so does a place of 0."""
        labels, comments, matrix = block.labels, block.comments, block.dense(len(self._names))
        columns = [pa.array(labels), pa.array(query_ids, pa.string())]
        if self._comments:
            columns.append(pa.array([""] * len(labels), pa.string()) if comments is None else comments)
        if self._weights:
            columns.append(pa.array(block.weights))
        if self._positions:
            places = np.zeros(len(labels), np.int64) if block.positions is None else block.positions
            columns.append(pa.array(places, mask=places == 0))
        if self._listed:
            values = pa.array(np.ascontiguousarray(matrix).reshape(-1), from_pandas=True)
            columns.append(pa.FixedSizeListArray.from_arrays(values, len(self._names)))
        else:
            columns += [pa.array(np.ascontiguousarray(column), from_pandas=True) for column in matrix.T]
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


def _line(error: Exception) -> str:
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__
