"""Arrays beside memory that nobody may touch: compiled code that reads or writes one byte too far ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_PAGE = mmap.PAGESIZE
_forbid = ctypes.CDLL(None).mprotect
_forbid.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
_FORBIDDEN = 0


def room(count: int, dtype: DTypeLike, *, in_front: bool = False) -> NDArray[Any]:
    """Return an array of zeros that ends where forbidden memory begins, or begins where some ends."""
    kind = np.dtype(dtype)
    size = count * kind.itemsize
    inside = max(-(-size // _PAGE), 1) * _PAGE
    memory = mmap.mmap(-1, inside + 2 * _PAGE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for fence in (at, at + _PAGE + inside):
        if _forbid(fence, _PAGE, _FORBIDDEN):
            raise OSError("memory cannot be forbidden")
    begin = _PAGE if in_front else _PAGE + inside - size
    return np.frombuffer(memory, kind, count, begin)


def fenced(numbers: NDArray[Any] | bytes, *, in_front: bool = False) -> NDArray[Any]:
    """Return a copy whose last byte, or first, is beside forbidden memory."""
    given = np.frombuffer(numbers, np.uint8) if isinstance(numbers, bytes) else np.ascontiguousarray(numbers)
    copy = room(given.size, given.dtype, in_front=in_front).reshape(given.shape)
    copy[...] = given
    return copy
