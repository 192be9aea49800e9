"""Categories and features of the query on every wire: the same bits, whoever spells the value."""

from __future__ import annotations

import io
import json
import time
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

from localrank.client import AsyncClient, Query
from localrank.errors import InvalidDocuments
from localrank.features.contract import Encoding, FeatureContract
from localrank.features.feature import Feature
from localrank.points.vectors import MeanRepresentation
from localrank.probe import Probe
from localrank.ranker import Ranker
from localrank.routing.router import GlobalRouter
from localrank.scorers import LinearScorer
from localrank_service.models.live import LiveModel
from tests.service.conftest import connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from localrank.arrays import Matrix

pytestmark = pytest.mark.anyio

FEATURES = (
    Feature("price", monotone=-1),
    Feature("brand", "category", ("nike", "7", "true", 'kö\u00dfo "x"')),
    Feature("hour", scope="query"),
    Feature("segment", "category", ("mobile", "desk"), "query"),
    Feature("age"),
)
NAMES = [one.name for one in FEATURES]
#: Rows as a caller has them: known and unseen values of the brand, a missing age and a missing brand.
VALUES: list[list[Any]] = [
    [5.5, "nike", 14.5, "mobile", 1.25],
    [7.0, 7, 14.5, "mobile", None],
    [1.0, True, 14.5, "mobile", 0.5],
    [0.25, 'kö\u00dfo "x"', 14.5, "mobile", -1],
    [3.0, None, 14.5, "mobile", 2.0],
    [3.5, "never seen", 14.5, "mobile", 2.5],
    [3.5, 7.0, 14.5, "mobile", 16777217],
]
QUERY = {"hour": 14.5, "segment": "mobile"}
OF_QUERY = (2, 3)


def coded(rows: list[list[Any]] = VALUES) -> Matrix:
    """The matrix that a caller of npy sends."""
    codes = {"nike": 0, "7": 1, "true": 2, 'kö\u00dfo "x"': 3}
    spelled = {True: "true"}

    def number(column: int, value: Any) -> float:
        if value is None:
            return np.nan
        if column == 1:
            return codes.get("true" if value is True else str(value).removesuffix(".0"), 4)
        return {"mobile": 0, "desk": 1}.get(value, 2) if column == 3 else value

    assert spelled
    return np.array([[number(*cell) for cell in enumerate(row)] for row in rows], np.float32)


def made() -> Ranker:
    rng = np.random.default_rng(0)
    documents = np.column_stack(
        [
            rng.normal(size=60),
            rng.integers(0, 4, 60),
            np.repeat(rng.normal(size=6), 10),
            np.repeat(rng.integers(0, 2, 6), 10),
            rng.normal(size=60),
        ]
    ).astype(np.float32)
    contract = FeatureContract.learn(
        documents,
        [10] * 6,
        features=FEATURES,
        missing="zero",
        normalise="none",
        encodings=(
            Encoding(1, None, np.array([2.0, -1.0, 0.5, 4.0, 1.0, -3.0])),
            Encoding(3, None, np.ones(4)),
        ),
    )
    scorer = LinearScorer(np.array([1.0, 2.0, 0.0, 0.0, 0.5]))
    return Ranker(contract, MeanRepresentation(), GlobalRouter(), (), scorer)


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    return made()


@pytest.fixture
async def shop(ranker: Ranker) -> AsyncIterator[httpx.AsyncClient]:
    async with connected(models=[LiveModel("shop", 1, ranker)]) as one:
        yield one


def narrow(row: list[Any]) -> list[Any]:
    return [value for at, value in enumerate(row) if at not in OF_QUERY]


