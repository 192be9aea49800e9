r"""What was measured in the last minutes, over all workers: how many requests, and the quantiles of their times.

Time is cut into slices, which all processes number alike because they share the monotonic clock. A series keeps the
latest slices in a ring; of each it knows its number and how many observations fell into each bucket. A window is the
current slice and those before it.

A bucket holds what is above :math:`b_{i-1}` and at most :math:`b_i = b_0 r^i`. An observation in it is shown as
:math:`\sqrt{b_{i-1} b_i}`. The error is at most a factor of :math:`\sqrt r`, less than 10 %. The quantile ``q`` of
``n`` observations is the :math:`\lceil q n \rceil`-th smallest.
"""

from __future__ import annotations

import time
from array import array
from math import ceil, log
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from localrank.arrays import Vector
    from localrank_service.telemetry.counts import Cells, Counted, Counts

#: Seconds of one slice.
SECONDS: Final = 15
#: What is asked for, in seconds.
WINDOWS: Final = {"1m": 60, "5m": 300, "15m": 900}
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
OUTCOMES: Final = ("ok", "invalid", "error")
_SLICES: Final = max(WINDOWS.values()) // SECONDS + 1
#: From 10 microseconds, in steps of a fifth, to the first above a minute.
_RATIO: Final = 1.2
BOUNDS: Final = tuple(1e-5 * _RATIO**step for step in range(ceil(log(60 / 1e-5, _RATIO)) + 1))
#: The bucket of a time in milliseconds, from its logarithm: a third of what a search takes.
_LEAST: Final = 1e3 * BOUNDS[0]
_MOST: Final = len(BOUNDS)
_SCALE: Final = 1 / log(_RATIO)
_SHIFT: Final = -log(_LEAST) * _SCALE
_WIDTH: Final = len(BOUNDS) + 2


def add(cells: Cells, number: float, bucket: int) -> None:
    """Count one more in a bucket of the slice of that number; ``cells`` are the ring of one series."""
    width = len(cells) // _SLICES
    at = int(number % _SLICES) * width
    if cells[at] != number:
        # A reader in between finds an old slice without observations.
        cells[at + 1 : at + width] = array("d", bytes(8 * (width - 1)))
        cells[at] = number
    cells[at + 1 + bucket] += 1.0


def size(buckets: int) -> int:
    """Return how many cells the ring of a series with this number of buckets has."""
    return _SLICES * (buckets + 1)


