"""Where a version is written until it is complete: in a hidden folder beside its place. Renaming this folder is the
last step.

A process that is killed leaves a hidden folder, which readers ignore and the next publisher sweeps away. A lock on a
file beside it ends with the process, so it shows whether the folder is still being written or was left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PREFIX = ".staging-"
_LOCK = ".lock"


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """Make an empty hidden folder in ``parent``; remove what is left of it afterwards."""
    while True:
        folder = parent / f"{_PREFIX}{secrets.token_hex(8)}"
        lock = folder.with_name(folder.name + _LOCK)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_still(lock, handle):
                continue  # Another publisher removed it between the two lines above.
            try:
                folder.mkdir()
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                lock.unlink(missing_ok=True)
        finally:
            os.close(handle)
        return


def sweep(parent: Path) -> list[str]:
    """Remove the hidden folders whose makers are gone; return their names."""
    swept = []
    for lock in parent.glob(f"{_PREFIX}*{_LOCK}"):
        folder = lock.with_name(lock.name.removesuffix(_LOCK))
        with contextlib.suppress(OSError):
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                lock.unlink(missing_ok=True)
                swept.append(folder.name)
            finally:
                os.close(handle)
    return swept


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a family: one process at a time numbers versions and moves aliases."""
    path = folder / _LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_still(path, handle):
                continue  # The family was removed and made anew meanwhile.
            yield
        finally:
            os.close(handle)
        return


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
