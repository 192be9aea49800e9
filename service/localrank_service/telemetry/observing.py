"""Records of single requests: their trace, a sampled log line, spans.

`Observer` decides at the head of a request whether anything is to be noted of it. Most requests have nothing; the
others get an `Observation`, which the ranking of each of their queries is added to. Numbers here are the measurements
that the answer and the metrics show; nothing is measured twice.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, Protocol

from localrank_service.telemetry.tracing import answer_headers, trace_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token

    from starlette.types import Scope

    from localrank.arrays import Matrix
    from localrank.ranker import Lap, Ranker, Ranking
    from localrank_service.telemetry.access import AccessLog
    from localrank_service.telemetry.spans import Spans
    from localrank_service.telemetry.tracing import Trace

#: How many queries of one request have their stages noted; a request may hold thousands.
_MOST_QUERIES = 64


class CountedModel(Protocol):
    """A version of a model, as it is counted and recorded."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def ranker(self) -> Ranker: ...
    def sizes(self) -> list[int]:
        """Return how many training queries each cluster has."""
        ...

    def kinds(self) -> list[int]:
        """Return how many queries of each kind are on the map by which requests of a version without clusters are compared."""
        ...


class Observed(NamedTuple):
    """One query of a request.

    Attributes:
        model: that ranked it; ``None`` if no model did.
        ranking: its result; ``None`` if it was refused.
        documents: what was ranked.
        milliseconds: its stages and their ``total``.
        laps: its stages as they were run.
    """

    model: CountedModel | None
    ranking: Ranking | None
    documents: Matrix | None
    milliseconds: Mapping[str, float]
    laps: list[Lap]


class Recorder(Protocol):
    """Notes one request."""

    def finish(self, observation: Observation, status: int, route: str) -> None:
        """Note the request, which was answered."""
        ...


class Observation:
    """What is known of one request.

    Attributes:
        scope: of the request.
        method: that the client sent.
        trace: that it belongs to, if it belongs to one.
        recorders: what it is noted by.
        begun: when it began, as `time.perf_counter` has it.
        queries: those that were ranked or refused, up to some number.
        n_queries: how many that were.
    """

    __slots__ = ("_token", "begun", "method", "n_queries", "queries", "recorders", "scope", "trace")

    def __init__(self, scope: Scope, method: str, trace: Trace | None, recorders: list[Recorder]) -> None:
        self.begun = time.perf_counter()
        self.scope = scope
        self.method = method
        self.trace = trace
        self.recorders = recorders
        self.queries: list[Observed] = []
        self.n_queries = 0
        self._token: Token[Observation | None] | None = OBSERVATION.set(self) if recorders else None

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return what the answer says of it."""
        return [] if self.trace is None else answer_headers(self.trace)

    def add(self, query: Observed) -> None:
        """Note one query."""
        self.n_queries += 1
        if len(self.queries) < _MOST_QUERIES:
            self.queries.append(query)

    def finish(self, status: int, route: str) -> None:
        """Note the answer."""
        if self._token is not None:
            OBSERVATION.reset(self._token)
        for recorder in self.recorders:
            recorder.finish(self, status, route)


#: The observation of the request that is being answered, if something is noted of it.
OBSERVATION: ContextVar[Observation | None] = ContextVar("OBSERVATION", default=None)


class Observer:
    """Decides what each request leaves in logs, metrics and traces."""

    def __init__(self, access: AccessLog | None = None, spans: Spans | None = None) -> None:
        self._access = access
        self._spans = spans
        self._idle = access is None and spans is None

    def observe(self, scope: Scope, method: str, *, traced: bool) -> Observation | None:
        """Return what a request is noted in, or ``None`` if nothing is noted of it.

        Args:
            scope: of the request.
            method: that the client sent, or ``other``.
            traced: whether it has a header ``traceparent``.
        """
        if self._idle and not traced:
            return None
        recorders: list[Recorder] = []
        trace = None
        if self._spans is not None:
            span = self._spans.begin(scope, method)
            trace = span.trace
            recorders.append(span)
        elif traced:
            trace = trace_of(scope["headers"])
        if self._access is not None and (line := self._access.line()) is not None:
            recorders.append(line)
        return Observation(scope, method, trace, recorders) if recorders or trace is not None else None

    def close(self) -> None:
        """Send what is left to send."""
        if self._spans is not None:
            self._spans.close()
