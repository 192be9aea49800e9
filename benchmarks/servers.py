"""Servers that benchmarks start: on 127.0.0.1, in a process group of their own, stopped whatever happens.

What a server costs is read from ``/proc``: the user and system time of the process started and of all below it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TICK = 1.0 / os.sysconf("SC_CLK_TCK")

#: One thread for linear algebra per process, whoever the server is.
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
}


class DidNotStart(Exception):
    """A server that did not answer, with the end of what it printed."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    pid: int
    port: int

    def cpu(self) -> float:
        """Return the seconds of CPU that its processes have used so far."""
        return sum(used(pid) for pid in self.processes())

    def processes(self) -> list[int]:
        """Return its process and all below it."""
        parents: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError, IndexError, ValueError):
                    parent = int(_fields(int(entry.name))[1])
                    parents.setdefault(parent, []).append(int(entry.name))
        found, waiting = [], [self.pid]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            waiting += parents.get(pid, [])
        return found

    def memory(self, member: str = "Rss") -> dict[int, float]:
        """Return megabytes by process: a member of ``smaps_rollup``, or the sum of those of its private pages."""
        found = {}
        for pid in self.processes():
            with suppress(OSError):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
                sizes = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
                private = sizes["Private_Clean"] + sizes["Private_Dirty"]
                found[pid] = (private if member == "Private" else sizes[member]) / 1000
        return found


def _fields(pid: int) -> list[str]:
    # The name of the command, in parentheses, may hold anything.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def used(pid: int) -> float:
    """Return the seconds of CPU that a process has used so far."""
    with suppress(OSError):
        fields = _fields(pid)
        return (int(fields[11]) + int(fields[12])) * _TICK
    return 0.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str],
    port: int,
    probe: bytes,
    *,
    environ: Mapping[str, str] | None = None,
    within: float = 60.0,
    cwd: Path | None = None,
) -> Iterator[Server]:
    """Start a server and wait until it answers ``probe``, a whole HTTP request, with a status below 400.

    Raises:
        DidNotStart: it ended, or did not answer in time.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD, **(environ or {})},
            start_new_session=True,
            cwd=cwd,
        )
        server = Server(process.pid, port)
        try:
            deadline, answer = time.monotonic() + within, b""
            while not (answer := ask(port, probe)).startswith((b"HTTP/1.1 2", b"HTTP/1.0 2")):
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    said = output.read().decode(errors="replace").strip().splitlines()
                    why = "ended" if process.poll() is not None else f"no good answer in {within:.0f} s"
                    last = answer.decode(errors="replace")[-300:].strip()
                    raise DidNotStart(f"{why}: " + " | ".join([*said[-4:], last]).strip(" |"))
                time.sleep(0.2)
            yield server
        finally:
            stop(server, process)


def stop(server: Server, process: subprocess.Popen[bytes]) -> None:
    """End a server and everything that it started."""
    below = server.processes()
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    for pid in below:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def ask(port: int, request: bytes, timeout: float = 5.0) -> bytes:
    """Return the answer to one request; empty if nobody listens."""
    answer = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.sendall(request)
        while True:
            part = connection.recv(1 << 16)
            if not part:
                break
            answer += part
            head, end, body = answer.partition(b"\r\n\r\n")
            length = declared(head)
            if end and length is not None and len(body) >= length:
                break
    return answer


def declared(head: bytes) -> int | None:
    """Return the content length that a response's head declares."""
    at = head.lower().find(b"\r\ncontent-length:")
    if at < 0:
        return None
    return int(head[at + 17 :].split(b"\r\n", 1)[0])


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def post(path: str, body: bytes, content_type: str, **headers: str | int) -> bytes:
    """Return a whole HTTP request."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *(f"{name.replace('_', '-')}: {text}" for name, text in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextmanager
def localrank(models_dir: Path, *, workers: int = 1, **environ: str) -> Iterator[Server]:
    """Run the service on a folder of models."""
    port = free_port()
    command = [sys.executable, "-m", "localrank", "serve", "--models-dir", str(models_dir)]
    command += ["--port", str(port), "--workers", str(workers)]
    with running(command, port, get("/readyz"), environ=environ) as server:
        if workers > 1:
            # The first worker answers before the last has loaded.
            time.sleep(2.0)
        yield server
