"""The folder that the processes of one service share: who may use it, and what is left of an earlier service.

It holds the generated admin key, private copies of versions, counts, and what the workers tell each other. So it must be
this user's alone. Every process of the service holds a shared lock on one file in it, for as long as it lives. The file
says which service that is. The first process, which gets the lock alone, removes what an earlier service has left. It
removes only what has a name of the service's own files, and refuses a folder with anything else in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from localrank.errors import InvalidConfiguration
from localrank.locks import hold

if TYPE_CHECKING:
    from localrank_service.process.settings import Settings

#: Every process holds a lock on this file. It is the first in the folder.
_MARK = "service.lock"
#: The other files of the service, and those in its folders there.
_FILES = re.compile(
    r"admin\.key|\.admin\.key-[0-9a-f]{16}|worker-[0-9]+\.(lock|note)|(unloaded|experiments|experiments-secret)\.note"
    r"|\.experiments-secret\.note\.[0-9a-f]{8}"
)
_METRICS = re.compile(r"[0-9]+\.(lock|series|cells|draft)")
_VERSIONS = re.compile(r"\.lock|\.draft-[^.]+|\.[^@]+@[0-9]+\.lock|[^.@][^@]*@[0-9]+")
#: Generations of tables are kept as versions are.
_FOLDERS = {
    "metrics": _METRICS.fullmatch,
    "versions": _VERSIONS.fullmatch,
    "tables": _VERSIONS.fullmatch,
}
_PREFIX = "localrank-"
#: Seconds in which a new folder may have no lock yet.
_GRACE = 60.0
#: Seconds to wait for the first process of the service, which looks through the folder.
_PATIENCE = 10.0


class Place:
    """Keeps the folder for this service as long as this object lives."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)


def join(folder: Path, settings: Settings) -> Place:
    """Use the folder for a process of the service with these settings; make the folder if there is none.

    Raises:
        InvalidConfiguration: it is not this user's alone, holds what no service wrote, or another service uses it.
    """
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700, parents=True)
        _check_owner(folder)
        mark = _marked(folder)
        place = Place(mark)
        _enter(folder, mark, _identity(settings))
    except OSError as error:
        raise InvalidConfiguration(
            f"runtime folder {folder}: cannot be used: {error.strerror or error}"
        ) from None
    return place


def make() -> Path:
    """Make a folder for one service; it is swept away once the service is gone."""
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


def sweep() -> None:
    """Remove the folders that killed services left."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            ours = status.st_uid == os.geteuid() and time.time() - status.st_mtime > _GRACE
            if ours and stat.S_ISDIR(status.st_mode) and (folder / _MARK).exists():
                alone = hold(folder / _MARK)
                shutil.rmtree(folder)
                os.close(alone)


def _identity(settings: Settings) -> bytes:
    """Tell the processes of one service from those of another: they have the same settings."""
    return hashlib.sha256(orjson.dumps(settings.public())).hexdigest().encode()


def _check_owner(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        found = "a link" if stat.S_ISLNK(status.st_mode) else "a file"
        raise InvalidConfiguration(f"runtime folder {folder}: expected a folder, found {found}")
    if status.st_uid != os.geteuid():
        raise InvalidConfiguration(
            f"runtime folder {folder}: expected a folder of this user ({os.geteuid()}), found one of user {status.st_uid}; "
            f"name a folder that is not there yet, such as {folder / 'service'}, and the service makes it"
        )
    if mode := stat.S_IMODE(status.st_mode) & 0o077:
        raise InvalidConfiguration(
            f"runtime folder {folder}: expected a folder that is closed to others (mode 0700), found mode "
            f"{0o700 | mode:04o}"
        )


def _marked(folder: Path) -> int:
    """Open the file that says which service uses the folder; a folder without it must be empty."""
    mark = folder / _MARK
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        opened = os.open(mark, flags)
    except FileNotFoundError:
        found = sorted(path.name for path in folder.iterdir())
        # Another process of this service may have made it meanwhile.
        if found and not mark.exists():
            raise _foreign(folder, found[0]) from None
        opened = os.open(mark, flags | os.O_CREAT, 0o600)
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(opened)
        raise _foreign(folder, _MARK)
    return opened


def _enter(folder: Path, mark: int, identity: bytes) -> None:
    """Lock the mark, alone at first and then shared with the other processes of this service."""
    until = time.monotonic() + _PATIENCE
    while True:
        if _locked(mark, fcntl.LOCK_EX):
            _clean(folder)
            os.ftruncate(mark, 0)
            os.pwrite(mark, identity, 0)
        if _locked(mark, fcntl.LOCK_SH):
            if os.pread(mark, len(identity) + 1, 0) == identity:
                return
            # The one that locked it last may have ended before it wrote, and nobody else be there.
            if not _locked(mark, fcntl.LOCK_EX):
                raise InvalidConfiguration(
                    f"runtime folder {folder}: expected a folder that no other service uses, found one in use"
                )
        elif time.monotonic() > until:
            raise InvalidConfiguration(
                f"runtime folder {folder}: another process has looked through it for {_PATIENCE:g} s"
            )
        else:
            time.sleep(0.01)


def _locked(mark: int, kind: int) -> bool:
    try:
        fcntl.flock(mark, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _clean(folder: Path) -> None:
    """Remove what an earlier service has left, once all of it is known to be a service's."""
    left = sorted(path for path in folder.iterdir() if path.name != _MARK)
    for path in left:
        mode = path.lstat().st_mode
        inner = _FOLDERS.get(path.name)
        if inner is None:
            if not (stat.S_ISREG(mode) and _FILES.fullmatch(path.name)):
                raise _foreign(folder, path.name)
        elif not stat.S_ISDIR(mode):
            raise _foreign(folder, path.name)
        else:
            for one in sorted(path.iterdir()):
                if one.is_symlink() or not inner(one.name):
                    raise _foreign(folder, f"{path.name}/{one.name}")
    for path in left:
        if path.name in _FOLDERS:
            shutil.rmtree(path)
        else:
            path.unlink()


def _foreign(folder: Path, name: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"runtime folder {folder}: expected an empty folder, or only files of an earlier service, found {name!r}"
    )
