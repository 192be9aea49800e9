"""Rows of a published table by the ids of its items (items.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank.native.library import address_of, library

if TYPE_CHECKING:
    import ctypes

    from numpy.typing import NDArray

    from localrank.arrays import Indices, Matrix


class PackedTexts(NamedTuple):
    """PackedTexts one behind the other.

    Attributes:
        content: uint8.
        ends: ``[n + 1]`` int64, where each begins, and where the last ends.
    """

    content: NDArray[np.uint8]
    ends: Indices


class Slots(NamedTuple):
    """A hash table of texts.

    Attributes:
        pairs: ``[n_slots, 2]`` uint32: a row from 1, and the lower half of its hash. The last pair is empty.
        places: how many slots are places of hashes.
        content: uint8, all texts.
        ends: ``[n_rows + 1]`` uint32.
    """

    pairs: NDArray[np.uint32]
    places: int
    content: NDArray[np.uint8]
    ends: NDArray[np.uint32]


class Filling(NamedTuple):
    """Which columns of a table go to which features.

    Attributes:
        values: ``[n_rows, width]``.
        taken: ``[n]`` columns of the table.
        places: ``[n]`` positions of features.
        begins: ``[n]`` where in ``codes`` those of a category begin, -1 for numbers.
        codes: float32, the features' codes by the codes of the table.
    """

    values: Matrix
    taken: Indices
    places: Indices
    begins: Indices
    codes: Matrix


def hash_ids(key: NDArray[np.uint64], texts: PackedTexts) -> NDArray[np.uint64] | None:
    """Return ``[n]`` SipHash-2-4 of each text, if there is a library."""
    compiled = library()
    if compiled is None:
        return None
    count = len(texts.ends) - 1
    hashes = np.empty(count, np.uint64)
    compiled.localrank_hash_ids(
        address_of(key), address_of(texts.content), address_of(texts.ends), count, address_of(hashes)
    )
    return hashes


class CompiledItems:
    """Looks texts up in one table, whose arrays were checked, and fills documents from it."""

    def __init__(self, opened: ctypes.CDLL, key: NDArray[np.uint64], slots: Slots) -> None:
        self._arrays = key, slots  # keeps them alive
        self._library, self._key = opened, address_of(key)
        self._slots = (
            *(address_of(slots.pairs), len(slots.pairs), slots.places),
            *(address_of(slots.content), address_of(slots.ends), len(slots.ends) - 1),
        )

    def find(self, content: bytes, separator: int, count: int) -> Indices | None:
        """Return ``[n]`` the row of each text, -1 if there is none; ``None`` if the texts are not that many.

        Args:
            content: the texts, with a byte between each and the next.
            separator: that byte.
            count: of texts.
        """
        found = np.empty((3, count + 1), np.int64)
        ends = address_of(found)
        room = 8 * (count + 1)
        done: int = self._library.localrank_find_ids(
            self._key,
            content,
            len(content),
            separator,
            ends,
            count,
            ends + room,
            *self._slots,
            ends + 2 * room,
        )
        return found[2, :count] if done else None


def fill(documents: Matrix, rows: Indices, filling: Filling) -> bool:
    """Put values of rows of a table where documents have none, in place; tell whether there is a library.

    Args:
        documents: ``[n_docs, n_features]``, C-contiguous.
        rows: ``[n_docs]``, -1 for none.
        filling: which columns go where.

    Raises:
        ValueError: the documents are not such an array, or too narrow, or there are not as many rows.
    """
    if documents.ndim != 2 or documents.dtype != np.float32 or not documents.flags.c_contiguous:
        raise ValueError(f"expected contiguous rows of float32, found {documents.dtype} {documents.shape}")
    if len(filling.places) and documents.shape[1] <= filling.places.max():
        raise ValueError(f"expected more than {filling.places.max()} features, found {documents.shape[1]}")
    if rows.shape != documents.shape[:1] or rows.dtype != np.int64 or not rows.flags.c_contiguous:
        raise ValueError(f"expected int64 rows {documents.shape[:1]}, found {rows.dtype} {rows.shape}")
    compiled = library()
    if compiled is None:
        return False
    compiled.localrank_fill_items(
        address_of(rows),
        len(rows),
        address_of(filling.values),
        filling.values.shape[1],
        address_of(filling.taken),
        address_of(filling.places),
        address_of(filling.begins),
        len(filling.taken),
        address_of(filling.codes),
        address_of(documents),
        documents.shape[1],
    )
    return True


def compiled_items(key: NDArray[np.uint64], slots: Slots) -> CompiledItems | None:
    """Return what looks texts up, if there is a library."""
    opened = library()
    return None if opened is None else CompiledItems(opened, key, slots)
