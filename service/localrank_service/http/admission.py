"""Which requests and connections are taken on, when each has its turn, and how long each may take.

**Requests.** A worker computes one small request after the other on its event loop, and large ones in threads beside it
(`localrank_service.http.aside`). If requests come faster than that, the waiting time grows. So a request that would wait too
long is refused with 429 as soon as its head is read. The limit follows CoDel [nichols2012] as servers use it
[maurer2015]. A burst may wait for a long time. After a refusal, requests may wait only for a short time, until the
overload is over.

Clients that wait for an answer before they ask again make a queue that stands, but is never longer than their number.
To refuse them would only make them ask more often. So the queue may be as long as there are connections that ask, and
this is tried now and then while requests are refused. A queue that grows beyond it has clients that do not wait.

The head of a request only tells its length. The request is expected to take as long as earlier ones with the same path,
the same content type and about the same length. After decoding, its documents are known, and it may still be refused.

Turns keep health checks fast: between two requests the event loop looks at every socket, answers health checks, and
refuses what must be refused.

**Connections.** Clients that hold idle connections must not keep others away. So there is a limit below the number of
descriptors that the process may open. At this limit, a new connection replaces the one that has kept the worker waiting
longest. Nothing here costs a timer for each request: connections stand in the order in which their time runs out, and
are looked at ten times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import resource
from collections import Counter, deque
from dataclasses import dataclass, fields
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from starlette.requests import ClientDisconnect

from localrank_service.http.aside import LANES, RANKER, READER
from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank_service.http.aside import Lane
    from localrank_service.http.problems import Reason
    from localrank_service.telemetry.meters import Meters

_log = logging.getLogger("localrank.service")

#: Why something is refused because of the load, and which setting says so. Each is a `reason` of the answer's body and
#: of ``localrank_refused_total``.
WHY: dict[Reason, str] = {
    "queue": "the request would wait longer for its turn than LOCALRANK_MAX_QUEUE_MS and "
    "LOCALRANK_OVERLOAD_QUEUE_MS allow",
    "requests": "as many requests are in flight as LOCALRANK_MAX_CONCURRENT_REQUESTS allows",
    "documents": "as many documents are in flight as LOCALRANK_MAX_DOCUMENTS_IN_FLIGHT allows",
    "changes": "8 requests of administrators are in flight, as many as a worker takes",
    "bytes": "the requests that are arriving take more memory than eight times LOCALRANK_MAX_BODY_BYTES",
    "connections": "as many connections are in use as LOCALRANK_MAX_CONNECTIONS and the open files of the process allow",
}

#: Requests to these paths are neither counted nor refused, and do not wait for a turn.
ALWAYS = frozenset(
    {b"/livez", b"/readyz", b"/startupz", b"/metrics", b"/v2/health/live", b"/v2/health/ready"}
)


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """How much one worker takes on, and how long that may take: the settings of the service that have these names."""

    max_concurrent_requests: int
    max_documents_in_flight: int
    max_queue_ms: float
    overload_queue_ms: float
    max_connections: int
    max_body_bytes: int
    head_timeout_seconds: float
    body_timeout_seconds: float
    min_body_rate: int
    keep_alive_seconds: float

    @classmethod
    def of(cls, settings: object) -> LoadLimits:
        """Take them from the settings."""
        return cls(**{one.name: getattr(settings, one.name) for one in fields(cls)})


# --- Requests ---

#: If a queue has not been empty for this many seconds, it counts as standing.
_INTERVAL = 0.1
#: The overload lasts for this many seconds after the last refusal.
_CALM = 0.5
#: Weight of the newest observation in a running mean.
_NEWEST = 0.05
#: The same in the means of one kind of request.
_NEWEST_OF_KIND = 0.2
#: Seconds that a client is told to wait at most.
_LONGEST_WAIT = 30
#: How many small requests may always wait, and how many large ones for each thread.
_LEAST, _LEAST_ASIDE = 4.0, 1.5
#: How many times longer a queue may be while nothing is refused.
_TOLERANCE = 4.0
#: So many requests may wait in a queue that is never empty, while nothing is refused and none waits too long.
_STANDING = 128
#: Seconds after which a longer queue is tried although requests are refused: at first, and at most. Until then, those
#: who ask were counted (`_ASKING`) while the queue was short.
_STRICT, _LONGEST_STRICT = 1.0, 8.0
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
_ASKING = 0.5

#: Path, content type, and binary digits of the length of the body.
Kind: TypeAlias = tuple[bytes, bytes, int]
_CHANGE: Kind = (b"", b"", 0)


class Refusal(NamedTuple):
    """Why a request is not taken on (a key of `WHY`), and after how many seconds the client should ask again."""

    reason: Reason
    after: int


def overloaded(refusal: Refusal) -> Problem:
    """Return the problem that says why a request is not taken on, and when to come back."""
    reason, after = refusal
    return Problem(
        503 if reason == "connections" else 429,
        f"the server is overloaded: {WHY[reason]}; try again in {after} s",
        headers={"Retry-After": str(after)},
        reason=reason,
    )


class PeerState(Protocol):
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
        standing: seconds that a request may wait in a queue that is never empty.
        now: on the monotonic clock.

    Attributes:
        mean: seconds that one request takes, as a running mean.
        empty: when nothing waited last, on the monotonic clock.
    """

    def __init__(self, burst: float, overload: float, least: float, standing: float, now: float) -> None:
        self.mean = 1e-3
        self.empty = now
        self._burst, self._overload, self._least, self._standing = burst, overload, least, standing
        #: Until when the queue is short, for how long it was made so, and when a request was refused last.
        self._strict_until = self._strict = 0.0
        self._refused = self._promised = -math.inf

    def learn(self, seconds: float) -> None:
        """Take note of how long a request took."""
        self.mean += _NEWEST * (seconds - self.mean)

    def calm(self, now: float) -> bool:
        """Return whether nothing was refused for a while."""
        return now - self._refused > _CALM

    def most(self, now: float, clients: int, patience: float = 1.0) -> float:
        """Return the seconds that a request may have to wait.

        Args:
            now: on the monotonic clock.
            clients: connections that asked in the last period.
            patience: times the usual wait that this client may wait under overload.
        """
        short = max(self._overload, self._least * self.mean)
        calm = self.calm(now)
        if not calm and now < self._strict_until:
            return short * patience
        if calm and now - self.empty <= _INTERVAL:
            return max(self._burst, short)
        standing = min((max(clients, _STANDING) if calm else clients) * self.mean, self._standing)
        return max(standing, short * _TOLERANCE if calm else short)

    def refuse(self, now: float, wait: float) -> int:
        """Return after how many seconds a refused client should ask again.

        Clients that were refused earlier come back earlier, so that they do not all come back at once.
        """
        self._refused = now
        if now >= self._strict_until:
            # The longer queue did not help, so it is tried again later and later.
            again = now - self._strict_until <= _CALM
            self._strict = min(2.0 * self._strict, _LONGEST_STRICT) if again else _STRICT
            self._strict_until = now + self._strict
        self._promised = min(max(self._promised, now + wait) + self.mean, now + _LONGEST_WAIT)
        # The difference may be rounded up to a little more than the longest wait.
        return min(max(1, math.ceil(self._promised - now)), _LONGEST_WAIT)