def forms(rows: list[list[Any]] = VALUES) -> dict[str, dict[str, Any]]:
    named = [dict(zip(NAMES, row, strict=True)) for row in rows]
    short = [narrow(row) for row in rows]
    without = [{name: one[name] for name in NAMES if name not in QUERY} for one in named]
    back = [row[::-1] for row in rows]
    asked = {"query_features": QUERY}
    return {
        "rows": {"features": rows},
        "named rows": {"features": back, "feature_names": NAMES[::-1]},
        "documents": {"documents": [{"features": row} for row in rows]},
        "documents by name": {"documents": [{"features": one} for one in named]},
        "short rows": {"features": short, **asked},
        "short named rows": {
            "features": [row[::-1] for row in short],
            "feature_names": ["age", "brand", "price"],
            **asked,
        },
        "short documents": {"documents": [{"features": row} for row in short], **asked},
        "documents by name without": {"documents": [{"features": one} for one in without], **asked},
        "mixed": {
            "documents": [
                {"features": (rows[at], named[at], short[at], without[at])[at % 4]} for at in range(len(rows))
            ],
            **asked,
        },
        "whole rows and the query": {"features": rows, **asked},
        "nulls and the query": {
            "features": [[None if at in OF_QUERY else one for at, one in enumerate(row)] for row in rows],
            **asked,
        },
        "one document says it": {
            "features": [
                row if not place else [None if at in OF_QUERY else one for at, one in enumerate(row)]
                for place, row in enumerate(rows)
            ]
        },
    }


def npy(matrix: Matrix, **options: Any) -> dict[str, Any]:
    buffer = io.BytesIO()
    np.save(buffer, matrix)
    params = {name: json.dumps(one) if isinstance(one, dict) else one for name, one in options.items()}
    return {"content": buffer.getvalue(), "params": params, "headers": {"content-type": "application/x-npy"}}


@pytest.mark.parametrize("form", forms())
async def test_every_form_of_json_gives_the_codes_of_npy(
    shop: httpx.AsyncClient, ranker: Ranker, form: str
) -> None:
    expected = ranker.rank(coded())

    response = await shop.post("/v1/rerank", json=forms()[form])

    assert 200 == response.status_code, response.text
    answer = response.json()
    assert expected.order.tolist() == [one["index"] for one in answer["results"]]
    assert expected.scores[expected.order].tolist() == [one["score"] for one in answer["results"]]
    assert [
        {"code": "feature_imputed", "feature": "brand", "count": 1},
        {"code": "feature_imputed", "feature": "age", "count": 1},
        {"code": "value_unseen", "feature": "brand", "count": 1},
    ] == answer["warnings"]


@pytest.mark.parametrize(
    "sent",
    [
        npy(coded()),
        npy(coded(), query_features=QUERY),
        npy(np.delete(coded(), OF_QUERY, 1), query_features=QUERY),
        npy(
            np.delete(coded(), OF_QUERY, 1)[:, ::-1],
            query_features=QUERY,
            feature_names=["age", "brand", "price"],
        ),
    ],
    ids=["whole", "and the query", "short", "short by name"],
)
async def test_npy_takes_codes(shop: httpx.AsyncClient, ranker: Ranker, sent: dict[str, Any]) -> None:
    response = await shop.post("/v1/rerank", **sent)

    assert 200 == response.status_code, response.text
    found = {one["index"]: one["score"] for one in response.json()["results"]}
    assert dict(enumerate(ranker.rank(coded()).scores.tolist())) == found


