from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank_training.parallel.dask_workers import FileGone, FilePart, part_of, read_part, stamp_of

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Array


@pytest.fixture
def mapped(tmp_path: Path) -> Array:
    np.save(tmp_path / "documents.npy", np.arange(60_000.0, dtype=np.float32).reshape(-1, 6))
    found: Array = np.load(tmp_path / "documents.npy", mmap_mode="r")
    return found


def reference(array: Array) -> FilePart:
    found = part_of(array)
    assert found is not None
    return FilePart(*found, array.dtype.str, array.shape, stamp_of(found[0]))


@pytest.mark.parametrize("chosen", [slice(None), slice(17, 400), slice(9_990, None)])
def test_a_mapped_array_is_read_from_its_file(mapped: Array, chosen: slice) -> None:
    part = reference(np.asarray(mapped[chosen]))

    found = read_part(pickle.loads(pickle.dumps(part)))

    np.testing.assert_array_equal(mapped[chosen], found)
    assert not found.flags.writeable


def test_what_is_not_as_it_lies_in_a_file_is_no_part_of_one(mapped: Array, tmp_path: Path) -> None:
    changeable = np.load(tmp_path / "documents.npy", mmap_mode="r+")

    for other in (np.ones((9, 6)), mapped[::2], mapped[:, 1:], mapped + 1, changeable, mapped[[1, 2]]):
        assert part_of(other) is None


def test_another_file_in_its_place_is_not_read(mapped: Array, tmp_path: Path) -> None:
    part = reference(mapped)
    other = np.array(mapped)
    other[-1, -1] = -1.0
    (tmp_path / "new.npy").write_bytes(b"")
    np.save(tmp_path / "new.npy", other)
    (tmp_path / "new.npy").replace(tmp_path / "documents.npy")

    with pytest.raises(FileGone, match=r"documents\.npy"):
        read_part(part)


def test_a_file_that_is_not_there_is_not_read(mapped: Array, tmp_path: Path) -> None:
    part = reference(mapped)
    (tmp_path / "documents.npy").unlink()

    with pytest.raises(FileGone, match=r"documents\.npy"):
        read_part(part)
    assert "" == stamp_of(part.path)
