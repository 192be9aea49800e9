"""What SIGTERM does: unready at once, still answering for a while, then no new connections, then the end.

The pause gives load balancers time to notice. The function wraps the handler that the server has installed, so it works
with every server. A second signal skips the pause.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import FrameType

    from localrank_service.process.settings import Settings

_log = logging.getLogger("localrank.service")


class Drained(Protocol):
    """A service that can become unready."""

    settings: Settings
    draining: bool

    def drain(self) -> None:
        """Become unready."""


def drain_on_sigterm(service: Drained) -> None:
    """Delay the server's own handler of SIGTERM by ``drain_seconds``."""
    if threading.current_thread() is not threading.main_thread():
        return
    stop = signal.getsignal(signal.SIGTERM)
    if not callable(stop):
        return
    loop = asyncio.get_running_loop()
    seconds = service.settings.drain_seconds

    def drain(number: int, frame: FrameType | None) -> None:
        again = service.draining
        service.drain()
        if again or not seconds:
            stop(number, frame)
            return
        _log.info("draining for %g s", seconds)
        loop.call_soon_threadsafe(loop.call_later, seconds, stop, number, frame)

    signal.signal(signal.SIGTERM, drain)
