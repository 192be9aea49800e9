"""Judged queries in Parquet: a row per document, a column per feature. Docs: docs/data.md, "Parquet"."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from localrank.errors import InvalidData
from localrank_training.data.letor import MAX_FEATURES
from localrank_training.data.queries import default_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from localrank.arrays import Indices, Matrix, Vector

__all__ = ["Batch", "ParquetReader", "ParquetWriter"]

_LABEL, _QUERY, _FEATURES = "label", "qid", "features"
_COMMENTS = ("comment", "document_id")
_RESERVED = {_LABEL, _QUERY, _FEATURES, *_COMMENTS}
#: Where the names stand when the features are one list column.
_NAMES = b"localrank.feature_names"
#: Wider sets are written as one list column: a Parquet file pays for each column.
_MOST_COLUMNS = 4096
#: What Arrow raises for damaged files; its text decoding raises a ValueError of its own.
_DAMAGE = (pa.ArrowException, OSError, ValueError)
_CELLS_READ = 1 << 20
_CELLS_WRITTEN = 1 << 24


class Batch(NamedTuple):
    """Some rows: ``labels`` and ``queries`` (positions in ``query_ids``) ``[n_docs]``, ``matrix`` by columns of the set."""

    labels: Vector
    queries: Indices
    query_ids: Sequence[str]
    comments: Any
    matrix: Matrix


class ParquetReader:
    """One Parquet file; its columns are checked when it is opened.

    Attributes:
        names: of the features, in the order of the file.
        named: False where the file has a list of values and ``names`` only counts them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = pq.ParquetFile(path)
        except _DAMAGE as error:
            raise InvalidData(
                f"{path}: expected a whole Parquet file, found damage ({_line(error)})"
            ) from None
        schema = self._file.schema_arrow
        duplicates = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if duplicates:
            raise InvalidData(f"{path}: expected every column once, found {duplicates[0]!r} again")
        for column in (_LABEL, _QUERY):
            if column not in schema.names:
                raise InvalidData(f"{path}: expected a column {column!r}, found {_listed(schema.names)}")
        if not _is_number(schema.field(_LABEL).type):
            raise InvalidData(f"{path}: expected numbers as 'label', found {schema.field(_LABEL).type}")
        kind = schema.field(_QUERY).type
        if not (_is_text(kind) or pa.types.is_integer(kind)):
            raise InvalidData(f"{path}: expected text or integers as 'qid', found {kind}")
        self._comment = next(
            (
                name
                for name in _COMMENTS
                if name in schema.names
                and (_is_text(schema.field(name).type) or pa.types.is_integer(schema.field(name).type))
            ),
            None,
        )
        self._listed = _FEATURES in schema.names and _is_list(schema.field(_FEATURES).type)
        self.named = not self._listed or _NAMES in (schema.metadata or {})
        self.names = self._list_names(schema) if self._listed else self._column_names(schema)
        if not self.names:
            raise InvalidData(
                f"{path}: expected columns of numbers as features, found {_listed(schema.names)}"
            )
        if len(self.names) > MAX_FEATURES:
            raise InvalidData(f"{path}: expected at most {MAX_FEATURES} features, found {len(self.names)}")
        if self._file.metadata.num_rows == 0:
            raise InvalidData(f"{path}: expected judged documents, found no rows")

    @property
    def n_rows(self) -> int:
        return int(self._file.metadata.num_rows)

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """Yield the rows, features in the order of ``names``."""
        order = [self.names.index(name) for name in names]
        kept = [_LABEL, _QUERY, *([self._comment] if self._comment else [])]
        kept += [_FEATURES] if self._listed else list(names)
        row = 1
        size = max(_CELLS_READ // len(names), 64)
        try:
            for batch in self._file.iter_batches(batch_size=size, columns=kept, use_threads=False):
                if batch.num_rows:
                    yield self._batch(batch, row, names, order)
                    row += batch.num_rows
            if row - 1 != self.n_rows:
                raise InvalidData(f"{self._path}: expected {self.n_rows} rows, found {row - 1}")
        except _DAMAGE as error:
            raise InvalidData(
                f"{self._path}: expected a whole Parquet file, found damage after row {row - 1} ({_line(error)})"
            ) from None

    def _batch(self, batch: Any, row: int, names: Sequence[str], order: Sequence[int]) -> Batch:
        for column in (_LABEL, _QUERY):
            if batch[column].null_count:
                first = int(np.flatnonzero(batch[column].is_null().to_numpy(zero_copy_only=False))[0])
                raise self._wrong(row + first, column, "a value", "null")
        labels: Vector = batch[_LABEL].cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if not bool(np.isfinite(labels).all()):
            first = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise self._wrong(row + first, _LABEL, "a finite number", str(labels[first]))
        encoded = batch[_QUERY].cast(pa.string()).dictionary_encode()
        comments = None
        if self._comment is not None:
            comments = pc.fill_null(batch[self._comment].cast(pa.string()), "")
            comments.validate(full=True)  # not every damage shows before the text is decoded
            if not pc.any(pc.not_equal(comments, "")).as_py():
                comments = None
        return Batch(
            labels=labels,
            queries=encoded.indices.to_numpy().astype(np.int64),
            query_ids=encoded.dictionary.to_pylist(),
            comments=comments,
            matrix=self._matrix(batch, row, names, order),
        )

    def _matrix(self, batch: Any, row: int, names: Sequence[str], order: Sequence[int]) -> Matrix:
        matrix = np.empty((batch.num_rows, len(names)), np.float32)
        with np.errstate(over="ignore"):
            if self._listed:
                exact = self._list_values(batch[_FEATURES], row)
                matrix[:] = exact[:, list(order)]
            else:
                for column, name in enumerate(names):
                    matrix[:, column] = _floats(batch[name])
        infinite = np.isinf(matrix)
        if bool(infinite.any()):
            at, column = (int(i) for i in np.argwhere(infinite)[0])
            cell = (
                batch[_FEATURES][at].as_py()[order[column]]
                if self._listed
                else batch[names[column]][at].as_py()
            )
            expected = (
                "a value that float32 holds (at most 3.4028235e38)"
                if np.isfinite(float(cell))
                else "a finite value"
            )
            raise self._wrong(row + at, names[column], expected, str(cell))
        return matrix

    def _list_values(self, column: Any, row: int) -> Vector:
        if column.null_count:
            first = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise self._wrong(row + first, _FEATURES, "a list of values", "null")
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != len(self.names))
        if len(wrong):
            first = int(wrong[0])
            raise self._wrong(row + first, _FEATURES, f"{len(self.names)} values", str(lengths[first]))
        return _floats(column.flatten()).reshape(len(column), len(self.names))

    def _list_names(self, schema: Any) -> tuple[str, ...]:
        stored = (schema.metadata or {}).get(_NAMES)
        if stored is not None:
            try:
                names = json.loads(stored)
            except ValueError:
                names = None
            strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
            if strings and len(set(names)) == len(names):
                return tuple(names)
            raise InvalidData(
                f"{self._path}: expected a list of different names in its metadata, found {stored[:40]!r}"
            )
        kind = schema.field(_FEATURES).type
        if pa.types.is_fixed_size_list(kind):
            width = kind.list_size
        else:
            first = next(self._file.iter_batches(batch_size=1, columns=[_FEATURES]), None)
            width = 0 if first is None else len(first[_FEATURES][0].as_py() or ())
        return default_names(width)

    def _column_names(self, schema: Any) -> tuple[str, ...]:
        return tuple(
            field.name
            for field in schema
            if field.name not in _RESERVED - {_FEATURES} and _is_number(field.type)
        )

    def _wrong(self, row: int, column: str, expected: str, found: str) -> InvalidData:
        return InvalidData(f"{self._path}: row {row}, column {column!r}: expected {expected}, found {found}")


