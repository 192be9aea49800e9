"""One array per ``.npy`` file: written with its digest, read without trusting its header.

A file is opened once, below the version's own folder, never through a link; size, header, digest and content are
checked on that one open file before anything is allocated.

Only little-endian numbers in C order, in version 1.0 of the format, are arrays here.

Where the arrays of a version live while it is used.

Small arrays are copied into memory. Large ones are mapped, so that processes share them and unused pages take no
memory. If somebody edits a mapped file, its numbers change. If somebody cuts it short, its readers are killed. So large
arrays are mapped from copies of exactly the bytes that were verified (`PrivateMaps`). Later changes of the published
files have no effect.
"""

from __future__ import annotations

import hashlib
import io
import math
import mmap
import os
import re
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np

from localrank.artifact.manifest import FileEntry
from localrank.disk import kind_of
from localrank.errors import ArtifactCorrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from localrank.arrays import Array, Content

#: Every dtype that an array may have, by the name that the manifest gives it.
DTYPES = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float32", "float64"),
    )
}
#: Bytes. An array that is copied into memory may not be larger; one that is mapped may.
LARGEST_COPY = 4 * 1024**3
_CHUNK = 4 * 1024 * 1024
#: Bytes. The system keeps a file in pieces of the size in which they were written. Reading one mapped number loads its
#: whole piece. With pieces of megabytes, the whole file would be in memory after a hundred look-ups.
PIECE = 64 * 1024
_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 4096
#: Exactly what numpy writes for a plain array. Nothing in it is evaluated.
_HEADER = re.compile(
    rb"\{'descr': '(?P<dtype>[<>|=]?[A-Za-z]\d*)', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>|\d+,|\d+(?:, \d+)+)\), \} *\n"
)
#: Bytes. The numbers start at a multiple of it, so that a mapped array is aligned.
_ALIGNED = 64


def write_array(path: Path, array: Array) -> FileEntry:
    """Write one array and make sure that it is on the disk; return what the manifest says of it."""
    dtype = DTYPES[array.dtype.name]
    array = np.ascontiguousarray(array, dtype)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    digest = hashlib.sha256()
    with path.open("xb") as file:
        for part in (header.getbuffer(), array.reshape(-1).view(np.uint8).data):
            for start in range(0, len(part), PIECE):
                piece = part[start : start + PIECE]
                digest.update(piece)
                file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    size = len(header.getbuffer()) + array.nbytes
    return FileEntry(digest.hexdigest(), size, dtype.name, array.shape)


def names_in(folder: int) -> set[str]:
    """Return the names in an open folder."""
    return set(os.listdir(folder))


