"""The numbers behind the meters: cells that a process changes plainly, shown over all processes of the service.

A series is the name of a metric and the values of its labels; its cells are as many numbers as its kind of metric
needs. To count is ``cells[0] += 1.0``, which takes a twentieth of the time of a locked value; a request counts two
dozen values. This is correct if only one thread counts, here the event loop's; other threads may only set.

Processes that share a folder have three files each: the series, one per line with the place of its cells; the cells,
mapped into memory, so that what was counted stays when the process dies; and a lock, held as long as the process lives,
which tells the living from the dead. A process that starts takes over the files of a dead one and continues to count in
its cells. So a counter never falls, the number of files does not grow, and a process can start even if the disk is
full. If the disk is full, new series are counted in the memory of the process; only this process shows them.
"""

from __future__ import annotations

import logging
import mmap
import os
import time
from array import array
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import orjson

from localrank.locks import is_free, take

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    Cells: TypeAlias = list[float] | memoryview[float]
    _Key: TypeAlias = tuple[str, tuple[str, ...]]
    _Line: TypeAlias = tuple[str, tuple[str, ...], int, int, bool]

_log = logging.getLogger("localrank.service")
#: Bytes that a file of cells grows by.
_CHUNK = 1 << 16
_CELL = 8
_SERIES = ".series"
_CELLS = ".cells"
_LOCK = ".lock"
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
#: Seconds after which no process can still be reading the cells of a dropped series.
_SETTLED = 60.0


class Counted(NamedTuple):
    """What one process has counted: ``{name: {values of the labels: cells}}``; it may be counting on."""

    alive: bool
    series: dict[str, dict[tuple[str, ...], Cells]]


