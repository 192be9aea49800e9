"""Judged queries in tables of text. Docs: docs/use/data.md, "CSV" and "JSON lines".

CSV is delimited by commas, tabs, semicolons or bars, and has a header. JSON lines have an object on each line.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from localrank.errors import InvalidData
from localrank.letor import decimal
from localrank_training.data.sources import blocks, first_line, opened
from localrank_training.data.tables import IDS, TableLayout, check_names, is_number, list_width, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from localrank_training.data.sources import Source
    from localrank_training.data.tables import Batch, Columns, Values

_DELIMITERS = (b"\t", b",", b";", b"|")
#: What stands for a missing value. Among categories only the empty text does, because ``NA`` is Namibia.
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"]
#: For Arrow, whose regular expressions take linear time.
_NUMBER = r"^\s*\"?[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\"?\s*$"
#: Decimal commas, or commas between thousands.
_WITH_COMMAS = r"^\s*[+-]?(\d+,\d+|\d{1,3}(,\d{3})+(\.\d+)?)\s*$"
#: What a number in a header may have around it.
_AROUND = b' \t\r\n\v\f"'
_BLOCK = 1 << 22
#: How Arrow says which cell or row is wrong. It counts the header as a row.
_CELL = re.compile(
    r"In CSV column #(\d+): Row #(\d+): CSV conversion error to (\w+): (?:invalid value '(.*)')?"
)
_ROW = re.compile(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)")
#: How Arrow says which value or object is wrong. It counts rows from 0.
_VALUE = re.compile(
    r"JSON parse error: Column\(/?([^/)]*)(?:/[^)]*)?\) changed from (\w+) to (\w+) in row (\d+)"
)
_OBJECT = re.compile(r"JSON parse error: (.*?)\.? in row (\d+)")


def delimiter_of(line: bytes, name: str) -> str | None:
    """Return the delimiter of a file that begins with this line; None if the file is LETOR text.

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
    if all(_is_number(cell) or not cell.strip() for cell in cells):
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
        self._parsing = pa_csv.ParseOptions(delimiter=delimiter)
        #: Columns in which commas or words are no mistake.
        self._known = {columns.qid, columns.id, *IDS, *columns.ignore, *columns.texts}
        #: Columns that hold numbers only, and cannot be left out.
        self._wanted = {columns.weight, columns.position}
        if not columns.items:
            (self._wanted if columns.judged else self._known).add(columns.label)
        self._header = first_line(source, comments=True)
        self._refuse_bytes_as_header()
        texts = {
            name: pa.string() for name in (columns.qid, columns.id, *IDS, *columns.texts) if name is not None
        }
        with self._opened(texts) as (table, _):
            schema = pa.schema([pa.field(field.name, _type(field.type)) for field in table.schema])
            first = next(iter(table), None)
        if first is not None:
            first = _without_missing(first, columns.categories)
        self._refuse_data_as_header(schema.names, columns)
        if first is None or not first.num_rows:
            raise InvalidData(f"{source.path}: expected {columns.rows_are}, found only a header")
        check_names(source.path, schema.names, columns)
        self._refuse_header_again(first)
        self._refuse_broken_numbers(first)
        self.layout = TableLayout(source.path, schema, columns)
        self._types = dict(zip(schema.names, schema.types, strict=True))

    def batches(self, names: Sequence[str], values: Values) -> Iterator[tuple[Batch, float]]:
        """Yield the rows, features in the order of ``names``, and which share of the file is read with them."""
        row = 1
        size = max(self._source.size, 1)
        with self._opened(self._types, self.layout.columns) as (table, position):
            for batch in table:
                if batch.num_rows:
                    batch = _without_missing(batch, self.layout.categories)  # noqa: PLW2901
                    yield rows(batch, row, self.layout, names, values), min(position() / size, 1.0)
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
                        parse_options=self._parsing,
                        convert_options=pa_csv.ConvertOptions(
                            column_types=types,
                            null_values=_MISSING,
                            include_columns=list(include),
                        ),
                    ),
                    position,
                )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._explained(str(error) or type(error).__name__) from None

    def _explained(self, error: str) -> InvalidData:
        """Return Arrow's error in our words, with row and column if there are any."""
        if cell := _CELL.match(error):
            column, row, kind, found = int(cell[1]), int(cell[2]) - 2, cell[3], cell[4]
            if kind == "string":
                expected = (
                    f"row {row + 1}, column {self._name(column)!r}: expected UTF-8 text, found other bytes"
                )
                return InvalidData(f"{self._source.path}: {expected}")
            return self._no_number(self._name(column), row, found)
        if width := _ROW.match(error):
            expected = f"row {int(width[1]) - 1}: expected {width[2]} columns, found {width[3]}"
            return InvalidData(f"{self._source.path}: {expected}")
        if "straddl" in error:
            return InvalidData(f"{self._source.path}: expected at most {_BLOCK} bytes in a row, found more")
        found = error.splitlines()[0][:200]
        return InvalidData(f"{self._source.path}: expected a table of delimited text, found: {found}")

    def _name(self, column: int) -> str:
        """Return the name of a column by its position, or its number if the first line does not name it."""
        # A name of several lines is not in the first line.
        with suppress(csv.Error, IndexError):
            return next(csv.reader([self._header.decode()], delimiter=self._parsing.delimiter))[column]
        return str(column + 1)

    def _refuse_bytes_as_header(self) -> None:
        """Refuse names that are not UTF-8."""
        try:
            self._header.decode()
        except UnicodeDecodeError as error:
            found = f"the byte 0x{self._header[error.start]:02x} in the first line"
            raise InvalidData(
                f"{self._source.path}: expected names of columns in UTF-8, found {found}"
            ) from None

    def _refuse_data_as_header(self, names: Sequence[str], columns: Columns) -> None:
        """Refuse a first line that is a document."""
        numbers = [name for name in names if _is_number(name.encode())]
        if numbers and columns.qid not in names and columns.label not in names:
            raise InvalidData(
                f"{self._source.path}: expected a header line with the names of the columns, found {numbers[0]!r} in "
                "the first line"
            )

    def _refuse_header_again(self, batch: Any) -> None:
        """Refuse a first row that holds the names of the columns."""
        if all(
            column[0].as_py() == name for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ):
            raise InvalidData(f"{self._source.path}: row 1 repeats the header")

    def _refuse_broken_numbers(self, batch: Any) -> None:
        """Refuse a column of numbers that is read as text because of a few words or commas."""
        for name in batch.schema.names:
            if name in self._known or not _is_text(batch[name].type):
                continue
            # Bytes that are no UTF-8 make a column of binary.
            texts = batch[name] if pa.types.is_binary(batch[name].type) else batch[name].cast(pa.string())
            commas = pc.match_substring_regex(texts, _WITH_COMMAS)
            if _share(commas) >= 0.5:
                row = pc.index(commas, pa.scalar(value=True)).as_py()
                raise self._no_number(
                    name, row, texts[row].as_py(), " with a decimal point and without commas"
                )
            numbers = pc.match_substring_regex(texts, _NUMBER)
            # Other columns are left out if they hold only words.
            if name in self._wanted or _share(numbers) >= 0.5:
                row = pc.index(numbers, pa.scalar(value=False)).as_py()
                if row >= 0:
                    raise self._no_number(name, row, texts[row].as_py())

    def _no_number(self, name: str, row: int, found: object, like: str = "") -> InvalidData:
        """Return the error for a cell that should be a number."""
        shown = found.decode(errors="replace") if isinstance(found, bytes) else found
        if shown == name:
            return InvalidData(f"{self._source.path}: row {row + 1} repeats the header")
        advice = "" if name in self._wanted else f"; --ignore {shlex.quote(name)} leaves the column out"
        return InvalidData(
            f"{self._source.path}: row {row + 1}, column {name!r}: expected a number{like}, found {shown!r}{advice}"
        )


