"""What the worker processes of one service know of each other.

They share a folder: each holds a lock on a file as long as it lives, and notes beside it what it serves. So a promotion
can tell when every live worker has switched. A worker that replaces another takes over its files. A service of one
process needs no folder.
"""

from __future__ import annotations

import fcntl
import logging
import os
from typing import TYPE_CHECKING, NamedTuple

import orjson

from localrank.locks import is_free, take
from localrank_service.models import notes
from localrank_service.models.notes import NoteFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_log = logging.getLogger("localrank.service")

_WORKER = "worker-"
_NOTE = ".note"
_UNLOADED = f"unloaded{_NOTE}"


class Report(NamedTuple):
    """What one worker serves: ``{model: {alias: version}}``, and what it could not load; which experiments it does.

    ``loaded`` is true once it has tried every model.
    """

    pid: int
    serving: Mapping[str, Mapping[str, int]]
    broken: Mapping[str, str]
    experiments: str = ""
    loaded: bool = False


_NOTHING = Report(0, {}, {})


class Workers:
    """The workers that share ``folder``; only this one where that is ``None``.

    Args:
        folder: that they share.
        place: of this worker in the folder, held until it leaves.

    Attributes:
        alone: whether this worker shares nothing, and so knows of no other.
        replaces: whether this worker has taken the place of one that served models and died.
    """

    def __init__(self, folder: Path | None, place: object | None = None) -> None:
        self.alone, self.replaces = folder is None, False
        self._place = place
        self._folder = folder
        self._pid = os.getpid()
        self._own = Report(self._pid, {}, {})
        self._told: Report | None = None
        self._started = False
        self._complained = False
        self._path: Path | None = None
        self._lock: int | None = None
        self._note: NoteFile | None = None
        self._unloaded: frozenset[str] = frozenset()

    def enter(self) -> None:
        """Be counted among the live workers.

        Raises:
            OSError: this takes new files, and the disk has no room for them.
        """
        if self._folder is None:
            return
        NoteFile(self._folder / _UNLOADED).close()
        self._path, self._lock = take(self._folder, _WORKER)
        note = self._path.with_suffix(_NOTE)
        self.replaces = bool((text := notes.read(note)) and Report(**orjson.loads(text)).loaded)
        self._note = NoteFile(note)
        self.report({}, {}, loaded=False)

    def leave(self) -> None:
        """Be counted no longer."""
        if self._note is None or self._lock is None:
            return
        self.report({}, {}, loaded=False)
        self._note.close()
        os.close(self._lock)
        self._path = self._note = self._lock = self._place = None

    def report(
        self, serving: Mapping[str, Mapping[str, int]], broken: Mapping[str, str], *, loaded: bool = True
    ) -> None:
        """Tell the others what this worker serves."""
        self._own = Report(self._pid, serving, broken, self._own.experiments, loaded)
        self.tell()

    def follow(self, experiments: str) -> None:
        """Tell the others which experiments this worker does."""
        self._own = self._own._replace(experiments=experiments)
        self.tell()

    def tell(self) -> None:
        """Note what this worker serves, unless that is done: the disk may have been full."""
        if self._note is None or self._told == self._own:
            return
        try:
            self._note.write(orjson.dumps(self._own._asdict()))
        except OSError as error:
            if not self._complained:
                _log.error(
                    "worker %d cannot tell the other workers what it serves: %s",
                    self._pid,
                    error.strerror or error,
                )
            self._complained = True
        else:
            self._told, self._complained = self._own, False

    def unloaded(self) -> frozenset[str]:
        """Return the names of the models that no worker should serve until they are loaded again."""
        if self._folder is None:
            return self._unloaded
        return frozenset(orjson.loads(notes.read(self._folder / _UNLOADED) or b"[]"))

    def mark(self, name: str, *, unloaded: bool) -> None:
        """Let all workers serve the model, or none.

        Raises:
            OSError: the names are more than fit, and the disk is full.
        """
        if self._folder is None:
            self._unloaded = self._unloaded | {name} if unloaded else self._unloaded - {name}
            return
        path = self._folder / _UNLOADED
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            names = self.unloaded() | {name} if unloaded else self.unloaded() - {name}
            note = NoteFile(path)
            try:
                note.write(orjson.dumps(sorted(names)))
            finally:
                note.close()

    def served(self) -> dict[str, Mapping[str, int]]:
        """Return what the living workers serve, this one included: ``{model: {alias: version}}``."""
        return {name: aliases for report in self.living() for name, aliases in report.serving.items()}

    def started(self, expected: int) -> bool:
        """Tell whether so many workers have once loaded their models; one that is replaced later is no new start."""
        if not self._started:
            loaded = sum(report.loaded for report in self.living())
            self._started = self.replaces or loaded >= expected
        return self._started

    def others(self) -> list[Report]:
        """Return the reports of the other live workers."""
        return [report for report in self.living() if report.pid != self._pid]

    def others_serve(self) -> bool:
        """Tell whether another worker has loaded its models."""
        return any(report.loaded and report.serving for report in self.others())

    def living(self) -> list[Report]:
        """Return the reports of all live workers."""
        if self._folder is None:
            return [self._own]
        reports = []
        for path in sorted(self._folder.glob(f"{_WORKER}*.lock")):
            if path == self._path:
                reports.append(self._own)
            elif not is_free(path):
                text = notes.read(path.with_suffix(_NOTE))
                # One that has only just entered serves nothing.
                reports.append(_NOTHING if text is None else Report(**orjson.loads(text)))
        return reports
