"""The parent of several workers: starts them, replaces those that die or hang, and stops them all.

It imports what they need and then forks, so that a replacement accepts connections after a fraction of a second and
workers share the memory of the libraries. Forking is safe because this process has one thread; nothing here may start
another.

Each worker writes to a pipe as often as its event loop turns. Silence is counted in rounds of the supervisor, not in
time on a clock: a machine that was suspended, or a supervisor that was stopped, must not kill workers that are well.
"""

from __future__ import annotations

import gc
import importlib
import logging
import mmap
import multiprocessing
import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from uvicorn.config import STARTUP_FAILURE

from localrank_service.process.neighbours import Board, Neighbours
from localrank_service.process.worker import SERVING, STUCK, work

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import ForkProcess

    import uvicorn

    from localrank_service.telemetry.meters import Meters

_log = logging.getLogger("localrank.service")
_fork = multiprocessing.get_context("fork")

#: A worker beats this many times within `hang_seconds`.
_BEATS = 5
#: Seconds. A worker that lived shorter counts as failed; after two in a row the next waits, up to the longest pause.
_SHORT_LIFE = 10.0
_LONGEST_PAUSE = 30.0
#: Seconds. How soon the round after start comes in which `Supervisor` asks whether all serve.
_SOON = 0.05
_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(slots=True, eq=False)
class _Worker:
    """A live worker.

    Attributes:
        process: the worker.
        beats: the reading end of its pipe.
        begun: when it was started, on the monotonic clock.
        silent: rounds since its last beat.
        hung: whether it was killed for its silence.
    """

    process: ForkProcess
    beats: int
    begun: float
    silent: int = 0
    hung: bool = False

    def listen(self) -> bytes:
        """Return what it has written since the last call."""
        heard = b""
        with suppress(BlockingIOError):
            while part := os.read(self.beats, 4096):
                heard += part
        if heard:
            self.silent = 0
        return heard


@dataclass(slots=True, eq=False)
class _Place:
    """Room for one worker.

    Attributes:
        worker: who has it now.
        start_at: when to start the next, on the monotonic clock.
        failures: short lives in a row.
    """

    worker: _Worker | None = None
    start_at: float = 0.0
    failures: int = 0


