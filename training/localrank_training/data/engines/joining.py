"""Judgements and what a search engine answered become one table: a row for each judged document, with the features of its hit.

A line of responses is ``{"query": TEXT, "query_id": ID, "response": {…}}``: what was searched for, and the whole response. One of
``query`` and ``query_id`` is enough. ``query_features`` may hold features of the query. The features are read by
`localrank.responses`, as the service reads them. If there are several responses to a query, the last one counts.

A query is called what the judgements call it, with blanks, ``#`` and ``%`` as in a URL, because text and runs end names at a blank.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from localrank.errors import InvalidData, shown
from localrank.features.feature import spelled
from localrank.responses import HitReader, WrongHitError, engine_of, value_at
from localrank_training.data.clicks.table import DOCUMENT, write_table
from localrank_training.data.engines.lines import object_in, text_lines
from localrank_training.data.reading import read_table
from localrank_training.data.sources import locate
from localrank_training.data.tables import Columns
from localrank_training.data.writing import format_of, telling, whole_file, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from localrank.responses import Engine
    from localrank_training.data.engines.judgements import JudgedList, Ratings

#: Columns that features may not be called.
COLUMNS = ("label", "qid", "weight", DOCUMENT, "position")
#: Examples of what did not match.
_EXAMPLES = 3
_NOT_IN_NAMES = re.compile(r"[\s#%]")


class Reading(NamedTuple):
    """How features are read from hits; the members are those of `HitReader`.

    Attributes:
        id: the path of a document's id in a hit; None takes the engine's own.
    """

    fields: tuple[str, ...] = ()
    log: str | None = None
    score_feature: str | None = None
    sources: tuple[str, ...] | None = None
    id: str | None = None


@dataclass(slots=True)
class Left:
    """What did not match.

    Attributes:
        count: how many.
        examples: some of them.
    """

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(example)


class HitPage(NamedTuple):
    """A response: its hits in the engine's order, and the features that each holds.

    Attributes:
        hits: features by document id.
        of_query: features of the query.
        where: file and line.
    """

    hits: dict[str, dict[str, Any]]
    of_query: dict[str, Any]
    where: str


class QueryKey(NamedTuple):
    """How a query is named.

    Attributes:
        kind: ``query_id`` or ``query``, which is its text.
        name: the id, or the text.
    """

    kind: str
    name: str


@dataclass(slots=True)
class Responses:
    """Responses that were read.

    Attributes:
        pages: by id and by text of the query.
        names: of the query, by the same: the id, if there is one.
        count: that were read.
        repeated: to a query that has a later one.
        without_id: hits that have no id.
        bad: lines that could not be read, and why.
        kinds: of the keys.
    """

    pages: dict[QueryKey, HitPage] = field(default_factory=dict)
    names: dict[QueryKey, QueryKey] = field(default_factory=dict)
    count: int = 0
    repeated: int = 0
    without_id: int = 0
    bad: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)

    def key_of(self, judged: JudgedList) -> QueryKey | None:
        """Return how the responses name a judged query, None if they do not.

        An id is compared with ids and a text with texts. If no response has ids, or none has texts, the other is compared.
        """
        kind, other = ("query_id", "query") if judged.by_id else ("query", "query_id")
        keys = [QueryKey(kind, judged.query)]
        if judged.text is not None:
            keys.append(QueryKey("query", judged.text))
        if kind not in self.kinds:
            keys.append(QueryKey(other, judged.query))
        return next((key for key in keys if key in self.pages), None)


def read_responses(paths: Sequence[str | Path], reading: Reading, *, skip: bool = False) -> Responses:
    """Read JSON lines of responses.

    Args:
        paths: files, or folders of them.
        reading: how.
        skip: leave lines out that cannot be read, and keep what is wrong with them.

    Raises:
        InvalidData: names the file and line.
    """
    found = Responses()
    readers: dict[Engine, HitReader] = {}
    for source in locate(paths):
        for number, text in text_lines(source):
            where = f"{source.path}:{number}"
            try:
                keys, page, without_id = _read_line(object_in(text, where), where, reading, readers)
            except InvalidData as error:
                if not skip:
                    raise
                found.bad.append(str(error))
                continue
            found.count += 1
            found.without_id += without_id
            found.repeated += any(key in found.pages for key in keys[:1])
            for key in keys:
                found.pages[key] = page
                found.names[key] = keys[0]
                found.kinds.add(key.kind)
    if not found.count:
        raise InvalidData(f"{paths[0]}: expected responses, found none that can be read")
    return found


def _read_line(
    line: Mapping[str, Any], where: str, reading: Reading, readers: dict[Engine, HitReader]
) -> tuple[list[QueryKey], HitPage, int]:
    keys = [
        QueryKey(name, str(line[name]))
        for name in ("query_id", "query")
        if isinstance(line.get(name), str | int) and not isinstance(line[name], bool)
    ]
    if not keys:
        raise InvalidData(
            f"{where}: expected query, the text of the search, or query_id, found {shown(line.get('query'))}"
        )
    response, of_query = line.get("response"), line.get("query_features") or {}
    if not isinstance(response, dict) or not isinstance(of_query, dict):
        name = "query_features" if isinstance(response, dict) else "response"
        raise InvalidData(f"{where}: {name}: expected an object, found {shown(line.get(name))}")
    engine = engine_of(response)
    if engine is None:
        raise InvalidData(
            f"{where}: response: expected hits (Elasticsearch, OpenSearch), response (Solr) or root (Vespa), found none of them"
        )
    hits = response[engine.page].get(engine.hits, [] if engine.without_hits else None)
    if not isinstance(hits, list):
        raise InvalidData(
            f"{where}: response.{engine.page}.{engine.hits}: expected a list of hits, found {shown(hits)}"
        )
    if engine not in readers:
        try:
            readers[engine] = HitReader(
                engine,
                named=None,
                fields=reading.fields,
                log=reading.log,
                score_feature=reading.score_feature,
                sources=reading.sources,
            )
        except ValueError as error:
            raise InvalidData(f"--sources: {error}") from None
    return keys, *_page_of(hits, of_query, readers[engine], reading, where)


def _page_of(
    hits: Sequence[Any], of_query: Mapping[str, Any], reader: HitReader, reading: Reading, where: str
) -> tuple[HitPage, int]:
    path = (reading.id or reader.engine.id).split(".")
    page = HitPage(
        {},
        {name: _value(value, f"{where}: query_features {name!r}") for name, value in of_query.items()},
        where,
    )
    without_id = 0
    empty, is_partial = "", False
    for number, hit in enumerate(hits, 1):
        at = f"{where}: hit {number}"
        if not isinstance(hit, dict):
            raise InvalidData(f"{at}: expected an object, found {shown(hit)}")
        try:
            found = reader.read(hit, at)
        except WrongHitError as error:
            raise InvalidData(str(error)) from None
        if found is None:
            empty = empty or at
        else:
            is_partial |= found.partial
        _, document = value_at(hit, path)
        if isinstance(document, list) and len(document) == 1:
            document = document[0]
        if not isinstance(document, str | int) or document == "":
            without_id += 1
            continue
        values = {} if found is None else found.values
        # The first hit of a document counts, because the user sees it first.
        page.hits.setdefault(
            str(document), {name: _value(one, f"{at}: feature {name!r}") for name, one in values.items()}
        )
    # A hit without one named query that matches has none at all.
    if empty and not is_partial:
        raise InvalidData(f"{empty} has no logged features; {reader.engine.how}")
    return page, without_id


def _value(value: Any, where: str) -> Any:
    """Return a value of a feature: a finite number, a text, a truth value or None."""
    if isinstance(value, float) and isnan(value):
        return None
    try:
        is_wrong = isinstance(value, list | dict) or (isinstance(value, int | float) and not isfinite(value))
    except OverflowError:
        is_wrong = True
    if is_wrong:
        raise InvalidData(f"{where}: expected a finite number, a text or null, found {shown(value)}")
    return value


@dataclass(slots=True)
class JoinedResponses:
    """What was written, and what did not match.

    Attributes:
        table: a row for each document: label, qid, doc_id, weight and position of clicks, features.
        features: their names.
        queries: how many.
        without_response: judged queries that no response names.
        without_judgement: queries that were searched for and not judged.
        not_returned: judged documents that the response does not hold.
        not_judged: documents that were returned and not judged.
        without_relevant: lists of clicks whose clicked documents were not returned.
        run: lines of a run with the engine's order.
        mixed: sentences about features that become categories, because some of their values are no numbers.
    """

    table: Any
    features: tuple[str, ...]
    queries: int
    without_response: Left
    without_judgement: Left
    not_returned: Left
    not_judged: Left
    without_relevant: Left
    run: list[str]
    mixed: list[str]


def join(
    judged: Ratings, responses: Responses, *, zero: bool = False, missing_as_zero: bool = False
) -> JoinedResponses:
    """Join judgements with responses.

    Args:
        judged: which documents are how relevant.
        responses: with the features.
        zero: give documents that were returned and not judged the label 0; otherwise they are left out.
        missing_as_zero: write 0 for numbers that a hit does not hold.

    Raises:
        InvalidData: nothing matches.
    """
    left = {
        name: Left()
        for name in (
            "without_response",
            "without_judgement",
            "not_returned",
            "not_judged",
            "without_relevant",
        )
    }
    rows: list[tuple[JudgedList, str, str, float, str, dict[str, Any]]] = []
    run: list[str] = []
    searched: set[QueryKey] = set()
    queries = 0
    for one in judged.lists:
        key = responses.key_of(one)
        if key is None:
            left["without_response"].add(one.query)
            continue
        page = responses.pages[key]
        searched.add(responses.names[key])
        for document in one.labels:
            if document not in page.hits:
                left["not_returned"].add(f"{one.query}: {document}")
        clicked = one.places is not None
        if clicked and not any(label and document in page.hits for document, label in one.labels.items()):
            left["without_relevant"].add(one.name or one.query)
            continue
        name = _NOT_IN_NAMES.sub(lambda found: quote(found[0], safe=""), one.name or one.query)
        taken = []
        for document, values in page.hits.items():
            label = one.labels.get(document)
            if label is None:
                left["not_judged"].add(f"{one.query}: {document}")
                # Of a list of clicks it is known what the user saw.
                if not zero or clicked:
                    continue
                label = 0.0
            taken.append((one, name, document, label, page.where, {**page.of_query, **values}))
        queries += bool(taken)
        rows += taken
        run += _run_lines(name, page.hits)
    for key in dict.fromkeys(responses.names.values()):
        if key not in searched:
            left["without_judgement"].add(key.name)
    if not rows:
        raise _nothing(judged, responses, left["without_response"].count == len(judged.lists))
    columns = _columns(rows, missing_as_zero=missing_as_zero)
    features = tuple(name for name in columns if name not in COLUMNS)
    mixed = [said for name in features for said in _mixed(name, rows)]
    return JoinedResponses(pa.table(columns), features, queries, run=run, mixed=mixed, **left)


def _mixed(
    name: str, rows: Sequence[tuple[JudgedList, str, str, float, str, dict[str, Any]]]
) -> Iterator[str]:
    """Yield a sentence if some values of a feature are numbers and others are not."""
    held = [(*row[2:5:2], row[-1][name]) for row in rows if row[-1].get(name) is not None]
    others = [one for one in held if type(one[2]) not in {int, float}]
    if others and len(others) < len(held):
        document, where, value = others[0]
        yield (
            f"note: the feature {name!r} is a number in {len(held) - len(others)} of {len(held)} documents and "
            f"{shown(value)} in {where}, document {document!r}; it becomes a category"
        )


def _nothing(judged: Ratings, responses: Responses, no_query: bool) -> InvalidData:  # noqa: FBT001
    one = judged.lists[0]
    if no_query:
        key = next(iter(responses.pages))
        return InvalidData(
            f"expected a response to a judged query, such as {one.query!r}, found none; the first response is to {key.name!r}"
        )
    keys = (responses.key_of(each) for each in judged.lists)
    hits = next(responses.pages[key].hits for key in keys if key is not None)
    return InvalidData(
        f"expected judged documents among those that were returned, such as {next(iter(one.labels))!r}, found none; the first that "
        f"was returned is {next(iter(hits), None)!r} (--id names another member of the hits)"
    )


def _run_lines(name: str, hits: Iterable[str]) -> Iterator[str]:
    """Yield a run whose scores are places from below, so that equal scores and sorted searches keep the engine's order."""
    documents = list(hits)
    for rank, document in enumerate(documents, 1):
        yield f"{name} Q0 {document} {rank} {len(documents) - rank + 1} engine\n"


