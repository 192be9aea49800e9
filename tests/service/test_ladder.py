"""A request with little time gets a cheaper ranking, and is told so."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from localrank.client import AsyncClient
from localrank.ladder import FIRST_TREES, GLOBAL, ROUTED, first_part, rungs_of
from localrank.ranker import Stopwatch
from localrank.scorers import BlendScorer, LinearScorer, SumScorer, TreesScorer
from localrank_service.app import create_app
from localrank_service.http.problems import Problem
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from localrank_service.ranking import ladder
from localrank_service.ranking.ladder import Pace
from localrank_service.ranking.reranking import under_pressure
from localrank_service.wire.query import Documents, Options
from tests.core.examples import example_queries, example_ranker

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from localrank.arrays import Matrix, Vector
    from localrank.ranker import Ranker

pytestmark = pytest.mark.anyio


class SlowTrees(TreesScorer):
    """Takes a millisecond for each tree, if time is not stopped."""

    def score_rows(self, rows: Matrix, /) -> Vector:
        time.sleep(1e-3 * self.n_trees)
        return super().score_rows(rows)


def stumps(count: int, seed: int = 0, *, kind: type[TreesScorer] = TreesScorer) -> TreesScorer:
    rng = np.random.default_rng(seed)
    return kind(
        splits=np.ones(count, np.int32),
        features=rng.integers(0, 4, count).astype(np.int32),
        thresholds=rng.normal(size=count),
        decisions=np.zeros(count, np.uint8),
        left=np.full(count, -1, np.int32),
        right=np.full(count, -2, np.int32),
        values=rng.normal(size=2 * count),
        category_words=np.zeros(0, np.int32),
        category_bits=np.zeros(0, np.uint32),
    )


@pytest.fixture
def slow(make_ranker: Callable[..., Ranker]) -> LiveModel:
    """200 ms for a cluster, 100 ms for the global scorer, 10 ms for the first part of its trees."""
    ranker = make_ranker(missing="zero")
    local = tuple(stumps(200, seed, kind=SlowTrees) for seed in range(1, 4))
    return LiveModel("slow", 1, replace(ranker, scorers=local, global_scorer=stumps(100, kind=SlowTrees)))


async def degraded(client: httpx.AsyncClient, query: Matrix, **options: Any) -> dict[str, Any] | None:
    answer = await client.post("/v1/rerank", json={"features": query.tolist(), **options})
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] | None = answer.json()["degraded"]
    return found


async def test_a_slow_model_is_walked_down_rung_by_rung(
    slow: LiveModel, connect: Any, queries: list[Matrix]
) -> None:
    query = queries[0]
    async with connect(models=[slow]) as client:
        first = await degraded(client, query, timeout_ms=2000)
        second = await degraded(client, query, timeout_ms=60)  # the pace of the cluster is known by now
        third = await degraded(client, query, timeout_ms=60)  # and that of the global scorer
        fourth = await degraded(client, query, timeout_ms=5)  # and that of its first trees
        named = await degraded(client, query, timeout_ms=5, fallback_feature="pagerank")
        forbidden = await client.post(
            "/v1/rerank", json={"features": query.tolist(), "timeout_ms": 60, "allow_degraded": False}
        )
        without = await degraded(client, query)
        metrics = (await client.get("/metrics")).text

    assert first is None
    assert {"rung": "global", "reason": "timeout"} == second
    assert {"rung": "first_trees", "reason": "timeout"} == third
    assert {"rung": "request_order", "reason": "timeout"} == fourth
    assert {"rung": "feature_order", "reason": "timeout"} == named
    assert without is None
    assert 504 == forbidden.status_code
    problem = forbidden.json()
    assert ("urn:localrank:problem:deadline", "/timeout_ms") == (problem["type"], problem["pointer"])
    assert "the timeout of 60 ms has passed or is too short for this model" in problem["detail"]
    samples = {
        frozenset(one.labels.values()): one.value
        for family in text_string_to_metric_families(metrics)
        for one in family.samples
        if one.name in {"localrank_degraded_total", "localrank_requests_total"}
    }
    assert 1 == samples[frozenset({"slow", "first_trees", "timeout"})]
    assert 4 == samples[frozenset({"rerank", "slow", "1", "degraded"})]
    assert 2 == samples[frozenset({"rerank", "slow", "1", "ok"})]
    assert 1 == samples[frozenset({"rerank", "slow", "1", "error"})]


async def test_the_answers_of_the_rungs_are_what_they_say(
    slow: LiveModel, connect: Any, queries: list[Matrix]
) -> None:
    query = queries[0]
    body = {"features": query.tolist()}
    cloud = slow.ranker.contract.cloud(query)
    async with connect(models=[slow]) as client:
        await client.post("/v1/rerank", json=body | {"timeout_ms": 2000})
        whole = (await client.post("/v1/rerank", json=body | {"timeout_ms": 60})).json()
        part = (await client.post("/v1/rerank", json=body | {"timeout_ms": 60})).json()
        sent = (await client.post("/v1/rerank", json=body | {"timeout_ms": 5})).json()
        named = (
            await client.post("/v1/rerank", json=body | {"timeout_ms": 5, "fallback_feature": "ctr:7d"})
        ).json()

    def scores(answer: dict[str, Any]) -> list[float]:
        return [one["score"] for one in sorted(answer["results"], key=lambda one: one["index"])]

    np.testing.assert_allclose(slow.ranker.global_scorer.score(cloud), scores(whole), rtol=1e-12)
    np.testing.assert_allclose(stumps(100).first(10).score(cloud), scores(part), rtol=1e-12)
    assert list(range(len(query))) == [one["index"] for one in sent["results"]]
    assert np.argsort(-query[:, 2], kind="stable").tolist() == [one["index"] for one in named["results"]]
    schema = create_app(Settings(), models=[]).openapi()
    for answer in (whole, part, sent, named):
        jsonschema.validate(
            answer, {"$ref": "#/components/schemas/RerankAnswer", "components": schema["components"]}
        )
        assert {None} == {answer["route"]["cluster"]}


async def test_every_wire_takes_a_timeout_and_says_that_it_was_degraded(
    tiny_model: LiveModel, connect: Any, queries: list[Matrix]
) -> None:
    query, nothing = queries[0], {"timeout_ms": 1e-3}
    buffer = io.BytesIO()
    np.save(buffer, query)
    hits = [
        {
            "_id": str(i),
            "fields": {
                "_ltrlog": [
                    {
                        "l": [
                            {"name": n, "value": float(v)}
                            for n, v in zip(tiny_model.ranker.contract.names, row, strict=True)
                        ]
                    }
                ]
            },
        }
        for i, row in enumerate(query)
    ]
    expected = {"rung": "request_order", "reason": "timeout"}
    async with connect(models=[tiny_model]) as client:
        npy = await client.post(
            "/v1/rerank?timeout_ms=0.001",
            content=buffer.getvalue(),
            headers={"content-type": "application/x-npy"},
        )
        strict = await client.post(
            "/v1/rerank?timeout_ms=0.001&allow_degraded=false",
            content=buffer.getvalue(),
            headers={"content-type": "application/x-npy"},
        )
        batch = await client.post(
            "/v1/rerank/batch",
            json={"queries": [{"features": query.tolist(), **nothing}, {"features": query.tolist()}]},
        )
        cohere = await client.post(
            "/v2/rerank", json={"documents": [{"features": row} for row in query.tolist()], **nothing}
        )
        infer = {
            "parameters": {"timeout": 1},
            "inputs": [
                {"name": "features", "datatype": "FP32", "shape": list(query.shape), "data": query.tolist()},
                {"name": "group", "datatype": "INT32", "shape": [2], "data": [5, len(query) - 5]},
            ],
        }
        v2 = await client.post("/v2/models/tiny/infer", json=infer)
        engine = await client.post(
            "/v1/adapters/elasticsearch?timeout_ms=0.001", json={"hits": {"hits": hits}}
        )
        async with AsyncClient("http://localhost", transport=client._transport) as ours:
            reranked = await ours.rerank(query, timeout_ms=1e-3, fallback_feature="bm25")

    assert expected == npy.json()["degraded"]
    assert (504, None) == (strict.status_code, strict.json()["pointer"])
    assert [expected, None] == [one["answer"]["degraded"] for one in batch.json()["answers"]]
    assert expected == cohere.json()["meta"]["localrank"]["degraded"]
    assert "request_order,request_order" == v2.json()["parameters"]["degraded"]
    assert expected == engine.json()["localrank"]["degraded"]
    assert [str(i) for i in range(len(query))] == [one["_id"] for one in engine.json()["hits"]["hits"]]
    assert {"rung": "feature_order", "reason": "timeout"} == reranked.degraded
    assert np.argsort(-query[:, 0], kind="stable").tolist() == reranked.order.tolist()


@pytest.mark.parametrize(
    ("options", "pointer", "said"),
    [
        ({"timeout_ms": 0}, "/timeout_ms", "timeout_ms: expected a number above 0, at most 3600000, found 0"),
        ({"timeout_ms": "5"}, "/timeout_ms", "expected a number above 0"),
        ({"timeout_ms": True}, "/timeout_ms", "expected a number above 0"),
        ({"timeout_ms": 5, "allow_degraded": 1}, "/allow_degraded", "expected true or false"),
        ({"fallback_feature": "bm25"}, "/fallback_feature", "fallback_feature: expected timeout_ms with it"),
        ({"timeout_ms": 5, "fallback_feature": "x"}, "/fallback_feature", "the model has no feature 'x'"),
        ({"timeout_ms": 5, "explain": "route"}, "/timeout_ms", "timeout_ms cannot be used with explain"),
    ],
)
async def test_wrong_options_are_refused_with_one_sentence(
    client: httpx.AsyncClient, options: dict[str, Any], pointer: str, said: str
) -> None:
    answer = await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]], **options})

    assert (422, pointer) == (answer.status_code, answer.json()["pointer"])
    assert said in answer.json()["detail"]


async def test_bad_documents_are_refused_in_time_as_without_a_timeout(client: httpx.AsyncClient) -> None:
    body = {"features": [[1, 2, 3, 4], [None, 2, 3, 4]]}

    without = (await client.post("/v1/rerank", json=body)).json()
    found = (await client.post("/v1/rerank", json=body | {"timeout_ms": 1000})).json()

    for name in ("status", "detail", "pointer"):
        assert without[name] == found[name]


async def test_documents_that_lack_the_named_feature_come_last(client: httpx.AsyncClient) -> None:
    rows = [[1, None, 0, 0], [1, 5.0, 0, 0], [1, -3e38, 0, 0], [1, 7.0, 0, 0]]
    for features, expected in ((rows, [3, 1, 2, 0]), (rows[:1] * 2, [0, 1])):
        answer = await client.post(
            "/v1/rerank", json={"features": features, "timeout_ms": 1e-3, "fallback_feature": "pagerank"}
        )

        assert expected == [one["index"] for one in answer.json()["results"]]


def test_the_rungs_of_a_model_are_those_that_differ() -> None:
    routed, alone = example_ranker(kind="trees"), example_ranker("global", "linear")

    assert [ROUTED, GLOBAL, FIRST_TREES] == [rung.name for rung in rungs_of(routed)]
    assert [ROUTED] == [rung.name for rung in rungs_of(alone)]
    assert [ROUTED, FIRST_TREES] == [rung.name for rung in rungs_of(example_ranker("global", "sum"))]
    for query in example_queries(6):
        cloud = routed.contract.cloud(query)
        expected = routed.global_scorer.score(cloud)
        np.testing.assert_array_equal(expected, rungs_of(routed)[1].ranker.rank(query).scores)


@pytest.mark.parametrize("count", [1, 7, 30])
def test_the_first_trees_are_the_first_terms_of_the_sum(count: int) -> None:
    trees = stumps(30)
    rows = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)

    expected = np.zeros(9)
    for tree in range(count):
        left = rows[:, trees.features[tree]].astype(np.float64) <= trees.thresholds[tree]
        expected += np.where(left, trees.values[2 * tree], trees.values[2 * tree + 1])

    np.testing.assert_allclose(expected, trees.first(count).score_rows(rows), rtol=1e-12)
    assert np.shares_memory(trees.values, trees.first(count).values)


def test_members_lose_their_trees_and_nothing_else() -> None:
    linear, trees = LinearScorer(np.ones(4)), stumps(20)
    inner = SumScorer((trees, linear))
    blend = BlendScorer((linear, inner), np.array([1.0, 2.0]))

    found = first_part(blend)

    assert isinstance(found, BlendScorer)
    assert linear is found.rankers[0]
    cut = found.rankers[1]
    assert isinstance(cut, SumScorer)
    assert isinstance(cut.rankers[0], TreesScorer)
    assert 2 == cut.rankers[0].n_trees
    assert linear is first_part(linear)


def test_a_rung_that_is_left_out_is_forgotten_slowly() -> None:
    pace = Pace()
    assert 0 == pace.left("sign", 1000)
    pace.learn("score", 84, 1.0)
    assert pace.left("route", 84) == pytest.approx(1.0)
    assert pace.left("order", 84) == 0
    pace.learn("score", 84, 2.0)
    mean, deviation = 1.0 + 0.125, 0.25
    assert pace.left("score", 84) == pytest.approx(mean + 2 * deviation)

    for _ in range(100):
        pace.forget()

    assert pace.left("score", 84) == pytest.approx((mean + 2 * deviation) * 0.99**100)


@pytest.mark.parametrize(("strain", "rung"), [(0.4, None), (0.6, "global"), (0.9, "first_trees")])
def test_overload_takes_a_lower_rung_the_longer_requests_wait(
    slow: LiveModel, queries: list[Matrix], strain: float, rung: str | None
) -> None:
    class Admission:
        def strain(self) -> float:
            return strain

    rank = under_pressure(Admission(), 0.5)  # type: ignore[arg-type]
    documents = Documents(queries[0], None, lambda _document, _feature: "")

    found = rank(slow, documents, Options(), Stopwatch())
    forbidden = rank(slow, documents, Options(allow_degraded=False), Stopwatch())

    assert (None if rung is None else (rung, "overload")) == found.degraded
    assert forbidden.degraded is None


def matrix(*rows: list[float]) -> Matrix:
    return np.array(rows, np.float32)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time is the last of these."""
    times = [100.0]
    monkeypatch.setattr(ladder, "monotonic", lambda: times[-1])
    return times