def changed(at: int, column: int, value: Any) -> list[list[Any]]:
    rows = [list(row) for row in VALUES]
    rows[at][column] = value
    return rows


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"features": changed(2, 0, "dear")}, "/features/2/0", "price"),
    ({"features": changed(2, 0, value=False)}, "/features/2/0", "price"),
    ({"features": changed(2, 1, ["nike"])}, "/features/2/1", "brand"),
    ({"features": changed(6, 1, {"a": 1})}, "/features/6/1", "brand"),
    ({"features": changed(3, 3, "desk")}, "/features/3/3", "segment"),
    ({"features": changed(3, 2, 15)}, "/features/3/2", "hour"),
    ({"features": VALUES, "query_features": {"hour": 15}}, "/features/0/2", "hour"),
    ({"features": VALUES, "query_features": {"hour": "x"}}, "/query_features/hour", "hour"),
    ({"features": VALUES, "query_features": {"hour": True}}, "/query_features/hour", "hour"),
    ({"features": VALUES, "query_features": {"hour": 1e39}}, "/query_features/hour", "hour"),
    ({"features": VALUES, "query_features": {"price": 1}}, "/query_features/price", "price"),
    ({"features": VALUES, "query_features": {"a/b": 1}}, "/query_features/a~1b", "a/b"),
    ({"features": VALUES, "query_features": {"segment": [1]}}, "/query_features/segment", "query_features"),
    ({"features": VALUES, "query_features": []}, "/query_features", "query_features"),
    ({"features": [narrow(row) for row in VALUES]}, "/features/0", "3 values"),
    ({"features": [narrow(row)[:-1] for row in VALUES], "query_features": QUERY}, "/features/0", "2 values"),
    (
        {"features": [narrow(row) for row in changed(1, 4, "old")], "query_features": QUERY},
        "/features/1/2",
        "age",
    ),
    (
        {"documents": [{"features": {"price": 1, "brand": [1], "age": 2}}], "query_features": QUERY},
        "/documents/0/features/brand",
        "brand",
    ),
]


@pytest.mark.parametrize(
    ("body", "at", "named"), REFUSED, ids=[str(at) + one for at, (_, one, _) in enumerate(REFUSED)]
)
async def test_a_wrong_kind_names_its_feature_and_its_place(
    shop: httpx.AsyncClient, body: dict[str, Any], at: str, named: str
) -> None:
    response = await shop.post("/v1/rerank", json=body)

    assert (422, at) == (response.status_code, response.json()["pointer"])
    assert named in response.json()["detail"]


@pytest.mark.parametrize("code", [-1, 0.5, 5, np.inf, 1e9])
async def test_a_number_that_is_no_code_is_refused(shop: httpx.AsyncClient, code: float) -> None:
    matrix = coded()
    matrix[1, 1] = code

    response = await shop.post("/v1/rerank", **npy(matrix))

    assert (422, "/1/1") == (response.status_code, response.json()["pointer"])


async def test_a_model_without_features_of_the_query_refuses_them(client: httpx.AsyncClient) -> None:
    body = {"features": [[1, 2, 3, 4]], "query_features": {"hour": 1}}

    response = await client.post("/v1/rerank", json=body)

    assert (422, "/query_features/hour") == (response.status_code, response.json()["pointer"])


async def test_other_routes_take_values_too(shop: httpx.AsyncClient, ranker: Ranker) -> None:
    scores = ranker.rank(coded()).scores
    short = [narrow(row) for row in VALUES]
    listed = [{"features": row} for row in short]

    batch = await shop.post(
        "/v1/rerank/batch", json={"queries": [{"features": short, "query_features": QUERY}]}
    )
    cohere = await shop.post("/v2/rerank", json={"documents": listed, "query_features": QUERY})
    compare = await shop.post(
        "/v1/compare", json={"candidate": "shop", "features": short, "query_features": QUERY}
    )
    judged = {"features": short, "query_features": QUERY, "labels": [1] + [0] * 6}
    evaluate = await shop.post("/v1/evaluate", json={"queries": [judged], "metrics": ["mrr"]})

    best = scores.max()
    assert best == batch.json()["answers"][0]["answer"]["results"][0]["score"]
    assert best == cohere.json()["results"][0]["score"]
    assert best == compare.json()["candidate"]["results"][0]["score"]
    rank = 1 + int((scores > scores[0]).sum())
    assert 1 / rank == pytest.approx(evaluate.json()["metrics"][0]["mean"])


