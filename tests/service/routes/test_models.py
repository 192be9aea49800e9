"""Models, as they are listed and described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.contract import QUANTILES
from localrank_service.models.live import LiveModel
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
    from localrank_service.process.settings import Settings

    async with connect(Settings(models_dir=models_dir, preload="demo@2")) as client:
        await loaded(client)
        yield client


async def test_the_model_of_requests_without_one_is_marked(connect: Any, make_ranker: Any) -> None:
    from localrank_service.process.settings import Settings

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
