"""Numbers of JSON as float32: lifted out of a plain body by compiled code, or read row by row.

Compiled code (`localrank.native.texts`) lifts the arrays of numbers out of a body; what is left of it, the outline,
is small and parsed as any JSON is. This is only for bodies that are plain in every respect. For any other body it
returns nothing, and the caller reads the rows in the slow way (`read_rows`), which also finds errors. Without the compiled
library no body counts as plain, and all answers are the same.
"""

from __future__ import annotations

import struct
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from localrank.native.texts import lift_numbers
from localrank_service.http.problems import Problem
from localrank_service.wire.query import to_float32
from localrank_service.wire.text import outline_members, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from localrank.arrays import Indices, Matrix
    from localrank.features.feature import Feature
    from localrank.native.texts import Numbers
    from localrank_service.wire.query import Limits

#: Members whose values are objects of numbers or texts.
_OBJECTS = ("boost", "query_features")
_ID_TYPES = frozenset({str, int, type(None)})
#: Texts and truth values among the numbers of a plain body: as many as its outline may hold.
_MOST_TEXTS = 2**15


class PlainRows(NamedTuple):
    """The documents of a request: ``[n_docs, n_features]`` float32.

    Attributes:
        values: a null is NaN, and so is what is no number.
        ids: of the documents, if any has one.
        texts: texts and truth values among the values.
        places: ``[n_texts]`` where they stand, counted row by row.
    """

    values: Matrix
    ids: list[str | int | None] | None
    texts: Sequence[str | bool | None]
    places: Indices

    def coded(self, categories: Mapping[int, Feature], ignored: Collection[int]) -> Matrix | None:
        """Return the values with codes of categories, by column; ``None`` if that takes more than is known here.

        So it is if a text stands elsewhere than in these columns, or an ``ignored`` one. So it is if a value of a category
        is a number, as only its text tells which.
        """
        values, cells = self.values, self.texts
        width, named = values.shape[1], sorted(categories)
        if not np.isnan(values[:, named]).all():
            return None
        rows, columns = np.divmod(self.places, width)
        position = np.full(width, -1)
        position[named] = range(len(named))
        among = position[columns]
        if (elsewhere := among < 0).any():
            if not set(columns[elsewhere].tolist()) <= set(ignored):
                return None
            cells = list(compress(cells, (~elsewhere).tolist()))
            rows, among = rows[~elsewhere], among[~elsewhere]
        count = len(values) * len(named)
        if len(cells) < count:  # the others are null
            given, cells = cells, [None] * count
            for at, one in zip((rows * len(named) + among).tolist(), given, strict=True):
                cells[at] = one
        codes = chain.from_iterable(
            categories[column].codes_of(cells[at :: len(named)]) for at, column in enumerate(named)
        )
        values = values.copy()  # another model may ask for its own codes
        values[:, named] = np.fromiter(codes, np.float32, count).reshape(len(named), len(values)).T
        return values


def plain_members(body: bytes, limits: Limits, *, described: bool = False) -> dict[str, Any] | None:
    """Return the members of a rerank request if it is plain; ``features`` and ``documents`` are `PlainRows`.

    Documents that are ``described`` may have any members besides their features; what is no id is none.
    """
    lifted = lift_numbers(
        body, b"features", numbers=limits.max_numbers, arrays=limits.max_documents, texts=_MOST_TEXTS
    )
    if lifted is None or not len(lifted.spans):
        return None
    members = outline_members(lifted.outline)
    if members is None or ("features" in members) == ("documents" in members):
        return None
    # No member stands twice, and there are no deeper ones.
    known = len(members)
    for name in _OBJECTS:
        known += len(members[name]) if type(members.get(name)) is dict else 0
    if "documents" not in members:
        texts = _texts([members], lifted)
        if len(lifted.spans) != 1 or texts is None or lifted.members != known:
            return None
        members["features"] = PlainRows(lifted.array(), None, texts, lifted.places)
        return members
    rows = _rows(members["documents"], lifted, lifted.members - known, described=described)
    return None if rows is None else members | {"documents": rows}


def _rows(documents: Any, lifted: Numbers, members: int, *, described: bool) -> PlainRows | None:
    """Return the documents if all have as many numbers; ``members`` is how many members they have together."""
    spans = lifted.spans
    if type(documents) is not list or len(documents) != len(spans):
        return None
    # No document has a member twice, and there are no deeper members.
    if not {dict}.issuperset(map(type, documents)) or sum(map(len, documents)) != members:
        return None
    texts = _texts(documents, lifted)
    if texts is None or spans[:, 2].any() or (spans[:, 3] != spans[0, 3]).any():
        return None
    values = lifted.values.reshape(len(documents), -1)
    others = members - len(documents)
    ids = None
    if others:
        ids = [document.get("id") for document in documents]
        if described:
            ids = [one if type(one) in _ID_TYPES else None for one in ids]
        elif len(ids) - ids.count(None) != others or not _ID_TYPES.issuperset(map(type, ids)):
            return None
    return PlainRows(values, ids, texts, lifted.places)


def _texts(holders: Sequence[dict[str, Any]], lifted: Numbers) -> list[str | bool] | None:
    """Return the texts of the lifted arrays, if each holder had exactly one of these arrays."""
    texts: list[str | bool] = []
    for one in holders:
        if (kept := one.get("features", lifted)) is not None:
            # A list that was not lifted is empty or begins with an object.
            if type(kept) is not list or not kept or type(kept[0]) not in _TEXTS:
                return None
            texts += kept
    return texts


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
