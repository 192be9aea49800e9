"""Judged queries as a table: a row per document, a column per feature.

`Columns` says what the user wants, and `TableLayout` decides once per file what each column is. `rows` turns Arrow's batches
into arrays and names the row and the column of whatever is wrong. How a file is opened:
`localrank_training.data.table_text` (CSV, JSON lines) and `localrank_training.data.columnar` (Parquet, Arrow). Docs:
docs/use/data.md, "Tables".
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from localrank.errors import InvalidData
from localrank.features.feature import Feature, spelled
from localrank.settings import checked, plain, setting, settings_of
from localrank_training.data.queries import MAX_FEATURES, default_names, repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from localrank.arrays import Indices, Matrix, Vector

#: One column of lists may hold all features, instead of a column each.
FEATURES = "features"
#: Where the names stand when the features are one list column.
NAMES = b"localrank.feature_names"
#: Where the schema says that a column holds the weights of the queries, or the places of the documents.
WEIGHT, POSITION = b"localrank.weight", b"localrank.position"
#: Where it says that a column holds the place of each document in an earlier input, in whose order answers go back.
LINE = b"localrank.line"
#: Where the features that are not plain numbers are described, if the features are one list column.
SPECIAL = b"localrank.special_features"
#: Columns that hold the id of a document if nothing else is said; the first that is there counts.
IDS = ("comment", "document_id", "doc_id", "docid", "docno")
#: A float32 holds every whole number up to this one.
_MOST_CODES = 2**24
#: The largest possible place; no list of results is longer.
_LAST_PLACE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table hold, and what an absent feature of a text line is.

    The command line has an option for each setting.

    Attributes:
        judged: labels are wanted; otherwise a table may lack them, and all are 0.
        known: the features of the model that the data are for; see `of`.
        items: a row is an item without a query, whose id is in the column ``qid``.
        models_dir: the folder of models and tables; by default that of the command line.
    """

    label: str = setting("label", meaning="Column of the labels (tables).")
    qid: str = setting("qid", meaning="Column of the query ids (tables).")
    id: str | None = setting(
        None,
        meaning="Column of the document ids (tables; default: comment, document_id, doc_id, docid or docno).",
    )
    weight: str | None = setting(
        None,
        meaning="Column of the query weights: how much each query counts in training (tables).",
    )
    position: str | None = setting(
        None, meaning="Column of the place at which each document was shown, from 1 (tables)."
    )
    ignore: tuple[str, ...] = setting(
        (), meaning="Columns that are not features, separated by commas (tables)."
    )
    category: tuple[str, ...] = setting(
        (),
        meaning="Features whose numbers are categories, not amounts, separated by commas. Columns of text and truth "
        "values always are.",
    )
    query_feature: tuple[str, ...] = setting(
        (),
        meaning="Features of the query, which all its documents share, separated by commas.",
    )
    date: tuple[str, ...] = setting(
        (),
        meaning="Columns of dates that become numbers, days since 1970, separated by commas (tables; other dates are "
        "left out).",
    )
    table: str | None = setting(
        None,
        meaning="Published table, NAME or NAME@GENERATION, whose features are joined to the documents by their ids. Models that "
        "are trained so look them up when they serve. May be repeated; with commas between in TOML.",
    )
    sparse: bool = setting(False, meaning="A feature that a line of text leaves out is always zero.")
    judged: bool = True
    known: tuple[Feature, ...] = ()
    items: bool = False
    models_dir: str | None = None

    def of(self, features: Sequence[Feature]) -> Columns:
        """Return them for data of a model with these features, whose kinds do not depend on the data then."""
        return replace(self, known=tuple(features))

    def to_json(self) -> dict[str, Any]:
        """Return what was chosen, by the names of the settings; empty if all columns have their usual names."""
        chosen = {one.name: getattr(self, one.name) for one in settings_of(type(self)) if one.meaning}
        return {name: plain(value) for name, value in chosen.items() if value != getattr(AS_NAMED, name)}

    def over(self, remembered: Mapping[str, Any], where: str, typed: Collection[str] = ()) -> Columns:
        """Return what was chosen here, and otherwise what was chosen before, as `to_json` wrote it or ``[data]`` says.

        Args:
            remembered: what was chosen before.
            where: it stands.
            typed: settings that were chosen here, even if they say what is usual.

        Raises:
            InvalidConfiguration: an unknown name or a wrong value.
        """
        before = checked(Columns, {**remembered}, where)
        chosen = {*self.to_json(), *typed}
        kept = {name: getattr(before, name) for name in remembered if name not in chosen}
        return replace(self, **kept)

    def options(self) -> str:
        """Return the options of the command line that say the same."""
        return "".join(
            f" --{name.replace('_', '-')}" + ("" if value is True else f" {shlex.quote(_written(value))}")
            for name, value in self.to_json().items()
        )

    @property
    def rows_are(self) -> str:
        """What a row is, in messages."""
        return "items" if self.items else "judged documents"

    @property
    def categories(self) -> frozenset[str]:
        """The features that are categories, whatever they look like."""
        return frozenset(self.category) | {one.name for one in self.known if one.kind == "category"}

    @property
    def texts(self) -> frozenset[str]:
        """The categories whose values are read as text, so that ``007`` is no number."""
        truths = {one.name for one in self.known if {*one.values} <= {"true", "false"}}
        return self.categories - truths

    @property
    def dates(self) -> frozenset[str]:
        """The features that are numbers, even if their columns hold dates."""
        return frozenset(self.date) | {one.name for one in self.known if one.kind == "number"}


