"""Judgements as other tools write them: which documents are how relevant to which query.

    table           query,docid,rating: Quepid's CSV, and any other with these columns or those that options name
    Quepid LTR      3 qid:1 # 194 star wars
    TREC qrels      51 0 GX008-86-4444840 2
    JSON lines      {"query": "red dress", "docid": "B07", "rating": 3}, with the names of a table
    OpenSearch      {"judgmentRatings": [{"query": "red dress", "ratings": [{"docId": "B07", "rating": "3.000"}]}]}, as Search Relevance
                    Workbench takes it, or as it answers it (below hits.hits[]._source)
    RRE             {"topics": [{"query_groups": [{"queries": [{"placeholders": {"$query": "fender"}}], "relevant_documents":
                    {"1": {"gain": 3}}}]}]}, also with {"3": ["1"]}, and with queries at the top, as Quepid writes it
    UBI             events of users; each list with a click becomes a query (`localrank_training.data.clicks.table`)

The first line of a file decides its form. Read in the public code and documentation of these tools. A rating that is empty means
that the document was not judged; of qrels a rating below zero means not relevant, as in trec_eval.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from localrank.errors import InvalidData, shown
from localrank.responses import listed
from localrank_training.data.clicks.table import DOCUMENT, Names, judgements_of, read_log
from localrank_training.data.engines.lines import object_in, text_lines
from localrank_training.data.sources import locate, opened
from localrank_training.data.table_text import delimiter_of
from localrank_training.data.trec import read_qrels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from localrank_training.data.clicks.propensities import Propensities
    from localrank_training.data.clicks.table import ClickLog
    from localrank_training.data.sources import Source

#: Names of columns of tables, the first that is there counts.
QUERY_TEXTS = ("query", "query_text")
QUERY_IDS = ("query_id", "qid")
_QUERY = (*QUERY_TEXTS, *QUERY_IDS)
DOCUMENTS = ("docid", "doc_id", "document", "document_id", "id")
RATINGS = ("rating", "grade", "label", "judgement", "judgment", "relevance")
#: Bytes of a file of JSON.
_LARGEST = 1 << 28


class JudgedList(NamedTuple):
    """The judged documents of one query, or of one list of clicks.

    Attributes:
        query: its text, or its id.
        labels: by document.
        places: by document, where the user saw it; None if nobody knows.
        weight: how much the list counts; None counts as 1.
        name: of the list, if there are several to a query.
        text: of the query, if ``query`` is its id.
        by_id: whether ``query`` is its id.
    """

    query: str
    labels: Mapping[str, float]
    places: Mapping[str, int] | None = None
    weight: float | None = None
    name: str | None = None
    text: str | None = None
    by_id: bool = False


@dataclass(slots=True)
class Ratings:
    """What was judged.

    Attributes:
        lists: in the order of the files.
        unrated: documents that a file names without a rating.
    """

    lists: list[JudgedList]
    unrated: int = 0

    @property
    def documents(self) -> int:
        return sum(len(one.labels) for one in self.lists)


class RatingColumns(NamedTuple):
    """Columns of tables of judgements; None looks for the usual names."""

    query: str | None = None
    document: str | None = None
    rating: str | None = None


def read_judgements(
    paths: Sequence[str | Path],
    named: RatingColumns,
    correcting: Callable[[ClickLog], Propensities | None],
    max_weight: float,
    say: Callable[[str], None],
) -> Ratings:
    """Read files of judgements.

    Args:
        paths: files, or folders of them.
        named: columns of tables.
        correcting: returns the propensities of a log of clicks, None leaves clicks as they are.
        max_weight: of a corrected click.
        say: told of logs of clicks.

    Raises:
        InvalidData: names the file and line.
    """
    found = _Collected()
    logs: list[Path] = []
    for source in locate(paths):
        if source.kind not in {"text", "gzip", "zstd"}:
            raise InvalidData(f"{source.path}: expected judgements as text or JSON, found {source.kind}")
        number, line = next(text_lines(source), (1, b""))
        if line.lstrip().startswith(b"{"):
            if b'"action_name"' in line:
                logs.append(source.path)
            elif _is_row(line, named):
                _read_rows(source, named, found)
            else:
                _read_json(source, found)
        elif line[:1] != b"#" and _is_qrels(line):
            for query, documents in read_qrels(source.path).items():
                for document, label in documents.items():
                    found.add(query, document, max(label, 0.0), str(source.path), by_id=True)
        elif (delimiter := delimiter_of(line, str(source.path))) is None:
            _read_ltr(source, found)
        else:
            _read_table(source, delimiter, number, named, found)
    judged = found.whole()
    if logs:
        judged.lists += _of_clicks(
            read_log(logs, Names("query", "place", "clicked"), say), correcting, max_weight
        )
    if not judged.lists:
        raise InvalidData(
            f"{paths[0]}: expected judgements, found none ({judged.unrated} documents without a rating)"
        )
    return judged


@dataclass(slots=True)
class _Collected:
    """Labels by query and document, and where each was read."""

    labels: dict[tuple[str, bool], dict[str, float]] = field(default_factory=dict)
    places: dict[tuple[str, bool, str], str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    unrated: int = 0

    def add(self, query: str, document: str, rating: Any, where: str, *, by_id: bool = False) -> None:
        """Take one judgement; no rating counts as none."""
        if rating is None or rating == "" or document == "":
            self.unrated += 1
            return
        try:
            label = float(rating)
        except (TypeError, ValueError, OverflowError):
            label = math.nan
        if isinstance(rating, bool) or not 0 <= label < math.inf:
            raise InvalidData(f"{where}: expected a rating of at least 0, found {shown(rating)}")
        before = self.labels.setdefault((query, by_id), {}).setdefault(document, label)
        first = self.places.setdefault((query, by_id, document), where)
        if before != label:
            raise InvalidData(
                f"{where}: document {document!r} of query {query!r} has the rating {label:g}; expected {before:g}, as in {first}"
            )

    def whole(self) -> Ratings:
        lists = [
            JudgedList(query, labels, text=self.texts.get(query) if by_id else None, by_id=by_id)
            for (query, by_id), labels in self.labels.items()
        ]
        return Ratings(lists, self.unrated)


def _is_qrels(line: bytes) -> bool:
    words = line.split()
    return len(words) == 4 and b"," not in line and not words[1].startswith(b"qid:") and _is_number(words[3])


def _is_number(text: bytes) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _read_table(source: Source, delimiter: str, first: int, named: RatingColumns, found: _Collected) -> None:
    with opened(source) as (stream, _):
        try:
            text = stream.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidData(
                f"{source.path}: expected text in UTF-8, found bytes that are not text"
            ) from None
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(row for row in rows if row)
        names = _columns(header, named, f"{source.path}:{first}")
        query, document, rating = map(header.index, names)
        for row in rows:
            if not row:
                continue
            where = f"{source.path}:{rows.line_num}"
            # Quepid writes a query without judgements alone.
            cells = row + [""] * (len(header) - len(row))
            if len(cells) > len(header):
                raise InvalidData(f"{where}: expected {len(header)} cells, found {len(cells)}")
            found.add(cells[query], cells[document], cells[rating].strip(), where, by_id=_holds_ids(names[0]))
    except csv.Error as error:
        raise InvalidData(
            f"{source.path}:{rows.line_num}: expected {delimiter!r} between cells: {error}"
        ) from None


def _columns(header: Sequence[str], named: RatingColumns, where: str) -> list[str]:
    """Return the names of query, document and rating."""
    found = []
    for wanted, usual, option in (
        (named.query, _QUERY, "--query"),
        (named.document, DOCUMENTS, "--document"),
        (named.rating, RATINGS, "--rating"),
    ):
        name = wanted or next((one for one in usual if one in header), None)
        if name is None or name not in header:
            expected = repr(wanted) if wanted else " or ".join(usual)
            raise InvalidData(f"{where}: expected a column {expected} ({option}), found {listed(header)}")
        found.append(name)
    return found


def _holds_ids(column: str) -> bool:
    return column.lower().endswith("id")


def _is_row(line: bytes, named: RatingColumns) -> bool:
    """Return whether a line is a judgement by itself."""
    try:
        row = object_in(line, "")
    except InvalidData:
        return False
    return any(name in row for name in (named.rating, *RATINGS))


def _read_rows(source: Source, named: RatingColumns, found: _Collected) -> None:
    for number, line in text_lines(source):
        where = f"{source.path}:{number}"
        row = object_in(line, where)
        query, document, rating = _columns([*row], named, where)
        for name in (query, document):
            if not isinstance(row[name], str | int) or isinstance(row[name], bool):
                raise InvalidData(f"{where}: {name}: expected text, found {shown(row[name])}")
        found.add(str(row[query]), str(row[document]), row[rating], where, by_id=_holds_ids(query))


def _read_ltr(source: Source, found: _Collected) -> None:
    for number, line in text_lines(source):
        where = f"{source.path}:{number}"
        try:
            words = line.decode("utf-8").split(maxsplit=2)
        except UnicodeDecodeError:
            raise InvalidData(f"{where}: expected text in UTF-8, found bytes that are not text") from None
        rest = words[2].removeprefix("#").split(maxsplit=1) if len(words) > 2 else []
        if not rest or not words[1].startswith("qid:"):
            raise InvalidData(
                f"{where}: expected RATING qid:QUERY # DOCUMENT TEXT, found {shown(line.decode(errors='replace'))}"
            )
        query = words[1].removeprefix("qid:")
        found.add(query, rest[0], words[0], where, by_id=True)
        if len(rest) > 1:
            found.texts[query] = rest[1].strip()


def _read_json(source: Source, found: _Collected) -> None:
    with opened(source) as (stream, _):
        text = stream.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise InvalidData(f"{source.path}: expected at most {_LARGEST} bytes of JSON, found more")
    top = object_in(text, str(source.path))
    where = str(source.path)
    try:
        rated = [*_workbench(top), *_rre(top)]
    except (TypeError, KeyError, AttributeError) as error:
        raise InvalidData(
            f"{where}: expected judgements of OpenSearch or RRE, found another form: {error!r}"
        ) from None
    if not rated:
        raise InvalidData(
            f"{where}: expected judgmentRatings (OpenSearch), topics, query_groups or queries (RRE), lines with action_name (UBI), "
            f"or lines with query, docid and rating, found an object with {listed([*top])}"
        )
    for query, document, rating in rated:
        found.add(query, str(document), rating, f"{where}: query {query!r}, document {document!r}")


def _workbench(top: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield query, document and rating of Search Relevance Workbench, as sent or as answered."""
    hits = top.get("hits")
    found = [hit.get("_source", {}) for hit in hits["hits"]] if isinstance(hits, dict) else [top]
    for one in found:
        for rated in one.get("judgmentRatings", []):
            for judged in rated["ratings"]:
                yield _text(rated["query"]), judged["docId"], judged["rating"]


