r"""How likely a user looks at each place of a list, estimated from clicks.

The position-based model [richardson2007]_, [craswell2008]_: a user clicks a document if she looks at its place and finds it
attractive, independently,

.. math::
    \Pr[\text{click on } d \text{ for } q \text{ at } k] = \theta_k \, \gamma_{qd}

A document that was shown for the same query at several places compares these places. A document that was always at the
same place says nothing. Lists change when models change, when experiments interleave them, and when documents come and
go. Only ratios :math:`\theta_k / \theta_1` can be known, and only these are needed: the first place has 1.

`fit` maximises the likelihood by expectation maximisation [wang2018]_: with :math:`s` times shown and :math:`c` clicks,

.. math::
    \Pr[\text{looked} \mid \text{no click}] = \frac{\theta_k (1 - \gamma_{qd})}{1 - \theta_k \gamma_{qd}}, \qquad
    \theta_k \leftarrow \frac{\sum_{qd} c + (s - c) \Pr[\text{looked} \mid \text{no click}]}{\sum_{qd} s}

and the same for :math:`\gamma` with the roles exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Bits, Indices, Vector

_MOST_STEPS = 5000
#: Change of the logarithm of every ratio at which the steps end.
_CLOSE = 1e-7
#: Least propensity and least attractiveness, so that no weight is infinite.
_LEAST = 1e-6


class Tally:
    """How often each document was shown for a query at each place, and how often it was clicked there."""

    def __init__(self) -> None:
        self._pairs: dict[object, int] = {}
        self._cells: dict[tuple[int, int], list[int]] = {}

    def add(self, pair: object, place: int, *, clicked: bool) -> None:
        """Count one document that was shown; ``pair`` names it and its query, ``place`` counts from 1."""
        number = self._pairs.setdefault(pair, len(self._pairs))
        cell = self._cells.setdefault((number, place), [0, 0])
        cell[0] += 1
        cell[1] += clicked

    def arrays(self) -> tuple[Indices, Indices, Vector, Vector]:
        """Return pairs, places from 0, times shown and clicks, of every pair and place together."""
        keys = np.array(list(self._cells), np.int64).reshape(-1, 2)
        counts = np.array(list(self._cells.values()), np.float64).reshape(-1, 2)
        return keys[:, 0], keys[:, 1] - 1, counts[:, 0], counts[:, 1]


@dataclass(frozen=True, slots=True, eq=False)
class Propensities:
    """How likely each place is looked at, as a ratio to the first.

    Attributes:
        ratios: ``[n_places]``, the first being 1.
        known: how many of the first places were estimated; those after them have the last one's.
        source: how they came about.
    """

    ratios: Vector
    known: int
    source: str

    def of(self, place: int) -> float:
        """Return the ratio of a place, which counts from 1."""
        return float(self.ratios[min(place, len(self.ratios)) - 1])

    def to_json(self) -> dict[str, object]:
        """Return what `from_json` reads."""
        return {
            "ratios": [float(f"{one:.6g}") for one in self.ratios],
            "known": self.known,
            "source": self.source,
        }

    @classmethod
    def from_json(cls, members: Mapping[str, object], where: str) -> Propensities:
        """Read ratios; raise `InvalidData` if there are none."""
        ratios = members.get("ratios")
        if not isinstance(ratios, list) or not ratios:
            raise InvalidData(f"{where}: expected a list 'ratios' of one number for each place")
        for place, one in enumerate(ratios, 1):
            if not isinstance(one, int | float) or isinstance(one, bool) or not 0 < one < np.inf:
                raise InvalidData(
                    f"{where}: ratio of place {place}: expected a number above 0, found {one!r}"
                )
        values = np.array(ratios, np.float64)
        return cls(values / values[0], len(values), where)


def from_power(eta: float, n_places: int) -> Propensities:
    r"""Return :math:`\theta_k / \theta_1 = k^{-\eta}`."""
    ratios: Vector = np.arange(1, n_places + 1, dtype=np.float64) ** -eta
    return Propensities(ratios, n_places, f"power:{eta:g}")


def fit(tally: Tally) -> Propensities:
    """Estimate the propensities of all places that the tally can compare with the first.

    Raises:
        InvalidData: no document was shown at the first place and at another one, with a click.
    """
    pairs, places, shown, clicks = tally.arrays()
    n_places = int(places.max(initial=-1)) + 1
    # A pair without a click gets no attraction. If a pair was at only one place, its attraction is unknown.
    telling = (np.bincount(pairs, clicks) > 0) & (np.bincount(pairs) > 1) if len(pairs) else np.zeros(0, bool)
    chosen = telling[pairs]
    pairs, places, shown, clicks = (one[chosen] for one in (pairs, places, shown, clicks))
    reached = _reached(pairs, places, n_places)
    known = int(np.argmin(reached)) if not reached.all() else n_places
    if known < 2:
        raise InvalidData(
            "propensities: expected documents that were shown for the same query at the first place and at "
            "other places, and were clicked, found "
            f"{'none' if not len(pairs) else 'none that reach the second place'}; send a query_id with each "
            "query, log an interleaving test, or use --propensities power:1"
        )
    inside = places < known
    pairs, places, shown, clicks = (one[inside] for one in (pairs, places, shown, clicks))
    _, pairs = np.unique(pairs, return_inverse=True)
    ratios = _maximised(pairs, places, shown, clicks, known)
    return Propensities(np.concatenate([ratios, np.full(n_places - known, ratios[-1])]), known, "em")


def _maximised(pairs: Indices, places: Indices, shown: Vector, clicks: Vector, n_places: int) -> Vector:
    """Return the ratios of greatest likelihood."""
    n_pairs = int(pairs.max()) + 1
    at_place, of_pair = np.bincount(places, shown, n_places), np.bincount(pairs, shown, n_pairs)
    missed = shown - clicks
    look = np.maximum(np.bincount(places, clicks, n_places) / at_place, _LEAST)
    look /= look.max() / 0.9
    attract = np.clip(np.bincount(pairs, clicks, n_pairs) / of_pair, _LEAST, 0.9)
    before = np.log(look / look[0])
    for _ in range(_MOST_STEPS):
        theta, gamma = look[places], attract[pairs]
        none = missed / (1 - theta * gamma)
        looked = clicks + none * theta * (1 - gamma)
        attracted = clicks + none * gamma * (1 - theta)
        look = np.clip(np.bincount(places, looked, n_places) / at_place, _LEAST, 1 - 1e-9)
        attract = np.clip(np.bincount(pairs, attracted, n_pairs) / of_pair, _LEAST, 1 - 1e-9)
        after = np.log(look / look[0])
        if np.abs(after - before).max() < _CLOSE:
            break
        before = after
    ratios: Vector = look / look[0]
    return ratios


def _reached(pairs: Indices, places: Indices, n_places: int) -> Bits:
    """Return which places are compared with the first, directly or through others."""
    reached = np.zeros(n_places, bool)
    reached[:1] = True
    while True:
        met = np.zeros(int(pairs.max(initial=-1)) + 1, bool)
        met[pairs[reached[places]]] = True
        grown = reached.copy()
        grown[places[met[pairs]]] = True
        if (grown == reached).all():
            return reached
        reached = grown
