"""A real Dask cluster for tests: a scheduler and workers, each a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[3]
#: A piece may end this many workers before it is given up.
FAILURES = "1"


class Cluster:
    """A scheduler and its workers, each a process.

    Args:
        folder: for logs.
        stack: ends them.
        host: address of the scheduler.
        within: command that starts the scheduler where it belongs.

    """

    def __init__(
        self, folder: Path, stack: ExitStack, host: str = "127.0.0.1", within: Sequence[str] = ()
    ) -> None:
        self._folder, self._stack = folder, stack
        self.workers: list[subprocess.Popen[bytes]] = []
        self.file = folder / "scheduler.json"
        self.scheduler = self._start(
            within, "scheduler", "--host", host, "--port", "0", "--no-dashboard", "--no-show"
        )
        deadline = time.monotonic() + 120
        # The file is there before it is written.
        while not self.file.exists() or not self.file.read_text().endswith("}"):
            assert time.monotonic() < deadline
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        self.address = str(json.loads(self.file.read_text())["address"])

    def add_worker(self, *options: str, within: Sequence[str] = ()) -> None:
        self.workers.append(
            self._start(
                within,
                "worker",
                "--nworkers",
                "1",
                "--nthreads",
                "1",
                "--no-dashboard",
                "--death-timeout",
                "120",
                *options,
            )
        )

    def _start(self, within: Sequence[str], command: str, *options: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": FAILURES,
        }
        log = self._stack.enter_context((self._folder / f"{command}-{len(self.workers)}.log").open("wb"))
        process = subprocess.Popen(
            [*within, sys.executable, "-m", "dask", command, "--scheduler-file", str(self.file), *options],
            env=environment,
            stdout=log,
            stderr=log,
            cwd=self._folder,
        )
        self._stack.callback(self._end, process)
        return process

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def started(folder: Path, workers: int, *options: str) -> Iterator[Cluster]:
    with ExitStack() as stack:
        cluster = Cluster(folder, stack)
        for _ in range(workers):
            cluster.add_worker(*options)
        yield cluster
