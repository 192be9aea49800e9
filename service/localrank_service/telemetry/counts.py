"""The numbers behind the metrics: cells that a process changes plainly, shown over all processes of the service.

A series is the name of a metric and the values of its labels; its cells are as many numbers as its kind of metric
needs. To count is ``cells[0] += 1.0``: a twentieth of what a locked value costs, and a request counts two dozen. That
is right where one thread counts, as the event loop's does here; other threads may only set.

Processes that share a folder write a pair of files each: the series, one per line with the place of its cells, and
the cells, mapped into memory, so that what was counted stays when the process dies. A counter must never fall, so the
dead keep counting in the sums; the first file is locked as long as its process lives, so that their gauges are told
from those of the living.
"""

from __future__ import annotations

import logging
import mmap
import os
import secrets
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import orjson

from localrank_service.models.locks import hold, is_free

if TYPE_CHECKING:
    from pathlib import Path

    Cells: TypeAlias = list[float] | memoryview[float]

__all__ = ["Counted", "Counts"]

_log = logging.getLogger("localrank.service")
#: Bytes that a file of cells grows by.
_CHUNK = 1 << 16
_CELL = 8
_SERIES = ".series"
_CELLS = ".cells"


class Counted(NamedTuple):
    """What one process has counted: ``{name: {values of the labels: cells}}``."""

    alive: bool
    series: dict[str, dict[tuple[str, ...], list[float]]]


class Counts:
    """The series of this process, and those of all that share ``folder``; only its own where that is ``None``."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._own: dict[tuple[str, tuple[str, ...]], Cells] = {}
        self._file = None if folder is None else _File(folder)
        self._adding = Lock()

    def cells(self, name: str, labels: tuple[str, ...], count: int) -> Cells:
        """Return the cells of a series, zeros where it is new."""
        key = name, labels
        with self._adding:
            found = self._own.get(key)
            if found is None:
                found = self._added(name, labels, count)
                self._own[key] = found
        return found

    def _added(self, name: str, labels: tuple[str, ...], count: int) -> Cells:
        if self._file is not None:
            try:
                return self._file.add(name, labels, count)
            except OSError as error:
                # A full disk must cost no answer.
                _log.warning("%s%s is not counted where other workers see it: %s", name, labels, error)
        return [0.0] * count

    def counted(self) -> list[Counted]:
        """Return what every process has counted so far."""
        if self._folder is not None:
            return [_read(path) for path in sorted(self._folder.glob(f"*{_SERIES}"))]
        series: dict[str, dict[tuple[str, ...], list[float]]] = {}
        for (name, labels), cells in self._own.copy().items():
            series.setdefault(name, {})[labels] = list(cells)
        return [Counted(alive=True, series=series)]


class _File:
    """The files of this process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A process may have the number of one that died.
        stem = folder / f"{os.getpid()}-{secrets.token_hex(4)}"
        self._cells = os.open(
            stem.with_suffix(_CELLS), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        self._size = self._used = 0
        # Locked before it has its name, as a lock that is free is taken for that of a dead process.
        entering = stem.with_suffix(".entering")
        self._series = hold(entering)
        entering.replace(stem.with_suffix(_SERIES))
        self._chunk = self._grown()

    def add(self, name: str, labels: tuple[str, ...], count: int) -> Cells:
        """Add a series."""
        if self._used + count * _CELL > self._size:
            self._chunk = self._grown()
        first = (self._used - self._size + _CHUNK) // _CELL
        at = self._used // _CELL
        self._used += count * _CELL
        # A reader takes whole lines only, and finds zeros where nothing was counted. It begins with the end of a line, in
        # case the disk was full in the middle of the one before.
        line = b"\n" + orjson.dumps([name, labels, at, count]) + b"\n"
        if os.write(self._series, line) != len(line):
            raise OSError("the disk is full")
        return self._chunk[first : first + count]

    def _grown(self) -> memoryview[float]:
        # Written rather than left out: where the disk is full this fails, and touching a hole would kill the process.
        if os.pwrite(self._cells, bytes(_CHUNK), self._size) != _CHUNK:
            raise OSError("the disk is full")
        chunk = memoryview(mmap.mmap(self._cells, _CHUNK, offset=self._size)).cast("d")
        self._used, self._size = self._size, self._size + _CHUNK
        return chunk


def _read(path: Path) -> Counted:
    """Read the files of one process, which may be counting meanwhile."""
    alive = not is_free(path)
    series: dict[str, dict[tuple[str, ...], list[float]]] = {}
    *lines, _unfinished = path.read_bytes().split(b"\n")
    if lines:
        with path.with_suffix(_CELLS).open("rb") as file:
            # Mapped, because a number that changes while it is read would be torn by a copy of the file.
            cells = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).cast("d")
        for line in lines:
            with suppress(orjson.JSONDecodeError):  # the beginning of one that did not fit
                name, labels, at, count = orjson.loads(line)
                series.setdefault(name, {})[tuple(labels)] = list(cells[at : at + count])
    return Counted(alive=alive, series=series)
