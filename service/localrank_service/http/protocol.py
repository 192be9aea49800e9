"""One connection of HTTP/1.1: where each request begins and ends, and in which order they are answered.

uvicorn runs this in the place of its own protocol; docs/decisions/http.md says why. It differs in what a hostile or an
unlucky client can do:

- Requests are read one at a time. Further requests that were sent ahead are not read until the answer before them is
  complete. So they cost nothing yet and cannot spoil an earlier answer.
- A request may be refused as soon as its head is read. Its body is then thrown away as it arrives.
- What is malformed, too large or too slow is answered as every error is, and the connection ends.
- A client that offers another protocol (``Upgrade: h2c``, as Java's ``HttpClient`` does of itself) is answered in this
  one, which RFC 9110, section 7.8, leaves to the server.
- When the server stops, each answer says that it is the last (``Connection: close``), and idle clients have a moment for
  a last request.

Calls go one way: the transport calls a connection, which asks `localrank_service.http.admission` what is taken on and
`localrank_service.http.messages` what the bytes mean. The application (ASGI) sees one request and its answer as an
`Exchange`. The connection hands in what arrives; the application asks for it with ``receive`` and answers with ``send``.
The end of a body is handed over when it is the request's turn. Head and body of an answer leave together, because each
write is a call of the kernel and wakes the client.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import re
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import ClientDisconnect
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl

from localrank_service.http.admission import ALWAYS, Refusal, overloaded
from localrank_service.http.aside import PERMIT
from localrank_service.http.messages import Chunks, Head, Heads, head_of
from localrank_service.http.problems import FAILED, MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence

    from starlette.types import ASGIApp, Scope
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from localrank_service.http.admission import Admission, Claim, Connections, Waiting
    from localrank_service.http.cors import Cors
    from localrank_service.http.keys import Keys

_log = logging.getLogger("localrank.service")

#: A refused body up to this size in bytes is read and dropped, to keep the connection. A larger one ends it.
_THROWN_AWAY = 1 << 20
#: Requests to these paths change something. With an admin key they do not wait behind what others ask.
_CHANGES = re.compile(
    rb"/v1/models/[^/]+/(?:promote|rollback)|/v2/repository/models/[^/]+/(?:load|unload)|/v1/experiments/[^/]+"
)
_PERMISSION = b"HTTP/1.1 100 Continue\r\n\r\n"
#: If this many bytes of a body are kept for the application, it must take them before more are read.
_READ_AHEAD = 1 << 18
#: A part up to this size in bytes is always read at once.
_SMALL = 1 << 11
#: As long as the ids that are made for requests.
_ID = b"0" * 32

#: The heads that this process has read.
_KNOWN = Heads()


class _Phase(enum.Enum):
    """What the next byte from the client is."""

    HEAD = enum.auto()
    BODY = enum.auto()
    #: The next request's; it is not read before this one is answered.
    AHEAD = enum.auto()
    #: A body's that nobody reads.
    WASTE = enum.auto()
    #: Nothing: the connection ends.
    END = enum.auto()


#: When there may be something to read.
_READING = frozenset({_Phase.HEAD, _Phase.BODY, _Phase.WASTE})


def answer_of(
    problem: Problem, request_id: str, headers: Sequence[tuple[bytes, bytes]], *, keeps: bool
) -> tuple[bytes, bytes]:
    """Return head and body of an answer that no application has made."""
    body = problem.body(request_id)
    sent = [
        *headers,
        *[(name.lower().encode(), value.encode()) for name, value in problem.headers.items()],
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode()),
    ]
    return head_of(problem.status, sent if keeps else [*sent, (b"connection", b"close")]), body


@lru_cache(64)  # under overload there are thousands a second; the headers change once a second
def _prepared(refusal: Refusal, headers: tuple[tuple[bytes, bytes], ...], *, keeps: bool) -> list[bytes]:
    """Return an answer to a request that is refused at its head, in parts between which the request's id stands."""
    head, body = answer_of(overloaded(refusal), _ID.decode(), headers, keeps=keeps)
    return (head + body).split(_ID)