def _columns(
    rows: Sequence[tuple[JudgedList, str, str, float, str, dict[str, Any]]], *, missing_as_zero: bool
) -> dict[str, Any]:
    names = list(dict.fromkeys(name for row in rows for name in row[-1]))
    if taken := sorted({*names} & {*COLUMNS}):
        raise InvalidData(
            f"the feature {taken[0]!r} has the name of a column that is written; call it something else in the search"
        )
    if not names:
        raise InvalidData("expected features in the hits, found none")
    columns: dict[str, Any] = {
        "label": pa.array([label for _, _, _, label, *_ in rows], pa.float64()),
        "qid": [name for _, name, *_ in rows],
    }
    weights = [one.weight for one, *_ in rows]
    if any(weight is not None for weight in weights):
        columns["weight"] = [1.0 if weight is None else weight for weight in weights]
    columns[DOCUMENT] = [document for _, _, document, *_ in rows]
    if any(one.places is not None for one, *_ in rows):
        columns["position"] = [
            None if one.places is None else one.places.get(document) for one, _, document, *_ in rows
        ]
    for name in names:
        values = [row[-1].get(name) for row in rows]
        if all(value is None or type(value) in {int, float} for value in values):
            absent = 0.0 if missing_as_zero else None
            columns[name] = pa.array([absent if one is None else float(one) for one in values], pa.float64())
        else:
            columns[name] = pa.array([spelled(one) for one in values], pa.string())
    return columns


