"""One query's documents: their scale, their ranks, and the directions of their scatter.

One query's documents: put on one scale, ranked, and compared with what training saw (documents.c, percentiles.c).

Their signature (sign.c), and the largest eigenvalues of a small symmetric matrix and their vectors (eigen.c).
"""

from __future__ import annotations

import ctypes
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cython_blas

from localrank.native.library import address_of, is_plain, library, scratch

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector

#: What `scale` found; any other number leaves the work to numpy.
DONE, NOT_FINITE = 0, 1
#: What `PrincipalDirections.of` found; any other number leaves the work to numpy.
IMPRECISE = 1
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
    scaled = np.empty((n_docs, n_features), np.float32)
    outcome: int = compiled.localrank_scale(
        address_of(documents),
        n_docs,
        n_features,
        standard,
        rounding,
        scratch(4 * n_features),
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
    found = np.empty((n_docs, n_features), np.float32)
    outcome: int = compiled.localrank_behind_best(
        address_of(documents),
        n_docs,
        n_features,
        address_of(scale),
        rounding,
        scratch(4 * n_features),
        address_of(found),
    )
    return found if outcome == DONE else None


class Range:
    """The least and the greatest value of each feature, ``[n_features]``."""

    def __init__(self, least: Matrix, most: Matrix) -> None:
        self.least, self.most = least, most
        self._plain = is_plain(least) and is_plain(most) and least.shape == most.shape
        self._at = address_of(least), address_of(most)

    def __reduce__(self) -> tuple[type[Range], tuple[Matrix, Matrix]]:
        """In another process they are elsewhere."""
        return Range, (self.least, self.most)

    def count_outside(self, documents: Matrix) -> int | None:
        """Count the values below the least or above the greatest of their feature; a missing one is neither."""
        n_docs, n_features = documents.shape
        compiled = library()
        if compiled is None or not self._plain or len(self.least) != n_features or not is_plain(documents):
            return None
        return int(compiled.localrank_out_of_range(address_of(documents), n_docs, n_features, *self._at))


class _Blas(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("gemm", "gemv", "dot"))


class _Precision(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_double) for name in ("least", "most", "off_centre", "clear_gap"))


#: As `blas` in native.h: where scipy keeps its functions, with the types that it says they have.
_TEXT, _COUNT, _FLOAT = "char *", "int *", "float *"
_MATRIX = f"{_FLOAT}, {_COUNT}"
_BLAS = {
    "gemm": f"void ({_TEXT}, {_TEXT}, {_COUNT}, {_COUNT}, {_COUNT}, {_FLOAT}, {_MATRIX}, {_MATRIX}, {_FLOAT}, {_MATRIX})",
    "gemv": f"void ({_TEXT}, {_COUNT}, {_COUNT}, {_FLOAT}, {_MATRIX}, {_MATRIX}, {_FLOAT}, {_MATRIX})",
    "dot": f"float ({_COUNT}, {_MATRIX}, {_MATRIX})",
}


@cache
def _blas() -> _Blas | None:
    """Return the functions of BLAS that scipy offers to compiled code; ``None`` if they have other types here."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    found = _Blas()
    for name, expected in _BLAS.items():
        capsule = cython_blas.__pyx_capi__.get(f"s{name}")
        typed: bytes = b"" if capsule is None else api.PyCapsule_GetName(capsule)
        # Cython's name of the type float is that of the module and ends with "_s".
        if typed.decode().replace("__pyx_t_5scipy_6linalg_11cython_blas_s", "float") != expected:
            return None
        setattr(found, name, api.PyCapsule_GetPointer(capsule, typed))
    return found


class PrincipalDirections:
    """The leading directions of clouds, as `localrank.features.principal` defines them.

    Args:
        tame: sums of squares between which float32 is precise enough.
        off_centre: a mean below this share of the sum of squares is negligible.
        clear_gap: float32 is precise enough if consecutive eigenvalues differ by this share of the largest.
    """

    def __init__(self, *, tame: tuple[float, float], off_centre: float, clear_gap: float) -> None:
        self._limits = _Precision(*tame, off_centre, clear_gap)

    @cached_property
    def addresses(self) -> tuple[int, int] | None:
        """Where the functions of BLAS and the limits are; ``None`` if scipy's functions have other types here."""
        functions = _blas()
        return None if functions is None else (ctypes.addressof(functions), ctypes.addressof(self._limits))

    def of(self, documents: Matrix, wanted: int) -> tuple[int, Vector, Matrix]:
        """Return the outcome and, if it is `DONE`, variances and directions.

        Args:
            documents: ``[n_docs, n_features]``; finite.
            wanted: how many directions; fewer than documents, and no more than features.

        Returns:
            the outcome; ``[wanted + 1]`` the leading variances and the whole one; ``[wanted, n_features]`` unit directions.
        """
        compiled, addresses = library(), self.addresses
        n_docs, n_features = documents.shape
        variances, directions = np.empty(wanted + 1), np.empty((wanted, n_features), np.float32)
        if compiled is None or addresses is None or documents.size > _MOST_CELLS or not is_plain(documents):
            return _UNAVAILABLE, variances, directions
        centred, sums = np.empty((n_docs, n_features), np.float32), _SUMS()
        at, sums_at = address_of(centred), ctypes.addressof(sums)
        outcome: int = compiled.localrank_centre(
            address_of(documents),
            n_docs,
            n_features,
            *addresses,
            scratch(n_docs + 2 * n_features),
            at,
            sums_at,
        )
        if outcome == DONE:
            scatter = centred @ centred.T if n_docs < n_features else centred.T @ centred
            outcome = compiled.localrank_directions(
                at,
                n_docs,
                n_features,
                address_of(scatter),
                sums_at,
                wanted,
                *addresses,
                scratch(_room_for_directions(compiled, n_docs, n_features, wanted)),
                address_of(variances),
                address_of(directions),
            )
        return outcome, variances, directions


#: What BLAS counts is an int.
_MOST_CELLS = 2**31 - 1
_SUMS = ctypes.c_double * 2


@lru_cache(256)  # queries have a few sizes
def _room_for_directions(compiled: ctypes.CDLL, n_docs: int, n_features: int, wanted: int) -> int:
    """Return how many floats of scratch that takes."""
    return int(compiled.localrank_directions_room(n_docs, n_features, wanted))


def largest_eigenpairs(symmetric: Matrix, count: int) -> tuple[Vector, Matrix] | None:
    """Return the ``count`` largest eigenvalues in decreasing order and unit eigenvectors as rows.

    ``None`` if there is no library, or if it failed: float32 cannot hold the trace, or an eigenvalue did not converge.
    """
    compiled = library()
    if compiled is None or not is_plain(symmetric):
        return None
    size = len(symmetric)
    values, rows = np.empty(count), np.empty((count, size), np.float32)
    room = scratch(_room(compiled, size, count))
    failed = compiled.localrank_eigen(
        address_of(symmetric), size, count, room, address_of(values), address_of(rows)
    )
    return None if failed else (values, rows)


@lru_cache(256)  # queries have a few sizes
def _room(compiled: ctypes.CDLL, size: int, count: int) -> int:
    """Return how many floats of scratch the solver needs."""
    return int(compiled.localrank_eigen_room(size, count))
