"""How long the baseline takes for a list of a given length; the times of both arms are compared with this.

A caller knows its arm from the answer, and chooses the length of its lists and its timeouts. So times are scaled to one
length, and a timeout that is too short for the baseline says nothing about the candidate.
"""

from __future__ import annotations

from typing import Final

#: Documents of the list that times are scaled to.
LENGTH: Final = 100
#: Weight of the newest ranking, and the fixed cost of a ranking in documents while all lists are equally long.
_NEWEST, _FIXED = 0.02, 16


class Pace:
    """Seconds of a ranking as a straight line over the number of documents, by least squares with running means."""

    __slots__ = ("_count", "_length", "_product", "_seconds", "_square")

    def __init__(self) -> None:
        self._count = 0
        self._length = self._seconds = self._square = self._product = 0.0

    def learn(self, documents: int, seconds: float) -> None:
        """Take note of what the baseline took. An empty list says nothing of others."""
        if not documents:
            return
        self._count += 1
        weight = max(_NEWEST, 1 / self._count)
        self._length += weight * (documents - self._length)
        self._seconds += weight * (seconds - self._seconds)
        self._square += weight * (documents**2 - self._square)
        self._product += weight * (documents * seconds - self._product)

    def expected(self, documents: int) -> float | None:
        """Return the seconds that the baseline is expected to take; ``None`` before its first ranking."""
        if not self._seconds:
            return None
        spread = self._square - self._length**2
        # The line passes through the means; it does not fall, and no list takes less than no time.
        steepest = self._seconds / self._length
        slope = steepest * self._length / (self._length + _FIXED)
        if spread > 1:
            slope = (self._product - self._length * self._seconds) / spread
        slope = min(max(slope, 0.0), steepest)
        return self._seconds + slope * (documents - self._length)

    def scaled(self, documents: int, seconds: float) -> float | None:
        """Return the seconds for a list of `LENGTH` documents; ``None`` before the baseline's first ranking."""
        whole, one = self.expected(LENGTH), self.expected(documents)
        return None if not whole or not one else seconds * whole / one
