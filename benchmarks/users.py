r"""Simulated users who click as the models assume, to test the statistics.

What a document is worth to a user is its attraction, the probability that it is clicked once it is looked at.

- `PositionBiased` [joachims2017]_: a user looks at place :math:`k` with probability :math:`k^{-\eta}`, whatever stands there.
- `Cascade` [craswell2008]_: a user looks from the top, one result after the other, and ends after a click that satisfies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Vector


class User(Protocol):
    """Clicks results."""

    def clicks(self, attractions: Vector, random: np.random.Generator) -> list[int]:
        """Return the ranks that are clicked, from 0; ``attractions`` are those of the results, best first."""
        ...


@dataclass(frozen=True, slots=True)
class PositionBiased:
    """Looks at each place by itself.

    Attributes:
        eta: how much less likely lower places are looked at; 0 is everywhere.
    """

    eta: float = 1.0

    def clicks(self, attractions: Vector, random: np.random.Generator) -> list[int]:
        looks = np.arange(1, len(attractions) + 1) ** -self.eta
        found: list[int] = np.flatnonzero(random.random(len(attractions)) < looks * attractions).tolist()
        return found


@dataclass(frozen=True, slots=True)
class Cascade:
    """Looks from the top.

    Attributes:
        satisfied: the probability that a click is the last.
    """

    satisfied: float = 0.7

    def clicks(self, attractions: Vector, random: np.random.Generator) -> list[int]:
        clicked = random.random(len(attractions)) < attractions
        ends = np.flatnonzero(clicked & (random.random(len(attractions)) < self.satisfied))
        last = ends[0] if len(ends) else len(attractions)
        found: list[int] = np.flatnonzero(clicked[: last + 1]).tolist()
        return found