@dataclass(slots=True, eq=False)
class Supervisor:
    """Keeps ``config.workers`` workers alive that accept connections from one listener.

    Attributes:
        config: of the server that each worker runs.
        listener: bound and listening.
        meters: counts the deaths.
        hang_seconds: a worker whose event loop does not turn for this time is replaced.
        announce: asked again and again until it says that it has announced the service.
    """

    config: uvicorn.Config
    listener: socket.socket
    meters: Meters
    hang_seconds: float
    announce: Callable[[], bool]
    _places: list[_Place] = field(init=False)
    _signals: list[int] = field(init=False, default_factory=list)
    _served: bool = field(init=False, default=False)
    _failed: bool = field(init=False, default=False)
    #: One byte that the workers see: whether all of them stop.
    _ending: mmap.mmap = field(init=False, default_factory=lambda: mmap.mmap(-1, 1))

    _board: Board = field(init=False)

    def __post_init__(self) -> None:
        self._board = Board(self.config.workers)
        self._places = [_Place() for _ in range(self.config.workers)]

    def run(self) -> bool:
        """Serve until told to stop; return whether any worker could ever serve."""
        # Workers find the application in memory.
        importlib.import_module(str(self.config.app).partition(":")[0])
        gc.collect()
        gc.freeze()
        with suppress(ModuleNotFoundError):
            import uvloop  # noqa: F401
        awake, wake = socket.socketpair()
        with awake, wake:
            for end in (awake, wake):
                os.set_blocking(end.fileno(), False)
            signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
            for number in _STOP:
                if signal.getsignal(number) != signal.SIG_IGN:
                    signal.signal(number, lambda got, _frame: self._signals.append(got))
            try:
                self._run(awake)
            finally:
                signal.set_wakeup_fd(-1)
        return not self._failed

    def _run(self, awake: socket.socket) -> None:
        tick = self.hang_seconds / _BEATS
        announced = False
        next_round = time.monotonic() + tick
        while not (self._signals or self._failed):
            for place in self._places:
                if place.worker is None and time.monotonic() >= place.start_at:
                    self._fill(place, awake)
            announced = announced or self.announce()
            self._wait(awake, min(tick, 1.0) if announced else _SOON)
            if time.monotonic() >= next_round:
                self._count_silence()
                next_round = time.monotonic() + tick
        self._stop(awake, tick)

    def _stop(self, awake: socket.socket, tick: float) -> None:
        """End all workers; pass on every further signal, which tells them not to drain for long."""
        for place in self._places:
            place.start_at = float("inf")
        # Each worker has its own listener and closes it when it stops accepting. No connection may then wait here in
        # vain.
        self.listener.close()
        self._ending[0] = 1
        self._signals[:] = [signal.SIGTERM]
        next_round = time.monotonic() + tick
        while any(place.worker for place in self._places):
            if self._signals:
                self._signals.clear()
                for place in self._places:
                    if place.worker is not None:
                        place.worker.process.terminate()
            self._wait(awake, tick)
            if time.monotonic() >= next_round:
                self._count_silence()
                next_round = time.monotonic() + tick

    def _wait(self, awake: socket.socket, seconds: float) -> None:
        """Wait for a beat, a death, a signal, or so long; take note of what there was."""
        living = [place.worker for place in self._places if place.worker is not None]
        due = [place.start_at - time.monotonic() for place in self._places if place.worker is None]
        sentinels = [worker.process.sentinel for worker in living]
        wait(
            [awake, *sentinels, *(worker.beats for worker in living)],
            max(0.0, min([seconds, *due])),
        )
        with suppress(BlockingIOError):
            awake.recv(4096)
        for place in self._places:
            if (worker := place.worker) is None:
                continue
            self._served |= SERVING in worker.listen()
            if not worker.process.is_alive():
                self._bury(place, worker)

    def _count_silence(self) -> None:
        for place in self._places:
            if (worker := place.worker) is None:
                continue
            worker.silent += 1
            if worker.silent > _BEATS and not worker.hung:
                worker.hung = True
                _log.error(
                    "worker %d hangs: its event loop did not respond for %g s; killing it",
                    worker.process.pid,
                    self.hang_seconds,
                )
                worker.process.kill()

    def _bury(self, place: _Place, worker: _Worker) -> None:
        """Log that a worker is gone, and when the next one starts."""
        worker.process.join()
        os.close(worker.beats)
        place.worker = None
        code, lived = worker.process.exitcode or 0, time.monotonic() - worker.begun
        if place.start_at == float("inf"):
            return  # it was told to stop
        cause = "hung" if worker.hung else _cause(code)
        self.meters.worker_deaths.of(cause)[0] += 1.0
        if code == STARTUP_FAILURE and not self._served:
            self._failed = True
            return
        place.failures = place.failures + 1 if lived < _SHORT_LIFE else 0
        pause = self._put_off(place)
        _log.error(
            "worker %d ended: %s, after %.1f s; another one starts %s",
            worker.process.pid,
            cause,
            lived,
            f"in {pause:g} s" if pause else "now",
        )

    def _put_off(self, place: _Place) -> float:
        """Set when the next worker starts; return in how many seconds."""
        pause = 0.0 if place.failures < 2 else min(2.0 ** (place.failures - 2), _LONGEST_PAUSE)
        place.start_at = time.monotonic() + pause
        return pause

    def _fill(self, place: _Place, awake: socket.socket) -> None:
        try:
            place.worker = self._start(place, awake)
        except OSError as error:
            # No memory, no process or no descriptor is left; the other workers go on.
            place.failures = max(place.failures + 1, 2)
            pause = self._put_off(place)
            _log.error("cannot start a worker: %s; trying again in %g s", error.strerror or error, pause)

    def _start(self, place: _Place, awake: socket.socket) -> _Worker:
        reader, writer = os.pipe()
        for end in (reader, writer):
            os.set_blocking(end, False)
        process = _fork.Process(
            target=self._work,
            args=(self._places.index(place), awake, reader, writer),
            name="localrank-worker",
        )
        started = False
        # A signal that comes before the worker has its own handlers waits until it has.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
        try:
            process.start()
            started = True
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
            os.close(writer)
            if not started:
                os.close(reader)
        return _Worker(process, reader, time.monotonic())

    def _work(self, number: int, awake: socket.socket, reader: int, writer: int) -> None:
        """Be a worker: let go of what is the supervisor's, then serve."""
        signal.set_wakeup_fd(-1)
        for stop in _STOP:
            if signal.getsignal(stop) != signal.SIG_IGN:
                signal.signal(stop, _leave)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
        awake.close()
        # If a worker kept a reading end, the others would not notice that the supervisor is gone.
        for held in (reader, *(place.worker.beats for place in self._places if place.worker is not None)):
            os.close(held)
        every = self.hang_seconds / _BEATS
        neighbours = Neighbours(self._board, number, ending=lambda: self._ending[0] == 1)
        work(self.config, self.listener, writer, every, neighbours)


def _cause(code: int) -> str:
    if code == STUCK:
        return "stuck"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _leave(_number: int, _frame: object) -> None:
    """End this worker: before its server listens for signals, or after it has finished."""
    raise SystemExit(0)
