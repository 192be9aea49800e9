"""The same answers without compiled code: text is looked at block by block, and no block knows where a text ends."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank.native import texts as scan
from localrank_service.wire import uncompiled
from tests.service.wire.test_text import bodies, damaged, values

FAR = {"members": 10**6, "numbers": 10**6, "levels": 64}


@pytest.fixture(scope="module", autouse=True)
def _both() -> None:
    """Other tests of wires run with and without compiled code; these compare the two."""


def scanned(body: bytes, block: int, **sizes: int) -> scan.Size:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uncompiled, "_BLOCK", block)
        return uncompiled.scan(body, **sizes)


@settings(max_examples=50)
@given(body=bodies(), block=st.integers(1, 9))
def test_values_are_counted_however_blocks_cut_them(body: bytes, block: int) -> None:
    expected = scan.scan(body, **FAR)
    assert expected is not None

    exactly = scanned(body, block, members=expected.members, numbers=expected.numbers, levels=expected.levels)
    far = scanned(body, block, **FAR)

    assert ("", expected.levels) == (exactly.problem, exactly.levels)
    if exactly.members or exactly.numbers:
        assert expected[3:] == exactly[3:]
    assert ("", expected.levels, len(body)) == (far.problem, far.levels, far.at)


@settings(max_examples=50)
@given(body=bodies(), block=st.integers(1, 9), name=st.sampled_from(["members", "numbers", "levels"]))
def test_a_limit_is_passed_by_one_in_any_block(body: bytes, block: int, name: str) -> None:
    expected = scan.scan(body, **FAR)
    assert expected is not None
    sizes = {one: getattr(expected, one) for one in FAR}
    if not sizes[name]:
        return

    found = scanned(body, block, **sizes | {name: sizes[name] - 1})

    assert name == found.problem


@settings(max_examples=50)
@given(body=damaged(), block=st.integers(1, 9))
def test_what_is_no_json_is_told_however_blocks_cut_it(body: bytes, block: int) -> None:
    expected = scan.scan(body, **FAR)
    assert expected is not None

    found = scanned(body, block, **FAR)

    assert (expected.problem == "syntax") == (found.problem == "syntax")


CONTAINERS = st.lists(values, max_size=9) | st.dictionaries(st.text(max_size=3), values, max_size=9)


@settings(max_examples=50)
@given(
    body=bodies(CONTAINERS),
    block=st.integers(1, 9),
    run=st.tuples(st.integers(1, 6), st.integers(1, 60)),
    single=st.none() | st.integers(0, 9),
)
def test_a_container_is_cut_in_the_same_places(
    body: bytes, block: int, run: tuple[int, int], single: int | None
) -> None:
    begin = len(body) - len(body.lstrip())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uncompiled, "_BLOCK", block)
        for module in (scan, uncompiled):
            patch.setattr(module, "RUN_VALUES", run[0])
            patch.setattr(module, "RUN_BYTES", run[1])

        expected = scan.cut(body, begin, len(body), single=single)
        found = uncompiled.cut(body, begin, len(body), single=single)

    assert expected is not None
    assert (expected.end, expected.elements) == (found.end, found.elements)
    assert expected.runs.tolist() == found.runs.tolist()
    assert expected.runs.dtype == found.runs.dtype
    assert 6 == found.runs.shape[1]


@settings(max_examples=50)
@given(
    slashes=st.lists(st.booleans(), min_size=1, max_size=12),
    rest=st.lists(st.booleans(), max_size=12),
)
def test_what_a_backslash_escapes_is_known_across_blocks(slashes: list[bool], rest: list[bool]) -> None:
    """Counted by hand: a character is escaped if the one before it is a backslash that is not escaped itself."""
    whole = [*slashes, *rest]
    expected, escaped = [], False
    for place, slash in enumerate(whole):
        if escaped:
            expected.append(place)
        escaped = slash and not escaped
    beyond = escaped

    found: list[int] = []
    after = False
    for first, part in ((0, slashes), (len(slashes), rest)):
        if part:
            places, after = uncompiled._escaped(np.flatnonzero(part), len(part), after_escape=after)
            # What follows the block belongs to the next one.
            found += [first + int(one) for one in places if one < len(part)]

    # Backslashes that are escaped themselves are not of interest.
    assert [one for one in expected if not whole[one]] == [one for one in found if not whole[one]]
    assert beyond == after


def test_a_text_of_more_than_one_block_is_read_as_it_is() -> None:
    """The blocks are those of production: 256 KiB."""
    body: Any = json.dumps([['a\\"[', number, None] for number in range(30_000)]).encode()
    assert len(body) > 2 * 2**18

    expected, found = scan.scan(body, **FAR), uncompiled.scan(body, **FAR)
    cut, again = scan.cut(body, 0, len(body)), uncompiled.cut(body, 0, len(body))

    assert expected is not None
    assert cut is not None
    assert expected[2:] == found[2:] == (2, 60_000, 60_001, 0)
    assert cut.runs.tolist() == again.runs.tolist()
