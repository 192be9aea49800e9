"""uvicorn's server, except for its first and its last moment.

After the start, the garbage collector ignores all objects that exist: going through them takes 30 ms, and none of them
becomes garbage.

When it stops listening, whoever is connected is answered. The kernel completes connections before the server accepts
them, and resets those that still wait when the last listener is closed. So new connections are blocked first: the
kernel drops every further attempt, as if it were lost on the way. Then the waiting connections are accepted, and the
listener is closed. A client that was dropped tries again after a second, and is then refused.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from localrank.native.door import shut_door

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from localrank_service.http.admission import Connections

_log = logging.getLogger("localrank.service")


class Server(uvicorn.Server):
    """Serves on listeners that are handed to it.

    Args:
        config: of the server.
        last: asked when it stops: whether all other workers with the same listeners stop as well.

    Attributes:
        stuck: whether it stopped because it refuses everything although it has nothing to do.
    """

    def __init__(self, config: uvicorn.Config, last: Callable[[], bool] = lambda: True) -> None:
        super().__init__(config)
        self.stuck = False
        self._is_last = last

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Load the application and listen."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop."""
        connections: Connections | None = self.lifespan.state.get("connections")
        if connections is not None and connections.stuck and not self.stuck:
            self.stuck = True
            _log.error(
                "process %d has refused every request for a minute although it has none in work; it ends",
                os.getpid(),
            )
        return await super().on_tick(counter) or self.stuck

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Stop listening, let every connection end, and stop."""
        await self._stop_listening(sockets or [])
        await super().shutdown(sockets)

    async def _stop_listening(self, sockets: list[socket]) -> None:
        # The event loop closes its listeners some time later. These copies are closed as soon as no connection waits
        # there.
        copies = [listener.dup() for listener in sockets]
        for server in self.servers:
            server.close()
        for listener in sockets:
            listener.close()
        for _ in range(3):
            await asyncio.sleep(0)
        if self._is_last():
            for listener in copies:
                shut_door(listener)
        waiting: list[socket] = []
        for listener in copies:
            with listener, suppress(OSError):
                listener.settimeout(0.0)
                while True:
                    waiting.append(listener.accept()[0])
        for connection in waiting:
            with suppress(OSError):
                await self.accept(connection)

    async def accept(self, connection: socket) -> Any:
        """Serve a connection that the event loop did not accept itself; return its protocol."""
        protocol = functools.partial[Any](
            cast("Any", self.config.http_protocol_class),
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        return (await asyncio.get_running_loop().connect_accepted_socket(protocol, connection))[1]
