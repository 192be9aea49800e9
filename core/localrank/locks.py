"""Files that a process locks as long as it lives, so that others can find out whether it lives.

They are taken over and never removed: a process that replaces another needs no room on the disk.
"""

from __future__ import annotations

import fcntl
import os
import time
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIX = ".lock"


def hold(path: Path) -> int:
    """Hold a lock on the file until its descriptor is closed or the process ends, however it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor


def take(folder: Path, prefix: str) -> tuple[Path, int]:
    """Lock one of the files ``<prefix>0.lock``, ``<prefix>1.lock``, …: a free one, else a new one.

    Returns:
        The file and its descriptor.
    """
    paths: list[Path] = []
    # A process that checks a file holds it for a moment, so each file is tried more than once.
    for _ in range(3):
        paths = sorted(folder.glob(f"{prefix}*{_SUFFIX}"))
        for path in paths:
            try:
                return path, hold(path)
            except BlockingIOError:
                continue
        time.sleep(0.005)
    for number in count(len(paths)):
        path = folder / f"{prefix}{number}{_SUFFIX}"
        try:
            return path, hold(path)
        except BlockingIOError:
            continue
    raise AssertionError


def is_free(path: Path) -> bool:
    """Tell whether nobody holds the file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        # The lock is shared, so that two processes that look at the same time do not see each other as the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
