"""The compiled walk: forty lines of C, built once when the package is installed, called through ctypes.

There is nothing to warm and nothing to cache: the library is a file of a few kilobytes beside this one, named after
the digest of its source so that a stale one is never taken. Where there is none (no compiler at installation, another
processor) `library` says so once in the log, and `localrank.scorers.walk` does the same in numpy.
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
    from localrank.arrays import Matrix, Vector
    from localrank.scorers.walk import Layout

__all__ = ["CompiledWalk", "library", "load"]

_log = logging.getLogger(__name__)
_SOURCE = Path(__file__).with_name("walk.c")


def built_path(folder: Path = _SOURCE.parent) -> Path:
    """Return where the library built from this very source is."""
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    return folder / f"walk-{digest}.native"


@cache
def library() -> ctypes.CDLL | None:
    """Return the library that was built at installation, or nothing."""
    path = built_path()
    try:
        return load(path)
    except OSError as error:
        reason = error if path.exists() else "no compiler was found when localrank was installed"
        _log.warning("trees are walked in numpy, some six times slower than compiled: %s", reason)
        return None


def load(path: Path) -> ctypes.CDLL:
    """Open a library built from ``walk.c``."""
    opened = ctypes.CDLL(str(path))
    address, count = ctypes.c_void_p, ctypes.c_int64
    opened.localrank_walk.argtypes = [
        address, count, count, address, address, address, count, address, address, address, count, address,
    ]  # fmt: skip
    opened.localrank_walk.restype = None
    return opened


class CompiledWalk:
    """Hands the layout's addresses to the library; other threads run meanwhile."""

    def __init__(self, layout: Layout, opened: ctypes.CDLL) -> None:
        self._layout = layout  # keeps the arrays alive
        self._walk = opened.localrank_walk
        self._forest = (
            layout.nodes.ctypes.data,
            layout.roots.ctypes.data,
            layout.depths.ctypes.data,
            len(layout.roots),
            layout.values.ctypes.data,
            layout.set_begins.ctypes.data,
            layout.category_bits.ctypes.data,
            len(layout.set_begins) - 1,
        )

    def score(self, documents: Matrix, /) -> Vector:
        n_docs, n_features = documents.shape
        scores = np.empty(n_docs)
        self._walk(documents.ctypes.data, n_docs, n_features, *self._forest, scores.ctypes.data)
        return scores
