"""Files and folders that get their name when they are whole: a failure leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from localrank.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Iterator


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
