"""One connection: where requests begin and end, what is answered in which order, and when it ends.

Clients are scripts here. Real ones over real sockets are in tests/end_to_end.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import pytest

from localrank_service.http.cors import Cors
from localrank_service.http.messages import Chunks
from localrank_service.http.problems import Problem
from tests.service.http.scripted import ADMIN, Worker, arrive, echo, feed, request, settle

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from localrank_service.http.admission import Claim, Kind, PeerState, Refusal

pytestmark = pytest.mark.anyio

#: README of the limits: a refused body up to one mebibyte is read and dropped.
DROPPED = 2**20
READ = 2**17


class Scopes:
    """An application that keeps what it was asked and answers with nothing."""

    def __init__(self) -> None:
        self.seen: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(scope)
        await echo(scope, receive, send)


class Held:
    """An application that answers when it is allowed to; ``only`` the requests to one path wait for that."""

    def __init__(self, only: str | None = None) -> None:
        self.go = asyncio.Event()
        self._only = only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def later() -> Any:
            message = await receive()
            if self._only in {None, scope["path"]}:
                await self.go.wait()
            return message

        await echo(scope, later, send)


async def test_an_application_is_told_who_asks_what() -> None:
    app = Scopes()
    worker = Worker(app, root="/base")
    http, _ = worker.connect()

    await feed(http, request(b"/a%20b?c=d", b"xy"))

    (scope,) = app.seen
    assert ("http", "POST", "/base/a b", b"c=d", "1.1") == (
        scope["type"],
        scope["method"],
        scope["path"],
        scope["query_string"],
        scope["http_version"],
    )
    assert ("http", ("192.0.2.7", 4711), ("192.0.2.1", 80), "/base") == (
        scope["scheme"],
        scope["client"],
        scope["server"],
        scope["root_path"],
    )
    assert {"version": "3.0", "spec_version": "2.3"} == scope["asgi"]
    assert worker.state == scope["state"]
    assert worker.state is not scope["state"]


async def test_over_tls_the_scheme_is_https() -> None:
    app = Scopes()
    http, _ = Worker(app).connect(sslcontext=object())

    await feed(http, request())

    assert "https" == app.seen[0]["scheme"]


async def test_the_worker_knows_its_connections_requests_and_tasks() -> None:
    worker = Worker()
    http, wire = worker.connect()

    assert {http} == cast("Any", worker.server.connections)
    assert worker.admission.accepted
    assert (1.0, 0) == (worker.open, http.held)
    arrive(http, request(body=b"abc"))
    assert 1 == len(worker.server.tasks)
    await settle()
    assert (1, 0) == (worker.server.total_requests, len(worker.server.tasks))
    await feed(http, request(body=b"d"))

    assert 2 == worker.server.total_requests
    assert [b"abc", b"d"] == [answer.body for answer in wire.answers()]
    assert [b"ours"] * 2 == [answer.headers[b"server"] for answer in wire.answers()]
    http.connection_lost(None)
    assert (set(), 0.0) == (worker.server.connections, worker.open)


@pytest.mark.parametrize("cut", [1, 30, 70, 90, 95])
async def test_a_request_may_come_in_pieces(cut: int) -> None:
    worker = Worker()
    http, wire = worker.connect()
    sent = request(b"/echo", b"x" * 40, b"X-Id: 7")

    for _ in range(2):
        await feed(http, sent[:cut])
        await feed(http, sent[cut:])

    assert [b"x" * 40] * 2 == [answer.body for answer in wire.answers()]
    assert [] == wire.did
    assert 0 == http.held


@pytest.mark.parametrize("step", [1, 7, 1000])
async def test_a_body_may_come_in_chunks(step: int) -> None:
    worker = Worker()
    http, wire = worker.connect()
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent = head + b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n" + request(body=b"next")

    for at in range(0, len(sent), step):
        await feed(http, sent[at : at + step])

    assert [b"abcdefg", b"next"] == [answer.body for answer in wire.answers()]


async def test_requests_that_are_sent_ahead_wait_for_the_answer_before_them() -> None:
    """They are kept unread, nothing more is read, and each has a turn of the event loop of its own."""
    app = Held()
    worker = Worker(app)
    http, wire = worker.connect()
    second, third = request(body=b"second"), request(body=b"third")

    await feed(http, request(body=b"first") + second + third)

    assert [] == wire.written
    assert not wire.reads()
    assert len(b"first") + len(second) + len(third) == http.held
    app.go.set()
    await settle()
    assert [b"first", b"second", b"third"] == [answer.body for answer in wire.answers()]
    assert wire.reads()
    assert 0 == http.held


async def test_one_request_is_begun_in_each_turn_of_the_event_loop(full: Worker) -> None:
    """Also where requests are answered without the application."""
    http, wire = full.connect()

    arrive(http, request() * 3)

    assert 1 == len(wire.answers())
    await asyncio.sleep(0)
    assert 2 == len(wire.answers())
    await settle()
    assert 3 == len(wire.answers())


async def test_a_beginning_that_is_sent_ahead_is_joined_with_what_follows() -> None:
    worker = Worker()
    http, wire = worker.connect()
    second = request(body=b"second")

    await feed(http, request(body=b"first") + second[:20])
    await feed(http, second[20:])

    assert [b"first", b"second"] == [answer.body for answer in wire.answers()]


async def test_what_arrives_while_a_request_waits_ahead_comes_after_it(full: Worker) -> None:
    """The event loop may hand in what it had read already."""
    http, wire = full.connect()

    arrive(http, request(b"/1", b"", b"X-Request-Id: 1") + request(b"/2", b"", b"X-Request-Id: 2"))
    arrive(http, request(b"/3", b"", b"X-Request-Id: 3"))
    await settle()

    assert [b"1", b"2", b"3"] == [answer.headers[b"x-request-id"] for answer in wire.answers()]


async def test_the_body_of_a_request_that_was_answered_early_is_dropped() -> None:
    """The connection is kept, and the next request is read where the body ends."""
    worker = Worker()
    http, wire = worker.connect()

    await feed(http, request(b"/deaf", b"x" * 30, length=100))
    assert [False] == [answer.last for answer in wire.answers()]
    await feed(http, b"y" * 50)
    assert 80 == http.arrived
    await feed(http, b"z" * 20 + request(body=b"next"))

    assert [b"", b"next"] == [answer.body for answer in wire.answers()]
    assert [] == wire.did


@pytest.mark.parametrize(("over", "last"), [(0, False), (1, True)])
async def test_a_body_that_is_too_large_to_be_dropped_ends_the_connection(over: int, *, last: bool) -> None:
    """What has arrived before the answer begins counts no more."""
    http, wire = Worker().connect()

    await feed(http, request(b"/deaf", b"xyz", length=DROPPED + 3 + over))

    assert [last] == [answer.last for answer in wire.answers()]
    assert (["eof"] if last else []) == wire.did


async def test_chunks_that_nobody_reads_end_the_connection() -> None:
    http, wire = Worker().connect()

    await feed(http, b"POST /deaf HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n")

    assert [True] == [answer.last for answer in wire.answers()]
    assert ["eof"] == wire.did


async def test_permission_that_was_not_given_ends_the_connection() -> None:
    """The client may send the body or the next request."""
    http, wire = Worker().connect()

    await feed(http, request(b"/deaf", b"", b"Expect: 100-continue", length=5))

    assert [(200, True)] == [(answer.status, answer.last) for answer in wire.answers()]


async def test_permission_is_given_once_when_the_body_is_wanted() -> None:
    http, wire = Worker().connect()

    await feed(http, request(b"/echo", b"", b"Expect: 100-continue", length=5))
    assert [b"HTTP/1.1 100 Continue\r\n\r\n"] == wire.written
    await feed(http, b"ab")
    await feed(http, b"cde")

    assert [(100, b"", False), (200, b"abcde", False)] == [
        (answer.status, answer.body, answer.last) for answer in wire.answers()
    ]


async def test_a_client_that_says_so_is_answered_for_the_last_time() -> None:
    http, wire = Worker().connect()

    await feed(http, request(b"/echo", b"x", b"Connection: close") + request())

    assert [True] == [answer.last for answer in wire.answers()]
    # Something was sent that was not read: closing at once could take the answer from the client.
    assert ["pause", "resume", "eof"] == wire.did


async def test_after_a_last_answer_all_is_closed_if_all_was_read() -> None:
    http, wire = Worker().connect()

    await feed(http, request(b"/echo", b"x", b"Connection: close"))

    assert ["close"] == wire.did


async def test_over_tls_one_side_cannot_be_closed_alone() -> None:
    http, wire = Worker().connect(half=False)

    await feed(http, b"garbage\r\n\r\n")

    assert [(400, True)] == [(answer.status, answer.last) for answer in wire.answers()]
    assert ["close"] == wire.did


@pytest.mark.parametrize(
    ("at", "open_"), [("nothing", False), ("half a head", False), ("all", True), ("ahead", True)]
)
async def test_a_client_that_has_closed_its_side_is_answered_if_its_request_is_complete(
    at: str, *, open_: bool
) -> None:
    app = Held()
    http, wire = Worker(app).connect()
    whole = request(body=b"x")
    sent = {"nothing": b"", "half a head": whole[:10], "all": whole, "ahead": whole + whole}[at]
    await feed(http, sent)

    assert open_ == http.eof_received()

    app.go.set()
    await settle()
    expected = {"all": [True], "ahead": [False, True]}.get(at, [])
    assert expected == [answer.last for answer in wire.answers()]
    assert (["pause", "resume", "close"] if at == "ahead" else ["close"] if open_ else []) == wire.did


async def test_when_the_server_stops_each_answer_is_the_last() -> None:
    app = Held()
    worker = Worker(app, max_concurrent_requests=1)
    (busy, busy_wire), (idle, idle_wire), (refused, refused_wire) = (worker.connect() for _ in range(3))
    arrive(busy, request(body=b"1"))
    for http in (busy, idle, refused):
        http.shutdown()
    arrive(refused, request(body=b"3"))
    app.go.set()
    await settle()
    arrive(idle, request(body=b"2"))
    await settle()

    for wire, status in ((busy_wire, 200), (idle_wire, 200), (refused_wire, 429)):
        assert [(status, True)] == [(answer.status, answer.last) for answer in wire.answers()]
        assert wire.did[-1] in {"close", "eof"}


async def test_while_the_worker_drains_each_answer_is_the_last() -> None:
    worker = Worker()
    http, wire = worker.connect()
    worker.connections.draining = True

    await feed(http, request(body=b"1"))

    assert [True] == [answer.last for answer in wire.answers()]


@pytest.mark.parametrize(
    "sent",
    [b"garbage\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nX: 1\r\nno colon\r\n\r\n"],
    ids=["line", "header"],
)
async def test_what_is_malformed_is_answered_and_ends_the_connection(sent: bytes) -> None:
    worker = Worker()
    http, wire = worker.connect()

    await feed(http, sent)

    (answer,) = wire.answers()
    assert (400, True) == (answer.status, answer.last)
    assert b"application/problem+json" == answer.headers[b"content-type"]
    assert 32 == len(answer.headers[b"x-request-id"])
    assert (1.0, 1.0) == (worker.refused("malformed"), worker.counted(400))
    assert ["eof"] == wire.did
    await feed(http, request())
    assert 1 == len(wire.answers())


async def test_chunks_that_are_malformed_are_refused_where_the_application_reads() -> None:
    """It makes the answer; one that has not begun is not the application's."""
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await echo(scope, receive, send)
        except Problem as problem:
            seen.append(problem.status)
            raise

    worker = Worker(app)
    http, wire = worker.connect()

    await feed(http, b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n")

    assert [400] == seen
    assert 1.0 == worker.refused("malformed")
    assert [True] == [answer.last for answer in wire.answers()]
    assert http.place is not worker.connections.bodies


async def test_chunks_that_are_malformed_after_the_answer_has_begun_cost_the_connection() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        await receive()

    worker = Worker(app)
    http, wire = worker.connect()

    await feed(http, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    await feed(http, b"no size\r\n")

    assert 1.0 == worker.refused("malformed")
    assert ["abort"] == wire.did
    assert 0.0 == worker.open


async def test_an_application_that_fails_is_answered_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "localrank.service")
    worker = Worker()
    http, wire = worker.connect()

    await feed(http, request(b"/broken", b"x", b"X-Request-Id: mine"))

    (answer,) = wire.answers()
    assert (500, True) == (answer.status, answer.last)
    assert 1.0 == worker.counted(500)
    assert b"broken" not in answer.body
    assert ["the application failed"] == caplog.messages
    assert 0 == worker.admission.working
    # Its request was read, but the answer is not the application's: it may read what is left.
    assert ["eof"] == wire.did


async def test_an_application_that_fails_within_its_answer_costs_the_connection() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError

    worker = Worker(app)
    http, wire = worker.connect()

    await feed(http, request())

    assert ["abort"] == wire.did
    assert ([], 0.0, 0) == (wire.written, worker.open, worker.admission.working)


# --- Requests that are not taken on ---


@pytest.fixture
async def full() -> Worker:
    """A worker that answers one request at a time, and is answering one."""
    worker = Worker(Held("/echo"), max_concurrent_requests=1)
    busy, _ = worker.connect()
    arrive(busy, request(body=b"x"))
    await settle()
    return worker


async def test_a_refused_request_is_answered_before_its_body_and_keeps_the_connection(full: Worker) -> None:
    http, wire = full.connect()

    await feed(http, request(body=b"abc", length=10))
    (answer,) = wire.answers()
    assert (429, False, b"1") == (answer.status, answer.last, answer.headers[b"retry-after"])
    assert 1.0 == full.counted(429)
    assert http.place is full.connections.bodies
    await feed(http, b"defghij" + request(body=b"k"))

    assert [429, 429] == [answer.status for answer in wire.answers()]
    assert 2 == len({answer.headers[b"x-request-id"] for answer in wire.answers()})
    assert 2.0 == full.counted(429)
    assert http.place is full.connections.idle
    assert [] == wire.did


@pytest.mark.parametrize(("over", "last"), [(0, False), (1, True)])
async def test_a_refused_body_is_dropped_up_to_a_size(full: Worker, over: int, *, last: bool) -> None:
    http, wire = full.connect()

    await feed(http, request(length=DROPPED + over))

    assert [last] == [answer.last for answer in wire.answers()]
    assert (["eof"] if last else []) == wire.did


@pytest.mark.parametrize(
    "line", [b"Connection: close", b"Expect: 100-continue", b"Transfer-Encoding: chunked"]
)
async def test_a_refused_request_ends_the_connection_if_its_end_is_unknown(full: Worker, line: bytes) -> None:
    http, wire = full.connect()
    sent = request(b"/echo", b"", line, length=5)
    if b"chunked" in line:
        sent = sent.replace(b"Content-Length: 5\r\n", b"")

    await feed(http, sent)

    assert [(429, True)] == [(answer.status, answer.last) for answer in wire.answers()]
    assert ["eof"] == wire.did


async def test_a_refused_request_of_a_closed_side_or_a_draining_worker_is_the_last(full: Worker) -> None:
    http, wire = full.connect()
    http.eof_received()
    await feed(http, request())
    full.connections.draining = True
    other, other_wire = full.connect()
    await feed(other, request())

    for one in (wire, other_wire):
        assert [(429, True)] == [(answer.status, answer.last) for answer in one.answers()]


async def test_a_refusal_names_the_request_as_the_client_does(full: Worker) -> None:
    http, wire = full.connect()

    await feed(http, request(b"/echo", b"", b"X-Request-Id: mine"))

    (answer,) = wire.answers()
    assert (429, b"mine", 1.0) == (answer.status, answer.headers[b"x-request-id"], full.counted(429))
    assert b"urn:localrank:request:mine" in answer.body


async def test_a_refused_head_has_no_body(full: Worker) -> None:
    http, wire = full.connect()

    await feed(http, request(method=b"HEAD"))

    (answer,) = wire.answers(bodiless=True)
    assert 429 == answer.status
    assert int(answer.headers[b"content-length"]) > 0


async def test_a_page_may_read_a_refusal() -> None:
    worker = Worker(Held(), cors=Cors(["https://shop.example"]), max_concurrent_requests=1)
    busy, _ = worker.connect()
    await feed(busy, request(body=b"x"))
    http, wire = worker.connect()

    await feed(http, request(b"/echo", b"", b"Origin: https://shop.example"))

    (answer,) = wire.answers()
    assert (429, b"https://shop.example") == (answer.status, answer.headers[b"access-control-allow-origin"])


@pytest.mark.parametrize(
    "path", [b"/livez", b"/readyz", b"/startupz", b"/metrics?x=1", b"/v2/health/live", b"/v2/health/ready"]
)
async def test_checks_are_answered_by_a_worker_that_is_full(full: Worker, path: bytes) -> None:
    http, wire = full.connect()

    await feed(http, request(path, method=b"GET"))

    assert [200] == [answer.status for answer in wire.answers()]


async def test_requests_are_told_apart_by_path_type_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    kinds: list[Kind] = []
    admit = worker.admission.admit

    def seen(client: PeerState, kind: Kind) -> Claim | Refusal:
        kinds.append(kind)
        return admit(client, kind)

    monkeypatch.setattr(worker.admission, "admit", seen)
    http, _ = worker.connect()

    await feed(http, request(b"/echo?q", b"x" * 5, b"Content-Type: text/csv"))
    await feed(http, request(b"/echo", b"x" * 300))
    await feed(http, b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")

    # 5 has three binary digits, 300 has nine.
    assert [(b"/echo", b"", 3), (b"/echo", b"", 9), (b"/c", b"", 0)] == [
        (path, b"", size) for path, _, size in kinds
    ]


# --- Memory and speed ---


async def test_reading_stops_while_the_application_does_not_take_the_body() -> None:
    """A quarter of a mebibyte is kept; what was read at once with it, too."""
    taken: list[int] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await go.wait()
        more = True
        while more:
            message = await receive()
            taken.append(len(message["body"]))
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    go = asyncio.Event()
    http, wire = Worker(app).connect()
    size = 4 * READ + 10
    await feed(http, request(length=size))
    await feed(http, bytes(READ))
    await feed(http, bytes(READ))
    assert [] == wire.did
    await feed(http, b"x")
    assert ["pause"] == wire.did
    assert 2 * READ + 1 == http.held == http.arrived

    go.set()
    await settle()
    assert ["pause", "resume"] == wire.did
    await feed(http, bytes(READ))
    await feed(http, bytes(9))
    await feed(http, bytes(READ))

    assert [2 * READ + 1, 2 * READ + 9] == taken
    assert [204] == [answer.status for answer in wire.answers()]
    assert b"transfer-encoding" not in wire.answers()[0].headers
    assert 0 == http.held


async def test_an_answer_waits_for_a_client_that_does_not_take_it() -> None:
    sent = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
        for number in range(3):
            await send({"type": "http.response.body", "body": b"%d" % number, "more_body": number < 2})
            sent.append(number)

    http, wire = Worker(app).connect()
    http.pause_writing()
    await feed(http, request())
    assert [] == wire.written  # a request of a client that takes no answers is not even begun
    http.resume_writing()
    await asyncio.sleep(0)
    http.pause_writing()
    await settle()
    assert ([], 1) == (sent, len(wire.written))
    http.resume_writing()
    await settle()

    assert ([0, 1, 2], b"012") == (sent, wire.answers()[0].body)


async def test_what_is_sent_ahead_waits_for_a_client_that_does_not_take_its_answer() -> None:
    """It is counted as long as it is kept."""
    app = Held()
    http, wire = Worker(app).connect()
    second = request(body=b"second")
    await feed(http, request(body=b"first") + second)
    http.pause_writing()

    app.go.set()
    await settle()
    assert ([b"first"], len(second)) == ([answer.body for answer in wire.answers()], http.held)
    http.resume_writing()
    await settle()

    assert ([b"first", b"second"], 0) == ([answer.body for answer in wire.answers()], http.held)


async def test_an_answer_is_given_up_if_its_client_goes() -> None:
    ended = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        assert "http.disconnect" == (await receive())["type"]
        await send({"type": "http.response.body", "body": b"2"})
        ended.set()

    worker = Worker(app)
    http, wire = worker.connect()
    arrive(http, request())
    await asyncio.sleep(0)
    http.pause_writing()
    await settle()
    written = len(wire.written)

    wire.abort()
    http.connection_lost(None)
    await settle()

    assert ended.is_set()
    assert written == len(wire.written)
    assert (0.0, 0, 0) == (worker.open, http.held, len(worker.server.tasks))


async def test_a_client_that_goes_while_it_sends_is_forgotten() -> None:
    worker = Worker()
    http, wire = worker.connect()
    await feed(http, request(body=b"abc", length=10))
    assert 1 == len(worker.server.tasks)

    http.connection_lost(None)
    await settle()

    assert ([], 0, 0.0, 0) == (wire.written, len(worker.server.tasks), worker.open, http.held)


async def test_a_new_connection_without_room_is_told_to_come_back() -> None:
    """All others are being answered."""
    worker = Worker(Held(), max_connections=1)
    busy, _ = worker.connect()
    await feed(busy, request(body=b"x"))

    http, wire = worker.connect()

    (answer,) = wire.answers()
    assert (503, True, b"1") == (answer.status, answer.last, answer.headers[b"retry-after"])
    assert (1.0, 1.0, 1.0) == (worker.refused("connections"), worker.counted(503), worker.open)
    assert not http.entered
    assert ["eof"] == wire.did


async def test_a_connection_that_is_dropped_before_it_is_made_does_not_begin() -> None:
    worker = Worker()
    http = worker.accept()
    http.drop()

    wire = worker.make(http)

    assert ["abort"] == wire.did
    assert set() == worker.server.connections
    assert 0.0 == worker.open


async def test_a_connection_that_ends_is_closed_once() -> None:
    http, wire = Worker().connect()

    wire.abort()
    http.close()

    assert ["abort"] == wire.did


async def test_nothing_is_sent_into_a_closed_connection_and_nothing_empty() -> None:
    http, wire = Worker().connect()

    http.write(b"")
    http.write(b"a")
    wire.abort()
    http.write(b"b")

    assert [b"a"] == wire.written


# --- Administrators ---

CHANGES = [
    (b"POST", b"/v1/models/demo/promote"),
    (b"POST", b"/v1/models/demo/rollback"),
    (b"POST", b"/v2/repository/models/demo/load"),
    (b"POST", b"/v2/repository/models/demo/unload"),
    (b"PUT", b"/v1/experiments/demo"),
    (b"DELETE", b"/v1/experiments/demo"),
]


@pytest.mark.parametrize(("method", "path"), CHANGES)
@pytest.mark.parametrize("key", [b"X-API-Key: " + ADMIN, b"Authorization: Bearer " + ADMIN])
async def test_a_change_is_made_by_a_worker_that_is_full(
    full: Worker, method: bytes, path: bytes, key: bytes
) -> None:
    http, wire = full.connect()

    await feed(http, request(path, b"{}", key, method=method))

    assert [200] == [answer.status for answer in wire.answers()]
    assert 0 == full.admission.changing


@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        (b"POST", b"/v1/models/demo/promote", b"X-API-Key: another"),
        (b"POST", b"/v1/models/demo/promote", b"X-Key: " + ADMIN),
        (b"POST", b"/v1/rerank", b"X-API-Key: " + ADMIN),
        (b"GET", b"/v1/experiments/demo", b"X-API-Key: " + ADMIN),
    ],
)
async def test_other_requests_have_no_place_there(
    full: Worker, method: bytes, path: bytes, key: bytes
) -> None:
    http, wire = full.connect()

    await feed(http, request(path, b"{}", key, method=method))

    assert [429] == [answer.status for answer in wire.answers()]


