"""Whether a text file writes every feature of every document, or leaves zeros out.

In a *sparse* file an index that is absent is a zero. In a *dense* one it is a mistake: a value that was lost. One line
does not show which of the two a file is, so the decision needs all lines:

- Every line has the indices ``1..n`` with the same ``n``: dense.
- Every line has the indices ``1..n``, and ``n`` differs: dense, and a line is damaged. Lines of a sparse file leave out
  other features than their last ones.
- More than half of the lines have all indices, some do not, and several lines write a zero: dense, and a line is
  damaged. (One written zero may only show how many features there are.)
- Anything else: sparse. If most of its lines are complete, it may still be a damaged dense file. Then there is a `Gap`,
  and readers report it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData
from localrank_training.data.queries import Gap

if TYPE_CHECKING:
    from localrank.arrays import Indices
    from localrank.letor import Lines


class Density:
    """What the lines of one file show so far."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines = 0
        self._with_zeros = 0
        #: For each number of values on a line that leaves no feature out: how many such lines, and the first.
        self._runs: dict[int, tuple[int, int]] = {}
        #: The first line that leaves a feature out before its last one, and that feature.
        self._hole: tuple[int, int] | None = None
        self._width = 0

    def add(self, lines: Lines) -> None:
        """Look at some more lines."""
        counts = lines.counts
        self._lines += len(counts)
        self._width = max(self._width, int(lines.columns.max(initial=-1)) + 1)
        if self._with_zeros < 2:
            # Sparse text keeps -0, which is not the zero that an absent feature means.
            zeros = np.flatnonzero((lines.values == 0) & ~np.signbit(lines.values))
            ends = np.cumsum(counts)
            self._with_zeros += len(np.unique(np.searchsorted(ends, zeros, side="right")))
        last = _last_columns(lines)
        run = last == counts
        if self._hole is None and not bool(run.all()):
            document = int(np.argmin(run))
            start = int(counts[:document].sum())
            columns = lines.columns[start : start + int(counts[document])]
            hole = int(np.argmax(columns != np.arange(len(columns))))
            self._hole = int(lines.line_numbers[document]), hole + 1
        numbers = lines.line_numbers[run]
        for width, first, count in zip(
            *np.unique(counts[run], return_index=True, return_counts=True), strict=True
        ):
            seen, line = self._runs.get(int(width), (0, int(numbers[first])))
            self._runs[int(width)] = seen + int(count), line

    def width(self) -> int | None:
        """Return how many values every line of a dense file has; None if the file is sparse.

        Raises:
            InvalidData: names the line of a dense file that lacks a value.
        """
        complete, _ = self._runs.get(self._width, (0, 0))
        if self._hole is None:
            if len(self._runs) == 1:
                return self._width
            self._refuse_ragged()
        if self._with_zeros > 1 and 2 * complete > self._lines:
            self._refuse_incomplete()
        return None

    def gap(self) -> Gap | None:
        """Return the features that most lines have and a few lack, as a `Gap`; None if there is no such gap."""
        complete, _ = self._runs.get(self._width, (0, 0))
        if complete == self._lines or 2 * complete <= self._lines:
            return None
        lacking = [(line, width + 1) for width, (_, line) in self._runs.items() if width < self._width]
        if self._hole is not None:
            lacking.append(self._hole)
        line, feature = min(lacking)
        return Gap(self._name, line, feature, self._lines - complete, self._lines)

    def _refuse_ragged(self) -> None:
        most = max(self._runs, key=lambda width: (self._runs[width][0], width))
        line, width = min((line, width) for width, (_, line) in self._runs.items() if width != most)
        raise InvalidData(
            f"{self._name}:{line}: expected {most} features as on most lines of this file, found {width}; "
            "if an absent feature is a zero here, add --sparse"
        )

    def _refuse_incomplete(self) -> None:
        lacking = [
            (line, f"only the first {width}")
            for width, (_, line) in self._runs.items()
            if width < self._width
        ]
        if self._hole is not None:
            line, feature = self._hole
            lacking.append((line, f"none for feature {feature}"))
        line, found = min(lacking)
        raise InvalidData(
            f"{self._name}:{line}: expected a value for each of {self._width} features, because most lines of "
            f"this file write every feature, zeros too; found {found}; if an absent feature is a zero here, "
            "add --sparse"
        )


def _last_columns(lines: Lines) -> Indices:
    """Return for each document one more than its last column, 0 for a document without values."""
    last = np.zeros(len(lines.counts), np.int64)
    some = lines.counts > 0
    last[some] = lines.columns[np.cumsum(lines.counts)[some] - 1] + 1
    return last
