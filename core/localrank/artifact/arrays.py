"""One array per ``.npy`` file: written with its digest, read without trusting its header.

A file is opened once, below the version's own directory, never through a link; size, header, digest and content are
checked on that one open file before anything is allocated or mapped. What is mapped stays valid when the version is
deleted or renamed, because the mapping holds the file itself.

Only little-endian numbers in C order, in version 1.0 of the format, are arrays here.
"""

from __future__ import annotations

import hashlib
import io
import math
import mmap
import os
import re
import stat
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from localrank.artifact.manifest import FileEntry
from localrank.errors import ArtifactCorrupt

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Array
    from localrank.artifact.content import Content
    from localrank.artifact.digests import DigestCache

__all__ = ["DTYPES", "LARGE", "Maps", "names_in", "open_file", "read_array", "read_up_to", "write_array"]

#: Every dtype that an array may have, by the name that the manifest gives it.
DTYPES = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float32", "float64"),
    )
}
#: Bytes from which on a file is mapped where it may be, and its digest remembered.
LARGE = 1024 * 1024
#: Bytes. An array that is copied into memory may not be larger; one that is mapped may.
LARGEST_COPY = 4 * 1024**3
_CHUNK = 4 * 1024 * 1024
#: Bytes. The system keeps a file in pieces as large as they were written, and a mapping of one number brings in all of
#: its piece: pieces of megabytes would make the whole file resident after a hundred look-ups.
_PIECE = 64 * 1024
_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 4096
#: What numpy writes for a plain array, and nothing that would have to be evaluated.
_HEADER = re.compile(
    rb"\{'descr': '(?P<dtype>[<>|=]?[A-Za-z]\d*)', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>|\d+,|\d+(?:, \d+)+)\), \} *\n"
)
#: Bytes. Where the numbers start is a multiple of it, so that a mapped array is aligned.
_ALIGNED = 64


class Maps:
    """The mapped files of one model."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []

    def add(self, handle: int, size: int) -> mmap.mmap:
        """Map an open file, read-only."""
        self._maps.append(mmap.mmap(handle, size, access=mmap.ACCESS_READ))
        return self._maps[-1]

    def release(self) -> None:
        """Give back the memory of what was looked at; the system still holds it, and what is needed comes back."""
        for pages in self._maps:
            if hasattr(mmap, "MADV_DONTNEED"):
                pages.madvise(mmap.MADV_DONTNEED)


def write_array(path: Path, array: Array) -> FileEntry:
    """Write one array and make sure that it is on the disk; return what the manifest says of it."""
    dtype = DTYPES[array.dtype.name]
    array = np.ascontiguousarray(array, dtype)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    digest = hashlib.sha256()
    with path.open("xb") as file:
        for part in (header.getbuffer(), array.reshape(-1).view(np.uint8).data):
            for start in range(0, len(part), _PIECE):
                piece = part[start : start + _PIECE]
                digest.update(piece)
                file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    size = len(header.getbuffer()) + array.nbytes
    return FileEntry(digest.hexdigest(), size, dtype.name, array.shape)


def names_in(directory: int) -> set[str]:
    """Return the names in an open directory."""
    return set(os.listdir(directory))


def open_file(directory: int, name: str) -> BinaryIO:
    """Open a plain file of an open directory; refuse links, pipes, devices and directories without waiting."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.fdopen(os.open(name, flags, dir_fd=directory), "rb", buffering=0)
    except FileNotFoundError:
        raise ArtifactCorrupt(f"{name}: expected a file, found none") from None
    except OSError as error:
        found = _found(directory, name) or error.strerror
        raise ArtifactCorrupt(f"{name}: expected a plain file, found {found}") from None
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        file.close()
        raise ArtifactCorrupt(f"{name}: expected a plain file, found {_kind(status.st_mode)}")
    if status.st_nlink > 1:
        # The other name would let it be changed from outside the version.
        file.close()
        raise ArtifactCorrupt(
            f"{name}: expected a file with one name, found a hard link of {status.st_nlink}"
        )
    return file


def read_array(
    directory: int,
    name: str,
    entry: FileEntry,
    content: Content,
    cache: DigestCache,
    *,
    maps: Maps | None = None,
) -> Array:
    """Check one file from its size to its last number, and return its array, read-only.

    Args:
        directory: the open directory of the version.
        name: of the file.
        entry: what the manifest says of it.
        content: what must hold for its numbers.
        cache: remembers which large files were found good.
        maps: takes the mapping of a large array that may stay in its file; without it every array is copied.
    """
    with open_file(directory, name) as file:
        status = os.fstat(file.fileno())
        if status.st_size != entry.size:
            raise ArtifactCorrupt(f"{name}: expected {entry.size} bytes, found {status.st_size}")
        offset = _check_header(file, name, entry)
        dtype = DTYPES[entry.dtype]
        if maps is not None and entry.size >= LARGE:
            what = repr(content)
            if not cache.knows(status, entry.sha256, what):
                _check_content(file, name, entry, offset, content)
                cache.remember(status, entry.sha256, what)
            pages = maps.add(file.fileno(), entry.size)
            return np.frombuffer(pages, dtype, offset=offset).reshape(entry.shape)
        if entry.size > LARGEST_COPY:
            raise ArtifactCorrupt(f"{name}: expected at most {LARGEST_COPY} bytes, found {entry.size}")
        return _copy(file, name, entry, offset, content)


