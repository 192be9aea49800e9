"""Private copies of served versions: one for all who serve a version, and none that nobody serves."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localrank import artifact
from localrank.errors import ArtifactError, InvalidConfiguration
from localrank.registry.versions import Registry
from localrank_service.models.copies import Copies, Hold

if TYPE_CHECKING:
    from localrank.registry.versions import Reference


@pytest.fixture
def first(models_dir: Path) -> Reference:
    return Registry(models_dir).resolve("demo@1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where copies are kept."""
    return tmp_path / "of" / "versions"


def kept(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def spoil(copy: Path) -> None:
    manifest = copy / "manifest.json"
    manifest.chmod(0o600)
    manifest.write_text("{")


def test_a_version_that_somebody_serves_is_taken_from_the_copy(first: Reference, folder: Path) -> None:
    read, hold = Copies(folder).load(first)
    shutil.rmtree(first.path)

    again, other = Copies(folder).load(first)

    assert hold is not None
    assert other is not None
    assert {"demo@1"} == kept(folder)
    assert ("demo", 1) == (again.manifest.name, again.manifest.version)
    assert (
        read.ranker.rank(read.probe.documents[0]).order.tolist()
        == again.ranker.rank(read.probe.documents[0]).order.tolist()
    )


def test_any_of_those_who_serve_it_keeps_the_copy(first: Reference, folder: Path) -> None:
    copies = Copies(folder)
    _, one = copies.load(first)
    _, other = copies.load(first)

    del one
    copies.sweep()
    held = kept(folder)
    del other
    copies.sweep()

    assert ({"demo@1"}, set()) == (held, kept(folder))


def test_a_copy_that_nobody_serves_is_made_and_verified_anew(first: Reference, folder: Path) -> None:
    copies = Copies(folder)
    _, hold = copies.load(first)
    del hold
    spoil(folder / "demo@1")

    read, again = copies.load(first)

    assert again is not None
    assert "demo" == read.manifest.name
    assert (first.path / "manifest.json").read_bytes() == (folder / "demo@1" / "manifest.json").read_bytes()


def test_a_copy_that_was_spoilt_is_said_and_the_published_version_is_read(
    first: Reference, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copies = Copies(folder)
    _, hold = copies.load(first)
    spoil(folder / "demo@1")

    read, other = copies.load(first)

    assert hold is not None
    assert other is None
    assert "demo" == read.manifest.name
    assert "the copy of model demo@1 is broken: " in caplog.text


def test_a_version_is_served_without_a_copy_if_the_folder_is_removed(
    first: Reference, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copies = Copies(folder)
    shutil.rmtree(folder)

    read, hold = copies.load(first)
    copies.sweep()

    assert ("demo", 1, None) == (read.manifest.name, read.manifest.version, hold)
    assert not copies.has(first)
    assert f"cannot copy model demo@1 to {folder}" in caplog.text
    assert caplog.text.rstrip().endswith("No such file or directory")


def test_sweeping_removes_what_nobody_holds_and_drafts_but_not_the_lock(
    first: Reference, folder: Path
) -> None:
    copies = Copies(folder)
    _, hold = copies.load(first)
    for name in ("demo@2", ".draft-x"):
        (folder / name).mkdir()
        (folder / name / "file").touch()

    copies.sweep()

    assert hold is not None
    assert {".lock", ".demo@1.lock", "demo@1"} == {path.name for path in folder.iterdir()}


def test_nothing_is_swept_while_a_copy_is_being_made(first: Reference, folder: Path) -> None:
    copies = Copies(folder)
    copies.load(first)
    making = os.open(folder / ".lock", os.O_RDWR)
    fcntl.flock(making, fcntl.LOCK_EX)

    copies.sweep()
    meanwhile = kept(folder)
    os.close(making)
    copies.sweep()

    assert ({"demo@1"}, set()) == (meanwhile, kept(folder))


def test_it_is_known_which_versions_there_are(first: Reference, models_dir: Path, folder: Path) -> None:
    copies, second = Copies(folder), Registry(models_dir).resolve("demo@2")
    before = copies.has(first)
    copies.load(first)

    assert (False, True, False) == (before, copies.has(first), copies.has(second))
    assert not copies.has(replace(first, name="../versions/demo"))


def test_without_a_folder_every_process_reads_for_itself(first: Reference) -> None:
    copies = Copies(None)

    read, hold = copies.load(first)
    copies.sweep()

    assert ("demo", None, False) == (read.manifest.name, hold, copies.has(first))


def test_without_room_for_a_draft_the_version_is_served_from_memory(
    first: Reference, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(**_where: object) -> str:
        raise OSError(28, "No space left on device")

    copies = Copies(folder)
    monkeypatch.setattr("tempfile.mkdtemp", full)

    read, hold = copies.load(first)

    assert ("demo", None, set()) == (read.manifest.name, hold, kept(folder))
    assert f"cannot copy model demo@1 to {folder}; every worker keeps it in its own memory" in caplog.text
    assert caplog.text.rstrip().endswith(": No space left on device")


def test_half_a_copy_is_removed_and_the_version_is_served_from_memory(
    first: Reference, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    load = artifact.load

    def cut(path: Path, **how: Any) -> Any:
        return replace(load(path, **how), kept=False)

    monkeypatch.setattr(artifact, "load", cut)

    read, hold = Copies(folder).load(first)

    assert ("demo", None, set()) == (read.manifest.name, hold, kept(folder))
    assert caplog.text.rstrip().endswith("in its own memory: the disk is full")


def test_a_version_that_does_not_verify_leaves_nothing(first: Reference, folder: Path) -> None:
    spoil(first.path)

    with pytest.raises(ArtifactError):
        Copies(folder).load(first)

    assert set() == kept(folder)


@pytest.mark.parametrize("shared", [True, False])
def test_keys_to_trust_are_read_for_every_version(
    first: Reference, folder: Path, tmp_path: Path, *, shared: bool
) -> None:
    copies = Copies(folder if shared else None, trusted_keys=tmp_path / "none.pem")

    for load in (lambda: copies.load(first), lambda: copies.read(first.path)):
        with pytest.raises(InvalidConfiguration, match=r"none\.pem: cannot read keys"):
            load()


def test_copies_are_private(first: Reference, folder: Path) -> None:
    Copies(folder).load(first)

    assert (0o700, 0o600) == tuple(path.stat().st_mode & 0o777 for path in (folder, folder / ".lock"))
    assert not (folder / "demo@1").stat().st_mode & 0o077


def test_who_lets_go_leaves_no_file_open(first: Reference, folder: Path) -> None:
    copies = Copies(folder)
    gc.collect()
    before = open_files()

    _, hold = copies.load(first)
    _, other = copies.load(first)
    within = open_files()
    copies.sweep()
    del hold, other
    copies.sweep()
    gc.collect()

    assert isinstance(Hold(folder), Hold)
    assert within >= before + 2
    assert before == open_files()


def test_a_version_that_is_being_copied_delays_no_other_and_is_not_swept(
    first: Reference, models_dir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, second = Copies(folder), Registry(models_dir).resolve("demo@2")
    read, found = copies.read, []

    def beside(path: Path, **keep: Any) -> Any:
        monkeypatch.setattr(copies, "read", read)
        found.append(copies.load(second))
        Copies(folder).sweep()
        return read(path, **keep)

    monkeypatch.setattr(copies, "read", beside)
    _, hold = copies.load(first)

    assert hold is not None
    assert {"demo@1", "demo@2"} == kept(folder)
    assert 1 == len(found)
