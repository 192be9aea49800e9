"""Whether a call is tried again, and after which pause.

A request is sent again if it cannot have reached the service, or if the service asked for it with Retry-After. Retries
stay a small share of the calls.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass

import httpx

from localrank.client.answers import problem_in
from localrank.client.values import ServiceError, ServiceUnreachable, Unavailable

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_TOLD_TO_WAIT = (429, 503)


class Budget:
    """Allows ten retries at first, and then one for every ten calls."""

    def __init__(self) -> None:
        self._tokens = 10.0
        self._lock = threading.Lock()

    def earn(self) -> None:
        with self._lock:
            self._tokens = min(10.0, self._tokens + 0.1)

    def spend(self) -> bool:
        with self._lock:
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True


@dataclass(slots=True)
class Patience:
    """What is left of one call: time and tries."""

    deadline: float
    timeout: float
    retries: int
    budget: Budget
    pause: float = _FIRST_PAUSE

    def left(self) -> float:
        """Return the seconds left, or raise."""
        if (left := self.deadline - time.monotonic()) <= 0:
            raise ServiceUnreachable(f"no answer within {self.timeout:g} s")
        return left

    def wait(self, asked: float | None) -> float | None:
        """Return how long to wait before the next try; ``None`` if there is no next try.

        The jitter keeps clients that failed together from coming back together.
        """
        if asked is None:
            pause, self.pause = random.uniform(0, self.pause), min(2 * self.pause, _LONGEST_PAUSE)
        else:
            pause = asked * random.uniform(1.0, 1.25)
        if not self.retries or time.monotonic() + pause >= self.deadline or not self.budget.spend():
            return None
        self.retries -= 1
        return pause


def pause_after_failure(error: httpx.TransportError, patience: Patience) -> float:
    """Return the pause before the next try, or raise. Only a request that was never sent is tried again."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        pause = patience.wait(None)
        if pause is not None:
            return pause
    if isinstance(error, httpx.TimeoutException):
        raise ServiceUnreachable(f"no answer within {patience.timeout:g} s") from error
    # Host and port only: a URL may hold a password.
    where = error.request.url.netloc.decode("ascii")
    raise ServiceUnreachable(f"{where}: {type(error).__name__}: {error}") from error


def pause_after_problem(response: httpx.Response, patience: Patience) -> float:
    """Return the pause before the next try, or raise."""
    problem = problem_in(response)
    if response.status_code not in _TOLD_TO_WAIT:
        raise ServiceError(problem)
    asked = response.headers.get("retry-after", "")
    # Without this header, the service does not promise that a retry will succeed.
    pause = patience.wait(float(asked)) if asked.isascii() and asked.isdecimal() else None
    if pause is None:
        raise Unavailable(problem)
    return pause
