"""Which requests are taken on, and when each has its turn.

A worker computes one small request after the other on its event loop, and large ones in threads beside it
(`localrank_service.aside`). If requests come faster than that, the waiting time grows. So a request that would wait too
long is refused with 429 as soon as its head is read. The limit follows CoDel [nichols2012] as servers use it
[maurer2015]. A burst may wait for a long time. If a queue has not been empty for a while, requests may wait only for a
short time. After a refusal this time is even shorter, until the overload is over.

The head of a request only tells its length. The request is expected to take as long as earlier ones with the same path,
the same content type and about the same length. After decoding, its documents are known, and it may still be refused.

Turns keep health checks fast: between two requests the event loop looks at every socket, answers health checks, and
refuses what must be refused.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeAlias

from starlette.requests import ClientDisconnect

from localrank_service.aside import LANES, RANKER, READER
from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from localrank_service.aside import Lane
    from localrank_service.process.settings import Settings
    from localrank_service.telemetry.meters import Meters

#: If a queue has not been empty for this many seconds, it counts as standing.
_INTERVAL = 0.1
#: The overload lasts for this many seconds after the last refusal.
_CALM = 0.5
#: Weight of the newest observation in a running mean.
_NEWEST = 0.05
#: Seconds that a client is told to wait at most.
_LONGEST_WAIT = 30
#: How many small requests may always wait, and how many large ones for each thread.
_LEAST, _LEAST_ASIDE = 4.0, 1.5
#: How many times longer a queue may be while nothing is refused.
_TOLERANCE = 4.0
#: If a connection has had more than this many times the mean of all connections, the others go first.
_SHARE = 2.0
#: The allowed waiting time relative to other connections: for a connection that had more than its share, and for one
#: that had much less.
_AHEAD, _BEHIND = 0.5, 1.5
#: Kinds of requests that are told apart. Clients make them up, so their number is limited.
_MOST_KINDS = 512
#: Requests of administrators at once.
_MOST_CHANGES = 8
#: Seconds over which the connections that ask are counted.
_PERIOD = 0.5

_CHANGE = (b"", b"", 0)

#: Path, content type, and binary digits of the length of the body.
Kind: TypeAlias = tuple[bytes, bytes, int]


class Client(Protocol):
    """The state of a connection that `Admission` needs to share requests fairly.

    Attributes:
        due: from this time on, it has had no more than its share; on the monotonic clock.
        period: the period of its last request.
    """

    due: float
    period: int


class Pressure:
    """How long the queue for one resource may be.

    Args:
        burst: seconds that a request may wait in a queue that is sometimes empty.
        overload: seconds that a request may wait while others are refused.
        least: how many requests may always wait.

    Attributes:
        mean: seconds that one request takes, as a running mean.
        empty: when nothing waited last, on the monotonic clock.
    """

    def __init__(self, burst: float, overload: float, least: float) -> None:
        self.mean = 1e-3
        self.empty = monotonic()
        self._burst, self._overload, self._least = burst, overload, least
        self._strict_until = 0.0
        self._promised = 0.0

    def learn(self, seconds: float) -> None:
        """Take note of how long a request took."""
        self.mean += _NEWEST * (seconds - self.mean)

    def most(self, now: float, patience: float = 1.0) -> float:
        """Return the seconds that a request may have to wait; ``patience`` times that under overload."""
        most = max(self._overload, self._least * self.mean)
        if now < self._strict_until:
            return most * patience
        most *= _TOLERANCE
        return max(self._burst, most) if now - self.empty <= _INTERVAL else most

    def refuse(self, now: float, wait: float) -> int:
        """Return after how many seconds a refused client should ask again.

        Clients that were refused earlier come back earlier, so that they do not all come back at once.
        """
        self._strict_until = now + _CALM
        self._promised = min(max(self._promised, now + wait) + self.mean, now + _LONGEST_WAIT)
        # The difference may be rounded up to a little more than the longest wait.
        return min(max(1, math.ceil(self._promised - now)), _LONGEST_WAIT)


class _Usual:
    """What requests of one kind took, as running means: documents, and the share of them that used each lane."""

    __slots__ = ("documents", "lanes")

    def __init__(self) -> None:
        self.documents = 0.0
        self.lanes: dict[Lane, float] = {}

    def learn(self, documents: int, used: dict[Lane, float] | None) -> None:
        self.documents += 0.2 * (documents - self.documents)
        if used or self.lanes:
            for lane in LANES:
                before = self.lanes.get(lane, 0.0)
                self.lanes[lane] = before + 0.2 * ((lane in (used or ())) - before)


class Admission:
    """The requests of one worker that are being answered or wait for that.

    Attributes:
        working: requests with a complete body that are not answered yet.
        waiting: those of them whose turn has not come.
        documents: of all of them; a request that is not decoded yet counts as the usual number.
        changing: requests of administrators that change something; they have places of their own and no turns, so that
            an overloaded service can be mended.
        accepted: whether a connection was accepted since that was looked at last.
    """

    def __init__(self, settings: Settings, meters: Meters) -> None:
        self.working = self.waiting = self.documents = self.changing = 0
        self._most = settings.max_concurrent_requests
        self._most_documents = settings.max_documents_in_flight
        self._refused = meters.refused_requests
        self._waited = meters.queue_wait.of()
        self._shown = meters.documents_in_flight.of()
        self._states = meters.accepted
        self._longest = burst = settings.max_queue_ms / 1e3
        overload = settings.overload_queue_ms / 1e3
        self._pressure = Pressure(burst, overload, _LEAST)
        self._aside = {lane: Pressure(burst, overload, _LEAST_ASIDE) for lane in LANES}
        self._usual: dict[Kind, _Usual] = {}
        self._turns: deque[Claim] = deque()
        self.accepted = False
        #: Whether a request has the turn, since when, and until when connections may be accepted before the next turn.
        self._taken = False
        self._granted = self._welcome = 0.0
        #: Connections that asked in this period, and how many there were in the last.
        self._period = self._asking = 0
        self._active = 1

    def admit(self, client: Client, kind: Kind) -> Claim | int:
        """Take on a request whose head was read, or return after how many seconds to ask again."""
        usual = self._usual.get(kind)
        if self.working:
            now = monotonic()
            period = int(now / _PERIOD)
            if period != self._period:
                self._period, self._active, self._asking = period, max(1, self._asking), 0
            if client.period != period:
                client.period = period
                self._asking += 1
            pressure = self._pressure
            wait = self.waiting * pressure.mean
            ahead = client.due - now
            patience = _AHEAD if ahead > 0.0 else _BEHIND if -ahead > self._active * pressure.mean else 1.0
            if wait > pressure.most(now, patience):
                return self._refuse("queue", pressure, now, wait)
            seconds = pressure.mean
            if usual is not None:
                for lane, share in usual.lanes.items():
                    if share > 0.5:
                        if (after := self._check(lane, now, patience)) is not None:
                            return after
                        seconds += self._aside[lane].mean
                if self.documents + usual.documents > self._most_documents:
                    return self._refuse("documents", pressure, now, wait)
            if self.working >= self._most:
                return self._refuse("requests", pressure, now, wait)
            client.due = max(client.due, now) + self._active * seconds / _SHARE
        return Claim(self, kind, 0 if usual is None else round(usual.documents))

    def admit_change(self) -> Claim | int:
        """Take on a request of an administrator, or return after how many seconds to ask again."""
        if self.changing >= _MOST_CHANGES:
            self._refused.of("changes")[0] += 1.0
            return 1
        return _Change(self, _CHANGE, 0)

    def show(self) -> None:
        """Let the meters know how many requests there are."""
        states = {
            "all": self.working + self.changing,
            "waiting": self.waiting,
            "reading": READER.requests,
            "ranking": RANKER.requests,
            "changing": self.changing,
        }
        for state, count in states.items():
            self._states.set(count, state)

    def strain(self) -> float:
        """Return how long a request would wait now, as a share of the allowed time. Above 1 the request is refused."""
        now = monotonic()
        pressure, aside = self._pressure, self._aside[RANKER]
        return max(self.waiting * pressure.mean / pressure.most(now), RANKER.wait() / aside.most(now))

    def _check(self, lane: Lane, now: float, patience: float = 1.0) -> int | None:
        """Return after how many seconds to ask again if a request would wait too long for the lane."""
        pressure = self._aside[lane]
        pressure.empty = lane.empty
        wait = lane.wait()
        return self._refuse("queue", pressure, now, wait) if wait > pressure.most(now, patience) else None

    def use(self, lane: Lane, units: float) -> None:
        """Refuse a request that would wait too long for the lane."""
        if (after := self._check(lane, monotonic())) is not None:
            raise overloaded(after)
        if lane.pace:
            self._aside[lane].learn(units * lane.pace)

    def hold(self, documents: int) -> None:
        """Count documents in flight."""
        self.documents += documents
        self._shown[0] = self.documents

    def check_documents(self) -> None:
        """Refuse a request whose documents are one request's too many."""
        if self.documents > self._most_documents and self.working > 1:
            pressure = self._pressure
            wait = self.waiting * pressure.mean
            raise overloaded(self._refuse("documents", pressure, monotonic(), wait))

    def learn(self, kind: Kind, documents: int, used: dict[Lane, float] | None) -> None:
        """Take note of what a request of this kind took."""
        usual = self._usual.get(kind)
        if usual is None:
            if len(self._usual) >= _MOST_KINDS:
                self._usual.clear()
            usual = self._usual[kind] = _Usual()
        usual.learn(documents, used)

    def take(self, claim: Claim) -> bool:
        """Give the turn to this request if nobody has it or waits for it."""
        if self._taken or self._turns:
            return False
        self._taken = True
        self._grant(claim, monotonic())
        return True

    def join(self, claim: Claim) -> None:
        """Put a request that `take` did not give the turn into the queue."""
        self._turns.append(claim)

    def _grant(self, claim: Claim, now: float) -> None:
        claim.granted()
        self._granted = now
        self._waited.observe(now - claim.arrived)
        if not self.waiting:
            self._pressure.empty = now
        # It runs after the request has computed, or has begun to wait for something.
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        """End a turn. If connections wait, they are accepted before the next turn, for as long as this turn took."""
        now = monotonic()
        self._welcome = now + now - self._granted
        self._next()

    def _next(self) -> None:
        """Give the turn to the request that has waited longest."""
        now = monotonic()
        if self.accepted and self._turns and now < self._welcome:
            # The event loop accepts one connection in each of its turns, and any may be a health check's.
            self.accepted = False
            asyncio.get_running_loop().call_soon(self._next)
            return
        pressure = self._pressure
        pressure.learn(now - self._granted)
        while self._turns:
            claim = self._turns.popleft()
            if claim.waiter is None or claim.waiter.done():
                continue
            waited = now - claim.arrived
            # If the whole process stood still, it is better to answer a few requests that have waited for long.
            if waited > self._longest and self.waiting * pressure.mean > self._longest:
                claim.waiter.set_exception(overloaded(self._refuse("queue", pressure, now, waited)))
                continue
            claim.waiter.set_result(None)
            self._grant(claim, now)
            return
        self._taken = False

    def _refuse(self, reason: str, pressure: Pressure, now: float, wait: float) -> int:
        self._refused.of(reason)[0] += 1.0
        return pressure.refuse(now, wait)


