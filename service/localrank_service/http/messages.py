"""The messages of HTTP/1.1: heads of requests, bodies that come in chunks, heads of answers.

Bytes become values here and values bytes; nothing waits, and nothing is known of connections. httptools reads the
grammar of heads. What HTTP leaves to the server is decided here: how large a head may be, which one host it addresses,
and how long the body is. What two readers could understand in two ways is refused, because a proxy in front may be the
other reader (request smuggling).
"""

from __future__ import annotations

import re
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import httptools

from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

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

#: Reading a chunk takes as long as reading some thousand bytes, so a body of tiny ones would be slow to read. A body may
#: have `FREE_CHUNKS` of any size, and one more for each `LEAST_CHUNK` bytes of content.
FREE_CHUNKS, LEAST_CHUNK = 2048, 128
#: Lines that are read in one step, which takes half a millisecond.
_LINES = 256
#: Bytes of a line that says how long the next chunk is, extensions included.
_LONGEST_LINE = 256
#: Bytes of the headers after the last chunk. They are not used.
_LONGEST_TRAILER = 1 << 13
#: A size of at most 2^40, and extensions, which are not used.
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,10})(?:;[!-~]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode("ascii") for status in HTTPStatus
}


def head_of(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the head of an answer; a line break within a header is an error of ours (header injection)."""
    lines = [_STATUS_LINES[status], *map(b": ".join, headers), b"", b""]
    head = b"\r\n".join(lines)
    breaks = len(lines) - 1
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
        raise ValueError("a header of the answer has a line break or a NUL")
    return head


class Head:
    """The line and the headers of one request, while and after they are read.

    Attributes:
        complete: whether all of it was read. Until then only `headers` and `size` have meaning.
        size: bytes that it took.
        headers: names in lower case, values as sent.
        method: as sent.
        path: without the query, as sent.
        version: of HTTP.
        length: bytes of the body; ``None`` if it comes in chunks.
        content_type: what the body is declared to be.
        request_id: what the client calls the request, if that can be sent back.
        keeps: whether the client allows a further request on its connection.
        waits: whether the client waits for permission to send the body (``Expect: 100-continue``).
    """

    __slots__ = (
        "_empty",
        "_located",
        "_noted",
        "_parser",
        "_tail",
        "_target",
        "complete",
        "content_type",
        "headers",
        "keeps",
        "length",
        "method",
        "path",
        "request_id",
        "size",
        "version",
        "waits",
    )

    def __init__(self) -> None:
        self.complete = self.keeps = self.waits = False
        self.headers: list[tuple[bytes, bytes]] = []
        self.length: int | None = 0
        self.method = self.path = self.content_type = b""
        self.request_id: bytes | None = None
        self.version = ""
        self.size = 0
        self._empty = 0
        self._noted: dict[bytes, bytes] = {}
        self._target = b""
        self._tail = b""
        self._located: dict[str, Any] = {}
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)

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
            raise Problem(431, f"the request line and headers together have more than {LARGEST_HEAD} bytes")
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
            raise Problem(431, f"the request has more than {MOST_HEADERS} headers")
        if name in _NOTED:
            noted = self._noted
            if name in noted:
                if name == b"host":
                    raise Problem(400, "two Host headers; expected one")
                value = noted[name] + b"," + value
            noted[name] = value

    def locate(self, scope: dict[str, Any]) -> None:
        """Put the method, the path and the headers into an ASGI scope."""
        root = scope["root_path"]
        scope |= self._located
        scope["headers"] = self.headers.copy()  # the head may be another request's too
        if root:
            scope["path"] = root + scope["path"]
            scope["raw_path"] = root.encode("ascii") + scope["raw_path"]

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
        self.content_type = noted.get(b"content-type", b"")
        sent = noted.get(b"x-request-id")
        if sent is not None and REQUEST_ID.fullmatch(sent):
            self.request_id = sent
        self._split_target()
        self.complete = True

    def _split_target(self) -> None:
        target = self._target
        if not target.startswith(b"/") or b"#" in target:
            target = self._origin_form(target)
        self.path, _, query = target.partition(b"?")
        try:
            path = self.path.decode("ascii")
        except UnicodeDecodeError:
            raise Problem(400, "the request's path has bytes that are not ASCII") from None
        self._located = {
            "method": self.method.decode("ascii"),
            "http_version": self.version,
            "path": unquote(path) if "%" in path else path,
            "raw_path": self.path,
            "query_string": query,
        }

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


class Chunks:
    """What is left to read of a body that comes in chunks (RFC 9112, section 7.1); only the content is kept.

    Attributes:
        complete: whether the body has ended.
    """

    __slots__ = ("_count", "_line", "_most", "_room", "_trailer", "complete")

    def __init__(self) -> None:
        self.complete = False
        self._count = 0
        #: Bytes of content that are announced, added to those that `FREE_CHUNKS` stand for.
        self._most = FREE_CHUNKS * LEAST_CHUNK
        #: Bytes left of a chunk and of the line end after it.
        self._room = 0
        #: Beginning of a line that has not ended.
        self._line = b""
        #: Bytes of trailers read; negative before the last chunk.
        self._trailer = -1

    def feed(self, data: memoryview) -> tuple[bytes, int]:
        """Read a part of the data; return the content it brings, and how many bytes were read."""
        content: list[memoryview] = []
        at, size, lines = 0, len(data), 0
        while at < size and not self.complete and lines < _LINES:
            if self._room > 2:
                part = data[at : at + self._room - 2]
                content.append(part)
                at += len(part)
                self._room -= len(part)
            elif self._room:
                end = bytes(data[at : at + self._room])
                if end != b"\r\n"[2 - self._room :][: len(end)]:
                    raise _broken("a chunk is longer than its size")
                at += len(end)
                self._room -= len(end)
            else:
                at += self._read_line(data[at : at + _LONGEST_LINE + 2])
                lines += 1
        return b"".join(content), at

    def _read_line(self, data: memoryview) -> int:
        """Read a line or a part of it; return how many bytes of the data that took."""
        before = len(self._line)
        line = self._line + bytes(data)
        end = line.find(b"\n")
        used = len(data) if end < 0 else end + 1 - before
        longest = _LONGEST_LINE if self._trailer < 0 else _LONGEST_TRAILER
        if (len(line) if end < 0 else end) > longest:
            raise _broken("a line is too long")
        if end < 0:
            self._line = line
            return used
        if line[end - 1 : end] != b"\r":
            raise _broken("a line does not end with CR LF")
        self._line = b""
        self._take(line[: end - 1])
        return used

    def _take(self, line: bytes) -> None:
        if self._trailer >= 0:
            self._trailer += len(line) + 2
            if self._trailer > _LONGEST_TRAILER:
                raise _broken("the headers after it are too long")
            if not line:
                self.complete = True
            elif not _TRAILER.fullmatch(line):
                raise _broken("what follows it is not a header")
            return
        found = _SIZE.fullmatch(line)
        if found is None:
            raise _broken("the size of a chunk is not a number")
        size = int(found[1], 16)
        self._count += 1
        self._most += size
        if self._count * LEAST_CHUNK > self._most:
            raise Problem(
                413,
                f"the body comes in more than {FREE_CHUNKS} chunks of less than {LEAST_CHUNK} bytes; send larger ones",
            )
        if size:
            self._room = size + 2
        else:
            self._trailer = 0


@lru_cache(64)  # clients send a few
def _is_host(value: bytes) -> bool:
    return _HOST.fullmatch(value.strip()) is not None


@lru_cache(64)  # clients send a few
def _split(options: bytes) -> frozenset[bytes]:
    return frozenset(option.strip() for option in options.split(b","))


def _broken(why: str) -> Problem:
    return Problem(400, f"the body's chunks cannot be read: {why}")