async def test_a_search_engine_may_log_values(shop: httpx.AsyncClient, ranker: Ranker) -> None:
    logged = [
        [{"name": name, "value": one} for name, one in zip(NAMES, row, strict=True) if name not in QUERY]
        for row in VALUES
    ]
    hits = [{"_id": str(at), "fields": {"_ltrlog": [{"e": one}]}} for at, one in enumerate(logged)]

    response = await shop.post(
        "/v1/adapters/elasticsearch",
        params={"query_features": json.dumps(QUERY)},
        json={"hits": {"hits": hits}},
    )

    assert 200 == response.status_code, response.text
    found = {int(one["_id"]): one["_score"] for one in response.json()["hits"]["hits"]}
    assert dict(enumerate(ranker.rank(coded()).scores.tolist())) == found


@pytest.mark.parametrize("said", [True, False])
async def test_zero_for_what_no_hit_logs_is_for_numbers_of_documents(
    shop: httpx.AsyncClient, ranker: Ranker, *, said: bool
) -> None:
    sparse: list[dict[str, Any]] = [{"price": 5.5, "brand": "nike"}, {"brand": 7}, {"age": 2.0}]
    of_query = list(QUERY.values()) if said else [None, None]
    rows = [[one.get("price", 0.0), one.get("brand"), *of_query, one.get("age", 0.0)] for one in sparse]
    hits = [
        {"_id": str(at), "fields": {"_ltrlog": [{"e": [{"name": n, "value": v} for n, v in one.items()]}]}}
        for at, one in enumerate(sparse)
    ]
    params = {"missing_as_zero": "true"} | ({"query_features": json.dumps(QUERY)} if said else {})

    response = await shop.post("/v1/adapters/elasticsearch", params=params, json={"hits": {"hits": hits}})

    assert 200 == response.status_code, response.text
    found = {int(one["_id"]): one["_score"] for one in response.json()["hits"]["hits"]}
    assert dict(enumerate(ranker.rank(rows).scores.tolist())) == found


async def test_letor_text_holds_values_of_categories(shop: httpx.AsyncClient, ranker: Ranker) -> None:
    brands = [7, 0, 1, 3, 7.0]
    rows = [[0.5 * at, brand, 14.5, 9, 1.0] for at, brand in enumerate(brands)]
    lines = [
        f"{int(relevant == at)} qid:{relevant} "
        + " ".join(f"{n}:{one}" for n, one in enumerate(row, 1) if one)
        for relevant in range(len(rows))
        for at, row in enumerate(rows)
    ]
    options = {"metrics": "mrr", "per_query": "true"}

    response = await shop.post(
        "/v1/evaluate", params=options, content="\n".join(lines), headers={"content-type": "text/plain"}
    )

    assert 200 == response.status_code, response.text
    scores = ranker.rank(rows).scores
    expected = [1 / (1 + int((scores > one).sum())) for one in scores]
    assert expected == pytest.approx([one["metrics"]["mrr"] for one in response.json()["per_query"]])


@pytest.mark.parametrize("rule", [{"timeout_ms": 1e-3}, {"timeout_ms": 1000}])
async def test_a_category_has_no_order_to_fall_back_to(shop: httpx.AsyncClient, rule: dict[str, Any]) -> None:
    response = await shop.post("/v1/rerank", json={"features": VALUES, "fallback_feature": "brand", **rule})

    problem = response.json()
    assert (422, "/fallback_feature") == (response.status_code, problem["pointer"])
    assert "expected a feature that is a number, found 'brand', a category" in problem["detail"]


@pytest.mark.parametrize("nothing", [None, pd.NA, pd.NaT, float("nan")], ids=str)
def test_what_pandas_has_for_no_value_is_missing(ranker: Ranker, nothing: Any) -> None:
    short = [narrow(row) for row in VALUES]

    found = ranker.rank(short, query_features={"hour": nothing, "segment": nothing})

    assert ranker.rank(short, query_features={}).scores.tolist() == found.scores.tolist()


