"""The map of a model, and the place of a query on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.points.signature import Signatures
from localrank.routing.router import ExactRouter, GlobalRouter
from localrank.routing.routers import MedoidRouter
from localrank_service.models.live import LiveModel

if TYPE_CHECKING:
    import httpx

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

pytestmark = pytest.mark.anyio


async def test_the_map_places_every_training_query(client: httpx.AsyncClient, tiny_model: LiveModel) -> None:
    answer = (await client.get("/v1/models/tiny/map")).json()

    drawn = tiny_model.query_map
    assert drawn is not None
    assert ("tiny", 3, True) == (answer["model"], answer["version"], answer["places"])
    assert drawn.queries.tolist() == answer["queries"]
    assert [query % 3 for query in answer["queries"]] == answer["clusters"]
    np.testing.assert_allclose(answer["coordinates"], drawn.coordinates, atol=1e-5)
    shown = (await client.get("/v1/models/tiny")).json()["map"]
    assert {"queries": len(drawn), "shown": drawn.shown} == shown


async def test_an_explained_route_tells_the_place_of_the_query_and_of_its_neighbours(
    client: httpx.AsyncClient, tiny_model: LiveModel, queries: list[Matrix]
) -> None:
    ranker, drawn = tiny_model.ranker, tiny_model.query_map
    assert drawn is not None

    answer = await client.post("/v1/rerank", json={"features": queries[4].tolist(), "explain": "route"})

    found = answer.json()["explanation"]
    point = ranker.representation.of(ranker.contract.cloud(queries[4]))
    place = drawn.place(point, ranker.router)
    assert place is not None
    np.testing.assert_allclose(found["place"], place, atol=1e-5)
    for neighbour in found["neighbours"]:
        np.testing.assert_allclose(neighbour["place"], drawn.coordinates[neighbour["query"]], atol=1e-4)


async def test_a_query_that_cannot_be_compared_has_no_place(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]], "explain": "route"})

    assert "place" not in answer.json()["explanation"]


async def test_a_model_without_a_map_says_so_and_what_to_do(
    connect: Any, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    whole = replace(tiny_ranker, router=GlobalRouter(), scorers=())
    models = [LiveModel("old", 1, tiny_ranker), LiveModel("whole", 1, whole)]
    async with connect(models=models) as http:
        old, alone = [await http.get(f"/v1/models/{name}/map") for name in ("old", "whole")]
        told = (await http.get("/v1/models/old")).json()
        explained = await http.post(
            "/v1/rerank", json={"model": "old", "features": queries[0].tolist(), "explain": "route"}
        )

    assert (404, 404) == (old.status_code, alone.status_code)
    assert "train it again with localrank train" in old.json()["detail"]
    assert "it has no clusters" in alone.json()["detail"]
    assert told["map"] is None
    assert "place" not in explained.json()["explanation"]


async def test_a_router_without_training_queries_places_by_the_points_of_the_map(
    connect: Any, tiny_model: LiveModel, queries: list[Matrix]
) -> None:
    router, drawn = tiny_model.ranker.router, tiny_model.query_map
    assert isinstance(router, ExactRouter)
    assert isinstance(router.points, Signatures)
    assert drawn is not None
    ranker = replace(tiny_model.ranker, router=MedoidRouter(router.points.take(np.arange(3))))
    models = [
        LiveModel("with", 1, ranker, query_map=replace(drawn, points=router.points)),
        LiveModel("without", 1, ranker, query_map=drawn),
    ]
    async with connect(models=models) as http:
        explained = [
            (
                await http.post(
                    "/v1/rerank", json={"model": name, "features": queries[4].tolist(), "explain": "route"}
                )
            ).json()["explanation"]
            for name in ("with", "without")
        ]
        places = [(await http.get(f"/v1/models/{name}/map")).json()["places"] for name in ("with", "without")]

    point = ranker.representation.of(ranker.contract.cloud(queries[4]))
    place = drawn.place(point, router)
    assert place is not None
    np.testing.assert_allclose(explained[0]["place"], place, atol=1e-5)
    assert "place" not in explained[1]
    assert [True, False] == places
