r"""Weighted judgements from a log of clicks that is a table: a row for each document that was shown.

Any log will do: CSV, JSON lines, Parquet or Arrow with a query, a place and a click in each row; or the events of UBI
(User Behavior Insights, ``ubi_events``), where a row is an impression or a click of one document. Rows without a place were
not shown and are left out, as are lists without a click.

What becomes of clicks is said in `localrank_training.data.clicks.joining`: without propensities each list is a query whose
clicked documents are relevant; with them each click is a query of its own and counts more the less its place is looked at.
All other columns stay as they are, so that they may become features.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pa_parquet

from localrank.errors import InvalidConfiguration, InvalidData
from localrank_training.data.clicks.joining import corrected
from localrank_training.data.clicks.propensities import Tally
from localrank_training.data.sources import first_line, locate, opened
from localrank_training.data.table_text import delimiter_of
from localrank_training.data.tables import POSITION, WEIGHT, is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from localrank.arrays import Bits, Indices
    from localrank_training.data.clicks.propensities import Propensities
    from localrank_training.data.sources import Source

#: Columns of what is written, which other columns of the log may not be called.
COLUMNS = ("label", "qid", "weight", "position")
#: What documents are called in what is written.
DOCUMENT = "doc_id"
#: Largest place.
_LAST_PLACE = 2**31 - 1
#: Actions of UBI.
_SHOWN, _CLICKED = "impression", "click"
_BLOCK = 1 << 24


@dataclass(frozen=True, slots=True)
class Names:
    """Columns of a log.

    Attributes:
        qid: what was searched for.
        position: the place of the document, from 1.
        clicked: whether it was clicked: 1 and 0, or true and false.
        id: of the document; None if there is none.
        list: of the list that was shown; None if the rows of one list stand together, with rising places.
    """

    qid: str
    position: str
    clicked: str
    id: str | None = None
    list: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ClickLog:
    """A log as arrays, a row for each document that was shown.

    Attributes:
        table: all other columns.
        queries: ``[n_rows]`` what was searched for.
        lists: ``[n_rows]`` number of the list.
        places: ``[n_rows]`` from 1.
        clicked: ``[n_rows]``.
        documents: ``[n_rows]`` ids; None if there are none.
        not_shown: rows without a place, which are left out.
    """

    table: Any
    queries: Sequence[str]
    lists: Indices
    places: Indices
    clicked: Bits
    documents: Sequence[str] | None
    not_shown: int

    def tally(self) -> Tally:
        """Count how often each document of each query was shown and clicked at each place.

        Raises:
            InvalidConfiguration: nobody knows which documents are the same.
        """
        if self.documents is None:
            raise InvalidConfiguration(
                "--propensities em compares documents that stood at several places: expected their ids as --id, found none"
            )
        found = Tally()
        rows = zip(self.queries, self.documents, self.places.tolist(), self.clicked.tolist(), strict=True)
        for query, document, place, clicked in rows:
            found.add((query, document), place, clicked=clicked)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class JudgedClicks:
    """What a log became.

    Attributes:
        table: a row per document: label, qid, weight if clicks were corrected, doc_id, position, and all other columns.
        lists: that were shown.
        clicks: in them.
        without_click: lists that are left out.
        queries: that were made.
        searched: what was searched for, of each row of the table.
    """

    table: Any
    lists: int
    clicks: int
    without_click: int
    queries: int
    searched: Sequence[str]


def read_log(paths: Sequence[str | Path], names: Names, say: Callable[[str], None]) -> ClickLog:
    """Read files of a log, events of UBI among them.

    Raises:
        InvalidData: names the file and what is wrong.
    """
    tables = [_read(source) for source in locate(paths)]
    try:
        table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    except pa.ArrowException as error:
        raise InvalidData(f"expected files with the same columns, found {error}") from None
    if "_source" in table.column_names and pa.types.is_struct(table["_source"].type):
        # As search engines write their documents.
        table = pa.Table.from_struct_array(table["_source"])
    where = str(paths[0]) if len(tables) == 1 else f"{len(tables)} files"
    if {"action_name", "event_attributes"} <= set(table.column_names):
        say(f"{where}: events of UBI")
        table, names = _of_ubi(table, where)
    return _log_of(table, names, where)


def judgements_of(log: ClickLog, propensities: Propensities | None, max_weight: float) -> JudgedClicks:
    """Return judged queries as a table; see `localrank_training.data.clicks.joining`.

    Raises:
        InvalidData: nothing was clicked.
    """
    order = np.lexsort((log.places, log.lists))
    starts = np.flatnonzero(np.diff(log.lists[order], prepend=-1))
    rows: list[int] = []
    labels: list[float] = []
    qids: list[str] = []
    weights: list[float] = []
    without = queries = 0
    for first, last in zip(starts.tolist(), [*starts.tolist()[1:], len(order)], strict=True):
        shown = order[first:last].tolist()
        clicked = {row for row in shown if log.clicked[row]}
        if not clicked:
            without += 1
            continue
        name = f"{log.queries[shown[0]]}#{log.lists[shown[0]] + 1}"
        made = (
            [(name, shown, clicked, 1.0)]
            if propensities is None
            else [
                (f"{name}:{place}", kept, {row}, weight)
                for row, place, kept, weight in corrected(
                    shown, clicked, log.places, propensities, max_weight
                )
            ]
        )
        for qid, kept, relevant, weight in made:
            queries += 1
            rows += kept
            labels += [float(row in relevant) for row in kept]
            qids += [qid] * len(kept)
            weights += [weight] * len(kept)
    if not rows:
        raise InvalidData(f"expected clicks, found none in {without} lists of {len(order)} documents")
    taken = np.array(rows)
    columns: dict[str, Any] = {"label": pa.array(labels), "qid": pa.array(qids)}
    if propensities is not None:
        columns["weight"] = pa.array(weights)
    if log.documents is not None:
        columns[DOCUMENT] = pa.array([log.documents[row] for row in rows])
    columns["position"] = pa.array(log.places[taken])
    others = log.table.take(pa.array(taken))
    columns |= {name: others[name] for name in others.column_names}
    marks = {POSITION: b"position"} | ({} if propensities is None else {WEIGHT: b"weight"})
    table = pa.table(columns).replace_schema_metadata(marks)
    searched = [log.queries[row] for row in rows]
    return JudgedClicks(table, len(starts), int(log.clicked.sum()), without, queries, searched)


def write_table(table: Any, path: Path) -> None:
    """Write judgements as Parquet or CSV, whole or not at all."""
    draft = path.with_name(f".{path.name}.part")
    try:
        (pa_csv.write_csv if path.suffix == ".csv" else pa_parquet.write_table)(table, draft)
        draft.replace(path)
    except (OSError, pa.ArrowException) as error:
        draft.unlink(missing_ok=True)
        raise InvalidData(f"{path}: cannot be written: {str(error).splitlines()[0]}") from None


def _read(source: Source) -> Any:
    """Return a file as an Arrow table."""
    try:
        if source.kind == "parquet":
            return pa_parquet.read_table(source.path)
        if source.kind == "arrow":
            return pa.ipc.open_file(source.path).read_all()
        line = first_line(source)
        with opened(source) as (stream, _):
            if line.lstrip().startswith(b"{"):
                return pa_json.read_json(stream, read_options=pa_json.ReadOptions(block_size=_BLOCK))
            delimiter = delimiter_of(line, str(source.path))
            if delimiter is None:
                raise InvalidData(
                    f"{source.path}: expected a log with named columns (CSV, JSON lines, Parquet, Arrow), found text"
                )
            return pa_csv.read_csv(
                stream,
                parse_options=pa_csv.ParseOptions(delimiter=delimiter),
                convert_options=pa_csv.ConvertOptions(strings_can_be_null=True),
            )
    except (pa.ArrowException, OSError) as error:
        raise InvalidData(f"{source.path}: cannot be read: {str(error).splitlines()[0]}") from None


def _log_of(table: Any, names: Names, where: str) -> ClickLog:
    wanted = {"--qid": names.qid, "--position": names.position, "--clicked": names.clicked}
    wanted |= {
        option: name for option, name in (("--id", names.id), ("--list", names.list)) if name is not None
    }
    for option, name in wanted.items():
        if name not in table.column_names:
            raise InvalidData(
                f"{where}: expected a column {name!r} ({option}), found {', '.join(map(repr, table.column_names[:12]))}"
            )
    if len(set(wanted.values())) < len(wanted):
        raise InvalidData(
            f"expected a different column for each of {', '.join(wanted)}, found {list(wanted.values())}"
        )
    places = _numbers(table, names.position, where)
    shown = ~np.isnan(places)
    bad = shown & ~((places >= 1) & (places <= _LAST_PLACE) & (places == np.floor(places)))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InvalidData(
            f"{where}: row {row + 1}, column {names.position!r}: expected a place counted from 1, or nothing, found {places[row]:g}"
        )
    clicked = _clicked(table, names.clicked, where)[shown]
    table, places = table.filter(pa.array(shown)), places[shown].astype(np.int64)
    if not len(places):
        raise InvalidData(f"{where}: expected documents with a place in {names.position!r}, found none")
    queries = _texts(table, names.qid, where)
    others = [name for name in table.column_names if name not in wanted.values()]
    taken = {*COLUMNS, DOCUMENT} & set(others)
    if taken:
        raise InvalidData(
            f"{where}: the column {min(taken)!r} has the name of a column that is written; rename it, or name it in an option"
        )
    return ClickLog(
        table.select(others),
        queries,
        _lists(queries, places, None if names.list is None else _texts(table, names.list, where)),
        places,
        clicked,
        None if names.id is None else _texts(table, names.id, where),
        int((~shown).sum()),
    )


def _lists(queries: Sequence[str], places: Indices, lists: Sequence[str] | None) -> Indices:
    """Return the number of each row's list: a new one begins with another query, or if the places do not rise."""
    if lists is not None:
        numbers: dict[tuple[str, str], int] = {}
        pairs = zip(queries, lists, strict=True)
        return np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs])
    codes = np.asarray(pc.dictionary_encode(pa.array(queries)).indices)
    begins = np.ones(len(places), np.int64)
    begins[1:] = (np.diff(codes) != 0) | (np.diff(places) <= 0)
    return np.cumsum(begins) - 1


