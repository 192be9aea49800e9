"""Requests over kept connections, from one thread that only copies bytes, so that the client is not what is measured.

`closed` asks one request after the other; `closed_loop` does that over many connections at once, and asks again at once
whatever the answer was. `open_loop` sends at constant times whether or not earlier ones were
answered, and counts latency from when a request should have been sent: what waits in the client because all is slow
has waited.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.servers import declared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector


class Refused(Exception):
    """An answer that is neither 200 nor 429."""


class Connection:
    """One kept connection with at most one request on its way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        self.unsent = memoryview(b"")
        self.due = 0.0
        self.kind = 0
        self.overloaded = False
        self.asked = False
        self._answer = b""

    def send(self) -> bool:
        """Send as much as fits; tell whether all is sent."""
        while self.unsent:
            try:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
            except BlockingIOError:
                return False
        return True

    def receive(self) -> bool:
        """Read what is there; tell whether the answer is whole. It is `overloaded` if it has status 429."""
        part = self.socket.recv(1 << 20)
        if not part:
            raise Refused("the server closed the connection")
        self._answer = self._answer + part if self._answer else part
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end:
            return False
        length = declared(head)
        if len(body) < length if length is not None else not body.endswith(b"0\r\n\r\n"):
            return False
        self.overloaded = head.startswith(b"HTTP/1.1 429")
        if not (self.overloaded or head.startswith(b"HTTP/1.1 200")):
            raise Refused(self._answer[:400].decode(errors="replace"))
        self._answer = b""
        return True


def closed(port: int, request: bytes, count: int) -> Vector:
    """Return the seconds that each of ``count`` requests took, in turn on one connection."""
    connection = Connection(port)
    times = np.empty(count)
    with connection.socket:
        for i in range(count):
            start = time.perf_counter()
            connection.socket.sendall(request)
            while not connection.receive():
                pass
            if connection.overloaded:
                raise Refused("the server is overloaded by one request at a time")
            times[i] = time.perf_counter() - start
    return times


@dataclass
class Outcome:
    """What became of requests at constant arrivals.

    Attributes:
        latencies: seconds from the intended start to the whole answer, by kind of request.
        answered: when that was, by kind of request: seconds from the beginning.
        refused: the same of answers with status 429.
        seconds: from the first intended start to the last answer.
        unanswered: requests that had no answer when time was up.
    """

    latencies: list[list[float]]
    seconds: float = 0.0
    unanswered: int = 0
    answered: list[list[float]] = field(default_factory=list)
    refused: list[list[float]] = field(default_factory=list)
    offered: float = 0.0
    quantiles: tuple[float, ...] = field(default=(0.5, 0.9, 0.99, 0.999))

    def milliseconds(self, kind: int = 0) -> list[float]:
        """Return the latencies at the quantiles."""
        if not self.latencies[kind]:
            return [float("nan")] * len(self.quantiles)
        return [float(value) * 1e3 for value in np.quantile(self.latencies[kind], self.quantiles)]

    @property
    def achieved(self) -> float:
        """Answers per second."""
        return sum(map(len, self.latencies)) / self.seconds if self.seconds else 0.0


