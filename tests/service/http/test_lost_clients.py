"""Whatever clients do: when no connection is left, nothing is in work, waits or is held.

Clients are scripts here, so that thousands of orders of events take seconds. tests/faults and
tests/end_to_end/test_hostile_clients.py have real ones.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank_service.http.aside import LANES, PERMIT, READER
from tests.service.http.scripted import ADMIN, Worker, arrive, echo, feed, request, settle

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from localrank_service.http.protocol import Http
    from tests.service.http.scripted import Wire


class App:
    """Answers at once, or later (``/gate``), or with documents and a thread (``/lane``)."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def message() -> Any:
            found = await receive()
            if scope["path"] == "/gate":
                await self.gate.wait()
            if scope["path"] == "/lane" and (permit := PERMIT.get()) is not None:
                permit.hold(7)
                await READER.run(10, bytes, 10)
            return found

        await echo(scope, message, send)


CHUNKED = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
PROMOTE = request(b"/v1/models/demo/promote", b"{}", b"X-API-Key: " + ADMIN)
#: What a client sends in one piece.
PIECES = (
    request(b"/gate", b"held"),
    request(b"/lane", b"x" * 3000),
    request(b"/echo", b"x" * 5000)[:4000],
    request(b"/echo") * 3,
    request(b"/gate") + request(b"/lane"),
    request(b"/deaf", b"x", length=100),
    request(b"/broken", b"x"),
    request(b"/livez", method=b"GET"),
    request(b"/echo", b"", b"Expect: 100-continue", length=5),
    CHUNKED + b"1\r\nx\r\n" * 500,
    CHUNKED + b"5\r\nhel",
    PROMOTE,
    PROMOTE[:-1],
    b"\r\n" * 3,
    b"garbage\r\n\r\n",
    b"x",
)


class Scene:
    """A worker and its clients.

    Attributes:
        clients: those that are connected.
    """

    def __init__(self) -> None:
        self.app = App()
        self.worker = Worker(self.app, max_concurrent_requests=4, max_body_bytes=4000, max_connections=5)
        self.clients: list[tuple[Http, Wire]] = []

    async def do(self, what: str, number: int) -> None:
        """Let one thing happen."""
        if what == "connect" or not self.clients:
            self.clients.append(self.worker.connect())
            return
        http, wire = self.clients[number % len(self.clients)]
        gone = wire.is_closing()
        if what == "send" and not gone and wire.reads():
            arrive(http, PIECES[number % len(PIECES)])
        elif what == "half-close" and not gone:
            if not http.eof_received():
                wire.close()
        elif what == "reset":
            self.lose(http, wire)
        elif what == "stall" and not gone:
            http.pause_writing()
        elif what == "flow" and not gone:
            http.resume_writing()
        elif what == "open":
            self.app.gate.set()
        elif what == "shut":
            self.app.gate.clear()
        elif what == "wait":
            self.worker.clock.now += number
            self.worker.connections.start()
            self.worker.connections.stop()
        elif what == "turn":
            await asyncio.sleep(0)
        for one in [client for client in self.clients if client[1].is_closing()]:
            self.lose(*one)

    def lose(self, http: Http, wire: Wire) -> None:
        if not wire.is_closing():
            wire.abort()
        self.clients.remove((http, wire))
        http.connection_lost(None)

    async def end(self) -> None:
        """All clients go, and everything in work ends."""
        for client in [*self.clients]:
            self.lose(*client)
        self.app.gate.set()
        while self.worker.server.tasks:  # noqa: ASYNC110 - threads answer, too
            await asyncio.sleep(0.0005)
        await settle()

    def left(self) -> dict[str, float]:
        """What is counted and not zero."""
        worker, admission = self.worker, self.worker.admission
        counted = {
            "working": admission.working,
            "waiting": admission.waiting,
            "documents": admission.documents,
            "changing": admission.changing,
            "held": worker.connections.held,
            "open": worker.open,
            "connections": len(worker.server.connections),
            **{lane.name: lane.requests + lane.wait() for lane in LANES},
        }
        return {name: count for name, count in counted.items() if count}


STEPS = st.tuples(
    st.sampled_from(
        [
            "connect",
            "send",
            "send",
            "send",
            "half-close",
            "reset",
            "stall",
            "flow",
            "open",
            "shut",
            "wait",
            "turn",
        ]
    ),
    st.integers(0, 40),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_when_no_connection_is_left_nothing_is_counted(steps: list[tuple[str, int]]) -> None:
    async def play() -> None:
        scene = Scene()
        for what, number in steps:
            await scene.do(what, number)
        await scene.end()
        assert {} == scene.left()
        http, wire = scene.worker.connect()
        await feed(http, request(b"/lane", b"x"))
        while scene.worker.server.tasks:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.0005)
        assert [200] == [answer.status for answer in wire.answers()]

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.anyio
@pytest.mark.parametrize("at", ["queued", "answering", "aside", "answered"])
async def test_a_client_that_resets_its_connection_gives_back_its_place(at: str) -> None:
    scene = Scene()
    path = b"/lane" if at == "aside" else b"/gate"
    for _ in range(4):
        await scene.do("connect", 0)
    for http, _ in scene.clients:
        arrive(http, request(path, b"x"))
    if at != "queued":
        await asyncio.sleep(0)
    if at == "answered":
        scene.app.gate.set()
        await settle()

    await scene.end()

    assert {} == scene.left()


@pytest.mark.anyio
async def test_requests_that_are_refused_ahead_of_each_other_hold_only_what_is_left() -> None:
    """Each refusal counted again what was still to be read, until the limit of all connections was reached."""
    worker = Worker(App(), max_concurrent_requests=1)
    busy, _ = worker.connect()
    arrive(busy, request(b"/gate", b"x"))
    http, wire = worker.connect()
    sent = request() * 500

    arrive(http, sent)
    most = 0
    for _ in range(500):
        await asyncio.sleep(0)
        most = max(most, worker.connections.held)

    assert [429] * 500 == [answer.status for answer in wire.answers()]
    assert most <= len(sent) + 1
    assert 1 == worker.connections.held
