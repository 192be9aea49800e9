"""The head of a request: its line and its headers.

httptools reads the grammar. What HTTP leaves to the server is decided here: how large a head may be, which one host it
addresses, and how long the body is. A head that two readers could understand in two ways is refused, because a proxy in
front may be the other reader (request smuggling).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

import httptools

from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from uvicorn._types import HTTPScope

#: Bytes that a request's line and headers may take, the empty line after them included.
LARGEST_HEAD = 1 << 16
#: Each header becomes Python objects, so many small ones take more memory than their bytes.
MOST_HEADERS = 100

#: A client may send this many empty lines before a request; some send one after a body.
MOST_EMPTY_LINES = 4

_END = b"\r\n\r\n"
_EMPTY_LINES = re.compile(rb"(?:\r\n)+")
#: Nearly every head is shorter than this.
_USUAL = 2048
#: How many heads are remembered.
_MOST_KNOWN = 256
#: Headers that say where a message ends, what it holds, or what the connection is for.
_NOTED = frozenset(
    {
        b"host",
        b"content-length",
        b"content-type",
        b"transfer-encoding",
        b"connection",
        b"expect",
        b"upgrade",
        b"http2-settings",
        b"x-request-id",
    }
)
#: The service never changes to another protocol, so the application does not see such an offer.
_OFFERS = (b"upgrade", b"http2-settings")
_HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")

#: What a client may call a request.
REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")

_MALFORMED = "expected an HTTP/1.1 request, found something else"


class Head:
    """One head, while and after it is read.

    Attributes:
        method: as sent.
        headers: names in lower case, values as sent.
        length: bytes of the body; ``None`` if it comes in chunks.
        keeps: whether the client allows a further request on its connection.
        waits: whether the client waits for permission to send the body (``Expect: 100-continue``).
    """

    __slots__ = (
        "_empty",
        "_noted",
        "_parser",
        "_tail",
        "_target",
        "headers",
        "keeps",
        "length",
        "method",
        "size",
        "version",
        "waits",
    )

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.length: int | None = 0
        self.method = b""
        self.version = ""
        self.keeps = self.waits = False
        self.size = 0
        self._empty = 0
        self._noted: dict[bytes, bytes] = {}
        self._target = b""
        self._tail = b""
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)

    @property
    def request_id(self) -> bytes | None:
        """What the client calls the request, if that can be sent back."""
        sent = self._noted.get(b"x-request-id")
        return sent if sent is not None and REQUEST_ID.fullmatch(sent) else None

    @property
    def path(self) -> bytes:
        """The target without its query, as sent."""
        return self._target.partition(b"?")[0]

    @property
    def content_type(self) -> bytes:
        """What the body is declared to be."""
        return self._noted.get(b"content-type", b"")

    @property
    def complete(self) -> bool:
        """Whether all of it was read."""
        return self._parser is None

    def feed(self, data: memoryview) -> int:
        """Read on; return how many bytes were the head's. Raises a `Problem`: 400, 417, 431, 501 or 505."""
        if not self.size and (lines := _EMPTY_LINES.match(data[: 2 * MOST_EMPTY_LINES + 2])):
            # RFC 9112, section 2.2: an empty line before the request is skipped.
            self._empty += lines.end() // 2
            if self._empty > MOST_EMPTY_LINES:
                raise Problem(400, f"more than {MOST_EMPTY_LINES} empty lines before the request")
            return lines.end()
        seen = self._tail + bytes(data[:_USUAL])
        end = seen.find(_END)
        if end < 0 and len(data) > _USUAL:
            seen = self._tail + bytes(data[: LARGEST_HEAD + 1])
            end = seen.find(_END)
        used = len(data) if end < 0 else end + len(_END) - len(self._tail)
        self.size += used
        if self.size > LARGEST_HEAD:
            raise _too_large(f"the request line and headers together have more than {LARGEST_HEAD} bytes")
        self._parse(data[:used])
        if end < 0:
            self._tail = seen[-3:]
        else:
            self._finish()
        return used

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        headers = self.headers
        headers.append((name, value))
        if len(headers) > MOST_HEADERS:
            raise _too_large(f"the request has more than {MOST_HEADERS} headers")
        if name in _NOTED:
            noted = self._noted
            if name in noted:
                if name == b"host":
                    raise Problem(400, "two Host headers; expected one")
                value = noted[name] + b"," + value
            noted[name] = value

    def locate(self, scope: HTTPScope) -> None:
        """Put the method, the path and the headers into an ASGI scope."""
        target = self._target
        if not target.startswith(b"/") or b"#" in target:
            target = self._origin_form(target)
        raw, _, query = target.partition(b"?")
        try:
            path = raw.decode("ascii")
        except UnicodeDecodeError:
            raise Problem(400, "the request's path has bytes that are not ASCII") from None
        scope["method"] = self.method.decode("ascii")
        scope["http_version"] = self.version
        scope["path"] = scope["root_path"] + (unquote(path) if "%" in path else path)
        scope["raw_path"] = scope["root_path"].encode("ascii") + raw
        scope["query_string"] = query
        scope["headers"] = self.headers.copy()  # the head may be another request's too

    def _parse(self, data: memoryview) -> None:
        assert self._parser is not None  # noqa: S101 - for the type checker
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # it stops after such a head; every head should stop it
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, Problem):
                raise error.__context__ from None
            raise Problem(400, _MALFORMED) from None

    def _finish(self) -> None:
        parser = self._parser
        assert parser is not None  # noqa: S101 - for the type checker
        self.method, self.version = parser.get_method(), parser.get_http_version()
        self._parser = None  # it refers to this head, which refers to it
        noted = self._noted
        if self.method in {b"CONNECT", b"PRI"} or not self._target:
            raise Problem(400, _MALFORMED)
        if self.version not in {"1.1", "1.0"}:
            raise Problem(505, f"HTTP/{self.version}; expected HTTP/1.1 or 1.0")
        host = noted.get(b"host")
        if host is None:
            if self.version == "1.1":
                raise Problem(400, "no Host header; HTTP/1.1 needs one")
        elif not _is_host(host):
            raise Problem(400, "the Host header is not a name or an address with an optional port")
        coding = noted.get(b"transfer-encoding")
        if coding is not None:
            if self.version == "1.0":
                raise Problem(400, "HTTP/1.0 has no Transfer-Encoding")
            if coding.strip().lower() != b"chunked":
                raise Problem(501, "transfer encoding: expected chunked, found another one")
            self.length = None
        elif (length := noted.get(b"content-length")) is not None:
            self.length = int(length)
        options = noted.get(b"connection", b"").lower()
        self.keeps = self.version == "1.1" and b"close" not in _split(options)
        expected = noted.get(b"expect")
        if expected is not None and self.version == "1.1":
            if expected.lower() != b"100-continue":
                raise Problem(417, "Expect header: expected 100-continue, found something else")
            self.waits = self.length != 0
        if any(offer in noted for offer in _OFFERS):
            self.headers = [
                (name, value) for name, value in self.headers if name not in {*_OFFERS, b"connection"}
            ]

    def _origin_form(self, target: bytes) -> bytes:
        """Return path and query of a target that is a whole address; its host counts instead of the header."""
        try:
            address = httptools.parse_url(target)
        except httptools.HttpParserError:
            raise Problem(400, _MALFORMED) from None
        schema, name = cast("tuple[bytes | None, ...]", (address.schema, address.host))
        port = cast("int | None", address.port)
        if schema is not None and name is not None:
            host = b"[%b]" % name if b":" in name else name
            host += b"" if port is None else b":%d" % port
            self.headers = [(name, value) for name, value in self.headers if name != b"host"]
            self.headers.append((b"host", host))
        path, query = cast("tuple[bytes | None, ...]", (address.path, address.query))
        return (path or b"/") + (b"" if query is None else b"?" + query)


class Heads:
    """Complete heads, by their bytes: most clients send the same one with every request, and it is read once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}

    def find(self, data: memoryview) -> Head | None:
        """Return the head that the data begin with, if it is known."""
        seen = bytes(data[:_USUAL])
        return self._known.get(seen[: seen.find(_END) + len(_END)])

    def keep(self, data: memoryview, head: Head) -> None:
        """Remember a complete head, unless its content is unique."""
        if head.size <= _USUAL and head.request_id is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[bytes(data[: head.size])] = head


@lru_cache(64)  # clients send a few
def _is_host(value: bytes) -> bool:
    return _HOST.fullmatch(value.strip()) is not None


@lru_cache(64)  # clients send a few
def _split(options: bytes) -> frozenset[bytes]:
    return frozenset(option.strip() for option in options.split(b","))


def _too_large(detail: str) -> Problem:
    return Problem(431, detail)
