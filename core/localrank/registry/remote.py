"""A folder of models at a URL: its address, reading and writing it, and sending versions to it.

URLs of folders of models, before anything is imported that could read one.

A folder of models at a URL: an object store, a web server, a shared volume.

It is laid out as a folder of models on a disk is. ``fsspec`` reads and writes it and is imported when a store is opened; the
libraries for single kinds of store (s3fs, gcsfs, adlfs) are the user's choice. A store cannot rename a folder, so a version
that is being written can be seen: whoever reads goes by ``aliases.json``, which is written last.

Nothing there is trusted. Every file is copied to the disk up to a limit before it is read, within a deadline (which
fsspec has for web servers and object stores; a mounted volume has none). A web server may not redirect to another
server. On a volume only plain files are read.

What does not belong here: whether what was fetched is good (`localrank.registry.mirror`).

From a folder of models to one at a URL: versions first, aliases last.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from localrank import artifact
from localrank.artifact.arrays import PIECE, open_file, read_up_to
from localrank.artifact.manifest import LARGEST_MANIFEST, MANIFEST
from localrank.artifact.signing import LARGEST_SIGNATURES, signatures_name
from localrank.disk import read_plain, replace_file
from localrank.errors import (
    ArtifactCorrupt,
    ArtifactNotFound,
    InvalidConfiguration,
    LocalRankError,
    PublishFailed,
    StoreUnavailable,
)
from localrank.extras import installing
from localrank.registry.tables import FOLDER, tables_in
from localrank.registry.versions import ALIASES, LARGEST_ALIASES, MODEL_NAME, parse_aliases, render_aliases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.registry.versions import Reference, Registry

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://.", re.IGNORECASE)


def check_url(url: str) -> str:
    """Return the URL without slashes at its end.

    Raises:
        ValueError: the text is not a URL, or it holds a password, which logs and answers would show.
    """
    if not _SCHEME.match(url):
        raise ValueError("expected a URL such as s3://bucket/models or file:///srv/models")
    parts = urlsplit(url)
    if parts.password is not None:
        raise ValueError(
            "expected a URL without a password; give it as the store's library reads it from the environment"
        )
    if parts.scheme.lower() in {"file", "local"} and parts.netloc:
        raise ValueError(f"expected a folder from the root, such as file:///{parts.netloc}{parts.path}")
    if parts.query or parts.fragment:
        raise ValueError("expected the URL of a folder, found a query or a fragment")
    return url.rstrip("/") if parts.path.strip("/") or parts.netloc else url


def without_password(url: str) -> str:
    """Return the URL as it may be shown."""
    return re.sub(r"(?<=:)[^:@/]*(?=@)", "…", url)


_LOCAL = ("file", "local")
_WEB = ("http", "https")
#: Models of a folder, and bytes of a page that lists them.
_MOST_MODELS = 10_000
_LARGEST_PAGE = 4 * 1024 * 1024
_LINK = re.compile(r"href\s{0,8}=\s{0,8}[\"']?([^\"'\s>]{1,2048})", re.IGNORECASE)


class RemoteStore:
    """The folder at ``url``.

    Args:
        url: of the folder.
        patience: seconds after which a small file is given up.

    Attributes:
        url, patience: the arguments.

    Raises:
        InvalidConfiguration: the text is not a URL, or the library that reads it is not installed.
    """

    def __init__(self, url: str, *, patience: float = 30.0) -> None:
        try:
            self.url = check_url(url)
        except ValueError as error:
            raise InvalidConfiguration(f"{error}, found {without_password(url)!r:.200}") from None
        self.patience = patience
        if find_spec("fsspec") is None:
            raise InvalidConfiguration(f"{self.url}: expected fsspec: {installing('remote')}")
        import fsspec

        scheme = self.url.partition("://")[0].lower()
        self._web, self._local = scheme in _WEB, scheme in _LOCAL
        try:
            self._files, self._root = fsspec.core.url_to_fs(
                self.url, **({"get_client": _session} if self._web else {})
            )
        except (ImportError, ValueError) as error:
            raise InvalidConfiguration(
                f"{self.url}: expected a URL that fsspec can read: {_said(error)}"
            ) from None
        except Exception as error:
            raise StoreUnavailable(f"{self.url}: cannot be opened: {_said(error)}") from error
        self._root = str(self._root).rstrip("/")

    def models(self) -> list[str]:
        """Return the names of the folders there, which may be models."""
        with self._asking("", "expected a folder of models"):
            if self._local:
                found = [entry.name for entry in os.scandir(self._root) if entry.is_dir()]
            elif self._web:
                found = self._linked()
            else:
                self._files.invalidate_cache()
                entries = self._files.ls(self._root, detail=True, **self._within(self.patience))
                found = [
                    str(entry["name"]).rstrip("/").rpartition("/")[2]
                    for entry in entries
                    if entry["type"] != "file"
                ]
        names = {name for name in found if MODEL_NAME.fullmatch(name)}
        if len(names) > _MOST_MODELS:
            raise StoreUnavailable(f"{self.url}: expected at most {_MOST_MODELS} models, found {len(names)}")
        return sorted(names)

    def read(self, path: str, largest: int) -> bytes | None:
        """Return a small file, or ``None`` if it is missing.

        Raises:
            ArtifactCorrupt: it is larger, or no plain file.
            StoreUnavailable: it cannot be read now.
        """
        with tempfile.TemporaryDirectory(prefix="localrank-") as folder:
            target = Path(folder) / "file"
            try:
                self._copy(path, target, largest, self.patience)
            except _MISSING:
                return None
            return target.read_bytes()

    def fetch(self, path: str, target: Path, size: int, *, seconds: float) -> None:
        """Copy a file to the disk.

        Raises:
            ArtifactCorrupt: the file is missing, or longer than ``size``, or no plain file.
            StoreUnavailable: it cannot be read now, or takes more than these seconds.
        """
        try:
            self._copy(path, target, size, seconds)
        except _MISSING:
            raise ArtifactCorrupt(f"{path}: expected a file, found none") from None

    def write(self, path: str, content: bytes) -> None:
        """Write a small file at once, whole or not at all if the store can do that."""
        with self._asking(path, "cannot be written"):
            if self._local:
                target = Path(self._at(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                replace_file(target, content)
            else:
                self._files.pipe_file(self._at(path), content)

    def send(self, source: Path, path: str) -> None:
        """Copy a file from the disk."""
        with self._asking(path, "cannot be written"):
            if self._local:
                Path(self._at(path)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, self._at(path))
            else:
                self._files.put_file(str(source), self._at(path))

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _copy(self, path: str, target: Path, largest: int, seconds: float) -> None:
        """Copy a file to the disk, up to a limit. Errors that say that the file is missing are left to the caller."""
        with self._asking(path, "cannot be read", seconds):
            if self._local:
                _copy_plain(Path(self._at(path)), target, path, largest)
            else:
                self._files.get_file(
                    self._at(path), str(target), callback=_bounded(path, largest), **self._within(seconds)
                )
            if target.stat().st_size > largest:
                raise ArtifactCorrupt(f"{path}: expected at most {largest} bytes, found more")

    def _linked(self) -> list[str]:
        """Return the names that the page of a folder links to as folders."""
        with tempfile.TemporaryDirectory(prefix="localrank-") as folder:
            page = Path(folder) / "page"
            try:
                self._files.get_file(
                    f"{self._root}/",
                    str(page),
                    callback=_bounded("the list of models", _LARGEST_PAGE),
                    **self._within(self.patience),
                )
            except ArtifactCorrupt as error:
                raise StoreUnavailable(f"{self.url}: {error}") from None
            text = page.read_text(errors="replace")
        names = []
        for link in set(_LINK.findall(text)):
            try:
                whole = urljoin(f"{self._root}/", link)
            except ValueError:
                continue
            if whole.startswith(f"{self._root}/") and whole.endswith("/"):
                names.append(whole[len(self._root) + 1 : -1])
        return names

    def _within(self, seconds: float) -> dict[str, float]:
        """Return the deadline as the library takes it, if it can keep one."""
        return {"timeout": max(seconds, 0.001)} if self._files.async_impl else {}

    @contextmanager
    def _asking(self, path: str, what: str, seconds: float | None = None) -> Iterator[None]:
        """Turn any error of the library of the store into one sentence."""
        try:
            yield
        except LocalRankError:
            raise
        except _MISSING:
            if seconds is None:
                raise StoreUnavailable(f"{self._shown(path)}: {what}: there is none") from None
            raise
        except TimeoutError:
            within = self.patience if seconds is None else seconds
            raise StoreUnavailable(f"{self._shown(path)}: {what} within {within:.3g} seconds") from None
        except Exception as error:
            raise StoreUnavailable(f"{self._shown(path)}: {what}: {_said(error)}") from error

    def _shown(self, path: str) -> str:
        return f"{self.url}/{path}".rstrip("/")


#: What says that there is no such file.
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


def _copy_plain(source: Path, target: Path, path: str, largest: int) -> None:
    """Copy a plain file of a mounted volume; refuse a link, a pipe or a device without waiting."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    if source.parent.is_symlink():
        raise ArtifactCorrupt(f"{Path(path).parent}: expected a folder, found a symbolic link")
    folder = os.open(source.parent, flags)
    try:
        os.stat(source.name, dir_fd=folder, follow_symlinks=False)
        with open_file(folder, source.name) as file, target.open("wb") as copy:
            left = largest + 1
            while part := read_up_to(file, min(left, PIECE)):
                left -= copy.write(part)
    except ArtifactCorrupt as error:
        raise ArtifactCorrupt(f"{Path(path).parent}/{error}") from None
    finally:
        os.close(folder)


