"""Comparisons as a picture and as a table: differences with their intervals, beside zero."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from localrank_training.comparisons import interval_of
from localrank_training.report import Axis, Dots, Level, Plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector
    from localrank_training.comparisons import Comparison, Interval

INTERVALS = "95 % intervals over {} queries"


def called(metric: str) -> str:
    """Return a metric's name as people write it: ``NDCG@10``."""
    return metric.upper() if not metric.startswith("mean_") else f"mean {metric[5:].upper()}"


def signed(value: float) -> str:
    """Write a difference with its sign."""
    return f"{value:+.4f}".replace("-", "−")


def within(mean: float, interval: Interval | None) -> str:
    """Write a difference and half of its interval, which is as long on both sides."""
    return signed(mean) + ("" if interval is None else f" ± {(interval.high - interval.low) / 2:.4f}")


def named(text: str, metrics: Sequence[str] = ("map", "mrr")) -> str:
    """Write metrics in a sentence as people do."""
    for metric in metrics:
        text = re.sub(rf"(?<![\w@]){re.escape(metric)}(?= -?\d)", called(metric), text)
    return re.sub(r"(?<![\w@])(ndcg|p|err|map)@\d+", lambda found: called(found[0]), text)


def mean_of(values: Vector) -> tuple[float, Interval | None]:
    """Return the mean of one figure of each query, and its interval."""
    return float(values.mean()), interval_of(values)


def differences(
    title: str,
    caption: str,
    groups: Sequence[tuple[str, Sequence[tuple[str, Comparison]]]],
    *,
    unit: str,
    names: str,
) -> Plot:
    """Draw differences beside zero, one group of dots after the other.

    Args:
        title: of the plot.
        caption: what to notice.
        groups: of comparisons; each has a name in the legend. All have the same places, in the same order.
        unit: of the differences.
        names: what the places are.

    The numbers are left to a table of the page.
    """
    places = [name for name, _ in groups[0][1]]
    found = [one for _, compared in groups for _, one in compared]
    marks = [
        Dots(
            group,
            list(range(len(compared))),
            [one.difference for _, one in compared],
            [None if one.interval is None else one.interval.low for _, one in compared],
            [None if one.interval is None else one.interval.high for _, one in compared],
        )
        for group, compared in groups
    ]
    return Plot(
        title,
        caption,
        x=Axis(names, categories=places),
        y=Axis(unit),
        marks=[*marks, Level("", 0.0)],
        intervals=INTERVALS.format(found[0].n_queries),
        sideways=True,
        numbers=False,
    )


def means(
    title: str, caption: str, rows: Sequence[tuple[str, Vector]], *, unit: str, names: str, intervals: str
) -> Plot:
    """Draw means over queries, each with its interval if enough queries differ."""
    found = [mean_of(values) for _, values in rows]
    mark = Dots(
        unit,
        list(range(len(rows))),
        [mean for mean, _ in found],
        [None if interval is None else interval.low for _, interval in found],
        [None if interval is None else interval.high for _, interval in found],
    )
    return Plot(
        title,
        caption,
        x=Axis(names, categories=[name for name, _ in rows]),
        y=Axis(unit),
        marks=[mark],
        intervals=intervals,
        sideways=True,
    )
