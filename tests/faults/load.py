"""Clients that ask without pause, and remember what became of every request."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Answer(NamedTuple):
    """What became of one request.

    Attributes:
        begun, ended: on the monotonic clock.
        status: of the answer; 0 where the connection broke.
        document: the answer's body; what broke the connection where it did.
    """

    begun: float
    ended: float
    status: int
    document: Any


class Load:
    """``clients`` threads, each with a connection of its own, kept alive unless it breaks."""

    def __init__(self, address: tuple[str, int], body: bytes, clients: int) -> None:
        self._address, self._body = address, body
        self._stopped = threading.Event()
        self._answers: list[list[Answer]] = [[] for _ in range(clients)]
        self._threads = [
            threading.Thread(target=self._ask, args=(answers,), daemon=True) for answers in self._answers
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, answers: list[Answer]) -> None:
        connection = http.client.HTTPConnection(*self._address, timeout=30)
        while not self._stopped.is_set():
            begun = time.monotonic()
            try:
                connection.request("POST", "/v1/rerank", self._body, {"content-type": "application/json"})
                response = connection.getresponse()
                status, document = response.status, json.loads(response.read())
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                status, document = 0, repr(error)
            answers.append(Answer(begun, time.monotonic(), status, document))
            if status != 200:
                time.sleep(0.01)
        connection.close()

    @property
    def answers(self) -> list[Answer]:
        """All so far, in the order in which they ended."""
        return sorted((one for some in self._answers for one in list(some)), key=lambda one: one.ended)

    @property
    def failures(self) -> list[Answer]:
        """Those that were not answered with a ranking."""
        return [one for one in self.answers if one.status != 200]

    @property
    def lost(self) -> list[Answer]:
        """Those that were answered neither with a ranking nor with 429, as when the machine is busy."""
        return [one for one in self.failures if one.status != 429]

    def stop(self) -> None:
        """Let every client finish its request."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=60)


@contextmanager
def loaded(url: str, body: bytes, clients: int = 4) -> Iterator[Load]:
    """Ask from now until the block ends."""
    host, port = url.removeprefix("http://").split(":")
    load = Load((host, int(port)), body, clients)
    try:
        yield load
    finally:
        load.stop()
