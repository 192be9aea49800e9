"""Tables of paired comparisons, query by query: intervals, tests, Holm's adjustment, queries that are hurt."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank_training.evaluation.comparisons import (
    NOTABLE,
    detectable_difference,
    holm,
    interval_of,
    paired_t,
    sign_flip_test,
)
from localrank_training.report import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector

_HEADER = (
    "comparison",
    "candidate",
    "baseline",
    "difference",
    "low",
    "high",
    "p (t)",
    "p (randomisation)",
    "p (Holm)",
    "wins",
    "losses",
    f"hurt by more than {NOTABLE}",
    "would have shown",
)
#: Differences below this are rounding.
_TIE = 1e-12


class Pair(NamedTuple):
    """Two rankings of the same queries by one metric.

    Attributes:
        name: what is compared.
        candidate: ``[n_queries]``.
        baseline: ``[n_queries]``.
    """

    name: str
    candidate: Vector
    baseline: Vector


def paired_table(title: str, pairs: Sequence[Pair], says: str = "", *, seed: int = 0) -> Table:
    """Return one row for each comparison; they are one family for Holm's adjustment.

    The interval is Student's of the mean difference (95 %), the difference that would have shown is at 80 % power.
    """
    apart = [pair.candidate - pair.baseline for pair in pairs]
    tests = [sign_flip_test(differences, seed=seed) for differences in apart]
    rows: list[tuple[object, ...]] = []
    for pair, differences, p, adjusted in zip(pairs, apart, tests, holm(tests), strict=True):
        interval = interval_of(differences)
        rows.append(
            (
                pair.name,
                float(pair.candidate.mean()),
                float(pair.baseline.mean()),
                float(differences.mean()),
                None if interval is None else interval.low,
                None if interval is None else interval.high,
                paired_t(differences),
                p,
                float(adjusted),
                int(np.count_nonzero(differences > _TIE)),
                int(np.count_nonzero(differences < -_TIE)),
                int(np.count_nonzero(differences < -NOTABLE)),
                detectable_difference(differences),
            )
        )
    return Table(title, _HEADER, tuple(rows), says)


def verdict_of(pair: Pair) -> str:
    """Describe the interval of a difference in words."""
    differences = pair.candidate - pair.baseline
    interval = interval_of(differences)
    if interval is None:
        return f"{pair.name}: hardly any query differs"
    if interval.low > 0:
        word = "better"
    elif interval.high < 0:
        word = "worse"
    else:
        word = "not told apart"
    return f"{pair.name}: {word} ({differences.mean():+.4f} {interval})"


def sides_of(pairs: Sequence[Pair]) -> str:
    """Say which comparisons are better, worse or not told apart by their intervals, each with its difference."""
    sides: dict[str, list[str]] = {"better": [], "worse": [], "not told apart": []}
    for pair in pairs:
        differences = pair.candidate - pair.baseline
        interval = interval_of(differences)
        side = "not told apart"
        if interval is not None and interval.low > 0:
            side = "better"
        elif interval is not None and interval.high < 0:
            side = "worse"
        sides[side].append(f"{pair.name} {differences.mean():+.4f}")
    return "; ".join(f"{side}: {', '.join(named)}" for side, named in sides.items() if named)


def interval_around(candidate: Vector, baseline: Vector) -> tuple[float, float]:
    """Return the 95 % interval of the paired difference, put around the mean of the baseline."""
    interval = interval_of(candidate - baseline)
    level = float(baseline.mean())
    return (
        (float(candidate.mean()), float(candidate.mean()))
        if interval is None
        else (level + interval.low, level + interval.high)
    )


def means_of(figures: Vector) -> tuple[float, ...]:
    """Return the mean of every metric of ``[n_queries, n_metrics]``."""
    return tuple(float(mean) for mean in figures.mean(axis=0))
