r"""What several pages show: how figures are written, comparisons as plots, advice, the data.

The interval of a share ``k / n`` is Wilson's [wilson1927]_, with the normal quantile ``z``:

.. math::
    \frac{1}{1 + z^2 / n} \Big( \hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n} + \frac{z^2}{4 n^2}} \Big)
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from localrank._version import __version__
from localrank_training.evaluation.comparisons import interval_of
from localrank_training.report.html import Pre, Section, Table
from localrank_training.report.plots import Axis, Dots, Level, Plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector
    from localrank_training.advice.helping import Advice
    from localrank_training.data.inspection import Inspection
    from localrank_training.evaluation.comparisons import Comparison, Interval
    from localrank_training.evaluation.leaks import Leaks
    from localrank_training.report.figures import Shortfall
    from localrank_training.report.html import Part

INTERVALS = "95 % intervals over {} queries"
FOOT = f"LocalRank {__version__}. This file asks no other host for anything."
#: The normal quantile of 95 %.
_Z = 1.959963984540054


def called(metric: str) -> str:
    """Return a metric's name as people write it: ``NDCG@10``."""
    return metric.upper() if not metric.startswith("mean_") else f"mean {metric[5:].upper()}"


def named(text: str) -> str:
    """Write metrics in a sentence as people do."""
    text = re.sub(r"(?<![\w@])(map|mrr)(?= -?\d)", lambda found: called(found[0]), text)
    return re.sub(r"(?<![\w@])(ndcg|p|err|map)@\d+", lambda found: called(found[0]), text)


def sentence(text: str) -> str:
    """Begin with a capital letter and end with one point."""
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def signed(value: float) -> str:
    """Write a difference with its sign."""
    return f"{value:+.4f}".replace("-", "−")


def within(mean: float, interval: Interval | None) -> str:
    """Write a difference and half of its interval, which is as long on both sides."""
    return signed(mean) + ("" if interval is None else f" ± {(interval.high - interval.low) / 2:.4f}")


def gained(compared: Comparison | Shortfall) -> str:
    """Write the difference of a comparison with its interval."""
    return within(compared.difference, compared.interval)


def mean_of(values: Vector) -> tuple[float, Interval | None]:
    """Return the mean of one figure of each query, and its interval."""
    return float(values.mean()), interval_of(values)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of ``n`` independent cases."""
    spread = _Z**2 / n
    middle = share + spread / 2
    half = _Z * math.sqrt(share * (1 - share) / n + spread / (4 * n))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def dots(name: str, found: Sequence[tuple[float, Interval | None]]) -> Dots:
    """Return a dot and a whisker for each value and its interval, one category after the other."""
    return Dots(
        name,
        list(range(len(found))),
        [value for value, _ in found],
        [None if interval is None else interval.low for _, interval in found],
        [None if interval is None else interval.high for _, interval in found],
    )


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
    first = groups[0][1]
    marks = [dots(name, [(one.difference, one.interval) for _, one in compared]) for name, compared in groups]
    return Plot(
        title,
        caption,
        x=Axis(names, categories=[name for name, _ in first]),
        y=Axis(unit),
        marks=[*marks, Level("", 0.0)],
        intervals=INTERVALS.format(first[0][1].n_queries),
        sideways=True,
        numbers=False,
    )


def means(
    title: str, caption: str, rows: Sequence[tuple[str, Vector]], *, unit: str, names: str, intervals: str
) -> Plot:
    """Draw means over queries, each with its interval if enough queries differ."""
    return Plot(
        title,
        caption,
        x=Axis(names, categories=[name for name, _ in rows]),
        y=Axis(unit),
        marks=[dots(unit, [mean_of(values) for _, values in rows])],
        intervals=intervals,
        sideways=True,
    )


def again(command: str) -> Section:
    """Return the section with the command."""
    return Section("How to make it again", [Pre(command)])


def advised(advice: Advice | None, why_not: str = "") -> Section:
    """Return the section with the advice."""
    title = "What should be done about the data"
    if advice is None:
        return Section(title, [why_not])
    looked = f"{advice.queries:,} of {advice.of:,} queries and their {advice.documents:,} documents were looked at."
    return Section(title, [*map(named, advice.sentences or ("Nothing was found.",)), looked])


def data(found: Inspection, leaks: Leaks | None = None) -> Section:
    """Return the section with the data, and signs that they do not say what they seem to say."""
    parts: list[Part] = [
        f"{found.n_queries:,} queries with {found.n_docs:,} documents of {found.n_features:,} features.",
    ]
    if found.label_levels == len(found.labels):
        rows: list[tuple[object, ...]] = [
            (label, int(count), f"{count / found.n_docs:.1%}") for label, count in found.labels.items()
        ]
        parts.append(Table("Labels", ("label", "documents", "share"), rows))
    else:
        title = f"Labels: {found.label_levels:,} different numbers"
        labels = tuple(f"{value:g}" for value in found.labels.values())
        parts.append(Table(title, tuple(found.labels), [labels]))
    lengths = tuple(f"{value:.4g}" for value in found.lengths.values())
    parts.append(Table("Documents of a query", tuple(found.lengths), [lengths]))
    if leaks is not None:
        parts += [named(f"{said[0].upper()}{said[1:]}.") for said in leaks.sentences]
    if found.suspicions:
        parts.append(
            Table(
                "What looks wrong, or should be checked",
                ("what", "found", "of", "such as"),
                [(one.what, one.count, one.of, ", ".join(one.examples)) for one in found.suspicions],
            )
        )
    return Section("The data", parts)
