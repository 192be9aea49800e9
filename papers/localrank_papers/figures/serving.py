"""The real service as a process of its own, asked over a socket: how long each stage of a request takes.

The service is started as anybody would start it; nothing of it is imported here.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import numpy as np

from localrank.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from localrank.arrays import Matrix, Vector

#: Seconds that the service may take to load its models.
_PATIENCE = 120.0
_PAUSE = 0.05
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Served:
    """A running service."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def milliseconds(self, model: str, documents: Matrix) -> dict[str, float]:
        """Rank one query; return the stages as the service timed them, and ``request``, the whole as seen from here."""
        body = io.BytesIO()
        np.save(body, documents)
        before = time.perf_counter()
        self._connection.request(
            "POST",
            f"/v1/rerank?{urlencode({'model': model})}",
            body.getvalue(),
            {"content-type": "application/x-npy"},
        )
        response = self._connection.getresponse()
        content = response.read()
        taken = 1e3 * (time.perf_counter() - before)
        answer = json.loads(content)
        if response.status != http.client.OK:
            raise InvalidConfiguration(
                f"service: expected a ranking by {model}, found {answer.get('detail', response.status)}"
            )
        return {**answer["timings_ms"], "request": taken}

    def fastest(
        self, models: Sequence[str], queries: Sequence[Matrix], rounds: int
    ) -> Mapping[str, Mapping[str, Vector]]:
        """Return for each model and stage ``[n_queries]`` the least milliseconds of several rounds.

        Models take turns, so that a busy moment does not affect only one of them. The least time hardly includes the
        work of other processes.
        """
        found: dict[str, list[list[dict[str, float]]]] = {model: [] for model in models}
        for _ in range(rounds):
            for model in models:
                found[model].append([self.milliseconds(model, query) for query in queries])
        return {
            model: {
                stage: np.min([[one[stage] for one in of_round] for of_round in measured], axis=0)
                for stage in measured[0][0]
            }
            for model, measured in found.items()
        }


@contextmanager
def serving(models_dir: Path) -> Iterator[Served]:
    """Run ``localrank serve`` with one worker on a free port of 127.0.0.1 until the block ends.

    Raises:
        InvalidConfiguration: it does not start; the end of what it printed says why.
    """
    port = _free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCALRANK_")}
    environment |= dict.fromkeys(_THREADS, "1")
    command = [sys.executable, "-m", "localrank", "serve", "--models-dir", str(models_dir)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    log = models_dir.parent / "service.log"
    with log.open("w") as output:
        # Nothing of the command comes from outside.
        server = subprocess.Popen(command, stdout=output, stderr=output, env=environment)  # noqa: S603
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    try:
        _wait(connection, server, log)
        yield Served(connection)
    finally:
        connection.close()
        server.terminate()
        try:
            server.wait(timeout=15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait(connection: http.client.HTTPConnection, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while server.poll() is None and time.monotonic() < until:
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
        else:
            if response.status == http.client.OK:
                return
        time.sleep(_PAUSE)
    said = " | ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
    raise InvalidConfiguration(f"service: expected localrank serve to become ready, found: {said}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
