"""What was read stays what it was, whatever becomes of the files that it was read from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank import artifact
from localrank.arrays import Buckets, Finite, Within
from localrank.artifact import arrays
from localrank.artifact import arrays as maps
from localrank.errors import ArtifactCorrupt
from tests.core.examples import example_queries, example_ranker, provenance

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.ranker import Ranker

DIRECTIONS = "router.points.directions.npy"


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A version whose arrays all count as large."""
    monkeypatch.setattr(maps, "LARGE", 1)
    ranker = example_ranker("lsh")
    artifact.save(tmp_path / "web" / "1", ranker, provenance(ranker))
    return tmp_path / "web" / "1"


@pytest.fixture
def kept(version: Path, tmp_path: Path) -> Path:
    """A folder that has kept the version."""
    (tmp_path / "kept").mkdir()
    assert artifact.load(version, keep=tmp_path / "kept").kept
    return tmp_path / "kept"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The large files that are read to their last byte."""
    names: list[str] = []
    real = arrays.ArrayFile.check

    def check(file: arrays.ArrayFile, *rest: Any) -> None:
        names.append(file.name)
        real(file, *rest)

    monkeypatch.setattr(arrays.ArrayFile, "check", check)
    return names


def scores(ranker: Ranker) -> list[list[float]]:
    return [ranker.rank(query).scores.tolist() for query in example_queries(20, seed=5)]


def spoil(version: Path) -> None:
    """Edit every array in place, then cut it short."""
    for path in version.glob("*.npy"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2 :] = bytes(255 - byte for byte in content[len(content) // 2 :])
        with path.open("r+b") as file:
            file.write(content)
            file.flush()
            file.truncate(10)


@pytest.mark.parametrize("keep", [False, True], ids=["unnamed", "kept"])
def test_files_that_are_edited_and_cut_short_change_nothing_that_was_loaded(
    version: Path,
    tmp_path: Path,
    keep: bool,  # noqa: FBT001
) -> None:
    """In a process of its own, because a mapping of a file that is cut short kills it."""
    expected = scores(artifact.load(version).ranker)
    code = (
        "import pathlib, sys\n"
        "from localrank import artifact\n"
        "from localrank.artifact import arrays\n"
        "from tests.core.test_maps import scores, spoil\n"
        "arrays.LARGE = 1\n"
        "version, keep = map(pathlib.Path, sys.argv[1:])\n"
        "ranker = artifact.load(version, keep=keep if keep.exists() else None).ranker\n"
        "spoil(version)\n"
        "print(scores(ranker))\n"
    )
    if keep:
        (tmp_path / "folder").mkdir()

    answer = subprocess.run(
        [sys.executable, "-c", code, version, tmp_path / "folder"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, f"{expected}\n") == (answer.returncode, answer.stdout), answer.stderr
    with pytest.raises(ArtifactCorrupt):
        artifact.load(version)


def test_what_was_kept_is_the_version(version: Path, kept: Path, read: list[str]) -> None:
    expected = scores(artifact.load(version).ranker)
    shutil.rmtree(version)
    read.clear()

    attached = artifact.attach(kept)

    assert [] == read
    assert expected == scores(attached.ranker)
    assert (0.0, "web", 1) == (attached.deviation, attached.manifest.name, attached.manifest.version)
    assert {0o400} == {path.stat().st_mode & 0o777 for path in kept.iterdir()}


def test_a_loaded_version_is_read_once(version: Path, tmp_path: Path, read: list[str]) -> None:
    (tmp_path / "kept").mkdir()

    artifact.load(version, keep=tmp_path / "kept")

    assert sorted(path.name for path in version.glob("*.npy")) == sorted(read)


@pytest.mark.parametrize("rooms", [0, 1, 4, 20])
def test_a_version_that_cannot_be_kept_is_read_into_memory(
    version: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rooms: int,
) -> None:
    """The disk takes some writes, then no more."""
    expected, written, write = scores(artifact.load(version).ranker), [0], os.write
    (tmp_path / "kept").mkdir()

    def full(file: int, content: bytes) -> int:
        written[0] += 1
        if written[0] > rooms:
            raise OSError(28, "No space left on device")
        return write(file, content)

    monkeypatch.setattr(os, "write", full)

    loaded = artifact.load(version, keep=tmp_path / "kept")

    assert (expected, False) == (scores(loaded.ranker), loaded.kept)


def test_without_a_temporary_folder_arrays_are_read_into_memory(
    version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = scores(artifact.load(version).ranker)

    def nowhere(**_: object) -> None:
        raise FileNotFoundError(2, "No usable temporary folder found")

    monkeypatch.setattr("tempfile.TemporaryFile", nowhere)

    assert expected == scores(artifact.load(version).ranker)


@pytest.mark.parametrize("how", [artifact.load, artifact.verify])
def test_a_large_file_that_was_changed_is_refused(version: Path, how: Any) -> None:
    content = bytearray((version / DIRECTIONS).read_bytes())
    content[-1] ^= 1
    (version / DIRECTIONS).write_bytes(content)

    with pytest.raises(ArtifactCorrupt, match=r"directions\.npy: expected SHA-256"):
        how(version)


@pytest.mark.parametrize(
    "how",
    [artifact.load, artifact.verify, artifact.attach, artifact.read_manifest],
    ids=lambda how: how.__name__,
)
def test_a_folder_is_the_version_that_its_name_says(version: Path, tmp_path: Path, how: Any) -> None:
    """Folders of other names, such as one that was unpacked somewhere, are whatever version they hold."""
    copy, elsewhere = version.with_name("2"), tmp_path / "unpacked"
    shutil.copytree(version, copy)
    shutil.copytree(version, elsewhere)

    with pytest.raises(ArtifactCorrupt, match=r"web/2: manifest\.json: version: expected 2, .* found 1$"):
        how(copy)
    how(elsewhere)


def in_pieces(rule: Any, values: np.ndarray[Any, Any], size: int) -> str | None:
    """Check values as they are read from a file: in pieces that know where they start and what came before."""
    previous = None
    for start in range(0, len(values), size):
        piece = values[start : start + size]
        fault: str | None = rule.fault(piece, start, previous)
        if fault:
            return fault
        previous = piece[-1]
    return None


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 100])
def test_rules_hold_wherever_an_array_is_cut(size: int) -> None:
    offsets = np.array([0, 2, 2, 5, 0, 0, 4, 4, 0, 5, 5, 5], np.int32)
    rule = Buckets(4, 5)

    assert in_pieces(rule, offsets, size) is None
    for position, value, expected in (
        (4, 1, "each row to start at 0"),
        (2, 1, "offsets that never fall"),
        (6, -1, "offsets that never fall"),
        (1, -1, "offsets that never fall"),
        (11, 6, "offsets of at most 5"),
    ):
        wrong = offsets.copy()
        wrong[position] = value
        assert in_pieces(rule, wrong, size) == f"expected {expected}, found {value} at position {position}"
    numbers = np.arange(12, dtype=np.float64)
    assert in_pieces(Finite(), numbers, size) is None
    numbers[9] = np.inf
    assert in_pieces(Finite(), numbers, size) == "expected finite numbers, found inf at position 9"
    assert in_pieces(Within(0, 5), offsets, size) is None
    assert in_pieces(Within(0, 4), offsets, size) == "expected 0 to 4, found 5 at position 3"


def test_a_file_is_checked_the_same_in_small_pieces(version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_CHUNK", 24)

    assert 0.0 == artifact.verify(version).deviation