class Http(asyncio.BufferedProtocol):
    """One connection (`localrank_service.http.admission.Connection`).

    Attributes:
        server_state: what uvicorn knows of all connections; its ``default_headers`` are in every answer.
        stalled: whether the client does not take its answer.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.since = self.due = 0.0
        self.held = self.arrived = self.period = 0
        self.place: Waiting | None = None
        self.stalled = False
        self._app = config.loaded_app
        #: What the scopes of all requests have.
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": config.asgi_version, "spec_version": "2.3"},
            "root_path": config.root_path,
        }
        self.server_state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._connections: Connections = app_state["connections"]
        self._admission: Admission = app_state["admission"]
        self._cors: Cors | None = app_state["cors"]
        self._keys: Keys = app_state["keys"]
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._phase = _Phase.HEAD
        self._head: Head | None = None
        self._exchange: Exchange | None = None
        self._chunks: Chunks | None = None
        #: Bytes of the body that have not arrived, unless it comes in chunks.
        self._missing = 0
        #: What was sent ahead.
        self._ahead = b""
        self._paused = False
        #: Whether the server stops, and whether the client has closed its side.
        self._last = self._ended = False
        self._writable: asyncio.Event | None = None
        # This is done here, because several connections are accepted before the first one is made.
        self.entered = self._connections.enter(self)
        self._admission.accepted = True

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        if self._phase is _Phase.END:  # dropped for another before it was made
            self._transport.abort()
            return
        self._scope |= {
            "client": get_remote_addr(self._transport),
            "server": get_local_addr(self._transport),
            "scheme": "https" if is_ssl(self._transport) else "http",
        }
        self.server_state.connections.add(cast("Any", self))
        if not self.entered:
            self._end_with(overloaded(Refusal("connections", 1)), "connections")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """End."""
        self._phase = _Phase.END
        self._ahead = b""
        self.server_state.connections.discard(cast("Any", self))
        self._connections.leave(self)
        self.resume_writing()
        if self._exchange is not None and not self._exchange.answered:
            self._exchange.hang_up()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return where to put what arrives."""
        return self._connections.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Read what arrived."""
        data = self._connections.buffer[:nbytes]
        if self._ahead:
            data = memoryview(self._ahead + bytes(data))
            self._ahead = b""
        self._read(data)

    def eof_received(self) -> bool:
        """Answer a complete request: a client may close its side and still wait for the answer."""
        self._ended = True
        return self._phase is _Phase.AHEAD or bool(self._ahead)

    def go_on(self) -> None:
        """Read what was kept for later."""
        if self._ahead and not self.stalled and self._phase in _READING:
            ahead, self._ahead = self._ahead, b""
            self._read(memoryview(ahead))
            if not self._ahead and not (
                self._phase is _Phase.BODY and self._exchange is not None and self._exchange.full
            ):
                self._pause(paused=False)
            if self._ended and not self._ahead and self._phase in _READING:
                self.close()  # the rest of the request will not come

    def pause_writing(self) -> None:
        """Send no more for now: the client does not take it."""
        self.stalled = True
        self._connections.stall(self)

    def resume_writing(self) -> None:
        """Send on."""
        self.stalled = False
        self._connections.flow(self)
        if self._writable is not None:
            self._writable.set()
        if self._ahead:
            self._connections.put_off(self)

    def shutdown(self) -> None:
        """End after the request that is being answered, or after the next one if it comes soon."""
        self._last = True
        self._connections.farewell()

    # What `Connections` asks for.

    @property
    def flushing(self) -> bool:
        """Whether something is still to be sent."""
        return self._transport.get_write_buffer_size() > 0

    @property
    def working(self) -> bool:
        """Whether a request has arrived that is not answered."""
        exchange = self._exchange
        return (
            exchange is not None
            and exchange.claim is not None
            and exchange.complete
            and not exchange.answered
        )

    def give_up(self, problem: Problem, reason: str) -> None:
        """End a request that does not arrive as it should."""
        exchange = self._exchange
        if self._phase is _Phase.HEAD:
            self._end_with(problem, reason)
        elif self._phase is _Phase.BODY and exchange is not None and not exchange.started:
            self._connections.note(reason)
            self._connections.wait(self, None)
            self._phase = _Phase.END
            exchange.stop(problem)
        else:
            self._connections.note(reason)
            self.drop()

    def close(self) -> None:
        """Close the connection once what was written is sent."""
        read = self._phase is _Phase.AHEAD and not self._ahead
        self._phase = _Phase.END
        self._ahead = b""
        self._connections.hold(self, 0)
        if self._transport.is_closing():
            return
        self._connections.end(self)
        if read or not self._transport.can_write_eof():
            self._transport.close()
        else:
            # Closing with something unread would reset the connection, and the client might lose the answer. An idle
            # client may be sending just now.
            self._pause(paused=False)
            self._transport.write_eof()

    def drop(self) -> None:
        """Close the connection at once."""
        self._phase = _Phase.END
        self._connections.leave(self)
        if self._transport is not None:
            self._transport.abort()

    # What an exchange asks for.

    def keeps(self, exchange: Exchange) -> bool:
        """Return whether the connection stays open after this exchange, whose answer begins now."""
        if exchange.keeps and (
            self._last
            or self._connections.draining
            or (self._ended and not self._ahead)
            or exchange.waits
            or (self._phase is _Phase.BODY and (self._chunks is not None or self._missing > _THROWN_AWAY))
        ):
            exchange.keeps = False
        return exchange.keeps

    def write(self, data: bytes) -> None:
        """Send."""
        if data and not self._transport.is_closing():
            self._transport.write(data)

    async def writable(self) -> None:
        """Wait until the client takes more."""
        while self.stalled:
            self._writable = asyncio.Event()
            await self._writable.wait()

    def read_on(self) -> None:
        """Read more of a body."""
        if self._phase is _Phase.BODY:
            self._pause(paused=False)

    def answered(self, exchange: Exchange) -> None:
        """Go on with the next request, or end."""
        self.server_state.total_requests += 1
        if not exchange.keeps or (self._ended and not self._ahead):
            self.close()
        elif self._phase is _Phase.BODY:
            self._phase = _Phase.WASTE
            self._weigh()
            self._pause(paused=False)
        else:
            self._rest()

    def fail(self, exchange: Exchange) -> None:
        """Send an answer if the application did not."""
        if exchange.started:
            self.drop()
        else:
            exchange.answered = True
            self._end_with(Problem(500, FAILED))

    # Reading.

    def _rest(self) -> None:
        """Wait for the next request, or begin with the one that was sent ahead."""
        self._phase = _Phase.HEAD
        self._connections.rest(self, len(self._ahead))
        if self._ahead:
            self._connections.put_off(self)
        elif self._connections.spare:
            # uvloop sends what was written while it read after the callbacks that wait by then, so there are two.
            self._loop.call_soon(self._loop.call_soon, self._move)

    def _move(self) -> None:
        """Go to a worker that is less busy, unless the next request has begun."""
        connections = self._connections
        if (
            connections.spare > 0
            and self.place is connections.idle
            and not (
                self._ahead or self._last or self._ended or self.flushing or self._transport.is_closing()
            )
            and self._scope["scheme"] == "http"
            and connections.hand_over(self._transport.get_extra_info("socket").fileno())
        ):
            connections.spare -= 1
            self.drop()

    def _read(self, data: memoryview) -> None:
        begun = False
        try:
            while data:
                phase = self._phase
                # Small parts are read at once: to look at the clock would take longer, and health checks are small.
                late = len(data) > _SMALL and phase in _READING and self._connections.turn_is_over()
                # Only one request in each turn of the event loop, even if more were sent ahead.
                if late or (phase is _Phase.HEAD and (begun or self.stalled)):
                    self._keep(data)
                    self._connections.put_off(self)
                    break
                if phase is _Phase.HEAD:
                    used, begun = self._read_head(data)
                elif phase is _Phase.BODY:
                    used = self._read_body(data)
                elif phase is _Phase.WASTE:
                    used = self._skip(data)
                else:
                    if phase is _Phase.AHEAD:
                        self._keep(data)
                    break
                data = data[used:]
        except Problem as problem:
            self.give_up(problem, "malformed")
        if begun and self._phase in {_Phase.BODY, _Phase.WASTE}:
            self._connections.wait(self, self._connections.bodies)
        self._weigh()

    def _keep(self, data: memoryview) -> None:
        """Keep what was sent ahead, and read no more."""
        self._ahead += bytes(data)
        self._pause(paused=True)

    def _weigh(self) -> None:
        """Tell how many bytes of requests are in memory here."""
        head, exchange = self._head, self._exchange
        size = len(self._ahead)
        if head is not None:
            size += head.size
        if exchange is not None and not exchange.answered:
            size += exchange.received
        if size != self.held and self._phase is not _Phase.END:
            self._connections.hold(self, size)

    def _read_head(self, data: memoryview) -> tuple[int, bool]:
        """Return how many bytes were the head's, and whether it is complete."""
        head = self._head
        first = head is None
        if head is None:
            known = _KNOWN.find(data)
            if known is not None:
                self._begin(known)
                return known.size, True
            head = self._head = Head()
        used = head.feed(data)
        if not head.complete:
            if first:
                self._connections.wait(self, self._connections.heads)
            return used, False
        if head.size == used:
            _KNOWN.keep(data, head)
        self._head = None
        self._begin(head)
        return used, True

    def _begin(self, head: Head) -> None:
        """Begin to answer the request, or refuse it."""
        self.arrived, self._missing = 0, head.length or 0
        claim = None
        if head.path not in ALWAYS:
            if (
                _CHANGES.fullmatch(head.path)
                and head.method != b"GET"
                and self._keys.is_admin({"headers": head.headers})
            ):
                admitted = self._admission.admit_change()
            else:
                kind = head.path, head.content_type, self._missing.bit_length()
                admitted = self._admission.admit(self, kind)
            if isinstance(admitted, Refusal):
                self._refuse(admitted, head)
                return
            self._connections.refusing = None
            claim = admitted
        scope = {**self._scope, "state": self._app_state.copy()}
        head.locate(scope)
        self._exchange = exchange = Exchange(self, scope, claim, keeps=head.keeps, waits=head.waits)
        self._phase = _Phase.BODY
        self._chunks = Chunks() if head.length is None else None
        if head.length == 0:
            self._read_body(memoryview(b""))
        task = self._loop.create_task(exchange.run(self._app))
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    def _read_body(self, data: memoryview) -> int:
        exchange = self._exchange
        assert exchange is not None  # noqa: S101 - for the type checker
        if self._chunks is None:
            part = bytes(data[: self._missing])
            used = len(part)
            self._missing -= used
            complete = not self._missing
        else:
            part, used = self._chunks.feed(data)
            complete = self._chunks.complete
        self.arrived += used
        if complete:
            self._phase = _Phase.AHEAD
            self._connections.wait(self, None)
            if exchange.claim is not None:
                exchange.claim.arrive()
        if part or complete:
            exchange.put(part, last=complete)
            if exchange.full and not complete:
                self._pause(paused=True)
        return used

    def _skip(self, data: memoryview) -> int:
        """Read and drop a body that is not needed."""
        used = min(self._missing, len(data))
        self.arrived += used
        self._missing -= used
        if not self._missing:
            self._rest()
        return used

    def _pause(self, *, paused: bool) -> None:
        """Read no more for now, or read on."""
        if self._paused is not paused and not self._transport.is_closing():
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # Answers that are not the application's.

    def _refuse(self, refusal: Refusal, head: Head) -> None:
        """Answer with 429 although the body was not read; keep the connection if that is cheap."""
        self._connections.refuse()
        keeps = (
            head.keeps
            and head.length is not None
            and self._missing <= _THROWN_AWAY
            and not (head.waits or self._last or self._ended or self._connections.draining)
        )
        if head.method == b"HEAD" or head.request_id is not None or self._cors is not None:
            self.write(self._answer(overloaded(refusal), head, keeps=keeps))
        else:
            self._connections.count(429)
            parts = _prepared(refusal, tuple(self.server_state.default_headers), keeps=keeps)
            self.write(secrets.token_hex(16).encode().join(parts))
        if not keeps:
            self.close()
        elif self._missing:
            self._phase = _Phase.WASTE
        else:
            self._rest()

    def _end_with(self, problem: Problem, reason: str | None = None) -> None:
        """Answer, and end the connection: where the next request would begin is unknown."""
        if reason is not None:
            self._connections.note(reason)
        self.write(self._answer(problem, self._head, keeps=False))
        self._phase = _Phase.WASTE
        self.close()

    def _answer(self, problem: Problem, head: Head | None, *, keeps: bool) -> bytes:
        """Return an answer that no application has made."""
        self._connections.count(problem.status)
        sent = None if head is None else head.request_id
        request_id = secrets.token_hex(16) if sent is None else sent.decode()
        headers = self.server_state.default_headers
        if head is not None and self._cors is not None:
            headers = [*headers, *self._cors.headers(head.headers)]
        answer, body = answer_of(problem, request_id, headers, keeps=keeps)
        return answer if head is not None and head.method == b"HEAD" else answer + body


