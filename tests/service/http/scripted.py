"""Connections of one worker whose clients are scripts: what arrives is handed in, and what is sent is kept."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from localrank_service.http.admission import Admission, Connections, LoadLimits
from localrank_service.http.keyring import Keyring
from localrank_service.http.keys import Keys
from localrank_service.http.origin import Hosts
from localrank_service.http.protocol import Http
from localrank_service.process.settings import Settings
from localrank_service.telemetry.meters import Meters

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from localrank_service.http.cors import Cors

ADMIN = b"the-admin-key"


class Clock:
    """Stands for `time.monotonic`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def request(
    path: bytes = b"/echo",
    body: bytes = b"",
    *headers: bytes,
    method: bytes = b"POST",
    length: int | None = None,
) -> bytes:
    """Return a request with these header lines; its length is the body's if none is given."""
    length = len(body) if length is None else length
    lines = [method + b" " + path + b" HTTP/1.1", b"Host: a", *headers, b"Content-Length: %d" % length, b""]
    return b"\r\n".join(lines) + b"\r\n" + body


class Answer:
    """One answer as a client reads it."""

    def __init__(self, head: bytes, body: bytes) -> None:
        line, *headers = head.split(b"\r\n")
        self.status = int(line.split()[1])
        self.headers = {name: value for name, _, value in (header.partition(b": ") for header in headers)}
        self.body = body

    @property
    def last(self) -> bool:
        """Whether it ends the connection."""
        return self.headers.get(b"connection") == b"close"

    @property
    def detail(self) -> str:
        return str(json.loads(self.body)["detail"])


class Wire(asyncio.Transport):
    """The server's end of a connection.

    Attributes:
        written: what was sent, one entry for each call.
        did: what else was asked for, in order.
        unsent: bytes that the client has not taken.
    """

    def __init__(self, extra: dict[str, Any], *, half: bool) -> None:
        super().__init__(extra)
        self.written: list[bytes] = []
        self.did: list[str] = []
        self.unsent = 0
        self._half = half

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closing()
        assert data
        self.written.append(bytes(data))

    def can_write_eof(self) -> bool:
        return self._half

    def write_eof(self) -> None:
        self.did.append("eof")

    def close(self) -> None:
        self.did.append("close")

    def abort(self) -> None:
        self.did.append("abort")

    def is_closing(self) -> bool:
        return not {"close", "abort"}.isdisjoint(self.did)

    def pause_reading(self) -> None:
        assert self.reads()
        self.did.append("pause")

    def resume_reading(self) -> None:
        assert not self.reads()
        self.did.append("resume")

    def reads(self) -> bool:
        """Whether more would be read."""
        return self.did.count("pause") == self.did.count("resume")

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def answers(self, *, bodiless: bool = False) -> list[Answer]:
        """Return the complete answers that were sent; those to HEAD have no body."""
        found, left = [], b"".join(self.written)
        while left:
            head, end, left = left.partition(b"\r\n\r\n")
            assert end, head
            answer = Answer(head, b"")
            if answer.status != 100:
                size = 0 if bodiless else int(answer.headers.get(b"content-length", b"0"))
                answer.body, left = left[:size], left[size:]
                assert size == len(answer.body)
            found.append(answer)
        return found


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body at once; ``/deaf`` without reading it, ``/broken`` not at all."""
    if scope["path"] == "/broken":
        raise RuntimeError("broken")
    body = b""
    more = scope["path"] != "/deaf"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        more = message["more_body"]
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Worker:
    """What the connections of one worker share.

    Attributes:
        clock: of the connections; requests are admitted by the real one.
        free_descriptors: how many more the process may open.
    """

    def __init__(
        self, app: ASGIApp = echo, *, cors: Cors | None = None, root: str = "", **settings: Any
    ) -> None:
        limits = LoadLimits.of(Settings(**settings))
        self.clock = Clock()
        self.free_descriptors = 1000
        self.meters = Meters()
        self.connections = Connections(limits, self.meters, self.clock, lambda: self.free_descriptors)
        self.admission = Admission(limits, self.meters)
        self.server = ServerState()
        self.server.default_headers = [(b"server", b"ours")]
        self.config = Config(
            cast("Any", app), lifespan="off", log_config=None, proxy_headers=False, root_path=root
        )
        self.config.load()
        self.keys = Keys(
            Keyring("serving"), Keyring("admin", ADMIN.decode()), Hosts(""), self.meters.key_checks
        )
        self.state = {
            "connections": self.connections,
            "admission": self.admission,
            "cors": cors,
            "keys": self.keys,
        }

    def accept(self) -> Http:
        """Accept a connection that is not made yet."""
        return Http(self.config, self.server, self.state)

    def make(self, http: Http, *, half: bool = True, **extra: Any) -> Wire:
        wire = Wire({"peername": ("192.0.2.7", 4711), "sockname": ("192.0.2.1", 80), **extra}, half=half)
        http.connection_made(wire)
        return wire

    def connect(self, *, half: bool = True, **extra: Any) -> tuple[Http, Wire]:
        http = self.accept()
        return http, self.make(http, half=half, **extra)

    def refused(self, reason: str) -> float:
        """Return how many were refused or ended early for this reason."""
        return self.meters.refused_requests.of(reason)[0]

    def counted(self, status: int) -> float:
        """Return how many answers that no application made were counted."""
        return self.meters.http_requests.of("other", "other", str(status))[0]

    @property
    def open(self) -> float:
        """How many connections are counted."""
        return self.meters.connections.of()[0]


async def settle() -> None:
    """Let everything happen that happens without anything new."""
    for _ in range(12):
        await asyncio.sleep(0)


def arrive(http: Http, data: bytes) -> None:
    """Hand in what arrives at once."""
    http.get_buffer(-1)[: len(data)] = data
    http.buffer_updated(len(data))


async def feed(http: Http, data: bytes) -> None:
    """Hand in what arrives at once, and let everything happen."""
    arrive(http, data)
    await settle()
