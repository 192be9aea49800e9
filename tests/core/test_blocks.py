"""Wishes for blocks: how they are written, read and refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank.errors import InvalidConfiguration
from localrank.features.blocks import BLOCKS, Block, canonical, parse, union, width_of, written


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("raw", (Block("raw"),)),
        (" [ raw ] ", (Block("raw"),)),
        ("[minmax, zscore * 0.25, rank]", (Block("minmax"), Block("zscore", 0.25), Block("rank"))),
        ("[minmax,zscore*.25,rank]", (Block("minmax"), Block("zscore", 0.25), Block("rank"))),
        ("zscore * 2", (Block("zscore", 2.0),)),
        ("list * 1e-3", (Block("list", 0.001),)),
    ],
)
def test_a_wish_is_read(text: str, blocks: tuple[Block, ...]) -> None:
    assert blocks == parse(text)


@given(
    st.lists(st.sampled_from(list(BLOCKS)), min_size=1, unique=True),
    st.lists(st.floats(1e-30, 1000), min_size=len(BLOCKS), max_size=len(BLOCKS)),
)
def test_what_is_written_is_read_back(names: list[str], scales: list[float]) -> None:
    blocks = tuple(Block(name, scale) for name, scale in zip(names, scales, strict=False))

    text = written(blocks)

    assert blocks == parse(text)
    assert text == canonical(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected blocks such as"),
        ("[]", "expected blocks such as"),
        ("[raw", "expected blocks such as"),
        ("raw zscore", "expected blocks such as"),
        ("zscore * x", "expected blocks such as"),
        ("0.25 * zscore", "expected blocks such as"),
        ("z_score", "expected one of raw, .*, found 'z_score'; did you mean 'zscore'"),
        ("[raw, raw * 2]", "expected every block once, found 'raw' twice"),
        ("raw * 0", "raw: expected a scale above 0 and up to 1000, found 0"),
        ("raw * -1", "raw: expected a scale above 0"),
        ("raw * 1e9", "raw: expected a scale above 0"),
        ("raw * 1.2.3", "raw: expected a scale above 0"),
    ],
)
def test_what_is_no_wish_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^blocks: {message}"):
        parse(text)


def test_the_width_of_a_wish_is_the_sum_of_its_blocks() -> None:
    assert 10 + 3 == width_of("[zscore * 0.5, list]", {"zscore": 10, "list": 3})


def test_a_union_has_every_block_once_and_no_scale() -> None:
    assert "[minmax, zscore, rank, raw]" == union(["[minmax, zscore * 0.25]", "rank", "[raw, zscore]"])
