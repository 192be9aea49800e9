"""What else the machine does while something is measured.

A figure of time says little without the load average and the share of processor time that the host of a virtual machine
took away (*stolen*; ``/proc/stat``). What ran while more than `MOST_STOLEN` was stolen is measured again.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from benchmarks.results import Row

Measured = TypeVar("Measured")

#: Share of the processors' time that may be stolen.
MOST_STOLEN = 0.02
#: How often something is measured at most.
TRIES = 3
#: Where ``/proc/stat`` has the stolen ticks; what guests used is counted twice and stands behind it.
_STOLEN, _COUNTED = 7, 8


class Noise(NamedTuple):
    """What disturbed a measurement.

    Attributes:
        load: the largest load average over a minute, at its begin and its end. The measured programs count too.
        stolen: share of the processors' time.
    """

    load: float
    stolen: float

    def __str__(self) -> str:
        return f"load average {self.load:.1f}, {self.stolen:.1%} of the processors' time stolen"


def measured(measure: Callable[[], Measured]) -> tuple[Measured, Noise]:
    """Return what was measured, and what disturbed it; measure again if too much time was stolen."""
    for tries_left in reversed(range(TRIES)):
        before, load = _ticks(), os.getloadavg()[0]
        found = measure()
        spent = [after - ago for after, ago in zip(_ticks(), before, strict=True)]
        noise = Noise(max(load, os.getloadavg()[0]), spent[_STOLEN] / max(1, sum(spent)))
        if noise.stolen <= MOST_STOLEN or not tries_left:
            break
        print(f"measuring again: {noise}", file=sys.stderr, flush=True)
    return found, noise


def largest(rows: Sequence[Row]) -> Noise:
    """Return the largest load average and the largest share stolen of rows that have both."""
    return Noise(max(row["load"] for row in rows), max(row["stolen"] for row in rows))


@contextmanager
def neighbours(count: int, processors: Collection[int] | None = None) -> Iterator[None]:
    """Keep this many other processes busy, on some processors or on all."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_spin, args=(processors,), daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _spin(processors: Collection[int] | None) -> None:
    if processors is not None:
        os.sched_setaffinity(0, processors)
    while True:
        pass


def _ticks() -> list[int]:
    """Return the ticks of all processors by what they were spent on."""
    return [
        int(ticks) for ticks in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1 : _COUNTED + 1]
    ]
