"""Records in files that survive a writer that is killed: what a service logs to learn from.

A file is a sequence of frames and nothing else:

    magic (8 bytes) | length of the head | length of the tail | CRC-32 | head | tail

The three numbers are little-endian and have 32 bits; the CRC-32 covers the lengths, the head and the tail. The head is
a JSON object. If it has a member ``arrays``, such as ``{"scores": ["<f8", [20]]}``, the tail holds the elements of these
arrays, one after the other in C order.

A writer only adds whole frames at the end. If it is killed, or the disk is full, the last frame may be torn: a reader
leaves it out. If a frame is damaged, only this frame is lost: a reader continues at the next magic. A file cannot run
anything, and nothing in it is trusted: lengths are compared with the file, and arrays have one of a few types.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from localrank.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from localrank.arrays import Array

    Buffer: TypeAlias = bytes | memoryview

__all__ = ["MAGIC", "NAME", "Journal", "Record", "file_name", "frame", "journals_in", "size_of"]

MAGIC = b"\x93LRJ\r\n\x1a\n"
_HEADER = struct.Struct("<8sIII")
_LENGTHS = struct.Struct("<II")
#: Names of files: when it was begun, in microseconds of UTC, and the process that writes it. In the order of their age.
NAME = re.compile(r"impressions-(?P<begun>[0-9]{17})-(?P<process>[0-9]{1,10})\.journal")
#: Types that an array may have.
_TYPES = ("<f4", "<f8", "<i4", "<i8")
#: Bytes that are read at once while a magic is looked for.
_PIECE = 1 << 20
#: Bytes of one frame, at most.
_LARGEST = 1 << 31


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
    tail = sum(len(array) for array in arrays)
    lengths = _LENGTHS.pack(len(head), tail)
    check = zlib.crc32(head, zlib.crc32(lengths))
    for array in arrays:
        check = zlib.crc32(array, check)
    return [_HEADER.pack(MAGIC, len(head), tail, check), head, *arrays]


def size_of(parts: Sequence[Buffer]) -> int:
    """Return the bytes of a frame."""
    return sum(map(len, parts))


def file_name(microseconds: int, process: int) -> str:
    """Return the name of a file that a process begins at this time."""
    return f"impressions-{microseconds:017d}-{process}.journal"


def journals_in(folder: Path) -> list[Path]:
    """Return the files of records in a folder, oldest first; other files are ignored.

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

    def _frames(self, file: Any, size: int) -> Iterator[Record]:
        at = 0
        while at < size:
            record, length = _record(file, at, size)
            if record is not None:
                yield record
                at += length
                continue
            following = _find(file, at + 1, size)
            if following is None:
                # The end of a file that is being written, or was when its process ended.
                self.torn = size - at
                return
            self.damaged += 1
            at = following


def _record(file: Any, at: int, size: int) -> tuple[Record | None, int]:
    """Return the record that begins there and how long it is; none if there is no whole one."""
    file.seek(at)
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None, 0
    magic, n_head, n_tail, check = _HEADER.unpack(header)
    length = _HEADER.size + n_head + n_tail
    if magic != MAGIC or length > min(size - at, _LARGEST):
        return None, 0
    content = file.read(n_head + n_tail)
    if len(content) < n_head + n_tail or zlib.crc32(content, zlib.crc32(header[8:16])) != check:
        return None, 0
    try:
        members = json.loads(content[:n_head])
        arrays = _arrays(members, content, n_head) if isinstance(members, dict) else None
    except (AttributeError, ValueError, TypeError, RecursionError):
        return None, 0
    return (None, 0) if arrays is None else (Record(members, arrays), length)


def _arrays(members: Mapping[str, Any], content: bytes, at: int) -> dict[str, Array] | None:
    """Return the arrays that the head describes, or ``None`` if they are not what follows it."""
    arrays: dict[str, Array] = {}
    for name, (dtype, shape) in members.get("arrays", {}).items():
        if dtype not in _TYPES or not all(type(extent) is int and extent >= 0 for extent in shape):
            return None
        count = math.prod(shape)
        end = at + count * int(dtype[-1])
        if end > len(content):
            return None
        arrays[name] = np.frombuffer(content[at:end], dtype).reshape(shape)
        at = end
    return arrays if at == len(content) else None


def _find(file: Any, start: int, size: int) -> int | None:
    """Return where the next magic is."""
    file.seek(start)
    at, before = start, b""
    while at < size:
        piece = file.read(min(_PIECE, size - at))
        if not piece:
            return None
        window = before + piece
        found = window.find(MAGIC)
        if found >= 0:
            return int(at - len(before) + found)
        at += len(piece)
        before = window[-(len(MAGIC) - 1) :]
    return None
