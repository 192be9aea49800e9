"""Features that a request need not send: they are looked up in published tables by the ids of the documents."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import numpy as np
import pytest
from jsonschema import Draft202012Validator

from localrank.artifact import Provenance
from localrank.client import AsyncClient, Query
from localrank.features.contract import FeatureContract
from localrank.features.feature import Feature
from localrank.points.representation import NoRepresentation
from localrank.ranker import Ranker
from localrank.registry.tables import publish, tables_in
from localrank.registry.versions import Registry
from localrank.routing.router import GlobalRouter
from localrank.scorers import LinearScorer
from localrank_service.app import create_app
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from localrank.registry.versions import Reference
    from tests.service.conftest import Connect

pytestmark = pytest.mark.anyio

PRICE, BRAND = Feature("price"), Feature("brand", "category", ("nike", "kobo"))
BRANDS = {"nike": 5.0, "kobo": -5.0}


def ranker() -> Ranker:
    """Scores bm25 + 10 price, and 5 for nike, -5 for kobo; a missing number is 0."""
    features = (Feature("bm25"), replace(PRICE, table="items"), replace(BRAND, table="items"))
    rows = np.array([[1, 2, 0], [3, 4, 1], [5, 0, 0]], np.float32)
    contract = FeatureContract.learn(rows, [3], features=features, missing="zero", normalise="none")
    encoding = replace_numbers(contract)
    scorer = LinearScorer(np.array([1.0, 10.0, 1.0]))
    return Ranker(encoding, NoRepresentation(), GlobalRouter(), (), scorer)


def replace_numbers(contract: FeatureContract) -> FeatureContract:
    one = contract.encodings[0]._replace(numbers=np.array([*BRANDS.values(), 0.0, 0.0]))
    return replace(contract, encodings=(one,))


def scored(bm25: float, price: float = 0.0, brand: str = "") -> float:
    return bm25 + 10 * price + BRANDS.get(brand, 0.0)


def publish_table(
    models_dir: Path,
    rows: dict[Any, tuple[float, str | None]],
    *,
    columns: Sequence[Feature] = (BRAND, PRICE),
    created: str = "2026-01-01T00:00:00Z",
) -> Reference:
    category = next((one for one in columns if one.kind == "category"), BRAND)
    cells = {
        "price": [price for price, _ in rows.values()],
        "brand": [np.nan if brand is None else category.code_of(brand) for _, brand in rows.values()],
    }
    values = np.array([cells.get(one.name, cells["price"]) for one in columns], np.float32).T
    return publish(tables_in(models_dir), "items", columns, [*rows], values, created=created, source={})


ITEMS: dict[Any, tuple[float, str | None]] = {"a": (1.0, "nike"), "b": (2.0, "kobo"), 7: (3.0, None)}


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    """A model ``shop`` that looks up price and brand in the table ``items``."""
    folder = tmp_path / "models"
    publish_table(folder, ITEMS)
    registry = Registry(folder)
    probe = [np.array([[1, 2, 0], [3, 4, 1]], np.float32)]
    registry.publish("shop", ranker(), Provenance("2026-01-01T00:00:00Z", source={}, probe=probe))
    registry.promote("shop", 1)
    return folder


@pytest.fixture
async def client(
    models_dir: Path, connect: Connect, loaded: Callable[[httpx.AsyncClient], Awaitable[None]]
) -> Any:
    async with connect(Settings(models_dir=models_dir, poll_seconds=0.01)) as one:
        await loaded(one)
        yield one


def scores(answer: Any) -> dict[Any, float]:
    return {one["id"]: one["score"] for one in answer.json()["results"]}


async def test_what_a_request_leaves_out_is_looked_up_by_the_ids(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/rerank", json={"ids": ["a", "b", 7], "features": [[1], [2], [3]]})

    assert 200 == answer.status_code, answer.text
    assert {
        "a": scored(1, 1, "nike"),
        "b": scored(2, 2, "kobo"),
        7: scored(3, 3),
    } == scores(answer)
    assert {"items": 1} == answer.json()["tables"]
    assert [] == [one for one in answer.json()["warnings"] if one["code"] == "id_unknown"]


async def test_an_unknown_id_is_missing_and_counted(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/rerank", json={"ids": ["x", "a", "y"], "features": [[1], [2], [3]]})

    assert {"x": 1.0, "y": 3.0, "a": scored(2, 1, "nike")} == scores(answer)
    assert {"code": "id_unknown", "feature": "items", "count": 2} in answer.json()["warnings"]
    metrics = (await client.get("/metrics")).text
    assert 'localrank_table_ids_total{model="shop",outcome="unknown",table="items"} 2.0' in metrics
    assert 'localrank_table_ids_total{model="shop",outcome="known",table="items"} 1.0' in metrics


#: The same request in every shape: documents a and x, of which the table knows the first.
SHAPES: dict[str, dict[str, Any]] = {
    "rows": {"ids": ["a", "x"], "features": [[1], [2]]},
    "named rows": {"ids": ["a", "x"], "feature_names": ["bm25"], "features": [[1], [2]]},
    "documents": {"documents": [{"id": "a", "features": [1]}, {"id": "x", "features": [2]}]},
    "named documents": {
        "documents": [{"id": "a", "features": {"bm25": 1}}, {"id": "x", "features": {"bm25": 2}}]
    },
    "columns": {"ids": ["a", "x"], "columns": {"bm25": [1, 2]}},
    "nulls": {"ids": ["a", "x"], "features": [[1, None, None], [2, None, None]]},
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_every_shape_of_a_request_may_leave_features_out(client: httpx.AsyncClient, shape: str) -> None:
    answer = await client.post("/v1/rerank", json=SHAPES[shape])

    assert 200 == answer.status_code, answer.text
    assert {"a": scored(1, 1, "nike"), "x": 2.0} == scores(answer)
    assert {"items": 1} == answer.json()["tables"]


async def test_the_schema_of_the_model_says_what_may_be_left_out(client: httpx.AsyncClient) -> None:
    schema = (await client.get("/v1/models/shop/schema")).json()
    validator = Draft202012Validator(schema)

    row = schema["$defs"]["row"]["prefixItems"]
    assert [None, "table:items", "table:items"] == [one.get("x-from") for one in row]
    assert [] == [name for name, shape in SHAPES.items() if not validator.is_valid(shape)]
    assert not validator.is_valid({"ids": ["a"], "feature_names": ["bm25"], "features": [[1, 2, "kobo"]]})
    assert not validator.is_valid({"ids": ["a"], "features": [[1, 2]]})


async def test_a_value_of_the_request_counts_before_that_of_the_table(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/v1/rerank",
        json={"ids": ["a", "b"], "features": [[1, 9, None], [2, None, "nike"]]},
    )

    assert {"a": scored(1, 9, "nike"), "b": scored(2, 2, "nike")} == scores(answer)


async def test_a_request_with_neither_ids_nor_values_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/rerank", json={"features": [[1], [2]]})

    assert 422 == answer.status_code
    assert "ids" in answer.json()["detail"]


async def test_a_request_that_has_all_values_needs_no_ids(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/rerank", json={"features": [[1, 2, "kobo"], [2, 0, None]]})

    assert [scored(1, 2, "kobo"), 2.0] == [one["score"] for one in answer.json()["results"]]
    assert "tables" not in answer.json()


async def test_an_array_has_its_ids_in_the_query_string(client: httpx.AsyncClient) -> None:
    body = io.BytesIO()
    np.save(body, np.array([[1.0], [2.0]], np.float32))

    answer = await client.post(
        "/v1/rerank",
        params={"ids": ["a", "x"]},
        content=body.getvalue(),
        headers={"content-type": "application/x-npy"},
    )

    assert 200 == answer.status_code, answer.text
    assert {"a": scored(1, 1, "nike"), "x": 2.0} == scores(answer)


async def test_other_apis_look_up_by_their_ids(client: httpx.AsyncClient) -> None:
    batch = await client.post("/v1/rerank/batch", json={"queries": [SHAPES["rows"], {"features": [[1]]}]})
    infer = await client.post(
        "/v2/models/shop/infer",
        json={
            "inputs": [
                {"name": "features", "datatype": "FP32", "shape": [2, 1], "data": [1, 2]},
                {"name": "doc_ids", "datatype": "BYTES", "shape": [2], "data": ["a", "x"]},
            ]
        },
    )
    whole = await client.post(
        "/v2/models/shop/infer",
        json={
            "inputs": [
                {"name": "features", "datatype": "FP32", "shape": [2, 1], "data": [1, 2]},
                {"name": "doc_ids", "datatype": "INT64", "shape": [2], "data": [7, 8]},
            ]
        },
    )
    hits = [
        {"_id": one, "fields": {"_ltrlog": [{"main": [{"name": "bm25", "value": value}]}]}}
        for one, value in (("a", 1.0), ("x", 2.0))
    ]
    adapted = await client.post("/v1/adapters/elasticsearch", json={"hits": {"hits": hits}})
    compared = await client.post("/v1/compare", json={"candidate": "shop@1", **SHAPES["rows"]})
    evaluated = await client.post(
        "/v1/evaluate",
        json={"metrics": ["ndcg@1"], "queries": [{**SHAPES["rows"], "labels": [0, 1]}]},
    )
    cohere = await client.post(
        "/v2/rerank",
        json={"documents": [{"id": "a", "features": {"bm25": 1}}, {"id": "x", "features": [2]}]},
    )

    expected = [scored(1, 1, "nike"), 2.0]
    first, second = batch.json()["answers"]
    assert expected == [one["score"] for one in first["answer"]["results"]]
    assert 422 == second["status"]
    outputs = {one["name"]: one["data"] for one in infer.json()["outputs"]}
    assert expected == outputs["scores"]
    assert "items@1" == infer.json()["parameters"]["tables"]
    assert scored(1, 3) == {one["name"]: one["data"] for one in whole.json()["outputs"]}["scores"][0]
    assert expected == [hit["_score"] for hit in adapted.json()["hits"]["hits"]]
    assert {"items": 1} == adapted.json()["localrank"]["tables"]
    assert expected == [one["score"] for one in compared.json()["baseline"]["results"]]
    assert 0.0 == evaluated.json()["metrics"][0]["mean"]
    assert expected == [one["score"] for one in cohere.json()["results"]]
    assert {"items": 1} == cohere.json()["meta"]["localrank"]["tables"]


async def until(client: httpx.AsyncClient, generation: int) -> dict[str, Any]:
    for _ in range(2000):
        shown: dict[str, Any] = (await client.get("/readyz")).json()["tables"]["shop@1"]["items"]
        if shown["generation"] == generation:
            return shown
        await anyio.sleep(0.005)
    raise TimeoutError


async def until_refused(client: httpx.AsyncClient) -> str:
    for _ in range(2000):
        shown = (await client.get("/readyz")).json()["tables"]["shop@1"]["items"]
        if "refused" in shown:
            return str(shown["refused"])
        await anyio.sleep(0.005)
    raise TimeoutError


async def until_counted(client: httpx.AsyncClient, sample: str) -> None:
    for _ in range(2000):
        if sample in (await client.get("/metrics")).text:
            return
        await anyio.sleep(0.005)
    raise TimeoutError


async def ask(client: httpx.AsyncClient, one: Any = "a") -> tuple[float, int]:
    answer = (await client.post("/v1/rerank", json={"ids": [one], "features": [[1]]})).json()
    return answer["results"][0]["score"], answer["tables"]["items"]


async def test_a_new_generation_takes_the_place_of_the_old_one(
    client: httpx.AsyncClient, models_dir: Path
) -> None:
    before = await ask(client)
    other = replace(BRAND, values=("acme", "kobo", "nike"))
    publish_table(
        models_dir, {"a": (5.0, "nike"), "new": (6.0, "acme")}, columns=(PRICE, other, Feature("more"))
    )

    shown = await until(client, 2)
    await until_counted(client, 'localrank_table_generation{model="shop",table="items"} 2.0')

    assert (scored(1, 1, "nike"), 1) == before
    assert (scored(1, 5, "nike"), 2) == await ask(client)
    assert (scored(1, 6), 2) == await ask(client, "new")
    assert (scored(1), 2) == await ask(client, "b")
    assert shown["age_seconds"] > 0
    metrics = (await client.get("/metrics")).text
    assert 'localrank_table_created_timestamp_seconds{model="shop",table="items"} 1.7672256e+09' in metrics


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((BRAND,), "price"),
        ((Feature("price", "category", ("1", "5")), BRAND), "expected 'price' as a number"),
        ((PRICE, Feature("brand")), "expected 'brand' as a category"),
        ((PRICE, replace(BRAND, values=("Nike", "Kobo"))), "none of them"),
    ],
)
async def test_a_generation_that_does_not_fit_the_model_is_refused_and_the_old_one_stays(
    client: httpx.AsyncClient,
    models_dir: Path,
    caplog: pytest.LogCaptureFixture,
    columns: tuple[Feature, ...],
    said: str,
) -> None:
    values = np.zeros((1, len(columns)), np.float32)
    publish(tables_in(models_dir), "items", columns, ["a"], values, created="2026-01-02", source={})

    refused = await until_refused(client)

    assert said in refused
    assert refused.startswith("table items, generation 2: ")
    assert 1 == refused.count("generation")
    assert said in caplog.text
    assert str(models_dir) not in refused
    assert (scored(1, 1, "nike"), 1) == await ask(client)
    await until_counted(client, 'localrank_table_broken{model="shop",table="items"} 1.0')


async def test_files_of_a_generation_that_is_looked_into_may_become_anything(
    client: httpx.AsyncClient, models_dir: Path
) -> None:
    before = await ask(client)
    family = models_dir / ".tables" / "items"
    for path in (family / "1").iterdir():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    cut = await ask(client)
    shutil.rmtree(family)

    assert before == cut == await ask(client)


async def test_a_rolled_back_generation_is_given_up(client: httpx.AsyncClient, models_dir: Path) -> None:
    publish_table(models_dir, {"a": (5.0, "nike")})
    await until(client, 2)

    tables_in(models_dir).rollback("items")
    shown = await until(client, 1)

    assert "refused" not in shown
    assert (scored(1, 1, "nike"), 1) == await ask(client)


async def test_another_generation_of_the_same_number_is_noticed(
    client: httpx.AsyncClient, models_dir: Path
) -> None:
    before = await ask(client)
    shutil.rmtree(models_dir / ".tables" / "items")
    publish_table(models_dir, {"a": (7.0, "kobo")})

    for _ in range(2000):
        if (after := await ask(client)) != before:
            break
        await anyio.sleep(0.005)

    assert (scored(1, 7, "kobo"), 1) == after


async def test_a_model_without_its_table_is_broken_until_the_table_comes(
    models_dir: Path, connect: Connect, loaded: Callable[[httpx.AsyncClient], Awaitable[None]]
) -> None:
    shutil.rmtree(models_dir / ".tables")

    async with connect(Settings(models_dir=models_dir, poll_seconds=0.01)) as client:
        await loaded(client)
        ready = await client.get("/readyz")
        answer = await client.post("/v1/rerank", json={"model": "shop", "ids": ["a"], "features": [[1]]})
        publish_table(models_dir, ITEMS)
        for _ in range(2000):
            if 200 == (await client.get("/readyz")).status_code:
                break
            await anyio.sleep(0.005)

        assert (scored(1, 1, "nike"), 1) == await ask(client)
    assert (503, 503) == (ready.status_code, answer.status_code)
    assert "items" in ready.json()["detail"]


def test_the_clients_send_ids_only_if_they_are_looked_up() -> None:
    plain = Query([[1.0], [2.0]], ids=["a", 7], pin=[7], boost={"a": 0.5})
    told = Query([[1.0], [2.0]], ids=["a", np.int64(7)], pin=[7], boost={"a": 0.5}, look_up=True)

    assert (None, [1], {"0": 0.5}) == (
        plain.sent_ids(),
        plain.options(None)["pin"],
        plain.options(None)["boost"],
    )
    assert (["a", 7], [7], {"a": 0.5}) == (
        told.sent_ids(),
        told.options(None)["pin"],
        told.options(None)["boost"],
    )
    with pytest.raises(ValueError, match="expected ids"):
        Query([[1.0]], look_up=True)
    with pytest.raises(TypeError, match=r"found 1\.5"):
        Query([[1.0]], ids=[1.5], look_up=True).sent_ids()


async def test_both_clients_get_answers_by_looking_up(models_dir: Path) -> None:
    app = create_app(Settings(models_dir=models_dir))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with AsyncClient("http://localhost", transport=transport) as client:
            ranked = await client.rerank([[1.0], [2.0]], ids=["a", "x"], look_up=True)
            named = await client.rerank([{"bm25": 1.0}, {"bm25": 2.0}], ids=["a", "x"], look_up=True)

    expected = [scored(1, 1, "nike"), 2.0]
    assert expected == list(ranked.scores) == list(named.scores)
