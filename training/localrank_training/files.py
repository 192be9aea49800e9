"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from localrank.errors import PublishFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
