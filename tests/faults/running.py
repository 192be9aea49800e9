"""A service of several processes that faults are done to."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ADMIN = {"x-api-key": "the-admin-key"}


class Running:
    """A running ``localrank serve``.

    Attributes:
        process: the supervisor, or the only worker.
        lines: what it has printed.
        url: where it answers.
        client: for questions beside the load; a connection for each.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self._announced()
        self.client = httpx.Client(
            base_url=self.url, headers=ADMIN | {"connection": "close"}, timeout=60, trust_env=False
        )

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines += iter(self.process.stdout.readline, "")

    def _announced(self) -> str:
        line = until(lambda: next((line for line in self.lines if line.startswith("LocalRank serves")), None))
        found = re.search(r"http://[\w.:\[\]]+", line)
        assert found is not None
        return found.group().rstrip(":")

    @property
    def workers(self) -> list[int]:
        """The processes of the live workers."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def sees(self, path: Path) -> Path:
        """Where a file that the service sees at ``path`` is for others."""
        return Path(f"/proc/{self.process.pid}/root") / path.relative_to("/")

    def logged(self, text: str, pid: int | None = None) -> list[str]:
        """The messages that contain a text, of one process if it is named."""
        records: list[dict[str, Any]] = [json.loads(line) for line in list(self.lines) if line[:1] == "{"]
        return [
            record["message"]
            for record in records
            if text in record["message"] and pid in {None, record["pid"]}
        ]

    def metric(self, name: str) -> dict[str, float]:
        """The samples of a metric by their labels."""
        lines = self.client.get("/metrics").text.splitlines()
        samples = [line.rpartition(" ") for line in lines if re.match(rf"{name}[ {{]", line)]
        return {labels.removeprefix(name): float(value) for labels, _, value in samples}

    def in_work(self) -> dict[str, float]:
        """What is counted although no client waits for an answer; the request for the metrics itself does not count."""
        found = {
            **self.metric("localrank_accepted_requests"),
            "documents": sum(self.metric("localrank_inflight_documents").values()),
            "requests": sum(self.metric("localrank_inflight_requests").values()) - 1,
            "connections": sum(self.metric("localrank_connections").values()) - 1,
        }
        return {name: count for name, count in found.items() if count}

    def stop(self) -> int:
        """End it as an operator does; return its exit code."""
        self.process.terminate()
        code = self.process.wait(timeout=60)
        self._reader.join(timeout=10)
        return code


def small_disk(folder: Path, size: str, *, holding: Path | None = None) -> str:
    """The command that makes a folder a file system of its own, with the files of another folder."""
    folder.mkdir(exist_ok=True)
    mount = f"mount -t tmpfs -o size={size} tmpfs {shlex.quote(str(folder))}"
    return (
        mount
        if holding is None
        else f"{mount} && cp -r {shlex.quote(str(holding))}/. {shlex.quote(str(folder))}"
    )


def read_only(folder: Path) -> str:
    """The command that makes a folder read-only."""
    path = shlex.quote(str(folder))
    return f"mount --bind {path} {path} && mount -o remount,bind,ro {path}"


@contextmanager
def running(
    models_dir: Path, *flags: str, workers: int = 2, prepare: Sequence[str] = (), **environ: str
) -> Iterator[Running]:
    """Run ``localrank serve`` with several workers until the block ends.

    Args:
        models_dir: what it serves.
        flags: further ones.
        workers: how many.
        prepare: shell commands that mount what only the service sees; `Running.sees` tells where that is for others.
        environ: further variables.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOCALRANK_")}
    temporary = models_dir.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    apart = ["unshare", *(["--mount"] if os.getuid() == 0 else ["--user", "--map-root-user", "--mount"])]
    process = subprocess.Popen(
        [
            *([*apart, "sh", "-c", " && ".join([*prepare, 'exec "$@"']), "sh"] if prepare else []),
            *(sys.executable, "-m", "localrank", "serve", "--models-dir", str(models_dir)),
            *("--port", "0", "--workers", str(workers), *flags),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"TMPDIR": str(temporary), **clean, "LOCALRANK_ADMIN_KEY": ADMIN["x-api-key"], **environ},
    )
    service: Running | None = None
    try:
        service = Running(process)
        yield service
        if process.poll() is None:
            # After every fault: when no connection is left, nothing is in work, waits or is in flight.
            until(lambda: not service.in_work(), 30)
            assert 0 == service.stop()
    finally:
        if service is not None:
            service.client.close()
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
        assert process.stdout is not None
        process.stdout.close()


def until(ask: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Return the first answer that is true; fail if there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return answer