def test_scores_of_the_last_rungs_say_their_order(tiny_model: LiveModel, still: list[float]) -> None:
    rows = matrix([1, 5, 0, 0], [1, np.nan, 0, 0], [1, 7, 0, 0])
    past = still[-1] - 1.0

    sent, why = ladder.rank_in_time(tiny_model, rows, Options(timeout_ms=1.0), Stopwatch(), past)
    by, how = ladder.rank_in_time(
        tiny_model, rows, Options(timeout_ms=1.0, fallback_feature="pagerank"), Stopwatch(), past
    )

    assert ([3.0, 2.0, 1.0], [0, 1, 2]) == (sent.scores.tolist(), sent.order.tolist())
    assert ([5.0, np.nextafter(5.0, -np.inf), 7.0], [2, 0, 1]) == (by.scores.tolist(), by.order.tolist())
    assert (("request_order", "timeout"), ("feature_order", "timeout")) == (why, how)
    for one in (sent, by):
        assert ("none", None, False, {}) == (
            one.route.strategy,
            one.route.cluster,
            one.route.local,
            one.imputed,
        )


def test_documents_that_all_lack_the_feature_keep_their_order(
    tiny_model: LiveModel, still: list[float]
) -> None:
    rows = matrix([1, np.nan, 0, 0], [1, np.nan, 0, 0])
    options = Options(timeout_ms=1.0, fallback_feature="pagerank")

    found, _ = ladder.rank_in_time(tiny_model, rows, options, Stopwatch(), still[-1] - 1.0)

    assert ([0.0, 0.0], [0, 1]) == (found.scores.tolist(), found.order.tolist())


