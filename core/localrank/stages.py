"""The time of each stage of a request.

The ranker names its stages, and its caller may measure them. The service passes a `Stopwatch` and turns its one
dictionary into the body's ``timings_ms``, the ``Server-Timing`` header and the histograms. Training passes nothing.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import TracebackType


class Stage(Protocol):
    """Measures what runs inside ``with stage("sign"):``."""

    def __call__(self, name: str, /) -> AbstractContextManager[object]: ...


_NOTHING = nullcontext()


def untimed(_name: str, /) -> AbstractContextManager[object]:
    """Measure nothing."""
    return _NOTHING


class Stopwatch:
    """Wall time of each stage of one request, in milliseconds, in the order run.

    Stages do not nest. A class rather than a generator: entering costs a third as much, and a request has six.
    """

    __slots__ = ("_name", "_started", "milliseconds")

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self._name = ""
        self._started = 0.0

    def __call__(self, name: str, /) -> Stopwatch:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        elapsed = (time.perf_counter() - self._started) * 1e3
        self.milliseconds[self._name] = self.milliseconds.get(self._name, 0.0) + elapsed
