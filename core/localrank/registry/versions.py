"""Names, numbers and aliases of published models.

``models/<name>/<version>/`` is a version (`localrank.artifact`), ``models/<name>/aliases.json`` says which versions
``champion`` and other aliases stand for now, and which they stood for before. Two changes matter to a reader: the
rename that gives a version its number, and the rename that replaces ``aliases.json``. Each is one step, so a reader
needs no lock.

Invariant: an alias names a version that exists and verified when it was promoted.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
from bisect import bisect_left
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from localrank import artifact
from localrank.artifact.arrays import names_in, open_file, read_up_to
from localrank.artifact.manifest import parse_object
from localrank.artifact.signing import signatures_name, signed
from localrank.artifact.writing import drafted, locked, sweep
from localrank.disk import replace_file, sweep_drafts, sync
from localrank.errors import ArtifactCorrupt, ArtifactNotFound, PublishFailed
from localrank.registry.difference import Difference, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from localrank.artifact import Provenance
    from localrank.artifact.manifest import FileEntry
    from localrank.artifact.writing import Draft
    from localrank.ranker import Ranker

ALIASES = "aliases.json"
#: The alias that is served unless another is asked for.
CHAMPION = "champion"
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ALIAS_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
#: Bytes of ``aliases.json``.
LARGEST_ALIASES = 16 * 1024 * 1024
#: Names or versions in a message, at most.
_FEW = 5
#: Behind a version's number.
_REPORT = ".report.html"
#: The hidden name of a version that is being removed.
_REMOVED = ".removed-"
_T = TypeVar("_T", str, int)


class Described(Protocol):
    """A manifest of any kind that has been checked."""

    @property
    def sha256(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def files(self) -> Mapping[str, FileEntry]: ...


class Verified(Protocol):
    """A version that was read and found good."""

    @property
    def manifest(self) -> Described: ...


@dataclass(frozen=True, slots=True)
class Reference:
    """One version of one model."""

    name: str
    version: int
    path: Path

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Promotion:
    """An alias came to stand for a version.

    Attributes:
        version: for which.
        since: when, in UTC.
    """

    version: int
    since: str


@dataclass(frozen=True, slots=True)
class Pruned:
    """What `Registry.prune` removed.

    Attributes:
        versions: in ascending order.
        aliases: those that stood for one of them, and are gone too.
        leftovers: hidden folders of publishers that died.
    """

    versions: tuple[int, ...]
    aliases: tuple[str, ...]
    leftovers: tuple[str, ...]


class Registry:
    """The models below one folder.

    Args:
        models_dir: the folder.
        verify: raises what is wrong with the version in a folder, before an alias moves to it, and else returns what was
            read.
        noun: what is published here, in messages.

    Attributes:
        models_dir, verify: the arguments.
    """

    def __init__(
        self, models_dir: Path, *, verify: Callable[[Path], object] = artifact.verify, noun: str = "model"
    ) -> None:
        self.models_dir = Path(models_dir)
        self.verify = verify
        self._noun = noun

    def models(self) -> list[str]:
        """Return the names of the models that have a version."""
        return sorted({name for name, _ in self.published()})

    def published(self) -> list[tuple[str, int]]:
        """Return name and number of every version."""
        try:
            names = [entry.name for entry in self.models_dir.iterdir() if MODEL_NAME.fullmatch(entry.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [(name, number) for name in sorted(names) for number in self._numbers(name)]

    def versions(self, name: str) -> list[int]:
        """Return the versions of a model in ascending order."""
        numbers = self._numbers(_checked(name))
        if not numbers:
            found = few(self.models(), name)
            raise ArtifactNotFound(f"{self.models_dir}: expected a {self._noun} {name!r}, found {found}")
        return numbers

    def has(self, name: str, version: int | None = None) -> bool:
        """Tell whether there is a model of this name, which may be any text, or such a version of it.

        The work does not grow with the number of models.
        """
        if not MODEL_NAME.fullmatch(name):
            return False
        numbers = self._numbers(name)
        return bool(numbers) if version is None else version in numbers

    def aliases(self, name: str) -> dict[str, int]:
        """Return what each alias of a model stands for."""
        return {alias: history[-1].version for alias, history in self._read(_checked(name)).items()}

    def history(self, name: str, alias: str = CHAMPION) -> list[Promotion]:
        """Return what an alias stood for, oldest first; the last is what it stands for."""
        return self._read(_checked(name)).get(_checked_alias(alias), [])

    def resolve(self, reference: str) -> Reference:
        """Find ``name``, ``name@3`` or ``name@alias``; a bare name is its champion, else its only version.

        Raises:
            ArtifactNotFound: there is no such model, version or alias.
        """
        name, at, which = reference.partition("@")
        versions = self.versions(name)
        if not at:
            champion = self.aliases(name).get(CHAMPION)
            if champion is None and len(versions) > 1:
                raise ArtifactNotFound(
                    f"{name}: expected a {CHAMPION} or a single version, found versions {few(versions)} "
                    f"(promote one, or name a version: {name}@{versions[-1]})"
                )
            version = versions[0] if champion is None else self._aliased(name, CHAMPION, champion)
        elif _VERSION.fullmatch(which):
            version = int(which)
        elif which.isdecimal():
            raise ArtifactNotFound(
                f"{name}: expected a version number from 1, or an alias, found {which!r:.80}"
            )
        else:
            aliases = self.aliases(name)
            if _checked_alias(which) not in aliases:
                raise ArtifactNotFound(
                    f"{name}: expected an alias {which!r}, found {', '.join(sorted(aliases)) or 'none'}"
                )
            version = self._aliased(name, which, aliases[which])
        return self._existing(name, version)

    def verified(self, reference: Reference) -> Described:
        """Return the manifest of a version that verifies."""
        return cast("Verified", self.verify(reference.path)).manifest

    def sign(self, reference: Reference, key: Ed25519PrivateKey) -> None:
        """Sign a version that verifies; signatures by other keys stay."""
        sha256 = self.verified(reference).sha256
        family = reference.path.parent
        target = family / signatures_name(reference.path)
        with _failing(f"{target}: cannot be written"), locked(family):
            replace_file(target, signed(reference.path, sha256, key))

    def publish(self, name: str, ranker: Ranker, provenance: Provenance) -> Reference:
        """Write a new version of a model and verify what was written; aliases stay as they are.

        The version gets its number, the next after the highest that is or was used, only once it is whole and reproduces its probe.

        Raises:
            PublishFailed: it could not be written, or did not verify; nothing is left behind.
        """
        return self.place(name, lambda family: drafted(family, ranker, provenance))

    def place(self, name: str, drafting: Callable[[Path], AbstractContextManager[Draft]]) -> Reference:
        """Give what is written in a folder of a family the next number; see `publish`.

        Args:
            name: of the family.
            drafting: writes and verifies.
        """
        family = self.models_dir / _checked(name)
        with _failing(f"{family}: cannot publish a version"):
            family.mkdir(parents=True, exist_ok=True)
            sweep(family)
            with drafting(family) as draft:
                while True:
                    with locked(family):
                        version = self._next(name)
                        try:
                            draft.place(family / str(version), name, version)
                        except OSError as error:
                            # Somebody took the number without the lock; not every file system has locks.
                            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                                raise
                            continue
                    return Reference(name, version, family / str(version))

    def report_path(self, reference: Reference) -> Path:
        """Return where the report of a version is kept, if it has one.

        Beside the version's folder, as signatures are: the listing of a version covers its folder exactly, and nothing that
        serves needs the report.
        """
        return reference.path.with_name(f"{reference.version}{_REPORT}")

    def check_publishable(self, name: str) -> None:
        """Check the name and the folder before the training, so that `publish` does not refuse them hours later.

        Raises:
            ArtifactNotFound: the name cannot be one.
            PublishFailed: the folder cannot be written.
        """
        family = self.models_dir / _checked(name)
        with _failing(f"{family}: cannot publish a version"):
            there = next(folder for folder in (family, *family.absolute().parents) if folder.exists())
            if not there.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
            if not os.access(there, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))

    def promote(
        self, name: str, version: int, alias: str = CHAMPION, *, since: str | None = None
    ) -> Reference:
        """Let an alias stand for a version, once the version has verified.

        Promoting what the alias stands for already changes nothing.

        Args:
            name: of the model.
            version: of the model.
            alias: which, made if new.
            since: the time to note, by default now.
        """
        _checked_alias(alias)
        reference = self._existing(_checked(name), version)
        self.verify(reference.path)
        since = since or f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        with self._changing(name) as histories:
            # It may have been pruned since it was verified.
            self._existing(name, version)
            history = histories.setdefault(alias, [])
            if not history or history[-1].version != version:
                history.append(Promotion(version, since))
        return reference

    def rollback(self, name: str, alias: str = CHAMPION) -> Reference:
        """Let an alias stand again for what it stood for before, once that has verified."""
        while True:
            before = self._earlier(name, self.history(name, alias), alias)
            # Without the lock, because it takes time.
            self.verify(before.path)
            with self._changing(name) as histories:
                # Somebody may have moved the alias meanwhile.
                if before == self._earlier(name, histories.get(alias, []), alias):
                    histories[alias].pop()
                    return before

    def _earlier(self, name: str, history: list[Promotion], alias: str) -> Reference:
        """Return the version before the last of an alias's history."""
        if len(history) < 2:
            self.versions(name)
            found = f"only version {history[0].version}" if history else "none"
            raise ArtifactNotFound(
                f"{name}: expected an earlier version of the alias {alias!r}, found {found}"
            )
        return self._existing(name, history[-2].version)

    def prune(self, name: str, keep: int = 5, *, force: bool = False) -> Pruned:
        """Remove all but the ``keep`` newest versions, and what publishers that died have left.

        Older versions that an alias stands for or stood for stay as well. With ``force`` they go: an alias that stands
        for a removed version is removed, and histories forget removed versions.
        """
        if keep < 0:
            raise PublishFailed(f"{name}: expected to keep 0 versions or more, found {keep}")
        family = self.models_dir / _checked(name)
        self.versions(name)
        with _failing(f"{family}: cannot remove versions"):
            leftovers = sweep(family)
            with locked(family):
                _tidy(family)
                numbers = self._numbers(name)
                before = self._read(name)
                histories = {alias: list(history) for alias, history in before.items()}
                needed = {one.version for history in histories.values() for one in history}
                newest = set(numbers[-keep:]) if keep else set()
                going = [
                    number for number in numbers if number not in newest and (force or number not in needed)
                ]
                ended = [alias for alias, history in histories.items() if history[-1].version in going]
                for alias in ended:
                    del histories[alias]
                for alias, history in histories.items():
                    histories[alias] = [one for one in history if one.version not in going]
                if histories != before:
                    replace_file(family / ALIASES, render_aliases(histories))
                # Only now, because no alias may ever name a removed version, even if this stops halfway.
                for number in going:
                    remove_version(family, number)
        return Pruned(tuple(going), tuple(sorted(ended)), tuple(leftovers))

    def diff(self, before: Reference | str, after: Reference | str) -> Difference:
        """Compare two versions, of one model or of two; both must verify."""
        sides = [self.resolve(side) if isinstance(side, str) else side for side in (before, after)]
        return compare(*(artifact.load(side.path) for side in sides))

    def _next(self, name: str) -> int:
        """Return a number that neither a version has nor an alias ever stood for: readers know versions by their numbers."""
        used = self._numbers(name)
        # Without readable aliases a version can still be published; promoting it says what is wrong.
        with suppress(ArtifactCorrupt):
            used += [one.version for history in self._read(name).values() for one in history]
        return max(used, default=0) + 1

    def _numbers(self, name: str) -> list[int]:
        try:
            entries = list((self.models_dir / name).iterdir())
        except OSError as error:
            # No folder, or a link that leads to none.
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                raise
            return []
        return sorted(
            int(entry.name)
            for entry in entries
            if _VERSION.fullmatch(entry.name) and entry.is_dir() and not entry.is_symlink()
        )

    def _existing(self, name: str, version: int) -> Reference:
        versions = self.versions(name)
        if version not in versions:
            raise ArtifactNotFound(f"{name}: expected version {version}, found {few(versions, version)}")
        return Reference(name, version, self.models_dir / name / str(version))

    def _aliased(self, name: str, alias: str, version: int) -> int:
        """Return the version of an alias, which must be there."""
        if not self.has(name, version):
            found = few(self._numbers(name), version)
            advice = gone(self._noun, name, alias)
            raise ArtifactNotFound(
                f"{name}: expected version {version}, as {alias!r} says, found {found}; {advice}"
            )
        return version

    def _read(self, name: str) -> dict[str, list[Promotion]]:
        family = self.models_dir / name
        try:
            handle = os.open(family, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return {}
        try:
            if ALIASES not in names_in(handle):
                return {}
            with open_file(handle, ALIASES) as file:
                return parse_aliases(read_up_to(file, LARGEST_ALIASES + 1))
        except ArtifactCorrupt as error:
            raise ArtifactCorrupt(f"{family}/{error}") from None
        except OSError as error:
            raise ArtifactCorrupt(f"{family}/{ALIASES}: cannot be read: {error.strerror}") from error
        finally:
            os.close(handle)

    @contextmanager
    def _changing(self, name: str) -> Iterator[dict[str, list[Promotion]]]:
        """Hold the family's lock, hand out its aliases, and replace the file when they have changed."""
        family = self.models_dir / _checked(name)
        self.versions(name)
        with _failing(f"{family / ALIASES}: cannot be written"), locked(family):
            _tidy(family)
            before = self._read(name)
            histories = {alias: list(history) for alias, history in before.items()}
            yield histories
            if histories != before:
                replace_file(family / ALIASES, render_aliases(histories))


def _checked(name: str) -> str:
    if not MODEL_NAME.fullmatch(name):
        raise ArtifactNotFound(
            f"expected a model name of letters, digits, '.', '_' and '-' that starts with a letter or digit, "
            f"found {name!r:.80}"
        )
    return name


def _checked_alias(alias: str) -> str:
    if not ALIAS_NAME.fullmatch(alias):
        raise ArtifactNotFound(
            f"expected an alias of letters, digits, '.', '_' and '-' that starts with a letter, found {alias!r:.80}"
        )
    return alias


def gone(noun: str, name: str, alias: str = CHAMPION) -> str:
    """Return what to do if somebody has deleted what an alias stands for."""
    option = "" if alias == CHAMPION else f" --alias {alias}"
    return (
        f"its files are gone; localrank {noun}s rollback {name}{option} goes back to the one before it, localrank {noun}s "
        f"promote {name} NUMBER{option} to any that is there"
    )


def few(found: Sequence[_T], near: _T | None = None) -> str:
    """Return sorted names or numbers for a message; of many, those nearest to the one asked for, else the last."""
    at = len(found) if near is None else bisect_left(found, near)
    begin = max(min(at - _FEW // 2, len(found) - _FEW), 0)
    shown = found[begin : begin + _FEW]
    more = len(found) - len(shown)
    return (", ".join(map(str, shown)) or "none") + (f" and {more:,} more" if more else "")


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Turn an error of the file system into one sentence."""
    try:
        yield
    except OSError as error:
        raise PublishFailed(f"{what}: {error.strerror or error}") from error


def _tidy(family: Path) -> None:
    """Remove the unfinished work of processes that are gone; the caller holds the lock."""
    for path in family.glob(f"{_REMOVED}*"):
        shutil.rmtree(path, ignore_errors=True)
    sweep_drafts(family)


def remove_version(family: Path, number: int) -> None:
    """Take a version's name away at once, then its files."""
    hidden = Path(tempfile.mkdtemp(dir=family, prefix=_REMOVED))
    (family / str(number)).rename(hidden / str(number))
    for beside in (signatures_name(family / str(number)), f"{number}{_REPORT}"):
        (family / beside).unlink(missing_ok=True)
    sync(family)
    shutil.rmtree(hidden)


def render_aliases(histories: Mapping[str, list[Promotion]]) -> bytes:
    """Return the content of ``aliases.json``."""
    document = {
        "aliases": {alias: history[-1].version for alias, history in sorted(histories.items())},
        "history": {
            alias: [{"version": one.version, "since": one.since} for one in history]
            for alias, history in sorted(histories.items())
        },
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def parse_aliases(content: bytes) -> dict[str, list[Promotion]]:
    """Return what each alias stood for, oldest first, from the content of ``aliases.json``."""
    document = parse_object(content, ALIASES, LARGEST_ALIASES)
    try:
        histories = {
            _checked_alias(alias): [Promotion(**one) for one in history]
            for alias, history in document["history"].items()
        }
        current = {alias: history[-1].version for alias, history in histories.items()}
    except (KeyError, TypeError, IndexError, AttributeError, ArtifactNotFound) as error:
        raise ArtifactCorrupt(
            f"{ALIASES}: expected aliases and their history, found {error!r:.100}"
        ) from None
    promotions = [one for history in histories.values() for one in history]
    if not all(
        type(one.version) is int and one.version >= 1 and isinstance(one.since, str) for one in promotions
    ):
        raise ArtifactCorrupt(
            f"{ALIASES}: expected a version and a time for each promotion, found something else"
        )
    if document != {"aliases": current, "history": document["history"]}:
        raise ArtifactCorrupt(
            f"{ALIASES}: expected each alias to name the last version of its history, found another version"
        )
    return histories


def load(path: Path | str) -> Ranker:
    """Return the ranker of a model's folder (its champion, else its only version) or of one version's folder.

    It is the ranker that the service runs. Later changes of the files do not change it.
    """
    folder = Path(path)
    if not (folder / "manifest.json").exists() and folder.is_dir():
        resolved = folder.resolve()
        folder = Registry(resolved.parent).resolve(resolved.name).path
    return artifact.load(folder).ranker