def open_file(folder: int, name: str) -> BinaryIO:
    """Open a plain file of an open folder; refuse links, pipes, devices and folders without waiting."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.fdopen(os.open(name, flags, dir_fd=folder), "rb", buffering=0)
    except FileNotFoundError:
        raise ArtifactCorrupt(f"{name}: expected a file, found none") from None
    except OSError as error:
        what = _found(folder, name) or error.strerror
        raise ArtifactCorrupt(f"{name}: expected a plain file, found {what}") from None
    status = os.fstat(file.fileno())
    if (found := kind_of(status.st_mode)) is not None:
        file.close()
        raise ArtifactCorrupt(f"{name}: expected a plain file, found {found}")
    if status.st_nlink > 1:
        # Somebody could change it by its other name, outside the version.
        file.close()
        raise ArtifactCorrupt(
            f"{name}: expected a file with one name, found a hard link of {status.st_nlink}"
        )
    return file


@dataclass(frozen=True, slots=True, eq=False)
class ArrayFile:
    """An open file whose size and header are what the manifest says.

    Attributes:
        file: unbuffered.
        name: in its version.
        entry: what the manifest says of it.
        offset: where the numbers start.
    """

    file: BinaryIO
    name: str
    entry: FileEntry
    offset: int

    @classmethod
    @contextmanager
    def opened(cls, folder: int, name: str, entry: FileEntry) -> Iterator[Self]:
        """Open a file of an open folder and check its size and header."""
        with open_file(folder, name) as file:
            yield cls(file, name, entry, _check_header(file, name, entry))

    def check(self, content: Content, keep: Callable[[bytes | memoryview], None] | None = None) -> None:
        """Read the file once and check its digest and its numbers; the pieces do not stay in memory.

        Args:
            content: what must hold for the numbers.
            keep: gets every piece that was read.
        """
        if hasattr(os, "posix_fadvise"):
            # Without read-ahead the system keeps the file in small pieces (see `PIECE`). The reads here are large
            # enough without it.
            os.posix_fadvise(self.file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        self.file.seek(0)
        header = read_up_to(self.file, self.offset)
        digest = hashlib.sha256(header)
        if keep is not None:
            keep(header)
        dtype = DTYPES[self.entry.dtype]
        position, previous = 0, None
        fault = None
        while chunk := read_up_to(self.file, _CHUNK):
            digest.update(chunk)
            if keep is not None:
                keep(chunk)
            # If the file is cut short while it is read, it may end within a number; the digest then differs.
            values = np.frombuffer(chunk[: len(chunk) - len(chunk) % dtype.itemsize], dtype)
            fault = fault or _fault(content, values, position, previous)
            position, previous = position + len(values), values[-1] if len(values) else previous
        self._conclude(digest.hexdigest(), fault)

    def copied(self, content: Content, keep: Callable[[bytes | memoryview], None] | None = None) -> Array:
        """Check the file as `check` does, and return the array in memory of its own."""
        entry = self.entry
        if entry.size > LARGEST_COPY:
            raise ArtifactCorrupt(f"{self.name}: expected at most {LARGEST_COPY} bytes, found {entry.size}")
        self.file.seek(0)
        header = read_up_to(self.file, self.offset)
        digest = hashlib.sha256(header)
        flat = np.empty(entry.size - self.offset, np.uint8)
        filled = 0
        while filled < len(flat) and (count := self.file.readinto(flat[filled:].data)):  # type: ignore[attr-defined]
            filled += count
        digest.update(flat[:filled].data)
        values = flat.view(DTYPES[entry.dtype])
        self._conclude(digest.hexdigest(), _fault(content, values, 0, None))
        if keep is not None:
            keep(header)
            keep(flat.data)
        values.flags.writeable = False
        return values.reshape(entry.shape)

    def _conclude(self, digest: str, fault: str | None) -> None:
        if digest != self.entry.sha256:
            raise ArtifactCorrupt(f"{self.name}: expected SHA-256 {self.entry.sha256}, found {digest}")
        if fault is not None:
            raise ArtifactCorrupt(f"{self.name}: {fault}")


def _check_header(file: BinaryIO, name: str, entry: FileEntry) -> int:
    """Compare size and header with the manifest; return where the numbers start."""
    if (found_size := os.fstat(file.fileno()).st_size) != entry.size:
        raise ArtifactCorrupt(f"{name}: expected {entry.size} bytes, found {found_size}")
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


def _fault(content: Content, values: Array, start: int, previous: np.generic | None) -> str | None:
    if values.dtype == np.bool_ and (values.view(np.uint8) > 1).any():
        return "expected truth values of 0 and 1, found another byte"
    return content.fault(values, start, previous)


def read_up_to(file: BinaryIO, size: int) -> bytes:
    """Read that many bytes, fewer only at the end; a raw file may stop short of what was asked."""
    parts = []
    while size and (part := file.read(min(size, _CHUNK))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _found(folder: int, name: str) -> str | None:
    """Say what a name stands for if it cannot be opened as a plain file."""
    try:
        return kind_of(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except (OSError, ValueError):
        return None


#: Files of at least this many bytes are mapped.
LARGE = 1024 * 1024


class Maps:
    """Maps the large arrays of one version where they are; nobody may change its files meanwhile.

    Args:
        trusted: whether the large files were verified before, so that they need not be read.

    Attributes:
        trusted: the argument.
    """

    def __init__(self, *, trusted: bool = False) -> None:
        self.trusted = trusted
        self._maps: list[mmap.mmap] = []

    def read(self, folder: int, name: str, entry: FileEntry, content: Content) -> Array:
        """Check one file from its size to its last number, and return its array, read-only.

        Args:
            folder: the open folder of the version.
            name: of the file.
            entry: what the manifest says of it.
            content: what must hold for its numbers.
        """
        with ArrayFile.opened(folder, name, entry) as source:
            return self._read(source, content)

    def release(self) -> None:
        """Give back the memory of the pages that were read; the system can read them again when they are needed."""
        for pages in self._maps:
            if hasattr(mmap, "MADV_DONTNEED"):
                pages.madvise(mmap.MADV_DONTNEED)

    def _read(self, source: ArrayFile, content: Content) -> Array:
        if source.entry.size < LARGE:
            return source.copied(content)
        if not self.trusted:
            source.check(content)
        return self._mapped(source, source.file.fileno())

    def _mapped(self, source: ArrayFile, file: int) -> Array:
        """Return the array of an open file that is the source or a copy of it."""
        entry = source.entry
        pages = mmap.mmap(file, entry.size, access=mmap.ACCESS_READ)
        self._maps.append(pages)
        return np.frombuffer(pages, DTYPES[entry.dtype], offset=source.offset).reshape(entry.shape)


class PrivateMaps(Maps):
    """Maps large arrays from copies without a name, or from copies in the folder ``keep``.

    If the disk has no room for a copy, the array is read into memory.

    Args:
        keep: an empty folder that gets a copy of every file; without one, the copies of large files have no name.

    Attributes:
        whole: whether every file so far was copied to ``keep``.
    """

    def __init__(self, keep: Path | None) -> None:
        super().__init__()
        self._folder = keep
        self.whole = keep is not None

    def keep(self, name: str, content: bytes) -> None:
        """Copy a file whose bytes have been verified."""
        if self._folder is not None:
            with _Copy(self._folder, name) as copy:
                copy.write(content)
            self.whole &= copy.is_whole()

    def _read(self, source: ArrayFile, content: Content) -> Array:
        large = source.entry.size >= LARGE
        if not large and self._folder is None:
            return source.copied(content)
        with _Copy(self._folder, source.name) as copy:
            if large and copy.is_whole():
                source.check(content, copy.write)
                # It may not be whole any more: the disk was full.
                array = self._mapped(source, copy.file) if copy.is_whole() else source.copied(content)
            else:
                array = source.copied(content, copy.write)
        self.whole &= copy.is_whole()
        return array


class _Copy:
    """A file that is written as long as the disk has room.

    Attributes:
        file: its descriptor; -1 if the file could not be made.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self.file = -1
        self._whole = False
        with suppress(OSError):
            if folder is not None:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self.file = os.open(folder / name, flags, 0o400)
            else:
                with tempfile.TemporaryFile(buffering=0) as unnamed:
                    self.file = os.dup(unnamed.fileno())
            self._whole = True

    def is_whole(self) -> bool:
        """Tell whether everything so far was written."""
        return self._whole

    def write(self, content: bytes | memoryview) -> None:
        # In small pieces: see `PIECE`.
        view = memoryview(content).cast("B")
        try:
            while self._whole and len(view):
                view = view[os.write(self.file, view[:PIECE]) :]
        except OSError:
            self._whole = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file >= 0:
            os.close(self.file)
