"""One log line for a sample of the requests.

A line holds what was asked and how it went: route, status, time, model, number of documents. It never holds a query
string, a header or a body, so no key; it holds values of features only if the operator asks for them. A worker writes
a bounded number of lines a second and says how many it left out.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localrank_service.telemetry.observing import Observation

_log = logging.getLogger("localrank.access")
#: Lines that a worker writes in one second, at most.
MOST_LINES = 100
#: Characters of a path that are shown.
_LONGEST_PATH = 256


class AccessLog:
    """Chooses the requests that are logged, each by chance.

    Args:
        share: of the requests that are logged, from 0 to 1.
        features: documents of a request whose features are logged, at most; 0 logs none.
    """

    def __init__(self, share: float, features: int = 0) -> None:
        self._share = share
        self._features = features
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def line(self) -> LogLine | None:
        """Return what becomes the line of a request, or ``None`` if the request is not logged."""
        if random.random() >= self._share:
            return None
        return LogLine(self)

    def write(self, message: str, members: dict[str, Any]) -> None:
        """Write a line, unless there are too many in this second."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= MOST_LINES:
            self._left_out += 1
            return
        self._lines += 1
        if self._left_out:
            members["left_out"], self._left_out = self._left_out, 0
        _log.info(message, extra=members)

    @property
    def features(self) -> int:
        """Documents of a request whose features are logged, at most."""
        return self._features


class LogLine:
    """The log line of one request."""

    def __init__(self, log: AccessLog) -> None:
        self._log = log

    def finish(self, observation: Observation, status: int, route: str) -> None:
        """Write the line."""
        scope = observation.scope
        elapsed = time.perf_counter() - observation.begun
        path = scope["path"][:_LONGEST_PATH].encode("unicode_escape").decode()
        members: dict[str, Any] = {
            "request_id": scope["request_id"],
            "method": observation.method,
            "route": route,
            "status": status,
            "milliseconds": round(elapsed * 1e3, 3),
        }
        if observation.trace is not None:
            members |= {"trace_id": observation.trace.trace_id, "span_id": observation.trace.span_id}
        if (client := scope.get("client")) is not None:
            members["client"] = client[0]
        if (key := scope.get("key")) is not None:
            members["key"] = key
        if observation.n_queries:
            members |= self._queries(observation)
        self._log.write(f"{observation.method} {path} {status}", members)

    def _queries(self, observation: Observation) -> dict[str, Any]:
        queries = observation.queries
        members: dict[str, Any] = {}
        if (model := queries[0].model) is not None:
            members |= {"model": model.name, "version": model.version}
        if observation.n_queries > 1:
            members["queries"] = observation.n_queries
        elif (ranking := queries[0].ranking) is not None:
            members["cluster"] = ranking.route.cluster
        ranked = [one.documents for one in queries if one.documents is not None]
        members["documents"] = sum(map(len, ranked))
        stages: dict[str, float] = {}
        for one in queries:
            for stage, milliseconds in one.milliseconds.items():
                stages[stage] = round(stages.get(stage, 0.0) + milliseconds, 4)
        members["timings_ms"] = stages
        if left := self._log.features:
            shown: list[list[float]] = []
            for documents in ranked:
                shown += documents[: left - len(shown)].tolist()
            members["features"] = shown
        return members
