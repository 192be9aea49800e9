"""``POST /v1/compare``: both orders, every move, and the correlations, by other means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from scipy.stats import kendalltau

from localrank_service.describe.openapi import SCHEMAS
from localrank_service.models.live import LiveModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

pytestmark = pytest.mark.anyio


@pytest.fixture
def two(make_ranker: Callable[..., Ranker]) -> list[LiveModel]:
    return [
        LiveModel("tiny", 1, make_ranker(missing="zero")),
        LiveModel("tiny", 2, make_ranker(missing="zero", normalise="query_zscore")),
    ]


async def test_both_orders_moves_and_correlations(
    two: list[LiveModel], connect: Any, queries: list[Matrix]
) -> None:
    query = queries[1]
    body = {"candidate": "tiny@2", "features": query.tolist(), "ids": list(range(100, 120)), "top_n": 5}
    async with connect(models=two) as client:
        answer = await client.post("/v1/compare", json=body)
        alone = [
            (await client.post("/v1/rerank", json={"model": f"tiny@{n}", "features": query.tolist()})).json()
            for n in (1, 2)
        ]

    found = answer.json()
    jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/CompareAnswer", "components": {"schemas": SCHEMAS}}
    ).validate(found)
    orders = [[one["index"] for one in side["results"]] for side in alone]
    for side, whole in zip(("baseline", "candidate"), alone, strict=True):
        assert whole["results"][:5] == [
            {name: one[name] for name in ("rank", "index", "score")} for one in found[side]["results"]
        ]
        assert whole["route"] == found[side]["route"]
    moved = {
        one["index"]: (one["id"], one["baseline"], one["candidate"], one["move"]) for one in found["moves"]
    }
    assert {*orders[0][:5], *orders[1][:5]} == set(moved)
    for index, (named, before, after, move) in moved.items():
        assert (100 + index, orders[0][before - 1], orders[1][after - 1]) == (named, index, index)
        assert before - after == move
    scores = [{one["index"]: one["score"] for one in side["results"]} for side in alone]
    expected = kendalltau([scores[0][n] for n in range(20)], [scores[1][n] for n in range(20)]).statistic
    np.testing.assert_allclose(found["agreement"]["kendall_tau"], expected, atol=1e-12)
    assert found["agreement"]["overlap"] == {
        str(k): len({*orders[0][:k]} & {*orders[1][:k]}) / k for k in (1, 3, 5, 10, 20)
    }


async def test_named_features_reach_versions_that_order_them_differently(
    make_ranker: Callable[..., Ranker], connect: Any
) -> None:
    model = LiveModel("tiny", 1, make_ranker(missing="zero"))
    named = [{"features": {"age": 1.0, "bm25": 2.0}}, {"features": {"bm25": 1.0}}]
    async with connect(models=[model]) as client:
        answer = await client.post("/v1/compare", json={"candidate": "tiny@1", "documents": named})
        empty = await client.post("/v1/compare", json={"candidate": "tiny", "features": []})

    assert (1.0, [0, 0]) == (
        answer.json()["agreement"]["rbo"],
        [one["move"] for one in answer.json()["moves"]],
    )
    assert ({}, None) == (
        empty.json()["agreement"]["overlap"],
        empty.json()["agreement"]["kendall_tau"],
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"features": [[1, 2, 3, 4]]}, (422, "expected the candidate", "/candidate")),
        ({"candidate": "tiny@9", "features": [[1, 2, 3, 4]]}, (404, "no model 'tiny@9'", "/candidate")),
        ({"baseline": "x", "candidate": "tiny", "features": []}, (404, "no model 'x'", "/baseline")),
        ({"candidate": "tiny", "features": [[1, 2, 3]]}, (422, "", "/features/0")),
        ({"candidate": "tiny", "model": "tiny", "features": []}, (422, "unknown member 'model'", "/model")),
        ({"candidate": 3, "features": []}, (422, "candidate: expected a text", "/candidate")),
    ],
)
async def test_what_cannot_be_compared_is_refused(
    body: dict[str, Any], problem: tuple[int, str, str], two: list[LiveModel], connect: Any
) -> None:
    status, said, at = problem
    async with connect(models=two) as client:
        answer = await client.post("/v1/compare", json=body)

    assert status == answer.status_code
    assert said in answer.json()["detail"]
    assert at == answer.json()["pointer"]
