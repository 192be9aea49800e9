"""HTTP/1.1 as uvicorn reads it, where that would lose a request or say less than it could.

- A request that offers to go on in another protocol (``Upgrade: h2c``, as Java's ``HttpClient`` does of itself) is
  answered in this one, which RFC 9110, section 7.8, leaves to the server. The parser stops at the end of such a head
  and takes the body for the other protocol's, so the head is read again without the offer.
- The head and the body of an answer leave in one packet if they fit: uvicorn writes them one after the other, and each
  write is a call of the kernel and wakes the client.
- What is not HTTP is answered as every error is, and the head of a request has a largest size.
"""

from __future__ import annotations

import asyncio
import secrets
from http import HTTPStatus
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from localrank_service.http.problems import MEDIA_TYPE, Problem

__all__ = ["LARGEST_HEAD", "Http"]

#: Bytes that a request's line and headers may take.
LARGEST_HEAD = 1 << 16

#: More bytes than this are not copied to be sent together.
_JOINED = 1 << 16

#: What makes a request an offer.
_OFFERS = {b"upgrade", b"http2-settings"}


class _Joined:
    """A transport that sends what is written in one turn of the event loop with one call."""

    __slots__ = ("_loop", "_size", "_transport", "_written")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._written: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not data:
            return
        if not self._written:
            self._loop.call_soon(self.flush)
        self._written.append(data)
        self._size += len(data)
        if self._size > _JOINED:
            self.flush()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        written, self._written = self._written, []
        size, self._size = self._size, 0
        if written and not self._transport.is_closing():
            for data in written if size > _JOINED else [b"".join(written)]:
                self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _HeadTooLarge(Exception):
    """Raised in a callback of the parser."""


class Http(HttpToolsProtocol):
    """One connection."""

    _in_head = True
    _head = 0  # bytes, while in a head

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(cast("asyncio.Transport", _Joined(transport)))

    def eof_received(self) -> None:
        """Send what is written before the transport closes: a client may end its side and still wait for the answer."""
        self.transport.flush()  # type: ignore[attr-defined]
        super().eof_received()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived."""
        self._unset_keepalive_if_required()
        self._head += len(data) if self._in_head else 0
        try:
            while data:
                data = self._feed(data)
            self._check(self._head if self._in_head else 0)
        except (httptools.HttpParserError, _HeadTooLarge) as error:
            if _HeadTooLarge in {type(error), type(error.__context__)}:
                detail = f"the request's line and headers take more than {LARGEST_HEAD} bytes together"
                self._refuse(Problem(431, detail))
            else:
                self.logger.warning("what arrived is not HTTP/1.1")
                self._refuse(Problem(400, "what arrived is not a request of HTTP/1.1"))

    def _feed(self, data: bytes) -> bytes:
        """Parse; return what is to be parsed in the place of an offer and what follows it."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            method, version = self.parser.get_method(), self.parser.get_http_version().encode()
            if method == b"CONNECT":
                raise httptools.HttpParserError("a proxy is asked for") from None
            said = {
                option.strip().lower()
                for name, value in self.headers
                if name == b"connection"
                for option in value.split(b",")
            }
            headers = [(name, value) for name, value in self.headers if name not in {*_OFFERS, b"connection"}]
            headers.append((b"connection", b", ".join(sorted(said - _OFFERS)) or b"keep-alive"))
            lines = [b"%s %s HTTP/%s" % (method, self.url, version), *map(b"%s: %s".__mod__, headers)]
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
            return b"\r\n".join(lines) + b"\r\n\r\n" + data[offer.args[0] :]
        return b""

    def on_headers_complete(self) -> None:
        """Begin to answer, unless the head will be read again."""
        self._check(len(self.url) + sum(len(name) + len(value) for name, value in self.headers))
        if not self.parser.should_upgrade():
            self._in_head = False
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the body."""
        self._in_head, self._head = True, 0
        if not self.parser.should_upgrade():
            super().on_message_complete()

    @staticmethod
    def _check(size: int) -> None:
        if size > LARGEST_HEAD:
            raise _HeadTooLarge

    def _refuse(self, problem: Problem) -> None:
        """Answer, and end the connection: where the next request would begin is unknown."""
        body = problem.body(secrets.token_hex(16))
        status = HTTPStatus(problem.status)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