@pytest.mark.parametrize(
    ("sent", "error", "said"),
    [
        ([1], TypeError, "query_features: expected a mapping, found a list"),
        ({"hour": "x"}, InvalidDocuments, "feature 'hour' of the query: expected a number, found a text"),
    ],
    ids=str,
)
def test_what_is_no_feature_of_the_query_is_refused_offline(
    ranker: Ranker, sent: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        ranker.rank([narrow(row) for row in VALUES], query_features=sent)

    assert said == str(caught.value)


@pytest.mark.parametrize("as_rows", [True, False])
async def test_the_client_sends_values(shop: httpx.AsyncClient, ranker: Ranker, *, as_rows: bool) -> None:
    short = [narrow(row) for row in VALUES]
    names = [name for name in NAMES if name not in QUERY]
    documents: Any = short if as_rows else [dict(zip(names, row, strict=True)) for row in short]
    expected = ranker.rank(coded())
    async with AsyncClient("http://localhost", transport=shop._transport) as caller:
        found = await caller.rerank(documents, query_features=QUERY)
        coded_only = await caller.rerank(np.delete(coded(), OF_QUERY, 1), query_features=QUERY)
        [other] = await caller.rerank_batch([Query(documents, query_features=QUERY)])

    for one in (found, coded_only, other):
        assert not isinstance(one, Exception)
        assert expected.order.tolist() == one.order.tolist()
    offline = ranker.rank(short, query_features=QUERY)
    assert expected.scores.tolist() == offline.scores.tolist()


def tensor(
    name: str, data: list[Any], datatype: str = "BYTES", shape: list[int] | None = None
) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape or [len(data)], "data": data}


def binary(inputs: list[tuple[str, str, list[int], bytes]]) -> dict[str, Any]:
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": name,
                    "datatype": kind,
                    "shape": shape,
                    "parameters": {"binary_data_size": len(data)},
                }
                for name, kind, shape, data in inputs
            ]
        }
    ).encode()
    content = head + b"".join(data for *_, data in inputs)
    return {"content": content, "headers": {"inference-header-content-length": str(len(head))}}


def nulls(matrix: Matrix) -> list[Any]:
    return [[None if np.isnan(one) else float(one) for one in row] for row in matrix]


#: The brand as texts; V2 has no null, and an empty text is none.
TEXTS = ["nike", "7", "true", 'kö\u00dfo "x"', "", "never seen", "7"]


async def test_v2_takes_codes_or_texts_and_features_of_each_query(
    shop: httpx.AsyncClient, ranker: Ranker
) -> None:
    whole, expected = coded(), ranker.rank(coded()).scores.tolist()
    short, bare = np.delete(whole, OF_QUERY, 1), np.delete(whole, (1, *OF_QUERY), 1)
    blank = whole.copy()
    blank[:, 1] = np.nan
    said = json.dumps(QUERY)
    lengths = b"".join(len(one.encode()).to_bytes(4, "little") + one.encode() for one in TEXTS)
    length = len(said).to_bytes(4, "little")

    def rows(matrix: Matrix) -> dict[str, Any]:
        return tensor("features", nulls(matrix), "FP32", list(matrix.shape))

    requests: dict[str, dict[str, Any]] = {
        "codes": {"json": {"inputs": [rows(whole)]}},
        "codes and texts": {"json": {"inputs": [rows(whole), tensor("brand", TEXTS)]}},
        "texts for nulls": {"json": {"inputs": [rows(blank), tensor("brand", TEXTS)]}},
        "short": {"json": {"inputs": [rows(short), tensor("query_features", [said])]}},
        "shorter": {
            "json": {"inputs": [tensor("brand", TEXTS), tensor("query_features", [said]), rows(bare)]}
        },
        "two queries": {
            "json": {
                "inputs": [
                    rows(short),
                    tensor("group", [3, 4], "INT32"),
                    tensor("query_features", [said, said]),
                ]
            }
        },
        "binary": binary(
            [
                ("features", "FP32", list(bare.shape), bare.tobytes()),
                ("brand", "BYTES", [len(TEXTS)], lengths),
                ("query_features", "BYTES", [1], length + said.encode()),
            ]
        ),
    }
    for name, sent in requests.items():
        response = await shop.post("/v2/models/shop/infer", **sent)
        assert 200 == response.status_code, (name, response.text)
        [scores] = [one["data"] for one in response.json()["outputs"] if one["name"] == "scores"]
        assert expected == scores, name


