"""Small files: read within bounds, written whole or not at all, and on the disk before anybody relies on them.

Invariant: whoever reads a file that is replaced sees all of the old one or all of the new one, and an error means that the
old one is still there. Large files and whole versions are not written here (`localrank.artifact.writing`).
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_DRAFT = ".draft-"
#: Errors of file systems that cannot sync a folder, such as some mounted volumes.
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP}


def read_plain(path: Path, largest: int) -> bytes:
    """Read a small file that a setting names or that somebody else has put there, without waiting and within bounds.

    Args:
        path: of the file, or of a link to one.
        largest: how many bytes it may have.

    Raises:
        OSError: it cannot be read, is a pipe or anything else but a plain file, or is larger; ``strerror`` says which.
    """
    # Opening a pipe would wait for somebody who writes into it.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        # Before `open`, which refuses a folder and would leave its handle open.
        if (found := kind_of(os.fstat(handle).st_mode)) is not None:
            raise OSError(errno.EINVAL, f"expected a plain file, found {found}", str(path))
        with open(handle, "rb", closefd=False) as file:
            content = file.read(largest + 1)
    finally:
        os.close(handle)
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"expected at most {largest} bytes, found more", str(path))
    return content


def kind_of(mode: int) -> str | None:
    """Say what something is that is not a plain file."""
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in kinds if test(mode)), None)


def replace_file(path: Path, content: bytes) -> None:
    """Write a small file in place of another, or as a new one.

    Raises:
        OSError: it could not be written; what was there before is still there.
    """
    before = path.read_bytes() if path.is_file() else None
    _put(path, content)
    try:
        sync(path.parent)
    except OSError:
        # If the change fails, it must not be done.
        if before is None:
            path.unlink()
        else:
            _put(path, before)
        raise


def write_synced(path: Path, content: bytes, mode: str = "wb") -> None:
    """Write a file that nobody reads yet."""
    with path.open(mode) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Make sure that a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(handle)


def sweep_drafts(folder: Path) -> None:
    """Remove files that dead writers left in a folder. The caller makes sure that nobody writes there now."""
    for draft in folder.glob(f"{_DRAFT}*"):
        draft.unlink(missing_ok=True)


def _put(path: Path, content: bytes) -> None:
    draft = path.with_name(f"{_DRAFT}{secrets.token_hex(8)}")
    try:
        write_synced(draft, content, "xb")
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
