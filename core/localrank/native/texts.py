"""JSON texts: what they hold, and their numbers.

The numbers of a JSON text, lifted out of it (json.c).

What a JSON text holds, and where its parts begin and end (scan.c).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank.native.library import address_of, library

if TYPE_CHECKING:
    from localrank.arrays import Indices, Matrix

#: The least that an array takes, besides the name of the member: ``"":[0]``.
_LEAST_SPAN = 6


class Numbers(NamedTuple):
    """The arrays of numbers in a text.

    Attributes:
        outline: the text with null where an array was, or a list of the array's texts and truth values if it has any; it is
            JSON exactly if the text is.
        members: how many members all objects of the text have; one that stands twice counts twice.
        spans: ``[n_arrays, 4]``: where in the text each begins and ends, how many rows it has (none if it holds the
            numbers itself), and their width.
        values: the numbers of all arrays; a null is NaN, and so is what is no number.
        places: where among `values` each text or truth value was, in the order of the outline.
    """

    outline: bytes
    members: int
    spans: Indices
    values: Matrix
    places: Indices

    def array(self, position: int = 0) -> Matrix:
        """Return one of the arrays, ``[n_rows, width]`` or flat."""
        begin = end = rows = 0
        for _, _, rows, width in self.spans[: position + 1].tolist():
            begin, end = end, end + max(rows, 1) * width
        values = self.values[begin:end]
        return values.reshape(rows, -1) if rows else values


def lift_numbers(text: bytes, name: bytes, *, numbers: int, arrays: int, texts: int = 0) -> Numbers | None:
    """Lift every array of numbers that is a member of this name, or of any if it is empty; ``None`` if the text is unusual.

    In the parsed outline, each lifted array is a null member of that name, or a list that begins with a text or a truth
    value; they are in the order of `spans`. A text with more than ``numbers`` numbers or ``arrays`` arrays is unusual.

    Args:
        text: JSON.
        name: of the members.
        numbers: how many there may be.
        arrays: how many there may be.
        texts: how many texts and truth values there may be among the numbers.
    """
    compiled = library()
    if compiled is None:
        return None
    size = len(text)
    # No two numbers share one byte of the text, and every array may make the outline a byte longer. Memory that is not
    # written to costs nothing, because the system provides large buffers page by page.
    n_values = min(size // 2 + 1, numbers)
    n_spans = min(size // (_LEAST_SPAN + len(name)) + 1, arrays)
    n_outline, n_places = size + n_spans, min(n_values, texts)
    spans_at = 4
    places_at = spans_at + 4 * n_spans
    values_at = places_at + n_places
    outline_at = values_at + n_values // 2 + 1
    buffer = np.empty(outline_at + n_outline // 8 + 1, np.int64)
    address = address_of(buffer)
    found = compiled.localrank_lift_numbers(
        text, size, name, len(name), powers_of_five(),
        address + 8 * values_at, n_values, address + 8 * spans_at, n_spans, address + 8 * outline_at, n_outline,
        address + 8 * places_at, n_places, address,
    )  # fmt: skip
    if found < 0:
        return None
    n_values, n_outline, members, n_places = buffer[:spans_at].tolist()
    return Numbers(
        ctypes.string_at(address + 8 * outline_at, n_outline) if found else text,
        members,
        buffer[spans_at : spans_at + 4 * found].reshape(found, 4),
        buffer[values_at:outline_at].view(np.float32)[:n_values],
        buffer[places_at : places_at + n_places],
    )


@cache
def powers_of_five() -> ctypes.Array[ctypes.c_uint64]:
    """Return the first 128 bits of five to the powers from -342 to 308, as Eisel and Lemire's method takes them.

    Those whose inverse has fewer than 64 bits are rounded up, all others down.
    """
    words = []
    for power in range(-342, 309):
        five = 5 ** abs(power)
        length = five.bit_length()
        bits = (five << 128) >> length if power >= 0 else (1 << (length + 127)) // five + (power >= -27)
        words += [bits >> 64, bits & (2**64 - 1)]
    return (ctypes.c_uint64 * len(words))(*words)


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
