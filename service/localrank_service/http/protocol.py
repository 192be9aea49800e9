"""One connection of HTTP/1.1: where each request begins and ends, and in which order they are answered.

uvicorn runs this in the place of its own protocol. It differs in what a hostile or an unlucky client can do:

- Requests are read one at a time. Further requests that were sent ahead are not read until the answer before them is
  complete. So they cost nothing yet and cannot spoil an earlier answer.
- A request may be refused as soon as its head is read. Its body is then thrown away as it arrives.
- What is malformed, too large or too slow is answered as every error is, and the connection ends.
- A client that offers another protocol (``Upgrade: h2c``, as Java's ``HttpClient`` does of itself) is answered in this
  one, which RFC 9110, section 7.8, leaves to the server.
- When the server stops, each answer says that it is the last (``Connection: close``), and idle clients have a moment for
  a last request.
"""

from __future__ import annotations

import asyncio
import enum
import re
import secrets
from typing import TYPE_CHECKING, Any, Literal, cast

from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl

from localrank_service.http.admission import overloaded
from localrank_service.http.chunks import Chunks
from localrank_service.http.exchange import Exchange
from localrank_service.http.heads import Head
from localrank_service.http.problems import FAILED, Problem
from localrank_service.http.refusals import answer_of

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from localrank_service.http.admission import Admission
    from localrank_service.http.connections import Connections
    from localrank_service.http.cors import Cors
    from localrank_service.http.keys import Keys

#: A refused body up to this size in bytes is read and dropped, to keep the connection. A larger one ends it.
_THROWN_AWAY = 1 << 20
#: Requests to these paths are neither counted nor refused, and do not wait for a turn.
_ALWAYS = frozenset(
    {b"/livez", b"/readyz", b"/startupz", b"/metrics", b"/v2/health/live", b"/v2/health/ready"}
)
#: Requests to these paths change something. With an admin key they do not wait behind what others ask.
_CHANGES = re.compile(
    rb"/v1/models/[^/]+/(?:promote|rollback)|/v2/repository/models/[^/]+/(?:load|unload)|/v1/experiments/[^/]+"
)


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
#: A part up to this size in bytes is always read at once.
_SMALL = 1 << 11


