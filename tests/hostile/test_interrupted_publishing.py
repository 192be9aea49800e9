"""Whole or nothing: processes that are killed, disks that are full, folders that may not be written."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localrank import Registry, artifact
from localrank.artifact import arrays as maps
from localrank.artifact.writing import locked, staging, sweep
from localrank.errors import PublishFailed
from localrank.routing.routers import LshRouter
from tests.core.examples import example_queries, example_ranker, provenance

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


def start(models: Path, seed: int, rounds: int = 10_000) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("publisher.py")), str(models), str(seed), str(rounds)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )


def assert_whole(models: Path) -> list[int]:
    """Every version loads, every alias and its history name versions that exist; return the versions."""
    registry = Registry(models)
    if not registry.models():
        return []
    versions = registry.versions("web")
    for version in versions:
        assert version == artifact.load(models / "web" / str(version)).manifest.version
    for alias in registry.aliases("web"):
        for promotion in registry.history("web", alias):
            assert promotion.version in versions
    if registry.aliases("web"):
        registry.resolve("web@champion")
    visible = {entry.name for entry in (models / "web").iterdir() if not entry.name.startswith(".")}
    assert visible <= {"aliases.json", *map(str, versions)}
    return versions


def kill_often(models: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    published = 0
    for _ in range(kills):
        process = start(models, seed)
        assert process.stdout is not None
        # Between two of the lines that it says, at any instant: disks differ too much for a time from the start.
        said = [process.stdout.readline() for _ in range(chance.randint(1, 10))]
        before = time.perf_counter()
        said.append(process.stdout.readline())
        time.sleep(chance.uniform(0, 1.2 * (time.perf_counter() - before)))
        process.kill()
        said += process.stdout.read().splitlines()
        process.wait()
        process.stdout.close()

        versions = assert_whole(models)
        told = [int(line.split()[1]) for line in said if line.startswith("published ")]
        if told:
            # What was said to be published is there, unless it was pruned since.
            assert max(told) in versions
            published += len(told)
    assert published
    registry = Registry(models)
    ranker = example_ranker("exact", seed=seed)
    reference = registry.publish("web", ranker, provenance(ranker, seed))
    registry.promote("web", reference.version)
    # The next publisher has swept away what the killed ones left.
    assert {".lock"} == {entry.name for entry in (models / "web").iterdir() if entry.name.startswith(".")}


def test_a_killed_publisher_leaves_whole_versions_and_sound_aliases(tmp_path: Path) -> None:
    kill_often(tmp_path, 8, seed=1)


@pytest.mark.soak
def test_hundreds_of_killed_publishers_leave_whole_versions_and_sound_aliases(tmp_path: Path) -> None:
    kill_often(tmp_path, 300, seed=2)


def test_publishers_at_once_get_different_numbers(tmp_path: Path) -> None:
    processes = [start(tmp_path, seed, rounds=3) for seed in range(3)]
    said = [process.communicate(timeout=60)[0] for process in processes]

    assert [0, 0, 0] == [process.returncode for process in processes]
    numbers = [
        int(line.split()[1]) for text in said for line in text.splitlines() if line.startswith("published")
    ]
    assert list(range(1, 10)) == sorted(numbers)
    assert_whole(tmp_path)


class Interrupted(BaseException):
    """As when somebody presses Control-C: not an error, but there is time to clean up."""


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int, error: Callable[[], BaseException]) -> list[str]:
    """Let the n-th act that reaches the disk fail; return the names of the acts before it."""
    acts: list[str] = []

    def failing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **named: Any) -> Any:
            acts.append(name)
            if len(acts) == after:
                raise error()
            return real(*arguments, **named)

        return act

    for name in ("mkdir", "rename", "replace"):
        monkeypatch.setattr(Path, name, failing(name, getattr(Path, name)))
    monkeypatch.setattr(os, "fsync", failing("fsync", os.fsync))
    return acts


@pytest.mark.parametrize(
    "error", [lambda: OSError(28, "No space left on device"), Interrupted], ids=["full", "interrupted"]
)
def test_publishing_may_fail_at_any_act(tmp_path: Path, error: Callable[[], BaseException]) -> None:
    ranker = example_ranker("exact")
    registry = Registry(tmp_path / "models")
    registry.publish("web", ranker, provenance(ranker))
    registry.promote("web", 1)
    after = 0
    while True:
        after += 1
        with pytest.MonkeyPatch.context() as monkeypatch:
            acts = interrupt(monkeypatch, after, error)
            stopped: BaseException | None = None
            try:
                registry.publish("web", ranker, provenance(ranker))
            except (PublishFailed, Interrupted) as failure:
                stopped = failure
        versions = assert_whole(registry.models_dir)
        assert not list((registry.models_dir / "web").glob(".staging-*"))
        assert {"champion": 1} == registry.aliases("web")
        if len(acts) < after:
            assert stopped is None
            break
        assert isinstance(stopped, Interrupted) or "No space left on device" in str(stopped)
        # Who is told that it failed does not find it; an interruption after the rename is too late.
        renamed = error is Interrupted and "rename" in acts[:-1]
        assert versions == ([1, 2] if renamed else [1])
        registry.prune("web", keep=0)
    # The hidden folder, eight arrays, the manifest without and with its number and its folder each time, the
    # rename, the folder above: each has failed once.
    assert 1 + 8 + 2 * 2 + 1 + 1 < after


@pytest.mark.parametrize(
    "error", [lambda: OSError(28, "No space left on device"), Interrupted], ids=["full", "interrupted"]
)
def test_promoting_may_fail_at_any_act(tmp_path: Path, error: Callable[[], BaseException]) -> None:
    ranker = example_ranker("exact")
    registry = Registry(tmp_path / "models")
    for _ in range(2):
        registry.publish("web", ranker, provenance(ranker))
    registry.promote("web", 1)
    for after in (1, 2, 3):
        with pytest.MonkeyPatch.context() as monkeypatch:
            acts = interrupt(monkeypatch, after, error)
            with pytest.raises((PublishFailed, Interrupted)):
                registry.promote("web", 2)

        assert ["fsync", "replace", "fsync"][:after] == acts[:after]
        assert {"champion": 2 if after == 3 and error is Interrupted else 1} == registry.aliases("web")
        assert_whole(registry.models_dir)


def test_a_disk_that_is_full_while_an_array_is_written_leaves_nothing(tmp_path: Path) -> None:
    """The limit on the size of files stands for the disk: the error comes from the kernel, in mid-write."""
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from localrank import Registry\n"
        "from localrank.errors import PublishFailed\n"
        "from tests.core.examples import example_ranker, provenance\n"
        "ranker = example_ranker('exact')\n"
        "said = provenance(ranker)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    Registry(Path(sys.argv[1])).publish('web', ranker, said)\n"
        "except PublishFailed as error:\n"
        "    print(error)\n"
    )

    answer = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert f"{tmp_path}/web: cannot publish a version: File too large\n" == answer.stdout
    assert [".lock"] == [entry.name for entry in (tmp_path / "web").iterdir()] or not list(
        (tmp_path / "web").iterdir()
    )


def test_a_full_device_leaves_nothing(tmp_path: Path) -> None:
    """Twelve kilobytes of memory as a disk, where the machine lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12k", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting needs root and its capabilities")
    try:
        ranker = example_ranker("exact")
        with pytest.raises(PublishFailed, match="No space left on device"):
            Registry(disk / "models").publish("web", ranker, provenance(ranker))
        assert [] == Registry(disk / "models").models()
        assert not list(disk.glob("models/web/.staging-*"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_read_only_folder_is_served_and_refuses_changes(tmp_path: Path) -> None:
    """A folder that may only be read: mounted so where root tests, else by its mode."""
    models = tmp_path / "models"
    ranker = example_ranker("exact")
    registry = Registry(models)
    registry.publish("web", ranker, provenance(ranker))
    registry.promote("web", 1)
    before = (models / "web" / "aliases.json").read_bytes()
    with_mount = os.geteuid() == 0
    if with_mount:
        steps = (
            ["mount", "--bind", str(models), str(models)],
            ["mount", "-o", "remount,ro,bind", str(models)],
        )
        if any(subprocess.run(step, check=False, capture_output=True).returncode for step in steps):
            pytest.skip("root without the right to mount may write everywhere")
    else:
        for path in (models / "web" / "1", models / "web", models):
            path.chmod(0o555)
    try:
        for act in (
            lambda: registry.publish("web", ranker, provenance(ranker)),
            lambda: registry.publish("new", ranker, provenance(ranker)),
            lambda: registry.promote("web", 1, "challenger"),
            lambda: registry.prune("web", keep=0, force=True),
        ):
            with pytest.raises(PublishFailed, match=r"Read-only file system|Permission denied"):
                act()
        query = example_queries(1)[0]
        loaded = artifact.load(registry.resolve("web").path).ranker
        assert ranker.rank(query).scores.tolist() == loaded.rank(query).scores.tolist()
        assert before == (models / "web" / "aliases.json").read_bytes()
    finally:
        if with_mount:
            subprocess.run(["umount", str(models)], check=True)
        else:
            for path in (models, models / "web", models / "web" / "1"):
                path.chmod(0o755)


def test_leftovers_of_the_living_are_not_swept_away(tmp_path: Path) -> None:
    with staging(tmp_path) as folder:
        (folder / "array.npy").write_bytes(b"")

        assert [] == sweep(tmp_path)
        assert (folder / "array.npy").exists()

    assert [] == list(tmp_path.iterdir())


def test_leftovers_of_the_dead_are_swept_away(tmp_path: Path) -> None:
    (tmp_path / ".staging-0123").mkdir()
    (tmp_path / ".staging-0123" / "array.npy").write_bytes(b"")
    (tmp_path / ".staging-0123.lock").write_bytes(b"")
    (tmp_path / ".staging-4567.lock").write_bytes(b"")

    assert [".staging-0123", ".staging-4567"] == sorted(sweep(tmp_path))
    assert [] == list(tmp_path.iterdir())


def test_what_is_being_read_survives_its_version(tmp_path: Path) -> None:
    """A mapping holds the file: deleting or renaming a served version is harmless."""
    ranker = example_ranker("lsh")
    registry = Registry(tmp_path)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(maps, "LARGE", 1)
        for _ in range(2):
            registry.publish("web", ranker, provenance(ranker))
        served = [artifact.load(registry.resolve(f"web@{version}").path).ranker for version in (1, 2)]
    queries = example_queries(20, seed=5)
    expected = [ranker.rank(query).scores.tolist() for query in queries]

    (tmp_path / "web" / "2").rename(tmp_path / "web" / "3")
    registry.prune("web", keep=0, force=True)

    assert [] == registry.models()
    for one in served:
        assert expected == [one.rank(query).scores.tolist() for query in queries]


def test_mapped_arrays_cannot_be_written(tmp_path: Path) -> None:
    ranker = example_ranker("lsh")
    artifact.save(tmp_path / "web" / "1", ranker, provenance(ranker))
    for large in (1, 2**20):
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(maps, "LARGE", large)
            router = artifact.load(tmp_path / "web" / "1").ranker.router
        assert isinstance(router, LshRouter)
        for array in (router.points.directions, router.tables.ids, router.clusters):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_reading_needs_no_lock(tmp_path: Path) -> None:
    ranker = example_ranker("exact")
    registry = Registry(tmp_path)
    registry.publish("web", ranker, provenance(ranker))
    registry.promote("web", 1)

    with locked(tmp_path / "web"):
        assert 1 == registry.resolve("web").version
        assert 0.0 == artifact.load(registry.resolve("web").path).deviation


def test_a_file_where_the_models_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("")
    ranker = example_ranker("exact")

    with pytest.raises(PublishFailed, match=r"models/web: cannot publish a version: Not a directory"):
        Registry(tmp_path / "models").publish("web", ranker, provenance(ranker))
