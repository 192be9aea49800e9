"""Opening the compiled library, after checking that it belongs to this code.

Where the numbers of an array are in memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from localrank._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Array


def _by_numpy(array: Array) -> int:
    return int(array.ctypes.data)


#: numpy's binary interface begins an array with the object's header and then the address of its numbers.
_HEADER = object.__basicsize__
_word_at = ctypes.c_size_t.from_address


def _by_header(array: Array) -> int:
    return _word_at(id(array) + _HEADER).value


def _fastest() -> Callable[[Array], int]:
    """Return what finds the address of an array's numbers; numpy's own way takes five times as long."""
    samples = [np.arange(6.0), np.arange(6.0)[2:], np.frombuffer(b"localrank", np.uint8), np.empty((3, 0))]
    same = sys.implementation.name == "cpython" and all(_by_header(one) == _by_numpy(one) for one in samples)
    return _by_header if same else _by_numpy


address_of = _fastest()


class _Memory(threading.local):
    """Memory that every thread keeps from one call to the next, as much as its largest call took."""

    def __init__(self) -> None:
        self.size = 0

    def grow(self, size: int) -> None:
        self.array = np.empty(size, np.float32)
        self.size, self.address = size, address_of(self.array)


_memory = _Memory()


def scratch(size: int) -> int:
    """Return the address of at least that many floats, which are this thread's until it asks again."""
    if size > _memory.size:
        _memory.grow(size)
    return _memory.address


_log = logging.getLogger(__name__)
FOLDER = Path(__file__).parent
#: Where the build puts the library. Not .so, which Python would take for an extension module.
PATH = FOLDER / "arithmetic.native"
_AGAIN = "install localrank again"


class Unusable(Exception):
    """Why there is no library, in one sentence."""


def _pointer(to: str) -> type[ctypes.c_void_p]:
    return type(f"{to} *", (ctypes.c_void_p,), {})