class Counts:
    """The series of this process, and those of all that share ``folder``; only its own where that is ``None``."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file = None if folder is None else _opened(folder)
        self._shared: dict[_Key, Cells] = {} if self._file is None else self._file.inherited
        self._unshared: dict[_Key, Cells] = {}
        self._adding = Lock()
        self._read: dict[Path, _Reading] = {}

    def cells(self, name: str, labels: tuple[str, ...], count: int, *, lasting: bool = True) -> Cells:
        """Return the cells of a series, zeros where it is new.

        Args:
            name: of the metric.
            labels: their values.
            count: of the cells.
            lasting: whether a process that takes over the files of this one goes on with its numbers.
        """
        key = name, labels
        with self._adding:
            found = self._shared.get(key) or self._unshared.get(key)
            return self._added(key, count, lasting=lasting) if found is None else found

    def _added(self, key: _Key, count: int, *, lasting: bool) -> Cells:
        if self._file is not None:
            try:
                cells = self._shared[key] = self._file.add(key, count, lasting=lasting)
            except OSError as error:
                # A full disk must cost no answer.
                _log.warning("cannot share the series %s%s with other workers: %s", *key, error)
            else:
                return cells
        own = self._unshared[key] = [0.0] * count
        return own

    def drop(self, gone: Callable[[str, tuple[str, ...]], bool]) -> None:
        """Forget the series of this process for which ``gone(name, labels)`` is true. Counts in their old cells are
        lost.
        """
        with self._adding:
            shared = {key: cells for key, cells in self._shared.items() if not gone(*key)}
            if self._file is not None and len(shared) < len(self._shared):
                try:
                    self._file.keep(shared.keys())
                except OSError as error:
                    # They are dropped next time, when the disk is no longer full.
                    _log.warning("cannot remove the series of old versions: %s", error.strerror or error)
                    return
            self._shared = shared
            self._unshared = {key: cells for key, cells in self._unshared.items() if not gone(*key)}

    def counted(self) -> list[Counted]:
        """Return what every process has counted so far."""
        found = []
        if self._folder is not None:
            for path in sorted(self._folder.glob(f"*{_SERIES}")):
                self._read[path] = reading = _reading(path, self._read.get(path))
                found.append(reading.counted(path))
        series: dict[str, dict[tuple[str, ...], Cells]] = {}
        for (name, labels), cells in self._unshared.copy().items():
            series.setdefault(name, {})[labels] = cells
        if series or self._folder is None:
            found.append(Counted(alive=True, series=series))
        return found


def _opened(folder: Path) -> _File | None:
    try:
        return _File(folder)
    except OSError as error:
        _log.error("cannot share counts with other workers: %s: %s", folder, error.strerror or error)
        return None


class _Free(NamedTuple):
    """Cells of series that were dropped: where they begin, how many, and since when on the monotonic clock."""

    at: int
    size: int
    since: float


class _File:
    """The files of this process.

    Attributes:
        inherited: the series of the dead process whose files they were; those that do not last begin at zero.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, self._lock = take(folder, "")
        self._path = path.with_suffix(_SERIES)
        self._series = os.open(self._path, _APPEND, 0o600)
        self._cells = os.open(path.with_suffix(_CELLS), _APPEND & ~os.O_APPEND, 0o600)
        self.inherited: dict[_Key, Cells] = {}
        self._lines: dict[_Key, tuple[int, int, bool]] = {}
        self._free: list[_Free] = []
        self._chunks: list[tuple[int, memoryview[float]]] = []
        self._used = 0
        # What is beyond the last whole chunk was never used.
        self._size = os.fstat(self._cells).st_size // _CHUNK * _CHUNK
        if self._size:
            self._map(0, self._size)
            self._inherit()
        else:
            self._grow(1)

    def add(self, key: _Key, count: int, *, lasting: bool) -> Cells:
        """Add a series."""
        at = self._reused(count)
        if at is None:
            if self._used + count * _CELL > self._size:
                self._grow(count)
            at = self._used // _CELL
            self._used += count * _CELL
        if os.write(self._series, line := _line(key, at, count, lasting)) != len(line):
            raise OSError("the disk is full")
        self._lines[key] = at, count, lasting
        return self._found(at, count)

    def keep(self, keys: Collection[_Key]) -> None:
        """Forget all series except these. Their cells are used again only later, because somebody may still read
        them.
        """
        lines = {key: self._lines[key] for key in keys}
        content = b"".join(_line(key, *place) for key, place in lines.items())
        draft = self._path.with_suffix(".draft")
        series = os.open(draft, _APPEND | os.O_TRUNC, 0o600)
        if os.write(series, content) != len(content):
            os.close(series)
            raise OSError("the disk is full")
        draft.replace(self._path)
        os.close(self._series)
        self._series = series
        now = time.monotonic()
        self._free += [
            _Free(at, count, now) for key, (at, count, _) in self._lines.items() if key not in lines
        ]
        self._lines = lines

    def _reused(self, count: int) -> int | None:
        """Return the place of cells that are no longer used; they are zero."""
        until = time.monotonic() - _SETTLED
        for position, free in enumerate(self._free):
            if free.size >= count and free.since < until:
                rest = _Free(free.at + count, free.size - count, free.since)
                self._free[position : position + 1] = [rest] if rest.size else []
                self._found(free.at, count)[:] = array("d", bytes(_CELL * count))
                return free.at
        return None

    def _found(self, at: int, count: int) -> memoryview[float]:
        start, chunk = next(one for one in reversed(self._chunks) if one[0] <= at)
        return chunk[at - start : at - start + count]

    def _inherit(self) -> None:
        end = 0
        for name, labels, at, count, lasting in sorted(_lines(self._path), key=lambda line: line[2]):
            cells = self._found(at, count)
            if not lasting:
                cells[:] = array("d", bytes(_CELL * count))
            key = name, labels
            self.inherited[key], self._lines[key] = cells, (at, count, lasting)
            if at > end:
                self._free.append(_Free(end, at - end, time.monotonic()))
            end = max(end, at + count)
        self._used = end * _CELL
        rest = self._size // _CELL - end
        self._found(end, rest)[:] = array("d", bytes(_CELL * rest))

    def _grow(self, count: int) -> None:
        """Make room for this many cells."""
        more = -(-count * _CELL // _CHUNK) * _CHUNK
        rest = _Free(self._used // _CELL, (self._size - self._used) // _CELL, 0.0)
        # Zeros are really written: on a full disk this raises an error, but access to a hole in the file would kill the
        # process.
        if os.pwrite(self._cells, bytes(more), self._size) != more:
            raise OSError("the disk is full")
        self._used, self._size = self._size, self._size + more
        self._map(self._used, more)
        if rest.size:
            self._free.append(rest)

    def _map(self, start: int, size: int) -> None:
        chunk = memoryview(mmap.mmap(self._cells, size, offset=start)).cast("d")
        self._chunks.append((start // _CELL, chunk))


class _Reading(NamedTuple):
    """The files of one process as they were read last.

    Attributes:
        version: tells whether the file of series has changed since.
        lines: of that file.
        cells: all of them, mapped, because a number that changes while it is read would be torn by a copy of the file.
    """

    version: tuple[int, int]
    lines: list[_Line]
    cells: memoryview[float]

    def counted(self, path: Path) -> Counted:
        """Return what the process has counted, which may be counting meanwhile."""
        series: dict[str, dict[tuple[str, ...], Cells]] = {}
        for name, labels, at, count, _ in self.lines:
            series.setdefault(name, {})[labels] = self.cells[at : at + count]
        return Counted(alive=not is_free(path.with_suffix(_LOCK)), series=series)


def _reading(path: Path, before: _Reading | None) -> _Reading:
    status = path.stat()
    version = status.st_ino, status.st_size
    if before is not None and before.version == version:
        return before
    lines = _lines(path)
    cells = memoryview(b"").cast("d")
    if lines:
        with path.with_suffix(_CELLS).open("rb") as file:
            cells = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).cast("d")
    return _Reading(version, lines, cells)


def _line(key: _Key, at: int, count: int, lasting: bool) -> bytes:  # noqa: FBT001
    """Return the line of a series.

    It begins with the end of a line, in case the disk was full in the middle of the one before. A reader takes whole lines
    only, and finds zeros if nothing was counted.
    """
    return b"\n" + orjson.dumps([*key, at, count, lasting]) + b"\n"


def _lines(path: Path) -> list[_Line]:
    """Return the whole lines of a file of series."""
    found = []
    *lines, _unfinished = path.read_bytes().split(b"\n")
    for line in filter(None, lines):
        with suppress(ValueError, TypeError):  # the beginning of one that did not fit, or damage
            name, labels, at, count, lasting = orjson.loads(line)
            found.append((name, tuple(labels), at, count, lasting))
    return found
