"""``POST /v1/rerank`` as JSON: rows, with or without names of the features, and its answer.

No number passes through a validation library: those of a plain body go straight into one buffer
(`localrank_service.wire.numbers`). Any other body is checked and then parsed in pieces (`localrank_service.wire.text`), and
its rows are packed run by run (`localrank_service.wire.numbers`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn, Self

import orjson

from localrank.native.texts import RUN_VALUES
from localrank.responses import listed
from localrank_service.apis.rerank.columns import merged, of_plain, plain_columns, read_columns
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.answer import results, route_members, table_members, warnings_of
from localrank_service.wire.feature_texts import FORMS, Places, WrongTextError, features_of, rows_of
from localrank_service.wire.members import (
    ANYTHING,
    CELL,
    FEATURES,
    ID,
    ROW,
    TEXT,
    TEXTUAL,
    Kind,
    Member,
    by_name,
    check,
    check_names,
    shared,
)
from localrank_service.wire.numbers import RowColumns, plain_members, read_rows
from localrank_service.wire.query import (
    SLOWER,
    AbsentColumns,
    Documents,
    Limits,
    Options,
    check_contract,
    check_count,
    check_options,
    columns_of,
    in_model_order,
    ordered,
    with_query,
)
from localrank_service.wire.text import Elements, Text, members_in, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from localrank.arrays import Array, Matrix
    from localrank.features.contract import FeatureContract
    from localrank.features.feature import Feature
    from localrank.ranker import Stopwatch
    from localrank_service.wire.answer import Ranked
    from localrank_service.wire.numbers import PlainRows

#: Of ``POST /v1/rerank``; any other is refused by name.
RERANK = (
    *shared("model", "query_id", "session_id", "top_n", "offset", "pin", "boost"),
    *shared("query_features", "answer", "explain", "compare", "contract"),
    Member(
        "feature_names",
        Kind("a list of texts", {"type": "array", "items": {"type": "string"}}),
        "Names of the columns, if their order differs from the model's or there are more of them. If one is "
        "missing, the answer is 409.",
    ),
    Member(
        "documents",
        Kind(
            "a list of objects or texts",
            {
                "type": "array",
                "items": {
                    "anyOf": [
                        {
                            # Client generators name the type so.
                            "title": "DocumentsItem",
                            "type": "object",
                            "properties": {"id": ID.schema, "features": FEATURES, "text": TEXTUAL},
                            # Generators ignore conditions, and so know the members.
                            "if": {"not": {"required": ["text"]}},
                            "then": {"required": ["features"]},
                            "additionalProperties": False,
                        },
                        TEXTUAL,
                    ]
                },
            },
        ),
        "One object per document: `features`, a list or an object, and optionally `id`. Or a text that is features, also as "
        "`text` in the object.",
        nullable=False,
    ),
    Member(
        "ids",
        Kind("a list of texts or integers", {"type": "array", "items": ID.schema}),
        "One per row of `features`, or per value of a column; they may repeat.",
    ),
    Member(
        "features",
        Kind(
            "a list of rows",
            {"type": "array", "items": ROW},
        ),
        "One row per document.",
        nullable=False,
    ),
    Member(
        "columns",
        Kind(
            "an object of lists and values",
            {"type": "object", "additionalProperties": {"anyOf": [ROW, CELL]}},
        ),
        "Instead of rows: by the name of each feature of the documents a list with one value per document, by the name of a "
        "feature of the query one value.",
        nullable=False,
    ),
    *shared("timeout_ms", "allow_degraded"),
    Member(
        "fallback_feature",
        TEXT,
        "Only with `timeout_ms`: a feature of the model that is a number. If there is no time to rank at all, the documents "
        "are ordered by this feature, largest first, instead of staying in the order of the request.",
    ),
    Member(
        "query",
        TEXT,
        "Clients of other rerank APIs send it. It does not change the ranking; with it, each result has a `relevance_score`.",
    ),
    *shared("relevance", "return_documents"),
    Member("rank_fields", ANYTHING, "Has no effect."),
    Member("max_chunks_per_doc", ANYTHING, "Has no effect."),
)

_FORMS = ("documents", "features", "columns")
#: Members that may be large: they are parsed when the documents are read.
_LARGE = frozenset({*_FORMS, "feature_names", "ids"})
_IDS = frozenset({str, int})
#: How many times longer it takes to read features of texts than to make objects of JSON.
_TEXTS = 4
#: Members of a document.
_DOCUMENT = frozenset({"id", "features", "text"})
_MOST_NAMES = 2**15
#: Names of features that the model does not know; each is a warning in the answer.
_MOST_IGNORED = 1000

_TABLE = by_name(RERANK)


def members_of(body: bytes, table: Mapping[str, Member], limits: Limits) -> dict[str, Any]:
    """Return the members of a body, those that may be large as `Text`."""
    members = members_in(body, limits)
    check_names(members, table)
    return {name: member if name in _LARGE else member.value() for name, member in members.items()}


def encode(ranked: Ranked, timing: Stopwatch, request_id: str, most_warnings: int | None = None) -> bytes:
    """Return the answer; its timings are added last."""
    part = ranked.experiment
    timing("encode")
    answered: dict[str, Any] = (
        {"scores": ranked.ranking.scores.tolist()}
        if ranked.options.answer == "scores"
        else {"results": orjson.Fragment(results(ranked))}
    )
    answer = {
        "request_id": request_id,
        "model": ranked.name,
        "version": ranked.version,
        **answered,
        "route": route_members(ranked.ranking.route),
        "degraded": None if ranked.degraded is None else ranked.degraded._asdict(),
        "warnings": warnings_of(ranked, most_warnings),
    }
    if ranked.documents.generations:
        answer |= table_members(ranked)
    if part is not None:
        answer["experiment"] = part.answer()
    if ranked.explanation is not None:
        answer["explanation"] = ranked.explanation
    answer["timings_ms"] = timing.stop()
    return orjson.dumps(answer)


class JsonQuery:
    """A request whose documents are yet to be read."""

    __slots__ = ("_body", "_limits", "_members", "_plain", "form", "options")

    table: Mapping[str, Member] = _TABLE
    #: Whether documents may have any members besides their features.
    described = False

    @classmethod
    def read(cls, body: bytes, limits: Limits) -> Self:
        """Check everything that needs no model."""
        members = plain_members(body, limits, described=cls.described)
        if members is None and b'"columns"' in body:
            members = plain_columns(body, limits)
        if members is None or members.get("return_documents"):
            return cls(body, members_of(body, cls.table, limits), limits, plain=False)
        if not members.keys() <= cls.table.keys():
            check_names(members, cls.table)
        return cls(body, members, limits, plain=True)

    def __init__(self, body: bytes, members: dict[str, Any], limits: Limits, *, plain: bool) -> None:
        self._body = body
        self._members = members
        self._limits = limits
        self._plain = plain
        check(members, self.table)
        self.options = Options(
            members.get("model"),
            members.get("query_id"),
            members.get("top_n"),
            members.get("explain") or "none",
            members.get("contract"),
            tuple(compare) if (compare := members.get("compare")) else None,
            members.get("timeout_ms"),
            members.get("allow_degraded") is not False,
            members.get("fallback_feature"),
            session_id=members.get("session_id"),
            offset=members.get("offset") or 0,
            pin=tuple(members.get("pin") or ()),
            boost=members.get("boost"),
            query_features=members.get("query_features"),
            answer=members.get("answer") or "ranking",
            relevance=members.get("relevance") or ("sigmoid" if self._is_relevant(members) else None),
        )
        check_options(self.options)
        given = [name for name in _FORMS if name in members]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise Problem(422, f"expected one of {', '.join(_FORMS)}; found {found}", pointer="")
        [self.form] = given
        if "ids" in members and self.form == "documents":
            raise Problem(
                422,
                "ids: expected an id in each document, or a list of ids beside features; found a list beside "
                "documents",
                pointer="/ids",
            )
        if members.get("return_documents") and self.form != "documents":
            said = f"return_documents: expected documents with it, found {self.form}"
            raise Problem(422, said, pointer="/return_documents")
        for name in ("relevance", "return_documents") if self.options.answer == "scores" else ():
            if members.get(name):
                said = f"{name} cannot be used with answer as scores, which has no results"
                raise Problem(422, said, pointer=pointer(name))
        if "feature_names" in members and self.form == "columns":
            raise Problem(
                422,
                "feature_names: expected beside features or documents, found beside columns, which have names",
                pointer="/feature_names",
            )

    def _is_relevant(self, members: dict[str, Any]) -> bool:
        """Return whether results have a relevance although the request does not say which."""
        return members.get("query") is not None

    def _sent(self) -> list[bytes]:
        """Return the documents as they were sent."""
        return [
            b'{"text":%b}' % one.content if one.kind == '"' else one.content
            for one in Elements(self._members["documents"]).texts()
        ]

    @property
    def cost(self) -> int:
        if self._plain:
            return len(self._body)
        documents = self._members.get("documents")
        if isinstance(documents, Text) and documents.first == '"':
            return len(self._body) * SLOWER * _TEXTS
        return len(self._body) * SLOWER

    def documents(self, contract: FeatureContract) -> Documents:
        """Return the documents in the order of the model's features."""
        if self.options.contract is not None:
            check_contract(self.options.contract, contract)
        found = self._documents(contract)
        if self._members.get("return_documents"):
            found = replace(found, sent=self._sent())
        if contract.of_query or self.options.query_features:
            return with_query(found, contract, self.options)
        return found

    def _documents(self, contract: FeatureContract) -> Documents:
        if self.form == "columns":
            return self._of_columns(contract)
        names = self._feature_names() if "feature_names" in self._members else None
        of_query = self.options.query_features is not None
        gap = AbsentColumns.of(contract, names, of_query=of_query) if of_query or contract.looked_up else None
        if names is not None and gap is not None:
            names += gap.names
        columns, extra = (None, ()) if names is None else columns_of(names, contract, self._limits)
        known = RowColumns(contract.names if names is None else names, *_special(contract, names, columns))
        if self._plain:
            if (documents := self._of_plain(columns, known, extra, gap)) is not None:
                return documents
            # It does not fit: find out where.
            self._members, self._plain = members_of(self._body, self.table, self._limits), False
        if self.form == "documents":
            return self._rows(contract, known, columns, extra, gap)
        matrix, locate = self._matrix(known, gap)
        return Documents(
            ordered(matrix, columns),
            self._ids(len(matrix)),
            in_model_order(locate, columns),
            dict.fromkeys(extra, len(matrix)),
        )

    def _of_columns(self, contract: FeatureContract) -> Documents:
        """Return the documents of columns; their bare values become features of the query."""
        found = of_plain(self._members["columns"], contract, self._limits) if self._plain else None
        if found is None:
            # They do not fit, or are not plain: find out where.
            self._members, self._plain = members_of(self._body, self.table, self._limits), False
            ids = self._members.get("ids")
            n_ids = Elements(ids).count if isinstance(ids, Text) and ids.kind == "[" else None
            found = read_columns(self._members["columns"], contract, self._limits, n_ids)
        if len(found.unknown) > _MOST_IGNORED:
            raise _too_many_unknown("the columns", "/columns")
        if found.of_query:
            stated = merged(found.of_query, self.options.query_features, contract)
            self.options = replace(self.options, query_features=stated)
        n_docs, names = len(found.matrix), contract.names

        def locate(document: int, feature: int | None) -> str:
            return "/columns" if feature is None else pointer("columns", names[feature], document)

        return Documents(
            found.matrix,
            self._ids(n_docs),
            locate,
            dict.fromkeys(found.unknown, n_docs) if n_docs else {},
        )

    def _of_plain(
        self, columns: Array | None, known: RowColumns, extra: tuple[str, ...], gap: AbsentColumns | None
    ) -> Documents | None:
        """Return the documents of members that `plain_members` has read, if they fit."""
        rows: PlainRows = self._members[self.form]
        locate: Callable[[int, int | None], str] = _in_row if self.form == "documents" else _in_matrix
        n_docs, width = len(rows.values), len(known.names)
        is_short = gap is not None and rows.values.ndim == 2 and gap.is_short(rows.values.shape[1])
        kept = gap.kept if gap is not None and is_short else range(width)
        if rows.values.ndim != 2 or rows.values.shape[1] != len(kept) or n_docs > self._limits.max_documents:
            return None
        categories, ignored = known.categories, known.ignored
        if gap is not None and is_short:
            categories = {place: categories[at] for place, at in enumerate(kept) if at in categories}
            ignored = [place for place, at in enumerate(kept) if at in ignored]
        values: Matrix | None = rows.values
        if categories or rows.texts:
            values = rows.coded(categories, ignored)
        if values is None:
            return None
        if gap is not None and is_short:
            values, locate = gap.filled(values), gap.located(locate)
        ids = self._ids(n_docs) if "ids" in self._members else rows.ids
        if columns is not None:
            values, locate = ordered(values, columns), in_model_order(locate, columns)
        return Documents(values, ids, locate, dict.fromkeys(extra, n_docs))

    def _rows(
        self,
        contract: FeatureContract,
        known: RowColumns,
        columns: Array | None,
        extra: tuple[str, ...],
        gap: AbsentColumns | None,
    ) -> Documents:
        text = self._members["documents"]
        if text.kind != "[":
            refuse("documents", _TABLE["documents"].kind.expected, text, "/documents")
        elements, order, width = Elements(text), known.names, len(known.names)
        check_count(elements.count, self._limits, "/documents", width=width)
        ids: list[str | int | None] = []
        ignored: Counter[str] = Counter()
        n_named = 0

        def row(document: Any, position: int) -> Any:
            nonlocal n_named
            features, one = self._document(document, position, contract)
            ids.append(one)
            if type(features) is not dict:
                return features if gap is None else gap.whole(features)
            n_named += 1
            if features.keys() != contract.positions.keys():
                ignored.update(self._unknown(features, contract, _steps(document, position)))
                if len(ignored) > _MOST_IGNORED:
                    passes = f"; documents[{position}] passes it"
                    raise _too_many_unknown("the documents", pointer(*_steps(document, position)), passes)
            return list(map(features.get, order))

        def rows() -> Iterator[tuple[int, list[Any]]]:
            # As many documents at once as make a run of cells: a document that names few features has as many cells as
            # any other.
            most = max(RUN_VALUES // width, 1)
            for first, run in elements:
                for start in range(0, len(run), most):
                    yield first + start, list(map(row, run[start : start + most], count(first + start)))

        def cell(document: int, column: int | None) -> str:
            sent = elements[document]
            steps = _steps(sent, document)
            if column is None or steps[-1] != "features":
                return pointer(*steps)
            features = sent["features"]
            if type(features) is dict:
                return pointer(*steps, order[column]) if order[column] in features else pointer(*steps)
            if gap is not None and gap.is_short(len(features)):
                return gap.located(_in_row)(document, column)
            return pointer(*steps, column)

        matrix = self._of_lists(elements, known, gap)
        if matrix is None:
            matrix = read_rows(rows(), (elements.count, width), "documents[{}].features", cell, known)
        ignored.update(dict.fromkeys(extra, elements.count - n_named))
        return Documents(
            ordered(matrix, columns),
            ids if ids.count(None) < len(ids) else None,
            in_model_order(cell, columns),
            {name: count for name, count in ignored.items() if count},
        )

    def _of_lists(self, elements: Elements, known: RowColumns, gap: AbsentColumns | None) -> Matrix | None:
        """Return the rows of documents that are texts, if each is the JSON list of a whole row of numbers."""
        if elements.kind != '"' or known.categories:
            return None
        values = rows_of(elements.all(), self._limits.max_numbers)
        if values is not None and gap is not None:
            values = gap.filled(values)
        return None if values is None or values.shape[1] != len(known.names) else values

    def _document(
        self, document: Any, position: int, contract: FeatureContract
    ) -> tuple[Any, str | int | None]:
        """Return the features and the id of a parsed document."""
        if type(document) is str:
            return self._of_text(document, contract, ("documents", position)), None
        if type(document) is not dict:
            refuse(f"documents[{position}]", "an object with features", document, f"/documents/{position}")
        one = document.get("id")
        if self.described:
            one = one if type(one) in _IDS else None
        else:
            if not document.keys() <= _DOCUMENT:
                _refuse_members(document, position)
            if "id" in document and type(one) not in _IDS:
                _refuse_id(one, position, pointer("documents", position, "id"))
        if "features" in document:
            return document["features"], one
        if type(document.get("text")) is not str:
            raise Problem(
                422, f"documents[{position}] has no features", pointer=pointer("documents", position)
            )
        return self._of_text(document["text"], contract, ("documents", position, "text")), one

    def _of_text(self, text: str, contract: FeatureContract, steps: tuple[str | int, ...]) -> Any:
        """Return the features that a text holds, in order or by name."""
        at, called = pointer(*steps), f"documents[{steps[1]}]"
        try:
            found = features_of(text, contract.positions)
        except WrongTextError as error:
            raise Problem(422, f"{called} {error}", pointer=at) from None
        if isinstance(found, Places):
            last = max(found.values, default=-1)
            if last >= contract.n_features:
                said = f"{called} holds the index {last + 1}; the model takes {contract.n_features} features"
                raise Problem(422, said, pointer=at)
            # Zero is a number; as a value of a category, or of the query, it would say something.
            zeros = {one.name: 0.0 for one in contract.features if one.plain}
            return zeros | {contract.names[at]: value for at, value in found.values.items()}
        if found is None or (type(found) is dict and contract.positions.keys().isdisjoint(found)):
            names = f"; found the names {listed([*found])}, which the model does not know" if found else ""
            raise Problem(
                422,
                f"{called} is a text that holds no features of the model; expected {FORMS}{names}",
                pointer=at,
            )
        return found

    def _unknown(
        self, features: dict[str, Any], contract: FeatureContract, steps: tuple[str | int, ...]
    ) -> list[str]:
        """Return the named features that the model does not know."""
        unknown = [name for name in features if name not in contract.positions]
        position = steps[1]
        inner = steps[-1] == "features"
        if unknown and self._limits.refuse_extra_features:
            raise Problem(
                422,
                f"documents[{position}] has feature {unknown[0]!r}, which the model does not know",
                pointer=pointer(*steps, *unknown[:inner]),
            )
        for name in unknown:
            if inner and isinstance(features[name], list | dict):
                at = pointer(*steps, name)
                refuse(f"documents[{position}].features[{name!r}]", "a number or null", features[name], at)
        return unknown

    def _matrix(
        self, known: RowColumns, gap: AbsentColumns | None
    ) -> tuple[Matrix, Callable[[int, int | None], str]]:
        """Return the rows of ``features``, in the order of the request, and where their values stand."""
        text = self._members["features"]
        if text.kind != "[":
            refuse("features", _TABLE["features"].kind.expected, text, "/features")
        elements, width = Elements(text), len(known.names)
        check_count(elements.count, self._limits, "/features", width=width)
        runs: Iterable[tuple[int, list[Any]]] = elements
        locate = _in_matrix
        if gap is not None:
            runs = ((first, list(map(gap.whole, run))) for first, run in elements)

            def locate(document: int, column: int | None) -> str:
                short = column is not None and gap.is_short(len(elements[document]))
                return (gap.located(_in_matrix) if short else _in_matrix)(document, column)

        return read_rows(runs, (elements.count, width), "features[{}]", locate, known), locate

    def _feature_names(self) -> list[str] | None:
        names = self._list(
            "feature_names", lambda n: f"{n} names; expected at most {_MOST_NAMES}" if n > _MOST_NAMES else ""
        )
        for position, name in enumerate(names or ()):
            if type(name) is not str:
                refuse(f"feature_names[{position}]", "a text", name, pointer("feature_names", position))
        return names

    def _ids(self, n_docs: int) -> list[str | int] | None:
        ids = self._members.get("ids")
        if type(ids) is not list or len(ids) != n_docs:
            ids = self._list("ids", lambda n: f"{n} ids for {n_docs} documents" if n != n_docs else "")
        if ids is not None and not _IDS.issuperset(map(type, ids)):
            position = next(i for i, one in enumerate(ids) if type(one) not in _IDS)
            _refuse_id(ids[position], position, pointer("ids", position))
        return ids

    def _list(self, name: str, wrong: Callable[[int], str]) -> list[Any] | None:
        """Return a member that is a list, or null, unless something is wrong with its number of elements."""
        value = self._members.get(name)
        elements = Elements(value) if isinstance(value, Text) and value.kind == "[" else None
        if elements is None and isinstance(value, Text):
            value = value.value()
        if value is None:
            return None
        if elements is None and type(value) is not list:
            refuse(name, _TABLE[name].kind.expected, value, pointer(name))
        count = len(value) if elements is None else elements.count
        if said := wrong(count):
            raise Problem(422, said, pointer=pointer(name))
        return list(value) if elements is None else elements.all()


def _special(
    contract: FeatureContract, names: Sequence[str] | None, columns: Array | None
) -> tuple[Mapping[int, Feature], Sequence[int]]:
    """Return the categories by their place in a row, and the places of what the model does not know."""
    if columns is None or names is None:
        return {at: contract.features[at] for at in contract.categories} if contract.categories else {}, ()
    categories = {int(columns[at]): contract.features[at] for at in contract.categories}
    return categories, [at for at, name in enumerate(names) if name not in contract.positions]


def _steps(document: Any, position: int) -> tuple[str | int, ...]:
    """Return the way to the features of a document."""
    if type(document) is str:
        return "documents", position
    is_text = type(document) is dict and "features" not in document and "text" in document
    return "documents", position, "text" if is_text else "features"


def _in_row(document: int, column: int | None) -> str:
    steps = ("documents", document, "features")
    return pointer(*steps) if column is None else pointer(*steps, column)


def _in_matrix(document: int, column: int | None) -> str:
    return pointer("features", document) if column is None else pointer("features", document, column)


def _too_many_unknown(which: str, at: str, passes: str = "") -> Problem:
    said = f"{which} name more than {_MOST_IGNORED} features that the model does not know, the limit of this server"
    return Problem(413, said + passes, pointer=at)


def _refuse_id(found: Any, position: int, at: str) -> NoReturn:
    refuse(f"the id of document {position}", "a text or an integer", found, at)


def _refuse_members(document: dict[str, Any], position: int) -> NoReturn:
    name = min(document.keys() - _DOCUMENT)
    raise Problem(
        422,
        f"documents[{position}]: unknown member {name!r}; expected id and features",
        pointer=pointer("documents", position, name),
    )
