"""Files with which something is wrong: refused, or left out and named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from localrank.__main__ import main
from localrank.errors import InvalidData
from localrank_training.data.reading import read
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.data.writing import write

if TYPE_CHECKING:
    from pathlib import Path

GOOD = [f"part-{number}.parquet" for number in range(4)]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Four good files, and one each that is narrow, cut, damaged in the middle, of queries known already, and no data."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, name in enumerate(GOOD):
        queries, _ = synthesize(8, Recipe(documents=(5, 9), features=6), sample=number)
        write(queries, folder / name)
    narrow, _ = synthesize(3, Recipe(documents=(5, 9), features=5), sample=7)
    write(narrow, folder / "part-narrow.parquet")
    whole = (folder / GOOD[2]).read_bytes()
    (folder / "part-cut.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "part-twice.parquet").write_bytes(whole)
    other, _ = synthesize(40, Recipe(documents=(50, 50), features=6), sample=8)
    write(other, folder / "part-damaged.parquet")
    damaged = bytearray((folder / "part-damaged.parquet").read_bytes())
    damaged[4000:9000] = b"\xff" * 5000
    (folder / "part-damaged.parquet").write_bytes(bytes(damaged))
    (folder / "part-zip.parquet").write_bytes(b"PK\x03\x04" + bytes(50))
    return folder


BAD = {
    "part-narrow.parquet": "expected 6 features",
    "part-cut.parquet": "expected a whole Parquet file, found damage",
    "part-twice.parquet": "expected every query in one file",
    "part-damaged.parquet": "row group 1 of 1",
    "part-zip.parquet": "found a zip archive",
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_file_among_good_ones_ends_the_run_by_default(shards: Path, bad: str) -> None:
    for other in BAD:
        if other != bad:
            (shards / other).unlink()

    with pytest.raises(InvalidData) as refused:
        read([shards])

    assert bad in str(refused.value)
    assert BAD[bad] in str(refused.value)


def test_bad_files_are_left_out_if_asked_for_and_each_is_named(shards: Path) -> None:
    said: list[str] = []

    found = read([shards], skip=True, say=said.append)

    for bad in BAD:
        (shards / bad).unlink()
    expected = read([shards])
    assert expected.query_ids == found.query_ids
    assert (expected.documents == found.documents).all()
    assert sorted(BAD) == sorted(one.file.rsplit("/", 1)[1] for one in found.skipped)
    for one in found.skipped:
        assert BAD[one.file.rsplit("/", 1)[1]] in one.reason
        assert f"skipped: {one.reason}" in said


def test_nothing_is_learned_from_bad_files_alone(shards: Path) -> None:
    for good in GOOD:
        (shards / good).unlink()
    for bad in ("part-narrow.parquet", "part-twice.parquet"):
        (shards / bad).unlink()

    with pytest.raises(InvalidData, match="expected a file that can be read, found none"):
        read([shards], skip=True)


def test_the_report_and_the_manifest_say_what_was_skipped(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = tmp_path / "models"

    train = ["train", str(shards), "--learner", "linear", "--models-dir", str(models), "--workers", "1"]
    assert 1 == main(train)
    capsys.readouterr()
    assert 0 == main([*train, "--skip-bad-files", "--json"])

    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(note.startswith("skipped 5 files of the training data: ") for note in notes)
    (manifest,) = models.glob("model/1/manifest.json")
    skipped = json.loads(manifest.read_text())["source"]["data"]["training"]["skipped"]
    assert sorted(BAD) == sorted(one["file"].rsplit("/", 1)[1] for one in skipped)


def test_conversion_leaves_them_out_too(shards: Path, tmp_path: Path) -> None:
    out = tmp_path / "mapped.arrow"

    assert 0 == main(["data", "convert", str(shards), "--out", str(out), "--skip-bad-files"])

    assert 32 == len(read([out]))
