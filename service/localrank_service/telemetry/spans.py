"""Spans for OpenTelemetry: one for each request, one for each stage, from the times that were measured anyway.

The SDK is imported only when this is turned on. Where spans go, how many are kept and under which name is told by the
standard variables ``OTEL_…``, which the SDK reads. They leave in batches, from a thread with a bounded queue: a
collector that is away costs spans, not requests.
"""

from __future__ import annotations

import os
import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from localrank import __version__
from localrank.errors import InvalidConfiguration
from localrank.extras import installing
from localrank_service.telemetry.tracing import Trace, trace_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Span
    from starlette.types import Scope

    from localrank_service.telemetry.observing import Observation, Observed

_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
#: Seconds that the end of the service waits for the last spans to leave.
_LAST = 2.0
#: Characters of a path that are kept.
_LONGEST_PATH = 256


def check_installed() -> None:
    """Raise `InvalidConfiguration` if the SDK is not there."""
    try:
        there = all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:
        there = False
    if not there:
        raise InvalidConfiguration(f"--otel needs OpenTelemetry: {installing('otel')}")


class Spans:
    """Makes the spans of one process, and sends them to a collector by OTLP over HTTP."""

    def __init__(self) -> None:
        check_installed()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        ours: dict[str, str | int] = {
            "service.name": "localrank",
            "service.version": __version__,
            "process.pid": os.getpid(),
        }
        # The operator's variables win.
        resource = Resource.create(ours).merge(OTELResourceDetector().detect())
        self._exporter = OTLPSpanExporter()
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("localrank", __version__)

    def begin(self, scope: Scope, method: str) -> RequestSpan:
        """Begin the span of a request, as a child of the caller's if it names one."""
        from opentelemetry import trace as api

        begun = time.time_ns()
        trace = trace_of(scope["headers"])
        context = None
        if trace.parent_id is not None:
            caller = api.SpanContext(
                int(trace.trace_id, 16),
                int(trace.parent_id, 16),
                is_remote=True,
                trace_flags=api.TraceFlags(trace.sampled),
                trace_state=api.TraceState.from_header([trace.state] if trace.state else []),
            )
            context = api.set_span_in_context(api.NonRecordingSpan(caller))
        span = self._tracer.start_span(
            method,
            context,
            kind=api.SpanKind.SERVER,
            start_time=begun,
            attributes={
                "http.request.method": "_OTHER" if method == "other" else method,
                "url.path": scope["path"][:_LONGEST_PATH],
                "url.scheme": scope.get("scheme", "http"),
                "localrank.request_id": scope["request_id"],
            },
        )
        return RequestSpan(self, span, begun)

    def stage(self, parent: Span, name: str, begun: int, ended: int, **attributes: Any) -> Span:
        """Add a finished span below another."""
        from opentelemetry import trace as api

        span = self._tracer.start_span(
            name, api.set_span_in_context(parent), start_time=begun, attributes=attributes
        )
        span.end(ended)
        return span

    def close(self) -> None:
        """Send what is left, for a moment."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_LAST)
        if closing.is_alive():
            # It waits to try again.
            self._exporter.shutdown()  # type: ignore[no-untyped-call]
            closing.join(_LAST)


class RequestSpan:
    """The span of one request."""

    def __init__(self, spans: Spans, span: Span, begun: int) -> None:
        self._spans = spans
        self._span = span
        # From one clock to the other: stages are measured with the one that never jumps.
        self._shift = begun - time.perf_counter_ns()

    @property
    def trace(self) -> Trace:
        """The trace of the request, in which this span is its own."""
        context = self._span.get_span_context()
        return Trace(
            f"{context.trace_id:032x}", f"{context.span_id:016x}", sampled=bool(context.trace_flags.sampled)
        )

    def finish(self, observation: Observation, status: int, route: str) -> None:
        """End the span, with one for each stage below it."""
        span = self._span
        if not span.is_recording():
            return
        scope = observation.scope
        ended = time.perf_counter_ns() + self._shift
        span.update_name(f"{observation.method} {route}")
        span.set_attributes({"http.route": route, "http.response.status_code": status})
        if (key := scope.get("key")) is not None:
            span.set_attribute("localrank.key", key)
        if status >= 500:
            from opentelemetry.trace import StatusCode

            span.set_status(StatusCode.ERROR)
            span.set_attribute("error.type", str(status))
        if observation.n_queries == 1:
            [query] = observation.queries
            span.set_attributes(_attributes(query))
            self._stages(span, query)
        else:
            span.set_attribute("localrank.queries", observation.n_queries)
            for query in observation.queries:
                if query.laps:
                    first, last = query.laps[0], query.laps[-1]
                    begun, until = self._times(
                        first.begun, (last.begun - first.begun) * 1e3 + last.milliseconds
                    )
                    below = self._spans.stage(span, "query", begun, until, **_attributes(query))
                    self._stages(below, query)
        span.end(ended)

    def _stages(self, parent: Span, query: Observed) -> None:
        for stage, begun, milliseconds in query.laps:
            self._spans.stage(parent, stage, *self._times(begun, milliseconds))

    def _times(self, begun: float, milliseconds: float) -> tuple[int, int]:
        """Return begin and end on the clock of spans, exactly as far apart as was measured."""
        start = round(begun * 1e9) + self._shift
        return start, start + round(milliseconds * 1e6)


def _attributes(query: Observed) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    if query.model is not None:
        found |= {"localrank.model": query.model.name, "localrank.version": query.model.version}
    if query.ranking is not None:
        route = query.ranking.route
        found |= {
            "localrank.documents": len(query.ranking.order),
            "localrank.strategy": route.strategy,
            "localrank.cluster": -1 if route.cluster is None else route.cluster,
        }
        if route.fallback is not None:
            found["localrank.fallback"] = route.fallback
        if route.cluster is not None and not route.local:
            found["localrank.local"] = False
    return found