@pytest.mark.parametrize(("at", "expected"), [("/timeout_ms", "/fallback_feature"), (None, None)])
def test_an_unknown_feature_is_refused_even_if_there_is_time(
    tiny_model: LiveModel, at: str | None, expected: str | None
) -> None:
    options = Options(timeout_ms=1.0, fallback_feature="x", timeout_at=at)

    with pytest.raises(Problem) as caught:
        ladder.rank_in_time(tiny_model, matrix([1, 2, 3, 4]), options, Stopwatch(), float("inf"))

    assert (422, expected, "fallback_feature: the model has no feature 'x'") == (
        caught.value.status,
        caught.value.pointer,
        caught.value.detail,
    )


@pytest.mark.parametrize("at", ["/timeout_ms", "/parameters/timeout", None])
def test_who_allows_no_cheaper_ranking_is_told_so_where_the_timeout_stands(
    tiny_model: LiveModel, still: list[float], at: str | None
) -> None:
    options = Options(timeout_ms=1234.5, allow_degraded=False, timeout_at=at)

    with pytest.raises(Problem) as caught:
        ladder.rank_in_time(tiny_model, matrix([1, 2, 3, 4]), options, Stopwatch(), still[-1] - 1.0)

    assert (504, at, "deadline") == (caught.value.status, caught.value.pointer, caught.value.kind)
    assert "the timeout of 1234.5 ms has passed" in caught.value.detail


