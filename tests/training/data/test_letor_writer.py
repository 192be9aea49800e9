"""Numbers and lines of LETOR text."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from localrank.errors import InvalidData
from localrank_training.data.letor_writer import (
    LetorWriter,
    _numerals,
    check_feature_names,
    check_query_ids,
)
from localrank_training.data.scanning import Block

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

FINITE32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(hnp.arrays(np.float32, 50, elements=FINITE32))
def test_a_written_number_goes_through_a_double_and_comes_back(
    values: np.ndarray[tuple[int], np.dtype[np.float32]],
) -> None:
    texts = _numerals(values).to_pylist()

    assert values.tobytes() == np.array([float(text) for text in texts]).astype(np.float32).tobytes()


def test_a_number_whose_shortest_text_does_not_come_back_is_written_longer() -> None:
    """7.038531e-26 is the shortest text of a float32, but the double nearest to it rounds to that one's neighbour."""
    value = np.array([0x15AE43FD], np.uint32).view(np.float32)

    (text,) = _numerals(value).to_pylist()

    assert np.float32(float("7.038531e-26")) != value[0]
    assert np.float32(float(text)) == value[0]


def block(matrix: list[list[float]], comments: list[str] | None = None) -> Block:
    values = np.array(matrix, np.float32)
    texts: Any = None if comments is None else pa.array(comments, pa.string())
    return Block(np.arange(len(values)) / 2, np.zeros(len(values), np.int64), texts, matrix=values)


def lines(path: Path, blocks: list[Block], *, sparse: bool | None, n_features: int = 3) -> list[str]:
    writer = LetorWriter(path, "text", n_features, sparse=sparse)
    try:
        for one in blocks:
            writer.write(one, ["q"] * len(one))
    finally:
        writer.close()
    return path.read_text().splitlines()


def test_dense_lines_have_every_value_and_the_shortest_numbers(tmp_path: Path) -> None:
    written = lines(
        tmp_path / "a", [block([[0.1, 0, -0.0], [1e-3, np.nan, 3e38]], ["", " d 1"])], sparse=False
    )

    assert ["0 qid:q 1:0.1 2:0 3:-0", "0.5 qid:q 1:0.001 2:? 3:3e+38 # d 1"] == written


def test_sparse_lines_leave_zeros_out_and_the_first_shows_the_width(tmp_path: Path) -> None:
    first, second = block([[0, 2, 0], [1, 0, 0]]), block([[0, 0, 0], [0, -0.0, 5]])

    written = lines(tmp_path / "a", [first, second], sparse=True)

    assert ["0 qid:q 2:2 3:0", "0.5 qid:q 1:1", "0 qid:q", "0.5 qid:q 2:-0 3:5"] == written


@pytest.mark.parametrize(
    ("matrix", "sparse"),
    [
        ([[0, 0, 1], [0, 0, 1]], True),  # two of three are zero, and something is left out before
        ([[1, 0, 0], [1, 0, 0]], False),  # only last values are left out
        ([[0, 1, 0], [1, 0, 1]], False),  # half is not most
        ([[0, 1, 0], [0, 0, 1]], True),
        ([[0, 0, 0], [1, 0, 1]], True),
        ([[0, 0, 0], [1, 1, 0]], False),
    ],
)
def test_zeros_are_left_out_if_they_are_most_values_and_it_shows(
    tmp_path: Path, matrix: list[list[float]], *, sparse: bool
) -> None:
    written = lines(tmp_path / "a", [block(matrix)], sparse=None)

    assert sparse == (written != lines(tmp_path / "b", [block(matrix)], sparse=False))
    assert sparse == (written == lines(tmp_path / "c", [block(matrix)], sparse=True))


def test_the_first_block_decides_for_all(tmp_path: Path) -> None:
    written = lines(tmp_path / "a", [block([[1, 1, 1]]), block([[0, 0, 1]])], sparse=None)

    assert "0 qid:q 1:0 2:0 3:1" == written[1]


def test_compressed_text_has_the_levels_and_the_checksum_of_the_tools(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    content = block(rng.standard_normal((300, 3)).tolist())
    plain = "\n".join(lines(tmp_path / "a", [content], sparse=False)).encode() + b"\n"
    for to in ("gz", "zst"):
        writer = LetorWriter(tmp_path / to, to, 3, sparse=False)
        writer.write(content, ["q"] * 300)
        writer.close()

    deflated = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    assert deflated.compress(plain) + deflated.flush() == (tmp_path / "gz").read_bytes()[10:-8]
    assert bytes(4) == (tmp_path / "gz").read_bytes()[4:8]  # no time
    packed = (tmp_path / "zst").read_bytes()
    assert zstandard.get_frame_parameters(packed).has_checksum
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
    assert compressor.compress(plain) + compressor.flush() == packed


@pytest.mark.parametrize("query_id", ["", " ", "a b", "a\tb", "a#", "\x00", "a\n"])
def test_query_ids_that_text_cannot_hold_are_refused(query_id: str) -> None:
    check_query_ids(["a", "é:1", "\x7f", "!"])

    with pytest.raises(InvalidData) as caught:
        check_query_ids(["a", query_id])

    expected = f"expected query ids that text can hold (no blank, no '#', not empty), found {query_id!r}"
    assert expected == str(caught.value)


@pytest.mark.parametrize("name", ["", " ", " a", "a ", "a\nb"])
def test_names_that_a_line_cannot_hold_are_refused(name: str) -> None:
    check_feature_names(["a", "a b", "#"])

    with pytest.raises(InvalidData) as caught:
        check_feature_names(["a", name])

    assert f"expected feature names that fit on a line, found {name!r}" == str(caught.value)


@pytest.mark.parametrize(
    ("comment", "name"),
    [("a\nb", "a line feed"), ("a\r", "a carriage return"), ("\x00", "a zero byte")],
)
def test_comments_that_a_line_cannot_hold_are_refused(tmp_path: Path, comment: str, name: str) -> None:
    with pytest.raises(InvalidData) as caught:
        lines(tmp_path / "a", [block([[1, 2, 3], [4, 5, 6]], ["fine", comment])], sparse=False)

    assert f"expected comments of one line of text, found one with {name}" == str(caught.value)
