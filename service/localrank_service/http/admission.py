"""Which requests are taken on, and when each has its turn.

A worker computes one small request after the other on its event loop, and large ones in a thread beside it. Requests
that come faster would wait ever longer, so a request that would wait too long is refused, 429, as soon as its head is
read. How long is too long follows CoDel [nichols2012] as servers use it [maurer2015]: a burst may wait for long, but a
queue that has not been empty for a while may only be short.

Turns keep health checks fast: between two requests the event loop looks at every socket, answers health checks, and
refuses what must be refused.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from localrank_service.process.settings import Settings
    from localrank_service.telemetry.metrics import Metrics

__all__ = ["Admission", "Claim", "Pressure"]

#: Seconds without an empty queue after which a queue stands.
_INTERVAL = 0.1
#: Seconds after the last refusal in which the queue still counts as standing.
_CALM = 0.5
#: Weight of the newest observation in a running mean.
_NEWEST = 0.05
#: Seconds that a client is told to wait at most.
_LONGEST_WAIT = 30
#: So many small requests may always wait.
_LEAST = 8


class Pressure:
    """How long the queue for one resource may be.

    Args:
        burst: seconds that a request may wait in a queue that is sometimes empty.
        standing: seconds that a request may wait in a queue that never is.
        least: so many requests may always wait.

    Attributes:
        mean: seconds that one request takes, as a running mean.
    """

    def __init__(self, burst: float, standing: float, least: int) -> None:
        self.mean = 1e-3
        self._burst, self._standing, self._least = burst, standing, least
        self._empty = monotonic()
        self._strict_until = 0.0
        self._promised = 0.0

    def learn(self, seconds: float) -> None:
        """Take note of how long a request took."""
        self.mean += _NEWEST * (seconds - self.mean)

    def empty(self, now: float) -> None:
        """Take note that nothing waits."""
        self._empty = now

    def most(self, now: float) -> float:
        """Return the seconds that a request may have to wait."""
        standing = now - self._empty > _INTERVAL or now < self._strict_until
        return max(self._standing if standing else self._burst, self._least * self.mean)

    def refuse(self, now: float, wait: float) -> int:
        """Return after how many seconds a refused client should ask again.

        By then those refused before it could have been answered, so that they come back one after the other.
        """
        self._strict_until = now + _CALM
        self._promised = min(max(self._promised, now + wait) + self.mean, now + _LONGEST_WAIT)
        return max(1, math.ceil(self._promised - now))


class Admission:
    """The requests of one worker that are being answered or wait for that.

    Attributes:
        working: requests with a complete body that are not answered yet.
        waiting: those of them whose turn has not come.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.working = self.waiting = 0
        self._most = settings.max_concurrent_requests
        self._longest = settings.max_queue_ms / 1e3
        self._refused = metrics.refused_requests
        self._waited = metrics.queue_wait.of()
        self._pressure = Pressure(self._longest, settings.standing_queue_ms / 1e3, _LEAST)
        self._turns: deque[Claim] = deque()
        self._taken = False
        self._granted = 0.0

    def admit(self) -> Claim:
        """Take on a request whose head was read, or raise a `Problem` with status 429."""
        if self.waiting:
            now = monotonic()
            wait = self.waiting * self._pressure.mean
            if wait > self._pressure.most(now):
                raise self._refusal("queue", now, wait)
            if self.working >= self._most:
                raise self._refusal("requests", now, wait)
        return Claim(self)

    def take(self, claim: Claim) -> bool:
        """Give the turn to this request if nobody has it or waits for it."""
        if self._taken or self._turns:
            return False
        self._taken = True
        self._grant(claim, monotonic())
        return True

    def join(self, claim: Claim) -> None:
        """Put the request into the queue for turns."""
        self._turns.append(claim)

    def _grant(self, claim: Claim, now: float) -> None:
        claim.granted()
        self._granted = now
        self._waited.observe(now - claim.arrived)
        if not self.waiting:
            self._pressure.empty(now)
        # It runs after the request has computed, or has begun to wait for something.
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Give the turn to who waits longest."""
        now = monotonic()
        self._pressure.learn(now - self._granted)
        while self._turns:
            claim = self._turns.popleft()
            if claim.waiter is None or claim.waiter.done():
                continue
            waited = now - claim.arrived
            if waited > self._longest + self._pressure.mean:
                claim.waiter.set_exception(self._refusal("queue", now, waited))
                continue
            claim.waiter.set_result(None)
            self._grant(claim, now)
            return
        self._taken = False

    def _refusal(self, reason: str, now: float, wait: float) -> Problem:
        self._refused.of(reason)[0] += 1.0
        after = self._pressure.refuse(now, wait)
        return Problem(
            429,
            f"the server is overloaded: {self.waiting} requests wait; try again in {after} s",
            headers={"Retry-After": str(after)},
        )


class Claim:
    """The share of the worker that one request takes.

    Attributes:
        arrived: when its body was complete.
        waiter: resolved when its turn has come; failed when it will not.
    """

    __slots__ = ("_admission", "_state", "arrived", "waiter")

    def __init__(self, admission: Admission) -> None:
        self.arrived = 0.0
        self.waiter: asyncio.Future[None] | None = None
        self._admission = admission
        #: 0 while the body is read, 1 while it waits, 2 while it is answered, 3 afterwards.
        self._state = 0

    def arrive(self) -> None:
        """Take notice that the body is complete."""
        if self._state == 0:
            self._state = 1
            self.arrived = monotonic()
            self._admission.working += 1
            self._admission.waiting += 1

    def begin(self) -> bool:
        """Take the turn, if it is free."""
        return self._admission.take(self)

    async def turn(self) -> None:
        """Wait for the turn. Raises a `Problem` with status 429 if that takes too long, or `ClientDisconnect`."""
        self.waiter = asyncio.get_running_loop().create_future()
        self._admission.join(self)
        await self.waiter

    def granted(self) -> None:
        """Take notice that the turn has come."""
        if self._state == 1:
            self._state = 2
            self._admission.waiting -= 1

    def give_up(self) -> None:
        """Stop waiting, because the client is gone."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(ClientDisconnect())

    def finish(self) -> None:
        """Take notice that the request was answered, or that nobody waits for the answer."""
        self.granted()
        if self._state == 2:
            self._admission.working -= 1
        self._state = 3
