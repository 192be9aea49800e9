"""A folder of models on this machine that follows one at a URL.

It is a folder of models like any other: a service reads it, and goes on with it when the URL cannot be reached. It holds the
versions that aliases stand for at the URL. A version is fetched beside its place, verified there (every digest, and its
probe) and renamed into it, so it is there once and whole, or not at all. An alias moves only after its version is there.

Processes and services may share the folder: one at a time pulls, by a lock that dies with its process.

What is at the URL is not trusted: files of unknown size are read up to a limit, every file, version and pull has a
deadline, and a version that needs more room than there is on the disk is not fetched.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from localrank import artifact
from localrank.artifact.manifest import LARGEST_MANIFEST, MANIFEST, Manifest
from localrank.artifact.signing import LARGEST_SIGNATURES, signatures_name
from localrank.artifact.writing import locked, staging, sweep
from localrank.disk import read_plain, replace_file, sync
from localrank.errors import (
    ArtifactCorrupt,
    ArtifactError,
    ArtifactNotFound,
    InvalidConfiguration,
    PublishFailed,
    StoreUnavailable,
)
from localrank.registry.tables import FOLDER
from localrank.registry.versions import (
    ALIASES,
    CHAMPION,
    LARGEST_ALIASES,
    Registry,
    parse_aliases,
    remove_version,
    render_aliases,
)
from localrank.tables import generation
from localrank.tables.generation import TableManifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from localrank.registry.remote import RemoteStore
    from localrank.registry.versions import Described, Promotion

#: After this many seconds, existing versions are compared with the store again, and broken versions are fetched again.
_THOROUGH = 300.0
#: After this many seconds a pull begins no further version; the next pull goes on.
_PULL = 600.0
#: Bytes per second. A version that comes more slowly is given up.
_SLOWEST = 256 * 1024
#: Files in the folder: the followed URL and its errors; a file whose time says when the URL was last read; the lock of
#: one pull; the lock of the process that pulls repeatedly.
_NOTE = ".remote.json"
_LARGEST_NOTE = 1 << 24
_SEEN = ".remote.seen"
_PULLING = ".remote.lock"
_LEADING = ".remote.leader"
#: Of an alias's history, how many versions stay in a folder that only follows.
_KEPT = 2


@dataclass(frozen=True, slots=True)
class Moved:
    """An alias came to stand for another version."""

    name: str
    alias: str
    version: int
    before: int | None


@dataclass(frozen=True, slots=True)
class MirrorNote:
    """What the folder says of the URL that it follows.

    Attributes:
        url: which one.
        error: why it could not be read, if the last attempt failed.
        broken: why a version that an alias stands for there is not here, by address.
    """

    url: str
    error: str | None = None
    broken: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Pulled:
    """What a pull has done.

    Attributes:
        fetched: versions that were not there, as ``name@3``.
        moved: aliases.
        removed: versions that no alias stands for any more.
        broken: why a version is not here, by address.
    """

    fetched: list[str] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return bool(self.fetched or self.moved or self.removed)

    def lines(self) -> list[str]:
        """Return what was done, one line for each thing."""
        return [
            *(f"fetched {version}" for version in self.fetched),
            *(
                f"{one.name}@{one.alias} is version {one.version}"
                + ("" if one.before is None else f", was {one.before}")
                for one in self.moved
            ),
            *(f"removed {version}" for version in self.removed),
        ]


class _Kind(NamedTuple):
    """What a family holds.

    Attributes:
        folder: below that of the models.
        parse: reads a manifest.
        verify: reads a version or raises what is wrong with it.
    """

    folder: str
    parse: Callable[[bytes], Described]
    verify: Callable[[Path], object]


_MODELS = _Kind("", Manifest.parse, artifact.verify)
_TABLES = _Kind(f"{FOLDER}/", TableManifest.parse, generation.verify)


class Mirror:
    """The folder ``models_dir``, which follows ``store``.

    The tables that its versions look into are followed like them, and fetched before an alias moves to a version.
    """

    def __init__(self, store: RemoteStore, models_dir: Path, kind: _Kind = _MODELS) -> None:
        self._store = store
        self._kind = kind
        self._folder = models_dir / kind.folder
        self._registry = Registry(self._folder)
        self._tables = Mirror(store, models_dir, _TABLES) if kind is _MODELS else None
        #: The tables that each version looks into.
        self._needed: dict[str, tuple[str, ...]] = {}
        self._looked: dict[str, bytes] = {}
        self._good: dict[str, bytes] = {}
        self._broken: dict[str, str] = {}
        self._thorough_at = 0.0
        self._until = 0.0

    def pull(self, names: Sequence[str] = ()) -> Pulled:
        """Fetch what the aliases there stand for, then let the aliases here be the same.

        A broken version does not stop the others. Only a folder that began as a copy of this URL forgets old
        versions.

        Args:
            names: of models; without any, all that are there.

        Raises:
            InvalidConfiguration: the folder follows another URL.
            StoreUnavailable: the URL cannot be read.
            PublishFailed: the folder cannot be written.
        """
        pulled = Pulled()
        self._until = time.monotonic() + _PULL
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            owned = self._claim()
            if time.monotonic() >= self._thorough_at:
                self._thorough_at = time.monotonic() + _THOROUGH
                self._looked.clear()
            try:
                for name in names or self._store.models():
                    self._follow(name, pulled, owned=owned, asked=bool(names))
                self._renew_tables(pulled, owned=owned)
            except StoreUnavailable as error:
                self._say(MirrorNote(self._store.url, str(error), self._broken), owned=owned)
                raise
            (self._folder / _SEEN).touch()
            self._say(MirrorNote(self._store.url, None, self._broken), owned=owned)
        except OSError as error:
            where = error.filename or self._folder
            raise PublishFailed(
                f"{where}: cannot write the fetched files: {error.strerror or error}"
            ) from error
        pulled.broken = {**pulled.broken, **self._broken}
        return pulled

    def _renew_tables(self, pulled: Pulled, *, owned: bool) -> None:
        """Fetch new generations of the tables that the versions here look into."""
        tables = self._tables
        if tables is None:
            return
        there = {f"{name}/{version}" for name, version in self._registry.published()}
        for table in sorted({one for path in there for one in self._needed.get(path, ())}):
            tables.follow(table, pulled, self._until, owned=owned)
        pulled.broken |= {f"table {name}": reason for name, reason in tables._broken.items()}  # noqa: SLF001

    def follow(self, name: str, pulled: Pulled, until: float, *, owned: bool) -> None:
        """Let a family here be like the one there.

        Args:
            name: of the family.
            pulled: gets what was done.
            until: no further version is begun after this time.
            owned: whether this folder only follows the store.
        """
        self._until = until
        self._folder.mkdir(parents=True, exist_ok=True)
        if time.monotonic() >= self._thorough_at:
            self._thorough_at = time.monotonic() + _THOROUGH
            self._looked.clear()
        self._follow(name, pulled, owned=owned, asked=True)

    def _claim(self) -> bool:
        """Tell whether this folder only follows the store; refuse one with models of another."""
        note = read_note(self._folder)
        if note is None and self._registry.models():
            return False
        if note is None or note.url != self._store.url:
            check_copy(self._folder, self._store.url)
            self._say(MirrorNote(self._store.url), owned=True)
        return True

    def _say(self, note: MirrorNote, *, owned: bool) -> None:
        """Write what others should know, if it has changed."""
        if owned and read_note(self._folder) != note:
            content = {"url": note.url, "error": note.error, "broken": dict(note.broken)}
            replace_file(self._folder / _NOTE, (json.dumps(content, indent=2) + "\n").encode())

    def _follow(self, name: str, pulled: Pulled, *, owned: bool, asked: bool) -> None:
        self._check_time()
        try:
            content = self._store.read(f"{self._kind.folder}{name}/{ALIASES}", LARGEST_ALIASES)
        except ArtifactCorrupt as error:
            self._forget(name)
            self._looked.pop(name, None)
            self._broken[name] = str(error)
            return
        if content is None:
            if asked:
                raise ArtifactNotFound(
                    f"{self._store.url}/{self._kind.folder}{name}: expected a model with aliases, found none"
                )
            return
        if content == self._looked.get(name):
            return
        self._forget(name)
        try:
            wanted = parse_aliases(content)
        except ArtifactCorrupt as error:
            self._broken[name] = f"{name}/{error}"
            self._looked[name] = content
            return
        family = self._folder / name
        family.mkdir(exist_ok=True)
        sweep(family)
        here = self._here(name)
        histories = {}
        settled = True
        for alias, history in wanted.items():
            try:
                self._have(name, history[-1].version, pulled, owned=owned)
            except (ArtifactError, StoreUnavailable) as error:
                # If the store fails, the next pull tries again; if the version itself is broken, a later one does.
                settled &= not isinstance(error, StoreUnavailable)
                address = name if alias == CHAMPION else f"{name}@{alias}"
                self._broken[address] = f"version {history[-1].version}: {error}"
                if alias in here:
                    histories[alias] = here[alias]
            else:
                histories[alias] = history
        self._move(name, here, histories, pulled)
        if owned:
            self._tidy(name, histories, pulled)
        if settled:
            self._looked[name] = content

    def _forget(self, name: str) -> None:
        """Forget what was wrong with a model."""
        for address in [one for one in self._broken if one.partition("@")[0] == name]:
            del self._broken[address]

    def _here(self, name: str) -> dict[str, list[Promotion]]:
        """Return the aliases of a model; none if the file is damaged, which the store's replaces."""
        try:
            return {alias: self._registry.history(name, alias) for alias in self._registry.aliases(name)}
        except ArtifactError:
            return {}

    def _have(self, name: str, version: int, pulled: Pulled, *, owned: bool) -> None:
        """See to it that a version is here as it is there, and the tables that it looks into."""
        self._check_time()
        path, there = f"{name}/{version}", f"{self._kind.folder}{name}"
        manifest = self._store.read(f"{there}/{version}/{MANIFEST}", LARGEST_MANIFEST)
        if manifest is None:
            raise ArtifactNotFound(f"{path}/{MANIFEST}: expected a file, found none")
        folder = self._folder / name / str(version)
        signatures = self._store.read(f"{there}/{signatures_name(folder)}", LARGEST_SIGNATURES)
        if not self._is_good(folder, manifest):
            self._fetch(path, folder, manifest)
            pulled.fetched.append(f"{name}@{version}")
        self._good[path] = manifest
        if self._tables is not None:
            self._needed[path] = tuple(Manifest.parse(manifest).contract.tables)
            for table in self._needed[path]:
                self._tables.follow(table, pulled, self._until, owned=owned)
        beside = folder.with_name(signatures_name(folder))
        if signatures is not None and signatures != _read(beside, LARGEST_SIGNATURES):
            with locked(folder.parent):
                replace_file(beside, signatures)

    def _check_time(self) -> None:
        if time.monotonic() > self._until:
            raise StoreUnavailable(
                f"{self._store.url}: expected all models within {_PULL:g} seconds, found more; the next pull goes on"
            )

    def _is_good(self, folder: Path, manifest: bytes) -> bool:
        """Tell whether a version is here and not damaged.

        Raises:
            ArtifactCorrupt: there is another one under this number.
        """
        if not folder.is_dir():
            return False
        found = folder / MANIFEST
        path = f"{folder.parent.name}/{folder.name}"
        try:
            content = read_plain(found, LARGEST_MANIFEST)
            self._kind.parse(content)
            # Each process reads a version once here; loading it reads it again.
            if content == manifest and self._good.get(path) != manifest:
                self._kind.verify(folder)
        except (OSError, ArtifactError):
            return False
        if content != manifest:
            raise ArtifactCorrupt(
                f"{path}/{MANIFEST}: expected the same version as in this folder, found a different one with "
                "this number; a published version never changes: publish the new one under a new number, or "
                "remove the one in this folder"
            )
        return True

    def _fetch(self, path: str, folder: Path, content: bytes) -> None:
        """Copy a version beside its place, verify it there, and give it its name."""
        with staging(folder.parent) as draft:
            (draft / MANIFEST).write_bytes(content)
            try:
                manifest = self._kind.parse(content)
                if (found := f"{manifest.name}/{manifest.version}") != path:
                    raise ArtifactCorrupt(f"{MANIFEST}: expected {path}, found {found}")
                size = sum(entry.size for entry in manifest.files.values())
                if size > (free := shutil.disk_usage(draft).free):
                    raise ArtifactCorrupt(
                        f"expected at most {free} bytes, as are free on the disk, found {size}"
                    )
                until = time.monotonic() + self._store.patience + size / _SLOWEST
                for name, entry in manifest.files.items():
                    seconds = max(until - time.monotonic(), 0.0)
                    self._store.fetch(
                        f"{self._kind.folder}{path}/{name}", draft / name, entry.size, seconds=seconds
                    )
                self._kind.verify(draft)
            except ArtifactError as error:
                # The message must not show where it was put meanwhile.
                said = str(error).removeprefix(f"{draft}: ").removeprefix(f"{path}/")
                raise type(error)(f"{path}/{said}") from error
            for one in draft.iterdir():
                sync(one)
            sync(draft)
            with locked(folder.parent):
                if folder.exists():
                    remove_version(folder.parent, int(folder.name))
                draft.rename(folder)
                sync(folder.parent)

    def _move(
        self,
        name: str,
        before: Mapping[str, list[Promotion]],
        after: Mapping[str, list[Promotion]],
        pulled: Pulled,
    ) -> None:
        """Let the aliases of a model be these."""
        if before == after:
            return
        family = self._folder / name
        with locked(family):
            replace_file(family / ALIASES, render_aliases(after))
        for alias, history in sorted(after.items()):
            old = before[alias][-1].version if alias in before else None
            if old != history[-1].version:
                pulled.moved.append(Moved(name, alias, history[-1].version, old))

    def _tidy(self, name: str, histories: Mapping[str, list[Promotion]], pulled: Pulled) -> None:
        """Remove versions that no alias stands for now or stood for before that."""
        needed = {one.version for history in histories.values() for one in history[-_KEPT:]}
        family = self._folder / name
        for number in self._registry.versions(name) if name in self._registry.models() else ():
            if number not in needed:
                with locked(family):
                    remove_version(family, number)
                pulled.removed.append(f"{name}@{number}")