def _rre(top: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield query, document and gain of RRE; the groups may stand in topics, the queries at the top."""
    groups = [group for topic in top.get("topics", []) for group in topic.get("query_groups", [topic])]
    groups += top.get("query_groups", [])
    for group in [*groups, top]:
        for query in group.get("queries", []):
            if isinstance(query, str):
                query = {"placeholders": {"$query": query}}  # noqa: PLW2901
            relevant = query.get("relevant_documents", group.get("relevant_documents", {}))
            for name, one in relevant.items():
                pairs = (
                    [(name, one["gain"])] if isinstance(one, dict) else [(document, name) for document in one]
                )
                for document, gain in pairs:
                    yield _text(query["placeholders"]["$query"]), document, gain


def _text(query: Any) -> str:
    if not isinstance(query, str | int):
        raise TypeError(f"expected the text of a query, found {shown(query)}")
    return str(query)


def _of_clicks(
    log: ClickLog, correcting: Callable[[ClickLog], Propensities | None], max_weight: float
) -> list[JudgedList]:
    """Return the lists of a log that have a click."""
    made = judgements_of(log, correcting(log), max_weight)
    rows: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for searched, row in zip(made.searched, made.table.to_pylist(), strict=True):
        rows.setdefault(row["qid"], []).append((searched, row))
    return [
        JudgedList(
            some[0][0],
            {row[DOCUMENT]: row["label"] for _, row in some},
            {row[DOCUMENT]: row["position"] for _, row in some},
            some[0][1].get("weight"),
            name,
        )
        for name, some in rows.items()
    ]
