"""uvicorn's server, except for its first and its last moment.

When it has started, the garbage collector forgets all that there is: going through it takes 30 ms, and nothing of it will
be garbage. When it stops listening, whoever is connected is answered: the kernel completes connections before the
server accepts them. Those that wait for that would be reset when the listener is closed, so they are accepted first.
"""

from __future__ import annotations

import asyncio
import functools
import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import uvicorn

if TYPE_CHECKING:
    import socket

__all__ = ["Server"]


class Server(uvicorn.Server):
    """Serves on listeners that are handed to it."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Load the application and listen."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, let every connection end, and stop."""
        await self._stop_listening(sockets or [])
        await super().shutdown(sockets)

    async def _stop_listening(self, sockets: list[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        # The event loop closes its listeners some time later. These copies are closed as soon as nobody waits there.
        copies = [listener.dup() for listener in sockets]
        for server in self.servers:
            server.close()
        for listener in sockets:
            listener.close()
        for _ in range(3):
            await asyncio.sleep(0)
        waiting: list[socket.socket] = []
        for listener in copies:
            with listener, suppress(OSError):
                listener.settimeout(0.0)
                while True:
                    waiting.append(listener.accept()[0])
        protocol = functools.partial[Any](
            cast("Any", self.config.http_protocol_class),
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            _loop=loop,
        )
        for connection in waiting:
            with suppress(OSError):
                await loop.connect_accepted_socket(protocol, connection)
