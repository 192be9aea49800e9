"""Alive, started, ready, and what the service is."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest

from localrank import __version__
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

pytestmark = pytest.mark.anyio


async def test_a_service_that_has_started_says_so(client: httpx.AsyncClient) -> None:
    answers = {path: await client.get(path) for path in ("/livez", "/startupz", "/readyz")}

    assert {
        "/livez": {"live": True},
        "/startupz": {"started": True},
        "/readyz": {"ready": True, "models": {"tiny": 3}, "broken": {}, "unready_workers": {}},
    } == {path: answer.json() for path, answer in answers.items()}
    assert {"no-store"} == {answer.headers["cache-control"] for answer in answers.values()}


async def test_a_worker_of_another_server_that_shares_no_folder_waits_for_no_other(
    connect: Any, loaded: Any, models_dir: Path
) -> None:
    async with connect(Settings(models_dir=models_dir, workers=2)) as client:
        await loaded(client)
        answers = [await client.get(path) for path in ("/startupz", "/readyz")]

    assert [200, 200] == [answer.status_code for answer in answers]


async def test_a_service_says_what_it_is(client: httpx.AsyncClient, tiny_model: LiveModel) -> None:
    found = (await client.get("/info")).json()

    assert ("localrank", __version__, platform.python_version(), os.getpid(), True) == tuple(
        found[name] for name in ("name", "version", "python", "pid", "ready")
    )
    assert {name: version(name) for name in ("numpy", "scipy", "fastapi", "uvicorn", "orjson")} == found[
        "libraries"
    ]
    assert {"tiny": {"version": 3, "contract": tiny_model.ranker.contract.digest}} == found["models"]
    assert ({}, 5000) == (found["broken"], found["settings"]["max_documents"])
    assert isinstance(found["compiled"], bool)
    assert found["workers"] >= 0


async def test_metrics_are_prometheus_text(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics")

    assert "text/plain; version=0.0.4; charset=utf-8" == answer.headers["content-type"]
    assert 'localrank_build_info{version="' in answer.text


async def test_the_map_of_models_is_by_name(connect: Any, make_ranker: Any) -> None:
    models = [LiveModel(name, number, make_ranker()) for name, number in (("b", 2), ("a", 7), ("a", 1))]

    async with connect(models=models) as client:
        found = (await client.get("/readyz")).json()

    assert {"a": 7, "b": 2} == found["models"]


@pytest.mark.parametrize(
    ("asked", "status"), [("", 200), ("?series=true", 200), ("?series=false", 200), ("?series=1", 422)]
)
async def test_series_are_answered_if_asked_for(asked: str, status: int, client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/v1/stats{asked}")

    assert status == answer.status_code
    if status == 422:
        assert "series: expected true or false, found '1'" == answer.json()["detail"]
    else:
        assert ("series" in answer.text) == (asked == "?series=true")
        assert (None, None) == (answer.json()["impressions"], answer.json()["experiments"])
        assert "no-store" == answer.headers["cache-control"]


async def test_what_is_shown_of_a_wrong_option_is_short(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/stats", params={"series": "a" * 50})

    assert f"found '{'a' * 40}'" in answer.json()["detail"]
