"""Spans as a collector receives them, over OTLP."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import SpanKind, StatusCode

from localrank.errors import InvalidConfiguration
from localrank.ranker import Lap
from localrank_service.app import create_app
from localrank_service.process.settings import Settings
from localrank_service.telemetry import spans as spans_module
from localrank_service.telemetry.observing import Observed
from localrank_service.telemetry.spans import Spans, check_installed
from tests.service.telemetry.collector import Collector, collecting, plain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx

    from localrank.arrays import Matrix
    from localrank.ranker import Ranking
    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio

BODY = {"features": [[1, 2, 3, 4], [4, 3, 2, 1]]}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
STAGES = ["decode", "sign", "route", "score", "order", "encode"]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as one:
        yield one


@pytest.fixture
async def traced(
    collector: Collector, connect: Any, tiny_model: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that sends its spans to the collector."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    async with connect(Settings(otel=True), models=[tiny_model]) as client:
        yield client


async def received(collector: Collector, count: int) -> list[Span]:
    return await asyncio.to_thread(collector.wait_for, count)


def milliseconds(span: Span) -> float:
    return (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6


async def test_a_request_is_a_span_with_one_for_each_stage(
    traced: httpx.AsyncClient, collector: Collector
) -> None:
    begun = time.time_ns()
    sent = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1", "x-request-id": "r-1"}
    answer = await traced.post("/v1/rerank", json=BODY, headers=sent)
    ended = time.time_ns()

    spans = {span.name: span for span in await received(collector, 7)}

    request = spans.pop("POST /v1/rerank")
    assert (TRACE, PARENT) == (request.trace_id.hex(), request.parent_span_id.hex())
    assert ("vendor=1", Span.SPAN_KIND_SERVER) == (request.trace_state, request.kind)
    assert answer.headers["traceresponse"] == f"00-{TRACE}-{request.span_id.hex()}-01"
    assert begun <= request.start_time_unix_nano <= request.end_time_unix_nano <= ended
    attributes = plain(list(request.attributes))
    route = answer.json()["route"]
    assert {
        "http.request.method": "POST",
        "http.route": "/v1/rerank",
        "http.response.status_code": 200,
        "url.path": "/v1/rerank",
        "localrank.request_id": "r-1",
        "localrank.model": "tiny",
        "localrank.version": 3,
        "localrank.documents": 2,
        "localrank.strategy": route["strategy"],
        "localrank.cluster": route["cluster"],
    }.items() <= attributes.items()
    assert STAGES == list(spans)
    for name, span in spans.items():
        assert (TRACE, request.span_id) == (span.trace_id.hex(), span.parent_span_id)
        # The very measurement of the answer, which is rounded to a tenth of a microsecond.
        assert abs(milliseconds(span) - answer.json()["timings_ms"][name]) <= 0.0000501
    in_order = [request.start_time_unix_nano]
    for span in spans.values():
        in_order += [span.start_time_unix_nano, span.end_time_unix_nano]
    assert sorted(in_order) == in_order
    assert in_order[-1] <= request.end_time_unix_nano


async def test_every_answer_is_a_span_and_says_its_status(
    traced: httpx.AsyncClient, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a secret reason")

    await traced.post("/v1/rerank", json={"features": [[1]]})
    await traced.request("BREW", "/v1/rerank?api_key=secret")
    await traced.get("/nowhere/secret")
    monkeypatch.setattr("localrank_service.ranking.reranking.Attempt.rank", fail)
    await traced.post("/v1/rerank", json=BODY)

    spans = [span for span in await received(collector, 6) if span.kind == Span.SPAN_KIND_SERVER]

    assert [
        ("POST /v1/rerank", 422, Status.STATUS_CODE_UNSET),
        ("other /v1/rerank", 405, Status.STATUS_CODE_UNSET),
        ("GET other", 404, Status.STATUS_CODE_UNSET),
        ("POST /v1/rerank", 500, Status.STATUS_CODE_ERROR),
    ] == [
        (span.name, plain(list(span.attributes))["http.response.status_code"], span.status.code)
        for span in spans
    ]
    assert "_OTHER" == plain(list(spans[1].attributes))["http.request.method"]
    assert "api_key" not in str(spans)
    assert all(len(span.trace_id) == 16 and not span.parent_span_id for span in spans)


async def test_each_query_of_a_batch_has_its_stages(traced: httpx.AsyncClient, collector: Collector) -> None:
    batch = {"queries": [BODY, {"features": [[1]]}, BODY]}
    await traced.post("/v1/rerank/batch", json=batch)

    spans = await received(collector, 1 + 3 + 6 + 1 + 6)

    [request] = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    assert 3 == plain(list(request.attributes))["localrank.queries"]
    queries = [span for span in spans if span.name == "query"]
    assert [request.span_id] * 3 == [span.parent_span_id for span in queries]
    below = [[span.name for span in spans if span.parent_span_id == query.span_id] for query in queries]
    assert [STAGES, ["decode"], STAGES] == below


async def test_the_resource_names_the_service_and_what_the_operator_says(
    traced: httpx.AsyncClient, collector: Collector
) -> None:
    await traced.get("/livez")
    await received(collector, 1)

    [(resource, span)] = collector.spans

    assert ("localrank", "test") == (resource["service.name"], resource["deployment.environment.name"])
    assert "GET /livez" == span.name


async def test_a_caller_that_does_not_record_is_followed(
    traced: httpx.AsyncClient, collector: Collector
) -> None:
    not_recorded = await traced.get("/livez", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    await traced.get("/livez")

    [span] = await received(collector, 1)

    assert not_recorded.headers["traceresponse"].startswith(f"00-{TRACE}-")
    assert not_recorded.headers["traceresponse"].endswith("-00")
    assert TRACE != span.trace_id.hex()


async def test_the_operator_s_sampler_is_used(
    collector: Collector, connect: Any, tiny_model: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    async with connect(Settings(otel=True), models=[tiny_model]) as client:
        answer = await client.post("/v1/rerank", json=BODY)

    # Leaving the application sends what is left: nothing.
    assert answer.headers["traceresponse"].endswith("-00")
    assert [] == collector.spans


async def test_a_collector_that_is_away_costs_no_answer_and_ends_within_seconds(
    connect: Any, tiny_model: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    async with connect(Settings(otel=True), models=[tiny_model]) as client:
        statuses = {(await client.post("/v1/rerank", json=BODY)).status_code for _ in range(50)}
        begun = time.monotonic()

    assert {200} == statuses
    assert time.monotonic() - begun < 10
    assert not [thread for thread in threading.enumerate() if "Otel" in thread.name]


def test_a_missing_sdk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(spans_module, "find_spec", find)

    with pytest.raises(
        InvalidConfiguration, match=r"--otel needs OpenTelemetry: pip install -e '.*\[otel\]'"
    ):
        check_installed()
    with pytest.raises(InvalidConfiguration):
        create_app(Settings(otel=True), models=[])


# Without a collector.


class Kept:
    """Spans that are kept in memory, on clocks that stand still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, sampled: bool = True) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=ALWAYS_ON if sampled else ALWAYS_OFF, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.spans = Spans.__new__(Spans)
        self.spans._tracer = provider.get_tracer("localrank")
        # A request that begins at 1,000 s takes 2 s.
        self.now = 5.0
        monkeypatch.setattr("localrank_service.telemetry.spans.time.time_ns", lambda: 1000 * 10**9)
        monkeypatch.setattr(
            "localrank_service.telemetry.spans.time.perf_counter_ns", lambda: round(self.now * 1e9)
        )

    def finish(self, status: int, *queries: Observed, **scope: Any) -> dict[str, ReadableSpan]:
        """Return the spans of one request by their names; several of one name are numbered."""
        request = {"headers": [], "path": "/v1/rerank", "request_id": "r-1", **scope}
        span = self.spans.begin(request, "POST")
        observation: Any = SimpleNamespace(
            scope=request, method="POST", queries=queries[:64], n_queries=len(queries)
        )
        self.now += 2.0
        span.finish(observation, status, "/v1/{route}")
        found: dict[str, ReadableSpan] = {}
        for one in self.exporter.get_finished_spans():
            found[one.name if one.name not in found else f"{one.name} {len(found)}"] = one
        return found


