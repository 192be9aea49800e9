"""Where the arrays of a version live while it is used.

Small arrays are copied into memory. Large ones are mapped, so that processes share them and unused pages take no
memory. If somebody edits a mapped file, its numbers change. If somebody cuts it short, its readers are killed. So large
arrays are mapped from copies of exactly the bytes that were verified (`PrivateMaps`). Later changes of the published
files have no effect.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import numpy as np

from localrank.artifact.arrays import DTYPES, PIECE, ArrayFile

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Array
    from localrank.artifact.manifest import FileEntry
    from localrank.layout import Content

#: Files of at least this many bytes are mapped.
LARGE = 1024 * 1024


class Maps:
    """Maps the large arrays of one version where they are; nobody may change its files meanwhile.

    Args:
        trusted: whether the large files were verified before, so that they need not be read.
    """

    def __init__(self, *, trusted: bool = False) -> None:
        self._trusted = trusted
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
        if not self._trusted:
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
