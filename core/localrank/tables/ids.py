r"""Ids as bytes, their keyed hash, and the hash table that finds their rows.

The hash is SipHash-2-4 [aumasson2012] with a key of 128 bits, so that whoever chooses ids cannot make them share a place.
With :math:`h` the hash of 64 bits and :math:`m` places, the place of an id is :math:`\lfloor (h / 2^{32}) \, m / 2^{32} \rfloor`.
A slot that is taken passes the id on to the next one. The slots are as if the ids came in the order of their places, so
those of the same place in the order of the rows. With :math:`p_i` the :math:`i`-th place in this order, the slots are

.. math:: s_i = i + \max_{j \le i} (p_j - j)

Ids are compared whole. The compiled twin of `hashes` and of the look-up is items.c.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from localrank.native.items import PackedTexts, Slots, compiled_items, hash_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from localrank.arrays import Indices

#: The constants of SipHash.
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
#: Of three quarters of the places a hash is the place of an id.
_SPARE = 3
#: Bytes of a key.
KEY = 16
_LOWER = 0xFFFFFFFF
#: Between ids: a character that few ids have, and a byte that no text of UTF-8 has.
_SEPARATOR, _NEVER = "\x1f", b"\xff"


def packed(ids: Iterable[Any]) -> PackedTexts:
    """Return ids one behind the other. A text and the whole number that it spells are the same id; what is neither is empty."""
    parts = list(map(_bytes_of, ids))
    ends = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(list(map(len, parts)), out=ends[1:])
    return PackedTexts(np.frombuffer(b"".join(parts), np.uint8), ends)


def _bytes_of(one: Any) -> bytes:
    if isinstance(one, str):
        return one.encode("utf-8", "surrogatepass")
    if isinstance(one, bytes):
        # No text of UTF-8 has this byte.
        return b"" if _NEVER in one else one
    if isinstance(one, int | np.integer) and not isinstance(one, bool):
        return str(int(one)).encode()
    return b""


def key_of(digits: str) -> NDArray[np.uint64]:
    """Return a key ``[2]`` from its hexadecimal digits."""
    return np.frombuffer(bytes.fromhex(digits), "<u8").astype(np.uint64)


def hashes(key: NDArray[np.uint64], texts: PackedTexts) -> NDArray[np.uint64]:
    """Return ``[n]`` SipHash-2-4 of each text."""
    found = hash_ids(key, texts)
    if found is not None:
        return found
    sizes = np.diff(texts.ends)
    found = np.empty(len(sizes), np.uint64)
    words = sizes // 8 + 1
    for count in np.unique(words).tolist():
        which = np.flatnonzero(words == count)
        found[which] = _of_words(key, _words(texts, which, count))
    return found


def _words(texts: PackedTexts, which: Indices, count: int) -> NDArray[np.uint64]:
    """Return ``[n, count]`` the words of texts of that many words; the last has the rest and the length."""
    begins, sizes = texts.ends[which], np.diff(texts.ends)[which]
    columns = np.arange(8 * count)
    inside = columns < sizes[:, None]
    places = np.where(inside, begins[:, None] + columns, 0)
    content = texts.content if len(texts.content) else np.zeros(1, np.uint8)
    padded = np.where(inside, content[places], 0).astype(np.uint8)
    padded[:, -1] = sizes % 256
    return padded.view("<u8").astype(np.uint64)


def _of_words(key: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    v = [np.full(len(words), key[at % 2] ^ np.uint64(start)) for at, start in enumerate(_START)]
    for word in words.T:
        v[3] = v[3] ^ word
        _mix(v, 2)
        v[0] = v[0] ^ word
    v[2] = v[2] ^ np.uint64(0xFF)
    _mix(v, 4)
    found: NDArray[np.uint64] = v[0] ^ v[1] ^ v[2] ^ v[3]
    return found


def _mix(v: list[NDArray[np.uint64]], rounds: int) -> None:
    for _ in range(rounds):
        v[0] = v[0] + v[1]
        v[1] = _rotated(v[1], 13) ^ v[0]
        v[0] = _rotated(v[0], 32)
        v[2] = v[2] + v[3]
        v[3] = _rotated(v[3], 16) ^ v[2]
        v[0] = v[0] + v[3]
        v[3] = _rotated(v[3], 21) ^ v[0]
        v[2] = v[2] + v[1]
        v[1] = _rotated(v[1], 17) ^ v[2]
        v[2] = _rotated(v[2], 32)


def _rotated(words: NDArray[np.uint64], by: int) -> NDArray[np.uint64]:
    return words << np.uint64(by) | words >> np.uint64(64 - by)


def places_for(count: int) -> int:
    """Return how many places so many ids have."""
    return count + count // _SPARE + 1


def _place(hashed: NDArray[np.uint64], places: int) -> Indices:
    place: Indices = ((hashed >> np.uint64(32)) * np.uint64(places) >> np.uint64(32)).astype(np.int64)
    return place


def slots_of(hashed: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the slots of ids with these hashes, by row."""
    places = places_for(len(hashed))
    place = _place(hashed, places)
    order = np.argsort(place, kind="stable")
    counted = np.arange(len(order))
    taken = counted + np.maximum.accumulate(place[order] - counted) if len(order) else counted
    pairs = np.zeros((max(places, int(taken[-1]) + 1 if len(taken) else 0) + 1, 2), np.uint32)
    pairs[taken, 0] = order + 1
    pairs[taken, 1] = hashed[order] & np.uint64(_LOWER)
    return pairs


