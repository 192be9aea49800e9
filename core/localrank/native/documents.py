"""One query's documents: their scale, their ranks, and the directions of their scatter.

One query's documents: put on one scale, ranked, and compared with what training saw (documents.c, percentiles.c).

The largest eigenvalues of a small symmetric matrix, and their vectors (eigen.c).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from localrank.native.library import address_of, is_plain, library

if TYPE_CHECKING:
    import ctypes

    from localrank.arrays import Matrix, Vector

#: What `scale` found; any other number leaves the work to numpy.
DONE, NOT_FINITE = 0, 1
_UNAVAILABLE = -1
#: Features whose values are sorted at a time.
_ABREAST = 16


def scale(documents: Matrix, rounding: float, *, standard: bool) -> tuple[int, Matrix]:
    """Put each feature on the scale of the query.

    Args:
        documents: ``[n_docs, n_features]``.
        rounding: a feature whose spread is this share of its size is constant and becomes 0.
        standard: to mean 0 and deviation 1 rather than from 0 to 1.

    Returns:
        the outcome, and the scaled documents if that is `DONE`. `NOT_FINITE`: a value is missing or infinite.
    """
    compiled = library()
    if compiled is None or not is_plain(documents):
        return _UNAVAILABLE, documents
    n_docs, n_features = documents.shape
    scaled, space = np.empty((n_docs, n_features), np.float32), np.empty(4 * n_features, np.float32)
    outcome: int = compiled.localrank_scale(
        address_of(documents),
        n_docs,
        n_features,
        standard,
        rounding,
        address_of(space),
        address_of(scaled),
    )
    return outcome, scaled


def percentiles(documents: Matrix, rounding: float) -> Matrix | None:
    """Return the mid-rank percentile of every value among those of its feature.

    Args:
        documents: ``[n_docs, n_features]``, at least one document; finite.
        rounding: a feature whose spread is this share of its size is constant and becomes 1/2.
    """
    compiled = library()
    if compiled is None or not is_plain(documents):
        return None
    n_docs, n_features = documents.shape
    found, space = np.empty((n_docs, n_features), np.float32), np.empty(n_docs * _ABREAST, np.int64)
    compiled.localrank_percentiles(
        address_of(documents), n_docs, n_features, rounding, address_of(space), address_of(found)
    )
    return found


def behind_best(documents: Matrix, scale: Vector, rounding: float) -> Matrix | None:
    """Return how far every value is below the largest of its feature, in units of ``scale`` ``[n_features]``.

    Args:
        documents: ``[n_docs, n_features]``, at least one document; finite.
        scale: positive.
        rounding: a feature whose spread is this share of its size is constant and becomes 0.
    """
    n_docs, n_features = documents.shape
    compiled = library()
    if compiled is None or not is_plain(documents):
        return None
    if scale.shape != (n_features,) or scale.dtype != np.float64 or not scale.flags.c_contiguous:
        return None
    found, space = np.empty((n_docs, n_features), np.float32), np.empty(4 * n_features, np.float32)
    outcome: int = compiled.localrank_behind_best(
        address_of(documents),
        n_docs,
        n_features,
        address_of(scale),
        rounding,
        address_of(space),
        address_of(found),
    )
    return found if outcome == DONE else None


def count_out_of_range(documents: Matrix, least: Matrix, most: Matrix) -> int | None:
    """Count the values below ``least`` or above ``most`` of their feature; a missing one is neither."""
    n_docs, n_features = documents.shape
    compiled = library()
    if compiled is None or not (is_plain(documents) and is_plain(least) and is_plain(most)):
        return None
    if not least.shape == most.shape == (n_features,):
        return None
    count: int = compiled.localrank_out_of_range(
        address_of(documents), n_docs, n_features, address_of(least), address_of(most)
    )
    return count


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