class Recent:
    """The latest slices of every model: outcomes of requests, and the times of their stages."""

    #: Names of the series, whose first label is the model.
    SERIES: Final = ("recent_outcomes", "recent_times")

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._outcomes: dict[str, Cells] = {}
        self._times: dict[tuple[str, str], Cells] = {}

    def forget(self) -> None:
        """Look up the cells of every series anew: some were dropped."""
        self._outcomes, self._times = {}, {}

    def ranked(self, model: str, milliseconds: Mapping[str, float]) -> None:
        """Count one ranking and its stages."""
        number = time.monotonic() // SECONDS
        outcomes = self._outcomes.get(model) or self._outcomes_of(model)
        at = int(number % _SLICES) * (len(OUTCOMES) + 1)
        if outcomes[at] == number:
            outcomes[at + 1] += 1.0
        else:
            add(outcomes, number, 0)
        at = int(number % _SLICES) * _WIDTH
        times = self._times
        for stage, elapsed in milliseconds.items():
            cells = times.get((model, stage)) or self._times_of(model, stage)
            bucket = ceil(log(elapsed) * _SCALE + _SHIFT) if elapsed > _LEAST else 0
            if cells[at] == number and bucket < _MOST:
                cells[at + 1 + bucket] += 1.0
            else:
                add(cells, number, min(bucket, _MOST))

    def refused(self, model: str, outcome: str) -> None:
        """Count a request that was not answered with a ranking."""
        add(self._outcomes_of(model), time.monotonic() // SECONDS, OUTCOMES.index(outcome))

    def _outcomes_of(self, model: str) -> Cells:
        if (cells := self._outcomes.get(model)) is None:
            cells = self._counts.cells(self.SERIES[0], (model,), size(len(OUTCOMES)))
            self._outcomes[model] = cells
        return cells

    def _times_of(self, model: str, stage: str) -> Cells:
        cells = self._counts.cells(self.SERIES[1], (model, stage), size(len(BOUNDS) + 1))
        self._times[model, stage] = cells
        return cells

    def _rings(
        self, counted: Iterable[Counted]
    ) -> tuple[dict[str, list[Cells]], dict[str, dict[str, list[Cells]]]]:
        """Return the rings of all processes: of outcomes by model, of times by model and stage."""
        outcomes: dict[str, list[Cells]] = {}
        times: dict[str, dict[str, list[Cells]]] = {}
        for process in counted:
            for (model,), cells in process.series.get(self.SERIES[0], {}).items():
                outcomes.setdefault(model, []).append(cells)
            for (model, stage), cells in process.series.get(self.SERIES[1], {}).items():
                times.setdefault(model, {}).setdefault(stage, []).append(cells)
        return outcomes, times

    def series(self, counted: Iterable[Counted], now: float) -> dict[str, Any]:
        """Return requests and quantiles of their whole time for each slice, the oldest first, the last unfinished."""
        outcomes, times = self._rings(counted)
        own = {model: by_slice(rings, now) for model, rings in sorted(outcomes.items())}
        nothing = np.zeros((_SLICES, len(BOUNDS) + 1))
        total = {
            model: by_slice(rings, now) if (rings := times.get(model, {}).get("total")) else nothing
            for model in own
        }
        everything = np.sum([*own.values(), np.zeros((_SLICES, len(OUTCOMES)))], axis=0)
        return {
            "seconds": SECONDS,
            "latest_seconds": round(now % SECONDS, 3),
            **_course(everything, np.sum([*total.values(), nothing], axis=0)),
            "models": {
                model: _course(counts, total[model])
                for model, counts in own.items()
                if model and counts.any()
            },
        }

    def shown(self, counted: Iterable[Counted], now: float, uptime: float) -> dict[str, Any]:
        """Return what there is to show of each window."""
        outcomes, times = self._rings(counted)
        # [windows, buckets] of each model, then of each of its stages.
        own = {model: within(series, now) for model, series in sorted(outcomes.items())}
        stages = {
            model: {stage: within(series, now) for stage, series in times.get(model, {}).items()}
            for model in own
        }
        together: dict[str, Vector] = {}
        for some in stages.values():
            for stage, buckets in some.items():
                together[stage] = together.get(stage, 0.0) + buckets
        everything = np.sum([*own.values(), np.zeros((len(WINDOWS), len(OUTCOMES)))], axis=0)
        shown: dict[str, Any] = {}
        for position, (name, window) in enumerate(WINDOWS.items()):
            # A window begins with a slice, and not before the service did.
            seconds = min(window + now % SECONDS, uptime)
            shown[name] = {
                "seconds": round(seconds, 1),
                **_figures(everything, together, position, seconds),
                "models": {
                    model: _figures(counts, stages[model], position, seconds)
                    for model, counts in own.items()
                    if model and counts[position].any()
                },
            }
        return shown


def within(series: Sequence[Cells], now: float) -> Vector:
    """Return how many observations each bucket has in each window, over all rings of one kind: ``[windows, buckets]``."""
    slices = np.stack([np.asarray(cells, np.float64) for cells in series]).reshape(len(series) * _SLICES, -1)
    numbers = slices[:, 0]
    latest = now // SECONDS
    first = np.array([[latest - window / SECONDS] for window in WINDOWS.values()])
    inside = (numbers > 0) & (numbers <= latest) & (numbers >= first)
    found: Vector = inside.astype(np.float64) @ slices[:, 1:]
    return found


def by_slice(series: Sequence[Cells], now: float) -> Vector:
    """Return how many observations each bucket has in each slice, over all rings of one kind: ``[slices, buckets]``."""
    slices = np.stack([np.asarray(cells, np.float64) for cells in series]).reshape(len(series) * _SLICES, -1)
    numbers = slices[:, 0]
    latest = now // SECONDS
    inside = (numbers > max(latest - _SLICES, 0)) & (numbers <= latest)
    found = np.zeros((_SLICES, slices.shape[1] - 1))
    np.add.at(found, (numbers[inside] - latest - 1 + _SLICES).astype(np.int64), slices[inside, 1:])
    return found


def quantiles(buckets: Vector) -> dict[str, float] | None:
    """Return the quantiles of what is in the buckets, in seconds; ``None`` if they are empty."""
    running = np.cumsum(buckets)
    if not running[-1]:
        return None
    at = np.searchsorted(running, np.ceil(np.array([*QUANTILES.values()]) * running[-1]))
    # In the first and the last bucket, only the bound is known.
    edges = np.array([BOUNDS[0], *BOUNDS, BOUNDS[-1]])
    values = np.sqrt(edges[at] * edges[at + 1])
    return {name: float(value) for name, value in zip(QUANTILES, values, strict=True)}


def _course(outcomes: Vector, times: Vector) -> dict[str, Any]:
    """Return what there is to show of each slice."""
    found = [quantiles(buckets) for buckets in times]
    return {
        **{name: outcomes[:, position].astype(int).tolist() for position, name in enumerate(OUTCOMES)},
        **{
            name: [None if one is None else float(f"{1e3 * one[name]:.3g}") for one in found]
            for name in ("p50", "p99")
        },
    }


def _figures(outcomes: Vector, times: Mapping[str, Vector], window: int, seconds: float) -> dict[str, Any]:
    milliseconds = {}
    for stage, buckets in times.items():
        if (found := quantiles(buckets[window])) is not None:
            milliseconds[stage] = {name: float(f"{1e3 * value:.3g}") for name, value in found.items()}
    return {
        "requests": {name: int(count) for name, count in zip(OUTCOMES, outcomes[window], strict=True)},
        "per_second": float(f"{outcomes[window].sum() / max(seconds, 1e-9):.4g}"),
        "milliseconds": milliseconds,
    }