class JsonReader:
    """One file of JSON lines; the columns are those of its first block.

    Attributes:
        layout: what each column is.
    """

    def __init__(self, source: Source, columns: Columns) -> None:
        self._source = source
        #: The type that each column is read with, until the first block has shown the others.
        self._ids = {columns.qid, columns.id, *IDS, *columns.texts}
        self._types = self._texts()
        first = next(self._tables(lambda _: None), None)
        if first is None:
            raise InvalidData(f"{source.path}: expected {columns.rows_are}, found no objects")
        self.layout = TableLayout(source.path, first.schema, columns, list_width(first))
        # A column that is left out may hold what it likes.
        used = {*self.layout.columns}
        self._types = {
            field.name: pa.string()
            if pa.types.is_temporal(field.type) and field.name not in used
            else field.type
            for field in first.schema
            if not pa.types.is_struct(field.type)
        }

    def batches(self, names: Sequence[str], values: Values) -> Iterator[tuple[Batch, float]]:
        """Yield the rows, features in the order of ``names``, and which share of the file is read with them."""
        row, done = 1, [0]

        def advance(position: int) -> None:
            done[0] = position

        for table in self._tables(advance):
            self._refuse_further(table, row)
            for batch in table.select(self.layout.columns).combine_chunks().to_batches():
                yield rows(batch, row, self.layout, names, values), done[0] / max(self._source.size, 1)
                row += batch.num_rows

    def _texts(self) -> dict[str, Any]:
        """Return the types of ids that are text: Arrow would take some for dates."""
        try:
            first = json.loads(first_line(self._source))
        except ValueError:
            return {}  # Arrow says what is wrong
        return {name: pa.string() for name in self._ids if name and isinstance(first.get(name), str)}

    def _type(self, name: str, found: Any) -> Any:
        """Return the type with which a column is read, from that of its first block."""
        kinds = pa.types
        if kinds.is_list(found) and (is_number(found.value_type) or kinds.is_null(found.value_type)):
            return pa.list_(pa.float64())
        if kinds.is_timestamp(found) and name in self._ids:
            return pa.string()
        if kinds.is_null(found) or (kinds.is_integer(found) and name not in self._ids):
            return pa.float64()
        return found

    def _tables(self, advance: Callable[[int], None]) -> Iterator[Any]:
        """Yield the file in blocks of whole lines, numbers as doubles and whole numbers of ids as they are."""
        row = 0
        for block in blocks(self._source, advance):
            if not block.strip():
                continue
            try:
                block.decode()
            except UnicodeDecodeError as error:
                at = row + block[: error.start].count(b"\n") + 1
                found = f"the byte 0x{block[error.start]:02x}"
                raise InvalidData(
                    f"{self._source.path}: row {at}: expected UTF-8 text, found {found}"
                ) from None
            schema = pa.schema([pa.field(name, kind) for name, kind in self._types.items()])
            try:
                table = pa_json.read_json(
                    pa.BufferReader(block),
                    read_options=pa_json.ReadOptions(use_threads=False, block_size=len(block)),
                    parse_options=pa_json.ParseOptions(explicit_schema=schema),
                )
            except (pa.ArrowException, ValueError) as error:
                raise self._explained(str(error), row) from None
            row += table.num_rows
            kinds = [
                self._types.get(field.name) or self._type(field.name, field.type) for field in table.schema
            ]
            yield table.cast(pa.schema(map(pa.field, table.schema.names, kinds)), safe=False)

    def _refuse_further(self, table: Any, row: int) -> None:
        """Refuse numbers under a name that the first block does not have."""
        for name in table.schema.names:
            if name not in self._types and is_number(table.schema.field(name).type):
                at = row + int(pc.index(table[name].is_valid(), pa.scalar(value=True)).as_py())
                raise InvalidData(
                    f"{self._source.path}: row {at}, column {name!r}: expected the columns of the first rows, found "
                    "another one"
                )

    def _explained(self, error: str, row: int) -> InvalidData:
        """Return Arrow's error in our words, with row and column if there are any."""
        if value := _VALUE.match(error):
            name, was, now, at = value[1], value[2], value[3], row + int(value[4]) + 1
            if not name:
                return InvalidData(
                    f"{self._source.path}: row {at}: expected an object on each line, found {now}"
                )
            words = {"string": "text"}
            found = f"expected {words.get(was, was)}, as before, found {words.get(now, now)}"
            return InvalidData(f"{self._source.path}: row {at}, column {name!r}: {found}")
        if wrong := _OBJECT.match(error):
            at = row + int(wrong[2]) + 1
            return InvalidData(
                f"{self._source.path}: row {at}: expected an object on each line, found: {wrong[1]}"
            )
        return InvalidData(
            f"{self._source.path}: after row {row}: expected an object on each line, found: "
            f"{error.splitlines()[0][:200]}"
        )


def _is_number(cell: bytes) -> bool:
    return decimal(cell.strip(_AROUND)) is not None


def _share(flags: Any) -> float:
    """Return the share of the values that are there for which a flag is set."""
    return float(pc.mean(flags.cast(pa.float64())).as_py())


def _without_missing(batch: Any, categories: Collection[str]) -> Any:
    """Return rows with null for the words for a missing value, except in categories."""
    for at, field in enumerate(batch.schema):
        if _is_text(field.type) and field.name not in categories:
            absent = pc.is_in(batch[at], pa.array(_MISSING, field.type))
            batch = batch.set_column(at, field, pc.if_else(absent, None, batch[at]))
    return batch


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _type(found: Any) -> Any:
    """Return the type with which a column is read, from that of its first block."""
    if pa.types.is_boolean(found) or pa.types.is_temporal(found):
        return found
    # Whole numbers may be followed by others, and a column that begins without values by numbers.
    return pa.float64() if is_number(found) or pa.types.is_null(found) else pa.string()