def _written(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ",".join(value)


#: The usual names.
AS_NAMED = Columns()


class Sparse(NamedTuple):
    """Values of documents that leave zeros out.

    Attributes:
        counts: ``[n_docs]`` how many each has.
        columns: ``[n_values]`` from 0.
        values: ``[n_values]``.
    """

    counts: Indices
    columns: NDArray[np.int32]
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some documents in the order of the input: what every reader yields, checked.

    Attributes:
        labels: ``[n_docs]``.
        queries: ``[n_docs]`` position in ``query_ids``.
        query_ids: in the order of their first appearance here.
        numbers: ``[n_docs]`` line or row of each document in its file.
        values: ``[n_docs, n_columns]``.
        comments: ``[n_docs]`` an Arrow string array; None without comments.
        weights: ``[n_docs]`` of each document's query; None if all queries count the same.
        positions: ``[n_docs]`` where each document was shown, 0 for nowhere; None if the file does not say.
    """

    labels: Vector
    queries: Indices
    query_ids: Sequence[str]
    numbers: Indices
    values: Matrix | Sparse
    comments: Any = None
    weights: Vector | None = None
    positions: Indices | None = None

    def __len__(self) -> int:
        return len(self.labels)


class Piece(NamedTuple):
    """Some documents to be written, ``query_ids`` ``[n_docs]``; the rest as in `Batch`."""

    labels: Vector
    query_ids: Sequence[str]
    documents: Matrix
    comments: Any
    weights: Vector | None
    positions: Indices | None


class Values:
    """The values of the categories of one input, in the order in which they were met."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the categories."""
        return iter(self._codes)

    def of(self, name: str) -> tuple[str, ...]:
        """Return the values of a category; each stands at its code."""
        return tuple(self._codes.get(name, ()))

    def codes(self, name: str, texts: Iterable[str | None]) -> Vector:
        """Return the code of each text, NaN for none; texts that are new get the next ones."""
        known = self._codes.setdefault(name, {})
        return np.array(
            [
                np.nan if text is None else min(known.setdefault(text, len(known)), _MOST_CODES)
                for text in texts
            ],
            np.float64,
        )

    def codes_of(self, name: str, column: Any) -> Vector:
        """Return ``[n_docs]`` the codes of a column.

        Raises:
            TypeError: a value is no text, number or truth value.
        """
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        encoded = column.dictionary_encode()
        codes = np.append(self.codes(name, map(spelled, encoded.dictionary.to_pylist())), np.nan)
        found: Vector = codes[pc.fill_null(encoded.indices, len(codes) - 1).to_numpy()]
        return found


class TableLayout:
    """What each column of one file is.

    Attributes:
        path: of the file, or what a table in memory is called in messages.
        names: of the features, in the order of the file.
        named: False if the file has a list of values and ``names`` only counts them.
        label: the column, or None if there need be none.
        qid: the column.
        items: whether it holds ids of items instead of queries.
        id: the column of the document ids, or None.
        weight, position: columns, or None.
        listed: whether the features are one column of lists.
        special: by name the features that the file itself says are categories.
        categories, dates: those features whose columns hold categories, or dates that become numbers.
        left_out: columns that are not used, each with its reason.
        doubtful: features that are called like ids.
    """

    def __init__(
        self,
        path: Path | str,
        schema: Any,
        columns: Columns,
        list_width: int | None = None,
        *,
        in_python: bool = False,
    ) -> None:
        """Decide what each column is; ``list_width`` is the length of the lists if the schema does not say it.

        With ``in_python``, advice names the fields of `Columns` instead of options.
        """
        self.path = path
        self.label = columns.label if columns.judged else None
        self.qid = columns.qid
        self.items = columns.items
        self.weight = _chosen(columns.weight, schema, WEIGHT)
        self.position = _chosen(columns.position, schema, POSITION)
        check_names(
            path,
            schema.names,
            replace(columns, weight=self.weight, position=self.position),
            in_python=in_python,
        )
        self._refuse_bad_choices(schema, columns)
        self.id = columns.id or next(
            (
                name
                for name in IDS
                if name in schema.names and name not in columns.ignore and _is_id(schema.field(name).type)
            ),
            None,
        )
        self.listed = (
            FEATURES in schema.names
            and FEATURES not in columns.ignore
            and _is_list(schema.field(FEATURES).type)
        )
        line = _chosen(None, schema, LINE)
        used = {self.label, self.qid, self.id, self.weight, self.position, line}
        self.left_out: list[tuple[str, str]] = []
        self.doubtful: list[str] = []
        self.categories: list[str] = []
        self.dates: list[str] = []
        features = []
        for field in schema:
            if field.name in used or (self.listed and field.name == FEATURES):
                continue
            if field.name in columns.ignore:
                self.left_out.append((field.name, "ignored"))
            elif field.name == columns.label and not columns.items:
                self.left_out.append((field.name, "labels, which are not needed"))
            elif not field.name.strip():
                self.left_out.append((field.name, "without a name"))
            elif self.listed:
                self.left_out.append((field.name, f"beside the list {FEATURES!r}"))
            elif field.name in IDS:
                self.left_out.append((field.name, "a document id"))
            elif (
                field.name in columns.categories and (is_category(field.type) or is_number(field.type))
            ) or (is_category(field.type) and not _called_like_an_id(field)):
                features.append(field.name)
                self.categories.append(field.name)
            elif pa.types.is_temporal(field.type) and field.name in columns.dates:
                features.append(field.name)
                self.dates.append(field.name)
            elif pa.types.is_temporal(field.type):
                self.left_out.append((field.name, f"dates, of which --date {field.name} makes numbers"))
            elif not is_number(field.type):
                self.left_out.append((field.name, _kind(field.type)))
            else:
                features.append(field.name)
                if _called_like_an_id(field):
                    self.doubtful.append(field.name)
        self.special = self._described(schema) if self.listed else {}
        self.categories += self.special
        self.named = not self.listed or NAMES in (schema.metadata or {})
        self.names = self._list_names(schema, list_width) if self.listed else tuple(features)
        if not self.names:
            raise InvalidData(
                f"{path}: expected columns of numbers or categories as features"
                f"{f' beside the ids {self.qid!r}' if self.items else ''}, found {_listed(schema.names)}"
            )
        if len(self.names) > MAX_FEATURES:
            raise InvalidData(f"{path}: expected at most {MAX_FEATURES} features, found {len(self.names)}")

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        chosen = (self.label, self.qid, self.id, self.weight, self.position)
        kept = [column for column in chosen if column is not None]
        return kept + ([FEATURES] if self.listed else list(self.names))

    def describe(self) -> str:
        """One sentence: what was taken and what was left out."""
        parts = [f"item id {self.qid!r}" if self.items else f"query {self.qid!r}"]
        if self.label is not None:
            parts.insert(0, f"label {self.label!r}")
        if self.id is not None and not self.items:
            parts.append(f"document id {self.id!r}")
        if self.weight is not None:
            parts.append(f"query weight {self.weight!r}")
        if self.position is not None:
            parts.append(f"position {self.position!r}")
        count = f"{len(self.names)} feature" + "s" * (len(self.names) != 1)
        parts.append(f"{count} ({_listed(self.names)})")
        if self.categories:
            count = (
                "1 is a category" if len(self.categories) == 1 else f"{len(self.categories)} are categories"
            )
            parts.append(f"of which {count} ({_listed(self.categories)})")
        if self.dates:
            parts.append(f"dates as days since 1970 ({_listed(self.dates)})")
        text = ", ".join(parts)
        if self.left_out:
            text += "; left out: " + ", ".join(f"{name!r} ({why})" for name, why in self.left_out)
        if self.doubtful:
            shown = ", ".join(map(repr, self.doubtful[:6]))
            text += (
                f"; used as features, though named like ids: {shown} (--ignore {','.join(self.doubtful[:6])} "
                "if they are)"
            )
        return text

    def wrong(self, row: int, column: str, expected: str, found: str) -> InvalidData:
        """Return the error for one cell; rows count from 1, without the header."""
        return InvalidData(f"{self.path}: row {row}, column {column!r}: expected {expected}, found {found}")

    def _refuse_bad_choices(self, schema: Any, columns: Columns) -> None:
        options = _options(replace(columns, weight=self.weight, position=self.position))
        chosen = [column for column in options.values() if column is not None]
        if len(set(chosen)) < len(chosen):
            raise InvalidData(f"expected a different column for each of {', '.join(options)}, found {chosen}")
        for ignored in columns.ignore:
            if ignored in chosen:
                raise InvalidData(f"expected to use or to ignore the column {ignored!r}, found both")
            if ignored not in schema.names:
                raise InvalidData(
                    f"{self.path}: expected a column {ignored!r} to ignore, found {_listed(schema.names)}"
                )
        numbers = {one.name for one in columns.known if one.kind == "number"}
        for field in schema:
            # For a model, a column of dates may be empty, so that it is read as numbers.
            found = pa.types.is_temporal(field.type) or (field.name in numbers and is_number(field.type))
            if field.name in columns.date and not found:
                raise InvalidData(
                    f"{self.path}: --date: expected dates as {field.name!r}, found {_kind(field.type)}"
                )
        for column in (self.label, self.weight, self.position):
            if column is not None and not is_number(schema.field(column).type):
                found = _kind(schema.field(column).type)
                raise InvalidData(f"{self.path}: expected numbers as {column!r}, found {found}")
        for column in filter(None, (columns.qid, columns.id)):
            if not _is_id(schema.field(column).type):
                found = _kind(schema.field(column).type)
                raise InvalidData(f"{self.path}: expected text or integers as {column!r}, found {found}")

    def _described(self, schema: Any) -> dict[str, Feature]:
        stored = (schema.metadata or {}).get(SPECIAL)
        if stored is None:
            return {}
        try:
            return {
                name: Feature(name, kind="category", values=tuple(map(str, values)))
                for name, values in json.loads(stored).items()
            }
        except (AttributeError, TypeError, ValueError):
            raise InvalidData(
                f"{self.path}: expected the values of categories in its metadata, found {stored[:40]!r}"
            ) from None

    def _list_names(self, schema: Any, width: int | None) -> tuple[str, ...]:
        stored = (schema.metadata or {}).get(NAMES)
        if stored is not None:
            try:
                names = json.loads(stored)
            except ValueError:
                names = None
            strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
            if strings and len(set(names)) == len(names):
                return tuple(names)
            raise InvalidData(
                f"{self.path}: expected a list of different names in its metadata, found {stored[:40]!r}"
            )
        kind = schema.field(FEATURES).type
        return default_names(kind.list_size if pa.types.is_fixed_size_list(kind) else (width or 0))


def check_names(path: Path | str, names: Sequence[str], columns: Columns, *, in_python: bool = False) -> None:
    """Refuse a header that lacks columns, and say which ones may be meant.

    Raises:
        InvalidData: a column is not there, or a name occurs twice.
    """
    if (twice := repeated(names)) is not None:
        raise InvalidData(f"{path}: expected every column once, found {twice!r} again")
    absent = {
        option: column for option, column in _options(columns).items() if column and column not in names
    }
    if not absent:
        return
    found = {option: _usual(option, column, names) for option, column in absent.items()}
    meant = {option: usual for option, usual in found.items() if usual is not None}
    advice = []
    if meant:
        are = "is it" if len(meant) == 1 else "are they"
        question = f"{are} {' and '.join(map(repr, meant.values()))}? "
        if in_python:
            fields = ", ".join(f"{option.removeprefix('--')}={usual!r}" for option, usual in meant.items())
            advice.append(f"{question}columns=Columns({fields})")
        else:
            advice.append(
                question + " ".join(f"{option} {shlex.quote(usual)}" for option, usual in meant.items())
            )
    for option in absent:
        if option not in meant:
            told = f"columns=Columns({option.removeprefix('--')}=…)" if in_python else option
            none = ", --id '' none" if option == "--id" and not in_python else ""
            advice.append(f"{told} chooses another one{none}")
    expected = f"a column {next(iter(absent.values()))!r}"
    if len(absent) > 1:
        expected = f"columns {', '.join(map(repr, absent.values()))}"
    raise InvalidData(f"{path}: expected {expected}, found {_listed(names)}; {'; '.join(advice)}")


def _options(columns: Columns) -> dict[str, str | None]:
    """Return the wanted columns by the options that choose them."""
    return {
        "--label": columns.label if columns.judged else None,
        **({"--id": columns.qid} if columns.items else {"--qid": columns.qid, "--id": columns.id}),
        "--weight": columns.weight,
        "--position": columns.position,
    }


def rows(batch: Any, row: int, layout: TableLayout, names: Sequence[str], values: Values) -> Batch:
    """Turn some rows of Arrow into arrays.

    Args:
        batch: with the columns of ``layout``.
        row: the number of its first row.
        layout: of its file.
        names: the features, in the order wanted; none leaves the values out.
        values: of the categories of the whole input; it learns new ones.
    """
    for column in (layout.label, layout.qid, layout.weight):
        if column is not None and batch[column].null_count:
            first = int(np.flatnonzero(batch[column].is_null().to_numpy(zero_copy_only=False))[0])
            raise layout.wrong(row + first, column, "a value", "nothing")
    labels = (
        np.zeros(batch.num_rows)
        if layout.label is None
        else _at_least_zero(batch, row, layout, layout.label, "a finite label of at least 0")
    )
    queries, query_ids = _encoded(batch[layout.qid])
    return Batch(
        labels=labels,
        queries=queries,
        query_ids=query_ids,
        numbers=np.arange(row, row + batch.num_rows),
        values=_matrix(batch, row, layout, names, values),
        comments=None if layout.id is None else _comments(batch[layout.id]),
        weights=None
        if layout.weight is None
        else _at_least_zero(batch, row, layout, layout.weight, "a finite weight of at least 0"),
        positions=_positions(batch, row, layout),
    )


def list_width(table: Any) -> int | None:
    """Return how many values the first list of features has; None without such a column."""
    position = table.schema.get_field_index(FEATURES)
    first = table.column(position)[0].as_py() if position >= 0 else None
    return len(first) if isinstance(first, list) else None


def weights_of(
    queries: Indices, weights: Vector, query_ids: Sequence[str], at: Callable[[int], str]
) -> Vector:
    """Return ``[n_queries]`` the weight of each query, which a column repeats on each of its documents.

    Args:
        queries: ``[n_docs]`` positions in ``query_ids``.
        weights: ``[n_docs]``.
        query_ids: of all queries.
        at: says where one of these documents stands.

    Raises:
        InvalidData: two documents of a query say different things.
    """
    found = np.full(len(query_ids), np.nan)
    numbers, first = np.unique(queries, return_index=True)
    found[numbers] = weights[first]
    wrong = np.flatnonzero(weights != found[queries])
    if len(wrong):
        row = int(wrong[0])
        query = int(queries[row])
        raise InvalidData(
            f"{at(row)}: expected one weight for all documents of query {query_ids[query]!r}, found "
            f"{weights[row]:g} after {found[query]:g}"
        )
    return found


def _encoded(column: Any) -> tuple[Indices, Sequence[str]]:
    """Return which query each row has, and the queries in the order of their first appearance."""
    if pa.types.is_dictionary(column.type):
        codes, ids = column.indices.to_numpy(), column.dictionary.cast(pa.string()).to_pylist()
        steps = np.diff(codes, prepend=-1)
        if bool(((steps == 0) | (steps == 1)).all()) and len(ids) == len(set(ids)) == codes[-1] + 1:
            return codes.astype(np.int64), ids
    encoded = column.cast(pa.string()).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _comments(column: Any) -> Any:
    """Return comments as strings; None if all are empty."""
    if not pa.types.is_large_string(column.type):
        column = column.cast(pa.string())
    if column.null_count:
        column = pc.fill_null(column, "")
    column.validate(full=True)  # not every damage shows before the text is decoded
    return column if pc.any(pc.not_equal(column, "")).as_py() else None


def _at_least_zero(batch: Any, row: int, layout: TableLayout, column: str, expected: str) -> Vector:
    values: Vector = batch[column].cast(pa.float64(), safe=False).to_numpy()
    bad = ~(np.isfinite(values) & (values >= 0))
    if bool(bad.any()):
        first = int(np.flatnonzero(bad)[0])
        raise layout.wrong(row + first, column, expected, f"{values[first]:g}")
    return values


def _positions(batch: Any, row: int, layout: TableLayout) -> Indices | None:
    """Return ``[n_docs]`` places from 1; 0 for a document without one."""
    if layout.position is None:
        return None
    values = _floats(batch[layout.position])
    places = np.where(np.isnan(values), 0.0, values)
    bad = ~np.isnan(values) & ~((places >= 1) & (places <= _LAST_PLACE) & (places == np.floor(places)))
    if bool(bad.any()):
        first = int(np.flatnonzero(bad)[0])
        expected = "a place counted from 1, or nothing"
        raise layout.wrong(row + first, layout.position, expected, f"{values[first]:g}")
    return places.astype(np.int64)


def _matrix(batch: Any, row: int, layout: TableLayout, names: Sequence[str], values: Values) -> Matrix:
    matrix = np.empty((batch.num_rows, len(names)), np.float32)
    if not names:
        return matrix
    with np.errstate(over="ignore"):
        if layout.listed:
            order = [layout.names.index(name) for name in names]
            matrix[:] = _list_values(batch[FEATURES], row, layout)[:, order]
            for name, one in layout.special.items():
                column = names.index(name)
                codes = np.append(values.codes(name, one.values), [_MOST_CODES, np.nan])
                own = np.nan_to_num(matrix[:, column], nan=one.absent)
                matrix[:, column] = codes[np.clip(own, 0, one.absent).astype(np.intp)]
        else:
            for column, name in enumerate(names):
                if name in layout.categories:
                    matrix[:, column] = values.codes_of(name, batch[name])
                else:
                    matrix[:, column] = _days(batch[name]) if name in layout.dates else _floats(batch[name])
    infinite = np.isinf(matrix)
    if bool(infinite.any()):
        at, column = (int(i) for i in np.argwhere(infinite)[0])
        cell = (
            batch[FEATURES][at].as_py()[layout.names.index(names[column])]
            if layout.listed
            else batch[names[column]][at].as_py()
        )
        expected = (
            "a value within the range of float32 (at most 3.4028235e38)"
            if np.isfinite(float(cell))
            else "a finite value"
        )
        raise layout.wrong(row + at, names[column], expected, str(cell))
    return matrix


def _list_values(column: Any, row: int, layout: TableLayout) -> Vector:
    if column.null_count:
        first = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise layout.wrong(row + first, FEATURES, "a list of values", "nothing")
    lengths = pc.list_value_length(column).to_numpy()
    wrong = np.flatnonzero(lengths != len(layout.names))
    if len(wrong):
        first = int(wrong[0])
        raise layout.wrong(row + first, FEATURES, f"{len(layout.names)} values", str(lengths[first]))
    return _floats(column.flatten()).reshape(len(column), len(layout.names))


def _floats(column: Any) -> Vector:
    """Return a column of numbers as doubles, or as float32 if it is; null becomes NaN."""
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        column = pc.fill_null(column, float("nan"))
    floats: Vector = column.to_numpy()
    return floats


def _days(column: Any) -> Vector:
    """Return a column of dates as days since 1970; null becomes NaN."""
    days: Vector = _floats(column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())) / 86_400
    return days


