"""Rules of the business in a request: what is pinned, boosted and paged, on every wire."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.client import AsyncClient
from localrank.errors import InvalidDocuments
from tests.service.conftest import NAMES, queries_of_three_kinds

if TYPE_CHECKING:
    import httpx

    from localrank.ranker import Ranker

pytestmark = pytest.mark.anyio

DOCUMENTS = queries_of_three_kinds(seed=7)[0]
IDS = [f"d{position}" for position in range(len(DOCUMENTS))]
ROWS = [[float(str(value)) for value in row] for row in DOCUMENTS]

RULES: list[dict[str, Any]] = [
    {"pin": [11, 3]},
    {"boost": {"4": 2.5, "0": -7}},
    {"offset": 5},
    {"offset": 5, "top_n": 4},
    {"offset": 1, "top_n": 6, "pin": [2, 19, 0], "boost": {"2": 1e9, "7": 100, "19": -3}},
    {"offset": 20},
    {"offset": 10**17, "top_n": 10**17},
]


def expected(scores: list[float], rules: dict[str, Any]) -> list[tuple[int, float]]:
    """Positions and scores as the rules say, by sorting alone."""
    boosted = [score + rules.get("boost", {}).get(str(place), 0.0) for place, score in enumerate(scores)]
    pins = rules.get("pin", [])
    rest = sorted({*range(len(scores))} - {*pins}, key=lambda place: (-boosted[place], place))
    offset = rules.get("offset", 0)
    page = [*pins, *rest][offset : offset + rules.get("top_n", len(scores))]
    return [(place, boosted[place]) for place in page]


def with_ids(rules: dict[str, Any]) -> dict[str, Any]:
    named = dict(rules)
    if "pin" in named:
        named["pin"] = [IDS[place] for place in named["pin"]]
    if "boost" in named:
        named["boost"] = {IDS[int(place)]: addend for place, addend in named["boost"].items()}
    return named


def in_query_string(rules: dict[str, Any]) -> dict[str, Any]:
    return {name: json.dumps(one) if name == "boost" else one for name, one in rules.items()}


async def page(client: httpx.AsyncClient, wire: str, rules: dict[str, Any]) -> list[tuple[int, float]]:
    """The positions and scores that a wire answers; it must say the same of pins and boosts as the request."""
    listed = [{"id": one, "features": row} for one, row in zip(IDS, ROWS, strict=True)]
    if wire == "npy":
        buffer = io.BytesIO()
        np.save(buffer, DOCUMENTS)
        kind = {"content-type": "application/x-npy"}
        sent: dict[str, Any] = {
            "content": buffer.getvalue(),
            "params": in_query_string(rules),
            "headers": kind,
        }
    elif wire == "cohere":
        sent = {"json": {"documents": [{"features": row} for row in ROWS], **rules}}
    elif wire == "solr":
        texts = [",".join(f"{name}={value}" for name, value in zip(NAMES, row, strict=True)) for row in ROWS]
        docs = [{"id": one, "[features]": text} for one, text in zip(IDS, texts, strict=True)]
        sent = {"json": {"response": {"docs": docs}}, "params": in_query_string(with_ids(rules))}
    else:
        body = {
            "rows": {"features": ROWS, "ids": IDS, **with_ids(rules)},
            "documents": {"documents": listed, **with_ids(rules)},
            "no ids": {"features": ROWS, **rules},
            "batch": {"queries": [{"documents": listed, **with_ids(rules)}]},
        }
        sent = {"json": body[wire]}
    paths = {"batch": "/v1/rerank/batch", "cohere": "/v2/rerank", "solr": "/v1/adapters/solr"}
    response = await client.post(paths.get(wire, "/v1/rerank"), **sent)
    assert 200 == response.status_code, response.text
    answer = response.json()
    if wire == "solr":
        said = with_ids(rules)
        if rules.keys() & {"pin", "boost"}:
            assert said.get("pin", []) == answer["localrank"]["pinned"]
            assert said.get("boost", {}) == answer["localrank"]["boosted"]
        return [(IDS.index(one["id"]), one["score"]) for one in answer["response"]["docs"]]
    results = answer["answers"][0]["answer"]["results"] if wire == "batch" else answer["results"]
    for rank, one in enumerate(results, rules.get("offset", 0) + 1):
        assert rank == one.get("rank", rank)
        assert (one["index"] in rules.get("pin", [])) == one.get("pinned", False)
        assert rules.get("boost", {}).get(str(one["index"])) == one.get("boost")
    return [(one["index"], one["score"]) for one in results]


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("wire", ["rows", "documents", "no ids", "batch", "npy", "cohere", "solr"])
async def test_boosts_come_before_pins_and_pins_before_the_page(
    client: httpx.AsyncClient, tiny_ranker: Ranker, wire: str, rules: dict[str, Any]
) -> None:
    scores = tiny_ranker.rank(DOCUMENTS).scores.tolist()

    assert expected(scores, rules) == await page(client, wire, rules)


@pytest.mark.parametrize("rules", RULES[:5], ids=str)
async def test_the_client_names_documents_by_its_own_ids(
    client: httpx.AsyncClient, tiny_ranker: Ranker, rules: dict[str, Any]
) -> None:
    scores = tiny_ranker.rank(DOCUMENTS).scores.tolist()
    ids = [("shop", place) for place in range(len(DOCUMENTS))]
    pins, boosts = rules.get("pin", []), rules.get("boost", {})
    async with AsyncClient("http://localhost", transport=client._transport) as caller:
        found = await caller.rerank(
            DOCUMENTS,
            ids,
            pin=[ids[place] for place in pins],
            boost={ids[int(place)]: addend for place, addend in boosts.items()},
            **{name: rules[name] for name in ("offset", "top_n") if name in rules},
        )

    assert expected(scores, rules) == list(zip(found.order.tolist(), found.scores.tolist(), strict=True))
    assert found.pinned == sum(place in pins for place in found.order.tolist())
    assert found.boosts == (
        tuple(float(boosts.get(str(place), 0)) for place in found.order.tolist()) if boosts else None
    )


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"pin": ["d1", "x"]}, "/pin/1"),
    ({"pin": ["d1", "d2", "d1"]}, "/pin/2"),
    ({"pin": ["twice"]}, "/pin/0"),
    ({"pin": [0]}, "/pin/0"),
    ({"pin": ["d1", None]}, "/pin/1"),
    ({"pin": [True]}, "/pin/0"),
    ({"pin": "d1"}, "/pin"),
    ({"pin": [f"d{place}" for place in range(1001)]}, "/pin"),
    ({"boost": {"x/y": 1}}, "/boost/x~1y"),
    ({"boost": {"twice": 1}}, "/boost/twice"),
    ({"boost": {"d1": None}}, "/boost/d1"),
    ({"boost": {"d1": True}}, "/boost/d1"),
    ({"boost": {"d1": "1"}}, "/boost/d1"),
    ({"boost": {"d1": [1]}}, "/boost/d1"),
    ({"boost": [1]}, "/boost"),
    ({"boost": {str(place): 1 for place in range(1001)}}, "/boost"),
    ({"offset": -1}, "/offset"),
    ({"offset": 1.5}, "/offset"),
    ({"offset": True}, "/offset"),
]


@pytest.mark.parametrize(("rules", "at"), REFUSED, ids=lambda one: str(one)[:40])
async def test_a_rule_that_cannot_be_followed_is_refused_in_its_place(
    client: httpx.AsyncClient, rules: dict[str, Any], at: str
) -> None:
    ids = [*IDS[:-2], "twice", "twice"]

    response = await client.post("/v1/rerank", json={"features": ROWS, "ids": ids, **rules})

    assert (422, at) == (response.status_code, response.json()["pointer"])


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"pin": ["d1", 1.5]}, "pin[1]: expected a text or an integer, found 1.5"),
        ({"pin": [True]}, "pin[0]: expected a text or an integer, found true"),
        ({"pin": ["d1"] * 1001}, "pin: expected at most 1000 entries, found 1001"),
        ({"boost": {"d1": 1, "d2": "much"}}, "boost['d2']: expected a number, found \"much\""),
        ({"boost": {"d" * 50: None}}, f"boost['{'d' * 40}…']: expected a number, found null"),
        (
            {"boost": {f"d{at}": 1 for at in range(1001)}},
            "boost: expected at most 1000 entries, found 1001",
        ),
        ({"boost": 3}, "boost: expected an object of at most 1000 numbers, found 3"),
        (
            {"query_features": {"segment": ["x"]}},
            "query_features['segment']: expected a text, a number, true, false or null, found a list",
        ),
    ],
    ids=lambda one: str(one)[:40],
)
@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
async def test_the_sentence_names_the_entry_that_is_wrong(
    client: httpx.AsyncClient, path: str, rules: dict[str, Any], said: str
) -> None:
    documents = [{"features": row} for row in ROWS]

    response = await client.post(path, json={"documents": documents, **rules})

    assert (422, said) == (response.status_code, response.json()["detail"])


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"pin": ["z"]}, ValueError, "expected the position of a document, as there are no ids, found 'z'"),
        ({"boost": {"1": np.nan}}, ValueError, "boost['1']: expected a finite number, found nan"),
        ({"boost": {1: "much"}}, ValueError, "boost[1]: expected a finite number, found 'much'"),
        ({"boost": [1]}, TypeError, "boost: expected a mapping, found a list"),
        ({"query_features": [1]}, TypeError, "query_features: expected a mapping, found a list"),
        (
            {"query_features": {"hour": [1]}},
            InvalidDocuments,
            "expected texts, numbers and truth values in query_features['hour'], found a list",
        ),
    ],
    ids=lambda one: str(one)[:40],
)
async def test_the_client_says_what_is_wrong_before_it_sends(
    client: httpx.AsyncClient, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    async with AsyncClient("http://localhost", transport=client._transport) as caller:
        with pytest.raises(error) as caught:
            await caller.rerank(DOCUMENTS, **options)

    assert said == str(caught.value)


@pytest.mark.parametrize(
    ("boost", "status"),
    [('{"d1": 1e400}', 422), ('{"d1": -1e308}', 200), ('{"d1": 1, "d1": 2}', 400), ('{"d1": NaN}', 400)],
)
async def test_boosts_are_finite_and_stand_once(client: httpx.AsyncClient, boost: str, status: int) -> None:
    content = json.dumps({"features": ROWS, "ids": IDS})[:-1] + f', "boost": {boost}}}'

    response = await client.post("/v1/rerank", content=content, headers={"content-type": "application/json"})

    assert status == response.status_code


@pytest.mark.parametrize(
    "options",
    [{"pin": "20"}, {"pin": "x"}, {"boost": "{"}, {"boost": '{"1": 1, "1": 2}'}, {"boost": '{"1": 1e999}'}],
)
async def test_rules_in_a_query_string_have_no_pointer(
    client: httpx.AsyncClient, options: dict[str, str]
) -> None:
    buffer = io.BytesIO()
    np.save(buffer, DOCUMENTS)

    response = await client.post(
        "/v1/rerank",
        content=buffer.getvalue(),
        params=options,
        headers={"content-type": "application/x-npy"},
    )

    assert (422, None) == (response.status_code, response.json()["pointer"])


async def test_contributions_are_those_of_the_results_and_leave_boosts_out(client: httpx.AsyncClient) -> None:
    rules = {"pin": ["d4"], "boost": {"d1": 100}, "offset": 1, "top_n": 3}
    body = {"features": ROWS, "ids": IDS, "explain": "contributions", **rules}

    answer = (await client.post("/v1/rerank", json=body)).json()

    explained = answer["explanation"]
    assert "d1" == answer["results"][0]["id"]
    for one, row in zip(answer["results"], explained["contributions"], strict=True):
        assert one["score"] == pytest.approx(explained["base"] + sum(row) + one.get("boost", 0.0))
