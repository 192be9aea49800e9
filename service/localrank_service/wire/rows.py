"""The one reader of rows that stand in JSON and were not lifted out of it by compiled code.

Rows come run by run. One call packs a run. If the run holds other values than numbers, its rows are read value by
value: nulls become missing values, and an error says what is wrong and where.
"""

from __future__ import annotations

import struct
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank_service.http.problems import Problem
from localrank_service.wire.query import to_float32
from localrank_service.wire.text import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from localrank.arrays import Matrix

_NUMBERS = frozenset({float, int})
_CELLS = _NUMBERS | {type(None)}


def read_rows(
    runs: Iterable[tuple[int, list[Any]]],
    shape: tuple[int, int],
    name: str,
    locate: Callable[[int, int | None], str],
) -> Matrix:
    """Return the rows as one array; nulls become NaN.

    Args:
        runs: the position of the first of some parsed rows, and these; all together ``shape[0]``.
        shape: ``[n_rows, width]``.
        name: of a row in sentences, ``{}`` being its position.
        locate: the JSON pointer of a row, or of one of its values.
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
        wrong, packed = _packed(list(chain.from_iterable(rows)))
        if wrong is not None:
            position, column = first + wrong // width, wrong % width
            found = rows[wrong // width][column]
            refuse(f"{name.format(position)}[{column}]", "a number or null", found, locate(position, column))
        matrix[first : first + len(rows)] = packed.reshape(-1, width)
    return matrix


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
