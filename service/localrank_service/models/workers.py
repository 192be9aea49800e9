"""What the worker processes of one service know of each other.

They share a folder: each holds a lock on its own file as long as it lives, and writes beside it what it serves. So a
promotion can tell when every live worker has switched. A service of one process needs no folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from localrank_service.models.locks import hold, is_free

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Report", "Workers", "make_runtime_dir", "sweep_runtime_dirs"]

_PREFIX = "localrank-"
_MASTER = "master.lock"
_UNLOADED = "unloaded.json"
#: Seconds in which a new folder may have no lock yet.
_GRACE = 60.0


class Report(NamedTuple):
    """What one worker serves: ``{model: {alias: version}}``, and what it could not load."""

    pid: int
    serving: Mapping[str, Mapping[str, int]]
    broken: Mapping[str, str]


class Workers:
    """The workers that share ``directory``; only this one where that is ``None``."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._pid = os.getpid()
        self._own = Report(self._pid, {}, {})
        self._lock: int | None = None
        self._unloaded: frozenset[str] = frozenset()

    def enter(self) -> None:
        """Be counted among the live workers."""
        if self._directory is None:
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Locked before it has its name: a lock that is free is taken for that of a dead worker, and cleared away.
        entering = self._directory / f"entering-{self._pid}"
        self._lock = hold(entering)
        entering.replace(self._directory / f"worker-{self._pid}.lock")
        self.report({}, {})

    def leave(self) -> None:
        """Be counted no longer."""
        if self._directory is None or self._lock is None:
            return
        for suffix in ("json", "lock"):
            (self._directory / f"worker-{self._pid}.{suffix}").unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None

    def report(self, serving: Mapping[str, Mapping[str, int]], broken: Mapping[str, str]) -> None:
        """Tell the others what this worker serves."""
        self._own = Report(self._pid, serving, broken)
        if self._directory is None or self._lock is None:
            return
        target = self._directory / f"worker-{self._pid}.json"
        draft = target.with_suffix(".draft")
        draft.write_bytes(orjson.dumps({"serving": serving, "broken": broken}))
        draft.replace(target)

    def unloaded(self) -> frozenset[str]:
        """Return the names of the models that no worker should serve until they are loaded again."""
        if self._directory is None:
            return self._unloaded
        try:
            names: list[str] = orjson.loads((self._directory / _UNLOADED).read_bytes())
        except FileNotFoundError:
            return frozenset()
        return frozenset(names)

    def mark(self, name: str, *, unloaded: bool) -> None:
        """Let all workers serve the model, or none."""
        if self._directory is None:
            self._unloaded = self._unloaded | {name} if unloaded else self._unloaded - {name}
            return
        target = self._directory / _UNLOADED
        with (self._directory / f"{_UNLOADED}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            names = self.unloaded() | {name} if unloaded else self.unloaded() - {name}
            draft = target.with_suffix(".draft")
            draft.write_bytes(orjson.dumps(sorted(names)))
            draft.replace(target)

    def others_serve(self) -> bool:
        """Tell whether another worker has loaded its models."""
        return any(report.serving for report in self.living() if report.pid != self._pid)

    def living(self) -> list[Report]:
        """Return the reports of all live workers; clear away what dead ones left."""
        if self._directory is None:
            return [self._own]
        reports = []
        for path in sorted(self._directory.glob("worker-*.lock")):
            pid = int(path.stem.removeprefix("worker-"))
            if pid != self._pid and is_free(path):
                _forget(path)
                continue
            members: dict[str, Any] = {}
            with contextlib.suppress(OSError, orjson.JSONDecodeError):
                members = orjson.loads(path.with_suffix(".json").read_bytes())
            reports.append(Report(pid, members.get("serving", {}), members.get("broken", {})))
        return reports


def make_runtime_dir() -> Path:
    """Make a folder for the workers of one service; it is swept away once this process is gone."""
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    hold(directory / _MASTER)
    return directory


def sweep_runtime_dirs() -> None:
    """Remove the folders that killed services left."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            master = directory / _MASTER
            status = directory.stat()
            ours = status.st_uid == os.getuid() and time.time() - status.st_mtime > _GRACE
            if ours and master.exists() and is_free(master):
                shutil.rmtree(directory)


def _forget(path: Path) -> None:
    """Clear away a dead worker."""
    path.unlink(missing_ok=True)
    path.with_suffix(".json").unlink(missing_ok=True)
