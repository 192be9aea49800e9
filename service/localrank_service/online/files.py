"""The files that one worker writes records to: rotated, bounded in their total size, never torn in the middle.

Each worker has a file of its own and only adds to its end. When it is full, the worker begins another, and the oldest
files of its kind go, whosever they were. Files of other names are never touched. Whatever goes wrong costs records and
nothing else: a write that fails is taken back, so that the next one begins where the last whole record ends.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from itertools import count, islice
from typing import TYPE_CHECKING

from localrank.journal import FEEDBACK, IMPRESSIONS, NAME, file_name, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank.journal import Buffer

#: Bytes of one file, at most. A folder holds at least four files of each worker.
_SEGMENT = 64 * 2**20
#: The least total size that can be asked for.
LEAST_BYTES = 2**20
_LEAST_SEGMENT = 2**16
#: Names have room for this number.
_LAST = 10**17 - 1
#: Buffers of one write; systems take 1,024.
_MOST_PARTS = 512
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


class Files:
    """Where one worker writes.

    Args:
        folder: of all workers; made when the first record is written.
        most_bytes: of all files of this kind in it together.
        writers: how many workers write there.
        kind: of the files.

    Attributes:
        most_bytes: of all files of this kind in the folder together.
        writers: how many workers write there.
        contracts: digests of the feature contracts whose names stand in the file that is being written.
    """

    def __init__(self, folder: Path, most_bytes: int, writers: int = 1, *, kind: str = IMPRESSIONS) -> None:
        self.most_bytes, self.writers = most_bytes, writers
        self._kind = kind
        self.contracts: set[str] = set()
        self._folder = folder
        self._segment = max(_LEAST_SEGMENT, min(_SEGMENT, most_bytes // (4 * writers)))
        # Largest total size of the files when a new one is begun. All workers can then still fill their files.
        self._most = max(0, most_bytes - writers * self._segment)
        self._file = -1
        self._size = 0

    @property
    def room(self) -> int:
        """Bytes that the file can still take."""
        return self._segment - self._size

    def make_room(self, size: int) -> bool:
        """Begin another file if this one has no room for this many bytes; return whether an empty file has room for
        them.
        """
        if size > self.room:
            self.close()
        return size <= self._segment

    def look(self) -> None:
        """Begin another file if this one was removed."""
        if self._file >= 0 and not os.fstat(self._file).st_nlink:
            self.close()

    def append(self, frames: Sequence[Sequence[Buffer]]) -> int:
        """Write these frames, for which there is room; return how many of them are in the file.

        Raises:
            OSError: there is no file and none can be made.
        """
        if self._file < 0:
            self._begin()
        written = 0
        while written < len(frames):
            parts: list[Buffer] = []
            end = written
            while end < len(frames) and len(parts) + len(frames[end]) <= _MOST_PARTS:
                parts += frames[end]
                end += 1
            if not self._write(parts):
                break
            written = end
        return written

    def _write(self, parts: list[Buffer]) -> bool:
        """Add the parts, all or none."""
        size = size_of(parts)
        try:
            done = os.writev(self._file, parts)
        except OSError:
            done = 0
        if done == size:
            self._size += size
            return True
        # The disk is full, or a limit was reached.
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            # A reader leaves out what is torn.
            self.close()
        return False

    def _begin(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = self._remove_oldest()
        begun = time.time_ns() // 1000
        if files and (newest := NAME.fullmatch(files[-1].name)) is not None:
            # The name is later than all others, even if the clock was set back, because names show which files are the
            # oldest.
            begun = min(max(begun, int(newest["begun"]) + 1), _LAST)
        for microseconds in islice(count(begun), 1000):
            path = self._folder / file_name(microseconds, os.getpid(), self._kind)
            with suppress(FileExistsError):
                self._file = os.open(path, _NEW, 0o600)
                self._size = 0
                return
        raise FileExistsError(17, "every name is taken", str(self._folder))

    def _remove_oldest(self) -> list[Path]:
        """Make room for a new file; return those that there were, the oldest first."""
        files = _files(self._folder, self._kind)
        room = self._most - sum(size for _, size in files)
        for path, size in files:
            if room >= 0:
                break
            # Another worker may have removed it.
            with suppress(OSError):
                path.unlink()
            room += size
        return [path for path, _ in files]

    def close(self) -> None:
        """End the file; the next record begins another."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size = -1, 0
        self.contracts.clear()


def total_bytes(folder: Path) -> int:
    """Return the bytes of all files of records in the folder."""
    try:
        return sum(size for kind in (IMPRESSIONS, FEEDBACK) for _, size in _files(folder, kind))
    except OSError:
        return 0


def _files(folder: Path, kind: str) -> list[tuple[Path, int]]:
    """Return the files of records of one kind with their sizes, the oldest first."""
    found = []
    for path in folder.iterdir():
        if (name := NAME.fullmatch(path.name)) is None or name["kind"] != kind:
            continue
        with suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found.append((path, status.st_size))
    return sorted(found)
