"""Numbers of JSON as float32: lifted out of a plain body by compiled code, or read row by row.

Compiled code (`localrank.native.texts`) lifts the arrays of numbers out of a body; what is left of it, the outline,
is small and parsed as any JSON is. This is only for bodies that are plain in every respect. For any other body it
returns nothing, and the caller reads the rows in the slow way (`read_rows`), which also finds errors. Without the compiled
library no body counts as plain, and all answers are the same.
"""

from __future__ import annotations

import struct
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from localrank.native.texts import lift_numbers
from localrank_service.http.problems import Problem
from localrank_service.wire.query import to_float32
from localrank_service.wire.text import outline_members, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from localrank.arrays import Matrix
    from localrank.features.feature import Feature
    from localrank.native.texts import Numbers
    from localrank_service.wire.query import Limits

#: Members whose values are objects of numbers or texts.
_OBJECTS = ("boost", "query_features")
_ID_TYPES = frozenset({str, int, type(None)})


class DocumentRows(NamedTuple):
    """The documents of a request: ``[n_docs, n_features]`` float32, and their ids if any has one."""

    values: Matrix
    ids: list[str | int | None] | None


def plain_members(body: bytes, limits: Limits, *, described: bool = False) -> dict[str, Any] | None:
    """Return the members of a rerank request if it is plain.

    ``features`` is an array ``[n_docs, n_features]``, and ``documents`` is `DocumentRows`; ``null`` is NaN in both.
    Documents that are ``described`` may have any members besides their features, and no ids are read.
    """
    lifted = lift_numbers(body, b"features", numbers=limits.max_numbers, arrays=limits.max_documents)
    if lifted is None or not len(lifted.spans):
        return None
    members = outline_members(lifted.outline)
    if members is None or ("features" in members) == ("documents" in members):
        return None
    # No member stands twice, and there are no deeper ones.
    known = len(members) + sum(len(members[name]) for name in _OBJECTS if type(members.get(name)) is dict)
    if "documents" not in members:
        if len(lifted.spans) != 1 or members["features"] is not None or lifted.members != known:
            return None
        members["features"] = lifted.array()
        return members
    rows = _rows(members["documents"], lifted, lifted.members - known, described=described)
    return None if rows is None else members | {"documents": rows}


def _rows(documents: Any, lifted: Numbers, members: int, *, described: bool) -> DocumentRows | None:
    """Return the documents if all have as many numbers; ``members`` is how many members they have together."""
    spans = lifted.spans
    if type(documents) is not list or len(documents) != len(spans):
        return None
    # No document has a member twice, and there are no deeper members.
    if not {dict}.issuperset(map(type, documents)) or sum(map(len, documents)) != members:
        return None
    if any(document.get("features", spans) is not None for document in documents):
        return None
    if spans[:, 2].any() or (spans[:, 3] != spans[0, 3]).any():
        return None
    values = lifted.values.reshape(len(documents), -1)
    others = members - len(documents)
    if described or not others:
        return DocumentRows(values, None)
    ids = [document.get("id") for document in documents]
    if len(ids) - ids.count(None) != others or not _ID_TYPES.issuperset(map(type, ids)):
        return None
    return DocumentRows(values, ids)


class RowColumns(NamedTuple):
    """What is known of the columns of rows.

    Attributes:
        names: of all, for sentences; or none.
        categories: by position.
        ignored: positions of those that the model does not know; they may hold texts and truth values.
    """

    names: Sequence[str]
    categories: Mapping[int, Feature]
    ignored: Sequence[int] = ()


_NUMBERED = RowColumns((), {})
_TEXTS = frozenset({str, bool})
_NUMBERS = frozenset({float, int})
_CELLS = _NUMBERS | {type(None)}


def read_rows(
    runs: Iterable[tuple[int, list[Any]]],
    shape: tuple[int, int],
    name: str,
    locate: Callable[[int, int | None], str],
    columns: RowColumns = _NUMBERED,
) -> Matrix:
    """Return the rows as one array; nulls become NaN, values of categories their codes.

    Args:
        runs: the position of the first of some parsed rows, and these; all together ``shape[0]``.
        shape: ``[n_rows, width]``.
        name: of a row in sentences, ``{}`` being its position.
        locate: the JSON pointer of a row, or of one of its values.
        columns: what is known of them.
    """
    matrix = np.empty(shape, np.float32)
    width = shape[1]
    for first, rows in runs:
        for position, row in enumerate(rows, first):
            if type(row) is not list:
                refuse(name.format(position), "a list of numbers", row, locate(position, None))
            if len(row) != width:
                raise Problem(
                    422,
                    f"{name.format(position)} has {len(row)} values; expected {width}",
                    pointer=locate(position, None),
                )
        cells = list(chain.from_iterable(rows))
        wrong, expected = None, "a number or null"
        for column in columns.ignored:
            cells[column::width] = [0.0 if type(one) in _TEXTS else one for one in cells[column::width]]
        for column, feature in columns.categories.items():
            try:
                cells[column::width] = feature.codes_of(cells[column::width])
            except TypeError:
                wrong, expected = (
                    _first_container(cells, column, width),
                    "a text, a number, true, false or null",
                )
                break
        else:
            wrong, packed = _packed(cells)
        if wrong is not None:
            position, column = first + wrong // width, wrong % width
            called = f" ({columns.names[column]})" if columns.names else ""
            said = f"{name.format(position)}[{column}]{called}"
            refuse(said, expected, rows[wrong // width][column], locate(position, column))
        matrix[first : first + len(rows)] = packed.reshape(-1, width)
    return matrix


def _first_container(cells: list[Any], column: int, width: int) -> int:
    return next(at for at in range(column, len(cells), width) if type(cells[at]) in {list, dict})


def read_flat(
    runs: Iterable[tuple[int, list[Any]]], count: int, name: str, locate: Callable[[int], str]
) -> Matrix:
    """Return the numbers as one flat array of this length; nulls become NaN."""
    values = np.empty(count, np.float32)
    for first, cells in runs:
        wrong, packed = _packed(cells)
        if wrong is not None:
            refuse(f"{name}[{first + wrong}]", "a number or null", cells[wrong], locate(first + wrong))
        values[first : first + len(cells)] = packed
    return values


def _packed(cells: list[Any]) -> tuple[int | None, Matrix]:
    """Return the position of the first value that is neither a number nor null, and the numbers if there is none."""
    kinds = set(map(type, cells))
    if kinds <= _NUMBERS:
        return None, to_float32(np.frombuffer(struct.pack(f"{len(cells)}d", *cells)))
    if kinds <= _CELLS:
        return None, to_float32(np.array(cells, np.float64))
    return next(position for position, cell in enumerate(cells) if type(cell) not in _CELLS), np.zeros(
        0, np.float32
    )