def open_loop(
    port: int,
    requests: Sequence[tuple[bytes, float]],
    seconds: float,
    *,
    connections: int = 64,
    wait: float = 3.0,
    seed: int | None = None,
) -> Outcome:
    """Send each kind of request at its own rate: at constant times, or at random ones (Poisson) with a seed.

    Args:
        port: of the server.
        requests: ``(request, arrivals per second)`` of each kind.
        seconds: for how long there are arrivals.
        connections: at most; a request that finds none free waits for one, and that counts.
        wait: seconds after the last arrival in which answers still count.
        seed: of the gaps between arrivals.
    """
    gaps = None if seed is None else np.random.default_rng(seed)
    arrivals: list[tuple[float, int]] = []
    for kind, (_, rate) in enumerate(requests):
        count = int(seconds * rate)
        moments = np.arange(count) / rate if gaps is None else np.cumsum(gaps.exponential(1 / rate, count))
        arrivals += [(moment, kind) for moment in moments.tolist()]
    arrivals.sort()
    outcome = Outcome([[] for _ in requests], offered=sum(rate for _, rate in requests))
    outcome.answered, outcome.refused = [[] for _ in requests], [[] for _ in requests]
    idle: list[Connection] = []
    made: list[Connection] = []
    for _ in range(min(4, connections)):
        made.append(Connection(port))
        made[-1].socket.settimeout(0.0)
        idle.append(made[-1])
    backlog: deque[tuple[float, int]] = deque()
    following, busy = 0, 0
    with selectors.EpollSelector() as selector:
        for connection in made:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        begun = time.perf_counter()
        last = begun
        try:
            while True:
                now = time.perf_counter()
                while following < len(arrivals) and begun + arrivals[following][0] <= now:
                    backlog.append(arrivals[following])
                    following += 1
                while backlog and (idle or len(made) < connections):
                    if idle:
                        connection = idle.pop()
                    else:
                        connection = Connection(port)
                        connection.socket.settimeout(0.0)
                        made.append(connection)
                        selector.register(connection.socket, selectors.EVENT_READ, connection)
                    due, connection.kind = backlog.popleft()
                    connection.due = begun + due
                    connection.asked = True
                    connection.unsent = memoryview(requests[connection.kind][0])
                    busy += 1
                    if not connection.send():
                        selector.modify(
                            connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection
                        )
                if following == len(arrivals) and not busy and not backlog:
                    break
                if now > begun + seconds + wait:
                    outcome.unanswered = busy + len(backlog) + len(arrivals) - following
                    break
                until = arrivals[following][0] + begun - now if following < len(arrivals) else 0.05
                # Sleeping is not exact: the last part is spent asking again and again.
                for key, events in selector.select(max(0.0, min(until - 2e-4, 0.05))):
                    connection = key.data
                    if events & selectors.EVENT_WRITE and connection.send():
                        selector.modify(connection.socket, selectors.EVENT_READ, connection)
                    if not connection.asked:  # the server may close one that waits
                        selector.unregister(connection.socket)
                        idle.remove(connection)
                        made.remove(connection)
                        connection.socket.close()
                    elif events & selectors.EVENT_READ and connection.receive():
                        last = time.perf_counter()
                        if connection.overloaded:
                            outcome.refused[connection.kind].append(last - begun)
                        else:
                            outcome.latencies[connection.kind].append(last - connection.due)
                            outcome.answered[connection.kind].append(last - begun)
                        connection.asked = False
                        idle.append(connection)
                        busy -= 1
        finally:
            for connection in made:
                connection.socket.close()
    outcome.seconds = last - begun
    return outcome


def closed_loop(port: int, request: bytes, connections: int, seconds: float) -> Outcome:
    """Open all connections together and ask over each again and again, as soon as its answer is there."""
    outcome = Outcome([[]], answered=[[]], refused=[[]])
    made: list[Connection] = []
    with selectors.EpollSelector() as selector:
        try:
            for _ in range(connections):
                made.append(Connection(port))
                made[-1].socket.settimeout(0.0)
                selector.register(made[-1].socket, selectors.EVENT_READ | selectors.EVENT_WRITE, made[-1])
            begun = time.perf_counter()
            for connection in made:
                connection.due, connection.unsent = begun, memoryview(request)
            while (now := time.perf_counter()) < begun + seconds:
                for key, events in selector.select(begun + seconds - now):
                    connection = key.data
                    if events & selectors.EVENT_READ and connection.receive():
                        now = time.perf_counter()
                        if connection.overloaded:
                            outcome.refused[0].append(now - begun)
                        else:
                            outcome.latencies[0].append(now - connection.due)
                            outcome.answered[0].append(now - begun)
                        connection.due, connection.unsent = now, memoryview(request)
                        if not connection.send():
                            selector.modify(
                                connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection
                            )
                    elif events & selectors.EVENT_WRITE and connection.send():
                        selector.modify(connection.socket, selectors.EVENT_READ, connection)
        finally:
            for connection in made:
                connection.socket.close()
    outcome.seconds = seconds
    return outcome
