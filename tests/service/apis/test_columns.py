"""Columns in, scores out: a list for each feature, and one score for each document in the order of the request."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from localrank.client import AsyncClient, ServiceError
from localrank.errors import InvalidDocuments
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from tests.described import validator
from tests.service.apis.test_categories import NAMES as SHOP_NAMES
from tests.service.apis.test_categories import QUERY, VALUES, coded, made
from tests.service.conftest import NAMES, connected, queries_of_three_kinds

if TYPE_CHECKING:
    import httpx

    from localrank.ranker import Ranker

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("arithmetic")]

DOCUMENTS = queries_of_three_kinds(seed=7)[0]
COLUMNS: dict[str, Any] = {name: DOCUMENTS[:, at].astype(float).tolist() for at, name in enumerate(NAMES)}
IDS = list(range(100, 100 + len(DOCUMENTS)))


def scores_of(answer: dict[str, Any]) -> list[float]:
    """The scores in the order of the request, from either form of answer."""
    if "scores" in answer:
        found: list[float] = answer["scores"]
        return found
    by_index = {one["index"]: one["score"] for one in answer["results"]}
    return [by_index[at] for at in range(len(by_index))]


@pytest.mark.parametrize("wanted", ["scores", "ranking", None])
@pytest.mark.parametrize(
    "more", [{}, {"ids": IDS}, {"ids": [str(one) for one in IDS]}, {"explain": "route"}, {"timeout_ms": 5000}]
)
async def test_columns_are_ranked_as_rows_are(
    client: httpx.AsyncClient, tiny_ranker: Ranker, wanted: str | None, more: dict[str, Any]
) -> None:
    body = {"columns": COLUMNS, "answer": wanted, **more}
    validator("RerankRequest").validate(body)

    response = await client.post("/v1/rerank", json=body)

    answer = response.json()
    assert tiny_ranker.rank(DOCUMENTS).scores.tolist() == scores_of(answer)
    assert ("scores" in answer) == ("scores" == wanted) != ("results" in answer)
    assert ("explanation" in answer) == ("explain" in more)
    if "ids" in more and wanted != "scores":
        assert [more["ids"][one["index"]] for one in answer["results"]] == [
            one["id"] for one in answer["results"]
        ]


async def test_columns_may_stand_in_any_order_and_some_be_absent_or_unknown(
    client: httpx.AsyncClient, tiny_ranker: Ranker
) -> None:
    without = DOCUMENTS.copy()
    without[:, NAMES.index("ctr:7d")] = np.nan
    columns = {name: COLUMNS[name] for name in reversed(NAMES) if name != "ctr:7d"}
    columns |= {"title": [f"t{at}" for at in range(len(DOCUMENTS))], "stock": IDS}

    answer = (await client.post("/v1/rerank", json={"columns": columns, "answer": "scores"})).json()

    assert tiny_ranker.rank(without).scores.tolist() == answer["scores"]
    said = [(one["code"], one["feature"]) for one in answer["warnings"]]
    assert ("feature_imputed", "ctr:7d") == said[0]
    assert {("feature_ignored", "title"), ("feature_ignored", "stock")} == {*said[1:]}
    assert {len(DOCUMENTS)} == {one["count"] for one in answer["warnings"]}


async def test_boosts_are_in_scores(client: httpx.AsyncClient, tiny_ranker: Ranker) -> None:
    expected = tiny_ranker.rank(DOCUMENTS).scores
    expected[3] += 2.5

    body = {"columns": COLUMNS, "ids": IDS, "boost": {"103": 2.5}, "answer": "scores", "offset": 0}
    answer = (await client.post("/v1/rerank", json=body)).json()

    assert expected.tolist() == answer["scores"]


async def test_contributions_of_scores_stand_in_the_order_of_the_request(client: httpx.AsyncClient) -> None:
    body = {"columns": COLUMNS, "answer": "scores", "explain": "contributions"}

    answer = (await client.post("/v1/rerank", json=body)).json()

    explanation = answer["explanation"]
    sums = explanation["base"] + np.array(explanation["contributions"]).sum(axis=1)
    np.testing.assert_allclose(answer["scores"], sums, rtol=1e-9)


async def test_scores_are_answered_to_arrays_and_in_batches(
    client: httpx.AsyncClient, tiny_ranker: Ranker
) -> None:
    buffer = io.BytesIO()
    np.save(buffer, DOCUMENTS)
    queries: list[dict[str, Any]] = [
        {"columns": COLUMNS, "answer": "scores"},
        {"columns": COLUMNS},
        {"columns": COLUMNS, "answer": "scores", "offset": 1},
    ]

    binary = await client.post(
        "/v1/rerank",
        params={"answer": "scores"},
        content=buffer.getvalue(),
        headers={"content-type": "application/x-npy"},
    )
    batch = (await client.post("/v1/rerank/batch", json={"queries": queries})).json()["answers"]

    expected = tiny_ranker.rank(DOCUMENTS).scores.tolist()
    assert expected == binary.json()["scores"]
    assert expected == scores_of(batch[0]["answer"]) == scores_of(batch[1]["answer"])
    assert (422, "/queries/2/offset") == (batch[2]["status"], batch[2]["problem"]["pointer"])


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({}, "", "expected one of documents, features, columns; found none of them"),
    ({"columns": COLUMNS, "features": [[1]]}, "", "found features and columns"),
    ({"columns": [1]}, "/columns", "expected an object of lists and values, found a list"),
    ({"columns": None}, "/columns", "found null"),
    (
        {"columns": {"bm25": [1, 2], "pagerank": None}},
        "/columns/pagerank",
        "columns['pagerank']: expected a list with a value for each document, found null",
    ),
    (
        {"columns": {"bm25": [1, 2], "pagerank": 3}},
        "/columns/pagerank",
        "columns['pagerank']: expected a list with a value for each document, found 3",
    ),
    ({"columns": {}}, "/columns", "expected a list for a feature of the documents, found none"),
    ({"columns": {"bm25": 3}}, "/columns", "expected a list for a feature of the documents, found none"),
    ({"columns": {"price": [1, 2]}}, "/columns", "such as 'bm25', 'pagerank', 'ctr:7d', found 'price'"),
    ({"columns": {"bm25": {"a": 1}}}, "/columns/bm25", "columns['bm25']: expected a list, or the value"),
    (
        {"columns": {"bm25": [1, 2, 3], "age": [1, 2]}},
        "/columns/age",
        "columns['age'] has 2 values; expected 3, as columns['bm25'] has",
    ),
    (
        {"columns": {"bm25": [1, 2], "stock": [1]}},
        "/columns/stock",
        "columns['stock'] has 1 values; expected 2",
    ),
    ({"columns": {"bm25": ["a"], "age": [1, 2]}}, "/columns/age", "has 2 values; expected 1"),
    ({"columns": {"bm25": [1, "2"]}}, "/columns/bm25/1", "columns['bm25'][1]: expected a number or null"),
    ({"columns": {"bm25": [[1], [2]]}}, "/columns/bm25/0", "expected a number or null, found [1]"),
    ({"columns": {"bm25": [1, True]}}, "/columns/bm25/1", "expected a number or null, found true"),
    ({"columns": {"bm25": [1, None]}}, "/columns/bm25/1", "'bm25' of document 1 is missing"),
    ({"columns": {"bm25": [1, 1e39]}}, "/columns/bm25/1", "beyond float32"),
    ({"columns": {"bm25": [1], "hour": 3}}, "/columns/hour", "'hour' is no feature of the model"),
    (
        {"columns": {"bm25": [1], "age": 3}},
        "/columns/age",
        "columns['age']: expected a list with a value for each document, found 3",
    ),
    ({"columns": {"bm25": [1]}, "ids": [1, 2]}, "/ids", "2 ids for 1 documents"),
    ({"columns": {"bm25": [1]}, "feature_names": ["bm25"]}, "/feature_names", "found beside columns"),
    ({"columns": {"bm25": [1] * 51}}, "/columns", "51 documents; this server takes 50"),
    ({"columns": COLUMNS, "answer": "both"}, "/answer", "expected one of ranking, scores"),
    ({"columns": COLUMNS, "answer": "scores", "top_n": 3}, "/top_n", "top_n cannot be used with answer as"),
    ({"columns": COLUMNS, "answer": "scores", "pin": [3]}, "/pin", "pin cannot be used"),
    ({"features": [], "answer": "scores", "offset": 3}, "/offset", "offset cannot be used"),
]


@pytest.mark.parametrize(("body", "at", "said"), REFUSED)
async def test_what_is_wrong_is_named(tiny_ranker: Ranker, body: dict[str, Any], at: str, said: str) -> None:
    async with connected(Settings(max_documents=50), models=[LiveModel("tiny", 3, tiny_ranker)]) as client:
        response = await client.post("/v1/rerank", json=body)

    problem = response.json()
    assert (413 if "51" in said else 422, at) == (response.status_code, problem["pointer"]), response.text
    assert said in problem["detail"]


async def test_columns_without_documents_are_an_empty_ranking(client: httpx.AsyncClient) -> None:
    empty: dict[str, list[float]] = {name: [] for name in NAMES}

    ranking = (await client.post("/v1/rerank", json={"columns": empty})).json()
    scores = (await client.post("/v1/rerank", json={"columns": empty, "answer": "scores"})).json()

    assert ([], []) == (ranking["results"], scores["scores"])


@pytest.mark.parametrize(
    "text",
    [
        '{"columns": {"bm25": [1], "bm25": [1]}}',
        '{"columns": {"bm25": [1]}, "columns": {"bm25": [1]}}',
        '{"columns": {"bm25": [1]}, "ids": [1], "ids": [1]}',
        '{"columns": {"bm25": [1,]}}',
        '{"columns": {"bm25": [1}',
        '{"columns": {"bm25": [NaN]}}',
        '{"columns": {"bm25": [01]}}',
    ],
)
async def test_what_is_no_json_is_400(client: httpx.AsyncClient, text: str) -> None:
    response = await client.post("/v1/rerank", content=text, headers={"content-type": "application/json"})

    assert 400 == response.status_code, response.text


async def test_unknown_columns_are_refused_if_the_service_refuses_them(tiny_ranker: Ranker) -> None:
    settings = Settings(extra_features="refuse")
    body = {"columns": COLUMNS | {"stock": IDS}}

    async with connected(settings, models=[LiveModel("tiny", 3, tiny_ranker)]) as client:
        response = await client.post("/v1/rerank", json=body)

    assert (422, "/columns/stock") == (response.status_code, response.json()["pointer"])


# A model with categories and features of the query.

SHOP: dict[str, Any] = {
    name: [row[at] for row in VALUES] for at, name in enumerate(SHOP_NAMES) if name not in QUERY
} | QUERY


@pytest.fixture(scope="module")
def shop_ranker() -> Ranker:
    return made()


@pytest.fixture
async def shop(shop_ranker: Ranker) -> Any:
    async with connected(models=[LiveModel("shop", 1, shop_ranker)]) as one:
        yield one


@pytest.mark.parametrize("stated", [None, QUERY, {"hour": QUERY["hour"]}])
async def test_a_bare_value_is_one_of_the_query(
    shop: httpx.AsyncClient, shop_ranker: Ranker, stated: dict[str, Any] | None
) -> None:
    expected = shop_ranker.rank(coded()).scores.tolist()

    response = await shop.post(
        "/v1/rerank", json={"columns": SHOP, "query_features": stated, "answer": "scores"}
    )

    assert expected == response.json()["scores"], response.text


async def test_features_of_the_query_may_stand_beside_columns_or_in_lists(
    shop: httpx.AsyncClient, shop_ranker: Ranker
) -> None:
    expected = shop_ranker.rank(coded()).scores.tolist()
    bare = {name: one for name, one in SHOP.items() if name not in QUERY}
    listed = bare | {name: [one] * len(VALUES) for name, one in QUERY.items()}

    for body in ({"columns": bare, "query_features": QUERY}, {"columns": listed}):
        response = await shop.post("/v1/rerank", json=body)
        assert expected == scores_of(response.json()), response.text


async def test_values_of_the_query_that_differ_are_refused(shop: httpx.AsyncClient) -> None:
    both = await shop.post("/v1/rerank", json={"columns": SHOP, "query_features": {"hour": 3}})
    listed = SHOP | {"hour": [QUERY["hour"]] * 6 + [3]}
    within = await shop.post("/v1/rerank", json={"columns": listed})
    wrong = await shop.post("/v1/rerank", json={"columns": SHOP | {"hour": "noon"}})

    assert (422, "/columns/hour") == (both.status_code, both.json()["pointer"])
    assert f"columns['hour'] is {QUERY['hour']!r}; expected 3, as query_features has it" in both.text
    assert (422, "/columns/hour/6") == (within.status_code, within.json()["pointer"])
    assert (422, "/columns/hour") == (wrong.status_code, wrong.json()["pointer"])


async def test_a_category_that_holds_no_value_is_refused(shop: httpx.AsyncClient) -> None:
    response = await shop.post("/v1/rerank", json={"columns": SHOP | {"brand": ["a", *[[]] * 6]}})

    assert (422, "/columns/brand/1") == (response.status_code, response.json()["pointer"])


async def test_large_whole_numbers_of_a_category_keep_their_digits(shop_ranker: Ranker) -> None:
    """Float32 holds 2**24 + 1 only rounded, and it is another value than 2**24."""
    feature = shop_ranker.contract.features[1]

    assert feature.code_of(16777217) == feature.unseen
    async with connected(models=[LiveModel("shop", 1, shop_ranker)]) as shop:
        columns = SHOP | {"brand": [7, 16777217, *[7] * 5]}
        answer = (await shop.post("/v1/rerank", json={"columns": columns, "answer": "scores"})).json()

    rows = [[*row] for row in VALUES]
    for row, brand in zip(rows, columns["brand"], strict=True):
        row[1] = brand
    assert shop_ranker.rank(rows).scores.tolist() == answer["scores"]
    assert [("value_unseen", "brand", 1)] == [
        (one["code"], one["feature"], one["count"])
        for one in answer["warnings"]
        if "value_unseen" == one["code"]
    ]


# Clients.


async def test_the_client_sends_columns_and_reads_scores(
    client: httpx.AsyncClient, tiny_ranker: Ranker
) -> None:
    expected = tiny_ranker.rank(DOCUMENTS)
    forms: list[Any] = [
        DOCUMENTS,
        DOCUMENTS.tolist(),
        COLUMNS,
        {name: DOCUMENTS[:, at] for at, name in enumerate(NAMES)},
        {name: pd.Series(DOCUMENTS[:, at], index=IDS) for at, name in enumerate(NAMES)},
        {name: pa.array(DOCUMENTS[:, at]) for at, name in enumerate(NAMES)},
        pd.DataFrame(DOCUMENTS, columns=NAMES),
    ]
    async with AsyncClient("http://localhost", transport=client._transport) as caller:
        for features in forms:
            found = await caller.scores(features, boost={2: 1.0})
            ranked = await caller.rerank(features, ids=IDS, top_n=3)
            boosted = expected.scores + (np.arange(len(DOCUMENTS)) == 2)
            assert boosted.tolist() == found.scores.tolist()
            assert (expected.route, "tiny", 3) == (found.route, found.model, found.version)
            assert [IDS[at] for at in expected.order[:3]] == list(ranked.ids or ())
        with pytest.raises(ServiceError, match="top_n cannot be used"):
            await caller.scores(DOCUMENTS, top_n=3)
        with pytest.raises(InvalidDocuments, match="found a set"):
            await caller.scores({"bm25": {1, 2}})


async def test_the_client_sends_the_features_of_the_query_as_bare_values(
    shop: httpx.AsyncClient, shop_ranker: Ranker
) -> None:
    async with AsyncClient("http://localhost", transport=shop._transport) as caller:
        found = await caller.scores(SHOP)

    assert shop_ranker.rank(coded()).scores.tolist() == found.scores.tolist()


# Others that speak in columns.


async def test_what_feast_answers_becomes_columns(client: httpx.AsyncClient, tiny_ranker: Ranker) -> None:
    """``POST /get-online-features`` of Feast's feature server (documentation of Feast, reference/feature-servers)."""
    online = {
        "metadata": {"feature_names": ["item_id", *NAMES]},
        "results": [
            {
                "values": values,
                "statuses": ["PRESENT"] * len(IDS),
                "event_timestamps": ["1970-01-01T00:00:00Z"] * len(IDS),
            }
            for values in (IDS, *COLUMNS.values())
        ],
    }
    listed = zip(online["metadata"]["feature_names"], online["results"], strict=True)  # type: ignore[index]
    columns = {name: one["values"] for name, one in listed}  # type: ignore[index]
    ids = columns.pop("item_id")

    answer = (await client.post("/v1/rerank", json={"ids": ids, "columns": columns})).json()

    assert tiny_ranker.rank(DOCUMENTS).scores.tolist() == scores_of(answer)