def write_joined(joined: JoinedResponses, path: Path, *, overwrite: bool, say: Callable[[str], None]) -> str:
    """Write the table by the ending of the path: CSV, Parquet, Arrow or LETOR text; return the options that training needs.

    Raises:
        InvalidData: the format cannot hold it, or training could not read it.
    """
    is_csv = path.suffix.lower() == ".csv"
    try:
        form = None if is_csv else format_of(path)
    except InvalidData:
        raise InvalidData(
            f"{path}: expected a name in .csv, .txt, .txt.gz, .txt.zst, .parquet or .arrow, found {path.suffix}"
        ) from None
    names = joined.table.column_names
    weight, position = (
        ("weight" if "weight" in names else None),
        ("position" if "position" in names else None),
    )
    # What training could not read is found now.
    queries = read_table(
        joined.table, columns=Columns(id=DOCUMENT, weight=weight, position=position), say=say
    )
    if not is_csv:
        is_text = form not in {"parquet", "arrow"}
        write(replace(queries, positions=None) if is_text else queries, path, overwrite=overwrite)
        return ""
    if path.exists() and not overwrite:
        raise InvalidData(
            f"{path}: expected a name that is not in use, found a file or folder (--overwrite replaces it)"
        )
    write_table(joined.table, path)
    return " --weight weight" * (weight is not None) + " --position position" * (position is not None)


def write_run(joined: JoinedResponses, path: Path, *, overwrite: bool) -> None:
    """Write the engine's order as a TREC run.

    Raises:
        InvalidData: a document's id has a blank, or the file cannot be written.
    """
    if path.exists() and not overwrite:
        raise InvalidData(
            f"{path}: expected a name that is not in use, found a file or folder (--overwrite replaces it)"
        )
    for line in joined.run:
        if len(line.split()) != 6:
            raise InvalidData(
                f"{path}: expected ids of documents without blanks, as a run needs them, found {line.strip()!r}"
            )
    with telling(path), whole_file(path) as file:
        file.writelines(joined.run)
