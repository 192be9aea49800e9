"""LETOR text of a file: `localrank.letor` with Arrow's compiled conversion of numbers. Docs: docs/use/data.md, "Text"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from localrank import letor
from localrank.errors import InvalidData

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.letor import Bytes, Lines

#: A wider matrix is refused: one stray index would otherwise ask for terabytes.
MAX_FEATURES = 100_000
#: Bytes of a line, whoever reads it.
LONGEST_LINE = letor.longest_line(MAX_FEATURES)


def parse(block: bytes, *, name: str, first_line: int = 1, max_features: int = MAX_FEATURES) -> Lines:
    """Parse whole lines; see `localrank.letor.parse`.

    Raises:
        InvalidData: names file, line and column.
    """
    try:
        return letor.parse(block, max_features=max_features, first_line=first_line, converter=_convert)
    except letor.WrongLineError as error:
        raise InvalidData(
            f"{name}:{error.line}:{error.column}: expected {error.expected}, found {error.found}"
        ) from None


def comments_of(lines: Lines) -> Any:
    """Return the comments as an Arrow string array; None if no line has one."""
    if lines.comments is None:
        return None
    text = np.frombuffer(lines.text, np.uint8)
    return _slices(text, lines.comments[:, 0], lines.comments[:, 1]).cast(pa.string())


def _convert(text: Bytes, starts: Indices, ends: Indices) -> Vector | None:
    """Convert numbers: what Arrow refuses, such as ``+1``, may still be one."""
    try:
        found: Vector = pc.cast(_slices(text, starts, ends).cast(pa.string()), pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return letor.convert(text, starts, ends)
    return found


def _slices(text: Bytes, starts: Indices, ends: Indices) -> Any:
    """Return ``text[start:end]`` for each, as an Arrow binary array.

    Arrow's strings lie end to end, so the gaps become strings as well, and every other one is taken.
    """
    if len(starts) == 0:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    both = pa.BinaryArray.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )
    return both.take(pa.array(np.arange(0, len(offsets), 2, dtype=np.int32)))
