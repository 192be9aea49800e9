"""What the service tells of its models, and who may change what it serves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest

from localrank.features.contract import QUANTILES
from localrank.registry.versions import Registry
from localrank_service.models.workers import Workers
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from localrank.ranker import Ranker

pytestmark = pytest.mark.anyio

ADMIN = {"x-api-key": "the-admin-key"}


@pytest.fixture
async def served(connect: Any, loaded: Any, models_dir: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that has loaded ``models_dir``."""
    settings = Settings(
        models_dir=models_dir,
        poll_seconds=0.01,
        switch_timeout_seconds=0.3,
        admin_key=ADMIN["x-api-key"],
        allowed_hosts="rank.example.com",
        preload="demo@2",
    )
    async with connect(settings) as client:
        await loaded(client)
        yield client


async def champion(client: httpx.AsyncClient) -> int:
    version: int = (await client.get("/readyz")).json()["models"]["demo"]
    return version


async def test_models_are_listed(served: httpx.AsyncClient, tiny_ranker: Ranker) -> None:
    await served.post("/v1/models/demo/promote", json={"version": 2, "alias": "challenger"}, headers=ADMIN)

    answer = (await served.get("/v1/models")).json()

    demo, web = answer["models"]

    assert {
        "name": "demo",
        "version": 1,
        "aliases": {"champion": 1, "challenger": 2},
        "contract": tiny_ranker.contract.digest,
        "normalise": "none",
        "n_features": 4,
        "n_clusters": 3,
        "representation": {"method": "pca", "components": 2},
        "routing": "exact",
        "default": False,
    } == demo
    assert ("web", {"champion": 1}) == (web["name"], web["aliases"])
    assert {} == answer["broken"]


async def test_a_model_tells_where_it_comes_from_and_what_it_expects(
    served: httpx.AsyncClient, tiny_ranker: Ranker
) -> None:
    model = (await served.get("/v1/models/demo@2")).json()

    assert ("demo", 2, {"seed": 0}) == (model["name"], model["version"], model["source"])
    assert "2026-01-01T00:00:00Z" == model["created"]
    lowest, highest = tiny_ranker.contract.quantiles[QUANTILES.index(0)], tiny_ranker.contract.quantiles[-1]
    assert [
        {"name": name, "missing": missing, "lowest": float(low), "highest": float(high)}
        for name, missing, low, high in zip(
            ("bm25", "pagerank", "ctr:7d", "age"),
            ("reject", "zero", "median", "nan"),
            lowest,
            highest,
            strict=True,
        )
    ] == model["features"]
    assert (
        dict(zip(map(str, QUANTILES), tiny_ranker.contract.list_lengths, strict=True))
        == model["list_lengths"]
    )


async def test_clusters_are_listed(served: httpx.AsyncClient) -> None:
    clusters = (await served.get("/v1/models/demo/clusters")).json()

    assert [
        {"cluster": number, "scorer": "linear", "size": 4, "exemplar": None, "validation": {}}
        for number in range(3)
    ] == clusters["clusters"]
    assert {"scorer": "linear"} == clusters["global"]


@pytest.mark.parametrize("path", ["", "/schema", "/clusters"])
async def test_an_unknown_model_is_404(path: str, served: httpx.AsyncClient) -> None:
    for name in ("nope", "demo@7", "demo@nope"):
        response = await served.get(f"/v1/models/{name}{path}")

        assert (404, None) == (response.status_code, response.json()["pointer"])


async def test_the_schema_is_a_schema_and_its_example_is_answered(served: httpx.AsyncClient) -> None:
    response = await served.get("/v1/models/demo@2/schema")
    schema = response.json()

    jsonschema.Draft202012Validator.check_schema(schema)
    assert "application/schema+json" == response.headers["content-type"]
    assert 1 <= len(schema["examples"])
    for example in schema["examples"]:
        jsonschema.validate(example, schema)
        assert 200 == (await served.post("/v1/rerank", json=example)).status_code


ROW = [1, 2, 3, 4]
NAMED = {"bm25": 1, "pagerank": 2, "ctr:7d": 3, "age": 4}

