"""Where judged queries lie, and their bytes."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
import zstandard

from localrank_training.data import sources
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_part_that_is_only_a_byte_order_mark_does_not_end_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(compress(MARK) + compress(b"1 qid:a 1:1\n0 qid:b 1:2\n"))
    whole = read(path)
    monkeypatch.setattr(sources, "_PIECE", len(MARK))

    pieces = read(path)

    assert ("a", "b") == whole.query_ids == pieces.query_ids