def repeated(hashed: NDArray[np.uint64], texts: PackedTexts) -> tuple[int, int] | None:
    """Return the rows of the first id that another row has before it, and that row; ``None`` if all differ."""
    order = np.argsort(hashed, kind="stable")
    alike = np.flatnonzero(hashed[order][1:] == hashed[order][:-1])
    found = []
    # Nearly always none; of equal hashes the texts are compared.
    groups: dict[int, dict[bytes, int]] = {}
    for at in alike.tolist():
        for row in (int(order[at]), int(order[at + 1])):
            text = texts.content[texts.ends[row] : texts.ends[row + 1]].tobytes()
            first = groups.setdefault(int(hashed[row]), {}).setdefault(text, row)
            if first != row:
                found.append((row, first))
    return min(found, default=None)


def finder(key: NDArray[np.uint64], slots: Slots) -> Callable[[Sequence[Any]], Indices]:
    """Return what finds the rows of ids, -1 for those that there are not."""
    compiled = compiled_items(key, slots)
    if compiled is None:
        return partial(_find_plainly, key, slots)
    find = compiled.find

    def rows(ids: Sequence[Any]) -> Indices:
        if not ids:
            return np.zeros(0, np.int64)
        found = None
        with suppress(TypeError, UnicodeEncodeError):
            found = find(_SEPARATOR.join(ids).encode(), ord(_SEPARATOR), len(ids))
        if found is None:
            # A number is among them, or a text with a separator, or none at all.
            found = find(_NEVER.join(map(_bytes_of, ids)), _NEVER[0], len(ids))
        return cast("Indices", found)

    return rows


def _find_plainly(key: NDArray[np.uint64], slots: Slots, ids: Sequence[Any]) -> Indices:
    """Look up id by id."""
    texts = packed(ids)
    hashed = hashes(key, texts)
    content, ends = texts.content.tobytes(), texts.ends.tolist()
    begun = zip(_place(hashed, slots.places).tolist(), hashed.tolist(), strict=True)
    return np.array(
        [_row(slots, at, one & _LOWER, content[ends[i] : ends[i + 1]]) for i, (at, one) in enumerate(begun)],
        np.int64,
    )


def _row(slots: Slots, at: int, tag: int, text: bytes) -> int:
    while row := int(slots.pairs[at, 0]):
        begin, end = int(slots.ends[row - 1]), int(slots.ends[row])
        if int(slots.pairs[at, 1]) == tag and slots.content[begin:end].tobytes() == text:
            return row - 1
        at += 1
    return -1