async def _session(**arguments: Any) -> Any:
    """Return an HTTP session that follows no redirect to another server and expands nothing.

    The deadlines are those of `RemoteStore`.
    """
    import aiohttp

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_check_redirect)
    return aiohttp.ClientSession(
        **arguments,
        auto_decompress=False,
        headers={"Accept-Encoding": "identity"},
        timeout=aiohttp.ClientTimeout(total=None),
        trace_configs=[trace],
    )


async def _check_redirect(_session: Any, _context: Any, redirect: Any) -> None:
    from yarl import URL

    headers = redirect.response.headers
    there = redirect.url.join(URL(headers.get("Location") or headers.get("URI") or ""))
    if there.origin() != redirect.url.origin():
        raise StoreUnavailable(
            f"{redirect.url}: expected no redirect to another server, found one to {there.origin()}"
        )


def _bounded(path: str, size: int) -> Any:
    """Return a function that stops a copy that becomes too long."""
    from fsspec.callbacks import Callback

    class Bounded(Callback):  # type: ignore[misc]
        def relative_update(self, inc: int = 1) -> None:
            super().relative_update(inc)
            if self.value > size:
                raise ArtifactCorrupt(f"{path}: expected at most {size} bytes, found more")

    return Bounded()


def _said(error: Exception) -> str:
    """Return the message of an error, or its class if it has no message."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:300] or type(error).__name__


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push has done.

    Attributes:
        name: of the model.
        sent: versions that were not there.
        aliases: what each stands for there now.
    """

    name: str
    sent: tuple[int, ...]
    aliases: dict[str, int]


