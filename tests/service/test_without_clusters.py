"""A version without clusters: nothing is signed or routed, but for some requests that tell of the drift."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.points.signature import Signatures
from localrank.ranker import Ranker
from localrank.routing.router import ExactRouter, GlobalRouter
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from tests.service.telemetry.test_meters import samples

if TYPE_CHECKING:
    from localrank.arrays import Matrix

pytestmark = pytest.mark.anyio

ALIKE = [[1.0, 2.0, 3.0, 4.0]] * 2


@pytest.fixture
def model(tiny_model: LiveModel) -> LiveModel:
    """The model of three kinds without its clusters; the kinds are still on the map, unevenly."""
    known, drawn = tiny_model.ranker.router, tiny_model.query_map
    assert isinstance(known, ExactRouter)
    assert isinstance(known.points, Signatures)
    assert drawn is not None
    ranker = tiny_model.ranker
    alone = Ranker(ranker.contract, ranker.representation, GlobalRouter(), (), ranker.global_scorer)
    some = np.array([0, 1, 2, 3, 6, 9])  # four of the first kind
    kept = replace(
        drawn,
        queries=drawn.queries[some],
        clusters=drawn.clusters[some],
        coordinates=drawn.coordinates[some],
        means=drawn.means[some],
        points=known.points.take(some),
    )
    return LiveModel("whole", 1, alone, query_map=kept)


async def send(http: Any, documents: list[list[list[float]]], **options: Any) -> list[dict[str, Any]]:
    answers = (
        await http.post(
            "/v1/rerank/batch", json={"queries": [{"features": rows, **options} for rows in documents]}
        )
    ).json()["answers"]
    return [one["answer"] for one in answers]


async def test_the_kinds_of_signed_requests_are_compared_with_those_of_the_map(
    connect: Any, model: LiveModel, queries: list[Matrix]
) -> None:
    """Query ``i`` is of kind ``i % 3``: here 60 of the first, 20 of the second and 20 without a signature."""
    sent = [queries[0].tolist()] * 6 + [queries[4].tolist()] * 2 + [ALIKE] * 2
    async with connect(Settings(sign_every=1), models=[model]) as http:
        for _ in range(9):
            await send(http, sent)
        before = (await http.get("/v1/stats")).json()["models"]["whole"]["versions"]["1"]
        await http.post("/v1/rerank", json={"features": ALIKE}, headers={"LocalRank-Trial": "true"})
        answers = await send(http, sent, timeout_ms=60_000)
        after = (await http.get("/v1/stats")).json()["models"]["whole"]["versions"]["1"]
        found = await samples(http)

    assert [None, *["global"] * 10] == [before["drift"], *(one["route"]["strategy"] for one in answers)]
    assert ["score", "order", "sign"] == list(answers[0]["timings_ms"])[1:4]
    traffic, map_shares = [0.6, 0.2, 0.0, 0.2], [4 / 6, 1 / 6, 1 / 6, 0.0]
    distance = sum(abs(p - q) for p, q in zip(traffic, map_shares, strict=True)) / 2
    assert distance == pytest.approx(after["drift"]) == found["localrank_route_drift", "whole", "1"]
    assert {0: 60, 1: 20, 2: 0, None: 20} == {one["cluster"]: one["requests"] for one in after["kinds"]}
    assert map_shares == pytest.approx([one["training_share"] for one in after["kinds"]])
    assert [{"cluster": None, "requests": 100, "training_share": None}] == after["clusters"]
    assert (10, 0, 1) == (before["drift_missing"], after["drift_missing"], found["localrank_sign_every",])


@pytest.mark.parametrize("every", [0, 4])
async def test_one_request_in_so_many_is_signed(
    every: int, connect: Any, model: LiveModel, queries: list[Matrix]
) -> None:
    async with connect(Settings(sign_every=every), models=[model]) as http:
        answers = [one for _ in range(10) for one in await send(http, [queries[0].tolist()] * 40)]
        found = await samples(http)

    stages = Counter(stage for answer in answers for stage in answer["timings_ms"])
    assert 400 == stages["score"]
    assert 0 == stages["route"]
    signed = found.get(("localrank_signed_total", "0", "whole", "1"), 0)
    # A binomial of 400 and 1/4 is from 60 to 140 but for one time in ten thousand; the draws are the same in every run.
    assert (60 < signed < 140) if every else (0 == signed)
    assert signed == stages["sign"]
    assert every == found["localrank_sign_every",]


async def test_signing_changes_no_answer(connect: Any, model: LiveModel, queries: list[Matrix]) -> None:
    found = []
    for every in (0, 1):
        async with connect(Settings(sign_every=every), models=[model]) as http:
            found.append(await send(http, [query.tolist() for query in queries]))

    assert [one["results"] for one in found[0]] == [one["results"] for one in found[1]]


async def test_a_route_that_is_always_the_same_is_not_explained(
    connect: Any, model: LiveModel, queries: list[Matrix]
) -> None:
    async with connect(models=[model]) as http:
        asked = {"features": queries[4].tolist(), "explain": "route"}
        answer = (await http.post("/v1/rerank", json=asked)).json()
        clusters = (await http.get("/v1/models/whole/clusters")).json()
        drawn = (await http.get("/v1/models/whole/map")).json()

    explanation = answer["explanation"]
    assert explanation["said"].startswith("There is nothing to explain")
    assert (None, []) == (explanation["clusters"], explanation["neighbours"])
    assert {"cluster": None, "kind": "linear"} == explanation["scorer"]
    assert 2 == len(explanation["place"])
    assert ([], [0, 1, 2, 0, 0, 0]) == (clusters["clusters"], drawn["clusters"])
