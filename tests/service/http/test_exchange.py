"""One request and its answer as the application sees them; real clients over real sockets are in tests/end_to_end."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from weakref import ref

import pytest
from starlette.requests import ClientDisconnect

from localrank_service.http.admission import Claim
from localrank_service.http.aside import PERMIT
from localrank_service.http.messages import head_of
from localrank_service.http.problems import Problem
from tests.service.http.scripted import Worker, arrive, feed, request, settle

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from starlette.types import Receive, Scope, Send

    from tests.service.http.scripted import Wire


@pytest.mark.parametrize(
    "header",
    [
        (b"x-request-id", b"a\r\nset-cookie: b=c"),
        (b"x-request-id", b"a\nset-cookie: b=c"),
        (b"x-request-id", b"a\rb"),
        (b"x\r\nset-cookie", b"b=c"),
        (b"x-request-id", b"a\0b"),
    ],
)
def test_a_header_cannot_bring_another(header: tuple[bytes, bytes]) -> None:
    """Header injection: what a caller sent may come back in an answer's header."""
    with pytest.raises(ValueError, match="line break"):
        head_of(200, [(b"content-length", b"2"), header])


class Script:
    """An application that answers with these messages, and keeps what it received and what was raised."""

    def __init__(self, *messages: dict[str, Any], reads: int = 1) -> None:
        self.received: list[MutableMapping[str, Any]] = []
        self.raised: list[BaseException] = []
        self.permits: list[object] = []
        self._messages = messages
        self._reads = reads

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        self.permits.append(PERMIT.get())
        try:
            for _ in range(self._reads):
                self.received.append(await receive())
            for message in self._messages:
                await send(message)
        except BaseException as error:
            self.raised.append(error)
            raise


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def part(body: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % size


async def answered(app: Script, sent: bytes | None = None) -> Wire:
    http, wire = Worker(app).connect()
    await feed(http, request(body=b"asked") if sent is None else sent)
    return wire


@pytest.mark.anyio
async def test_the_head_leaves_with_the_beginning_of_the_body() -> None:
    app = Script(start(201, length(5), (b"x-one", b"1")), part(b"abc", more=True), part(b"de"))

    wire = await answered(app)

    head = b"HTTP/1.1 201 Created\r\nserver: ours\r\ncontent-length: 5\r\nx-one: 1\r\n\r\n"
    assert [head + b"abc", b"de"] == wire.written
    assert [{"type": "http.request", "body": b"asked", "more_body": False}] == app.received


@pytest.mark.anyio
async def test_a_body_of_unknown_length_is_sent_in_chunks() -> None:
    """RFC 9112, section 7.1. A part without content would be the end."""
    body = bytes(range(27))
    app = Script(start(), part(b"ab", more=True), part(b"", more=True), part(body))

    wire = await answered(app)

    head = b"HTTP/1.1 200 OK\r\nserver: ours\r\ntransfer-encoding: chunked\r\n\r\n"
    assert [head + b"2\r\nab\r\n", b"1b\r\n" + body + b"\r\n0\r\n\r\n"] == wire.written


@pytest.mark.anyio
async def test_chunks_end_even_if_the_last_part_is_empty() -> None:
    wire = await answered(Script(start(), part(b"ab", more=True), {"type": "http.response.body"}))

    assert b"".join(wire.written).endswith(b"\r\n\r\n2\r\nab\r\n0\r\n\r\n")


@pytest.mark.anyio
@pytest.mark.parametrize("status", [204, 304])
async def test_some_answers_never_have_a_body(status: int) -> None:
    wire = await answered(Script(start(status), part()))

    (answer,) = wire.answers()
    assert (status, {b"server": b"ours"}) == (answer.status, answer.headers)


@pytest.mark.anyio
async def test_the_answer_to_head_has_the_headers_only() -> None:
    wire = await answered(Script(start(200, length(5)), part(b"abcde")), request(method=b"HEAD"))

    (answer,) = wire.answers(bodiless=True)
    assert (b"5", False) == (answer.headers[b"content-length"], answer.last)


@pytest.mark.anyio
@pytest.mark.parametrize("messages", [
    (start(), start()),
    (part(b"a"),),
    (start(200, length(1)), part(b"a"), part(b"b")),
    (start(200, length(1)), part(b"ab")),
    (start(200, length(3)), part(b"ab")),
    (start(200, length(3)), part(b"ab", more=True), part(b"cd", more=True)),
], ids=["begun twice", "not begun", "after the end", "too long", "too short", "too long by parts"])  # fmt: skip
async def test_an_application_that_breaks_the_rules_fails(messages: tuple[dict[str, Any], ...]) -> None:
    app = Script(*messages)

    await answered(app)

    assert [RuntimeError] == [type(error) for error in app.raised]


@pytest.mark.anyio
@pytest.mark.parametrize("value", [b"close", b"Close"])
async def test_an_application_may_end_the_connection(value: bytes) -> None:
    """It is said once."""
    wire = await answered(Script(start(200, length(0), (b"connection", value)), part()))

    assert ["close"] == wire.did
    assert b"".join(wire.written).lower().count(b"connection: close") == (1 if value == b"close" else 2)


@pytest.mark.anyio
async def test_a_header_that_does_not_end_the_connection_keeps_it() -> None:
    wire = await answered(
        Script(start(200, length(0), (b"connection", b"x"), (b"x-other", b"close")), part())
    )

    assert [] == wire.did


@pytest.mark.anyio
async def test_after_the_body_and_the_answer_the_application_hears_of_an_end() -> None:
    seen: list[str] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(start(200, length(0)))
        await send(part())
        seen.append((await receive())["type"])

    http, wire = Worker(app).connect()

    await feed(http, request(body=b"x"))

    assert ["http.disconnect"] == seen
    assert [200] == [answer.status for answer in wire.answers()]


@pytest.mark.anyio
async def test_an_application_hears_that_its_client_is_gone_and_is_not_answered_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "localrank.service")
    app = Script(start(), part(b"a"), reads=2)
    worker = Worker(app)
    http, wire = worker.connect()
    await feed(http, request(body=b"x"))

    wire.abort()
    http.connection_lost(None)
    await settle()

    assert ["http.request", "http.disconnect"] == [message["type"] for message in app.received]
    assert ([], [], []) == (wire.written, app.raised, caplog.messages)
    assert 0.0 == worker.counted(500)


