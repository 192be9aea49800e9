"""Cohere's rerank API: request, answer and errors as its clients know them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank_service.wire.relevance import logistic
from tests.described import validator

if TYPE_CHECKING:
    import httpx

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("arithmetic")]

ROW = [1, 2, 3, 4]
NAMES = ("bm25", "pagerank", "ctr:7d", "age")


async def test_documents_are_ordered_by_the_ranker_s_own_scores(
    client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    expected = tiny_ranker.rank(queries[0])
    request = {
        "model": "tiny",
        "query": "what: is [this]?",
        "documents": [{"features": row} for row in queries[0].tolist()],
        "top_n": 7,
        "max_tokens_per_doc": 4096,
        "priority": 0,
    }

    response = await client.post("/v2/rerank", json=request, headers={"x-request-id": "the-id"})

    answer = response.json()
    validator("CohereRequest").validate(request)
    assert "the-id" == answer["id"]
    assert expected.order[:7].tolist() == [one["index"] for one in answer["results"]]
    assert expected.scores[expected.order[:7]].tolist() == [one["score"] for one in answer["results"]]
    assert {"index", "relevance_score", "score"} == set(answer["results"][0])
    assert ("tiny", 3) == (answer["meta"]["localrank"]["model"], answer["meta"]["localrank"]["version"])
    assert "total" in answer["meta"]["localrank"]["timings_ms"]
    assert expected.route.cluster == answer["meta"]["localrank"]["route"]["cluster"]


def test_relevance_is_what_meta_says_and_keeps_the_order() -> None:
    scores = np.array([800.0, 40.0, 3.0, 0.25, 0.0, -0.25, -3.0, -40.0, -800.0])

    relevance = logistic(scores)

    assert [1.0, 1.0, 1 / (1 + math.exp(-3)), 1 / (1 + math.exp(-0.25)), 0.5] == relevance[:5].tolist()
    np.testing.assert_allclose(relevance[5:], 1 - relevance[3::-1][: len(relevance[5:])], atol=1e-15)
    assert 0.0 == relevance[-1]
    assert (np.diff(relevance) <= 0).all()


async def test_documents_may_hold_anything_and_come_back_when_asked_for(
    client: httpx.AsyncClient,
) -> None:
    documents: list[dict[str, Any]] = [
        {"id": None, "text": "a: {1}", "features": [0, 0, 0, 0]},
        {"features": dict(zip(NAMES, ROW, strict=True)), "more": {"deep": [1, {"x": None}]}},
    ]

    asked = await client.post("/v2/rerank", json={"documents": documents, "return_documents": True})
    plain = await client.post("/v2/rerank", json={"documents": documents, "return_documents": False})

    assert [documents[1], documents[0]] == [one["document"] for one in asked.json()["results"]]
    assert not any("document" in one for one in plain.json()["results"])
    assert [10.0, 0.0] == [one["score"] for one in plain.json()["results"]] or 200 == plain.status_code


async def test_missing_values_are_said_in_meta(client: httpx.AsyncClient) -> None:
    response = await client.post("/v2/rerank", json={"documents": [{"features": [1, None, 3, 4]}] * 2})

    assert ["feature_imputed: pagerank in 2 documents"] == response.json()["meta"]["warnings"]


async def test_no_documents_are_an_empty_answer(client: httpx.AsyncClient) -> None:
    response = await client.post("/v2/rerank", json={"query": "x", "documents": []})

    assert (200, []) == (response.status_code, response.json()["results"])


@pytest.mark.parametrize(
    ("members", "status", "at", "said"),
    [
        ([], 422, "", "an object"),
        ({}, 422, "/documents", "a list of objects with features, or of texts"),
        ({"documents": {}}, 422, "/documents", "a list"),
        (
            {"documents": ["a text"]},
            422,
            "/documents/0",
            "documents[0] is a text that holds no features of the model; expected a JSON list or object",
        ),
        ({"documents": [{"text": "a"}]}, 422, "/documents/0/text", "holds no features of the model"),
        ({"documents": [{"text": 3}]}, 422, "/documents/0", "has no features"),
        ({"documents": [[1]]}, 422, "/documents/0", "expected an object"),
        ({"documents": [{"features": [1]}]}, 422, "/documents/0/features", "has 1 values; expected 4"),
        (
            {"documents": [{"features": ROW}, {"features": [1, "2", 3, 4]}]},
            422,
            "/documents/1/features/1",
            '"2"',
        ),
        ({"documents": [{"features": [1, 2, 3, 1e39]}]}, 422, "/documents/0/features/3", "beyond float32"),
        ({"documents": [], "query": 3}, 422, "/query", "a text"),
        ({"documents": [], "top_n": 0}, 422, "/top_n", "at least 1"),
        ({"documents": [], "return_documents": "yes"}, 422, "/return_documents", "true or false"),
        ({"documents": [], "relevant_spans": {"mode": "enabled"}}, 422, "/relevant_spans", "unknown member"),
        ({"documents": [], "features": [ROW]}, 422, "/features", "unknown member"),
        ({"documents": [], "model": "rerank-v4.0"}, 404, "/model", "no model 'rerank-v4.0'"),
        ({"documents": [{"features": ROW}], "contract": "sha256:0"}, 409, "/contract", "the model's is"),
    ],
)
async def test_errors_hold_what_cohere_s_clients_read(
    *,
    members: Any,
    status: int,
    at: str,
    said: str,
    client: httpx.AsyncClient,
) -> None:

    response = await client.post("/v2/rerank", json=members)

    problem = response.json()
    assert (status, at) == (response.status_code, problem["pointer"]), response.text
    assert said in problem["message"]
    assert problem["message"] == problem["error"]


@pytest.mark.parametrize(
    "body",
    [
        "{",
        '{"documents": [], "documents": []}',
        '{"documents": [{"features": [1,2,3,4], "x": ' + "[" * 1000 + "]" * 1000 + "}]}",
        '{"documents": [{"features": [1,2,3,4], "features": [1,2,3,4]}]}',
        '{"documents": [{"text": "a", "text": "b", "features": [1,2,3,4]}]}',
    ],
)
async def test_malformed_bodies_are_400(body: str, client: httpx.AsyncClient) -> None:
    response = await client.post("/v2/rerank", content=body, headers={"content-type": "application/json"})

    assert 400 == response.status_code
    assert json.loads(response.content)["message"]


@pytest.mark.parametrize("asked", ["true", "false"])
@pytest.mark.parametrize(("levels", "status"), [(61, 200), (62, 400)])
async def test_documents_too_deep_are_refused(
    levels: int, status: int, asked: str, client: httpx.AsyncClient
) -> None:
    body = (
        '{"documents": [{"features": [1,2,3,4], "x": '
        + "[" * levels
        + "]" * levels
        + f'}}], "return_documents": {asked}}}'
    )

    response = await client.post("/v2/rerank", content=body, headers={"content-type": "application/json"})

    assert status == response.status_code


async def test_requests_are_counted(client: httpx.AsyncClient) -> None:
    await client.post("/v2/rerank", json={"documents": [{"features": ROW}]})

    metrics = (await client.get("/metrics")).text

    assert 'localrank_requests_total{api="cohere",model="tiny",outcome="ok",version="3"} 1.0' in metrics