async def test_administrators_have_a_few_places() -> None:
    worker = Worker(Held())
    change = request(b"/v1/models/demo/promote", b"{}", b"X-API-Key: " + ADMIN)
    clients = [worker.connect() for _ in range(10)]

    for http, _ in clients:
        await feed(http, change)
    waiting = worker.admission.changing
    cast("Held", worker.config.loaded_app).go.set()
    await settle()

    assert [200] * waiting + [429] * (10 - waiting) == [wire.answers()[0].status for _, wire in clients]
    assert (10.0 - waiting, 0) == (worker.refused("changes"), worker.admission.changing)


# --- What is slow to read ---


async def test_what_is_slow_to_read_is_read_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 200 bytes on many connections; a small request that comes after them is not behind them."""
    worker = Worker(max_queue_ms=600_000, overload_queue_ms=600_000)
    clock = worker.clock
    feed_chunks = Chunks.feed

    def slow(chunks: Chunks, data: memoryview) -> tuple[bytes, int]:
        clock.now += 0.0006
        return feed_chunks(chunks, data)

    monkeypatch.setattr(Chunks, "feed", slow)
    body = b"x" * 200 * 500
    sent = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent += b"".join(b"c8\r\n" + body[:200] + b"\r\n" for _ in range(500)) + b"0\r\n\r\n"
    clients = [worker.connect() for _ in range(50)]
    begun = clock.now
    for http, _ in clients:
        arrive(http, sent)
    check, checked = worker.connect()
    arrive(check, request(b"/livez", method=b"GET"))
    await asyncio.sleep(0)
    first = clock.now - begun

    for _ in range(60):
        await settle()

    assert [200] == [answer.status for answer in checked.answers()]
    assert first < 0.03
    assert [[body]] * 50 == [[answer.body for answer in wire.answers()] for _, wire in clients]
    assert 0 == worker.connections.held


async def test_a_client_that_closes_its_side_in_the_middle_is_forgotten_when_the_rest_was_read() -> None:
    worker = Worker()
    other, _ = worker.connect()
    http, wire = worker.connect()
    arrive(other, request(body=b"x" * 3000, length=9000))
    worker.clock.now += 1.0  # there is no time left in this turn
    arrive(http, request(body=b"x" * 3000, length=9000))

    assert http.eof_received()
    await settle()

    assert wire.did[-1] in {"close", "eof"}
    assert [] == wire.written
