"""Ids of items: the keyed hash, the slots, and the look-up, compiled and in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank.native.items import Slots
from localrank.tables.ids import finder, hashes, key_of, packed, places_for, repeated, slots_of

pytestmark = pytest.mark.usefixtures("arithmetic")

KEY = key_of(bytes(range(16)).hex())
#: Of the authors' own test vectors (siphash24, vectors_sip64): by the length of the text 00 01 02 ….
VECTORS = {
    0: 0x726FDB47DD0E0E31,
    1: 0x74F839C593DC67FD,
    2: 0x0D6C8009D9A94F5A,
    3: 0x85676696D7FB7E2D,
    8: 0x93F5F5799A932462,
    15: 0xA129CA6149BE45E5,
}


def test_the_hash_is_siphash_2_4() -> None:
    texts = packed([bytes(range(length)) for length in VECTORS])

    assert list(VECTORS.values()) == hashes(KEY, texts).tolist()


def table(ids: list[object]) -> Slots:
    texts = packed(ids)
    hashed = hashes(KEY, texts)
    return Slots(slots_of(hashed), places_for(len(ids)), texts.content, texts.ends.astype(np.uint32))


IDS = st.one_of(st.text(min_size=1, max_size=20), st.integers(-(2**70), 2**70))


@settings(deadline=None)
@given(st.lists(IDS, unique_by=str, max_size=60), st.lists(IDS, max_size=30))
def test_every_id_is_found_in_its_row_and_no_other_is(known: list[object], others: list[object]) -> None:
    find = finder(KEY, table(known))
    rows = {str(one): row for row, one in enumerate(known)}

    assert list(range(len(known))) == find(known).tolist()
    asked = [*others, *known[::-1]]
    assert [rows.get(str(one), -1) for one in asked] == find(asked).tolist()


def test_what_is_no_id_is_in_no_row() -> None:
    find = finder(KEY, table(["a", "7", "\x1f", "b\x1fc", "é"]))

    asked = ["a", None, 7, 7.0, True, "", b"a", b"\xff", "\x1f", "b\x1fc", "b", "é", "\ud800", ["a"]]
    assert [0, -1, 1, -1, -1, -1, 0, -1, 2, 3, -1, 4, -1, -1] == find(asked).tolist()
    assert [0, -1] == find(["a", "b"]).tolist()
    assert [] == find([]).tolist()


def test_ids_of_equal_hashes_are_told_apart() -> None:
    """All rows have the place and the lower half of the hash of the last id; only whole comparison finds its row."""
    ids = [f"item {number}" for number in range(50)]
    texts = packed(ids)
    alike = np.full(50, hashes(KEY, texts)[-1], np.uint64)
    slots = Slots(slots_of(alike), places_for(50), texts.content, texts.ends.astype(np.uint32))

    assert [49] == finder(KEY, slots)(["item 49"]).tolist()
    assert None is repeated(alike, texts)


def test_an_id_that_stands_twice_is_named_with_its_first_row() -> None:
    texts = packed(["a", "b", "c", "b", "a", 4, "4"])

    assert (3, 1) == repeated(hashes(KEY, texts), texts)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=200))
def test_slots_are_those_of_ids_that_are_put_in_one_by_one(given_hashes: list[int]) -> None:
    """Linear probing, in the order of the places."""
    places = places_for(len(given_hashes))
    slots: dict[int, int] = {}
    order = sorted(range(len(given_hashes)), key=lambda row: (given_hashes[row] >> 32) * places >> 32)
    for row in order:
        at = (given_hashes[row] >> 32) * places >> 32
        while at in slots:
            at += 1
        slots[at] = row

    found = slots_of(np.array(given_hashes, np.uint64))

    assert {at: row + 1 for at, row in slots.items()} == {
        at: int(row) for at, row in enumerate(found[:, 0]) if row
    }
    assert [0, 0] == found[-1].tolist()
    assert len(found) > max(slots, default=0) >= 0
