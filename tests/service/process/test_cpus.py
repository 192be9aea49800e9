from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from threadpoolctl import threadpool_limits

from localrank_service.process import cpus

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from localrank_service.models.live import LiveModel
    from tests.service.conftest import Connect


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def member(folder: Path, *lines: str) -> Path:
    path = folder / "membership"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_unified_group_allows_its_share_of_each_period(tmp_path: Path) -> None:
    group(tmp_path / "pods" / "one", cpu__max="150000 100000")

    assert 150_000 / 100_000 == cpus.quota(tmp_path, member(tmp_path, "0::/pods/one"))


def test_the_least_of_all_levels_counts(tmp_path: Path) -> None:
    group(tmp_path / "pods", cpu__max="200000 100000")
    group(tmp_path / "pods" / "one", cpu__max="max 100000")

    assert 2 == cpus.quota(tmp_path, member(tmp_path, "0::/pods/one"))


def test_a_path_of_the_host_is_read_where_the_container_has_it(tmp_path: Path) -> None:
    group(tmp_path, cpu__max="300000 100000")

    assert 3 == cpus.quota(tmp_path, member(tmp_path, "0::/kubepods/not/here"))


def test_groups_of_the_first_version_are_read(tmp_path: Path) -> None:
    group(tmp_path / "cpu" / "docker", cpu__cfs_quota_us="50000", cpu__cfs_period_us="100000")
    group(tmp_path / "cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")

    assert 0.5 == cpus.quota(tmp_path, member(tmp_path, "4:memory:/docker", "3:cpuacct,cpu:/docker"))


@pytest.mark.parametrize("line", ["0::/", "1:cpu:/", "9:name=systemd:/"])
def test_without_a_limit_there_is_none(tmp_path: Path, line: str) -> None:
    group(tmp_path, cpu__max="max 100000")

    assert cpus.quota(tmp_path, member(tmp_path, line)) is None


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert cpus.quota(tmp_path, tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("bound", "quota", "expected"),
    [(4, None, 4), (4, 2.5, 2), (1, 8.0, 1), (4, 0.5, 1), (64, None, cpus.MOST_WORKERS)],
)
def test_there_is_a_worker_for_each_whole_processor(
    monkeypatch: pytest.MonkeyPatch, bound: int, quota: float | None, expected: int
) -> None:
    monkeypatch.setattr(cpus, "bound", lambda: bound)
    monkeypatch.setattr(cpus, "quota", lambda: quota)

    assert expected == cpus.workers()


@pytest.mark.anyio
async def test_info_shows_what_there_is(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "bound", lambda: 6)
    monkeypatch.setattr(cpus, "quota", lambda: 1.5)

    info = (await client.get("/info")).json()

    assert (1, 6, 1.5) == (info["workers"], info["cpus"], info["cpu_quota"])


@pytest.mark.anyio
async def test_a_worker_keeps_to_one_thread_for_linear_algebra_whatever_it_was_started_with(
    connect: Connect, tiny_model: LiveModel
) -> None:
    with threadpool_limits(2):
        async with connect(models=[tiny_model]) as client:
            threads = (await client.get("/info")).json()["threads"]

    assert threads
    assert {1} == set(threads.values())


def test_bare_and_malformed_limits_are_none_and_the_others_count(tmp_path: Path) -> None:
    group(tmp_path / "pods" / "one", cpu__max="many 100000")
    group(tmp_path / "pods", cpu__max="250000 100000")

    assert 2.5 == cpus.quota(tmp_path, member(tmp_path, "0::/pods/one"))


def test_lines_of_other_controllers_are_passed_over(tmp_path: Path) -> None:
    group(tmp_path / "cpu" / "docker", cpu__cfs_quota_us="0", cpu__cfs_period_us="100000")
    group(tmp_path / "docker", cpu__max="100000 100000")

    lines = member(tmp_path, "12:cpuset:/docker", "4:cpuacct,cpu:/docker")

    assert 0.0 == cpus.quota(tmp_path, lines)


def test_groups_above_the_mounted_ones_are_not_read(tmp_path: Path) -> None:
    group(tmp_path, cpu__max="100000 100000")
    group(tmp_path / "mounted", cpu__max="300000 100000")

    assert 3.0 == cpus.quota(tmp_path / "mounted", member(tmp_path, "0::/"))


@pytest.mark.parametrize(("affinity", "count", "expected"), [({0, 3}, 8, 2), (None, 8, 8), (None, None, 1)])
def test_processors_are_those_that_it_may_run_on(
    affinity: set[int] | None, count: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every system knows the affinity of a process."""
    monkeypatch.setattr("os.cpu_count", lambda: count)
    if affinity is None:
        monkeypatch.delattr("os.sched_getaffinity", raising=False)
    else:
        monkeypatch.setattr("os.sched_getaffinity", lambda _process: affinity, raising=False)

    assert expected == cpus.bound()


def test_at_most_8_workers_are_started_unasked() -> None:
    """As docs/operate/operations.md says."""
    assert 8 == cpus.MOST_WORKERS
