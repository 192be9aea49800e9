"""``POST /v1/compare``: both orders, every move, and the correlations, by other means."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from scipy.stats import kendalltau

from localrank.ranker import Ranking, Stopwatch
from localrank.routing.route import Route
from localrank_service.apis import compare
from localrank_service.http.problems import Problem
from localrank_service.models.live import LiveModel
from localrank_service.wire.answer import Ranked
from localrank_service.wire.query import Documents, Limits, Options

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


def side(
    model: LiveModel, scores: list[float], ids: list[str] | None = None, top_n: int | None = None
) -> Ranked:
    values = np.array(scores)
    order = np.argsort(-values, kind="stable")
    documents = Documents(np.zeros((len(scores), 4), np.float32), ids, lambda _document, _feature: "")
    ranking = Ranking(order, values, Route("none", 0), {})
    return Ranked("tiny", model.version, model.ranker, Options(top_n=top_n), documents, ranking, None, 0)


def compared(baseline: Ranked, candidate: Ranked) -> Any:
    return orjson.loads(compare.encode(baseline, candidate, Stopwatch(), "the-id"))


def test_moves_are_ranks_before_and_after_in_the_baseline_s_order(tiny_model: LiveModel) -> None:
    found = compared(
        side(tiny_model, [3, 2, 1], ["a", "b", "c"]), side(tiny_model, [1, 2, 3], ["a", "b", "c"])
    )

    assert [
        {"index": 0, "id": "a", "baseline": 1, "candidate": 3, "move": -2},
        {"index": 1, "id": "b", "baseline": 2, "candidate": 2, "move": 0},
        {"index": 2, "id": "c", "baseline": 3, "candidate": 1, "move": 2},
    ] == found["moves"]
    assert ("the-id", -1.0, {"1": 0.0, "3": 1.0}) == (
        found["request_id"],
        found["agreement"]["kendall_tau"],
        found["agreement"]["overlap"],
    )
    assert ["model", "version", "results", "route", "warnings"] == list(found["baseline"])
    assert "compare" in found["timings_ms"]


@pytest.mark.parametrize(("top_n", "moved"), [(1, [0, 3]), (2, [0, 1, 2, 3]), (4, [0, 1, 2, 3])])
def test_only_documents_among_the_first_of_either_are_listed(
    tiny_model: LiveModel, top_n: int, moved: list[int]
) -> None:
    sides = [side(tiny_model, scores, top_n=top_n) for scores in ([4.0, 3, 2, 1], [1.0, 2, 3, 4])]

    found = compared(*sides)

    assert moved == [one["index"] for one in found["moves"]]
    assert all("id" not in one for one in found["moves"])
    assert top_n == len(found["candidate"]["results"])


@pytest.mark.parametrize(
    ("count", "depths"),
    [(0, []), (1, ["1"]), (4, ["1", "3"]), (5, ["1", "3", "5"]), (20, ["1", "3", "5", "10", "20"])],
)
def test_overlap_is_told_for_lists_that_are_long_enough(
    tiny_model: LiveModel, count: int, depths: list[str]
) -> None:
    one = side(tiny_model, [float(position) for position in range(count)])

    found = compared(one, one)["agreement"]

    assert dict.fromkeys(depths, 1.0) == found["overlap"]


def test_documents_of_one_score_have_no_correlation(tiny_model: LiveModel) -> None:
    one = side(tiny_model, [1.0, 1.0])

    assert None is compared(one, one)["agreement"]["kendall_tau"]


@pytest.mark.parametrize("extra", [{}, {"query_id": "\u00e9\n"}])
def test_both_addresses_are_read_plain_or_not(extra: dict[str, Any]) -> None:
    body = {"baseline": "a@1", "candidate": "b", "features": [[1.0]], **extra}
    limits = Limits(5, refuse_extra_features=False)

    both = compare.CompareQuery.read(json.dumps(body).encode(), limits)
    only = compare.CompareQuery.read(b'{"candidate": "b", "features": []}', limits)

    assert (("a@1", "b"), (None, "b")) == (both.addresses, only.addresses)
    for wrong in (b'{"features": []}', b'{"candidate": null, "features": [[1]]}'):
        with pytest.raises(Problem, match="expected the candidate to compare with") as caught:
            compare.CompareQuery.read(wrong, limits)
        assert (422, "/candidate") == (caught.value.status, caught.value.pointer)
    with pytest.raises(Problem, match="unknown member 'model'"):
        compare.CompareQuery.read(b'{"candidate": "b", "features": [[1]], "model": "m"}', limits)
