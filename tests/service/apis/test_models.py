"""Models, as they are listed and described."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.features.contract import QUANTILES
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from tests.service.conftest import N_FEATURES, NAMES, queries_of_three_kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    import httpx

    from localrank.ranker import Ranker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def served(
    connect: Any, loaded: Callable[..., Awaitable[None]], models_dir: Path
) -> AsyncIterator[httpx.AsyncClient]:
    async with connect(Settings(models_dir=models_dir, preload="demo@2")) as client:
        await loaded(client)
        yield client


async def test_the_model_of_requests_without_one_is_marked(connect: Any, make_ranker: Any) -> None:
    models = [LiveModel(name, number, make_ranker()) for name, number in (("b", 2), ("a", 7), ("a", 1))]
    async with connect(Settings(model="b"), models=models) as client:
        two = (await client.get("/v1/models")).json()
    async with connect(models=models[1:]) as client:
        one = (await client.get("/v1/models")).json()
    async with connect(models=models) as client:
        none = (await client.get("/v1/models")).json()

    defaults = [{model["name"]: model["default"] for model in found["models"]} for found in (two, one, none)]
    assert [{"a": False, "b": True}, {"a": True}, {"a": False, "b": False}] == defaults
    assert ({}, {}) == (two["loading"], two["broken"])
    assert [("a", 7, {"champion": 7}), ("b", 2, {"champion": 2})] == [
        (model["name"], model["version"], model["aliases"]) for model in two["models"]
    ]


async def test_a_model_is_described_member_by_member(client: httpx.AsyncClient, tiny_ranker: Ranker) -> None:
    found = (await client.get("/v1/models/tiny")).json()

    contract = tiny_ranker.contract
    assert {
        "name": "tiny",
        "version": 3,
        "aliases": {"champion": 3},
        "contract": contract.digest,
        "normalise": "none",
        "n_features": N_FEATURES,
        "n_clusters": 3,
        "representation": {"method": "pca", **tiny_ranker.representation.settings()},
        "routing": "exact",
    } == {name: found[name] for name in list(found)[:9]}
    assert list(NAMES) == [one["name"] for one in found["features"]]
    assert ["reject", "zero", "median", "nan"] == [one["missing"] for one in found["features"]]
    assert contract.quantiles[0].tolist() == [one["lowest"] for one in found["features"]]
    assert contract.quantiles[-1].tolist() == [one["highest"] for one in found["features"]]
    assert {str(quantile): 20.0 for quantile in QUANTILES} == found["list_lengths"]
    # It was not read from a folder.
    assert not found.keys() & {"created", "sha256", "metrics", "notes", "source", "guard"}
    # Without a probe there is an example that was made up.
    assert 1 == found["samples"]


async def test_clusters_of_a_model_without_a_manifest_have_their_scorers(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/models/tiny@3/clusters")

    assert {
        "model": "tiny",
        "version": 3,
        "clusters": [{"cluster": number, "scorer": "linear"} for number in range(3)],
        "global": {"scorer": "linear"},
    } == answer.json()
    assert ("application/json", "no-store") == (
        answer.headers["content-type"],
        answer.headers["cache-control"],
    )


async def test_a_version_that_no_alias_names_has_none(served: httpx.AsyncClient) -> None:
    first, second = [(await served.get(f"/v1/models/demo@{version}")).json() for version in (1, 2)]

    assert ({"champion": 1}, 1, 2) == (first["aliases"], first["version"], second["version"])
    assert first["created"] == "2026-01-01T00:00:00Z"
    assert {"seed": 0} == first["source"]


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        (None, 0),
        ("0", 0),
        ("2", 2),
        ("00002", 2),
        ("3", None),
        ("-1", None),
        ("x", None),
        ("000002", None),
        ("\u0662", None),
    ],
)
async def test_a_sample_is_a_query_of_the_probe(
    asked: str | None, number: int | None, served: httpx.AsyncClient
) -> None:
    answer = await served.get("/v1/models/demo/sample", params={} if asked is None else {"query": asked})

    if number is None:
        assert (422, f"query: expected a number below 3, found {asked!r}") == (
            answer.status_code,
            answer.json()["detail"],
        )
    else:
        expected = queries_of_three_kinds()[number]
        assert expected.tolist() == np.array(answer.json()["features"], np.float32).tolist()


async def test_the_schema_has_a_type_of_its_own(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/models/tiny/schema")

    assert "application/schema+json" == answer.headers["content-type"]


@pytest.mark.parametrize("kind", ["absolute", "relative"])
async def test_no_error_names_a_path_of_the_server(  # noqa: PLR0917
    kind: str,
    connect: Any,
    loaded: Callable[..., Awaitable[None]],
    models_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has it."""
    monkeypatch.chdir(models_dir.parent)
    (models_dir / "demo" / "2" / "scorers.weights.npy").unlink()
    (models_dir / "web" / "aliases.json").unlink()
    (models_dir / "web" / "aliases.json").mkdir()
    keys = models_dir.parent / "trusted.pem"
    settings = Settings(
        models_dir=models_dir.relative_to(models_dir.parent) if kind == "relative" else models_dir,
        admin_key="the-admin-key",
        experiments_file=models_dir.parent / "experiments.json",
        runtime_dir=models_dir.parent / "run",
        ready="any",
    )
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/v1/models/demo/promote", {"version": 2}),
        ("POST", "/v1/models/demo/promote", {"version": 9}),
        ("POST", "/v1/models/nope/promote", {"version": 1}),
        ("POST", "/v1/models/web/promote", {"version": 1}),
        ("POST", "/v1/models/demo/rollback", {}),
        ("POST", "/v1/models/web/rollback", {}),
        ("POST", "/v2/repository/models/web/load", {}),
        ("POST", "/v2/repository/models/nope/load", {}),
        ("POST", "/v2/repository/models/nope/unload", {}),
        ("PUT", "/v1/experiments/one", {"kind": "split", "model": "demo", "candidate": "demo@2"}),
        ("GET", "/v1/models/web/versions", None),
        ("GET", "/v1/models/web", None),
        ("GET", "/readyz", None),
        ("POST", "/v2/repository/index", None),
    ]
    answers = {}
    async with connect(settings) as client:
        await loaded(client)
        for method, path, body in asked:
            answer = await client.request(method, path, json=body, headers={"x-api-key": "the-admin-key"})
            answers[method, path, str(body)] = answer
    async with connect(replace(settings, require_signature=keys, runtime_dir=None)) as client:
        away = await client.post(
            "/v1/models/demo/promote", json={"version": 1}, headers={"x-api-key": "the-admin-key"}
        )

    assert {
        "POST /v1/models/demo/promote": 404, "POST /v1/models/nope/promote": 404, "POST /v1/models/web/promote": 409,
        "POST /v1/models/demo/rollback": 404, "PUT /v1/experiments/one": 503, "GET /readyz": 200,
    }.items() <= {f"{method} {path}": one.status_code for (method, path, _), one in answers.items()}.items()  # fmt: skip
    for which, answer in answers.items():
        for hidden in (str(models_dir.parent), "models/"):
            assert hidden not in answer.text.replace("/v1/models/", ""), which
    assert "trusted.pem" not in away.text
    assert "LOCALRANK_REQUIRE_SIGNATURE" in away.text
    assert "models/demo/2" in caplog.text