V2_REFUSED: list[tuple[list[dict[str, Any]], str]] = [
    ([tensor("colour", TEXTS)], "/inputs/1/name"),
    ([tensor("price", TEXTS)], "/inputs/1/name"),
    ([tensor("brand", TEXTS[:-1])], "/inputs/1/shape"),
    ([tensor("brand", ["kobo", *TEXTS[1:]])], "/inputs/1"),
    ([tensor("brand", [1] * 7)], "/inputs/1/data/0"),
    ([tensor("brand", [1] * 7, "INT64")], "/inputs/1/name"),
    ([tensor("query_features", [json.dumps(QUERY)] * 2)], "/inputs/1/shape"),
    ([tensor("query_features", ["[1]"])], "/inputs/1"),
    ([tensor("query_features", ['{"hour": [1]}'])], "/inputs/1"),
    ([tensor("query_features", ['{"hour": 1, "hour": 2}'])], "/inputs/1"),
    ([tensor("query_features", ['{"hour": 3}'])], "/inputs/0/data/0/2"),
    ([tensor(f"c{at}", TEXTS) for at in range(64)], "/inputs"),
]


@pytest.mark.parametrize(
    ("inputs", "at"), V2_REFUSED, ids=[at + str(n) for n, (_, at) in enumerate(V2_REFUSED)]
)
async def test_v2_refuses_what_is_no_value(
    shop: httpx.AsyncClient, inputs: list[dict[str, Any]], at: str
) -> None:
    rows = tensor("features", nulls(coded()), "FP32", [7, 5])

    response = await shop.post("/v2/models/shop/infer", json={"inputs": [rows, *inputs]})

    assert (422, at) == (response.status_code, response.json()["pointer"]), response.text


async def test_v2_says_which_texts_a_model_takes(shop: httpx.AsyncClient) -> None:
    metadata = (await shop.get("/v2/models/shop")).json()
    config = (await shop.get("/v2/models/shop/config")).json()

    names = ["features", "doc_ids", "group", "brand", "segment", "query_features"]
    assert names == [one["name"] for one in metadata["inputs"]]
    assert names == [one["name"] for one in config["input"]]


async def test_the_schema_lists_values_codes_and_scopes_and_its_example_is_answered(
    shop: httpx.AsyncClient,
) -> None:
    schema = (await shop.get("/v1/models/shop/schema")).json()

    price, brand, hour, segment, _ = schema["$defs"]["row"]["prefixItems"]
    assert {value: code for code, value in enumerate(FEATURES[1].values)} == brand["x-codes"]
    assert (4, "category") == (brand["x-code-of-others"], brand["x-kind"])
    assert ["query", "query", None] == [one.get("x-scope") for one in (hour, segment, price)]
    assert [-1, None] == [one.get("x-monotone") for one in (price, hour)]
    assert ["hour", "segment"] == list(schema["properties"]["query_features"]["properties"])
    assert ["price", "age"] == schema["$defs"]["named"]["required"] or not schema["$defs"]["named"][
        "required"
    ]
    shown = (await shop.get("/v1/models/shop")).json()["features"]
    assert [(one.name, one.kind, one.scope) for one in FEATURES] == [
        (one["name"], one.get("kind", "number"), one.get("scope", "document")) for one in shown
    ]
    assert list(FEATURES[1].values) == shown[1]["values"]
    [example] = schema["examples"]
    jsonschema.validate(example, schema)
    for form in (
        "rows",
        "documents",
        "documents by name",
        "whole rows and the query",
        "documents by name without",
    ):
        jsonschema.validate({"model": "shop", **forms()[form]}, schema)
    assert 200 == (await shop.post("/v1/rerank", json=example)).status_code


