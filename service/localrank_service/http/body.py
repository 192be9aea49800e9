"""A request's body as bytes, never more of them than allowed.

The limit holds for what is declared, for what arrives in chunks, and for what comes out of a compressed body.
"""

from __future__ import annotations

import sys
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from starlette.requests import ClientDisconnect

from localrank_service.http.problems import Problem

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.datastructures import Headers
    from starlette.requests import Request

__all__ = ["ENCODINGS", "media_type", "read_body"]


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
        chunks, size = [], 0
        while True:
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
            if not message.get("more_body", False):
                break
            message = await receive()
        body = b"".join(chunks)
    return body if encoding == "identity" else ENCODINGS[encoding](body, limit)


def media_type(headers: Headers, expected: tuple[str, ...]) -> str:
    """Return which of the expected media types the body is of, or raise a `Problem` with status 415."""
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
    return Problem(413, f"the body is larger than {limit} bytes, the most that this server takes")


class _Inflater(Protocol):
    """Decompresses one gzip member, zlib stream or zstd frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _gunzip(body: bytes, limit: int) -> bytes:
    return _members(body, limit, lambda: zlib.decompressobj(zlib.MAX_WBITS | 16))


def _unzstd(body: bytes, limit: int) -> bytes:
    return _members(body, limit, lambda: zstd.ZstdDecompressor(options=_WINDOW))


def _members(body: bytes, limit: int, inflater: Callable[[], _Inflater]) -> bytes:
    """Decompress one or several members."""
    parts: list[bytes] = []
    size = 0
    while body or not parts:
        part, body = _inflate(body, limit - size, inflater(), limit)
        parts.append(part)
        size += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _deflated(body: bytes, limit: int) -> bytes:
    """Decompress zlib's format, which HTTP calls deflate."""
    inflated, rest = _inflate(body, limit, zlib.decompressobj(zlib.MAX_WBITS), limit)
    if rest:
        raise Problem(400, f"the deflate body has {len(rest)} bytes after its end", pointer="")
    return inflated


def _inflate(body: bytes, room: int, inflater: _Inflater, limit: int) -> tuple[bytes, bytes]:
    try:
        # One byte more than allowed tells a full buffer from one that overflows.
        inflated = inflater.decompress(body, room + 1)
    except (zlib.error, zstd.ZstdError) as error:
        raise Problem(400, f"the compressed body cannot be read: {error}", pointer="") from None
    if len(inflated) > room:
        raise _too_large(limit)
    if not inflater.eof:
        raise Problem(400, "the compressed body is truncated", pointer="")
    return inflated, inflater.unused_data


#: RFC 9659 allows zstd in HTTP windows of 8 MiB; what a frame asks for is allocated before anything comes out of it.
_WINDOW: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}

#: Content encodings that a body may have.
ENCODINGS: dict[str, Callable[[bytes, int], bytes]] = {"gzip": _gunzip, "deflate": _deflated, "zstd": _unzstd}
