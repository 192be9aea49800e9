"""JSON whose numbers go straight into one buffer, without a Python object for each.

Compiled code (``localrank/native/json.c``) lifts the arrays of numbers out of a body; what is left of it, the outline, is
small and parsed as any JSON is. This is only for bodies that are plain in every respect. For any other there is no
answer, and the caller reads it another way, which also says what is wrong with it. Where there is no compiled code no
body is plain, and all answers are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from localrank.native.lift import Numbers, lift_numbers

if TYPE_CHECKING:
    from localrank.arrays import Array, Matrix

__all__ = ["Lifted", "Rows", "count_members", "lift", "plain_members"]

#: No parser minds so many levels.
_SHALLOW = 100

_CONTAINERS = frozenset({dict, list})
_ID_TYPES = frozenset({str, int, type(None)})


class Lifted(Numbers):
    """A body whose arrays of numbers were lifted out of it."""

    __slots__ = ()

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
    found = lift_numbers(body, name)
    return None if found is None else Lifted(*found)


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
