"""A service of one process that watches its own event loop and memory.

    python tests/hostile/watched_server.py      (settings in the environment, as ever)

Prints the port. Each line read is answered with one line of JSON about the time since the line before: how late a task
that sleeps was woken (a histogram in steps of `STEP` milliseconds, and the latest), by how many bytes the resident memory rose
at most, and for how many seconds it had no processor. A loop that stands
still for 50 ms makes every moment within them late, not one.

Lateness does not count time in which the loop, or the thread that it waits for, was ready and had no processor: it
belongs to whatever else the machine is doing.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import uvicorn

from localrank_service.http.protocol import Http
from localrank_service.process.server import Server

if TYPE_CHECKING:
    import socket

EVERY = 0.002
#: Milliseconds of a step of the histogram, and its steps.
STEP, LONGEST = 0.25, 20_000


class Watched(Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._late: list[float] = [0.0]
        self._begin, self._delays = resident("VmRSS"), delays()
        asyncio.get_running_loop().add_reader(sys.stdin, self._answer)
        self._watching = asyncio.create_task(self._watch())
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)  # noqa: T201

    async def _watch(self) -> None:
        while True:
            due, before = time.perf_counter() + EVERY, delays()
            await asyncio.sleep(EVERY)
            late = time.perf_counter() - due
            if late > EVERY:
                late -= without_processor(before, delays())
            while late > 0:
                self._late.append(late)
                late -= EVERY

    def _answer(self) -> None:
        if not sys.stdin.readline():
            self.should_exit = True
            asyncio.get_running_loop().remove_reader(sys.stdin)
            return
        late = np.array(self._late) * 1e3
        found = {
            "late": np.histogram(late, np.arange(LONGEST + 2) * STEP)[0].tolist(),
            "latest": float(late.max()),
            "grown": resident("VmHWM") - self._begin,
            "waited": without_processor(self._delays, delays()),
        }
        print(json.dumps(found), flush=True)  # noqa: T201
        Path("/proc/self/clear_refs").write_text("5")  # the highest memory so far is forgotten
        self._late = [0.0]
        self._begin, self._delays = resident("VmRSS"), delays()


def delays() -> dict[int, int]:
    """Nanoseconds that each thread of this process has been ready and not running."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):
            found[int(task.name)] = int((task / "schedstat").read_text().split()[1])
    return found


def without_processor(before: dict[int, int], after: dict[int, int]) -> float:
    """Seconds that the loop's thread was delayed, and the one other thread that was delayed most."""
    grown = {task: delay - before.get(task, 0) for task, delay in after.items()}
    return (grown.pop(os.getpid()) + max(grown.values(), default=0)) / 1e9


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
