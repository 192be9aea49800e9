"""What the Open Inference Protocol says of server and models, member by member."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from localrank import __version__, stages
from localrank_service.models.live import LiveModel
from localrank_service.wire import answer

if TYPE_CHECKING:
    import httpx

    from localrank.ranker import Ranker

pytestmark = pytest.mark.anyio

OPTIONAL = {"parameters": {"optional": True}}
ROWS = [[1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 4.0, 3.0]]


async def test_the_server_says_what_it_is(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v2")

    assert {
        "name": "localrank",
        "version": __version__,
        "extensions": ["binary_tensor_data", "model_configuration", "model_repository", "statistics"],
    } == answer.json()
    assert ("application/json", "no-store") == (
        answer.headers["content-type"],
        answer.headers["cache-control"],
    )


async def test_the_metadata_of_a_model_is_that_of_its_tensors(connect: Any, make_ranker: Any) -> None:
    models = [LiveModel("a", version, make_ranker()) for version in (2, 10, 1)]
    async with connect(models=[*models, LiveModel("b", 5, make_ranker())]) as client:
        answers = [
            (await client.get(f"/v2/models/a{at}")).json() for at in ("", "/versions/10", "/versions/1")
        ]

    expected = {
        "name": "a",
        "versions": ["1", "2", "10"],
        "platform": "localrank",
        "inputs": [
            {"name": "features", "datatype": "FP32", "shape": [-1, 4]},
            {"name": "doc_ids", "datatype": "BYTES", "shape": [-1], **OPTIONAL},
            {"name": "group", "datatype": "INT32", "shape": [-1], **OPTIONAL},
        ],
        "outputs": [
            {"name": "scores", "datatype": "FP64", "shape": [-1]},
            {"name": "ranking", "datatype": "INT32", "shape": [-1]},
            {"name": "cluster", "datatype": "INT32", "shape": [-1]},
            {"name": "doc_ids", "datatype": "BYTES", "shape": [-1], **OPTIONAL},
        ],
    }
    assert [expected] * 3 == answers


@pytest.mark.parametrize("at", ["", "/versions/3", "/versions/champion"])
async def test_the_configuration_of_a_model_is_triton_s(
    at: str, client: httpx.AsyncClient, tiny_ranker: Ranker
) -> None:
    answer = (await client.get(f"/v2/models/tiny{at}/config")).json()

    assert {
        "name": "tiny",
        "platform": "localrank",
        "backend": "localrank",
        "max_batch_size": 0,
        "input": [
            {"name": "features", "data_type": "TYPE_FP32", "dims": [-1, 4]},
            {"name": "doc_ids", "data_type": "TYPE_STRING", "dims": [-1], "optional": True},
            {"name": "group", "data_type": "TYPE_INT32", "dims": [-1], "optional": True},
        ],
        "output": [
            {"name": "scores", "data_type": "TYPE_FP64", "dims": [-1]},
            {"name": "ranking", "data_type": "TYPE_INT32", "dims": [-1]},
            {"name": "cluster", "data_type": "TYPE_INT32", "dims": [-1]},
            {"name": "doc_ids", "data_type": "TYPE_STRING", "dims": [-1]},
        ],
        "parameters": {"contract": {"string_value": tiny_ranker.contract.digest}},
    } == answer


@pytest.mark.parametrize("path", ["", "/config", "/ready", "/stats"])
async def test_an_unknown_model_or_version_is_404(path: str, client: httpx.AsyncClient) -> None:
    for model in ("nope", "tiny/versions/9", "tiny/versions/nope"):
        answer = await client.get(f"/v2/models/{model}{path}")

        assert (404, None) == (answer.status_code, answer.json()["pointer"])


async def test_statistics_begin_at_nothing_and_stand_by_name_and_version(
    connect: Any, make_ranker: Any
) -> None:
    models = [LiveModel(name, version, make_ranker()) for name, version in (("b", 1), ("a", 2), ("a", 1))]
    async with connect(models=models) as client:
        answer = (await client.get("/v2/models/stats")).json()["model_stats"]

    assert [("a", "1"), ("a", "2"), ("b", "1")] == [(one["name"], one["version"]) for one in answer]
    nothing = {"count": 0, "ns": 0}
    parts = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
    assert {
        "name": "a",
        "version": "1",
        "last_inference": 0,
        "inference_count": 0,
        "execution_count": 0,
        "inference_stats": dict.fromkeys((*parts, "cache_hit", "cache_miss"), nothing),
        "batch_stats": [],
    } == answer[0]


async def test_statistics_are_those_of_the_meters(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = client._transport.app.state.service  # type: ignore[attr-defined]
    figures = {
        "ok": 5.0,
        "degraded": 2.0,
        "invalid": 3.0,
        "error": 1.0,
        "last": 1234.5678,
        "success": 0.5,
        "fail": 0.25,
        "queue": 0.125,
        "input": 1e-9,
        "compute": 2e-6,
        "output": 0.0,
    }
    monkeypatch.setattr(type(service.meters), "statistics", lambda _: {("tiny", "3"): figures})

    [found] = (await client.get("/v2/models/tiny/stats")).json()["model_stats"]

    assert (1234568, 7, 7) == (found["last_inference"], found["inference_count"], found["execution_count"])
    assert {
        "success": {"count": 7, "ns": 500_000_000},
        "fail": {"count": 4, "ns": 250_000_000},
        "queue": {"count": 7, "ns": 125_000_000},
        "compute_input": {"count": 7, "ns": 1},
        "compute_infer": {"count": 7, "ns": 2000},
        "compute_output": {"count": 7, "ns": 0},
        "cache_hit": {"count": 0, "ns": 0},
        "cache_miss": {"count": 0, "ns": 0},
    } == found["inference_stats"]


async def test_times_of_several_queries_are_added_up(client: httpx.AsyncClient) -> None:
    """Each query is signed, routed, scored and ordered; the header has the sum of each."""
    body = {
        "inputs": [
            {"name": "features", "datatype": "FP32", "shape": [6, 4], "data": ROWS * 3},
            {"name": "group", "datatype": "INT32", "shape": [3], "data": [2, 2, 2]},
        ]
    }

    answer = await client.post("/v2/models/tiny/infer", json=body)

    assert 200 == answer.status_code
    stages = dict(part.split(";dur=") for part in answer.headers["server-timing"].split(", "))
    assert ["decode", "sign", "route", "score", "order", "encode", "total"] == list(stages)
    times = {stage: float(text) for stage, text in stages.items()}
    assert all(times[stage] > 0 for stage in ("decode", "score", "order", "total"))
    assert {"application/json"} == {answer.headers["content-type"]}
    assert "vary" not in answer.headers


async def test_nothing_is_added_to_times_that_were_not_spent(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "time", SimpleNamespace(perf_counter=lambda: 5.0))
    monkeypatch.setattr(answer, "perf_counter", lambda: 5.0)
    tensors = [
        {"name": "features", "datatype": "FP32", "shape": [4, 4], "data": ROWS * 2},
        {"name": "group", "datatype": "INT32", "shape": [2], "data": [2, 2]},
    ]

    found = await client.post("/v2/models/tiny/infer", json={"inputs": tensors})

    assert {"0"} == {part.partition(";dur=")[2] for part in found.headers["server-timing"].split(", ")}
