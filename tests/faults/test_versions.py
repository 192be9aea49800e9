"""Published versions that are edited, cut short, replaced or removed while they are served."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.load import loaded
from tests.faults.running import running, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.load import Load
    from tests.faults.running import Running

DIRECTIONS = "router.points.directions.npy"


def edit(version: Path) -> None:
    """Turn the bits of what is mapped, in place."""
    content = bytearray((version / DIRECTIONS).read_bytes())
    content[1000:] = bytes(255 - byte for byte in content[1000:])
    with (version / DIRECTIONS).open("r+b") as file:
        file.write(content)


def cut_short(version: Path) -> None:
    for path in version.iterdir():
        os.truncate(path, 100)


def rename(version: Path) -> None:
    version.rename(version.with_name("7"))


def remove(version: Path) -> None:
    shutil.rmtree(version)


def put_another_in_its_place(version: Path) -> None:
    shutil.rmtree(version)
    shutil.copytree(version.with_name("2"), version)


FAULTS = [edit, cut_short, rename, remove, put_another_in_its_place]


def answers_like(load: Load, expected: Any) -> None:
    """Wait for some answers, and compare all with what is expected."""
    asked = len(load.answers)
    until(lambda: len(load.answers) > asked + 50)
    assert {200} == {one.status for one in load.answers if one.status}
    for one in load.answers:
        if one.status:
            assert expected == [one.document[member] for member in ("version", "results", "route")]


def replace_worker(service: Running, victim: int) -> int:
    before = set(service.workers)
    os.kill(victim, signal.SIGKILL)
    (fresh,) = until(lambda: set(service.workers) - before)
    until(lambda: service.logged("model demo@1 loaded", fresh))
    return int(fresh)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_served_version_answers_as_before_whatever_becomes_of_its_files(
    large: Path, body: bytes, fault: Callable[[Path], None]
) -> None:
    with running(large) as service, loaded(service.url, body) as load:
        until(lambda: len(load.answers) > 10)
        first = load.answers[0].document
        expected = [first[member] for member in ("version", "results", "route")]
        workers = set(service.workers)

        fault(large / "demo" / "1")
        answers_like(load, expected)
        survived = set(service.workers)
        # Both workers are replaced, one after the other: what they serve is what the others serve.
        for victim in workers:
            replace_worker(service, victim)
            answers_like(load, expected)
        ready = service.client.get("/readyz")
        switched = service.client.post("/v1/models/demo/promote", json={"version": 2})
        refused = service.client.post("/v1/models/demo/rollback", json={})
        load.stop()

    assert workers == survived
    assert len(load.failures) <= 2 * 4
    assert {0} >= {one.status for one in load.failures}
    assert 200 == ready.status_code
    assert 200 == switched.status_code
    assert refused.status_code in {404, 409}, refused.text


def test_models_are_served_while_their_disk_is_gone(large: Path, body: bytes) -> None:
    with running(large) as service, loaded(service.url, body) as load:
        until(lambda: len(load.answers) > 10)
        first = load.answers[0].document
        expected = [first[member] for member in ("version", "results", "route")]

        large.rename(large.with_name("away"))
        for victim in set(service.workers):
            replace_worker(service, victim)
            answers_like(load, expected)
        ready = service.client.get("/readyz")
        refused = service.client.post("/v1/models/demo/promote", json={"version": 2})
        large.with_name("away").rename(large)
        switched = until(
            lambda: (
                (answer := service.client.post("/v1/models/demo/promote", json={"version": 2})).is_success
                and answer
            )
        )
        load.stop()

    assert {0} >= {one.status for one in load.failures}
    assert (200, "demo/aliases.json: no such file") == (ready.status_code, ready.json()["broken"]["demo"])
    assert 404 == refused.status_code
    assert 2 == switched.json()["version"]


def test_a_copied_version_is_not_another_version(large: Path, body: bytes) -> None:
    shutil.copytree(large / "demo" / "1", large / "demo" / "3")

    with running(large, "--extra-versions", "1") as service:
        refused = service.client.post("/v1/models/demo/promote", json={"version": 3})
        named = service.client.post("/v1/rerank", json={"model": "demo@3", **json.loads(body)})

    assert 409 == refused.status_code
    assert "demo/3: manifest.json: version: expected 3, as the folder is named, found 1" in refused.text
    assert 503 == named.status_code
    assert "expected 3" in named.text


def test_the_workers_share_one_copy_that_is_removed_when_nobody_serves_it(large: Path, body: bytes) -> None:
    with running(large) as service, loaded(service.url, body) as load:
        (copies,) = (large.parent / "tmp").glob("localrank-*/versions")

        def kept() -> set[str]:
            return {path.name for path in copies.iterdir() if not path.name.endswith(".lock")}

        def mapped() -> list[set[str]]:
            maps = [Path(f"/proc/{pid}/maps").read_text().splitlines() for pid in service.workers]
            return [{line.split()[4] for line in lines if DIRECTIONS in line} for lines in maps]

        one, other = mapped()
        before = kept()
        service.client.post("/v1/models/demo/promote", json={"version": 2})
        until(lambda: kept() == {"demo@2"})
        until(lambda: len(load.answers) > 10)
        load.stop()
        stopped = service.stop()

    assert {"demo@1"} == before
    assert one == other != set()
    assert [] == load.failures
    assert 0 == stopped
    assert not copies.exists()
