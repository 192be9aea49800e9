from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank import artifact
from localrank.artifact import arrays, digests
from localrank.artifact.content import Buckets, Finite, Within
from localrank.errors import ArtifactCorrupt
from tests.core.examples import example_ranker, provenance

if TYPE_CHECKING:
    from pathlib import Path

DIRECTIONS = "router.signatures.directions.npy"


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A version whose arrays all count as large, and are long settled."""
    monkeypatch.setattr(arrays, "LARGE", 1)
    ranker = example_ranker("lsh")
    artifact.save(tmp_path / "web" / "1", ranker, provenance(ranker))
    monkeypatch.setattr(digests, "_SETTLED", -1.0)
    return tmp_path / "web" / "1"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read to their last byte."""
    names: list[str] = []
    real = arrays._check_content

    def check(file: Any, name: str, *rest: Any) -> None:
        names.append(name)
        real(file, name, *rest)

    monkeypatch.setattr(arrays, "_check_content", check)
    return names


def test_a_large_file_is_read_once(version: Path, tmp_path: Path, read: list[str]) -> None:
    artifact.load(version, cache=tmp_path / "cache")
    first = sorted(read)
    read.clear()

    artifact.load(version, cache=tmp_path / "cache")

    assert sorted(path.name for path in version.glob("router.*.npy")) == first
    assert [] == read


def test_a_renamed_version_is_not_read_again(version: Path, tmp_path: Path, read: list[str]) -> None:
    artifact.load(version, cache=tmp_path / "cache")
    read.clear()
    version.rename(version.with_name("2"))

    artifact.load(version.with_name("2"), cache=tmp_path / "cache")

    assert [] == read


def test_verification_believes_nothing_remembered(version: Path, tmp_path: Path, read: list[str]) -> None:
    artifact.load(version, cache=tmp_path / "cache")
    read.clear()

    artifact.verify(version)

    assert DIRECTIONS in read


@pytest.mark.parametrize("forged", [False, True], ids=["in place", "with its old time"])
def test_a_changed_file_is_read_again_and_refused(version: Path, tmp_path: Path, forged: bool) -> None:  # noqa: FBT001
    artifact.load(version, cache=tmp_path / "cache")
    before = (version / DIRECTIONS).stat()
    content = bytearray((version / DIRECTIONS).read_bytes())
    content[-1] ^= 1

    with (version / DIRECTIONS).open("r+b") as file:
        file.write(content)
    if forged:
        os.utime(version / DIRECTIONS, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert before.st_ino == (version / DIRECTIONS).stat().st_ino
    with pytest.raises(ArtifactCorrupt, match=r"directions\.npy: expected SHA-256"):
        artifact.load(version, cache=tmp_path / "cache")


def test_a_manifest_that_expects_another_digest_is_not_satisfied_by_memory(
    version: Path, tmp_path: Path
) -> None:
    """What is remembered is the digest that was found, not that all was well."""
    cache = digests.DigestCache(tmp_path / "cache")
    status = (version / DIRECTIONS).stat()
    cache.remember(status, "a" * 64, "Finite()")

    assert cache.knows(status, "a" * 64, "Finite()")
    assert not cache.knows(status, "b" * 64, "Finite()")
    assert not cache.knows(status, "a" * 64, "Within(low=0, high=2)")


def test_a_file_that_has_just_changed_is_not_remembered(tmp_path: Path) -> None:
    """It could change again within the resolution of its times."""
    (tmp_path / "file").write_bytes(b"")
    cache = digests.DigestCache(tmp_path / "cache")

    cache.remember((tmp_path / "file").stat(), "a" * 64, "Finite()")

    assert not cache.knows((tmp_path / "file").stat(), "a" * 64, "Finite()")


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b"[" * 50_000, b"null", json.dumps({"sha256": "a" * 64}).encode()],
)
def test_a_broken_record_only_costs_time(
    version: Path, tmp_path: Path, read: list[str], content: bytes
) -> None:
    artifact.load(version, cache=tmp_path / "cache")
    for record in (tmp_path / "cache").iterdir():
        record.write_bytes(content)
    read.clear()

    artifact.load(version, cache=tmp_path / "cache")

    assert DIRECTIONS in read


def test_records_that_others_may_write_are_not_believed(
    version: Path, tmp_path: Path, read: list[str]
) -> None:
    artifact.load(version, cache=tmp_path / "cache")
    for record in (tmp_path / "cache").iterdir():
        record.chmod(0o666)
    read.clear()

    artifact.load(version, cache=tmp_path / "cache")

    assert DIRECTIONS in read


def test_a_cache_that_cannot_be_written_only_costs_time(
    version: Path, tmp_path: Path, read: list[str]
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")

    for _ in range(2):
        read.clear()
        artifact.load(version, cache=tmp_path / "cache")
        assert DIRECTIONS in read


def test_without_a_home_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", homeless)

    assert digests.default_cache() is None


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
