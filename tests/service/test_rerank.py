"""What a correct request is answered, in every form that JSON can carry it."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import httpx
import numpy as np
import pytest

from localrank.client import AsyncClient
from localrank.routing.route import Route
from localrank.routing.router import GlobalRouter
from localrank.scorers import BordaScorer
from localrank_service.app import create_app
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from tests.service.conftest import queries_of_three_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.anyio

NAMES = ("bm25", "pagerank", "ctr:7d", "age")


def numbers(documents: Matrix) -> list[list[float]]:
    """The float32 values as JSON numbers that read back to them."""
    return [[float(str(value)) for value in row] for row in documents]


async def rerank(client: httpx.AsyncClient, members: dict[str, Any], **headers: str) -> dict[str, Any]:
    response = await client.post("/v1/rerank", json=members, headers=headers)
    assert 200 == response.status_code, response.text
    answer: dict[str, Any] = response.json()
    return answer


def forms(documents: Matrix) -> dict[str, dict[str, Any]]:
    rows = numbers(documents)
    return {
        "rows": {"documents": [{"features": row} for row in rows]},
        "named": {"documents": [{"features": dict(zip(NAMES, row, strict=True))} for row in rows]},
        "mixed": {
            "documents": [
                {"features": row if i % 2 else dict(zip(NAMES, row, strict=True))}
                for i, row in enumerate(rows)
            ]
        },
        "columns": {"features": rows},
        "reordered": {"features": [row[::-1] for row in rows], "feature_names": NAMES[::-1]},
        "reordered rows": {
            "documents": [{"features": row[::-1]} for row in rows],
            "feature_names": NAMES[::-1],
        },
    }


@pytest.mark.parametrize("form", forms(np.zeros((1, 4), np.float32)))
async def test_every_form_of_a_request_gets_the_ranker_s_own_scores(
    form: str, client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    expected = tiny_ranker.rank(queries[0])

    answer = await rerank(client, forms(queries[0])[form])

    assert expected.order.tolist() == [result["index"] for result in answer["results"]]
    assert expected.scores[expected.order].tolist() == [result["score"] for result in answer["results"]]
    assert list(range(1, 21)) == [result["rank"] for result in answer["results"]]


async def test_the_answer_has_exactly_the_documented_members(
    client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    route = tiny_ranker.rank(queries[1]).route

    response = await client.post(
        "/v1/rerank",
        json={"query_id": "q-17", "ids": [f"d{i}" for i in range(20)], "features": numbers(queries[1])},
        headers={"X-Request-Id": "from-the-caller"},
    )

    answer = response.json()
    assert [
        "request_id",
        "model",
        "version",
        "results",
        "route",
        "degraded",
        "warnings",
        "timings_ms",
    ] == list(answer)
    assert ("from-the-caller", "tiny", 3) == (answer["request_id"], answer["model"], answer["version"])
    assert ["rank", "index", "id", "score"] == list(answer["results"][0])
    assert {
        "strategy": "exact",
        "cluster": route.cluster,
        "similarity": route.similarity,
        "margin": route.margin,
        "candidates": 12,
        "fallback": None,
    } == answer["route"]
    assert (None, []) == (answer["degraded"], answer["warnings"])
    assert "from-the-caller" == response.headers["x-request-id"]


@dataclass(frozen=True)
class Settled(GlobalRouter):
    """A router whose answer is given."""

    found: Route

    chooses: ClassVar[bool] = True

    def route(self, point: Any, /) -> Route:  # noqa: ARG002
        return self.found


@pytest.mark.parametrize(
    ("route", "scorers", "more"),
    [
        pytest.param(Route("medoid", 1), "own", {}, id="a cluster of its own scorer"),
        pytest.param(Route("medoid", 1), "global", {"local": False}, id="a cluster of the global scorer"),
        pytest.param(Route("medoid", None), "own", {}, id="no cluster"),
        pytest.param(
            Route("fusion", 1, shares=(0.25, 0.75, 0.0)), "own", {"shares": [0.25, 0.75, 0.0]}, id="shares"
        ),
        pytest.param(
            Route("fusion", 1, shares=(0.5, 0.5, 0.0)),
            "global",
            {"local": False, "shares": [0.5, 0.5, 0.0]},
            id="shares of the global scorer",
        ),
    ],
)
async def test_every_wire_that_shows_a_route_says_whose_scorers_answered(
    route: Route, scorers: str, more: dict[str, Any], connect: Any, tiny_ranker: Ranker
) -> None:
    theirs = tiny_ranker.scorers if scorers == "own" else (tiny_ranker.global_scorer,) * 3
    ranker = replace(tiny_ranker, router=Settled(route), scorers=theirs)
    documents = queries_of_three_kinds()[0]
    rows = numbers(documents)
    plain = {"strategy": route.strategy, "cluster": route.cluster, "similarity": None, "margin": None}

    async with connect(models=[LiveModel("tiny", 3, ranker)]) as http:
        single = await rerank(http, {"features": rows, "explain": "route"})
        batch = (await http.post("/v1/rerank/batch", json={"queries": [{"features": rows}]})).json()
        cohere = {"model": "tiny", "query": "x", "documents": [{"features": row} for row in rows]}
        answer = (await http.post("/v2/rerank", json=cohere)).json()
    transport = httpx.ASGITransport(app=create_app(Settings(), models=[LiveModel("tiny", 3, ranker)]))
    async with AsyncClient("http://localhost", transport=transport) as client:
        by_client = await client.rerank(documents)

    routes = [single["route"], batch["answers"][0]["answer"]["route"], answer["meta"]["localrank"]["route"]]
    assert [{**plain, "candidates": 0, "fallback": None, **more}] * 3 == routes
    expected = ranker.rank(documents).route
    assert (expected.local, expected.shares) == (by_client.route.local, by_client.route.shares)


async def test_stage_times_are_the_same_in_body_and_header(
    client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    response = await client.post("/v1/rerank", json={"features": numbers(queries[0])})

    timings = response.json()["timings_ms"]
    assert ["decode", "sign", "route", "score", "order", "encode", "total"] == list(timings)
    assert sum(timings.values()) - timings["total"] <= timings["total"]
    header = dict(entry.split(";dur=") for entry in response.headers["server-timing"].split(", "))
    assert timings == {stage: float(elapsed) for stage, elapsed in header.items()}
    assert all(elapsed == round(elapsed, 4) for elapsed in timings.values())
    assert timings["total"] > 0


async def test_an_answer_says_what_and_how_long_it_is(
    client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    one = {"features": numbers(queries[0])}
    cohere = {"query": "", "documents": [{"features": row} for row in numbers(queries[0])]}

    for path, body in {
        "/v1/rerank": one,
        "/v1/rerank/batch": {"queries": [one]},
        "/v2/rerank": cohere,
    }.items():
        response = await client.post(path, json=body)

        assert 200 == response.status_code, response.text
        assert "application/json" == response.headers["content-type"]
        assert str(len(response.content)) == response.headers["content-length"]
        assert "total;dur=" in response.headers["server-timing"]


async def test_a_request_without_an_id_gets_one(client: httpx.AsyncClient, queries: list[Matrix]) -> None:
    first, second = [
        await client.post("/v1/rerank", json={"features": numbers(queries[0])}) for _ in range(2)
    ]

    assert first.json()["request_id"] == first.headers["x-request-id"]
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


@pytest.mark.parametrize("sent", ["two words", "", "x" * 129, "tab\tbed"])
async def test_an_unusable_request_id_is_replaced(client: httpx.AsyncClient, sent: str) -> None:
    response = await client.get("/livez", headers={"X-Request-Id": sent})

    assert 32 == len(response.headers["x-request-id"])


async def test_top_n_cuts_the_list_and_nothing_else(client: httpx.AsyncClient, queries: list[Matrix]) -> None:
    whole = await rerank(client, {"features": numbers(queries[0])})
    best = await rerank(client, {"features": numbers(queries[0]), "top_n": 3})
    more = await rerank(client, {"features": numbers(queries[0]), "top_n": 1000})

    assert whole["results"][:3] == best["results"]
    assert whole["results"] == more["results"]


async def test_ids_come_back_whatever_they_are(client: httpx.AsyncClient) -> None:
    ids = ["https://example.com/?a=1:2", 17, 'ünï"code', "same", "same", -1, ""]
    rows = [[float(-i), 0, 0, 0] for i in range(len(ids))]

    columns = await rerank(client, {"ids": ids, "features": rows})
    documents = await rerank(
        client,
        {"documents": [{"id": one, "features": row} for one, row in zip(ids, rows, strict=True)]},
    )

    by_index = sorted(columns["results"], key=lambda result: result["index"])
    assert ids == [result["id"] for result in by_index]
    assert columns["results"] == documents["results"]


async def test_documents_may_lack_ids(client: httpx.AsyncClient) -> None:
    rows = [{"id": "a", "features": [2, 1, 1, 1]}, {"features": [1, 1, 1, 1]}]

    some = await rerank(client, {"documents": rows})
    none = await rerank(client, {"documents": rows[1:]})

    assert ["a", None] == [result["id"] for result in some["results"]]
    assert ["rank", "index", "score"] == list(none["results"][0])


async def test_ties_keep_the_order_of_the_request(client: httpx.AsyncClient) -> None:
    answer = await rerank(client, {"features": [[1, 2, 3, 4]] * 50})

    assert list(range(50)) == [result["index"] for result in answer["results"]]


@pytest.mark.parametrize(
    "members",
    [
        {"documents": []},
        {"features": []},
        {"features": [], "ids": []},
    ],
)
async def test_no_documents_are_an_empty_ranking(client: httpx.AsyncClient, members: dict[str, Any]) -> None:
    answer = await rerank(client, members)

    assert [] == answer["results"]
    assert (None, "no_signature") == (answer["route"]["cluster"], answer["route"]["fallback"])


async def test_one_document_is_ranked_by_the_global_scorer_and_says_so(client: httpx.AsyncClient) -> None:
    answer = await rerank(client, {"features": [[1, 2, 3, 4]]})

    assert [1.0 + 2 + 3 + 4] == [result["score"] for result in answer["results"]]
    assert (None, "no_signature") == (answer["route"]["cluster"], answer["route"]["fallback"])


@pytest.mark.parametrize(
    "documents",
    [
        {"features": [[1, 2, 3, 4], [5, None, None, 8], [9, None, 1, 1]]},
        {
            "documents": [
                {"features": [1, 2, 3, 4]},
                {"features": {"bm25": 5, "age": 8}},
                {"features": {"age": 1, "bm25": 9, "ctr:7d": 1, "pagerank": None}},
            ]
        },
    ],
)
async def test_missing_values_are_imputed_and_the_caller_is_told(
    documents: dict[str, Any], client: httpx.AsyncClient, tiny_ranker: Ranker
) -> None:
    matrix = np.array([[1, 2, 3, 4], [5, np.nan, np.nan, 8], [9, np.nan, 1, 1]], np.float32)
    expected = tiny_ranker.rank(matrix)

    answer = await rerank(client, documents)

    assert [
        {"code": "feature_imputed", "feature": "pagerank", "count": 2},
        {"code": "feature_imputed", "feature": "ctr:7d", "count": 1},
    ] == answer["warnings"]
    assert expected.scores[expected.order].tolist() == [result["score"] for result in answer["results"]]


async def test_features_the_model_does_not_know_are_ignored_with_a_warning(client: httpx.AsyncClient) -> None:
    known = dict(zip(NAMES, [1, 2, 3, 4], strict=True))

    named = await rerank(
        client,
        {"documents": [{"features": known | {"new": 5, "newer": "?"}}, {"features": known | {"new": 6}}]},
    )
    columns = await rerank(client, {"features": [[0, 1, 2, 3, 4]] * 2, "feature_names": ["new", *NAMES]})

    assert [
        {"code": "feature_ignored", "feature": "new", "count": 2},
        {"code": "feature_ignored", "feature": "newer", "count": 1},
    ] == named["warnings"]
    assert [{"code": "feature_ignored", "feature": "new", "count": 2}] == columns["warnings"]
    assert named["results"] == columns["results"]


async def test_or_refused_where_the_operator_wants_that(connect: Any, tiny_model: LiveModel) -> None:
    known = dict(zip(NAMES, [1, 2, 3, 4], strict=True))

    async with connect(Settings(extra_features="refuse"), models=[tiny_model]) as client:
        named = await client.post("/v1/rerank", json={"documents": [{"features": known | {"ne/w": 5}}]})
        columns = await client.post(
            "/v1/rerank", json={"features": [[0, 1, 2, 3, 4]], "feature_names": ["new", *NAMES]}
        )

    assert (422, "/documents/0/features/ne~1w") == (named.status_code, named.json()["pointer"])
    assert (409, "/feature_names/0") == (columns.status_code, columns.json()["pointer"])


async def test_the_model_s_contract_may_be_named(client: httpx.AsyncClient, tiny_ranker: Ranker) -> None:
    digest = tiny_ranker.contract.digest

    right = await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]], "contract": digest})
    wrong = await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]], "contract": digest[:-1] + "x"})

    assert 200 == right.status_code
    assert (409, "/contract") == (wrong.status_code, wrong.json()["pointer"])
    assert digest in wrong.json()["detail"]


async def test_an_explained_route_tells_how_near_every_cluster_was(
    client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    plain = await rerank(client, {"features": numbers(queries[2])})
    explained = await rerank(client, {"features": numbers(queries[2]), "explain": "route"})

    clusters = explained["explanation"]["clusters"]
    assert {0, 1, 2} == {cluster["cluster"] for cluster in clusters}
    assert plain["route"]["cluster"] == clusters[0]["cluster"]
    assert plain["route"]["similarity"] == pytest.approx(clusters[0]["similarity"], abs=1e-6)
    ahead = clusters[0]["similarity"] - clusters[1]["similarity"]
    assert plain["route"]["margin"] == pytest.approx(ahead, abs=1e-6)
    spectrum = np.linalg.eigvalsh(np.cov(queries[2].T.astype(float)))[::-1][:2]
    np.testing.assert_allclose(explained["explanation"]["signature"]["eigenvalues"], spectrum, rtol=1e-4)
    assert plain["results"] == explained["results"]
    neighbours = explained["explanation"]["neighbours"]
    assert 5 == len(neighbours)
    assert clusters[0] == {name: neighbours[0][name] for name in ("cluster", "similarity")}
    assert all(neighbour["query"] % 3 == neighbour["cluster"] for neighbour in neighbours)
    assert {"cluster": clusters[0]["cluster"], "kind": "linear"} == explained["explanation"]["scorer"]


async def test_models_are_addressed_by_name_version_and_alias(connect: Any, make_ranker: Any) -> None:
    models = [
        LiveModel("a", 2, make_ranker()),
        LiveModel("a", 1, make_ranker()),
        LiveModel("b", 7, make_ranker()),
    ]
    rows = {"features": [[1, 2, 3, 4]]}

    async with connect(Settings(model="b"), models=models) as client:
        versions = {
            address: (await rerank(client, rows | {"model": address}))["version"]
            for address in (None, "a", "a@champion", "a@1", "a@2", "b")
        }

    assert {None: 7, "a": 2, "a@champion": 2, "a@1": 1, "a@2": 2, "b": 7} == versions


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:9]) + gzip.compress(body[9:])),
        ("deflate", zlib.compress),
        ("GZIP", gzip.compress),
        ("zstd", zstd.compress),
        ("zstd", lambda body: zstd.compress(body[:9]) + zstd.compress(body[9:])),
        ("identity", bytes),
    ],
)
async def test_compressed_bodies_are_read(
    encoding: str, encode: Callable[[bytes], bytes], client: httpx.AsyncClient
) -> None:
    body = json.dumps({"features": [[1, 2, 3, 4]]}).encode()

    response = await client.post(
        "/v1/rerank",
        content=encode(body),
        headers={"content-type": "application/json; charset=UTF-8", "content-encoding": encoding},
    )

    assert 200 == response.status_code, response.text


async def test_numbers_are_rounded_to_float32_once(client: httpx.AsyncClient) -> None:
    # 16777217 lies between two values of float32, 0.1 is none.
    answer = await rerank(client, {"features": [[16777217, 0, 0, 0], [0.1, 0, 0, 0], [3, 0, 0, 0]]})

    scores = {result["index"]: result["score"] for result in answer["results"]}
    assert scores[0] / scores[2] == float(np.float32(16777217)) / 3
    assert scores[1] / scores[2] == pytest.approx(float(np.float32(0.1)) / 3, rel=1e-12)


async def test_contributions_and_their_base_add_up_to_the_scores_on_every_wire(
    client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    asked = {"features": numbers(queries[2]), "explain": "contributions", "top_n": 5, "compare": [3, 0]}
    plain = await rerank(client, {"features": asked["features"], "top_n": 5})
    answer = await rerank(client, asked)
    batch = await client.post("/v1/rerank/batch", json={"queries": [asked]})
    buffer = io.BytesIO()
    np.save(buffer, queries[2])
    binary = await client.post(
        "/v1/rerank",
        params={"explain": "contributions", "top_n": 5, "compare": "3,0"},
        content=buffer.getvalue(),
        headers={"content-type": "application/x-npy"},
    )

    found = answer["explanation"]
    assert plain["results"] == answer["results"]
    assert ["bm25", "pagerank", "ctr:7d", "age"] == found["features"]
    assert (5, 4) == np.shape(found["contributions"])
    scores = [result["score"] for result in answer["results"]]
    np.testing.assert_allclose(found["base"] + np.sum(found["contributions"], axis=1), scores, atol=1e-9)
    comparison = found["comparison"]
    assert (3, 0) == (comparison["above"], comparison["below"])
    amounts = [one["difference"] for one in comparison["features"]]
    assert comparison["difference"] == pytest.approx(sum(amounts))
    assert sorted(amounts, key=abs, reverse=True) == amounts
    assert "explain" in answer["timings_ms"]
    del asked["features"]
    cohere = await client.post(
        "/v2/rerank", json={**asked, "documents": [{"features": row} for row in numbers(queries[2])]}
    )
    assert found == cohere.json()["meta"]["localrank"]["explanation"]
    assert found == batch.json()["answers"][0]["answer"]["explanation"] == binary.json()["explanation"]


@pytest.mark.parametrize(
    ("members", "at", "said"),
    [
        (
            {"explain": "route", "compare": [0, 1]},
            "/compare",
            "expected explain to be contributions, found route",
        ),
        ({"compare": [0, 1]}, "/compare", "expected explain to be contributions, found none"),
        ({"explain": "contributions", "compare": [0, 20]}, "/compare/1", "positions below 20"),
        ({"explain": "contributions", "compare": [0]}, "/compare", "expected two positions of documents"),
    ],
)
async def test_what_cannot_be_compared_is_refused(
    members: dict[str, Any], at: str, said: str, client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    response = await client.post("/v1/rerank", json={"features": numbers(queries[0]), **members})

    assert (422, at) == (response.status_code, response.json()["pointer"])
    assert said in response.json()["detail"]


async def test_a_scorer_that_is_no_sum_over_features_refuses_to_be_explained(
    connect: Any, make_ranker: Any, queries: list[Matrix]
) -> None:
    ranker = make_ranker()
    borda = BordaScorer((ranker.global_scorer,), np.ones(1))
    ranker = replace(ranker, scorers=(borda,) * 3, global_scorer=borda)
    async with connect(models=[LiveModel("counting", 1, ranker)]) as client:
        response = await client.post(
            "/v1/rerank", json={"features": numbers(queries[0]), "explain": "contributions"}
        )

    assert (422, "/explain") == (response.status_code, response.json()["pointer"])
    assert "expected a scorer that is a sum over features" in response.json()["detail"]
    assert "found borda (borda)" in response.json()["detail"]