class Exchange:
    """One request and its answer.

    Attributes:
        keeps: whether the connection may stay open afterwards.
        received: bytes of the body that have arrived.
        complete: whether the whole body has arrived.
        started: whether the answer has begun.
        answered: whether all of it was handed over to be sent.
        gone: whether the client hung up before that.
        full: whether the application must take what has arrived before more is read.
        waits: whether the client waits for permission to send the body.
    """

    __slots__ = (
        "_chunked",
        "_connection",
        "_delivered",
        "_head",
        "_parts",
        "_problem",
        "_room",
        "_scope",
        "_taken",
        "_waiter",
        "answered",
        "claim",
        "complete",
        "full",
        "gone",
        "keeps",
        "received",
        "started",
        "waits",
    )

    def __init__(
        self, connection: Http, scope: Scope, claim: Claim | None, *, keeps: bool, waits: bool
    ) -> None:
        self.claim = claim
        self.keeps = keeps
        self.waits = waits
        self.received = 0
        self.complete = self.started = self.answered = self.gone = self.full = False
        self._connection = connection
        self._scope = scope
        self._parts: list[bytes] = []
        self._taken = 0
        self._delivered = False
        self._waiter: asyncio.Future[None] | None = None
        self._problem: Problem | None = None
        self._head: bytes | None = None
        self._chunked = False
        self._room = 0

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer; if it does not, that is our error."""
        PERMIT.set(self.claim)
        try:
            await app(self._scope, self.receive, self.send)
        except ClientDisconnect:
            pass
        except Exception:  # noqa: BLE001 - the client gets an answer after any error
            _log.exception("the application failed")
        finally:
            # Here only, so that no way to end is forgotten: a client that is gone holds no place.
            if self.claim is not None:
                self.claim.finish()
        if not self.answered and not self.gone:
            self._connection.fail(self)

    def put(self, part: bytes, *, last: bool = False) -> None:
        """Take a part of the body that has arrived."""
        self._parts.append(part)
        self.received += len(part)
        self.complete = last
        self.full = self.received - self._taken > _READ_AHEAD
        if self._waiter is not None and (last or self.full):
            self._wake()

    def stop(self, problem: Problem) -> None:
        """Raise the problem where the application waits for the body."""
        self._problem = problem
        self.keeps = False
        self._wake()

    def hang_up(self) -> None:
        """Take notice that the client is gone."""
        self.gone = True
        self._wake()
        if self.claim is not None:
            self.claim.give_up()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next part of the body; its end when it is this request's turn."""
        if self.waits and not self.started:
            self.waits = False
            self._connection.write(_PERMISSION)
        while not self.gone and not self.answered:
            if self._problem is not None and not self.started:
                try:
                    raise self._problem
                finally:
                    # The traceback of a problem refers to frames, and these refer to this exchange and its body.
                    self._problem = None
            if self.complete and not self._delivered:
                self._delivered = True
                if self.claim is not None and not self.claim.begin():
                    await self.claim.turn()
                return self._hand_over(more=False)
            if self.full:
                message = self._hand_over(more=True)
                self._connection.read_on()
                return message
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return {"type": "http.disconnect"}

    def _hand_over(self, *, more: bool) -> MutableMapping[str, Any]:
        parts, self._parts = self._parts, []
        self._taken = self.received
        self.full = False
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send the head of the answer, or a part of its body."""
        if self.gone:
            return
        if message["type"] == "http.response.start":
            if self.started:
                raise RuntimeError("the application began its answer twice")
            self._begin(message["status"], message["headers"])
            return
        if not self.started or self.answered:
            raise RuntimeError("the application sent a body outside of an answer")
        body, more = message.get("body", b""), message.get("more_body", False)
        head, self._head = self._head, None
        if self._scope["method"] == "HEAD":
            body = b""
        elif self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = body if more else body + b"0\r\n\r\n"
        else:
            self._room -= len(body)
            if self._room < 0 or (self._room and not more):
                raise RuntimeError("the application's answer is not as long as it declared")
        connection = self._connection
        connection.write(head + body if head else body)
        if not more:
            self.answered = True
            connection.answered(self)
        elif connection.stalled:
            await connection.writable()

    def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Make the head of the answer, which leaves with the beginning of the body."""
        connection = self._connection
        sent = [*connection.server_state.default_headers, *headers]
        self._chunked = status not in {204, 304}
        for name, value in headers:
            if name == b"content-length":
                self._room, self._chunked = int(value), False
            elif name == b"connection" and b"close" in value.lower():
                self.keeps = False
        if self._chunked:
            sent.append((b"transfer-encoding", b"chunked"))
        if not connection.keeps(self) and (b"connection", b"close") not in sent:
            sent.append((b"connection", b"close"))
        self._head = head_of(status, sent)
        self.started = True
