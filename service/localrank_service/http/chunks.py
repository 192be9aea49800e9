"""A body that comes in chunks (RFC 9112, section 7.1); only the content is kept."""

from __future__ import annotations

import re

from localrank_service.http.problems import Problem

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


class Chunks:
    """What is left to read of one body.

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
                    raise _malformed("a chunk is longer than its size")
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
            raise _malformed("a line is too long")
        if end < 0:
            self._line = line
            return used
        if line[end - 1 : end] != b"\r":
            raise _malformed("a line does not end with CR LF")
        self._line = b""
        self._take(line[: end - 1])
        return used

    def _take(self, line: bytes) -> None:
        if self._trailer >= 0:
            self._trailer += len(line) + 2
            if self._trailer > _LONGEST_TRAILER:
                raise _malformed("the headers after it are too long")
            if not line:
                self.complete = True
            elif not _TRAILER.fullmatch(line):
                raise _malformed("what follows it is not a header")
            return
        found = _SIZE.fullmatch(line)
        if found is None:
            raise _malformed("the size of a chunk is not a number")
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


def _malformed(why: str) -> Problem:
    return Problem(400, f"the body's chunks cannot be read: {why}")
