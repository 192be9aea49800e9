"""Records in files that survive a writer that is killed: what a service logs to learn from.

A file is a sequence of frames and nothing else:

    magic (8 bytes) | length of the head | length of the tail | CRC-32 | head | tail

The three numbers are little-endian and have 32 bits; the CRC-32 covers the lengths, the head and the tail. The head is
a JSON object. If it has a member ``arrays``, such as ``{"scores": ["<f8", [20]]}``, the tail holds the elements of these
arrays, one after the other in C order.

The magic stands nowhere but at the beginning of a frame, whatever callers send. JSON escapes its control characters. In
the tail, a zero byte follows each occurrence of the first seven bytes of the magic; the magic has another eighth byte.

A writer only adds whole frames at the end. If it is killed, or the disk is full, the last frame may be torn: a reader
leaves it out. If a frame is damaged, only this frame is lost: a reader continues at the next magic, which is a frame's.
So every byte is read once, and no damage makes a frame of what callers sent. A file cannot run anything, and nothing in
it is trusted: lengths are compared with the file, and arrays have one of a few types.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from localrank.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from localrank.arrays import Array

    Buffer: TypeAlias = bytes | memoryview

MAGIC = b"\x93LRJ\r\n\x1a\n"
#: What a tail must not hold with the last byte of the magic behind it, and how a tail holds it.
_STEM = MAGIC[:-1]
_STUFFED = _STEM + b"\0"
_HEADER = struct.Struct("<8sIII")
_LENGTHS = struct.Struct("<II")
#: The kinds of files, and their names: when it was begun, in microseconds of UTC, and the process that writes it. The names
#: of one kind are in the order of their age.
IMPRESSIONS, FEEDBACK = "impressions", "feedback"
NAME = re.compile(r"(?P<kind>impressions|feedback)-(?P<begun>[0-9]{17})-(?P<process>[0-9]{1,10})\.journal")
#: Types that an array may have.
_TYPES = ("<f4", "<f8", "<i4", "<i8")
#: Bytes of one frame, at most; a service writes files of half of this.
_LARGEST = 1 << 27
#: Bytes that are read at once.
_PIECE = 1 << 20


class Record(NamedTuple):
    """What one frame holds.

    Attributes:
        members: of its head.
        arrays: by name; not to be written to.
    """

    members: dict[str, Any]
    arrays: dict[str, Array]


def frame(head: bytes, arrays: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return the parts of a frame, to be written in this order."""
    tail = b"".join(arrays).replace(_STEM, _STUFFED)
    lengths = _LENGTHS.pack(len(head), len(tail))
    check = zlib.crc32(tail, zlib.crc32(head, zlib.crc32(lengths)))
    return [_HEADER.pack(MAGIC, len(head), len(tail), check), head, tail]


def size_of(parts: Sequence[Buffer]) -> int:
    """Return the bytes of a frame."""
    return sum(map(len, parts))


def file_name(microseconds: int, process: int, kind: str = IMPRESSIONS) -> str:
    """Return the name of a file that a process begins at this time."""
    return f"{kind}-{microseconds:017d}-{process}.journal"


def journals_in(folder: Path) -> list[Path]:
    """Return the files of records in a folder, those of each kind oldest first; other files are ignored.

    Raises:
        InvalidData: there is no such folder.
    """
    try:
        found = [path for path in folder.iterdir() if NAME.fullmatch(path.name)]
        return sorted(path for path in found if path.is_file() and not path.is_symlink())
    except OSError as error:
        raise InvalidData(f"{folder}: {error.strerror or error}") from None


@dataclass(slots=True)
class Journal:
    """One file, read from its beginning to its end as it is now; it may grow meanwhile.

    Attributes:
        path: of the file.
        damaged: how many damaged places were skipped.
        torn: bytes at the end that are no whole frame.
    """

    path: Path
    damaged: int = field(default=0, init=False)
    torn: int = field(default=0, init=False)

    def records(self) -> Iterator[Record]:
        """Return the records that are whole.

        Raises:
            InvalidData: the file cannot be read, or is not one of records.
        """
        self.damaged = self.torn = 0
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(0)
                start = file.read(len(MAGIC))
                if start != MAGIC[: len(start)]:
                    raise InvalidData(f"{self.path}: expected a file of logged records, found another one")
                yield from self._frames(file, size)
        except OSError as error:
            raise InvalidData(f"{self.path}: {error.strerror or error}") from None

    def _frames(self, file: BinaryIO, size: int) -> Iterator[Record]:
        at = 0
        while at < size:
            record, end = _record(file, at, size)
            if record is not None:
                yield record
                at = end
                continue
            following = _find(file, end, size)
            if following is None:
                # The end of a file that is being written, or was when its process ended.
                self.torn = size - at
                return
            self.damaged += 1
            at = following


def _record(file: BinaryIO, at: int, size: int) -> tuple[Record | None, int]:
    """Return the record that begins there and where it ends; none and up to where no other begins if it is not whole."""
    file.seek(at)
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None, size
    magic, n_head, n_tail, check = _HEADER.unpack(header)
    begin = at + _HEADER.size
    end = begin + n_head + n_tail
    if magic != MAGIC or end > min(size, at + _LARGEST):
        return None, at + 1
    # What a frame says of its length may be wrong. It is read up to the next magic at most, and no byte is read twice.
    following = _find(file, at + 1, end)
    if following is not None:
        return None, following
    file.seek(begin)
    content = file.read(end - begin)
    if len(content) < end - begin or zlib.crc32(content, zlib.crc32(header[8:16])) != check:
        return None, max(begin, end - len(_STEM))
    try:
        members = json.loads(content[:n_head])
        tail = content[n_head:].replace(_STUFFED, _STEM)
        arrays = _arrays(members, tail) if isinstance(members, dict) else None
    except (AttributeError, ValueError, TypeError, RecursionError):
        return None, end
    return (None if arrays is None else Record(members, arrays)), end


def _arrays(members: Mapping[str, Any], tail: bytes) -> dict[str, Array] | None:
    """Return the arrays that the head describes, or ``None`` if they are not what the tail holds."""
    arrays: dict[str, Array] = {}
    at = 0
    for name, (dtype, shape) in members.get("arrays", {}).items():
        if dtype not in _TYPES or not all(type(extent) is int and extent >= 0 for extent in shape):
            return None
        count = math.prod(shape)
        end = at + count * int(dtype[-1])
        if end > len(tail):
            return None
        arrays[name] = np.frombuffer(tail[at:end], dtype).reshape(shape)
        at = end
    return arrays if at == len(tail) else None


def _find(file: BinaryIO, start: int, end: int) -> int | None:
    """Return where the next magic is that ends before this place."""
    file.seek(start)
    at, before = start, b""
    while at < end:
        piece = file.read(min(_PIECE, end - at))
        if not piece:
            return None
        window = before + piece
        found = window.find(MAGIC)
        if found >= 0:
            return int(at - len(before) + found)
        at += len(piece)
        before = window[-(len(MAGIC) - 1) :]
    return None
