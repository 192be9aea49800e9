"""A body that comes in chunks (RFC 9112, section 7.1); only the content is kept."""

from __future__ import annotations

import re

from localrank_service.http.problems import Problem

__all__ = ["MOST_CHUNKS", "Chunks"]

#: Reading a chunk takes as long as reading some thousand bytes, so that a body of tiny ones would be slow to read.
MOST_CHUNKS = 1 << 16
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

    __slots__ = ("_count", "_line", "_room", "_trailer", "complete")

    def __init__(self) -> None:
        self.complete = False
        self._count = 0
        #: Bytes left of a chunk and of the line end after it.
        self._room = 0
        #: Beginning of a line that has not ended.
        self._line = b""
        #: Bytes of trailers read; negative before the last chunk.
        self._trailer = -1

    def feed(self, data: memoryview) -> tuple[bytes, int]:
        """Return the content that the data brings, and how many bytes of it were the body's."""
        content: list[memoryview] = []
        at, size = 0, len(data)
        while at < size and not self.complete:
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
        self._count += 1
        if self._count > MOST_CHUNKS:
            raise Problem(413, f"the body comes in more than {MOST_CHUNKS} chunks")
        size = int(found[1], 16)
        if size:
            self._room = size + 2
        else:
            self._trailer = 0


def _malformed(why: str) -> Problem:
    return Problem(400, f"the body's chunks cannot be read: {why}")
