"""Arrays that workers read themselves, because the file that holds them lies where they see it.

A mapped set on a volume that all machines share need not be sent: a piece of work names file, place and shape, and the worker
maps it. It is the same file if it has the same path and size and the same bytes at places spread over it; copies of it on the
machines are as good as one shared volume.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from localrank.arrays import Array  # noqa: TC001

#: Places of a file that are compared, and bytes at each.
_PLACES, _BYTES = 64, 4096


class FileGone(Exception):
    """A worker does not see the file that it was to read, or another one."""


class Part(NamedTuple):
    """Where an array lies.

    Attributes:
        path: of the file, absolute.
        offset: in bytes.
        dtype, shape: of the array, whose last axis is contiguous.
        stamp: of the file, see `stamp_of`.
    """

    path: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    stamp: str


def part_of(array: Array) -> tuple[str, int] | None:
    """Return the file and the place in it of an array that is mapped read-only, contiguous as it lies; else ``None``."""
    if not array.flags.c_contiguous or array.flags.writeable:
        return None
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not isinstance(root, np.memmap) or root.mode != "r" or root.filename is None:
        return None
    begin, first = (int(one.__array_interface__["data"][0]) for one in (array, root))
    return str(Path(str(root.filename)).resolve()), int(root.offset) + begin - first


def read_part(part: Part) -> Array:
    """Map it.

    Raises:
        FileGone: there is no such file here, or another one.
    """
    if stamp_of(part.path) != part.stamp:
        raise FileGone(part.path)
    return np.memmap(part.path, np.dtype(part.dtype), "r", part.offset, part.shape)


def stamp_of(path: str) -> str:
    """Return what tells a file from others; empty if it cannot be read."""
    digest = hashlib.blake2b(digest_size=20)
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            for place in np.linspace(0, max(size - _BYTES, 0), _PLACES).astype(np.int64).tolist():
                file.seek(place)
                digest.update(file.read(_BYTES))
    except OSError:
        return ""
    return f"{size} {digest.hexdigest()}"
