"""From numbers to places along an axis, and the round numbers that are written there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Steps between ticks, times a power of ten.
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from ``low`` to ``high``, drawn from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return where a number is drawn."""
        low, high = self._of(self.low), self._of(self.high)
        return self.start + (self._of(value) - low) / (high - low) * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Tell whether a number is within the axis."""
        slack = 1e-9 * (self.high - self.low)
        return self.low - slack <= value <= self.high + slack

    def ticks(self, most: int) -> list[float]:
        """Return round numbers within the axis, about this many at most."""
        return [one for one in round_numbers(self.low, self.high, most, log=self.log) if self.holds(one)]

    def _of(self, value: float) -> float:
        return math.log10(value) if self.log else value


def round_numbers(low: float, high: float, most: int, *, log: bool = False) -> list[float]:
    """Return round numbers from ``low`` to ``high``, equally far apart; with ``log``, 1, 2 and 5 times powers of ten.

    >>> round_numbers(0.0, 1.0, 6)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> round_numbers(1.0, 1000.0, 5, log=True)
    [1.0, 10.0, 100.0, 1000.0]
    """
    if log:
        return _of_powers(low, high, most)
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * one for one in _STEPS if power * one >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _of_powers(low: float, high: float, most: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [
            float(f"{factor * 10.0**power:.12g}")
            for power in powers
            for factor in factors
            if low * (1 - 1e-9) <= factor * 10.0**power <= high * (1 + 1e-9)
        ]
        if len(found) <= most:
            break
    return found if len(found) <= most else found[:: -(-len(found) // most)]


def written(values: Sequence[float], *, log: bool = False) -> list[str]:
    """Write ticks, all with as many digits after the point; with ``log``, each with those that it needs.

    >>> written([-0.5, 0.0, 0.5])
    ['−0.5', '0', '0.5']
    >>> written([0.1, 1.0, 1000.0], log=True)
    ['0.1', '1', '1,000']
    """
    most = max((_digits(value) for value in values), default=0)
    return [_text(value, _digits(value) if log or value == 0 else most) for value in values]


def _digits(value: float) -> int:
    text = f"{value:.10f}".rstrip("0")
    return len(text) - text.index(".") - 1


def _text(value: float, digits: int) -> str:
    text = f"{abs(value):,.{digits}f}"
    return f"−{text}" if value < 0 else text