def push(store: RemoteStore, registry: Registry, name: str, *, force: bool = False) -> Pushed:
    """Send the versions that aliases stand for, then replace the aliases there by the aliases here.

    Each version is verified first. Its manifest is written after its arrays, and the aliases after all versions, so
    whoever follows never sees half of it.

    Args:
        store: to which.
        registry: from which.
        name: of the model.
        force: also replace aliases there that stand for versions that are not here.

    Raises:
        PublishFailed: there is another version under one of the numbers, or somebody else has promoted there.
        StoreUnavailable: the store cannot be written.
    """
    for table in _needed(registry, name):
        # Whoever renews the table at the URL may be ahead of this folder.
        if store.read(f"{FOLDER}/{table}/{ALIASES}", LARGEST_ALIASES) is None:
            push_table(store, tables_in(registry.models_dir), table)
    return _push(store, registry, name, "", force=force)


def push_table(store: RemoteStore, tables: Registry, name: str, *, force: bool = False) -> Pushed:
    """Send the generation of a table that is looked into; see `push`."""
    return _push(store, tables, name, f"{FOLDER}/", force=force)


def _needed(registry: Registry, name: str) -> list[str]:
    """Return the tables that the versions look into that aliases of a model stand for."""
    versions = {registry.resolve(f"{name}@{alias}").path for alias in registry.aliases(name)}
    return sorted({table for one in versions for table in artifact.read_manifest(one).contract.tables})


def _push(store: RemoteStore, registry: Registry, name: str, folder: str, *, force: bool) -> Pushed:
    numbers = registry.versions(name)
    aliases = registry.aliases(name)
    if not aliases:
        raise ArtifactNotFound(f"{name}: expected an alias to push, found none; promote a version")
    content = store.read(f"{folder}{name}/{ALIASES}", LARGEST_ALIASES)
    if content is not None and not force:
        for alias, history in parse_aliases(content).items():
            if (there := history[-1].version) not in numbers:
                raise PublishFailed(
                    f"{store.url}/{folder}{name}/{ALIASES}: expected aliases of versions that this folder has too, "
                    f"found that {alias} is version {there}; pull first, or use --force"
                )
    sent = tuple(
        version
        for version in sorted(set(aliases.values()))
        if _send(store, registry, registry.resolve(f"{name}@{version}"), folder)
    )
    histories = {alias: registry.history(name, alias) for alias in aliases}
    store.write(f"{folder}{name}/{ALIASES}", render_aliases(histories))
    return Pushed(name, sent, aliases)


def _send(store: RemoteStore, registry: Registry, reference: Reference, folder: str) -> bool:
    """Send a version unless it is there; tell whether it was sent."""
    found = registry.verified(reference)
    family = f"{folder}{reference.name}"
    path = f"{family}/{reference.version}"
    manifest = read_plain(reference.path / MANIFEST, LARGEST_MANIFEST)
    there = store.read(f"{path}/{MANIFEST}", LARGEST_MANIFEST)
    if there is not None and there != manifest:
        raise PublishFailed(
            f"{store.url}/{path}: expected the same version as in this folder, found a different one with "
            "this number; publish it under a new number"
        )
    signatures = reference.path.with_name(signatures_name(reference.path))
    if signatures.is_file():
        store.write(f"{family}/{signatures.name}", read_plain(signatures, LARGEST_SIGNATURES))
    if there is not None:
        return False
    for name in found.files:
        store.send(reference.path / name, f"{path}/{name}")
    report = registry.report_path(reference)
    if report.is_file():
        store.send(report, f"{family}/{report.name}")
    store.write(f"{path}/{MANIFEST}", manifest)
    return True
