"""Spans as a collector receives them, over OTLP."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from localrank.errors import InvalidConfiguration
from localrank_service.app import create_app
from localrank_service.process.settings import Settings
from localrank_service.telemetry import spans as spans_module
from localrank_service.telemetry.spans import check_installed
from tests.service.telemetry.collector import Collector, collecting, plain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx

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
    monkeypatch.setattr("localrank_service.reranking.Attempt.rank", fail)
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
        InvalidConfiguration, match=r"--otel needs OpenTelemetry: pip install 'localrank\[otel\]'"
    ):
        check_installed()
    with pytest.raises(InvalidConfiguration):
        create_app(Settings(otel=True), models=[])
