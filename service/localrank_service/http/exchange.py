"""One request and its answer, as the application sees them (ASGI).

The connection hands in what arrives; the application asks for it with ``receive`` and answers with ``send``. The end of
a body is handed over when it is the request's turn (`localrank_service.http.admission`). Head and body of an answer
leave together, because each write is a call of the kernel and wakes the client.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect

from localrank_service.aside import PERMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

    from starlette.types import ASGIApp, Scope

    from localrank_service.http.admission import Claim
    from localrank_service.http.problems import Problem
    from localrank_service.http.protocol import Http

_log = logging.getLogger("localrank.service")

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode("ascii") for status in HTTPStatus
}
_PERMISSION = b"HTTP/1.1 100 Continue\r\n\r\n"
#: If this many bytes of a body are kept for the application, it must take them before more are read.
_READ_AHEAD = 1 << 18


def head_of(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the head of an answer; a line break within a header is an error of ours (header injection)."""
    lines = [_STATUS_LINES[status], *[name + b": " + value for name, value in headers], b"", b""]
    head = b"\r\n".join(lines)
    breaks = len(lines) - 1
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
        raise ValueError("a header of the answer has a line break or a NUL")
    return head


class Exchange:
    """One request and its answer.

    Attributes:
        keeps: whether the connection may stay open afterwards.
        received: bytes of the body that have arrived.
        complete: whether the whole body has arrived.
        started: whether the answer has begun.
        answered: whether all of it was handed over to be sent.
        gone: whether the client hung up before that.
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
        self.complete = self.started = self.answered = self.gone = False
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

    @property
    def full(self) -> bool:
        """Whether the application must take what has arrived before more is read."""
        return self.received - self._taken > _READ_AHEAD

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

    def put(self, part: bytes) -> None:
        """Take a part of the body that has arrived."""
        self._parts.append(part)
        self.received += len(part)
        if self.full:
            self._wake()

    def end_body(self) -> None:
        """Take notice that the body is complete."""
        self.complete = True
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
        sent = [*connection.default_headers, *headers]
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