REQUESTS: list[tuple[dict[str, Any], bool]] = [
    ({"features": [ROW]}, True),
    ({"features": [ROW], "ids": ["a"], "top_n": 1, "explain": "route", "query_id": 7}, True),
    ({"features": [[1, None, None, None]]}, True),
    ({"features": [[None, 2, 3, 4]]}, False),
    ({"features": [[1, 2, 3]]}, False),
    ({"features": [[1, 2, 3, 4, 5]]}, False),
    ({"features": [[1, 2, 3, "4"]]}, False),
    ({"features": [[1, 2, 3, 1e39]]}, False),
    ({"features": [[3.4028235e38, -3.4028235e38, 3.40282356e38, 1]]}, True),
    ({"features": [[3.4028236e38, 2, 3, 4]]}, False),
    ({"features": [], "documents": []}, False),
    ({}, False),
    ({"documents": []}, True),
    ({"documents": [{"features": NAMED}, {"id": 3, "features": ROW}]}, True),
    ({"documents": [{"features": {"bm25": 1}}]}, True),
    ({"documents": [{"features": {"pagerank": 1}}]}, False),
    ({"documents": [{"features": NAMED | {"new": 1}}]}, True),
    ({"documents": [{"features": NAMED | {"age": "old"}}]}, False),
    ({"documents": [{"features": ROW, "text": ""}]}, True),
    ({"documents": [{"features": ROW}], "ids": ["a"]}, False),
    ({"features": [ROW], "top_n": 0}, False),
    ({"features": [ROW], "top_n": 1, "offset": 0, "query": "shoes", "relevance": "raw"}, True),
    ({"features": [ROW], "offset": -1}, False),
    ({"features": [ROW], "relevance": "linear"}, False),
    ({"features": [ROW], "query": 1}, False),
    ({"features": [ROW], "answer": "scores"}, True),
    ({"features": [ROW], "answer": "ranking", "top_n": 1}, True),
    *(
        ({"features": [ROW], "answer": "scores", **more}, False)
        for more in ({"top_n": 1}, {"offset": 1}, {"relevance": "raw"})
    ),
    ({"features": [ROW], "nope": 0}, False),
    ({"features": [ROW], "feature_names": list(NAMED)}, True),
    ({"features": [ROW], "contract": "sha256:nope"}, False),
]


@pytest.mark.parametrize(("members", "fits"), REQUESTS)
async def test_the_schema_allows_what_is_answered(
    members: dict[str, Any], served: httpx.AsyncClient, *, fits: bool
) -> None:
    schema = (await served.get("/v1/models/demo/schema")).json()

    allowed = jsonschema.Draft202012Validator(schema).is_valid(members)
    response = await served.post("/v1/rerank", json={"model": "demo"} | members)

    assert (fits, fits) == (allowed, 200 == response.status_code), response.text


async def test_promotion_and_rollback_switch_what_is_served(
    served: httpx.AsyncClient, models_dir: Path
) -> None:
    body = {"model": "demo", "features": np.eye(4).tolist()}
    before = (await served.post("/v1/rerank", json=body)).json()

    promoted = await served.post("/v1/models/demo/promote", json={"version": 2}, headers=ADMIN)
    during = (await served.post("/v1/rerank", json=body)).json()
    rolled_back = await served.post("/v1/models/demo/rollback", json={}, headers=ADMIN)
    after = (await served.post("/v1/rerank", json=body)).json()

    pid = os.getpid()
    assert {
        "name": "demo",
        "alias": "champion",
        "version": 2,
        "previous": 1,
        "workers": [pid],
    } == promoted.json()
    assert {"name": "demo", "alias": "champion", "version": 1, "previous": 2, "workers": [pid]} == (
        rolled_back.json()
    )
    assert (1, 2, 1) == (before["version"], during["version"], after["version"])
    assert [result["index"] for result in before["results"]] == [
        result["index"] for result in reversed(during["results"])
    ]
    assert before["results"] == after["results"]
    assert 1 == Registry(models_dir).aliases("demo")["champion"]


async def test_any_alias_may_be_promoted(served: httpx.AsyncClient) -> None:
    response = await served.post(
        "/v1/models/demo/promote", json={"version": 2, "alias": "challenger"}, headers=ADMIN
    )

    assert (200, None) == (response.status_code, response.json()["previous"])
    answer = await served.post("/v1/rerank", json={"model": "demo@challenger", "features": [ROW]})
    assert 2 == answer.json()["version"]
    assert 1 == await champion(served)


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("demo", {"version": 7}, 404),
        ("demo", {"version": 0}, 422),
        ("nope", {"version": 1}, 404),
        ("demo", {"version": 2, "alias": "no/alias"}, 422),
        ("demo", {"version": 2, "alias": ""}, 422),
        ("demo", {}, 422),
        ("demo", {"version": "2"}, 422),
        ("demo", {"version": True}, 422),
        ("demo", {"version": 2.0}, 422),
        ("demo", {"version": 2, "alias": None}, 422),
        ("demo", {"version": 2, "force": 1}, 422),
        ("demo", [2], 422),
    ],
)
async def test_a_wrong_promotion_changes_nothing(
    name: str, body: Any, status: int, served: httpx.AsyncClient
) -> None:
    response = await served.post(f"/v1/models/{name}/promote", json=body, headers=ADMIN)

    assert status == response.status_code, response.text
    assert 1 == await champion(served)


