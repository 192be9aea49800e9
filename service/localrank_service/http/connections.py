"""The connections of one worker: how many, how long each may take, and how much of their requests is kept in memory.

Clients that hold idle connections must not keep others away. So there is a limit below the number of descriptors that
the process may open. At this limit, a new connection replaces the one that has kept the worker waiting longest. Nothing
here costs a timer for each request: connections stand in the order in which their time runs out, and are looked at ten
times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
from collections import Counter, deque
from time import monotonic
from typing import TYPE_CHECKING

from localrank_service.http.heads import Heads
from localrank_service.http.problems import Problem
from localrank_service.http.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank_service.http.protocol import Http
    from localrank_service.process.settings import Settings
    from localrank_service.telemetry.meters import Meters

_log = logging.getLogger("localrank.service")

#: Seconds between two looks at the connections.
_PERIOD = 0.1
#: Seconds between two log lines about connections that were ended.
_QUIET = 10.0
#: Seconds that a client may keep the worker waiting; after that its connection is the first to be closed for a new one.
_PATIENCE = 1.0
#: Seconds in which a body may be slower than it must be on average.
_GRACE = 5.0
#: Seconds that a client has to close its side, and to take the end of an answer.
_LINGER = 1.0
#: Seconds that an idle client has to send a last request when the server stops.
_FAREWELL = 1.0
#: Seconds in which a worker that has nothing to do refuses everything before it counts as broken.
_STUCK = 60.0
#: Seconds of one turn of the event loop in which connections read. What takes longer is read in later turns. The event
#: loop accepts one connection in each turn, so turns must be short if many clients send what is slow to read.
_READING = 0.001
#: Bytes read at once. All connections read into the same memory, because each takes out at once what it needs.
_READ = 1 << 17
#: Descriptors kept for everything else: models to be loaded, logs, meters.
_RESERVED = 16
#: Bodies of the largest allowed size that are kept at once.
_BODIES = 8


class Connections:
    """All connections of this worker.

    Attributes:
        buffer: where each connection reads what arrives.
        held: bytes of requests that are in memory.
        draining: whether every answer is the last on its connection.
        refusals: answers that are made ahead.
        heads: those that were read before.
        stuck: whether every request was refused for a minute although no connection had one in work. Overload does not
            do that; something in this process is broken.
    """

    def __init__(self, settings: Settings, meters: Meters) -> None:
        self.buffer = memoryview(bytearray(_READ))
        self.draining = self.stuck = False
        #: Since when every request was refused although no connection has one in work, on the monotonic clock.
        self._refusing: float | None = None
        self.refusals = Refusals()
        self.heads = Heads()
        self._settings = settings
        self._meters = meters
        self._open = meters.connections.of()
        self._all: set[Http] = set()
        #: In the order in which they came here; the values are not used.
        self._idle: dict[Http, None] = {}
        self._heads: dict[Http, None] = {}
        self._bodies: dict[Http, None] = {}
        self._ending: dict[Http, None] = {}
        #: There was no room for these; they also wait for the client to close its side.
        self._refused: dict[Http, None] = {}
        self._stalled: dict[Http, float] = {}
        #: These read on in a later turn of the event loop; and until when connections may read in this turn.
        self._later: deque[Http] = deque()
        self._reading = 0.0
        self.held = 0
        self._most_held = _BODIES * settings.max_body_bytes
        self._limit = settings.max_connections
        self._ended: Counter[str] = Counter()
        self._logged = self._counted = -_QUIET
        self._stopping: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._show: Callable[[], None] = lambda: None

    def start(self, show: Callable[[], None] | None = None) -> None:
        """Begin to look at the connections, and call ``show`` as often; the event loop runs."""
        _raise_limit()
        self._show = show or self._show
        self._look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def enter(self, connection: Http) -> bool:
        """Take in a new connection, and close another one if there are too many; return whether there is room."""
        if len(self._all) >= self._limit and not self._make_room():
            return False
        self._all.add(connection)
        self._open[0] += 1.0
        self.begin_head(connection)
        return True

    def leave(self, connection: Http) -> None:
        """Forget a connection."""
        self.work(connection)
        self.release(connection)
        self._stalled.pop(connection, None)
        if connection in self._all:
            self._all.remove(connection)
            self._open[0] -= 1.0

    def begin_head(self, connection: Http) -> None:
        """Wait for a head."""
        self._move(connection, self._heads)

    def begin_body(self, connection: Http) -> None:
        """Wait for a body."""
        self._move(connection, self._bodies)

    def work(self, connection: Http) -> None:
        """Wait for nothing: the request is complete."""
        if connection.place is not None:
            connection.place.pop(connection, None)
            connection.place = None

    def rest(self, connection: Http) -> None:
        """Wait for the next request."""
        self._move(connection, self._idle)

    def end(self, connection: Http) -> None:
        """Wait for the client to close its side."""
        if connection.entered:
            self._move(connection, self._ending)
            return
        self._move(connection, self._refused)
        if len(self._refused) > _RESERVED // 2:
            next(iter(self._refused)).drop()

    def stall(self, connection: Http) -> None:
        """Wait for the client to take its answer."""
        self._stalled[connection] = monotonic()

    def flow(self, connection: Http) -> None:
        """Wait for that no more."""
        self._stalled.pop(connection, None)

    def hold(self, connection: Http, size: int) -> None:
        """Note how many bytes of requests a connection keeps; give up the largest unfinished one if all are too many."""
        self.held += size - connection.held
        connection.held = size
        if self.held > self._most_held:
            largest = max((*self._bodies, *self._heads, connection), key=lambda one: one.held)
            detail = (
                f"the requests that are arriving take more than {self._most_held} bytes in all, the limit of "
                "this server; try again in 1 s"
            )
            largest.give_up(Problem(429, detail, headers={"Retry-After": "1"}), "bytes")
            self.release(largest)

    def release(self, connection: Http) -> None:
        """No longer count the bytes that this connection kept."""
        self.held -= connection.held
        connection.held = 0

    def accept(self) -> None:
        """Take note that a request was not refused."""
        self._refusing = None

    def refuse(self) -> None:
        """Take note that a request was refused."""
        now = monotonic()
        if self._refusing is None:
            self._refusing = now
        elif now - self._refusing > _STUCK:
            self.stuck = True

    def turn_is_over(self) -> bool:
        """Tell whether connections have read for long enough in this turn of the event loop."""
        self._begin_turn()
        return self._reading <= monotonic()

    def put_off(self, connection: Http) -> None:
        """Let a connection read on in a later turn of the event loop."""
        self._later.append(connection)
        self._begin_turn()

    def _begin_turn(self) -> None:
        if not self._reading:
            self._reading = monotonic() + _READING
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        """Let connections read that were put off, the first ones first."""
        self._reading = 0.0
        if self._later:
            self._begin_turn()
        for _ in range(len(self._later)):
            self._later.popleft().go_on()
            if self.turn_is_over():
                break

    def note(self, reason: str) -> None:
        """Count the reason why a connection was ended; one log line covers many connections."""
        self._meters.refused_requests.of(reason)[0] += 1.0
        self._ended[reason] += 1

    def farewell(self) -> None:
        """Let idle clients send a last request before their connections are closed."""
        if self._stopping is None:
            self._stopping = monotonic()

    def count(self, status: int) -> None:
        """Count an answer that no application has made."""
        self._meters.answered("other", "other", status)

    def _move(self, connection: Http, place: dict[Http, None]) -> None:
        if connection.place is not None:
            connection.place.pop(connection, None)
        connection.place = place
        connection.since = monotonic()
        place[connection] = None

    def _make_room(self) -> bool:
        """Close the connection that has kept the worker waiting longest; connections with a recent answer come last."""
        late = monotonic() - _PATIENCE
        for places in (
            (self._ending,),
            (self._heads, self._bodies, self._idle),
            (self._heads, self._bodies),
            (self._idle,),
        ):
            firsts = [next(iter(place)) for place in places if place]
            longest = min(firsts, key=lambda one: one.since, default=None)
            if longest is not None and (len(places) < 3 or longest.since <= late):
                self.note("connections")
                longest.drop()
                return True
        return False

    def _look(self) -> None:
        """End what has taken too long."""
        now = monotonic()
        settings = self._settings
        if self._refusing is not None and any(connection.working for connection in self._all):
            self._refusing = None
        self._show()
        self._close_idle(now)
        for connection in _older(self._heads, now - settings.head_timeout_seconds):
            if connection.held:
                detail = f"the request's head did not arrive within {settings.head_timeout_seconds:g} s"
                connection.give_up(Problem(408, detail), "head_timeout")
            else:
                connection.drop()
        for connection in [*self._bodies]:
            elapsed = now - connection.since
            if elapsed > settings.body_timeout_seconds:
                detail = f"the request's body did not arrive within {settings.body_timeout_seconds:g} s"
            elif elapsed > _GRACE and connection.arrived < settings.min_body_rate * (elapsed - _GRACE):
                detail = f"the request's body arrives at less than {settings.min_body_rate} bytes a second"
            else:
                continue
            connection.give_up(Problem(408, detail), "body_timeout")
        for connection in [*_older(self._ending, now - _LINGER), *_older(self._refused, now - _LINGER)]:
            if not connection.flushing or now - connection.since > settings.body_timeout_seconds:
                connection.drop()
        for connection, since in [*self._stalled.items()]:
            if now - since > settings.body_timeout_seconds:
                self.note("slow_reader")
                connection.drop()
        if now - self._counted >= 1.0:
            self._counted = now
            self._limit = min(settings.max_connections, _room() + len(self._all))
        if self._ended and now - self._logged >= _QUIET:
            self._logged = now
            ended = ", ".join(f"{reason} {count}" for reason, count in sorted(self._ended.items()))
            self._ended.clear()
            _log.warning("requests and connections ended early: %s", ended)
        self._timer = asyncio.get_running_loop().call_later(_PERIOD, self._look)

    def _close_idle(self, now: float) -> None:
        seconds = self._settings.keep_alive_seconds
        if self._stopping is not None:
            if now - self._stopping < _FAREWELL:
                return
            seconds = 0.0
        for connection in _older(self._idle, now - seconds):
            connection.close()
        if self._stopping is not None:
            for connection in [*self._heads]:
                if not connection.held:
                    connection.close()


def _older(waiting: dict[Http, None], since: float) -> list[Http]:
    """Return those that have waited since then, the longest first."""
    found = []
    for connection in waiting:
        if connection.since > since:
            break
        found.append(connection)
    return found


def _raise_limit() -> None:
    """Let the process open as many descriptors as it is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _room() -> int:
    """Return how many more connections the process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 2**31
    return max(0, soft - len(os.listdir("/dev/fd")) - _RESERVED)  # noqa: PTH208 - it is not a folder on a disk
