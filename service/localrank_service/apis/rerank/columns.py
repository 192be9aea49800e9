"""``columns``: a list of values for each feature of the documents, a bare value for each feature of the query.

Compiled code lifts the lists of numbers out of a plain body (`plain_columns`). Columns that are not as they should be are
read list by list, which also finds errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from localrank.errors import InvalidDocuments
from localrank.native.texts import lift_numbers
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.numbers import read_flat
from localrank_service.wire.query import check_count
from localrank_service.wire.text import Elements, Text, outline_members, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Indices, Matrix
    from localrank.features.contract import FeatureContract
    from localrank.features.feature import Feature
    from localrank_service.wire.query import Limits

_MOST_COLUMNS = 2**15
#: Characters of a value in a sentence.
_MOST_OF_VALUE = 60
#: Names of features in a sentence.
_MOST_SHOWN = 3


class NamedColumns(NamedTuple):
    """What columns say.

    Attributes:
        matrix: ``[n_docs, n_features]`` float32 in the model's order; NaN where there is no list.
        of_query: the bare values, by name.
        unknown: names of lists that the model does not know.
    """

    matrix: Matrix
    of_query: dict[str, Any]
    unknown: list[str]


class PlainColumns(NamedTuple):
    """The columns of a plain body.

    Attributes:
        body: all of it.
        lifted: the row in ``values`` of each list that has only numbers and nulls.
        values: ``[n_lifted, n_docs]``.
        spans: ``[n_lifted, 4]``, where each list stands in the body.
        parsed: all others.
    """

    body: bytes
    lifted: dict[str, int]
    values: Matrix
    spans: Indices
    parsed: dict[str, Any]

    def list_of(self, name: str) -> Any:
        """Return a list as it was sent: a value of a category may have more digits than float32."""
        row = self.lifted.get(name)
        return self.parsed[name] if row is None else _sent(self.body, self.spans[row])


def plain_columns(body: bytes, limits: Limits) -> dict[str, Any] | None:
    """Return the members of a request if it is plain and has ``columns``, which are `PlainColumns`."""
    lifted = lift_numbers(body, b"", numbers=limits.max_numbers, arrays=_MOST_COLUMNS)
    members = None if lifted is None else outline_members(lifted.outline)
    if lifted is None or members is None or type(members.get("columns")) is not dict:
        return None
    row, rows, names = 0, {}, len(members)
    for name, value in members.items():
        if value is None:
            # Not a column, such as ids.
            members[name], row = _sent(body, lifted.spans[row]), row + 1
        if type(value) is not dict:
            continue
        names += len(value)
        for inner, one in value.items():
            if one is None and name == "columns":
                rows[inner], row = row, row + 1
            elif one is None:
                value[inner], row = _sent(body, lifted.spans[row]), row + 1
    spans = lifted.spans
    # No member stands twice, and no list is deeper.
    if names != lifted.members or row != len(spans):
        return None
    which = list(rows.values())
    widths = spans[which, 3]
    if spans[which, 2].any() or (widths != widths[:1]).any():
        return None
    # Nothing stands between the lists of one object, neither in the body nor in the values.
    begin = int((np.maximum(spans[:, 2], 1) * spans[:, 3])[: which[0]].sum()) if which else 0
    width = int(widths[0]) if which else 0
    values = lifted.values[begin : begin + len(which) * width].reshape(len(which), width)
    found = members["columns"]
    parsed = {name: value for name, value in found.items() if name not in rows}
    lists = {name: place for place, name in enumerate(rows)}
    members["columns"] = PlainColumns(body, lists, values, spans[which], parsed)
    return members


def of_plain(given: PlainColumns, contract: FeatureContract, limits: Limits) -> NamedColumns | None:
    """Return what plain columns say, if they fit."""
    parsed = given.parsed
    lists = [name for name, value in parsed.items() if type(value) is list]
    n_docs = given.values.shape[1] if given.lifted else len(parsed[lists[0]]) if lists else 0
    unknown = [name for name in (*given.lifted, *lists) if name not in contract.positions]
    n_known = len(given.lifted) + len(lists) - len(unknown)
    if not n_known or (unknown and limits.refuse_extra_features):
        return None
    if n_docs > limits.max_documents or n_docs * contract.n_features > limits.max_numbers:
        return None
    if any(type(value) is dict for value in parsed.values()):
        return None
    if any(len(parsed[name]) != n_docs for name in lists):
        return None
    matrix = np.full((n_docs, contract.n_features), np.nan, np.float32)
    known = {name: contract.positions[name] for name in (*given.lifted, *lists) if name not in unknown}
    numbers = {name: at for name, at in known.items() if contract.features[at].kind == "number"}
    if not numbers.keys() <= given.lifted.keys():
        return None
    matrix[:, [*numbers.values()]] = given.values[[given.lifted[name] for name in numbers]].T
    for name, at in known.items():
        if name not in numbers:
            try:
                matrix[:, at] = contract.features[at].codes_of(given.list_of(name))
            except TypeError:
                return None
    of_query = {name: value for name, value in parsed.items() if type(value) is not list}
    return NamedColumns(matrix, of_query, unknown)


def read_columns(text: Text, contract: FeatureContract, limits: Limits, n_ids: int | None) -> NamedColumns:
    """Read all columns, or raise a `Problem`.

    Args:
        text: the member ``columns``.
        contract: of the model.
        limits: of the request.
        n_ids: how many ids there are, if there are any; they count the documents if no list does.
    """
    if text.kind != "{":
        refuse("columns", "an object of lists and values", text, text.at)
    lists: dict[str, Text] = {}
    of_query: dict[str, Any] = {}
    for name, one in text.members(_MOST_COLUMNS).items():
        if one.kind == "[":
            lists[name] = one
        elif one.kind == "{":
            refuse(_called(name), "a list, or the value of a feature of the query", one, one.at)
        else:
            of_query[name] = one.value()
    known = {name: one for name, one in lists.items() if name in contract.positions}
    unknown = [name for name in lists if name not in known]
    if lists and not known:
        shown = ", ".join(map(repr, contract.names[:_MOST_SHOWN]))
        said = f"columns: expected lists of features of the model, such as {shown}, found {unknown[0]!r}"
        raise Problem(422, said, pointer=text.at)
    if unknown and limits.refuse_extra_features:
        said = f"columns has feature {unknown[0]!r}, which the model does not know"
        raise Problem(422, said, pointer=lists[unknown[0]].at)
    n_docs = _count(lists, n_ids, text.at)
    check_count(n_docs, limits, text.at, width=contract.n_features)
    matrix = np.full((n_docs, contract.n_features), np.nan, np.float32)
    for name, one in known.items():
        at = contract.positions[name]
        matrix[:, at] = _values(name, one, contract.features[at], n_docs)
    return NamedColumns(matrix, of_query, unknown)


def merged(
    of_query: Mapping[str, Any], stated: Mapping[str, Any] | None, contract: FeatureContract
) -> dict[str, Any]:
    """Return the values of ``query_features`` and the bare ones together.

    Raises:
        Problem: 422 if one is no feature of the query, or stands in both with different values.
    """
    found = dict(stated or {})
    for name, value in of_query.items():
        at = pointer("columns", name)
        known = contract.positions.get(name)
        if known is not None and contract.features[known].scope == "document":
            found_here = "null" if value is None else orjson.dumps(value).decode()[:_MOST_OF_VALUE]
            said = f"{_called(name)}: expected a list with a value for each document, found {found_here}"
            raise Problem(422, said, pointer=at)
        try:
            _, number = contract.query_value(name, value)
            other = contract.query_value(name, found[name])[1] if name in found else number
        except InvalidDocuments as error:
            raise Problem(422, f"columns: {error}", pointer=at) from None
        if number != other and not (np.isnan(number) and np.isnan(other)):
            raise Problem(
                422,
                f"{_called(name)} is {value!r}; expected {found[name]!r}, as query_features has it",
                pointer=at,
            )
        found[name] = value
    return found


def _called(name: str) -> str:
    return f"columns[{name!r}]"


def _sent(body: bytes, span: Indices) -> Any:
    begin, end = span[:2].tolist()
    return orjson.loads(body[begin:end])


def _count(lists: Mapping[str, Text], n_ids: int | None, at: str) -> int:
    """Return how many documents there are; all lists have as many values."""
    if not lists:
        if n_ids is None:
            raise Problem(
                422, "columns: expected a list for a feature of the documents, found none", pointer=at
            )
        return n_ids
    (first, one), *others = lists.items()
    expected = Elements(one).count
    for name, other in others:
        if (count := Elements(other).count) != expected:
            raise Problem(
                422,
                f"{_called(name)} has {count} values; expected {expected}, as {_called(first)} has",
                pointer=other.at,
            )
    return expected


def _values(name: str, text: Text, feature: Feature, n_docs: int) -> Matrix:
    """Return the values of one list."""
    elements = Elements(text)
    if feature.kind == "number":
        return read_flat(elements, n_docs, _called(name), lambda at: text.at + pointer(at))
    found = np.empty(n_docs, np.float32)
    for first, run in elements:
        try:
            found[first : first + len(run)] = feature.codes_of(run)
        except TypeError:
            at = next(at for at, one in enumerate(run) if type(one) in {list, dict})
            expected = "a text, a number, true, false or null"
            refuse(f"{_called(name)}[{first + at}]", expected, run[at], text.at + pointer(first + at))
    return found
