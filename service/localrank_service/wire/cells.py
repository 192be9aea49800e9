"""Rows of parsed JSON, packed into one buffer by one call, or looked at value by value where that call refuses them."""

from __future__ import annotations

import json
import struct
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from localrank_service.http.problems import Problem
from localrank_service.wire.query import to_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix

__all__ = ["pack", "refuse"]

_CELLS = frozenset({float, int, type(None)})


def pack(
    rows: list[Any], width: int, name: str, locate: Callable[[int, int | None], str], *, strict: bool
) -> Matrix:
    """Return the rows as one array; nulls become NaN.

    Args:
        rows: of parsed JSON.
        width: how many values each has to have.
        name: of a row in sentences, ``{}`` being its position.
        locate: the JSON pointer of a row, or of one of its values.
        strict: there may be booleans, which packing would take for numbers.
    """
    if not rows:
        return np.zeros((0, width), np.float32)
    try:
        if not strict and {width} == set(map(len, rows)):
            packed = struct.pack(f"{len(rows) * width}d", *chain.from_iterable(rows))
            return to_float32(np.frombuffer(packed).reshape(len(rows), width))
    except (TypeError, struct.error):
        pass  # a value is null, or wrong: find it
    values = np.empty((len(rows), width))
    for position, row in enumerate(rows):
        if type(row) is not list:
            refuse(name.format(position), "a list of numbers", row, locate(position, None))
        if len(row) != width:
            raise Problem(
                422,
                f"{name.format(position)} has {len(row)} values; expected {width}",
                pointer=locate(position, None),
            )
        if not set(map(type, row)) <= _CELLS:
            column = next(i for i, cell in enumerate(row) if type(cell) not in _CELLS)
            refuse(
                f"{name.format(position)}[{column}]",
                "a number or null",
                row[column],
                locate(position, column),
            )
        values[position] = row
    return to_float32(values)


def refuse(name: str, expected: str, found: Any, at: str) -> NoReturn:
    """Raise the problem of a value that is of another kind than expected."""
    if isinstance(found, str | int | float | bool | None):
        text = json.dumps(found, ensure_ascii=False)
        shown = text if len(text) <= 40 else text[:37] + "…"
    else:
        shown = "a list" if isinstance(found, list) else "an object"
    raise Problem(422, f"{name}: expected {expected}, found {shown}", pointer=at)
