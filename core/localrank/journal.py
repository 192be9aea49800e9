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

The service may be running while its files are read: files that it removes meanwhile are left out, and new records may be
left out. Everything in them is checked before use; a record with errors counts as damaged.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from localrank.errors import InvalidData
from localrank.features.feature import Feature

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from localrank.arrays import Array
    from localrank.features.contract import FeatureContract

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
class RecordFile:
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


_ID = (str, int)


@dataclass(slots=True)
class _Pass:
    """What is wrong with the files: damaged records, files that end within a record, and files of others."""

    damaged: int = 0
    torn: int = 0
    foreign: list[Path] = field(default_factory=list)


class Logged:
    """The impression log: files of records, or folders that hold such files among others.

    Every pass reads the files again and counts anew what is wrong with them.

    Attributes:
        files: in the order given; those of a folder from the oldest to the newest.
        features: by the digest of their contract, as far as a pass has met them.
    """

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.files: list[Path] = []
        self.features: dict[str, tuple[Feature, ...]] = {}
        #: What the last pass over each kind of records has found.
        self._passes = {kind: _Pass() for kind in ("impression", "feedback")}
        self._named: set[Path] = set()
        for path in map(Path, paths):
            if path.is_dir():
                found = journals_in(path)
                if not found:
                    raise InvalidData(
                        f"{path}: expected files of logged records (impressions-….journal), found none"
                    )
                self.files += found
            else:
                self.files.append(path)
                self._named.add(path)

    @property
    def damaged(self) -> int:
        """Records that could not be read by the last pass over impressions, or by the last one over feedback."""
        return sum(one.damaged for one in self._passes.values())

    @property
    def torn(self) -> int:
        """Files of these passes whose end is not a whole record."""
        return sum(one.torn for one in self._passes.values())

    @property
    def foreign(self) -> list[Path]:
        """Files of folders that have the name of a file of records, but another content."""
        return [path for one in self._passes.values() for path in one.foreign]

    def impressions(self) -> Iterator[dict[str, Any]]:
        """Yield what was shown: the members of each record, its arrays ``features``, ``scores`` and ``order`` among them.

        ``order`` holds the positions of the documents, best first. The answer had ``shown`` of them, after the first
        ``offset``. The first ``pinned`` stand there because the request said so.
        """
        for record in self._records("impression"):
            if _is_impression(record):
                yield _NO_RULES | record.members | record.arrays
            else:
                self._passes["impression"].damaged += 1

    def feedback(self) -> Iterator[dict[str, Any]]:
        """Yield what callers said of documents."""
        for record in self._records("feedback"):
            if _is_feedback(record.members):
                yield record.members
            else:
                self._passes["feedback"].damaged += 1

    def _records(self, kind: str) -> Iterator[Record]:
        found = self._passes[kind] = _Pass()
        others = FEEDBACK if kind == "impression" else IMPRESSIONS
        for path in self.files:
            name = NAME.fullmatch(path.name)
            if (name is not None and name["kind"] == others) or (
                path not in self._named and not path.exists()
            ):
                continue
            journal = RecordFile(path)
            try:
                for record in journal.records():
                    said = record.members.get("kind")
                    if said == "contract":
                        self._learn(record.members)
                    elif said == kind:
                        yield record
            except InvalidData:
                if path in self._named:
                    raise
                found.foreign.append(path)
            found.damaged += journal.damaged
            found.torn += journal.torn > 0

    def _learn(self, members: Mapping[str, Any]) -> None:
        digest, names = members.get("contract"), members.get("names")
        categories, of_query = members.get("categories", {}), members.get("of_query", [])
        if (
            isinstance(digest, str)
            and isinstance(names, list)
            and isinstance(categories, dict)
            and all(map(_are_texts, (names, of_query, *categories.values())))
        ):
            self.features[digest] = tuple(
                Feature(
                    name,
                    kind="category" if name in categories else "number",
                    values=tuple(categories.get(name, ())),
                    scope="query" if name in of_query else "document",
                )
                for name in names
            )


def _are_texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


def contract_members(contract: FeatureContract) -> dict[str, Any]:
    """Return the record that says what the features of a contract are, once for each file."""
    members = contract.to_json()
    kept = {str(name): members[name] for name in ("names", "categories", "of_query") if name in members}
    return {"kind": "contract", "contract": contract.digest} | kept


def _is_impression(record: Record) -> bool:
    members, arrays = record
    if arrays.keys() != {"features", "scores", "order"}:
        return False
    features, order = arrays["features"], arrays["order"]
    count, ids = len(order), members.get("ids")
    return (
        _has(
            members,
            request_id=str,
            query=int,
            time=(int, float),
            model=str,
            version=int,
            contract=str,
            shown=int,
        )
        and features.ndim == 2
        and order.ndim == 1
        and (len(features), arrays["scores"].shape) == (count, (count,))
        and np.array_equal(np.sort(order), np.arange(count))
        and 0 <= members["shown"] <= count
        and all(
            type(n) is int and 0 <= n <= count for n in (members.get("offset", 0), members.get("pinned", 0))
        )
        and (ids is None or (isinstance(ids, list) and len(ids) == count))
        and all(isinstance(members.get(name), (*_ID, type(None))) for name in ("query_id", "session_id"))
    )


#: What an impression has by itself.
_NO_RULES = {"offset": 0, "pinned": 0}


def _is_feedback(members: Mapping[str, Any]) -> bool:
    grade, index = members.get("grade"), members.get("index")
    return (
        _has(members, request_id=str, query=int, time=(int, float), click=bool)
        and (members["click"] or (isinstance(grade, int | float) and 0 <= grade < np.inf))
        and (isinstance(members.get("id"), _ID) or (isinstance(index, int) and index >= 0))
        and isinstance(members.get("event_id"), (*_ID, type(None)))
    )


def _has(members: Mapping[str, Any], **kinds: type | tuple[type, ...]) -> bool:
    return all(isinstance(members.get(name), kind) for name, kind in kinds.items())
