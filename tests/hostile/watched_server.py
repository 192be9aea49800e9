"""A service of one process that watches its own event loop and memory.

    python tests/hostile/watched_server.py      (settings in the environment, as ever)

Prints the port. Each line read is answered with one line of JSON about the time since the line before: when a task that
sleeps was due and how late it was woken each time, and by how many bytes the resident memory rose at most.

The task asks nothing of the system but the time: a thread that calls the system gives up the interpreter, and may wait
for it behind a large request.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from localrank_service.http.protocol import Http
from localrank_service.process.server import Server

if TYPE_CHECKING:
    import socket

#: Seconds that the task sleeps.
EVERY = 0.002


class Watched(Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._woken: list[tuple[float, float]] = []
        self._begin = resident("VmRSS")
        asyncio.get_running_loop().add_reader(sys.stdin, self._answer)
        self._watching = asyncio.create_task(self._watch())
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)  # noqa: T201

    async def _watch(self) -> None:
        while True:
            due = time.perf_counter() + EVERY
            await asyncio.sleep(EVERY)
            self._woken.append((due, time.perf_counter() - due))

    def _answer(self) -> None:
        if not sys.stdin.readline():
            self.should_exit = True
            asyncio.get_running_loop().remove_reader(sys.stdin)
            return
        print(json.dumps({"woken": self._woken, "grown": resident("VmHWM") - self._begin}), flush=True)  # noqa: T201
        Path("/proc/self/clear_refs").write_text("5")  # the highest memory so far is forgotten
        self._woken = []
        self._begin = resident("VmRSS")


def resident(kind: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(kind)))


if __name__ == "__main__":
    os.environ.setdefault("LOCALRANK_PORT", "0")
    config = uvicorn.Config(
        "localrank_service.app:app",
        host="127.0.0.1",
        port=0,
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws="none",
        http=cast("Any", Http),
    )
    Watched(config).run()
