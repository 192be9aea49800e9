"""The largest eigenvalues of a small symmetric matrix, and their vectors (eigen.c)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from localrank.native.addresses import address_of
from localrank.native.library import is_plain, library

if TYPE_CHECKING:
    import ctypes

    from localrank.arrays import Matrix, Vector


def largest_eigenpairs(symmetric: Matrix, count: int) -> tuple[Vector, Matrix] | None:
    """Return the ``count`` largest eigenvalues in decreasing order and unit eigenvectors as rows.

    ``None`` if there is no library, or if it failed: float32 cannot hold the trace, or an eigenvalue did not converge.
    """
    compiled = library()
    if compiled is None or not is_plain(symmetric):
        return None
    size = len(symmetric)
    values, rows = np.empty(count), np.empty((count, size), np.float32)
    scratch = np.empty(_room(compiled, size, count), np.float32)
    failed = compiled.localrank_eigen(
        address_of(symmetric), size, count, address_of(scratch), address_of(values), address_of(rows)
    )
    return None if failed else (values, rows)


@lru_cache(256)  # queries have a few sizes
def _room(compiled: ctypes.CDLL, size: int, count: int) -> int:
    """Return how many floats of scratch the solver needs."""
    return int(compiled.localrank_eigen_room(size, count))
