"""What the arrays of a model must be: dtype, shape, and what holds for their numbers.

Everything that holds arrays (scorers, routers, points, hash tables) declares them next to its class; they are checked in
one place when a version is read, `localrank.artifact`. A digest proves that a file is the published one, but not that
the publisher is honest. An id out of range would read the memory of another query, so every number is checked once.

A rule sees an array in pieces: flat values, where in the array they start, and the value before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from localrank.arrays import Array

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
