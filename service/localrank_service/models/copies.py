"""Private copies of the versions that are served, one for all workers.

A version is copied while it is verified; its large arrays are mapped from the copy. So editing, cutting short, renaming
or deleting a published version changes no answer and kills no worker, and a worker that replaces another serves what the
others serve. A copy exists as long as a worker holds it; a version that nobody holds is read and verified anew.

Whoever makes a copy holds a lock of that version only, so a version that takes long delays no other.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from localrank import artifact
from localrank.artifact import Artifact
from localrank.artifact.signing import TrustedKeys
from localrank.errors import ArtifactError
from localrank.tables import generation
from localrank.tables.generation import Generation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.registry.versions import Reference

_log = logging.getLogger("localrank.service")

_LOCK = ".lock"
_DRAFT = ".draft-"


class Hold:
    """Keeps a copy from being removed as long as this object lives."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def __del__(self) -> None:
        os.close(self._descriptor)


class Kept(Protocol):
    """What was read."""

    @property
    def kept(self) -> bool:
        """Whether every file was copied."""
        ...


_Read = TypeVar("_Read", bound=Kept)


class PrivateCopies(ABC, Generic[_Read]):
    """The copies below ``folder``; without one every process reads for itself.

    Args:
        folder: private to this service.
        trusted_keys: file with public keys; one of them must have signed each version that is read. The file is read again
            for each version. Without a file no signature is needed.

    Attributes:
        noun: what is copied, in messages.
    """

    noun: ClassVar[str]

    def __init__(self, folder: Path | None, *, trusted_keys: Path | None = None) -> None:
        self._folder = folder
        self._trusted_keys = trusted_keys
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @abstractmethod
    def _loaded(self, folder: Path, keep: Path | None, trusted: TrustedKeys | None) -> _Read:
        """Read what is published in a folder."""

    @abstractmethod
    def _attached(self, copy: Path) -> _Read:
        """Read a copy."""

    def read(self, folder: Path, *, keep: Path | None = None) -> _Read:
        """Read a published version, and check its signature if one is needed."""
        trusted = None if self._trusted_keys is None else TrustedKeys.read(self._trusted_keys)
        return self._loaded(folder, keep, trusted)

    def hiding(self) -> list[tuple[str, str]]:
        """Return the paths that messages may hold, and what callers are shown instead."""
        given = ((self._trusted_keys, "LOCALRANK_REQUIRE_SIGNATURE"), (self._folder, "the runtime folder"))
        return [(str(path), name) for path, name in given if path is not None]

    def has(self, reference: Reference) -> bool:
        """Tell whether there is a copy of the version; its name may be anything."""
        if self._folder is None:
            return False
        try:
            return str(reference) in {path.name for path in self._folder.iterdir()}
        except OSError:
            return False

    def load(self, reference: Reference) -> tuple[_Read, Hold | None]:
        """Return a version: the one that other workers serve under this number, else the published one.

        Raises:
            ArtifactError: no worker serves it, and what is published is not there or does not verify.
        """
        if self._folder is None:
            return self.read(reference.path), None
        copy = self._folder / str(reference)
        try:
            with _locked(self._folder / f".{reference}{_LOCK}"):
                if (hold := _held(copy)) is None:
                    return self._made(reference, copy)
        except OSError as error:
            self._complain(reference, error.strerror or str(error))
            return self.read(reference.path), None
        try:
            return self._attached(copy), hold
        except ArtifactError as error:
            # Somebody changed what is private to this service.
            _log.error("the copy of %s %s is broken: %s", self.noun, reference, error)
            return self.read(reference.path), None

    def _made(self, reference: Reference, copy: Path) -> tuple[_Read, Hold | None]:
        with _locked(copy.with_name(_LOCK)):
            draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=copy.parent))
            hold = Hold(draft)
        try:
            read = self.read(reference.path, keep=draft)
            if read.kept:
                draft.rename(copy)
                return read, hold
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        self._complain(reference, "the disk is full")
        return read, None

    def _complain(self, reference: Reference, reason: str) -> None:
        _log.warning(
            "cannot copy %s %s to %s; every worker keeps it in its own memory: %s",
            self.noun,
            reference,
            self._folder,
            reason,
        )

    def sweep(self) -> None:
        """Remove the copies that nobody holds, unless somebody looks at them now or has removed the folder."""
        if self._folder is None:
            return
        with suppress(OSError), _locked(self._folder / _LOCK, fcntl.LOCK_NB):
            for path in self._folder.iterdir():
                if not path.name.endswith(_LOCK) and not _is_held(path):
                    shutil.rmtree(path, ignore_errors=True)


class Copies(PrivateCopies[Artifact]):
    """Copies of versions of models."""

    noun = "model"

    def _loaded(self, folder: Path, keep: Path | None, trusted: TrustedKeys | None) -> Artifact:
        return artifact.load(folder, keep=keep, trusted=trusted)

    def _attached(self, copy: Path) -> Artifact:
        return artifact.attach(copy)


class TableCopies(PrivateCopies[Generation]):
    """Copies of generations of tables."""

    noun = "table"

    def _loaded(self, folder: Path, keep: Path | None, trusted: TrustedKeys | None) -> Generation:
        return generation.load(folder, keep=keep, trusted=trusted)

    def _attached(self, copy: Path) -> Generation:
        return generation.attach(copy)


@contextmanager
def _locked(path: Path, flags: int = 0) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | flags)
        yield
    finally:
        os.close(descriptor)


def _held(copy: Path) -> Hold | None:
    """Hold a copy that others hold; remove one that nobody does."""
    with _locked(copy.with_name(_LOCK)):
        if _is_held(copy):
            return Hold(copy)
        shutil.rmtree(copy, ignore_errors=True)
    return None


def _is_held(copy: Path) -> bool:
    """Tell whether a worker holds the copy; the caller holds the lock, so none begins to."""
    try:
        descriptor = os.open(copy, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
