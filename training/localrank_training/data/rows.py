"""Matrices of documents that are too large to be held: rows are gathered or computed when they are looked at.

`QuerySet.documents` of a small set is an array. Of a large one it is a mapped file, or one of these, which are read like an
array: a slice of rows, or some rows, come as an array of their own, with the same numbers to the bit. So code that goes
through the documents in portions also works for large sets. Code that asks for all documents at once gets an array in
an unnamed file in the folder for temporary files, not in memory.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from localrank.errors import InvalidData
from localrank.features.columns import forget, slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

    from localrank.arrays import Array, Indices, Matrix

#: Numbers that are looked at at a time.
CELLS = 1 << 20
#: Bytes of documents that are copied in memory: of a set that is in memory, and of one that is not.
HELD, HELD_OF_MAPPED = 1 << 30, 1 << 26


def fits(documents: Matrix, n_rows: int) -> bool:
    """Tell whether this many rows of these documents may be copied in memory."""
    most = HELD if type(documents) is np.ndarray else HELD_OF_MAPPED
    return bool(4 * n_rows * documents.shape[1] <= most)


def unheld(documents: object) -> Rows | None:
    """Return documents that are not an array; None if they are an array."""
    return documents if isinstance(documents, Rows) else None


def room(n_rows: int, n_columns: int) -> Matrix:
    """Return a matrix of zeros, in memory or, if it is too large for that, in an unnamed temporary file.

    Raises:
        InvalidData: there is no room for it.
    """
    if 4 * n_rows * n_columns <= HELD:
        return np.zeros((n_rows, n_columns), np.float32)
    return scratch(n_rows, n_columns)


def scratch(n_rows: int, n_columns: int) -> Matrix:
    """Return a matrix of zeros in an unnamed temporary file.

    Raises:
        InvalidData: there is no room for it.
    """
    with tempfile.TemporaryFile(prefix="localrank-") as file:
        _reserve(file.fileno(), 0, 4 * n_rows * n_columns)
        return np.memmap(file, np.float32, "r+", 0, (n_rows, n_columns))


def _reserve(file: int, begin: int, size: int) -> None:
    """Make room in a temporary file.

    Raises:
        InvalidData: there is none.
    """
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:.1f} GiB"
    if size <= free:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, begin, max(size, 1))
            else:
                os.truncate(file, begin + max(size, 1))
        except OSError as error:
            found += f" ({error.strerror})"
        else:
            return
    raise InvalidData(
        f"{folder}: expected room for {size / 2**30:.1f} GiB of documents that do not fit into memory, found "
        f"{found}; set TMPDIR to another folder"
    )


class Rows:
    """A matrix of documents ``[n_docs, n_features]`` float32 that is not held; see the module.

    Attributes:
        shape: of the matrix.
        finite: whether every value is known to be finite.
    """

    dtype = np.dtype(np.float32)
    ndim = 2
    finite = False

    def __init__(self, n_docs: int, n_features: int) -> None:
        self.shape = (n_docs, n_features)
        self._whole: Matrix | None = None

    @property
    def as_matrix(self) -> Matrix:
        """Return itself, typed as an array."""
        return cast("Matrix", self)

    @abstractmethod
    def between(self, begin: int, end: int) -> Matrix:
        """Return those rows as a new array."""

    def some(self, rows: Indices) -> Matrix:
        """Return those rows in that order, as a new array."""
        found = np.empty((len(rows), self.shape[1]), np.float32)
        order = np.argsort(rows, kind="stable")
        ends = np.flatnonzero(np.diff(rows[order], append=-1) != 1) + 1
        begin = 0
        for end in ends.tolist():
            run = order[begin:end]
            found[run] = self.between(int(rows[run[0]]), int(rows[run[-1]]) + 1)
            begin = end
        return found

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            rows, columns = key
            if not isinstance(rows, slice):
                return (
                    self[rows][..., columns] if isinstance(rows, int | np.integer) else self[rows][:, columns]
                )
            begin, end, step = rows.indices(len(self))
            parts = [
                self[begin + part.start : begin + part.stop][:, columns]
                for part in slices((max(end - begin, 0), self.shape[1]), CELLS)
            ]
            return np.concatenate(parts or [self[:0][:, columns]])[::step]
        if isinstance(key, slice):
            begin, end, step = key.indices(len(self))
            return (
                self.between(begin, max(begin, end)) if step == 1 else self.some(np.arange(begin, end, step))
            )
        if isinstance(key, int | np.integer):
            row = range(len(self))[int(key)]
            return self.between(row, row + 1)[0]
        rows = np.asarray(key)
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.where(rows < 0, rows + len(self), rows)
        return self.some(rows.astype(np.int64))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:  # noqa: FBT001
        """Return all rows as an array in a temporary file, which is made once."""
        whole = self._whole
        if whole is None:
            whole = scratch(*self.shape)
            for part in slices(self.shape, CELLS):
                whole[part] = self.between(part.start, part.stop)
            self._whole = whole
        if dtype is None and not copy:
            return whole
        return whole.astype(np.float32 if dtype is None else dtype)

    def __getattr__(self, name: str) -> Any:
        """Use the whole array for anything that only an array can do."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_whole": None}