async def test_the_sample_has_values_instead_of_codes(ranker: Ranker) -> None:
    probe = Probe.record(ranker, [coded()])
    async with connected(models=[LiveModel("shop", 1, ranker, probe=probe)]) as shop:
        sample = (await shop.get("/v1/models/shop/sample")).json()
        answer = (await shop.post("/v1/rerank", json=sample)).json()

    assert ["nike", "7", "true"] == [row[1] for row in sample["features"][:3]]
    found = {one["index"]: one["score"] for one in answer["results"]}
    assert dict(enumerate(ranker.rank(coded()).scores.tolist())) == found


async def test_texts_of_columns_that_the_model_does_not_know_are_ignored(
    shop: httpx.AsyncClient, ranker: Ranker
) -> None:
    rows = [[f"title {at}", *row, at % 2 == 0] for at, row in enumerate(VALUES)]

    response = await shop.post(
        "/v1/rerank", json={"features": rows, "feature_names": ["title", *NAMES, "new"]}
    )

    assert 200 == response.status_code, response.text
    found = {one["index"]: one["score"] for one in response.json()["results"]}
    assert dict(enumerate(ranker.rank(coded()).scores.tolist())) == found
    ignored = [one["feature"] for one in response.json()["warnings"] if "feature_ignored" == one["code"]]
    assert ["title", "new"] == ignored


@pytest.mark.parametrize("length", [1, 10_000, 150_000])
async def test_long_and_strange_values_are_read_in_time_proportional_to_their_length(
    shop: httpx.AsyncClient, length: int
) -> None:
    for text in ("a" * length, "\\" * length, '"' * length, "\u0000" * length, "\U0001f600" * length):
        rows = [[1.0, text, None, None, 2.0]] * 3
        begin = time.process_time()

        response = await shop.post(
            "/v1/rerank", json={"features": rows, "query_features": {"segment": text[:50]}}
        )

        assert 200 == response.status_code, response.text[:200]
        assert time.process_time() - begin < 1 + 2e-6 * length


async def test_contributions_name_the_values_of_categories(shop: httpx.AsyncClient) -> None:
    spelled = ["nike", "7", "true", 'kö\u00dfo "x"', None, "a value that training did not know", "7"]
    body = {"features": VALUES, "explain": "contributions", "compare": [3, 4], "top_n": 6}

    answer = (await shop.post("/v1/rerank", json=body)).json()

    explanation = answer["explanation"]
    order = [result["index"] for result in answer["results"]]
    assert {"brand": [spelled[at] for at in order], "segment": ["mobile"] * 6} == explanation["values"]
    reasons = {one["feature"]: one.get("values") for one in explanation["comparison"]["features"]}
    assert [spelled[3], spelled[4]] == reasons["brand"]
    assert reasons.get("price") is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"features": [[1, "\xff", 1, 1, 1]]}',
        b'{"features": [[1, "\\ud800", 1, 1, 1]]}',
        b'{"features": [[1, "a\nb", 1, 1, 1]]}',
        b'{"features": [[1, "a, 1, 1, 1]]}',
        b'{"features": [[1, nike, 1, 1, 1]]}',
        b'{"features": [[1, "a" "b", 1, 1, 1]]}',
        b'{"features": [[1, tru, 1, 1, 1]]}',
        b'{"features": [[1, "a", 1, 1, 1]], "query_features": {"hour": 1, "hour": 1}}',
    ],
)
async def test_what_is_no_json_is_no_value(shop: httpx.AsyncClient, body: bytes) -> None:
    response = await shop.post("/v1/rerank", content=body, headers={"content-type": "application/json"})

    assert 400 == response.status_code
