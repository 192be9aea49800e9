"""JSON whose numbers go straight into one buffer, without a Python object for each.

simdjson parses the body and flattens lists of numbers. A flattened ``[[1,2,3],[4]]`` looks like ``[[1,2],[3,4]]``, it
keeps the first of a member that stands twice where other parsers keep the last, and it stops at the first ``null``. So
this is only for bodies that are plain in every respect, which is proved here; for any other there is no answer,
and the caller reads it another way, which also says what is wrong with it. Where simdjson is not installed no body is
plain, and all answers are the same.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

simdjson: Any
try:
    import simdjson
except ImportError:  # there is no wheel for this Python
    simdjson = None

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Array

__all__ = ["Reader", "Rows", "Unusual", "available", "plain", "plain_members"]

#: A parser keeps the buffers of its largest body, about fifteen times its size; more is not worth keeping.
_KEPT_BYTES = 4 * 2**20

#: Stands for null while a body is parsed: a number that no float32 can hold. The space keeps it apart from what is
#: before it; nothing that could follow makes another number of it.
_NULL = 4e99
_NULL_TEXT = "4e99"
_NULL_BYTES = b" 4e99"

#: How much of a body is looked at to guess what is in all of it.
_SAMPLE = 2048
_NO_NUMBERS = re.compile(rb'"features"\s*:\s*\{|"features_b64"')

_SCALARS = frozenset({str, int, float, bool, type(None)})


class Unusual(Exception):
    """The body is not plain."""


class Rows(NamedTuple):
    """The documents of a request: ``[n_docs, n_features]`` float64, and their ids if any has one."""

    values: Array
    ids: list[str | int | None] | None


class _Parsers(threading.local):
    """A parser serves one body at a time, and may serve the next when nothing is left of the one before."""

    def __init__(self) -> None:
        self.kept: Any = ()

    def parse(self, body: bytes) -> Any:
        parser, self.kept = self.kept or simdjson.Parser(), ()
        root = parser.parse(body)
        if len(body) <= _KEPT_BYTES:
            self.kept = parser
        return root


_parsers = _Parsers()


def available() -> bool:
    """Return whether there is simdjson."""
    return simdjson is not None


def plain_members(body: bytes) -> dict[str, Any] | None:
    """Return the members of a rerank request if it is plain.

    ``features`` is an array, ``[n_docs, n_features]`` or flat, and ``documents`` is `Rows`; ``null`` is NaN in both.
    """
    # Named features have to become Python objects anyhow, and base64 is one text.
    return None if _NO_NUMBERS.search(body, 0, _SAMPLE) else plain(body, _rerank)


def plain(
    body: bytes, read: Callable[[Reader], tuple[dict[str, Any], Array | None]]
) -> dict[str, Any] | None:
    """Return what ``read`` makes of the body if it is plain, ``null`` being NaN in the numbers that it names."""
    # A byte order mark simdjson skips.
    if simdjson is None or body.startswith(b"\xef"):
        return None
    if b"null" not in body[:_SAMPLE]:
        try:
            return read(Reader(body))[0]
        except (Unusual, RecursionError):
            pass
    replaced = body.replace(b"null", _NULL_BYTES)
    nulls = (len(replaced) - len(body)) // (len(_NULL_BYTES) - len(b"null"))
    if not nulls:
        return None
    try:
        reader = Reader(replaced)
        members, values = read(reader)
        reader.check_nulls()
    except (Unusual, RecursionError):
        return None
    if values is None:
        return None
    missing = values == _NULL
    if np.count_nonzero(missing) != nulls:
        return None
    values[missing] = np.nan
    return members


def _rerank(reader: Reader) -> tuple[dict[str, Any], Array]:
    members: dict[str, Any] = {}
    for name, value in reader.members(reader.root).items():
        if name == "features":
            members[name] = reader.numbers(value)
        elif name == "documents":
            members[name] = reader.rows(value)
        else:
            members[name] = reader.scalars(value)
    if ("features" in members) == ("documents" in members):
        raise Unusual
    reader.check_nesting()
    return members, members["documents"].values if "documents" in members else members["features"]


class Reader:
    """A parsed body that is plain as far as it was read; raises `Unusual` where it is not."""

    __slots__ = ("_body", "_brackets", "_texts", "root")

    def __init__(self, body: bytes) -> None:
        try:
            self.root = _parsers.parse(body)
        except (ValueError, RuntimeError, MemoryError):
            raise Unusual from None
        self._body = body
        self._brackets = 0
        self._texts: list[Any] = []

    def members(self, value: Any) -> dict[str, Any]:
        """Return the members of an object; none may stand twice."""
        if not isinstance(value, simdjson.Object):
            raise Unusual
        # Not by items(), which makes Python objects of all that is below; but then a name ends at its first zero byte.
        names = list(value.keys())
        if len(set(names)) != len(names) or any("\0" in name for name in names):
            raise Unusual
        found = {name: value[name] for name in names}
        self._texts.append(found)
        return found

    def elements(self, value: Any) -> list[Any]:
        """Return the elements of a list."""
        if not isinstance(value, simdjson.Array):
            raise Unusual
        self._brackets += 1
        return list(value)

    def value(self, value: Any) -> Any:
        """Return anything small as Python objects."""
        if isinstance(value, simdjson.Object):
            return {name: self.value(inner) for name, inner in self.members(value).items()}
        if isinstance(value, simdjson.Array):
            return [self.value(inner) for inner in self.elements(value)]
        return self.scalars(value)

    def scalars(self, value: Any) -> Any:
        """Return a scalar, or a list of scalars."""
        if isinstance(value, simdjson.Array):
            value = value.as_list()
            if not _SCALARS.issuperset(map(type, value)):
                raise Unusual
            self._brackets += 1
            self._texts.append(value)
        elif isinstance(value, simdjson.Object):
            raise Unusual
        else:
            self._texts.append((value,))
        return value

    def numbers(self, value: Any) -> Array:
        """Return a list of numbers, ``[n]``, or of lists of as many numbers each, ``[n, width]``."""
        try:
            n_rows = len(value)
            nested = isinstance(value[0], simdjson.Array)
            width = len(value[0]) if nested else 1
            if nested and {width} != set(map(len, value)):
                raise Unusual
            # A copy: what comes from simdjson is read-only, and stays as long as the parser's document.
            values = np.frombuffer(value.as_buffer(of_type="d")).copy()
        except (TypeError, ValueError, IndexError, AttributeError, KeyError):
            raise Unusual from None
        if len(values) != n_rows * width:
            raise Unusual
        self._brackets += 1 + n_rows * nested
        return values.reshape(n_rows, width) if nested else values

    def rows(self, value: Any) -> Rows:
        """Return documents that are objects of ``features``, as many numbers each, and perhaps an ``id``."""
        buffers: list[Any] = []
        ids: list[Any] = []
        named = 0
        try:
            for document in value:
                buffers.append(document["features"].as_buffer(of_type="d"))
                members = len(document)
                if members == 2:
                    one = document["id"]
                    if type(one) is not str and type(one) is not int:
                        raise Unusual
                    ids.append(one)
                    named += 1
                elif members == 1:
                    ids.append(None)
                else:
                    raise Unusual
            values = np.frombuffer(bytearray().join(buffers))
        except (TypeError, ValueError, IndexError, AttributeError, KeyError):
            raise Unusual from None
        if len({buffer.size for buffer in buffers}) != 1 or not len(values):
            raise Unusual
        self._brackets += 1 + len(buffers)
        self._texts.append(ids)
        return Rows(values.reshape(len(buffers), -1), ids if named else None)

    def check_nesting(self) -> None:
        """Make sure that every bracket was counted, so that nothing was flattened but what was meant to be."""
        found = self._body.count(b"[")
        if found == self._brackets:
            return
        # A bracket may stand in a text; but as \u005b it would make room for one that does not.
        if b"\\u" in self._body or found != self._brackets + sum(
            text.count("[") for texts in self._texts for text in texts if type(text) is str
        ):
            raise Unusual

    def check_nulls(self) -> None:
        """Make sure that what stands for null stands nowhere but among the numbers."""
        for values in self._texts:
            for value in values:
                if value == _NULL or (type(value) is str and _NULL_TEXT in value):
                    raise Unusual
