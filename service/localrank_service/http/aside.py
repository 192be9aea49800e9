"""Threads for large work, so that the event loop answers other requests meanwhile.

One thread reads large bodies and one ranks large lists. More threads would only take the interpreter and the processor
from each other and from small requests, which do not use these threads. There are two threads, so that reading a body
does not wait while a list is ranked.

Each thread has its own queue here instead of the executor's. Waiting work can be given up, and the waiting time is
known, so a request can be refused instead.

What runs in a thread and takes long gives way now and then (`give_way`). It is not enough to release the interpreter
for a moment, as numpy does: the thread gets it back before the event loop is awake.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Weight of the newest observation in the running mean of the pace.
_NEWEST = 0.1
#: Calls handed to a thread at once: one runs, and the next one begins without waiting for the event loop.
_HANDED = 2
#: Seconds that a thread works before it gives way, and for how long it does.
_TURN, _WAY = 1e-3, 5e-5


class _Turn(threading.local):
    """When a thread gives way. A thread that is not one of these never does."""

    ends = float("inf")


_TURNS = _Turn()


def give_way() -> None:
    """Let the event loop have the interpreter, if this is a thread for large work and has worked for a while."""
    if monotonic() > _TURNS.ends:
        sleep(_WAY)
        _TURNS.ends = monotonic() + _TURN


@contextmanager
def giving_way() -> Iterator[None]:
    """Let `give_way` also work in this thread, which is not one of the threads below."""
    _TURNS.ends = monotonic() + _TURN
    try:
        yield
    finally:
        _TURNS.ends = float("inf")


def beside(function: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> asyncio.Future[_T]:
    """Call a function that may never return, in a thread of its own, which does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[_T] = loop.create_future()

    def call() -> None:
        try:
            value = function(*arguments, **named)
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            answer: Callable[[], None] = partial(found.set_exception, error)
        else:
            answer = partial(found.set_result, value)
        # The loop may be closed, or nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_unless_done, found, answer)

    threading.Thread(target=call, name="beside", daemon=True).start()
    return found


def _unless_done(future: asyncio.Future[_T], answer: Callable[[], None]) -> None:
    if not future.done():
        answer()


class Permit(Protocol):
    """What a request may take of this worker.

    Attributes:
        arrived: when its body was complete, on the monotonic clock; 0 before that.
    """

    arrived: float

    def hold(self, documents: int) -> None:
        """Count the documents of the request; raise a `Problem` if these are too many now."""

    def use(self, lane: Lane, units: float) -> None:
        """Take note of what the request is about to do there, or raise a `Problem` if it would wait too long."""

    def wait_for(self, waiter: asyncio.Future[None]) -> None:
        """Fail the waiter if the client hangs up."""


#: The claim of the request that is being answered, if there is one.
PERMIT: ContextVar[Permit | None] = ContextVar("PERMIT", default=None)


class Lane:
    """A thread and the queue of its work.

    Attributes:
        name: of the thread.
        pace: seconds for one unit of work, as a running mean; 0 before the first.
        empty: the last time that the queue was empty, on the monotonic clock.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.pace = 0.0
        self.empty = monotonic()
        self._thread = ThreadPoolExecutor(1, name)
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._handed = 0
        #: Units of all work in the lane, and units of the work that the thread does now.
        self._units = self._running = 0.0
        self._begun = 0.0

    @property
    def requests(self) -> int:
        """How many calls are in the thread or wait for it."""
        return self._handed + sum(not waiter.done() for waiter in self._waiters)

    def wait(self) -> float:
        """Return how many seconds it would take until work that comes now could begin."""
        if not self._handed:
            return 0.0
        running = self._running
        done = monotonic() - self._begun if running else 0.0
        return (self._units - running) * self.pace + max(0.0, running * self.pace - done)

    async def run(
        self, units: float, function: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs
    ) -> _T:
        """Call a function of known work in the thread."""
        permit = PERMIT.get()
        if not self._handed:
            self.empty = monotonic()
        if permit is not None:
            permit.use(self, units)
        self._units += units
        try:
            await self._enter(permit)
            try:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(
                    self._thread, self._call, units, lambda: function(*arguments, **named)
                )
            finally:
                self._leave()
        finally:
            self._units -= units

    async def _enter(self, permit: Permit | None) -> None:
        if self._handed < _HANDED:
            self._handed += 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if permit is not None:
            permit.wait_for(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._leave()
            raise
        finally:
            del waiter  # it may hold an error, whose traceback refers to this frame

    def _leave(self) -> None:
        """Let the next one in."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._handed -= 1
        if self._handed <= 1:
            self.empty = monotonic()

    def _call(self, units: float, function: Callable[[], _T]) -> _T:
        """Call the function and measure the pace; this runs in the thread."""
        begun = self._begun = monotonic()
        self._running = units
        _TURNS.ends = begun + _TURN
        try:
            return function()
        finally:
            self._running = 0.0
            pace = (monotonic() - begun) / units
            self.pace += (pace - self.pace) * (_NEWEST if self.pace else 1.0)


#: Units are bytes.
READER = Lane("large-bodies")
#: Units are documents times `LiveModel.work`.
RANKER = Lane("large-requests")
LANES = (READER, RANKER)
