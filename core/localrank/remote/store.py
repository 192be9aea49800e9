"""A folder of models at a URL: an object store, a web server, a shared volume.

It is laid out as a folder of models on a disk is. ``fsspec`` reads and writes it and is imported when a store is opened; the
libraries for single kinds of store (s3fs, gcsfs, adlfs) are the user's choice. A store cannot rename a folder, so a version
that is being written can be seen: whoever reads goes by ``aliases.json``, which is written last.

What does not belong here: whether what was fetched is good (`localrank.remote.mirror`).
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrank.disk import replace_file
from localrank.errors import ArtifactCorrupt, InvalidConfiguration, LocalRankError, StoreUnavailable
from localrank.registry import MODEL_NAME
from localrank.remote.address import check_url, without_password

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Store"]

_LOCAL = ("file", "local")


class Store:
    """The folder at ``url``.

    Raises:
        InvalidConfiguration: the text is not a URL, or the library that reads it is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            self.url = check_url(url)
        except ValueError as error:
            raise InvalidConfiguration(f"{error}, found {without_password(url)!r:.200}") from None
        if find_spec("fsspec") is None:
            raise InvalidConfiguration(f"{self.url}: expected fsspec: pip install 'localrank[remote]'")
        import fsspec

        try:
            self._files, self._root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise InvalidConfiguration(
                f"{self.url}: expected a URL that fsspec can read: {_said(error)}"
            ) from None
        except Exception as error:
            raise StoreUnavailable(f"{self.url}: cannot be opened: {_said(error)}") from error
        self._root = str(self._root).rstrip("/")
        self._local = bool(set(_LOCAL) & set(_protocols(self._files)))

    def models(self) -> list[str]:
        """Return the names of the folders there, which may be models."""
        with self._asking("", "expected a folder of models"):
            self._files.invalidate_cache()
            entries = self._files.ls(self._root, detail=True)
        names = {
            str(entry["name"]).rstrip("/").rpartition("/")[2] for entry in entries if entry["type"] != "file"
        }
        return sorted(name for name in names if MODEL_NAME.fullmatch(name))

    def read(self, path: str, largest: int) -> bytes | None:
        """Return a small file, or ``None`` if there is none."""
        with self._asking(path, "cannot be read"):
            try:
                content = bytes(self._files.cat_file(self._at(path)))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
        if len(content) > largest:
            raise ArtifactCorrupt(f"{path}: expected at most {largest} bytes, found {len(content)}")
        return content

    def fetch(self, path: str, target: Path, size: int) -> None:
        """Copy a file to the disk.

        Raises:
            ArtifactCorrupt: the file is missing, or longer than ``size``.
            StoreUnavailable: it cannot be read now.
        """
        with self._asking(path, "cannot be read"):
            try:
                self._files.get_file(self._at(path), str(target), callback=_bounded(path, size))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
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
            self._files.put_file(str(source), self._at(path))

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    @contextmanager
    def _asking(self, path: str, what: str) -> Iterator[None]:
        """Turn any error of the library of the store into one sentence."""
        try:
            yield
        except LocalRankError:
            raise
        except Exception as error:
            where = f"{self.url}/{path}".rstrip("/")
            raise StoreUnavailable(f"{where}: {what}: {_said(error)}") from error


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)


def _bounded(path: str, size: int) -> Any:
    """Return a function that stops a copy that becomes too long."""
    from fsspec.callbacks import Callback

    class Bounded(Callback):  # type: ignore[misc]
        def relative_update(self, inc: int = 1) -> None:
            super().relative_update(inc)
            if self.value > size:
                raise ArtifactCorrupt(f"{path}: expected {size} bytes, found more")

    return Bounded()


def _said(error: Exception) -> str:
    """Return the message of an error, or its class if it has no message."""
    if isinstance(error, FileNotFoundError):
        return "there is none"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:300] or type(error).__name__