def overloaded(after: int) -> Problem:
    """Return the problem that asks a client to come back after ``seconds``."""
    return Problem(
        429, f"the server is overloaded; try again in {after} s", headers={"Retry-After": str(after)}
    )


class Claim:
    """What one request takes of the worker.

    Attributes:
        arrived: when its body was complete.
        waiter: resolved when it may go on; failed when it may not.
    """

    __slots__ = ("_admission", "_counted", "_documents", "_kind", "_state", "_used", "arrived", "waiter")

    def __init__(self, admission: Admission, kind: Kind, documents: int) -> None:
        self.arrived = 0.0
        self.waiter: asyncio.Future[None] | None = None
        self._admission = admission
        self._kind = kind
        #: Documents that are counted for the request, and documents that were found in it.
        self._documents = documents
        self._counted = 0
        self._used: dict[Lane, float] | None = None
        #: 0 while the body is read, 1 while it waits, 2 while it is answered, 3 afterwards.
        self._state = 0

    def arrive(self) -> None:
        """Take notice that the body is complete."""
        if self._state == 0:
            self._state = 1
            self.arrived = monotonic()
            self._admission.working += 1
            self._admission.waiting += 1
            self._admission.hold(self._documents)

    def begin(self) -> bool:
        """Take the turn, if it is free."""
        return self._admission.take(self)

    async def turn(self) -> None:
        """Wait for the turn. Raises a `Problem` with status 429 if that takes too long, or `ClientDisconnect`."""
        self.waiter = asyncio.get_running_loop().create_future()
        self._admission.join(self)
        try:
            await self.waiter
        finally:
            self.waiter = None  # it may hold an error, whose traceback refers to frames with this claim

    def granted(self) -> None:
        """Take notice that the turn has come."""
        if self._state == 1:
            self._state = 2
            self._admission.waiting -= 1

    def hold(self, documents: int) -> None:
        """Count the documents of a decoded request instead of the usual number."""
        first = not self._counted
        self._counted += documents
        self._admission.hold(self._counted - self._documents)
        self._documents = self._counted
        if first:
            self._admission.check_documents()

    def use(self, lane: Lane, units: float) -> None:
        """Take note of work aside, or raise a `Problem` if it would wait too long.

        A request that has begun in a lane may continue there, and a finished ranking may be written.
        """
        used = self._used
        if used is None:
            used = self._used = {}
        first = lane not in used
        used[lane] = used.get(lane, 0.0) + units
        if first and (lane is RANKER or not self._counted):
            self._admission.use(lane, units)

    def wait_for(self, waiter: asyncio.Future[None]) -> None:
        """Fail the waiter if the client hangs up."""
        self.waiter = waiter

    def give_up(self) -> None:
        """Stop waiting, because the client is gone."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(ClientDisconnect())

    def finish(self) -> None:
        """Take notice that the request was answered, or that nobody waits for the answer."""
        self.granted()
        if self._state == 2:
            self._admission.working -= 1
            self._admission.hold(-self._documents)
            if self._counted or self._used:
                self._admission.learn(self._kind, self._counted, self._used)
        self._state = 3


class _Change(Claim):
    """What a request of an administrator takes: one of a few places, from its head to its end."""

    __slots__ = ()

    def __init__(self, admission: Admission, kind: Kind, documents: int) -> None:
        super().__init__(admission, kind, documents)
        admission.changing += 1

    def arrive(self) -> None:
        self.arrived = monotonic()

    def begin(self) -> bool:
        return True

    def finish(self) -> None:
        if self._state != 3:
            self._admission.changing -= 1
        self._state = 3