def seconds(span: ReadableSpan) -> tuple[float, float]:
    """When it began and ended, after the request began."""
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9 - 1000, span.end_time / 1e9 - 1000


def query(model: LiveModel | None, ranking: Ranking | None, *laps: Lap) -> Observed:
    return Observed(model, ranking, None, {}, list(laps))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    return Kept(monkeypatch)


async def test_stages_stand_where_they_were_measured(kept: Kept) -> None:
    laps = Lap("sign", 5.25, 500.0), Lap("route", 6.0, 0.001)

    found = kept.finish(200, query(None, None, *laps))

    parent = found["POST /v1/{route}"]
    assert {"POST /v1/{route}", "sign", "route"} == found.keys()
    assert (0.0, 2.0) == seconds(parent)
    assert (0.25, 0.75) == seconds(found["sign"])
    assert (1.0, 1.000001) == pytest.approx(seconds(found["route"]), abs=1e-9)
    for stage in ("sign", "route"):
        assert found[stage].parent == parent.context
    assert SpanKind.SERVER == parent.kind


async def test_the_queries_of_a_batch_last_from_their_first_stage_to_the_end_of_their_last(
    kept: Kept, tiny_model: LiveModel, queries: list[Matrix]
) -> None:
    ranking = tiny_model.ranker.rank(queries[0])
    laps = Lap("sign", 5.25, 100.0), Lap("route", 5.5, 250.0)

    found = kept.finish(200, query(tiny_model, ranking, *laps), query(tiny_model, None), query(None, None))

    parent, below = found["POST /v1/{route}"], found["query"]
    assert {"POST /v1/{route}", "query", "sign", "route"} == found.keys()
    assert (0.25, 0.75) == pytest.approx(seconds(below))
    assert parent.context == below.parent
    assert below.context == found["sign"].parent == found["route"].parent
    assert parent.attributes is not None
    assert below.attributes is not None
    assert 3 == parent.attributes["localrank.queries"]
    assert "localrank.model" not in parent.attributes
    assert 20 == below.attributes["localrank.documents"]


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ({}, {"localrank.cluster": 1}),
        ({"cluster": None}, {"localrank.cluster": -1}),
        ({"cluster": None, "local": False}, {"localrank.cluster": -1}),
        ({"local": False}, {"localrank.cluster": 1, "localrank.local": False}),
        ({"fallback": "low_margin"}, {"localrank.cluster": 1, "localrank.fallback": "low_margin"}),
    ],
)
async def test_a_span_says_who_answered(
    route: dict[str, Any], expected: dict[str, Any], kept: Kept, tiny_model: LiveModel, queries: list[Matrix]
) -> None:
    ranking = tiny_model.ranker.rank(queries[0])
    ranking = replace(
        ranking, route=ranking.route._replace(**{"cluster": 1, "local": True, "fallback": None} | route)
    )

    found = kept.finish(200, query(tiny_model, ranking))

    assert {
        "http.request.method": "POST",
        "url.path": "/v1/rerank",
        "url.scheme": "http",
        "localrank.request_id": "r-1",
        "http.route": "/v1/{route}",
        "http.response.status_code": 200,
        "localrank.model": "tiny",
        "localrank.version": 3,
        "localrank.documents": 20,
        "localrank.strategy": "exact",
        **expected,
    } == dict(found["POST /v1/{route}"].attributes or {})


