"""The kinds of meters of Prometheus. They count cheaply, and become samples when somebody asks for them.

Each instrument has ``of(labels…)``, which returns what counts for these values of its labels, always the same.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric

    from localrank_service.telemetry.counts import Cells, Counted, Counts

#: What several processes show of their gauges.
Over: TypeAlias = Literal["sum", "highest", "latest"]


class Instrument(Protocol):
    """Becomes one family of samples.

    Attributes:
        name: of the metric.
        labels: their names.
    """

    name: str
    labels: Sequence[str]

    def family(self, counted: Iterable[Counted]) -> Metric:
        """Return the samples over all processes."""
        ...

    def forget(self) -> None:
        """Look up the cells of every series anew: some were dropped."""
        ...


class Counter:
    """A number that only grows: ``counter.of(…)[0] += 1.0``."""

    def __init__(self, counts: Counts, name: str, text: str, labels: Sequence[str]) -> None:
        self.name, self.labels, self._text = name, labels, text

        @cache
        def of(*values: str | int) -> Cells:
            return counts.cells(name, tuple(map(str, values)), 1)

        self.of = of
        self.forget = of.cache_clear

    def family(self, counted: Iterable[Counted]) -> Metric:
        family = CounterMetricFamily(self.name, self._text, labels=self.labels)
        for labels, (value,) in _summed(counted, self.name).items():
            family.add_metric(labels, value)
        return family


class Observations:
    """The observations of one histogram that have the same labels.

    Cells: how many fell into each bucket and no lower one, how many were above all, and their sum.
    """

    __slots__ = ("_bounds", "cells")

    def __init__(self, bounds: Sequence[float], cells: Cells) -> None:
        self._bounds = bounds
        self.cells = cells

    def observe(self, value: float) -> None:
        cells = self.cells
        cells[bisect_left(self._bounds, value)] += 1.0
        cells[-1] += value


class Histogram:
    """Numbers by their size: ``histogram.of(…).observe(0.1)``."""

    def __init__(
        self, counts: Counts, name: str, text: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self.name, self.labels, self._text = name, labels, text
        self._bounds = [*map(repr, map(float, bounds)), "+Inf"]

        @cache
        def of(*values: str | int) -> Observations:
            return Observations(bounds, counts.cells(name, tuple(map(str, values)), len(bounds) + 2))

        self.of = of
        self.forget = of.cache_clear

    def family(self, counted: Iterable[Counted]) -> Metric:
        family = HistogramMetricFamily(self.name, self._text, labels=self.labels)
        for labels, (*buckets, total) in _summed(counted, self.name).items():
            family.add_metric(labels, list(zip(self._bounds, accumulate(buckets), strict=True)), total)
        return family


class Gauge:
    """A number that is set: ``gauge.set(2.0, labels…)``.

    A ``lasting`` one counts when its process is gone. Cells: the number, and when it was set, 0 if it never was.
    """

    def __init__(
        self,
        counts: Counts,
        name: str,
        text: str,
        labels: Sequence[str],
        over: Over,
        *,
        lasting: bool = False,
    ) -> None:
        self.name, self.labels, self._text = name, labels, text
        self._over, self._lasting = over, lasting

        @cache
        def of(*values: str | int) -> Cells:
            cells = counts.cells(name, tuple(map(str, values)), 2, lasting=lasting)
            cells[1] = cells[1] or time.monotonic()
            return cells

        self.of = of
        self.forget = of.cache_clear

    def set(self, value: float, *labels: str | int) -> None:
        """Set the number, and when."""
        cells = self.of(*labels)
        cells[0] = value
        # The same clock in all processes, and nobody sets it back.
        cells[1] = time.monotonic()

    def family(self, counted: Iterable[Counted]) -> Metric:
        family = GaugeMetricFamily(self.name, self._text, labels=self.labels)
        found: dict[tuple[str, ...], list[Cells]] = {}
        for process in counted:
            if process.alive or self._lasting:
                for labels, cells in process.series.get(self.name, {}).items():
                    if cells[1]:
                        found.setdefault(labels, []).append(cells)
        for labels, several in found.items():
            if self._over == "sum":
                value = sum(value for value, _ in several)
            elif self._over == "highest":
                value = max(value for value, _ in several)
            else:
                value, _ = max(several, key=lambda cells: cells[1])
            family.add_metric(labels, value)
        return family


class MetricTable:
    """Every metric of one application, in the order shown: ``/metrics``, ``/v1/stats`` and the documentation have these.

    Attributes:
        counts: what the metrics count in.
        instruments: one for each metric.
    """

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.instruments: list[Instrument] = []

    def add(self, instrument: Instrument) -> None:
        """Add a metric that is made of others."""
        self.instruments.append(instrument)

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """Add a number that only grows."""
        self.add(made := Counter(self.counts, name, text, labels))
        return made

    def gauge(
        self, name: str, text: str, labels: Sequence[str] = (), *, over: Over, lasting: bool = False
    ) -> Gauge:
        """Add a number that is set."""
        self.add(made := Gauge(self.counts, name, text, labels, over, lasting=lasting))
        return made

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, bounds: Sequence[float]
    ) -> Histogram:
        """Add numbers by their size."""
        self.add(made := Histogram(self.counts, name, text, labels, bounds))
        return made


def _summed(counted: Iterable[Counted], name: str) -> dict[tuple[str, ...], Cells]:
    """Return the cells of each series, added over the processes."""
    found: dict[tuple[str, ...], Cells] = {}
    for process in counted:
        for labels, cells in process.series.get(name, {}).items():
            before = found.get(labels)
            found[labels] = cells if before is None else [a + b for a, b in zip(before, cells, strict=True)]
    return found
