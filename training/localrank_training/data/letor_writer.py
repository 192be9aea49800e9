"""Write LETOR text: dense or sparse, plain, gzip or zstd.

A number is the shortest text that reads back as itself. What text cannot hold is refused: see `check_query_ids` and
`check_feature_names`.
"""

from __future__ import annotations

import gzip
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from localrank.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank.arrays import Bits, Matrix, Vector
    from localrank_training.data.scanning import Block


class LetorWriter:
    """Writes blocks of documents as lines.

    Args:
        path: of a new file.
        to: how the text is compressed, or ``text``.
        n_features: columns of the set.
        sparse: whether zeros are left out; None does so if most values of the first block are zero.
    """

    def __init__(
        self, path: Path, to: Literal["text", "gz", "zst"], n_features: int, *, sparse: bool | None
    ) -> None:
        self._sparse = sparse
        self._first = True
        self._n_features = n_features
        self._prefixes = pa.array([f" {index}:" for index in range(1, n_features + 1)])
        self._stack = ExitStack()
        file = self._stack.enter_context(path.open("wb"))
        self._file: Any = file
        if to == "gz":
            self._file = self._stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        elif to == "zst":
            compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
            self._file = self._stack.enter_context(compressor.stream_writer(file))

    def write(self, block: Block, query_ids: Sequence[str]) -> None:
        labels, comments, matrix = block.labels, block.comments, block.dense(self._n_features)
        if self._sparse is None:
            # If a file leaves out only last features, it looks like a damaged dense file.
            self._sparse = float(np.mean(matrix == 0)) > 0.5 and _has_hole(matrix)
        lines = pc.binary_join_element_wise(_numerals(labels), pa.array(query_ids, pa.string()), " qid:")
        tails = pa.array(["\n"] * len(labels)) if comments is None else _comment_tails(comments)
        lines = pc.binary_join_element_wise(lines, self._values(matrix), tails, "")
        _, offsets, text = lines.buffers()
        ends = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
        self._file.write(memoryview(text)[int(ends[0]) : int(ends[-1])])
        self._first = False

    def close(self) -> None:
        self._stack.close()

    def _values(self, matrix: Matrix) -> Any:
        if self._sparse:
            kept = _kept(matrix)
            if self._first:
                kept[0, -1] = True  # shows how many features there are
            columns = np.nonzero(kept)[1]
            offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
            values = matrix[kept]
        else:
            values = matrix.reshape(-1)
            columns = np.tile(np.arange(matrix.shape[1]), len(matrix))
            offsets = np.arange(len(matrix) + 1) * matrix.shape[1]
        prefixes = self._prefixes.take(pa.array(columns.astype(np.int32)))
        texts = pc.binary_join_element_wise(prefixes, _numerals(values), "")
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), texts), "")


def _has_hole(matrix: Matrix) -> bool:
    """Whether a document of sparse text leaves a feature out before one that it has."""
    kept = _kept(matrix)
    return bool((~kept[:, :-1] & kept[:, 1:]).any())


def _kept(matrix: Matrix) -> Bits:
    """Return which values sparse text has: all but zeros, which an absent feature means."""
    kept: Bits = (matrix != 0) | np.signbit(matrix)
    return kept


def _numerals(values: Vector | Matrix) -> Any:
    """Return the shortest text of each number; ``?`` for NaN."""
    texts = pa.array(values).cast(pa.string())
    if values.dtype == np.float32:
        # A reader first converts the text to the nearest double. If that does not give the same float32, all digits are
        # written.
        back = texts.cast(pa.float64()).to_numpy().astype(np.float32)
        wrong = (back != values) & ~np.isnan(values)
        if bool(wrong.any()):
            exact = pa.array([repr(float(value)) for value in values[wrong]])
            texts = pc.replace_with_mask(texts, pa.array(wrong), exact)
    missing = np.isnan(values)
    return pc.if_else(pa.array(missing), "?", texts) if bool(missing.any()) else texts


def _comment_tails(comments: Any) -> Any:
    for character, name in (("\n", "a line feed"), ("\r", "a carriage return"), ("\x00", "a zero byte")):
        found = pc.match_substring(comments, character)
        if pc.any(found).as_py():
            raise InvalidData(f"expected comments of one line of text, found one with {name}")
    marked = pc.binary_join_element_wise(" #", comments, "\n", "")
    return pc.if_else(pc.equal(comments, ""), "\n", marked)


_NOT_IN_QUERY = re.compile(r"[\x00-\x20#]")


def check_query_ids(query_ids: Sequence[str]) -> None:
    """Refuse query ids that would not come back."""
    for query_id in query_ids:
        if not query_id or _NOT_IN_QUERY.search(query_id):
            raise InvalidData(
                f"expected query ids that text can hold (no blank, no '#', not empty), found {query_id!r}"
            )


def check_feature_names(names: Sequence[str]) -> None:
    """Refuse feature names that would not come back from a line each."""
    for name in names:
        if not name.strip() or name != name.strip() or "\n" in name:
            raise InvalidData(f"expected feature names that fit on a line, found {name!r}")
