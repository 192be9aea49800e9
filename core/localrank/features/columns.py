r"""Quantiles, mean and deviation of the columns of a matrix that is read in portions, never held as doubles.

All three are those of numpy on the whole matrix, to the bit. A quantile lies between two values whose ranks are known.
The bits of a float32, read as a whole number, are in the same order as the values, once the bits of negative numbers
are inverted. So the value of a rank is found digit by digit. The first pass counts the values by their first 16 bits,
which gives the first 16 bits of the value; two more passes each add 8 bits. The memory for this does not depend on the
number of rows.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from localrank.arrays import Indices, Matrix, Vector

#: Numbers that are converted at a time. A matrix that has no more is sorted instead.
CELLS = 1 << 22
#: Columns whose values are counted together.
_COLUMNS = 256
#: Of a float32's 32 bits, how many each pass adds.
_DIGITS = (16, 8, 8)


def column_quantiles(documents: Matrix, shares: Sequence[float]) -> tuple[Vector, Indices]:
    """Return the quantiles of every column, and how many values it has.

    Args:
        documents: ``[n_docs, n_features]``; read in portions of rows. NaN is a missing value.
        shares: such as 0.5 for the median.

    Returns:
        ``[len(shares), n_features]``, zero for a column without values; and ``[n_features]``.
    """
    n_docs, n_features = documents.shape
    if n_docs * n_features <= CELLS:
        values = np.asarray(documents[:n_docs]).astype(np.float64)
        known = (~np.isnan(values)).sum(axis=0)
        values[:, known == 0] = 0.0
        holes = bool((known < n_docs).any())
        sorted_out: Vector = (np.nanquantile if holes else np.quantile)(values, shares, axis=0)
        return sorted_out + 0.0, known  # -0 and 0 are one value, here and below
    found, known = np.zeros((len(shares), n_features)), np.zeros(n_features, np.int64)
    for begin in range(0, n_features, _COLUMNS):
        some = slice(begin, min(begin + _COLUMNS, n_features))
        known[some] = _known(documents, some)
        found[:, some] = _quantiles(documents, some, known[some], shares)
    return found, known


def mean_and_deviation(
    documents: Matrix, filled: Callable[[Vector], Vector] = lambda values: values
) -> tuple[Vector, Vector]:
    """Return the mean and the standard deviation of every column, ``[n_features]``.

    Args:
        documents: ``[n_docs, n_features]``; read twice, in portions of rows.
        filled: puts values in place of missing ones.
    """
    n_docs, n_features = documents.shape

    def blocks() -> Iterator[Vector]:
        for rows in portions(documents, CELLS):
            yield filled(np.asarray(documents[rows]).astype(np.float64))

    mean = _added(blocks(), n_features) / n_docs
    squares = ((block - mean) ** 2 for block in blocks())
    return mean, np.sqrt(_added(squares, n_features) / n_docs)


def _added(blocks: Iterator[Vector], n_features: int) -> Vector:
    """Add all rows in order, as numpy does."""
    total: Vector = np.zeros(n_features)
    for number, block in enumerate(blocks):
        total = np.add.reduce(block if number == 0 else np.concatenate([total[None], block]), axis=0)
    return total


def portions(documents: Matrix | Vector, cells: int) -> Iterator[slice]:
    """Yield the rows of a matrix in portions of about ``cells`` numbers; those of a mapped file do not stay in memory."""
    for rows in slices(documents.shape, cells):
        yield rows
        forget(documents, rows.start, rows.stop)


def slices(shape: tuple[int, ...], cells: int) -> Iterator[slice]:
    """Yield the rows of a matrix of that shape in portions of about ``cells`` numbers."""
    n_rows, n_columns = shape
    step = max(1, cells // max(1, n_columns))
    for begin in range(0, n_rows, step):
        yield slice(begin, min(begin + step, n_rows))


def forget(documents: Matrix | Vector, begin: int, end: int) -> None:
    """Give back the memory of some rows of a mapped file; they are read again if they are looked at again."""
    # A private copy ("c") would lose what was written to it.
    if not isinstance(documents, np.memmap) or documents.mode == "c" or end <= begin:
        return
    mapped: object = documents.base
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        width = documents.shape[1] * documents.itemsize
        origin = documents.offset % mmap.ALLOCATIONGRANULARITY
        first, last = origin + begin * width, origin + end * width
        first -= first % mmap.PAGESIZE
        mapped.madvise(mmap.MADV_DONTNEED, first, last - first)


def _known(documents: Matrix, some: slice) -> Indices:
    missing = np.zeros(some.stop - some.start, np.int64)
    for rows in portions(documents, CELLS):
        missing += np.isnan(np.asarray(documents[rows])[:, some]).sum(axis=0)
    known: Indices = len(documents) - missing
    return known


def _quantiles(documents: Matrix, some: slice, known: Indices, shares: Sequence[float]) -> Vector:
    """Interpolate between two values as numpy does."""
    at = (known[None] - 1) * np.array(shares)[:, None]
    low = np.clip(np.floor(at), 0, None).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(known - 1, 0))
    ranks = np.sort(np.concatenate([low, high]), axis=0)
    values = _values_of_ranks(documents, some, known, ranks)
    found = np.zeros(at.shape)
    for column in np.flatnonzero(known).tolist():
        of_rank = dict(zip(ranks[:, column].tolist(), values[:, column].tolist(), strict=True))
        below = np.array([of_rank[rank] for rank in low[:, column].tolist()])
        above = np.array([of_rank[rank] for rank in high[:, column].tolist()])
        share = at[:, column] - low[:, column]
        apart = above - below
        found[:, column] = np.where(share >= 0.5, above - apart * (1 - share), below + apart * share)
    return found


def _values_of_ranks(documents: Matrix, some: slice, known: Indices, ranks: Indices) -> Vector:
    """Return the values ``[n_ranks, n_columns]`` that have these ranks, from 0 for the smallest of the column."""
    n_columns = some.stop - some.start
    begins = [
        np.zeros(1, np.int64) for _ in range(n_columns)
    ]  # the first bits of the values that are looked for
    which = np.zeros(ranks.shape, np.int64)  # the position in `begins` of each rank's value
    within = ranks.copy()  # its rank among the values that begin so
    bits = 0
    for digit in _DIGITS:
        counts = [np.zeros(len(of_column) << digit, np.int64) for of_column in begins]
        for keys in _keys(documents, some, holes=bool((known < len(documents)).any())):
            for column in np.flatnonzero(known).tolist():
                own = keys[column]
                if len(own):
                    _count(own, begins[column], bits, digit, counts[column])
        bits += digit
        for column in np.flatnonzero(known).tolist():
            table = counts[column].reshape(-1, 1 << digit)
            upto = np.cumsum(table, axis=1)
            place = np.array(
                [
                    int(np.searchsorted(upto[slot], rank, side="right"))
                    for slot, rank in zip(which[:, column], within[:, column], strict=True)
                ]
            )
            slots = which[:, column]
            within[:, column] -= upto[slots, place] - table[slots, place]
            prefixes = (begins[column][slots] << digit) | place
            begins[column], which[:, column] = np.unique(prefixes, return_inverse=True)
    found = np.zeros(ranks.shape)
    for column, prefixes in enumerate(begins):
        found[:, column] = _floats(prefixes)[which[:, column]]
    return found


def _count(keys: NDArray[Any], begins: Indices, bits: int, digit: int, counts: Indices) -> None:
    """Count the next digit of the keys that begin with one of these."""
    rest = 32 - bits - digit
    if bits:
        # The first 16 bits exclude most keys.
        out = np.full(1 << _DIGITS[0], fill_value=False)
        out[begins >> (bits - _DIGITS[0])] = True
        keys = keys[out[keys >> (32 - _DIGITS[0])]].astype(np.int64)
        heads = keys >> (rest + digit)
        slot = np.minimum(np.searchsorted(begins, heads), len(begins) - 1)
        kept = begins[slot] == heads
        flat = (slot[kept] << digit) | ((keys[kept] >> rest) & ((1 << digit) - 1))
    else:
        flat = keys >> rest
    if len(flat) > len(counts) // 8:
        counts += np.bincount(flat, minlength=len(counts))
    else:
        np.add.at(counts, flat, 1)


def _keys(documents: Matrix, some: slice, *, holes: bool) -> Iterator[list[NDArray[np.uint32]]]:
    """Yield for each column some of its values, as numbers that ascend with them; missing ones are left out."""
    for rows in portions(documents, CELLS):
        # A copy, because the values are changed below, and a single column or row would not be copied otherwise.
        values = np.array(np.asarray(documents[rows])[:, some].T, order="C")
        missing = np.isnan(values) if holes else None
        values += np.float32(0)  # -0 and 0 are one value
        keys = values.view(np.int32)
        # Invert all bits of a negative number except the first; leave other numbers as they are.
        turned = keys >> 31
        turned &= np.int32(0x7FFFFFFF)
        keys ^= turned
        keys ^= np.int32(-(1 << 31))
        found = keys.view(np.uint32)
        yield (
            list(found) if missing is None else [key[~hole] for key, hole in zip(found, missing, strict=True)]
        )


def _floats(keys: Indices) -> Vector:
    """Undo what `_keys` makes of values."""
    numbers = keys.astype(np.uint32)
    bits = np.where(numbers >> 31, numbers ^ np.uint32(1 << 31), ~numbers)
    found: Vector = bits.view(np.float32).astype(np.float64)
    return found