def _check_header(file: BinaryIO, name: str, entry: FileEntry) -> int:
    """Compare the header with the manifest; return where the numbers start."""
    if entry.dtype not in DTYPES:
        raise ArtifactCorrupt(
            f"{name}: expected one of the dtypes {', '.join(DTYPES)}, found {entry.dtype!r}"
        )
    head = read_up_to(file, min(entry.size, _LONGEST_HEADER))
    if head[:6] != _MAGIC:
        raise ArtifactCorrupt(f"{name}: expected the .npy format, found a file that starts with {head[:6]!r}")
    if head[6:8] != b"\1\0":
        raise ArtifactCorrupt(
            f"{name}: expected version 1.0 of the .npy format, found {'.'.join(map(str, head[6:8]))}"
        )
    offset = 10 + int.from_bytes(head[8:10], "little")
    found = _HEADER.fullmatch(head[10:offset])
    if found is None or offset % _ALIGNED:
        raise ArtifactCorrupt(
            f"{name}: expected the header of a plain array, found {head[10:offset].strip()!r:.120}"
        )
    dtype = DTYPES[entry.dtype]
    if found["dtype"].decode() != dtype.str:
        raise ArtifactCorrupt(f"{name}: expected dtype {dtype.str!r}, found {found['dtype'].decode()!r}")
    shape = tuple(int(length) for length in found["shape"].split(b",") if length.strip())
    if shape != entry.shape:
        raise ArtifactCorrupt(f"{name}: expected shape {entry.shape}, found {shape}")
    if found["fortran"] == b"True":
        raise ArtifactCorrupt(f"{name}: expected C order, found Fortran order")
    size = offset + math.prod(shape) * dtype.itemsize
    if size != entry.size:
        raise ArtifactCorrupt(f"{name}: expected {size} bytes for shape {shape}, found {entry.size}")
    return offset


def _check_content(file: BinaryIO, name: str, entry: FileEntry, offset: int, content: Content) -> None:
    """Read the file once, in pieces that do not stay in memory, for its digest and for what its numbers must be."""
    if hasattr(os, "posix_fadvise"):
        # Without read-ahead it is kept in small pieces (see `_PIECE`); what is asked for at once is large enough.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
    file.seek(0)
    header = read_up_to(file, offset)
    digest = hashlib.sha256(header)
    dtype = DTYPES[entry.dtype]
    position, previous = 0, None
    fault = None
    while chunk := read_up_to(file, _CHUNK):
        digest.update(chunk)
        # A file cut short while it is read ends in part of a number; its digest tells.
        values = np.frombuffer(chunk[: len(chunk) - len(chunk) % dtype.itemsize], dtype)
        fault = fault or _fault(content, values, position, previous)
        position, previous = position + len(values), values[-1] if len(values) else previous
    _conclude(name, entry, digest.hexdigest(), fault)


def _copy(file: BinaryIO, name: str, entry: FileEntry, offset: int, content: Content) -> Array:
    """Read the whole array into memory of its own."""
    file.seek(0)
    digest = hashlib.sha256(read_up_to(file, offset))
    flat = np.empty(entry.size - offset, np.uint8)
    filled = 0
    while filled < len(flat) and (count := file.readinto(flat[filled:].data)):  # type: ignore[attr-defined]
        filled += count
    digest.update(flat[:filled].data)
    values = flat.view(DTYPES[entry.dtype])
    _conclude(name, entry, digest.hexdigest(), _fault(content, values, 0, None))
    values.flags.writeable = False
    return values.reshape(entry.shape)


def _fault(content: Content, values: Array, start: int, previous: np.generic | None) -> str | None:
    if values.dtype == np.bool_ and (values.view(np.uint8) > 1).any():
        return "expected truth values of 0 and 1, found another byte"
    return content.fault(values, start, previous)


def _conclude(name: str, entry: FileEntry, digest: str, fault: str | None) -> None:
    if digest != entry.sha256:
        raise ArtifactCorrupt(f"{name}: expected SHA-256 {entry.sha256}, found {digest}")
    if fault is not None:
        raise ArtifactCorrupt(f"{name}: {fault}")


def read_up_to(file: BinaryIO, size: int) -> bytes:
    """Read that many bytes, fewer only at the end; a raw file may stop short of what was asked."""
    parts = []
    while size and (part := file.read(min(size, _CHUNK))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _found(directory: int, name: str) -> str | None:
    """Say what a name is that cannot be opened as a plain file."""
    try:
        return _kind(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except (OSError, ValueError):
        return None


def _kind(mode: int) -> str | None:
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in kinds if test(mode)), None)
