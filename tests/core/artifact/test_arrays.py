"""Files of arrays: what is written reads back, and limits hold before memory is taken."""

from __future__ import annotations

import hashlib
import io
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.arrays import Anything
from localrank.artifact import arrays
from localrank.artifact.arrays import DTYPES, PIECE, ArrayFile, read_up_to, write_array
from localrank.artifact.manifest import FileEntry
from localrank.errors import ArtifactCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "a.npy"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path, os.O_RDONLY)
    yield handle
    os.close(handle)


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 0, 3), (3, PIECE // 4 + 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_written_is_what_numpy_reads_and_the_entry_says(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    array = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)

    entry = write_array(tmp_path / NAME, array)

    content = (tmp_path / NAME).read_bytes()
    np.testing.assert_array_equal(array, np.load(tmp_path / NAME, allow_pickle=False))
    assert entry == FileEntry(hashlib.sha256(content).hexdigest(), len(content), dtype, shape)


@pytest.mark.parametrize("chunk", [5, 64, 1 << 22])
def test_a_file_is_checked_and_copied_in_pieces_of_any_size(
    tmp_path: Path, folder: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(40, dtype=np.float64).reshape(8, 5)
    entry = write_array(tmp_path / NAME, array)
    content = (tmp_path / NAME).read_bytes()
    monkeypatch.setattr(arrays, "_CHUNK", chunk)
    kept: list[list[bytes]] = [[], []]

    with ArrayFile.opened(folder, NAME, entry) as file:
        file.check(Anything(), lambda piece: kept[0].append(bytes(piece)))
        copied = file.copied(Anything(), lambda piece: kept[1].append(bytes(piece)))

    np.testing.assert_array_equal(array, copied)
    assert not copied.flags.writeable
    assert [content, content] == [b"".join(pieces) for pieces in kept]


def test_an_array_beyond_four_gibibytes_is_not_copied() -> None:
    entry = FileEntry("0" * 64, 4 * 1024**3 + 1, "uint8", (4 * 1024**3 - 127,))

    with pytest.raises(
        ArtifactCorrupt, match=r"^a\.npy: expected at most 4294967296 bytes, found 4294967297$"
    ):
        ArrayFile(io.BytesIO(), NAME, entry, 128).copied(Anything())


@pytest.mark.parametrize(("size", "expected"), [(0, b""), (1, b"a"), (4, b"abcd"), (7, b"abcdef")])
def test_no_more_is_read_than_is_asked_for(
    size: int, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_CHUNK", 2)

    assert expected == read_up_to(io.BytesIO(b"abcdef"), size)


@pytest.mark.parametrize("change", ["digest", "content"])
def test_a_file_that_is_not_what_the_manifest_says_is_refused(
    tmp_path: Path, folder: int, change: str
) -> None:
    entry = write_array(tmp_path / NAME, np.arange(3.0))
    if change == "digest":
        entry = FileEntry("0" * 64, entry.size, entry.dtype, entry.shape)
    else:
        with (tmp_path / NAME).open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\1")

    with ArrayFile.opened(folder, NAME, entry) as opened:
        for read in (opened.check, opened.copied):
            with pytest.raises(ArtifactCorrupt, match="expected SHA-256"):
                read(Anything())