@pytest.mark.parametrize(("status", "failed"), [(200, False), (499, False), (500, True), (503, True)])
async def test_only_failures_of_the_service_are_errors(status: int, failed: bool, kept: Kept) -> None:  # noqa: FBT001
    span = kept.finish(status, key="search", path="/" + 300 * "x", scheme="https")["POST /v1/{route}"]

    assert span.attributes is not None
    assert failed == (span.status.status_code is StatusCode.ERROR)
    assert (str(status) if failed else None) == span.attributes.get("error.type")
    assert ("search", "/" + 255 * "x", "https", 0) == tuple(
        span.attributes[name] for name in ("localrank.key", "url.path", "url.scheme", "localrank.queries")
    )


async def test_a_request_that_is_not_sampled_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch, sampled=False)

    span = kept.spans.begin({"headers": [], "path": "/", "request_id": "r"}, "GET")

    assert not span.trace.sampled
    assert {} == kept.finish(200)


@pytest.mark.parametrize(("flags", "sampled"), [("01", True), ("00", False)])
async def test_the_caller_s_trace_is_the_parent(flags: str, sampled: bool, kept: Kept) -> None:  # noqa: FBT001
    headers = [
        (b"traceparent", f"00-{TRACE}-{PARENT}-{flags}".encode()),
        (b"tracestate", b"vendor=1"),
    ]

    found = kept.finish(200, headers=headers)

    span = found["POST /v1/{route}"]
    assert span.parent is not None
    assert span.context is not None
    assert (int(TRACE, 16), int(PARENT, 16), True) == (
        span.context.trace_id,
        span.parent.span_id,
        span.parent.is_remote,
    )
    assert ({"vendor": "1"}, sampled) == (dict(span.parent.trace_state), span.parent.trace_flags.sampled)
    begun = kept.spans.begin({"headers": headers, "path": "/", "request_id": "r"}, "other")
    assert (TRACE, 16, True) == (begun.trace.trace_id, len(begun.trace.span_id), begun.trace.sampled)
