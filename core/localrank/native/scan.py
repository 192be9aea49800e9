"""What a JSON text holds, and where its parts begin and end (scan.c)."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank.native.addresses import address_of
from localrank.native.library import library

if TYPE_CHECKING:
    from localrank.arrays import Indices

#: How deep a text may be nested; the compiled scan has one bit for each level.
MOST_LEVELS = 64

#: A run of elements is parsed at once: 0.1 to 0.5 ms in which no other thread runs.
RUN_VALUES, RUN_BYTES = 2**12, 2**16


class Size(NamedTuple):
    """What a text holds, as far as it was read.

    Attributes:
        problem: why reading ended before the end: ``""``, ``"syntax"``, ``"levels"``, ``"members"`` or ``"numbers"``.
        at: where it ended.
        levels: how deep it is nested.
        numbers: how many numbers and nulls stand in arrays.
        members: how many other values there are.
        names: how many members all objects have together.
    """

    problem: str
    at: int
    levels: int
    numbers: int
    members: int
    names: int


_TOTALS = ctypes.c_int64 * 5
_PROBLEMS = ("", "syntax", "levels", "members", "numbers")


def scan(text: bytes, *, members: int, numbers: int, levels: int = MOST_LEVELS) -> Size | None:
    """Check that a text is JSON in UTF-8 and keeps the limits of levels, members and numbers."""
    compiled = library()
    if compiled is None:
        return None
    totals = _TOTALS()
    found = compiled.localrank_scan_json(text, len(text), levels, members, numbers, ctypes.addressof(totals))
    return Size(_PROBLEMS[found], *totals)


class Cut(NamedTuple):
    """An array or object, cut into runs of elements.

    Attributes:
        end: where in the text it ends.
        elements: how many it has.
        runs: ``[n_runs, 6]``: where a run begins and ends, how many elements it has, how many values it has at most with
            all that is in them, how many members the objects in it have, and where the first colon stands that is not
            within an element's value.
    """

    end: int
    elements: int
    runs: Indices


def cut(text: bytes, begin: int, end: int, *, single: int | None = None) -> Cut | None:
    """Cut the array or object that begins there; the text was scanned.

    Args:
        text: all of it.
        begin: where the bracket stands.
        end: where the array or object ends, or later.
        single: make each element a separate run, and return this many.
    """
    compiled = library()
    if compiled is None:
        return None
    values, size = (RUN_VALUES, RUN_BYTES) if single is None else (0, 0)
    # Two consecutive runs together exceed a limit, and every value takes at least a byte.
    most = 2 * (end - begin) * (RUN_VALUES + RUN_BYTES) // (RUN_VALUES * RUN_BYTES) + 2
    runs = np.empty((most if single is None else min(single, (end - begin) // 2), 6), np.int64)
    totals = _TOTALS()
    written = compiled.localrank_cut_json(
        text, begin, end, values, size, address_of(runs), len(runs), ctypes.addressof(totals)
    )
    if written < 0:
        raise ValueError("the text was not scanned")
    stop, elements, *_ = totals
    return Cut(stop, elements, runs[:written])
