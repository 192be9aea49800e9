"""Compiled arithmetic: a few short C files, built once when the package is installed, called through ctypes.

There is nothing to warm and nothing to cache: the library is one small file beside this one, named after the digest of
the sources so that a stale one is never taken. Where there is none (no compiler at installation, another processor)
`library` says so once in the log, and each of its callers does the same in numpy, more slowly.

The sources use neither contraction nor reassociation, and sum in lanes of a fixed number, so that every compiler and
every processor of the family gives the same bits. They hold no state: any thread may call, and others run meanwhile.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Array

__all__ = ["FOLDER", "built_path", "is_plain", "library", "load"]

_log = logging.getLogger(__name__)
FOLDER = Path(__file__).parent

_ADDRESS, _COUNT, _NUMBER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
#: What each function takes and returns, in the order of its C declaration.
_FUNCTIONS: dict[str, tuple[list[type], type | None]] = {
    "localrank_walk": (
        [
            _ADDRESS, _COUNT, _COUNT, _ADDRESS, _ADDRESS, _ADDRESS, _COUNT, _ADDRESS, _ADDRESS, _ADDRESS, _COUNT,
            _ADDRESS,
        ],
        None,
    ),
    "localrank_scale": ([_ADDRESS, _COUNT, _COUNT, _COUNT, _NUMBER, _ADDRESS, _ADDRESS], _COUNT),
    "localrank_outside": ([_ADDRESS, _COUNT, _COUNT, _ADDRESS, _ADDRESS], _COUNT),
    "localrank_centre": ([_ADDRESS, _COUNT, _COUNT, _NUMBER, _ADDRESS, _ADDRESS, _ADDRESS], None),
    "localrank_eigen": ([_ADDRESS, _COUNT, _COUNT, _ADDRESS, _ADDRESS, _ADDRESS], _COUNT),
    "localrank_eigen_room": ([_COUNT, _COUNT], _COUNT),
    "localrank_similarities": (
        [_ADDRESS, _ADDRESS, _COUNT, _COUNT, _COUNT, _ADDRESS, _COUNT, _ADDRESS, _ADDRESS], None
    ),
    "localrank_nearest": (
        [
            _ADDRESS, _ADDRESS, _ADDRESS, _COUNT, _COUNT, _COUNT, _ADDRESS, _COUNT, _ADDRESS, _COUNT, _ADDRESS,
            _ADDRESS,
        ],
        None,
    ),
    "localrank_votes": (
        [
            _ADDRESS, _COUNT, _COUNT, _COUNT, _ADDRESS, _ADDRESS, _COUNT, _COUNT, _COUNT, _ADDRESS, _ADDRESS,
            _ADDRESS, _COUNT,
        ],
        _COUNT,
    ),
    "localrank_most_votes": (
        [_ADDRESS, _COUNT, _ADDRESS, _COUNT, _COUNT, _COUNT, _COUNT, _ADDRESS, _ADDRESS], _COUNT
    ),
    "localrank_lift_numbers": (
        [
            _ADDRESS, _COUNT, _ADDRESS, _COUNT, _ADDRESS, _ADDRESS, _COUNT, _ADDRESS, _COUNT, _ADDRESS, _COUNT,
            _ADDRESS,
        ],
        _COUNT,
    ),
}  # fmt: skip


def built_path(folder: Path = FOLDER) -> Path:
    """Return where the library built from these very sources is."""
    sources = b"".join(source.read_bytes() for source in sorted(FOLDER.glob("*.[ch]")))
    return folder / f"arithmetic-{hashlib.sha256(sources).hexdigest()[:12]}.native"


@cache
def library() -> ctypes.CDLL | None:
    """Return the library that was built at installation, or nothing."""
    path = built_path()
    try:
        return load(path)
    except OSError as error:
        reason = error if path.exists() else "no compiler was found when localrank was installed"
        if not path.exists() and any(path.parent.glob("*.native")):
            reason = "its sources have changed since localrank was installed"
        _log.warning("numpy does what compiled code would do some times faster: %s", reason)
        return None


def is_plain(array: Array) -> bool:
    """Return whether the compiled code may be given this array's address: float32, one number after the other."""
    return array.dtype == np.float32 and bool(array.flags.c_contiguous)


def load(path: Path) -> ctypes.CDLL:
    """Open a library built from the sources."""
    opened = ctypes.CDLL(str(path))
    for name, (takes, returns) in _FUNCTIONS.items():
        function = getattr(opened, name)
        function.argtypes, function.restype = takes, returns
    return opened
