"""What must hold for the numbers of an array, whoever wrote it.

A digest says that a file is the one that was published; it does not say that whoever published it meant well. An id
out of range would read another query's memory, so every number is looked at once.

Arrays come in pieces: flat values, where in the array they start, and the value before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Array

__all__ = ["Anything", "Buckets", "Content", "Finite", "Within"]


class Content(Protocol):
    """A rule for the numbers of an array; its ``repr`` is its name in the digest cache."""

    def fault(self, values: Array, start: int, previous: np.generic | None) -> str | None:
        """Return what is wrong with these values, or ``None``."""
        ...


@dataclass(frozen=True, slots=True)
class Anything:
    """Any number will do: a scorer checks its own arrays, and a probe document may hold NaN for a missing value."""

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