class ParquetWriter:
    """Writes blocks of documents as row groups of a useful size."""

    def __init__(self, path: Path, names: Sequence[str], *, comments: bool) -> None:
        self._names = tuple(names)
        self._comments = comments
        self._listed = len(names) > _MOST_COLUMNS or not _RESERVED.isdisjoint(names)
        fields = [pa.field(_LABEL, pa.float64()), pa.field(_QUERY, pa.string())]
        if comments:
            fields.append(pa.field("comment", pa.string()))
        metadata = None
        if self._listed:
            fields.append(pa.field(_FEATURES, pa.list_(pa.float32(), len(names))))
            metadata = {_NAMES: json.dumps(list(names))}
        else:
            fields += [pa.field(name, pa.float32()) for name in names]
        self._schema = pa.schema(fields, metadata=metadata)
        self._pending: list[Any] = []
        self._rows = 0
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, labels: Vector, query_ids: Sequence[str], comments: Any, matrix: Matrix) -> None:
        """Append documents; NaN becomes null."""
        columns = [pa.array(labels), pa.array(query_ids, pa.string())]
        if self._comments:
            columns.append(pa.array([""] * len(labels), pa.string()) if comments is None else comments)
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


def _floats(column: Any) -> Vector:
    """Return a column of numbers as doubles (a float32 one as it is); null becomes NaN."""
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        column = pc.fill_null(column, float("nan"))
    floats: Vector = column.to_numpy(zero_copy_only=False)
    return floats


def _is_number(kind: Any) -> bool:
    types = pa.types
    return any(
        is_kind(kind) for is_kind in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    )


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_list(kind: Any) -> bool:
    types = pa.types
    return any(
        is_kind(kind) for is_kind in (types.is_fixed_size_list, types.is_list, types.is_large_list)
    ) and _is_number(kind.value_type)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:6])
    return (shown + (", …" if len(names) > 6 else "")) or "no columns"


def _line(error: Exception) -> str:
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__
