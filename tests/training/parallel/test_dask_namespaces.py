"""Scheduler, workers and client with addresses of their own, each in a network namespace, joined by a bridge.

What works only because everything is 127.0.0.1 fails here. Needs root and ``ip netns``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.training.parallel.dask_cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Addresses are of the last machine and go up; the first namespace holds the bridge.
MACHINES = ("scheduler", "worker1", "worker2", "client")
NET = "10.231.77"


class Machines:
    """Network namespaces that see each other, and nothing else."""

    def __init__(self, stack: ExitStack) -> None:
        self._own = f"lr{os.getpid()}"
        self._add("hub", stack)
        self._ip("-n", self.name("hub"), "link", "add", "bridge", "type", "bridge")
        self._ip("-n", self.name("hub"), "link", "set", "bridge", "up")
        for number, machine in enumerate(MACHINES, 1):
            self._add(machine, stack)
            port = f"port{number}"
            self._ip(
                *("link", "add", port, "netns", self.name("hub"), "type", "veth"),
                *("peer", "name", "eth0", "netns", self.name(machine)),
            )
            self._ip("-n", self.name("hub"), "link", "set", port, "master", "bridge", "up")
            self._ip("-n", self.name(machine), "address", "add", f"{NET}.{number}/24", "dev", "eth0")
            self._ip("-n", self.name(machine), "link", "set", "eth0", "up")

    def name(self, machine: str) -> str:
        return f"{self._own}-{machine}"

    def on(self, machine: str) -> tuple[str, ...]:
        """Return the command that runs another one there."""
        return "ip", "netns", "exec", self.name(machine)

    def _add(self, machine: str, stack: ExitStack) -> None:
        self._ip("netns", "add", self.name(machine))
        stack.callback(self._ip, "netns", "delete", self.name(machine))
        self._ip("-n", self.name(machine), "link", "set", "lo", "up")

    @staticmethod
    def _ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def machines() -> Iterator[Machines]:
    if sys.platform != "linux" or shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("needs root and ip netns")
    tried = subprocess.run(["ip", "netns", "add", f"lr{os.getpid()}-try"], check=False, capture_output=True)
    if tried.returncode:
        pytest.skip(f"network namespaces are not permitted: {tried.stderr.decode().strip()}")
    subprocess.run(["ip", "netns", "delete", f"lr{os.getpid()}-try"], check=True)
    with ExitStack() as stack:
        yield Machines(stack)


def published(models: Path) -> dict[str, str]:
    """Return the digest of every array of the version."""
    manifest = json.loads((models / "web" / "1" / "manifest.json").read_text())
    return {name: one["sha256"] for name, one in manifest["files"].items()}


@pytest.mark.soak
def test_machines_with_addresses_of_their_own_learn_the_model_of_one_machine(
    machines: Machines, tmp_path: Path
) -> None:
    """The second worker does not see the data, which are sent to both instead."""
    localrank = [sys.executable, "-m", "localrank"]
    text, data = tmp_path / "judged.txt", tmp_path / "data"
    data.mkdir()
    synthetic = ["--queries", "60", "--documents", "80", "--features", "20", "--kinds", "2"]
    subprocess.run([*localrank, "data", "synthesize", *synthetic, "--out", str(text)], check=True)
    subprocess.run(
        [*localrank, "data", "convert", str(text), "--out", str(data / "mapped.arrow")],
        check=True,
    )
    train = [*localrank, "train", str(data / "mapped.arrow"), "--name", "web", "--method", "localrank"]
    train += ["--set", "clustering.candidates=[1,2]", "--set", "learner.C=[1.0]", "--models-dir"]
    subprocess.run([*train, str(tmp_path / "here")], check=True, capture_output=True)
    hidden = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{data}" && exec "$@"', "sh")

    with ExitStack() as stack:
        cluster = Cluster(tmp_path, stack, host=f"{NET}.1", within=machines.on("scheduler"))
        cluster.add_worker("--host", f"{NET}.2", within=machines.on("worker1"))
        cluster.add_worker("--host", f"{NET}.3", within=(*machines.on("worker2"), *hidden))
        waits = "import distributed, sys; distributed.Client(sys.argv[1]).wait_for_workers(2, timeout=120)"
        subprocess.run(
            [*machines.on("client"), sys.executable, "-c", waits, cluster.address],
            check=True,
            capture_output=True,
        )
        there = subprocess.run(
            [*machines.on("client"), *train, str(tmp_path / "there"), "--dask", cluster.address],
            check=False,
            capture_output=True,
            text=True,
        )

    assert f"tcp://{NET}.1:" in cluster.address
    assert 0 == there.returncode, there.stderr
    assert f"worker tcp://{NET}.3:" in there.stderr
    assert "does not have the same file" in there.stderr
    assert published(tmp_path / "here") == published(tmp_path / "there")
