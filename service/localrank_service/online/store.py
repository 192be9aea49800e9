"""Where experiments are stored: in the operator's file. A second file beside it records canaries that were taken back.

The file is read again when it changes, by every worker, and written by the admin routes, so that there is one truth, also
after a restart. If a canary is taken back, this is noted twice: in the folder that the workers share, which works when
the disk is full, and in ``<file>.returned``, which outlives the service. Both are read; one note is enough to keep the
canary away.

The key of the draws stands in ``<file>.secret``, made by the first worker that needs it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from localrank.disk import read_plain, replace_file
from localrank_service.http.problems import Problem
from localrank_service.models import notes
from localrank_service.models.notes import NoteFile
from localrank_service.online.definition import document, parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from localrank_service.online.definition import Definition

_log = logging.getLogger("localrank.service")

_NOTE = "experiments.note"
_RETURNED = ".returned"
_SECRET, _SHARED_SECRET = ".secret", "experiments-secret.note"
_KEY_BYTES = 32
#: Bytes of a file that is read at all; the definitions may be fewer.
_LARGEST = 1 << 20
#: The texts that are recorded when a canary is taken back.
_RECORD = {"experiment", "at", "reason", "evidence"}


class Written(NamedTuple):
    """What is written down.

    Attributes:
        definitions: of all experiments.
        returned: when and why runs were taken back.
        problem: why the file cannot be used, ``None`` if it can; with a problem, the definitions are the earlier ones.
    """

    definitions: tuple[Definition, ...] = ()
    returned: Mapping[str, dict[str, Any]] = {}
    problem: str | None = None

    @property
    def generation(self) -> str:
        """Tell two states apart, the same in every worker."""
        runs = [[one.run, one.run in self.returned] for one in self.definitions]
        return hashlib.sha256(orjson.dumps(runs)).hexdigest()[:12]


class ExperimentStore:
    """The file and the notes.

    Args:
        file: of the experiments; it need not be there.
        folder: that the workers share, if there are several.
    """

    def __init__(self, file: Path, folder: Path | None) -> None:
        self.file = file
        self._beside = file.parent / f"{file.name}{_RETURNED}"
        self._note = None if folder is None else folder / _NOTE
        self._secrets = [file.parent / f"{file.name}{_SECRET}"]
        if folder is not None:
            self._secrets.append(folder / _SHARED_SECRET)
        self._own: dict[str, dict[str, Any]] = {}
        self._before = Written()
        self._content: bytes | None = b""

    def read(self) -> Written:
        """Read everything anew; a file that cannot be used leaves the experiments as they were."""
        definitions, problem = self._before.definitions, self._before.problem
        try:
            content = read_plain(self.file, _LARGEST) if self.file.exists() else None
            if content != self._content:
                self._content = content
                definitions, problem = () if content is None else parse(content), None
                _log.info("experiments: %s", ", ".join(one.name for one in definitions) or "none")
        except Problem as error:
            # The reader of bodies also reads this file.
            detail = error.detail.replace("the body", "the file", 1)
            problem = f"{detail}{f' (at {error.pointer})' if error.pointer else ''}"
            _log.error("experiments file %s: %s; the experiments stay as they were", self.file, problem)
        except OSError as error:
            said = error.strerror or str(error)
            if said != problem:
                _log.error("experiments file %s: %s; the experiments stay as they were", self.file, said)
            problem = said
            self._content = b""  # when the file can be read again, its content counts as new
        self._before = Written(definitions, self._returned(), problem)
        return self._before

    def secret(self) -> bytes:
        """Return the key of the draws: made once, and known to this service only."""
        for path in self._secrets:
            try:
                return _key_in(path)
            except (OSError, ValueError) as error:
                said = error.strerror or error if isinstance(error, OSError) else error
                _log.error(
                    "cannot keep the key of the experiments' draws in %s: %s; after a restart, units are drawn anew",
                    path,
                    said,
                )
        return secrets.token_bytes(_KEY_BYTES)

    def note_return(self, run: str, record: dict[str, Any]) -> bool:
        """Note that a run was taken back; return whether nobody had noted it before."""
        try:
            lock = self._lock()
        except OSError:
            # The record beside the file is enough. At worst several workers note the same.
            lock = nullcontext()
        with lock:
            returned = self._returned()
            if run in returned:
                return False
            self._keep({**returned, run: record})
        return True

    def change(self, name: str, definition: Definition | None) -> Written:
        """Write the file with one experiment replaced, added or, for ``None``, left out.

        Raises:
            Problem: 404 if there is no such experiment to leave out, 409 if the file cannot be read, 422 if experiments do
                not go together, 503 if it cannot be written.
        """
        try:
            lock = self._lock()
        except OSError as error:
            raise Problem(
                503,
                f"nothing was changed: cannot tell the workers: {error.strerror or error}",
                reason="storage",
            ) from None
        with lock:
            now = self.read()
            if now.problem is not None:
                raise Problem(
                    409, f"nothing was changed: the file of the experiments is broken: {now.problem}"
                )
            found = {one.name: one for one in now.definitions}
            if definition is None:
                if found.pop(name, None) is None:
                    known = ", ".join(found) or "none"
                    raise Problem(404, f"no experiment {name!r}; expected one of: {known}")
            else:
                found[name] = definition
            content = document(list(found.values()))
            parse(content)
            try:
                replace_file(self.file, content)
            except OSError as error:
                raise Problem(
                    503,
                    f"nothing was changed: cannot write the file of the experiments: {error.strerror or error}",
                    reason="storage",
                ) from None
            runs = {one.run for one in found.values()}
            # If an experiment is added again, it starts from the beginning.
            self._keep({run: record for run, record in now.returned.items() if run in runs})
            return self.read()

    def _returned(self) -> dict[str, dict[str, Any]]:
        found = dict(self._own)
        if self._note is not None and (text := notes.read(self._note)) is not None:
            found |= orjson.loads(text)
        with suppress(OSError, orjson.JSONDecodeError):
            members = orjson.loads(read_plain(self._beside, _LARGEST))
            if isinstance(members, dict):
                # Somebody may have edited a record by hand.
                found |= {
                    run: record
                    for run, record in members.items()
                    if isinstance(record, dict)
                    and record.keys() == _RECORD
                    and all(isinstance(text, str) for text in record.values())
                }
        return found

    def _keep(self, returned: Mapping[str, dict[str, Any]]) -> None:
        content = orjson.dumps(returned)
        if self._note is None:
            self._own = dict(returned)
        else:
            try:
                note = NoteFile(self._note)
                try:
                    note.write(content)
                finally:
                    note.close()
            except OSError as error:
                _log.error("cannot tell the other workers about experiments: %s", error.strerror or error)
        try:
            if returned or self._beside.exists():
                replace_file(self._beside, content)
        except OSError as error:
            _log.error(
                "cannot write %s: %s; after a restart, canaries that were taken back start again",
                self._beside,
                error.strerror or error,
            )

    def _lock(self) -> AbstractContextManager[object]:
        """Return what keeps other workers from changing anything until it is closed.

        Raises:
            OSError: somebody has removed the folder that the workers share.
        """
        if self._note is None:
            return nullcontext()
        file = os.fdopen(os.open(self._note, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
        fcntl.flock(file, fcntl.LOCK_EX)
        return file


def _key_in(path: Path) -> bytes:
    """Return the key in this file. If the file is missing, it is made.

    Raises:
        OSError: it can neither be read nor made.
        ValueError: it holds no key.
    """
    if not path.exists():
        made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(_KEY_BYTES))
            # Of several workers, one makes the key that all of them use.
            with suppress(FileExistsError):
                path.hardlink_to(made)
        finally:
            made.unlink(missing_ok=True)
    text = path.read_text("ascii").strip()
    if len(text) != 2 * _KEY_BYTES:
        raise ValueError(f"expected {2 * _KEY_BYTES} hexadecimal digits, found {len(text)} characters")
    return bytes.fromhex(text)
