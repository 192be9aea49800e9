r"""Features put on one scale: within one query, or by what training saw.

Within a query a feature goes from 0 to 1, :math:`(x - \min) / (\max - \min)`, or has mean 0 and deviation 1, or becomes
the mid-rank percentile. A feature that is the same in all documents, except for rounding to float32, becomes 0 (1/2 as a
percentile): otherwise scaling would make its rounding errors as large as the other features.

Invariant: the compiled and the plain way give the same bits, and no warning for any finite input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.native import documents as native

if TYPE_CHECKING:
    from localrank.arrays import Bits, Matrix, Vector

#: Columns whose values differ by this share only are constant except for rounding to float32.
_ROUNDING = 4 * float(np.finfo(np.float32).eps)
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_FLOAT32_TINY = float(np.finfo(np.float32).tiny)


def all_finite(documents: Matrix) -> bool:
    """Return whether no value is missing or infinite."""
    # Extremes need no array of the size of the documents, and are finite where all values are.
    return bool(np.isfinite(documents.min(axis=0)).all() and np.isfinite(documents.max(axis=0)).all())


def products_of_pairs(documents: Matrix) -> Matrix:
    """Return ``x_i x_j`` for every ``i <= j``, in the order (0, 0), (0, 1), ..., (1, 1), ...; large ones are cut."""
    n_docs, n_features = documents.shape
    found = np.empty((n_docs, n_features * (n_features + 1) // 2), np.float32)
    begin = 0
    with np.errstate(over="ignore", under="ignore"):
        for feature in range(n_features):
            end = begin + n_features - feature
            np.multiply(documents[:, feature, None], documents[:, feature:], out=found[:, begin:end])
            begin = end
    return np.clip(found, -_FLOAT32_MAX, _FLOAT32_MAX, out=found)


def within_query(documents: Matrix, *, standard: bool) -> Matrix | None:
    """Return the documents on the scale of their own query; ``None`` if a value is missing or infinite.

    Args:
        documents: at least one.
        standard: to mean 0 and deviation 1 rather than from 0 to 1.
    """
    outcome, scaled = native.scale(documents, _ROUNDING, standard=standard)
    if outcome == native.DONE:
        return scaled
    if outcome == native.NOT_FINITE:
        return None
    return _within_query(documents, standard=standard)


def _within_query(documents: Matrix, *, standard: bool) -> Matrix | None:
    low, high = documents.min(axis=0), documents.max(axis=0)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    spread, constant = _spread(low, high)
    scale = np.where(constant, 1.0, spread)
    # Of a positive and a negative zero, numpy's minimum depends on their order. Make it the positive zero.
    scaled = rescaled(documents, low + (spread / 2 if standard else np.float32(0.0)), scale, bounded=True)
    # Before any product: the rounding of a large number has a square beyond float32.
    scaled[:, constant] = 0.0
    if standard:
        # Numbers of size one by now, so that float32 sums are near enough whatever the column's size was.
        # Summed in order, which reduce() would not do for a single column.
        scaled -= np.add.accumulate(scaled, axis=0)[-1] / np.float32(len(scaled))
        squares = np.add.accumulate(scaled * scaled, axis=0)[-1]
        deviation = np.sqrt(squares / np.float32(len(scaled)))
        scaled /= np.where(constant, np.float32(1.0), deviation)
    return scaled


def percentiles(documents: Matrix) -> Matrix:
    r"""Return the mid-rank percentile of every value among those of its feature.

    .. math:: (r - \tfrac12) / n

    with the rank :math:`r` from 1 for the smallest value; equal values share the mean of their ranks.

    Args:
        documents: at least one; finite.
    """
    found = native.percentiles(documents, _ROUNDING)
    return _percentiles(documents) if found is None else found


def _percentiles(documents: Matrix) -> Matrix:
    n_docs = len(documents)
    order = np.argsort(documents, axis=0, kind="stable")
    ordered = np.take_along_axis(documents, order, axis=0)
    places = np.arange(n_docs)[:, None]
    first = np.ones(documents.shape, np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    begins = np.maximum.accumulate(np.where(first, places, 0), axis=0)
    ends = np.full(documents.shape, n_docs)
    ends[:-1] = np.where(first[1:], places[1:], n_docs)
    ends = np.minimum.accumulate(ends[::-1], axis=0)[::-1]
    found = np.empty(documents.shape, np.float32)
    # Equal values from the one place to before the other: the mean of their ranks from 1, less one half.
    np.put_along_axis(found, order, (begins + ends).astype(np.float32) / np.float32(2 * n_docs), axis=0)
    found[:, _spread(ordered[0], ordered[-1])[1]] = 0.5
    return found


def behind_best(documents: Matrix, scale: Vector) -> Matrix:
    """Return how far every value is below the largest of its feature, in units of ``scale`` ``[n_features]``.

    Args:
        documents: at least one; finite.
        scale: positive.
    """
    found = native.behind_best(documents, scale, _ROUNDING)
    return _behind_best(documents, scale) if found is None else found


def _behind_best(documents: Matrix, scale: Vector) -> Matrix:
    low, high = documents.min(axis=0), documents.max(axis=0)
    apart = rescaled(documents, high, scale)
    np.abs(apart, out=apart)
    apart[:, _spread(low, high)[1]] = 0.0
    return apart


def constant_features(documents: Matrix) -> Bits:
    """Return ``[n_features]`` which features differ by no more than rounding; there is at least one document."""
    return _spread(documents.min(axis=0), documents.max(axis=0))[1]


def _spread(low: Matrix, high: Matrix) -> tuple[Vector, Bits]:
    """Return how far each feature's values are apart, and whether that is no more than rounding."""
    spread = high.astype(np.float64) - low
    return spread, np.asarray(spread <= _ROUNDING * np.maximum(np.abs(low), np.abs(high)))


def rescaled(documents: Matrix, shift: Matrix | Vector, scale: Vector, *, bounded: bool = False) -> Matrix:
    """Return ``(documents - shift) / scale``, clipped to what float32 holds.

    ``bounded`` says that no difference exceeds its scale, or the scale is 1: then no quotient can be beyond float32.
    """
    narrow = (
        scale.astype(np.float32) if scale.max() <= _FLOAT32_MAX and scale.min() >= _FLOAT32_TINY else None
    )
    if narrow is not None:
        with np.errstate(over="ignore"):
            quotients = documents - shift.astype(np.float32)
            quotients /= narrow
        if bounded or np.isfinite(quotients).all():
            return quotients
    # Only at the ends of float32, where a difference or a quotient of two numbers is beyond it.
    wide = (documents - shift.astype(np.float64)) / scale
    return np.clip(wide, -_FLOAT32_MAX, _FLOAT32_MAX, out=wide).astype(np.float32)


def count_out_of_range(documents: Matrix, known: native.Range) -> int:
    """Count the values below the least or above the greatest known one of their feature; a missing one is neither."""
    count = known.count_outside(documents)
    if count is None:
        return int(np.count_nonzero((documents < known.least) | (documents > known.most)))
    return count