async def test_a_version_that_does_not_verify_is_not_promoted(
    served: httpx.AsyncClient, models_dir: Path
) -> None:
    (models_dir / "demo" / "2" / "more.npy").write_bytes(b"")

    response = await served.post("/v1/models/demo/promote", json={"version": 2}, headers=ADMIN)

    assert 409 == response.status_code
    assert "more.npy" in response.json()["detail"]
    assert 1 == await champion(served)
    assert 1 == Registry(models_dir).aliases("demo")["champion"]


async def test_nothing_to_roll_back_to_is_404(served: httpx.AsyncClient) -> None:
    response = await served.post("/v1/models/demo/rollback", json={}, headers=ADMIN)

    assert 404 == response.status_code
    assert 1 == await champion(served)


@pytest.mark.parametrize("action", ["promote", "rollback"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-api-key": "wrong"}, 403),
        ({"authorization": "Basic dGhlLWFkbWluLWtleQ=="}, 401),
        (ADMIN | {"host": "evil.example.com"}, 403),
        (ADMIN | {"host": "localhost.evil.example.com"}, 403),
        (ADMIN | {"host": "["}, 403),
        (ADMIN | {"origin": "http://evil.example.com"}, 403),
        (ADMIN | {"origin": "null"}, 403),
        (ADMIN | {"content-type": "text/plain"}, 415),
        (ADMIN | {"content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_changes_need_the_key_json_and_no_foreign_page(
    action: str, headers: dict[str, str], status: int, served: httpx.AsyncClient
) -> None:
    response = await served.post(
        f"/v1/models/demo/{action}",
        content='{"version": 2}' if action == "promote" else "{}",
        headers={"content-type": "application/json"} | headers,
    )

    assert status == response.status_code, response.text
    assert 1 == await champion(served)


@pytest.mark.parametrize(
    "headers",
    [
        ADMIN,
        {"authorization": "bearer the-admin-key"},
        ADMIN | {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"},
        ADMIN | {"host": "[::1]:8080"},
        ADMIN | {"host": "Rank.example.com", "origin": "https://rank.example.com"},
    ],
)
async def test_and_go_through_with_them(headers: dict[str, str], served: httpx.AsyncClient) -> None:
    response = await served.post("/v1/models/demo/promote", json={"version": 2}, headers=headers)

    assert 200 == response.status_code, response.text


async def test_a_promotion_waits_for_every_worker_and_names_the_laggards(
    connect: Any, loaded: Any, models_dir: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "runtime"
    shared.mkdir()
    settings = Settings(
        models_dir=models_dir,
        poll_seconds=0.01,
        switch_timeout_seconds=0.3,
        admin_key=ADMIN["x-api-key"],
    )
    other = Workers(shared)
    other._pid = os.getpid() + 1
    other.enter()
    async with connect(settings) as client:
        service = client._transport.app.state.service
        service.workers._folder = shared
        service.workers.enter()
        await loaded(client)

        late = await client.post("/v1/models/demo/promote", json={"version": 2}, headers=ADMIN)
        other.report({"demo": {"champion": 2}}, {})
        done = await client.post("/v1/models/demo/promote", json={"version": 2}, headers=ADMIN)
        other.leave()
        alone = await client.post("/v1/models/demo/rollback", json={}, headers=ADMIN)

    assert 503 == late.status_code
    assert "demo@champion is version 2 now, but these workers" in late.json()["detail"]
    assert f"{os.getpid() + 1} (no reason known)" in late.json()["detail"]
    assert {os.getpid(), os.getpid() + 1} == set(done.json()["workers"])
    assert [os.getpid()] == alone.json()["workers"]


async def test_models_that_were_given_cannot_be_changed(connect: Any, tiny_model: Any) -> None:
    async with connect(Settings(admin_key="the-admin-key"), models=[tiny_model]) as client:
        response = await client.post("/v1/models/tiny/promote", json={"version": 1}, headers=ADMIN)

    assert 503 == response.status_code