class Selected(Rows):
    """Some queries' rows of another matrix.

    Args:
        base: the other matrix.
        begins: ``[n_queries]`` where the rows of each query begin in it.
        offsets: ``[n_queries + 1]`` where they begin here.
    """

    def __init__(self, base: Matrix, begins: Indices, offsets: Indices) -> None:
        super().__init__(int(offsets[-1]), base.shape[1])
        self._base, self._offsets = base, offsets
        self._moved = begins - offsets[:-1]
        self.finite = getattr(base, "finite", False)

    def between(self, begin: int, end: int) -> Matrix:
        return self.some(np.arange(begin, end))

    def some(self, rows: Indices) -> Matrix:
        chosen = rows + self._moved[np.searchsorted(self._offsets, rows, side="right") - 1]
        found: Matrix = np.asarray(self._base[chosen])
        if len(chosen):
            forget(self._base, int(chosen.min()), int(chosen.max()) + 1)
        return found


class ScratchFile:
    """An unnamed temporary file of arrays, one after the other."""

    def __init__(self) -> None:
        # It has no name and is gone when the last map of it is.
        self._file = tempfile.TemporaryFile(prefix="localrank-")  # noqa: SIM115
        self.end = 0
        weakref.finalize(self, self._file.close)

    def add(self, array: Array) -> int:
        """Write an array; return where it begins.

        Raises:
            InvalidData: there is no room for it.
        """
        begin = self._file.seek(self.end)
        _reserve(self._file.fileno(), begin, array.nbytes)
        array.tofile(self._file)
        self._file.flush()
        self.end += array.nbytes
        return begin

    def cut(self, end: int) -> None:
        """Forget what lies behind ``end``."""
        self.end = self._file.seek(end)
        self._file.truncate()

    def read(self, begin: int, dtype: DTypeLike, shape: tuple[int, ...]) -> Any:
        """Return an array that was written."""
        self._file.seek(begin)
        return np.fromfile(self._file, dtype, math.prod(shape)).reshape(shape)

    def mapped(self, begin: int, dtype: DTypeLike, shape: tuple[int, ...]) -> Any:
        """Return an array that was written, mapped read-only."""
        return np.memmap(self._file, dtype, "r", begin, shape)


class StackedRows(Rows):
    """Several matrices of the same columns, one below the other."""

    def __init__(self, parts: Sequence[Matrix]) -> None:
        super().__init__(sum(len(part) for part in parts), parts[0].shape[1])
        self._parts = tuple(parts)
        self._begins = np.cumsum([0, *(len(part) for part in parts)])

    def between(self, begin: int, end: int) -> Matrix:
        found = np.empty((end - begin, self.shape[1]), np.float32)
        for part, first in zip(self._parts, self._begins.tolist(), strict=False):
            low, high = max(begin - first, 0), min(end - first, len(part))
            if low < high:
                found[first + low - begin : first + high - begin] = part[low:high]
                forget(part, low, high)
        return found