class _Usual:
    """What requests of one kind took, as running means: documents, and the share of them that used each lane."""

    __slots__ = ("documents", "lanes")

    def __init__(self) -> None:
        self.documents = 0.0
        self.lanes: dict[Lane, float] = {}


class Admission:
    """The requests of one worker that are being answered or wait for that.

    Attributes:
        working: requests with a complete body that are not answered yet.
        waiting: those of them whose turn has not come.
        documents: of all of them; a request that is not decoded yet counts as the usual number.
        changing: requests of administrators that change something; they have places of their own and no turns, so that
            an overloaded service can be mended.
        clock: the monotonic one.
        accepted: whether a connection was accepted since that was looked at last.
        taken: whether a request has the turn; only then others wait for it.
    """

    def __init__(self, limits: LoadLimits, meters: Meters, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self.working = self.waiting = self.documents = self.changing = 0
        self._most = limits.max_concurrent_requests
        self._most_documents = limits.max_documents_in_flight
        self._refused = meters.refused_requests
        self._waited = meters.queue_wait.of()
        self._shown = meters.documents_in_flight.of()
        self._states = meters.accepted
        self._longest = burst = limits.max_queue_ms / 1e3
        overload = limits.overload_queue_ms / 1e3
        now = clock()
        self._pressure = Pressure(burst, overload, _LEAST, burst, now)
        standing = min(burst, _INTERVAL)
        self._aside = {lane: Pressure(burst, overload, _LEAST_ASIDE, standing, now) for lane in LANES}
        self._usual: dict[Kind, _Usual] = {}
        self._turns: deque[Claim] = deque()
        self.accepted = self.taken = False
        #: Since when a request has the turn, and until when connections may be accepted before the next turn.
        self._granted = self._welcome = 0.0
        #: Connections that asked in this period, and how many there were in the last.
        self._period = self._asking = 0
        self._active = 1

    def admit(self, client: PeerState, kind: Kind) -> Claim | Refusal:
        """Take on a request whose head was read, or say why not."""
        usual = self._usual.get(kind)
        if self.working:
            now = self.clock()
            period = int(now / _ASKING)
            if period != self._period:
                self._period, self._active, self._asking = period, max(1, self._asking), 0
            if client.period != period:
                client.period = period
                self._asking += 1
            pressure = self._pressure
            wait = self.waiting * pressure.mean
            ahead = client.due - now
            patience = _AHEAD if ahead > 0.0 else _BEHIND if -ahead > self._active * pressure.mean else 1.0
            if wait > pressure.most(now, self._active, patience):
                return self._refuse("queue", pressure, now, wait)
            seconds = pressure.mean
            if usual is not None:
                for lane, share in usual.lanes.items():
                    if share > 0.5:
                        if (refusal := self._check(lane, now, patience)) is not None:
                            return refusal
                        seconds += self._aside[lane].mean
                if self.documents + usual.documents > self._most_documents:
                    return self._refuse("documents", pressure, now, wait)
            if self.working >= self._most:
                return self._refuse("requests", pressure, now, wait)
            client.due = max(client.due, now) + self._active * seconds / _SHARE
        return Claim(self, kind, 0 if usual is None else round(usual.documents))

    def admit_change(self) -> Claim | Refusal:
        """Take on a request of an administrator, or say why not."""
        if self.changing >= _MOST_CHANGES:
            self._refused.of("changes")[0] += 1.0
            return Refusal("changes", 1)
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
        self._shown[0] = self.documents
        for state, count in states.items():
            self._states.set(count, state)

    def demand(self) -> int:
        """Return how many clients want an answer now: requests in work, or all who ask while some are refused."""
        return self.working if self._pressure.calm(self.clock()) else max(self.working, self._active)

    def strain(self) -> float:
        """Return how long a request would wait now, as a share of the allowed time. Above 1 the request is refused."""
        now = self.clock()
        pressure, aside = self._pressure, self._aside[RANKER]
        return max(
            self.waiting * pressure.mean / pressure.most(now, self._active),
            RANKER.wait() / aside.most(now, self._active),
        )

    def _check(self, lane: Lane, now: float, patience: float = 1.0) -> Refusal | None:
        """Refuse a request that would wait too long for the lane."""
        pressure = self._aside[lane]
        pressure.empty = lane.empty
        wait = lane.wait()
        return (
            self._refuse("queue", pressure, now, wait)
            if wait > pressure.most(now, self._active, patience)
            else None
        )

    def use(self, lane: Lane, units: float) -> None:
        """Raise a `Problem` if a request would wait too long for the lane."""
        if (refusal := self._check(lane, self.clock())) is not None:
            raise overloaded(refusal)
        if lane.pace:
            self._aside[lane].learn(units * lane.pace)

    def hold(self, documents: int) -> None:
        """Count more documents in flight; raise a `Problem` if these are too many beside those of others."""
        self.documents += documents
        if self.documents > self._most_documents and self.working > 1:
            pressure = self._pressure
            wait = self.waiting * pressure.mean
            raise overloaded(self._refuse("documents", pressure, self.clock(), wait))

    def learn(self, kind: Kind, documents: int, used: dict[Lane, float] | None) -> None:
        """Take note of what a request of this kind took."""
        usual = self._usual.get(kind)
        if usual is None:
            if len(self._usual) >= _MOST_KINDS:
                self._usual.clear()
            usual = self._usual[kind] = _Usual()
        usual.documents += _NEWEST_OF_KIND * (documents - usual.documents)
        if used or usual.lanes:
            for lane in LANES:
                before = usual.lanes.get(lane, 0.0)
                usual.lanes[lane] = before + _NEWEST_OF_KIND * ((lane in (used or ())) - before)

    def join(self, claim: Claim) -> None:
        """Let a request wait for its turn."""
        self._turns.append(claim)

    def grant(self, claim: Claim, now: float) -> None:
        """Give the turn to a request that has arrived."""
        self.taken = True
        claim.state = _ANSWERED
        self.waiting -= 1
        self._granted, self._welcome = now, 0.0
        self._waited.observe(now - claim.arrived)
        if not self.waiting:
            self._pressure.empty = now
        # It runs after the request has computed, or has begun to wait for something.
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """End a turn, and give the next one to the request that has waited longest.

        If connections wait, they are accepted before that, for as long as the turn took.
        """
        now = self.clock()
        if not self._welcome:
            self._welcome = now + now - self._granted
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
            self.grant(claim, now)
            return
        self.taken = False

    def _refuse(self, reason: Reason, pressure: Pressure, now: float, wait: float) -> Refusal:
        self._refused.of(reason)[0] += 1.0
        return Refusal(reason, pressure.refuse(now, wait))


#: What a request does: its body arrives, it waits for its turn, it is answered, it is over.
_ARRIVES, _WAITS, _ANSWERED, _OVER = range(4)


class Claim:
    """What one request takes of the worker.

    Attributes:
        arrived: when its body was complete.
        waiter: resolved when it may go on; failed when it may not.
        state: what it does.
    """

    __slots__ = ("_admission", "_counted", "_documents", "_kind", "_used", "arrived", "state", "waiter")

    def __init__(self, admission: Admission, kind: Kind, documents: int) -> None:
        self.arrived = 0.0
        self.waiter: asyncio.Future[None] | None = None
        self.state = _ARRIVES
        self._admission = admission
        self._kind = kind
        #: Documents that are counted for the request, and documents that were found in it.
        self._documents = documents
        self._counted = 0
        self._used: dict[Lane, float] | None = None

    def arrive(self) -> None:
        """Take notice that the body is complete."""
        if self.state == _ARRIVES:
            admission = self._admission
            self.state = _WAITS
            self.arrived = admission.clock()
            admission.working += 1
            admission.waiting += 1
            admission.documents += self._documents

    def begin(self) -> bool:
        """Take the turn if nobody has it."""
        admission = self._admission
        if admission.taken:
            return False
        admission.grant(self, admission.clock())
        return True

    async def turn(self) -> None:
        """Wait for the turn. Raises a `Problem` with status 429 if that takes too long, or `ClientDisconnect`."""
        self.waiter = asyncio.get_running_loop().create_future()
        self._admission.join(self)
        try:
            await self.waiter
        finally:
            self.waiter = None  # it may hold an error, whose traceback refers to frames with this claim

    def hold(self, documents: int) -> None:
        """Count the documents of a decoded request instead of the usual number."""
        before, self._counted = self._counted, self._counted + documents
        more, self._documents = self._counted - self._documents, self._counted
        if before:
            self._admission.documents += more
        else:
            self._admission.hold(more)

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
        state, self.state = self.state, _OVER
        if state in {_WAITS, _ANSWERED}:
            admission = self._admission
            admission.waiting -= state == _WAITS
            admission.working -= 1
            admission.documents -= self._documents
            if self._counted or self._used:
                admission.learn(self._kind, self._counted, self._used)


class _Change(Claim):
    """What a request of an administrator takes: one of a few places, from its head to its end."""

    __slots__ = ()

    def __init__(self, admission: Admission, kind: Kind, documents: int) -> None:
        super().__init__(admission, kind, documents)
        admission.changing += 1

    def arrive(self) -> None:
        self.arrived = self._admission.clock()

    def begin(self) -> bool:
        return True

    def finish(self) -> None:
        if self.state != _OVER:
            self._admission.changing -= 1
        self.state = _OVER


# --- Connections ---

#: Seconds between two looks at the connections.
_LOOK = 0.1
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


def raise_descriptors() -> None:
    """Let the process open as many descriptors as it is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def free_descriptors() -> int:
    """Return how many more connections the process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 2**31
    return max(0, soft - len(os.listdir("/dev/fd")) - _RESERVED)  # noqa: PTH208 - it is not a folder on a disk


class Connection(PeerState, Protocol):
    """What `Connections` needs of a connection.

    Attributes:
        since: when it began to wait for what it waits for; `Connections` sets that.
        place: among which connections it waits; `Connections` sets that.
        held: bytes of its requests that are in memory; `Connections` counts them.
        arrived: bytes of the present body that have arrived.
        entered: whether there was room for it.
    """

    since: float
    place: Waiting | None
    held: int
    arrived: int
    entered: bool

    @property
    def flushing(self) -> bool:
        """Whether something is still to be sent."""

    @property
    def working(self) -> bool:
        """Whether a request has arrived that is not answered."""

    def go_on(self) -> None:
        """Read what was kept for later."""

    def give_up(self, problem: Problem, reason: str) -> None:
        """End a request that does not arrive as it should."""

    def close(self) -> None:
        """Close the connection once what was written is sent."""

    def drop(self) -> None:
        """Close the connection at once."""


#: Connections in the order in which they came there; the values are not used.
Waiting: TypeAlias = dict[Connection, None]


class Connections:
    """All connections of this worker.

    Args:
        limits: how many there may be, and how long each may take.
        meters: what counts them.
        clock: the monotonic one.
        descriptors: how many more the process may open.

    Attributes:
        buffer: where each connection reads what arrives.
        held: bytes of requests that are in memory.
        idle, heads, bodies, ending: connections that wait for a request, for the rest of a head or of a body, and for
            the client to close its side.
        draining: whether every answer is the last on its connection.
        refusing: since when every request was refused although no connection has one in work, on the monotonic clock.
        stuck: whether that lasts for a minute. Overload does not do that; something in this process is broken.
        spare: how many connections another worker should have instead.
        hand_over: gives the descriptor of one to that worker; returns whether it went.
    """

    def __init__(
        self,
        limits: LoadLimits,
        meters: Meters,
        clock: Callable[[], float] = monotonic,
        descriptors: Callable[[], int] = free_descriptors,
    ) -> None:
        self._clock = clock
        self._descriptors = descriptors
        self.buffer = memoryview(bytearray(_READ))
        self.draining = self.stuck = False
        self.refusing: float | None = None
        self.held = self.spare = 0
        self.hand_over: Callable[[int], bool] = lambda _: False
        self.idle: Waiting = {}
        self.heads: Waiting = {}
        self.bodies: Waiting = {}
        self.ending: Waiting = {}
        #: There was no room for these; they also wait for the client to close its side.
        self._refused: Waiting = {}
        self._stalled: dict[Connection, float] = {}
        self._limits = limits
        self._meters = meters
        self._open = meters.connections.of()
        self._all: set[Connection] = set()
        #: These read on in a later turn of the event loop; and until when connections may read in this turn.
        self._later: deque[Connection] = deque()
        self._reading = 0.0
        self._most_held = _BODIES * limits.max_body_bytes
        self._limit = limits.max_connections
        self._ended: Counter[str] = Counter()
        self._logged = self._counted = -_QUIET
        self._stopping: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._show: Callable[[], None] = lambda: None

    def start(self, show: Callable[[], None] | None = None) -> None:
        """Begin to look at the connections, and call ``show`` as often; the event loop runs."""
        raise_descriptors()
        self._show = show or self._show
        self._look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def enter(self, connection: Connection) -> bool:
        """Take in a new connection, and close another one if there are too many; return whether there is room."""
        if len(self._all) >= self._limit and not self._make_room():
            return False
        self._all.add(connection)
        self._open[0] += 1.0
        self.wait(connection, self.heads)
        return True

    def leave(self, connection: Connection) -> None:
        """Forget a connection."""
        self.wait(connection, None)
        self.hold(connection, 0)
        self._stalled.pop(connection, None)
        if connection in self._all:
            self._all.remove(connection)
            self._open[0] -= 1.0

    def wait(self, connection: Connection, place: Waiting | None) -> None:
        """Let a connection wait there from now on, or for nothing because its request is complete."""
        if connection.place is not None:
            connection.place.pop(connection, None)
        connection.place = place
        if place is not None:
            connection.since = self._clock()
            place[connection] = None

    def rest(self, connection: Connection, ahead: int) -> None:
        """Wait for the next request, of which so many bytes were sent ahead."""
        self.wait(connection, self.idle)
        self.held += ahead - connection.held
        connection.held = ahead

    def end(self, connection: Connection) -> None:
        """Wait for the client to close its side."""
        if connection.entered:
            self.wait(connection, self.ending)
            return
        self.wait(connection, self._refused)
        if len(self._refused) > _RESERVED // 2:
            next(iter(self._refused)).drop()

    def welcome(self, connection: Connection) -> None:
        """Wait for the next request of a connection that was another worker's, unless it is there."""
        if connection.place is self.heads and not connection.held:
            self.wait(connection, self.idle)

    def stall(self, connection: Connection) -> None:
        """Wait for the client to take its answer."""
        self._stalled[connection] = self._clock()

    def flow(self, connection: Connection) -> None:
        """Wait for that no more."""
        self._stalled.pop(connection, None)

    def hold(self, connection: Connection, size: int) -> None:
        """Note how many bytes of requests a connection keeps; give up the largest unfinished one if all are too many."""
        self.held += size - connection.held
        connection.held = size
        if size and self.held > self._most_held:
            largest = max((*self.bodies, *self.heads, connection), key=lambda one: one.held)
            largest.give_up(overloaded(Refusal("bytes", 1)), "bytes")
            self.hold(largest, 0)

    def refuse(self) -> None:
        """Take note that a request was refused."""
        now = self._clock()
        if self.refusing is None:
            self.refusing = now
        elif now - self.refusing > _STUCK:
            self.stuck = True

    def turn_is_over(self) -> bool:
        """Tell whether connections have read for long enough in this turn of the event loop."""
        if not self._reading:
            self._begin_turn()
        return self._reading <= self._clock()

    def put_off(self, connection: Connection) -> None:
        """Let a connection read on in a later turn of the event loop."""
        self._later.append(connection)
        if not self._reading:
            self._begin_turn()

    def _begin_turn(self) -> None:
        self._reading = self._clock() + _READING
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
            self._stopping = self._clock()

    def count(self, status: int) -> None:
        """Count an answer that no application has made."""
        self._meters.answered("other", "other", status)

    def _make_room(self) -> bool:
        """Close the connection that has kept the worker waiting longest; connections with a recent answer come last."""
        late = self._clock() - _PATIENCE
        for places in (
            (self.ending,),
            (self.heads, self.bodies, self.idle),
            (self.heads, self.bodies),
            (self.idle,),
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
        now = self._clock()
        limits = self._limits
        if self.refusing is not None and any(connection.working for connection in self._all):
            self.refusing = None
        self._show()
        self._close_idle(now)
        for connection in _older(self.heads, now - limits.head_timeout_seconds):
            if connection.held:
                detail = f"the request's head did not arrive within {limits.head_timeout_seconds:g} s"
                connection.give_up(Problem(408, detail), "head_timeout")
            else:
                connection.drop()
        for connection in [*self.bodies]:
            elapsed = now - connection.since
            if elapsed > limits.body_timeout_seconds:
                detail = f"the request's body did not arrive within {limits.body_timeout_seconds:g} s"
            elif elapsed > _GRACE and connection.arrived < limits.min_body_rate * (elapsed - _GRACE):
                detail = f"the request's body arrives at less than {limits.min_body_rate} bytes a second"
            else:
                continue
            connection.give_up(Problem(408, detail), "body_timeout")
        for connection in [*_older(self.ending, now - _LINGER), *_older(self._refused, now - _LINGER)]:
            if not connection.flushing or now - connection.since > limits.body_timeout_seconds:
                connection.drop()
        for connection, since in [*self._stalled.items()]:
            if now - since > limits.body_timeout_seconds:
                self.note("slow_reader")
                connection.drop()
        if now - self._counted >= 1.0:
            self._counted = now
            self._limit = min(limits.max_connections, self._descriptors() + len(self._all))
        if self._ended and now - self._logged >= _QUIET:
            self._logged = now
            ended = ", ".join(f"{reason} {count}" for reason, count in sorted(self._ended.items()))
            self._ended.clear()
            _log.warning("requests and connections ended early: %s", ended)
        self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look)

    def _close_idle(self, now: float) -> None:
        seconds = self._limits.keep_alive_seconds
        if self._stopping is not None:
            if now - self._stopping < _FAREWELL:
                return
            seconds = 0.0
        for connection in _older(self.idle, now - seconds):
            connection.close()
        if self._stopping is not None:
            for connection in [*self.heads]:
                if not connection.held:
                    connection.close()


def _older(waiting: Waiting, since: float) -> list[Connection]:
    """Return those that have waited since then, the longest first."""
    found = []
    for connection in waiting:
        if connection.since > since:
            break
        found.append(connection)
    return found
