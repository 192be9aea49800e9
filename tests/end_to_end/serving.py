"""A real server process on a real socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(
    models_dir: Path,
    *flags: str,
    python: str = sys.executable,
    log: Path | None = None,
    descriptors: int | None = None,
) -> Iterator[httpx.Client]:
    """Run ``localrank serve`` until the block ends; yield a client once it is ready.

    Args:
        models_dir: of the models to serve.
        flags: of the command.
        python: interpreter that runs it.
        log: where its output goes.
        descriptors: files and connections that it may have open at once.
    """
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCALRANK_")}
    command = [
        *(() if descriptors is None else ("prlimit", f"--nofile={descriptors}")),
        python,
        "-m",
        "localrank",
        "serve",
        "--models-dir",
        str(models_dir),
        "--port",
        str(port),
        *flags,
    ]
    log = log or models_dir.parent / f"server-{port}.log"
    with log.open("w") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                _wait_until_ready(client, server, log)
                yield client
        finally:
            server.terminate()
            try:
                server.wait(timeout=15)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def is_ready(client: httpx.Client) -> bool:
    """Tell whether a service answers and has its models."""
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def _wait_until_ready(client: httpx.Client, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            # One of several workers may be ready before the others; the last one to load prints what to try.
            if client.get("/readyz").status_code == 200 and "curl -s" in log.read_text():
                return
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            time.sleep(0.05)
    raise AssertionError(f"the server did not become ready:\n{log.read_text()}")
