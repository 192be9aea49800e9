"""JSON whose numbers go straight into one buffer, without a Python object for each.

Compiled code (``localrank/native/json.c``) lifts the arrays of numbers out of a body; what is left of it, the outline, is
small and parsed as any JSON is. This is only for bodies that are plain in every respect. For any other there is no
answer, and the caller reads it another way, which also says what is wrong with it. Where there is no compiled code no
body is plain, and all answers are the same.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from localrank import native

if TYPE_CHECKING:
    from localrank.arrays import Array, Matrix

__all__ = ["Lifted", "Rows", "count_members", "lift", "plain_members"]

#: The least that an array takes, besides the name of the member: ``"":[0]``.
_LEAST_SPAN = 6

#: No parser minds so many levels.
_SHALLOW = 100

_CONTAINERS = frozenset({dict, list})
_ID_TYPES = frozenset({str, int, type(None)})


class Lifted(NamedTuple):
    """A body whose arrays of numbers were lifted out of it.

    Attributes:
        outline: the body with null where an array was; it is JSON exactly if the body is.
        members: how many members all objects of the body have, any that stand twice included.
        spans: ``[n_arrays, 4]``: where in the body each begins and ends, how many rows it has, none if it holds the
            numbers itself, and their width.
        values: the numbers of all arrays, float32; a null is NaN.
    """

    outline: bytes
    members: int
    spans: Array
    values: Matrix

    def array(self, position: int = 0) -> Array:
        """Return one of the arrays, ``[n_rows, width]`` or flat."""
        counts = [max(rows, 1) * width for _, _, rows, width in self.spans[: position + 1].tolist()]
        begin, rows = sum(counts[:-1]), int(self.spans[position, 2])
        values = self.values[begin : begin + counts[-1]]
        return values.reshape(rows, -1) if rows else values

    def parsed(self, position: int, body: bytes) -> Any:
        """Return one of the arrays as Python objects; ``body`` is what it was lifted out of."""
        begin, end = self.spans[position, :2]
        return orjson.loads(body[begin:end])


class Rows(NamedTuple):
    """The documents of a request: ``[n_docs, n_features]`` float32, and their ids if any has one."""

    values: Matrix
    ids: list[str | int | None] | None


def lift(body: bytes, name: bytes) -> Lifted | None:
    """Lift every array of numbers that is a member of this name, or nothing where the body is unusual.

    Wherever a member of that name is null in the parsed outline an array was lifted; they are in the order of `spans`.
    """
    opened = native.library()
    if opened is None:
        return None
    size = len(body)
    # No two numbers share one byte of the body, and every array may make the outline a byte longer. What is not written
    # to takes no memory: large buffers are given page by page.
    n_values, n_spans = size // 2 + 1, size // (_LEAST_SPAN + len(name)) + 1
    n_outline = size + n_spans
    spans_at = 3
    values_at = spans_at + 4 * n_spans
    outline_at = values_at + n_values // 2 + 1
    buffer = np.empty(outline_at + n_outline // 8 + 1, np.int64)
    address = buffer.ctypes.data
    found = opened.localrank_lift_numbers(
        body, size, name, len(name), _powers(),
        address + 8 * values_at, n_values, address + 8 * spans_at, n_spans, address + 8 * outline_at, n_outline, address,
    )  # fmt: skip
    if found < 0:
        return None
    n_values, n_outline, members = buffer[:spans_at].tolist()
    return Lifted(
        ctypes.string_at(address + 8 * outline_at, n_outline) if found else body,
        members,
        buffer[spans_at : spans_at + 4 * found].reshape(found, 4),
        buffer[values_at:outline_at].view(np.float32)[:n_values],
    )


@cache
def _powers() -> ctypes.Array[ctypes.c_uint64]:
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


def count_members(value: Any) -> int:
    """Return how many members the objects in parsed JSON have, none of which can stand twice."""
    if type(value) is dict:
        return len(value) + sum(count_members(one) for one in value.values() if type(one) in _CONTAINERS)
    if _CONTAINERS.isdisjoint(map(type, value)):
        return 0
    return sum(count_members(one) for one in value if type(one) in _CONTAINERS)


def plain_members(body: bytes, *, described: bool = False) -> dict[str, Any] | None:
    """Return the members of a rerank request if it is plain.

    ``features`` is an array, ``[n_docs, n_features]`` or flat, and ``documents`` is `Rows`; ``null`` is NaN in both.
    Documents that are ``described`` may have any members besides their features, and no ids are read.
    """
    lifted = lift(body, b"features")
    if lifted is None or not len(lifted.spans):
        return None
    try:
        members: Any = orjson.loads(lifted.outline)
    except orjson.JSONDecodeError:
        return None
    if type(members) is not dict or ("features" in members) == ("documents" in members):
        return None
    if "documents" not in members:
        if len(lifted.spans) != 1 or members["features"] is not None or lifted.members != len(members):
            return None
        members["features"] = lifted.array()
        return members
    rows = _rows(members["documents"], lifted, lifted.members - len(members), described=described)
    return None if rows is None else members | {"documents": rows}


def _rows(documents: Any, lifted: Lifted, members: int, *, described: bool) -> Rows | None:
    """Return the documents if all have as many numbers; ``members`` is how many members they have together."""
    spans = lifted.spans
    if type(documents) is not list or len(documents) != len(spans):
        return None
    # No member stands twice, in no document, and there are none further below.
    if not {dict}.issuperset(map(type, documents)) or sum(map(len, documents)) != members:
        return None
    if any(document.get("features", spans) is not None for document in documents):
        return None
    if spans[:, 2].any() or (spans[:, 3] != spans[0, 3]).any():
        return None
    values = lifted.values.reshape(len(documents), -1)
    others = members - len(documents)
    if described:
        # What documents are described with is nowhere else looked at; only parsers say where it is too deep.
        return None if lifted.outline.count(b"[") > _SHALLOW else Rows(values, None)
    if not others:
        return Rows(values, None)
    ids = [document.get("id") for document in documents]
    if len(ids) - ids.count(None) != others or not _ID_TYPES.issuperset(map(type, ids)):
        return None
    return Rows(values, ids)