BYTES, SHORTS, INTS, WORDS, LONGS, LONG_WORDS, FLOATS, DOUBLES = map(
    _pointer,
    ("uint8_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "float", "double"),
)

NODES, COLUMNS, SPLITS, NEIGHBOUR, CANDIDATES, RANGES, SPANS, RUNS, BLAS, PRECISION = map(
    _pointer,
    ("node", "column", "split", "neighbour", "candidate", "range", "span", "run", "blas", "precision"),
)

COUNT, NUMBER, TEXT = ctypes.c_int64, ctypes.c_double, ctypes.c_char_p
#: What each function takes and returns, as native.h declares it.
PROTOTYPES: dict[str, tuple[list[type], type | None]] = {
    "localrank_version": ([], TEXT),
    "localrank_scale": ([FLOATS, COUNT, COUNT, COUNT, NUMBER, FLOATS, FLOATS], COUNT),
    "localrank_percentiles": ([FLOATS, COUNT, COUNT, NUMBER, LONGS, FLOATS], None),
    "localrank_behind_best": ([FLOATS, COUNT, COUNT, DOUBLES, NUMBER, FLOATS, FLOATS], COUNT),
    "localrank_out_of_range": ([FLOATS, COUNT, COUNT, FLOATS, FLOATS], COUNT),
    "localrank_eigen": ([FLOATS, COUNT, COUNT, FLOATS, DOUBLES, FLOATS], COUNT),
    "localrank_eigen_room": ([COUNT, COUNT], COUNT),
    "localrank_centre": ([FLOATS, COUNT, COUNT, BLAS, PRECISION, FLOATS, FLOATS, DOUBLES], COUNT),
    "localrank_directions": (
        [FLOATS, COUNT, COUNT, FLOATS, DOUBLES, COUNT, BLAS, PRECISION, FLOATS, DOUBLES, FLOATS],
        COUNT,
    ),
    "localrank_directions_room": ([COUNT, COUNT, COUNT], COUNT),
    "localrank_nearest": (
        [FLOATS, LONGS, LONGS, COUNT, COUNT, COUNT, FLOATS, COUNT, LONGS, COUNT, FLOATS, NEIGHBOUR],
        None,
    ),
    "localrank_votes": (
        [FLOATS, COUNT, COUNT, COUNT, INTS, INTS, COUNT, COUNT, COUNT, RANGES, INTS, CANDIDATES, COUNT],
        COUNT,
    ),
    "localrank_most_votes": (
        [CANDIDATES, COUNT, SHORTS, COUNT, COUNT, COUNT, COUNT, LONG_WORDS, LONGS],
        COUNT,
    ),
    "localrank_walk": (
        [FLOATS, COUNT, COUNT, NODES, INTS, COUNT, DOUBLES, LONGS, WORDS, COUNT, COUNT, DOUBLES],
        None,
    ),
    "localrank_gains": (
        [FLOATS, COUNT, COUNT, NODES, COUNT, INTS, COUNT, DOUBLES, LONGS, WORDS, COUNT, LONGS, DOUBLES],
        None,
    ),
    "localrank_contributions": (
        [FLOATS, COUNT, COUNT, NODES, INTS, COUNT, LONGS, WORDS, COUNT, DOUBLES, DOUBLES],
        None,
    ),
    "localrank_most_leaves": ([], COUNT),
    "localrank_leaves": (
        [
            *(FLOATS, COUNT, COUNT, COLUMNS, COUNT, SPLITS, INTS, INTS, COUNT, COUNT, DOUBLES),
            *(LONGS, WORDS, FLOATS, DOUBLES),
        ],
        None,
    ),
    "localrank_lift_numbers": (
        [
            *(BYTES, COUNT, BYTES, COUNT, LONG_WORDS, FLOATS, COUNT, SPANS, COUNT, BYTES, COUNT),
            *(LONGS, COUNT, LONGS),
        ],
        COUNT,
    ),
    "localrank_scan_json": ([BYTES, COUNT, COUNT, COUNT, COUNT, LONGS], COUNT),
    "localrank_cut_json": ([BYTES, COUNT, COUNT, COUNT, COUNT, RUNS, COUNT, LONGS], COUNT),
    "localrank_hash_ids": ([LONG_WORDS, BYTES, LONGS, COUNT, LONG_WORDS], None),
    "localrank_find_ids": (
        [
            *(LONG_WORDS, BYTES, COUNT, COUNT, LONGS, COUNT, LONG_WORDS, WORDS, COUNT, COUNT),
            *(BYTES, WORDS, COUNT, LONGS),
        ],
        COUNT,
    ),
    "localrank_fill_items": (
        [LONGS, COUNT, FLOATS, COUNT, LONGS, LONGS, LONGS, COUNT, FLOATS, FLOATS, COUNT],
        None,
    ),
}


@cache
def library() -> ctypes.CDLL | None:
    """Return the library that was built at installation; ``None``, with a warning in the log, if it cannot be used."""
    try:
        return load(PATH)
    except Unusable as problem:
        _log.warning("compiled kernels unavailable; using the slower numpy code: %s", problem)
        return None


def load(path: Path) -> ctypes.CDLL:
    """Open a library and check that it was built for this version and from these sources.

    Raises:
        Unusable: it is missing, stale, or for another processor.
    """
    if not path.exists():
        raise Unusable(
            f"{path.name} was not built when localrank was installed; install again with "
            "LOCALRANK_REQUIRE_NATIVE=1 to see why"
        )
    try:
        opened = ctypes.CDLL(str(path))
        for name, (takes, returns) in PROTOTYPES.items():
            function = getattr(opened, name)
            function.argtypes, function.restype = takes, returns
    except (OSError, AttributeError) as error:
        raise Unusable(f"{path.name} cannot be opened ({error}); {_AGAIN}") from error
    expected, found = version_of(FOLDER), opened.localrank_version().decode()
    # A wheel has no sources, so there only the version is compared.
    if found.split()[0] != expected.split()[0]:
        raise Unusable(
            f"{path.name} was built for version {found.split()[0]}, expected {__version__}; {_AGAIN}"
        )
    if any(FOLDER.glob("*.c")) and found != expected:
        raise Unusable(f"{path.name} is older than its sources; {_AGAIN}")
    return opened


def version_of(sources: Path) -> str:
    """Return the version and the digest that a library built from these sources holds."""
    digest = hashlib.sha256()
    for source in sorted(sources.glob("*.[ch]")):
        digest.update(source.read_bytes())
    return f"{__version__} {digest.hexdigest()[:12]}"


def is_plain(array: Array) -> bool:
    """Return whether the library may read this array: float32, one number after the other."""
    return array.dtype == np.float32 and bool(array.flags.c_contiguous)
