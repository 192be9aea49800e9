"""One of several workers: a server that shows its supervisor that its event loop still runs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from localrank_service.process.server import Server

if TYPE_CHECKING:
    import socket

    import uvicorn

    from localrank_service.process.neighbours import Neighbours

_log = logging.getLogger("localrank.service")

#: What a worker writes to its pipe: its event loop turns, before and after it accepts connections.
STARTING = b"."
SERVING = b"s"
#: Its exit code if it was stuck (`Server.stuck`).
STUCK = 70


def work(
    config: uvicorn.Config,
    listener: socket.socket,
    beats: int,
    every: float,
    neighbours: Neighbours,
) -> None:
    """Serve until told to stop.

    Args:
        config: of the server.
        listener: shared by all workers.
        beats: a pipe; a byte is written to it every ``every`` seconds.
        every: seconds between two beats.
        neighbours: the other workers.
    """
    server = _Server(config, beats, every, neighbours)
    server.run(sockets=[listener])
    if server.stuck:
        raise SystemExit(STUCK)


class _Server(Server):
    def __init__(self, config: uvicorn.Config, beats: int, every: float, neighbours: Neighbours) -> None:
        super().__init__(config, neighbours.ending)
        self._beats = beats
        self._every = every
        self._neighbours = neighbours
        self._moving: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # A separate task, because the main loop of the server stops when the server shuts down.
        self._beating = asyncio.create_task(self._beat())
        await super().startup(sockets)
        if self.started:
            state = self.lifespan.state
            self._neighbours.join(state["connections"], state["admission"], self._take_over)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._neighbours.leave()
        await super().shutdown(sockets)

    def _take_over(self, connection: socket.socket) -> None:
        """Serve a connection that was another worker's."""
        task = asyncio.create_task(self._welcome(connection))
        self._moving.add(task)
        task.add_done_callback(self._moving.discard)

    async def _welcome(self, connection: socket.socket) -> None:
        connection.settimeout(0.0)
        with suppress(OSError):
            self.lifespan.state["connections"].welcome(await self.accept(connection))

    async def _beat(self) -> None:
        while True:
            try:
                # A pipe that is full belongs to a supervisor that is stopped itself.
                with suppress(BlockingIOError):
                    os.write(self._beats, SERVING if self.started else STARTING)
            except BrokenPipeError:
                _log.error("the supervisor of worker %d is gone; the worker stops", os.getpid())
                os.kill(os.getpid(), signal.SIGTERM)
                return
            await asyncio.sleep(self._every)
