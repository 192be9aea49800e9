"""Judged queries in delimited text: commas, tabs, semicolons or bars, with a header. Docs: docs/data.md, "CSV"."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from localrank.errors import InvalidData
from localrank_training.data.sources import opened
from localrank_training.data.tables import IDS, Batch, Layout, is_number, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from localrank_training.data.columns import Columns
    from localrank_training.data.sources import Source

__all__ = ["DelimitedReader", "delimiter_of"]

_DELIMITERS = (b"\t", b",", b";", b"|")
#: What stands for a missing value.
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"]
_NUMBER = r"^\s*\"?[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\"?\s*$"
_BLOCK = 1 << 22


def delimiter_of(line: bytes, name: str) -> str | None:
    """Return what separates the columns of a file that begins with this line; None if the file is LETOR text.

    Raises:
        InvalidData: the file is delimited and has no header.
    """
    words = line.split()
    if len(words) > 1 and words[1].startswith(b"qid:"):
        return None
    found = max(_DELIMITERS, key=line.count)
    if not line.count(found):
        return None
    cells = line.rstrip(b"\r\n").split(found)
    if all(re.match(_NUMBER.encode(), cell) or not cell.strip() for cell in cells):
        raise InvalidData(
            f"{name}: expected a header line with the names of the columns, found only numbers in the first line"
        )
    return found.decode()


class DelimitedReader:
    """One file of delimited text; its header is checked when it is opened.

    Attributes:
        layout: what each column is.
    """

    def __init__(self, source: Source, delimiter: str, columns: Columns) -> None:
        self._source = source
        self._delimiter = delimiter
        texts = {name: pa.string() for name in (columns.qid, columns.id, *IDS) if name is not None}
        with self._opened(texts) as (table, _):
            # Names that are not UTF-8 are found out here.
            schema = pa.schema([pa.field(field.name, _type(field.type)) for field in table.schema])
            first = next(iter(table), None)
        if first is None or not first.num_rows:
            raise InvalidData(f"{source.path}: expected judged documents, found only a header")
        self.layout = Layout(source.path, schema, columns)
        self._types = dict(zip(schema.names, schema.types, strict=True))
        self._refuse_broken_numbers(first)

    def batches(self, names: Sequence[str]) -> Iterator[tuple[Batch, float]]:
        """Yield the rows, features in the order of ``names``, and which share of the file is read with them."""
        order = [self.layout.names.index(name) for name in names]
        row = 1
        size = max(self._source.size, 1)
        with self._opened(self._types, self.layout.columns) as (table, position):
            for batch in table:
                if batch.num_rows:
                    yield rows(batch, row, self.layout, names, order), min(position() / size, 1.0)
                    row += batch.num_rows

    @contextmanager
    def _opened(
        self, types: Mapping[str, Any], include: Sequence[str] = ()
    ) -> Iterator[tuple[Any, Callable[[], int]]]:
        try:
            with opened(self._source) as (stream, position):
                yield (
                    pa_csv.open_csv(
                        stream,
                        read_options=pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
                        parse_options=pa_csv.ParseOptions(delimiter=self._delimiter),
                        convert_options=pa_csv.ConvertOptions(
                            column_types=types,
                            null_values=_MISSING,
                            strings_can_be_null=True,
                            include_columns=list(include),
                        ),
                    ),
                    position,
                )
        except (pa.ArrowException, OSError, ValueError) as error:
            found = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise InvalidData(
                f"{self._source.path}: expected a table of delimited text, found: {found}"
            ) from None

    def _refuse_broken_numbers(self, batch: Any) -> None:
        """Refuse a column of numbers that a few words have made a column of text."""
        for name, why in self.layout.left_out:
            if why != "text":
                continue
            # Bytes that are no UTF-8 make a column of binary.
            texts = batch[name] if pa.types.is_binary(batch[name].type) else batch[name].cast(pa.string())
            numbers = pc.match_substring_regex(texts, _NUMBER)
            share = pc.mean(numbers.cast(pa.float64())).as_py()
            if share is not None and share >= 0.5:
                row = pc.index(numbers, pa.scalar(value=False)).as_py()
                found = texts[row].as_py()
                shown = found.decode(errors="replace") if isinstance(found, bytes) else found
                raise InvalidData(
                    f"{self._source.path}: row {row + 1}, column {name!r}: expected a number, found {shown!r}; "
                    f"--ignore {name} leaves the column out"
                )


def _type(found: Any) -> Any:
    """Return as what a column is read whose first block looks like this."""
    # Whole numbers may be followed by others, and a column that begins without values by numbers.
    if pa.types.is_boolean(found) or not (is_number(found) or pa.types.is_null(found)):
        return found if pa.types.is_boolean(found) else pa.string()
    return pa.float64()
