"""A request's body as bytes, never more of them than allowed.

The limit holds for what is declared, for what arrives in chunks, and for what comes out of a compressed body. A
compressed body is read in small steps: a few on the event loop, any more of them in a thread. The number of its members
is limited, because each has a cost although it may hold nothing.
"""

from __future__ import annotations

import sys
import zlib
from functools import lru_cache
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from starlette.requests import ClientDisconnect

from localrank_service.http.aside import READER
from localrank_service.http.problems import Problem

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.datastructures import Headers
    from starlette.requests import Request

#: Bytes that the body of an administrator's request may have.
LARGEST_CHANGE = 64 * 1024


async def read_body(request: Request, limit: int) -> bytes:
    """Return the decompressed body, or raise a `Problem`: 400, 413 or 415."""
    headers = request.headers
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity" and encoding not in ENCODINGS:
        raise Problem(
            415,
            f"content encoding {encoding!r}; expected {', '.join(ENCODINGS)} or none",
            headers={"Accept-Encoding": ", ".join(ENCODINGS)},
        )
    declared = headers.get("content-length", "0")
    if not declared.isdecimal():
        raise Problem(400, f"content length {declared!r}; expected a number")
    if int(declared) > limit:
        raise _too_large(limit)
    receive = request.receive
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
    else:
        buffer = BytesIO()
        while True:
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            buffer.write(message.get("body", b""))
            if buffer.tell() > limit:
                raise _too_large(limit)
            if not message.get("more_body", False):
                break
            message = await receive()
        body = buffer.getvalue()
    return body if encoding == "identity" else await _decompressed(body, encoding, limit)


def media_type(headers: Headers, expected: tuple[str, ...]) -> str:
    """Return the media type of the body; raise a `Problem` with status 415 if it is not expected."""
    declared = headers.get("content-type", "")
    kind, charset = _parsed(declared)
    if kind not in expected or charset not in {"", "utf-8", "utf8"}:
        found = repr(declared) if declared else "none"
        raise Problem(
            415,
            f"content type {found}; expected {' or '.join(expected)}",
            headers={"Accept-Post": ", ".join(expected)},
        )
    return kind


@lru_cache(64)  # callers send a few
def _parsed(declared: str) -> tuple[str, str]:
    """Return media type and charset."""
    kind, _, parameters = declared.partition(";")
    charset = parameters.partition("charset=")[2].partition(";")[0].strip(' "').lower()
    return kind.strip().lower(), charset


def _too_large(limit: int) -> Problem:
    return Problem(413, f"the body has more than {limit} bytes, the limit of this server")


class _Inflater(Protocol):
    """Decompresses one gzip member, zlib stream or zstd frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


#: Bytes of a compressed body that one step reads, and bytes that it gives, at most.
_STEP_IN, _STEP_OUT = 2**14, 2**16
#: Steps that run on the event loop: 2 ms. A body that needs more of them goes to a thread.
_STEPS_INLINE = 8
#: Members of a gzip body and frames of a zstd body, at most.
_MOST_MEMBERS = 1024


async def _decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """Return what the compressed body holds."""
    pieces = _pieces(body, encoding)
    buffer = BytesIO()
    if not _fill(buffer, pieces, limit, steps=_STEPS_INLINE):
        await READER.run(len(body), lambda: _fill(buffer, pieces, limit))
    return buffer.getvalue()


def _fill(buffer: BytesIO, pieces: Iterator[bytes], limit: int, steps: int | None = None) -> bool:
    """Add ``steps`` pieces, by default all; return whether none are left."""
    for piece in islice(pieces, steps):
        buffer.write(piece)
        if buffer.tell() > limit:
            raise _too_large(limit)
        steps = None if steps is None else steps - 1
    return steps != 0


def _pieces(body: bytes, encoding: str) -> Iterator[bytes]:
    """Decompress step by step; a piece may be empty."""
    start = ENCODINGS[encoding]
    inflater, waiting, at, members = start(), b"", 0, 1
    while True:
        # A zstd frame keeps unused input; zlib returns it.
        if not waiting and getattr(inflater, "needs_input", True):
            waiting = body[at : at + _STEP_IN]
            at += len(waiting)
        try:
            piece = inflater.decompress(waiting, _STEP_OUT)
        except (zlib.error, zstd.ZstdError) as error:
            raise Problem(400, f"the compressed body cannot be read: {error}", pointer="") from None
        yield piece
        if not inflater.eof:
            waiting = getattr(inflater, "unconsumed_tail", b"")
            if not piece and not waiting and at == len(body):
                raise Problem(400, "the compressed body is truncated", pointer="")
            continue
        waiting = inflater.unused_data
        if not (rest := len(waiting) + len(body) - at):
            return
        if encoding == "deflate":
            raise Problem(400, f"the deflate body has {rest} bytes after its end", pointer="")
        members += 1
        if members > _MOST_MEMBERS:
            raise Problem(
                413,
                f"the {encoding} body has more than {_MOST_MEMBERS} members, the limit of this server",
            )
        inflater = start()


#: RFC 9659 allows windows of 8 MiB for zstd in HTTP. The window that a frame asks for is allocated before any output.
_WINDOW: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}

#: Content encodings that a body may have. HTTP calls zlib's format deflate.
ENCODINGS: dict[str, Callable[[], _Inflater]] = {
    "gzip": lambda: zlib.decompressobj(zlib.MAX_WBITS | 16),
    "deflate": lambda: zlib.decompressobj(zlib.MAX_WBITS),
    "zstd": lambda: zstd.ZstdDecompressor(options=_WINDOW),
}