def check_copy(models_dir: Path, url: str) -> None:
    """Refuse a folder that holds other models than a copy of those at the URL.

    Raises:
        InvalidConfiguration: it does.
    """
    names = Registry(models_dir).models()
    if not names:
        return
    note = read_note(models_dir)
    if note is None:
        raise InvalidConfiguration(
            f"{models_dir}: expected an empty folder or a copy of {url}, found the models {', '.join(names)[:200]}; choose "
            "another folder"
        )
    if note.url != url:
        raise InvalidConfiguration(
            f"{models_dir}: expected a copy of {url}, found one of {note.url}; choose another folder"
        )


def read_note(models_dir: Path) -> MirrorNote | None:
    """Return what a folder says of the URL that it follows, if it follows one."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        members = json.loads(read_plain(models_dir / _NOTE, _LARGEST_NOTE))
        return MirrorNote(str(members["url"]), members["error"], dict(members["broken"]))
    return None


def seen(models_dir: Path) -> float | None:
    """Return when the URL was last read, in seconds of Unix time."""
    with suppress(OSError):
        return (models_dir / _SEEN).stat().st_mtime
    return None


def _read(path: Path, largest: int) -> bytes | None:
    with suppress(OSError):
        return read_plain(path, largest)
    return None


@contextmanager
def leading(models_dir: Path) -> Iterator[None]:
    """Hold the lock of the one process that keeps a folder up to date.

    Raises:
        BlockingIOError: somebody else is.
        PublishFailed: the folder cannot be written.
    """
    with _held(models_dir, _LEADING, fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield


@contextmanager
def pulling(models_dir: Path) -> Iterator[None]:
    """Wait until no other process pulls into the folder, and hold the lock for it.

    Raises:
        PublishFailed: the folder cannot be written.
    """
    with _held(models_dir, _PULLING, fcntl.LOCK_EX):
        yield


@contextmanager
def _held(models_dir: Path, name: str, how: int) -> Iterator[None]:
    try:
        models_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(models_dir / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise PublishFailed(f"{models_dir}: cannot be written: {error.strerror or error}") from error
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)
