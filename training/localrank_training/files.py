"""Files and folders that are written whole or not at all: they get their name when they are whole."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from localrank.errors import InvalidData, PublishFailed

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_writable(path: Path) -> None:
    """Refuse at once what `whole_file` would refuse after hours of work.

    Raises:
        PublishFailed: the file cannot be written.
    """
    folder = path.resolve().parent
    if path.is_dir():
        why = "it is a folder"
    elif not folder.exists():
        why = f"no such folder: {folder}"
    elif not folder.is_dir():
        why = f"{folder} is a file"
    elif path.exists() and not path.is_file():
        why = "" if os.access(path, os.W_OK) else os.strerror(errno.EACCES)
    else:
        why = "" if os.access(folder, os.W_OK | os.X_OK) else f"{folder}: {os.strerror(errno.EACCES)}"
    if why:
        raise PublishFailed(f"{path}: cannot be written: {why}")


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Open a text file that is written whole or not at all.

    A device, a pipe or what a link leads to is written, never replaced.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("w", newline="", encoding="utf-8") as file:
                yield file
            return
        target = path.resolve()
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with partial.open("w", newline="", encoding="utf-8") as file:
                yield file
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PublishFailed(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Say what could not be written."""
    try:
        yield
    except OSError as error:
        raise InvalidData(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a name beside ``path``. If writing succeeds, the file or folder gets the name ``path``."""
    if not overwrite and path.exists():
        raise InvalidData(
            f"{path}: expected a name that is not in use, found a file or folder (--overwrite replaces it)"
        )
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InvalidData(f"{path}: expected a file or a folder to replace, found neither")
    room = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        temporary = room / path.name
        yield temporary
        _sync(temporary)
        if temporary.is_dir() and path.is_dir():
            path.replace(room / "old")
        temporary.replace(path)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _sync(path: Path) -> None:
    for file in [path] if path.is_file() else [entry for entry in path.rglob("*") if entry.is_file()]:
        with file.open("rb+") as stream:
            os.fsync(stream.fileno())