def _numbers(table: Any, name: str, where: str) -> Any:
    column = table[name]
    if not is_number(column.type) and not pa.types.is_null(column.type):
        raise InvalidData(f"{where}: column {name!r}: expected numbers, found {column.type}")
    return pc.fill_null(column.cast(pa.float64(), safe=False), float("nan")).to_numpy()


def _clicked(table: Any, name: str, where: str) -> Bits:
    values = _numbers(table, name, where)
    wrong = np.flatnonzero(values < 0)
    if len(wrong):
        raise InvalidData(
            f"{where}: row {wrong[0] + 1}, column {name!r}: expected 1 and 0, or a number of clicks, found {values[wrong[0]]:g}"
        )
    clicked: Bits = values > 0
    return clicked


def _texts(table: Any, name: str, where: str) -> Sequence[str]:
    column = table[name]
    if column.null_count:
        raise InvalidData(
            f"{where}: column {name!r}: expected a value in every row that has a place, found nothing"
        )
    texts: list[str] = column.cast(pa.string()).to_pylist()
    return texts


def _of_ubi(table: Any, where: str) -> tuple[Any, Names]:
    """Return the impressions of UBI's events as a log; a click counts for the impression of its object."""
    shown: dict[tuple[str, str], list[Any]] = {}
    clicks: set[tuple[str, str]] = set()
    others = 0
    wanted = [
        name
        for name in ("action_name", "query_id", "user_query", "event_attributes")
        if name in table.column_names
    ]
    for event in table.select(wanted).to_pylist():
        attributes = event["event_attributes"]
        if isinstance(attributes, str):
            attributes = json.loads(attributes)
        document = ((attributes or {}).get("object") or {}).get("object_id")
        if (
            event["action_name"] not in {_SHOWN, _CLICKED}
            or event.get("query_id") is None
            or document is None
        ):
            others += 1
            continue
        key = str(event["query_id"]), str(document)
        place = (attributes.get("position") or {}).get("ordinal")
        if event["action_name"] == _CLICKED:
            clicks.add(key)
        elif place is not None:
            shown.setdefault(key, [event.get("user_query") or key[0], place])
    if not shown:
        raise InvalidData(
            f"{where}: expected events with action_name 'impression', query_id, event_attributes.object.object_id and "
            f"event_attributes.position.ordinal, found {others} other events and {len(clicks)} clicks"
        )
    # Some clients count from 0.
    first = (
        1 - min(place for _, place in shown.values()) if any(not place for _, place in shown.values()) else 0
    )
    log = pa.table(
        {
            "query": [query for query, _ in shown.values()],
            "list": [key[0] for key in shown],
            "document": [key[1] for key in shown],
            "place": [place + first for _, place in shown.values()],
            "clicked": [key in clicks for key in shown],
        }
    )
    return log, Names("query", "place", "clicked", "document", "list")