@pytest.mark.anyio
async def test_who_waits_for_a_turn_and_goes_is_forgotten(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application hears of it by an error, which is nobody's fault."""
    caplog.set_level(logging.ERROR, "localrank.service")
    monkeypatch.setattr(Claim, "begin", lambda _: False)
    app = Script(start(), part(b"a"))
    worker = Worker(app)
    worker.admission.taken = True
    http, wire = worker.connect()
    await feed(http, request(body=b"x"))
    assert [] == app.received

    wire.abort()
    http.connection_lost(None)
    await settle()

    assert [ClientDisconnect] == [type(error) for error in app.raised]
    assert ([], []) == (wire.written, caplog.messages)


@pytest.mark.anyio
async def test_a_request_is_handed_over_when_its_turn_comes() -> None:
    app = Script(start(200, length(0)), part())
    worker = Worker(app)
    http, _ = worker.connect()
    other, _ = worker.connect()
    arrive(http, request(body=b"1"))
    arrive(other, request(body=b"2"))
    assert (2, 2) == (worker.admission.working, worker.admission.waiting)

    await settle()

    assert [b"1", b"2"] == [message["body"] for message in app.received]
    assert [Claim, Claim] == [type(permit) for permit in app.permits]
    assert app.permits[0] is not app.permits[1]
    assert (0, 0) == (worker.admission.working, worker.admission.waiting)


@pytest.mark.anyio
async def test_a_problem_of_the_body_is_raised_once_and_ends_the_connection() -> None:
    """Where the application reads, whether it waits for the body already or asks later."""
    seen: list[int] = []
    raised: list[ref[Problem]] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await receive()
        except Problem as problem:
            seen.append(problem.status)
            raised.append(ref(problem))
        await send(start(HTTPStatus.REQUEST_TIMEOUT, length(0)))
        await send(part())

    http, wire = Worker(app).connect()
    await feed(http, request(body=b"x", length=3))
    http.give_up(Problem(408, "too slow"), "body_timeout")
    await settle()
    early, early_wire = Worker(app).connect()
    http = early
    arrive(early, request(body=b"x", length=3))
    early.give_up(Problem(408, "too slow"), "body_timeout")
    await settle()

    assert [408, 408] == seen
    # Nothing refers to a problem afterwards: its traceback refers to the body.
    assert [None, None] == [problem() for problem in raised]
    for one in (wire, early_wire):
        assert [(408, True)] == [(answer.status, answer.last) for answer in one.answers()]


@pytest.mark.anyio
async def test_a_head_is_the_line_of_its_status_and_its_headers() -> None:
    for status in HTTPStatus:
        line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        head = head_of(status.value, [(b"content-length", b"2"), (b"x-request-id", b"a b")])

        assert line.encode() + b"content-length: 2\r\nx-request-id: a b\r\n\r\n" == head
