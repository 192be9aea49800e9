"""Arrays: names of their kinds, what those of a model must be, and how objects that hold them are shown.

Names for the kinds of array that cross function boundaries.

Shapes stand in docstrings: ``n_docs`` documents of one query, ``n_features`` features, ``n_components``
directions of a signature (P in the papers), ``n_queries`` training queries.

What the arrays of a model must be: dtype, shape, and what holds for their numbers.

Everything that holds arrays (scorers, routers, points, hash tables) declares them next to its class; they are checked in
one place when a version is read, `localrank.artifact`. A digest proves that a file is the published one, but not that
the publisher is honest. An id out of range would read the memory of another query, so every number is checked once.

A rule sees an array in pieces: flat values, where in the array they start, and the value before them.

How an object is shown: one line with the sizes of its parts, and tables for notebooks.

A class takes the line by ``__repr__ = one_line`` in its body, which a dataclass leaves alone.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Array: TypeAlias = NDArray[np.generic]
#: Feature vectors and directions: float32, C-contiguous.
Matrix: TypeAlias = NDArray[np.float32]
#: Scores, weights, eigenvalues, labels: float64.
Vector: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
#: Positions that are stored by the million.
Ids: TypeAlias = NDArray[np.int32]
ShortInts: TypeAlias = NDArray[np.uint16]
Bits: TypeAlias = NDArray[np.bool_]
#: Sizes that shapes and rules refer to: ``features``, ``components``, ``clusters``, and sizes found in arrays.
Sizes: TypeAlias = "dict[str, int]"
#: Dtypes of whole numbers.
INTEGERS = ("int64", "int32", "uint32", "uint16", "uint8")


class Content(Protocol):
    """A rule for the numbers of an array; its ``repr`` is its name in the digest cache."""

    def fault(self, values: Array, start: int, previous: np.generic | None) -> str | None:
        """Return what is wrong with these values, or ``None``."""
        ...


@dataclass(frozen=True, slots=True)
class Anything:
    """Any number will do: a probe document may hold NaN for a missing value."""

    def fault(self, values: Array, start: int, previous: np.generic | None) -> str | None:  # noqa: ARG002
        return None


@dataclass(frozen=True, slots=True)
class Finite:
    """No NaN and no infinity."""

    def fault(self, values: Array, start: int, previous: np.generic | None) -> str | None:  # noqa: ARG002
        finite = np.isfinite(values)
        if finite.all():
            return None
        first = int(np.argmin(finite))
        return f"expected finite numbers, found {values[first]} at position {start + first}"


@dataclass(frozen=True, slots=True)
class Within:
    """From ``low`` to ``high``, both included."""

    low: int
    high: int

    def fault(self, values: Array, start: int, previous: np.generic | None) -> str | None:  # noqa: ARG002
        if not len(values):
            return None
        numbers = values.astype(np.int64, copy=False)
        inside = (numbers >= self.low) & (numbers <= self.high)
        if inside.all():
            return None
        first = int(np.argmin(inside))
        return f"expected {self.low} to {self.high}, found {values[first]} at position {start + first}"


@dataclass(frozen=True, slots=True)
class Between:
    """Finite, from ``low`` to ``high``, both included."""

    low: float
    high: float

    def fault(self, values: Array, start: int, previous: np.generic | None) -> str | None:
        if fault := Finite().fault(values, start, previous):
            return fault
        numbers = values.astype(np.float64, copy=False)
        inside = (numbers >= self.low) & (numbers <= self.high)
        if inside.all():
            return None
        first = int(np.argmin(inside))
        return f"expected {self.low:g} to {self.high:g}, found {values[first]} at position {start + first}"


@dataclass(frozen=True, slots=True)
class Buckets:
    """Rows of ``length`` offsets that start at 0, never fall and end at ``total`` at most."""

    length: int
    total: int

    def fault(self, values: Array, start: int, previous: np.generic | None) -> str | None:
        if not len(values):
            return None
        offsets = values.astype(np.int64)
        before = np.concatenate([[0 if previous is None else int(previous)], offsets[:-1]])
        column = (start + np.arange(len(offsets))) % self.length
        rules = (
            ((column == 0) & (offsets != 0), "each row to start at 0"),
            ((column > 0) & (offsets < before), "offsets that never fall"),
            (offsets > self.total, f"offsets of at most {self.total}"),
        )
        for broken, expected in rules:
            if broken.any():
                first = int(np.argmax(broken))
                return f"expected {expected}, found {offsets[first]} at position {start + first}"
        return None


@dataclass(frozen=True, slots=True)
class Layout:
    """What an array must be.

    Attributes:
        dtypes: any of these.
        shape: a name of `Sizes` for each axis; a new name takes the length that is found. ``buckets`` is
            ``2**bits + 1``.
        content: the rule for its numbers, once the sizes are known.
        empty: whether an axis may have no length.
    """

    dtypes: tuple[str, ...]
    shape: tuple[str, ...]
    content: Callable[[Sizes], Content]
    empty: bool = False


#: By the name of the field that holds the array. Arrays are checked in this order: a size is known from the first array
#: that has it.
Layouts: TypeAlias = "Mapping[str, Layout]"


def finite(_sizes: Sizes) -> Content:
    """Every number is finite."""
    return Finite()


def anything(_sizes: Sizes) -> Content:
    """Any number will do."""
    return Anything()


def between(low: float, high: float) -> Callable[[Sizes], Content]:
    """Every number is finite and in a range, both ends included."""
    return lambda _sizes: Between(low, high)


def below(name: str) -> Callable[[Sizes], Content]:
    """Every number is a position: from 0, and below a size."""
    return lambda sizes: Within(0, sizes[name] - 1)


def bound(layout: Layout, dtype: str, shape: tuple[int, ...], sizes: Sizes) -> str | None:
    """Compare dtype and shape with a layout and learn the sizes that are new; return what is wrong, or ``None``."""
    if dtype not in layout.dtypes:
        return f"expected {' or '.join(layout.dtypes)}, found {dtype}"
    if len(shape) == len(layout.shape):
        for axis, length in zip(layout.shape, shape, strict=True):
            if axis == "bits":
                # More bits than this have more buckets than any file has bytes.
                sizes.setdefault("buckets", 2 ** min(length, 62) + 1)
            sizes.setdefault(axis, length)
    expected = tuple(sizes.get(axis, axis) for axis in layout.shape)
    if shape != expected or (0 in shape and not layout.empty):
        return f"expected shape ({', '.join(map(str, expected))}), found {shape}"
    return None


#: At most this many characters of a value, and elements of a list, are shown.
_LONGEST, _MOST = 60, 3


def one_line(self: Any) -> str:
    """Return ``Name(field=value, …)`` of a dataclass; fields that are declared ``repr=False`` are left out."""
    shown = ", ".join(
        f"{field.name}={_short(getattr(self, field.name))}" for field in fields(self) if field.repr
    )
    return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, dict):
        return f"<{len(value)} entries>" if len(value) > _MOST else _cut(value)
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        if len(value) > _MOST or any(isinstance(one, np.ndarray) for one in value):
            return f"<{len(value)} of {type(value[0]).__name__}>"
        return f"({', '.join(map(_short, value))})"
    return _cut(value)


def _cut(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers have four digits after the point."""
    lines = [f"<table><caption>{escape(title)}</caption>"]
    lines.append("<tr>" + "".join(f"<th>{escape(name)}</th>" for name in header) + "</tr>")
    for row in rows:
        cells = [cell for _, cell in zip(header, row, strict=True)]
        texts = (
            f"{cell:.4f}" if isinstance(cell, float) else "–" if cell is None else str(cell) for cell in cells
        )
        lines.append("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in texts) + "</tr>")
    return "\n".join([*lines, "</table>"])
