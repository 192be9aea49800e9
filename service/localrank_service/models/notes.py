"""Small texts that processes leave for each other, in files that can be changed when the disk is full.

A file gets its space when it is made and is then written in place. A checksum shows whether a text is complete.
"""

from __future__ import annotations

import os
import time
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes of a new file. The file grows with a longer text if the disk has room.
_ROOM = 16 * 1024
#: Bytes of check sum and length, in hexadecimal digits.
_HEAD = 16
_TRIES = 5


class NoteFile:
    """A file that holds the last text written to it."""

    def __init__(self, path: Path) -> None:
        """Open the file, and make it if it is not there.

        Raises:
            OSError: the disk has no room for it.
        """
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._reserve(_ROOM)

    def write(self, text: bytes) -> None:
        """Replace the text.

        Raises:
            OSError: it is longer than the file, and the disk is full; the text is the one before.
        """
        checked = b"%08x" % len(text) + text
        self._reserve(_HEAD + len(text))
        _write(self._file, b"%08x" % zlib.crc32(checked) + checked, 0)

    def close(self) -> None:
        """Leave the file as it is."""
        os.close(self._file)

    def _reserve(self, size: int) -> None:
        found = os.fstat(self._file).st_size
        if found < size:
            _write(self._file, bytes(size - found), found)


def read(path: Path) -> bytes | None:
    """Return the text of a file; ``None`` if there is no file, or none that can be read."""
    for _ in range(_TRIES):
        try:
            content = path.read_bytes()
            checked = content[8 : _HEAD + int(content[8:_HEAD], 16)]
            if zlib.crc32(checked) == int(content[:8], 16):
                return checked[8:]
        except (OSError, ValueError):
            return None
        # The file was read while it was written.
        time.sleep(0.001)
    return None


def _write(file: int, content: bytes, start: int) -> None:
    if os.pwrite(file, content, start) != len(content):
        raise OSError("the disk is full")
