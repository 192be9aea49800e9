"""The parent of several workers: uvicorn's, except that it also passes on a second SIGTERM."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from uvicorn.supervisors import Multiprocess

__all__ = ["Supervisor"]


class Supervisor(Multiprocess):
    """Starts workers, replaces those that die, and stops them all."""

    def join_all(self) -> None:
        """Wait for the workers to finish; tell them of every further signal, so that they do not drain for long."""
        for process in self.processes:
            while process.process.is_alive():
                process.process.join(0.1)
                if self.signal_queue:
                    self.signal_queue.clear()
                    self._terminate_again()

    def _terminate_again(self) -> None:
        for process in self.processes:
            if process.pid is not None and process.process.is_alive():
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
