"""Remembers which large files were found good, so that each is read once per machine and change.

A record names a file by device and inode and holds what must not have changed: size, modification time, change time,
digest, and what was checked. A record that cannot be read or written only costs time: the file is checked again.
Records of other users are not believed.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["DigestCache", "default_cache"]

#: Seconds. A file that changed this recently could change again without its times telling.
_SETTLED = 2.0


class DigestCache:
    """Records below one directory, which need not exist; without one nothing is remembered."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def knows(self, status: os.stat_result, sha256: str, checked: str) -> bool:
        """Tell whether this very file was found to have this digest and to pass this check."""
        if self._directory is None:
            return False
        try:
            with self._path(status).open("rb") as file:
                own = os.fstat(file.fileno())
                if own.st_uid != os.geteuid() or own.st_mode & 0o022:
                    return False
                found = json.loads(file.read(65536))
        except (OSError, ValueError, RecursionError):
            return False
        return bool(found == _record(status, sha256, checked))

    def remember(self, status: os.stat_result, sha256: str, checked: str) -> None:
        """Note that this file was read and found good."""
        if self._directory is None or time.time() - max(status.st_mtime, status.st_ctime) < _SETTLED:
            return
        with contextlib.suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._directory, prefix=".")
            try:
                with os.fdopen(handle, "w") as file:
                    json.dump(_record(status, sha256, checked), file)
                Path(temporary).replace(self._path(status))
            except OSError:
                Path(temporary).unlink()

    def _path(self, status: os.stat_result) -> Path:
        assert self._directory is not None  # noqa: S101
        return self._directory / f"{status.st_dev}-{status.st_ino}.json"


def default_cache() -> Path | None:
    """Return where records go unless told otherwise; ``None`` where there is no home."""
    try:
        return Path.home() / ".cache" / "localrank" / "digests"
    except RuntimeError:
        return None


def _record(status: os.stat_result, sha256: str, checked: str) -> dict[str, Any]:
    return {
        "size": status.st_size,
        "modified": status.st_mtime_ns,
        "changed": status.st_ctime_ns,
        "sha256": sha256,
        "checked": checked,
    }