def test_a_ranking_may_end_exactly_at_its_deadline(
    make_ranker: Callable[..., Ranker], still: list[float]
) -> None:
    model = LiveModel("new", 1, make_ranker(missing="zero"))
    rows = matrix([1, 2, 3, 4], [4, 3, 2, 1])

    exactly = ladder.rank_in_time(model, rows, Options(timeout_ms=1.0), Stopwatch(), still[-1])
    late = ladder.rank_in_time(model, rows, Options(timeout_ms=1.0), Stopwatch(), still[-1] - 1e-6)

    assert None is exactly[1]
    assert model.ranker.rank(rows).scores.tolist() == exactly[0].scores.tolist()
    assert ("request_order", "timeout") == late[1]


def test_what_was_expected_is_measured_per_document_and_for_sixteen_more() -> None:
    pace = Pace()
    pace.learn("sign", 4, 2.0)  # 0.1 s for each of 20
    pace.learn("score", 24, 4.0)  # 0.1 s for each of 40

    assert pace.left("sign", 0) == pytest.approx(16 * 0.2)
    assert pace.left("route", 9) == pytest.approx(25 * 0.1)
    assert 0 == pace.left("order", 9)
    pace.learn("sign", 4, 2.0)
    assert pace.left("sign", 0) == pytest.approx(16 * 0.2)


@pytest.mark.parametrize(("lowest", "name"), [(False, "global"), (True, "first_trees")])
def test_overload_takes_the_second_rung_or_the_last(
    slow: LiveModel, queries: list[Matrix], name: str, *, lowest: bool
) -> None:
    alone = LiveModel("alone", 1, example_ranker("global", "linear"))

    _, lower = ladder.rank_lower(slow, queries[0], Stopwatch(), lowest=lowest)
    _, same = ladder.rank_lower(alone, example_queries(1)[0], Stopwatch(), lowest=lowest)

    assert (name, "overload") == lower
    assert same is None


def test_the_rungs_are_named_from_the_best_to_the_last() -> None:
    assert ("global", "first_trees", "request_order", "feature_order") == ladder.RUNGS


def test_a_sum_is_made_anew_only_if_a_member_has_trees_to_lose() -> None:
    plain, grown = SumScorer((LinearScorer(np.ones(4)), stumps(1))), SumScorer((stumps(20), stumps(20)))

    cut = first_part(grown)

    assert plain is first_part(plain)
    assert isinstance(cut, SumScorer)
    assert [2, 2] == [member.n_trees for member in cut.rankers if isinstance(member, TreesScorer)]
