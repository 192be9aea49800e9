"""JSON whose numbers go straight into one buffer, without a Python object for each.

Compiled code (`localrank.native.lift`) lifts the arrays of numbers out of a body; what is left of it, the outline,
is small and parsed as any JSON is. This is only for bodies that are plain in every respect. For any other body it
returns nothing, and the caller reads the body in the slow way, which also finds errors. Without the compiled library no
body counts as plain, and all answers are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from localrank.native.lift import lift_numbers
from localrank_service.wire.text import outline_members

if TYPE_CHECKING:
    from localrank.arrays import Matrix
    from localrank.native.lift import Numbers
    from localrank_service.wire.query import Limits

_ID_TYPES = frozenset({str, int, type(None)})


class Rows(NamedTuple):
    """The documents of a request: ``[n_docs, n_features]`` float32, and their ids if any has one."""

    values: Matrix
    ids: list[str | int | None] | None


def plain_members(body: bytes, limits: Limits, *, described: bool = False) -> dict[str, Any] | None:
    """Return the members of a rerank request if it is plain.

    ``features`` is an array ``[n_docs, n_features]``, and ``documents`` is `Rows`; ``null`` is NaN in both.
    Documents that are ``described`` may have any members besides their features, and no ids are read.
    """
    lifted = lift_numbers(body, b"features", numbers=limits.max_numbers, arrays=limits.max_documents)
    if lifted is None or not len(lifted.spans):
        return None
    members = outline_members(lifted.outline)
    if members is None or ("features" in members) == ("documents" in members):
        return None
    if "documents" not in members:
        if len(lifted.spans) != 1 or members["features"] is not None or lifted.members != len(members):
            return None
        members["features"] = lifted.array()
        return members
    rows = _rows(members["documents"], lifted, lifted.members - len(members), described=described)
    return None if rows is None else members | {"documents": rows}


def _rows(documents: Any, lifted: Numbers, members: int, *, described: bool) -> Rows | None:
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
        return Rows(values, None)
    ids = [document.get("id") for document in documents]
    if len(ids) - ids.count(None) != others or not _ID_TYPES.issuperset(map(type, ids)):
        return None
    return Rows(values, ids)