def _chosen(column: str | None, schema: Any, key: bytes) -> str | None:
    """Return the column that the user chose, else the one that the file names."""
    stored = (schema.metadata or {}).get(key)
    return column if column is not None or stored is None else stored.decode(errors="replace")


def is_number(kind: Any) -> bool:
    """Whether values of this Arrow type can be a feature."""
    types = pa.types
    return any(
        is_kind(kind) for is_kind in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    )


def is_category(kind: Any) -> bool:
    """Whether values of this Arrow type are categories, not amounts."""
    if pa.types.is_dictionary(kind):
        return is_category(kind.value_type) or is_number(kind.value_type)
    return pa.types.is_boolean(kind) or _is_text(kind)


#: What labels and queries are often called, for suggestions.
_USUAL = {
    "--label": ("label", "relevance", "rel", "grade", "target", "judgement", "judgment", "rating", "y"),
    "--qid": ("qid", "query_id", "queryid", "query", "search_id", "session_id", "group", "group_id"),
}
#: The last word of a name: ``product_id``, ``docId``, ``Unnamed: 0`` (the index that pandas writes).
_LIKE_AN_ID = re.compile(r"(?i:(^|[_\-. ])(id|ids|key|uuid|index|url|uri)$|^Unnamed: \d+$)|[a-z]I[dD]$")


def _usual(option: str, column: str, names: Sequence[str]) -> str | None:
    """Return the column whose name differs only in case, else one with a usual name for this option."""
    lower = {name.lower(): name for name in names}
    return next((lower[usual] for usual in (column.lower(), *_USUAL.get(option, ())) if usual in lower), None)


def _called_like_an_id(field: Any) -> bool:
    return not pa.types.is_boolean(field.type) and _LIKE_AN_ID.search(field.name) is not None


def _is_id(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(_is_text(kind) or pa.types.is_integer(kind))


def _is_list(kind: Any) -> bool:
    types = pa.types
    return any(
        is_kind(kind) for is_kind in (types.is_fixed_size_list, types.is_list, types.is_large_list)
    ) and is_number(kind.value_type)


def _kind(kind: Any) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return "text" if _is_text(kind) else str(kind)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:6])
    return (shown + (", …" if len(names) > 6 else "")) or "no columns"