class Http(asyncio.BufferedProtocol):
    """One connection.

    Attributes:
        since: when it began to wait for what it waits for; `Connections` sets that.
        due, period: what its share is; `Admission` keeps that.
        place: among which connections it waits; `Connections` sets that.
        held: bytes of its requests that are in memory; `Connections` counts them.
        arrived: bytes of the present body that have arrived.
        default_headers: what uvicorn adds to every answer.
        stalled: whether the client does not take its answer.
        entered: whether there was room for it.
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
        self.place: dict[Http, None] | None = None
        self.stalled = False
        self._app = config.loaded_app
        self._asgi = {"version": config.asgi_version, "spec_version": "2.3"}
        self._root_path = config.root_path
        self._server_state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._connections: Connections = app_state["connections"]
        self._admission: Admission = app_state["admission"]
        self._cors: Cors | None = app_state["cors"]
        self._keys: Keys = app_state["keys"]
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._client: tuple[str, int] | None = None
        self._server: tuple[str, int | None] | None = None
        self._scheme: Literal["http", "https"] = "http"
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
        self._client, self._server = get_remote_addr(self._transport), get_local_addr(self._transport)
        self._scheme = "https" if is_ssl(self._transport) else "http"
        self._server_state.connections.add(cast("Any", self))
        if not self.entered:
            detail = "this server has no room for another connection; try again in 1 s"
            self._end_with(Problem(503, detail, headers={"Retry-After": "1"}), "connections")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """End."""
        self._phase = _Phase.END
        self._ahead = b""
        self._server_state.connections.discard(cast("Any", self))
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
            self._weigh()

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
            self._connections.work(self)
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
        self._connections.release(self)
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

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        return self._server_state.default_headers

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
        self._server_state.total_requests += 1
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
        self._connections.rest(self)
        self._weigh()
        if self._ahead:
            self._connections.put_off(self)

    def _read(self, data: memoryview) -> None:
        begun = False
        try:
            while data:
                # Small parts are read at once: to look at the clock would take longer, and health checks are small.
                if len(data) > _SMALL and self._phase in _READING and self._connections.turn_is_over():
                    self._keep(data)
                    self._connections.put_off(self)
                    break
                if self._phase is _Phase.HEAD:
                    if begun or self.stalled:
                        # Only one request in each turn of the event loop, even if more were sent ahead.
                        self._keep(data)
                        self._connections.put_off(self)
                        return
                    used, begun = self._read_head(data)
                elif self._phase is _Phase.BODY:
                    used = self._read_body(data)
                elif self._phase is _Phase.WASTE:
                    used = self._skip(data)
                elif self._phase is _Phase.AHEAD:
                    self._keep(data)
                    return
                else:
                    return
                data = data[used:]
        except Problem as problem:
            self.give_up(problem, "malformed")
        if begun and self._phase in {_Phase.BODY, _Phase.WASTE}:
            self._connections.begin_body(self)

    def _keep(self, data: memoryview) -> None:
        """Keep what was sent ahead, and read no more."""
        self._ahead += bytes(data)
        self._pause(paused=True)
        self._weigh()

    def _weigh(self) -> None:
        """Tell how many bytes of requests are in memory here."""
        if self._phase is not _Phase.END:
            head, exchange = self._head, self._exchange
            size = len(self._ahead) + (0 if head is None else head.size)
            if exchange is not None and not exchange.answered:
                size += exchange.received
            self._connections.hold(self, size)

    def _read_head(self, data: memoryview) -> tuple[int, bool]:
        """Return how many bytes were the head's, and whether it is complete."""
        head = self._head
        if head is None:
            known = self._connections.heads.find(data)
            if known is not None:
                self._begin(known)
                return known.size, True
            head = self._head = Head()
        used = head.feed(data)
        if head.complete and head.size == used:
            self._connections.heads.keep(data, head)
        if not head.complete:
            if not self.held:
                self._connections.begin_head(self)
            self._weigh()
            return used, False
        self._head = None
        self._begin(head)
        return used, True

    def _begin(self, head: Head) -> None:
        """Begin to answer the request, or refuse it."""
        self.arrived, self._missing = 0, head.length or 0
        path, claim = head.path, None
        if path not in _ALWAYS:
            if (
                _CHANGES.fullmatch(path)
                and head.method != b"GET"
                and self._keys.is_admin({"headers": head.headers})
            ):
                admitted = self._admission.admit_change()
            else:
                kind = path, head.content_type, self._missing.bit_length()
                admitted = self._admission.admit(self, kind)
            if isinstance(admitted, int):
                self._connections.refuse()
                self._refuse(admitted, head)
                return
            self._connections.accept()
            claim = admitted
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": self._asgi,
            "server": self._server,
            "client": self._client,
            "scheme": self._scheme,
            "root_path": self._root_path,
            "state": self._app_state.copy(),
        }
        head.locate(cast("Any", scope))
        self._exchange = exchange = Exchange(self, scope, claim, keeps=head.keeps, waits=head.waits)
        if head.length == 0:
            self._end_body(exchange)
        else:
            self._phase = _Phase.BODY
            self._chunks = Chunks() if head.length is None else None
        task = self._loop.create_task(exchange.run(self._app))
        self._server_state.tasks.add(task)
        task.add_done_callback(self._server_state.tasks.discard)

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
        if part:
            exchange.put(part)
            self._weigh()
        if self._phase is _Phase.BODY:
            if complete:
                self._end_body(exchange)
            elif exchange.full:
                self._pause(paused=True)
        return used

    def _end_body(self, exchange: Exchange) -> None:
        self._phase = _Phase.AHEAD
        self._connections.work(self)
        if exchange.claim is not None:
            exchange.claim.arrive()
        exchange.end_body()

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

    def _refuse(self, after: int, head: Head) -> None:
        """Answer with 429 although the body was not read; keep the connection if that is cheap."""
        keeps = (
            head.keeps
            and head.length is not None
            and self._missing <= _THROWN_AWAY
            and not (head.waits or self._last or self._ended or self._connections.draining)
        )
        if head.method == b"HEAD" or head.request_id is not None or self._cors is not None:
            self.write(self._answer(overloaded(after), head, keeps=keeps))
        else:
            self._connections.count(429)
            self.write(self._connections.refusals.answer(after, self.default_headers, keeps=keeps))
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
        headers = self.default_headers
        if head is not None and self._cors is not None:
            headers = [*headers, *self._cors.headers(head.headers)]
        answer, body = answer_of(problem, request_id, headers, keeps=keeps)
        return answer if head is not None and head.method == b"HEAD" else answer + body
