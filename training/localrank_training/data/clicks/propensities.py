r"""How likely a user looks at each place of a list, estimated from clicks.

The position-based model [richardson2007]_, [craswell2008]_: a user clicks a document if she looks at its place and finds it
attractive, independently,

.. math::
    \Pr[\text{click on } d \text{ for } q \text{ at } k] = \theta_k \, \gamma_{qd}

A document that was shown for the same query at several places compares these places. A document that was always at the
same place says nothing. Lists change when models change, when experiments interleave them, and when documents come and
go. Only ratios :math:`\theta_k / \theta_1` can be known, and only these are needed: the first place has 1.

`fit` takes the clicks of each document at each place as counts with these means and maximises their likelihood: with
:math:`s` times shown and :math:`c` clicks, it repeats

.. math::
    \gamma_{qd} \leftarrow \frac{\sum_k c}{\sum_k s\,\theta_k}, \qquad
    \theta_k \leftarrow \frac{\sum_{qd} c}{\sum_{qd} s\,\gamma_{qd}}

Counts instead of the chances of single clicks have a reason: every document has an attraction of its own. With few showings
of each, the greatest likelihood of single clicks [wang2018]_ comes to wrong propensities however long the log is (twice the
right ones at two to three showings a document and place); that of counts does not. ``python -m benchmarks.propensities``
shows both. `errors` are the standard errors of :math:`\log(\theta_k / \theta_1)`, from the information that is left about
places when every document keeps its own attraction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from localrank.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Bits, Indices, Vector

_MOST_STEPS = 5000
#: Change of the logarithm of every ratio at which the steps end.
_CLOSE = 1e-9
#: Least propensity, so that no weight is infinite.
_LEAST = 1e-6
#: Largest standard error of a logarithm of a ratio that is trusted: 10 % are two and a half of them.
_TRUSTED = 0.04
#: A place with a smaller share of the showings need not be known.
_RARE = 0.01
#: A later place is above an earlier one if their logarithms differ by so many standard errors.
_CLEAR = 3.0


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
        errors: ``[n_places]`` standard errors of the logarithms of estimated ratios, 0 for the first; empty if they were
            given.
    """

    ratios: Vector
    known: int
    source: str
    errors: Vector = field(default_factory=lambda: np.zeros(0))

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
    ratios, errors = _maximised(pairs, places, shown, clicks, known)
    beyond = n_places - known
    return Propensities(
        np.concatenate([ratios, np.full(beyond, ratios[-1])]),
        known,
        "em",
        np.concatenate([errors, np.full(beyond, np.inf)]),
    )


def trusted(found: Propensities, tally: Tally) -> Propensities:
    """Return estimated propensities whose places are known well enough; the rare ones after them get the last one's.

    Raises:
        InvalidData: a place that is not rare is not known within 10 %, or the propensities do not fall.
    """
    _, places, shown, clicks = tally.arrays()
    n_places = len(found.ratios)
    showings = np.bincount(places, shown, n_places)
    doubtful = np.flatnonzero(~(found.errors <= _TRUSTED))
    known = int(doubtful[0]) if len(doubtful) else n_places
    needed = int(np.flatnonzero(showings >= _RARE * showings.sum())[-1]) + 1
    if known < needed:
        error = found.errors[known]
        how = (
            f"known within {2.5 * error:.0%}; it takes about {max((error / _TRUSTED) ** 2, 1):.1f} times as many "
            "impressions"
            if np.isfinite(error)
            else "of documents that other places do not share"
        )
        raise InvalidData(
            f"propensities: expected enough clicks on documents that stood at several places to know each place within 10 %, "
            f"found place {known + 1} with {np.bincount(places, clicks, n_places)[known]:.0f} clicks, {how}; use "
            "--propensities with a file or power:1, or leave the option out"
        )
    logs, errors = np.log(found.ratios[:known]), found.errors[:known]
    for place in range(1, known):
        before = int(np.argmin(logs[:place]))
        rise = logs[place] - logs[before]
        if rise > _CLEAR * np.hypot(errors[place], errors[before]):
            raise InvalidData(
                f"propensities: expected that they fall from the first place on, found {found.ratios[place]:.3g} at place "
                f"{place + 1} after {found.ratios[before]:.3g} at place {before + 1}: users do not read this list from the "
                "top, or the places are wrong"
            )
    if not (logs + 2 * errors < 0).any():
        raise InvalidData(
            "propensities: expected that they fall from the first place on, found none that is clearly below it: "
            f"{', '.join(f'{one:.3g}' for one in found.ratios[:known])}; leave --propensities out"
        )
    ratios = np.concatenate([found.ratios[:known], np.full(n_places - known, found.ratios[known - 1])])
    return Propensities(ratios, known, found.source, found.errors)


def _maximised(
    pairs: Indices, places: Indices, shown: Vector, clicks: Vector, n_places: int
) -> tuple[Vector, Vector]:
    """Return the ratios of greatest likelihood, and the standard errors of their logarithms."""
    n_pairs = int(pairs.max()) + 1
    of_place, of_pair = np.bincount(places, clicks, n_places), np.bincount(pairs, clicks, n_pairs)
    look = np.ones(n_places)
    for _ in range(_MOST_STEPS):
        attract = of_pair / np.bincount(pairs, shown * look[places], n_pairs)
        after = np.maximum(of_place / np.bincount(places, shown * attract[pairs], n_places), _LEAST)
        after = np.clip(after / after[0], _LEAST, 1 / _LEAST)
        step = np.abs(np.log(after / look)).max()
        look = after
        if step < _CLOSE:
            break
    means = shown * look[places] * attract[pairs]
    table = csr_matrix((means, (pairs, places)), (n_pairs, n_places))
    shares = table.multiply(1 / np.maximum(of_pair, _LEAST)[:, None]).tocsr()
    information = np.diag(np.bincount(places, means, n_places)) - (table.T @ shares).toarray()
    errors = np.zeros(n_places)
    # A place without clicks has no information: its error is then very large.
    errors[1:] = np.sqrt(np.diag(np.linalg.inv(information[1:, 1:] + 1e-6 * np.eye(n_places - 1))))
    return look, errors


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
