"""Hits of engines without a plug-in: named queries, scores, fields, documents, and Vespa's match features.

The shapes were read in public code and documentation; no engine has been asked. Named queries with scores: Elasticsearch 8.8
("include_named_queries_score") and eland 02e9eb5, eland/ml/ltr/feature_logger.py, which takes a hit without ``matched_queries`` for
one that no named query matches. Vespa: documentation en/reference/default-result-format, and the summary features' own entry
``vespa.summaryFeatures.cached`` in searchsummary's summaryfeaturesdfw.cpp.
"""

from __future__ import annotations

import json
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.features.contract import Encoding, FeatureContract
from localrank.features.feature import Feature
from localrank.points.representation import NoRepresentation
from localrank.ranker import Ranker
from localrank.routing.router import GlobalRouter
from localrank.scorers import LinearScorer
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from tests.described import validator
from tests.service.conftest import connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import httpx

pytestmark = pytest.mark.anyio

FEATURES = (
    Feature("title_bm25"),
    Feature("engine"),
    Feature("rating"),
    Feature("stats.clicks"),
    Feature("brand", "category", ("nike", "kobo")),
    Feature("hour", scope="query"),
)
NAMES = [one.name for one in FEATURES]
BRANDS = {"nike": 0.0, "kobo": 1.0, None: np.nan}


def made() -> Ranker:
    rng = np.random.default_rng(0)
    documents = np.column_stack(
        [rng.normal(size=(60, 4)), rng.integers(0, 2, 60), np.repeat(rng.normal(size=6), 10)]
    )
    contract = FeatureContract.learn(
        documents.astype(np.float32),
        [10] * 6,
        features=FEATURES,
        missing="median",
        normalise="none",
        encodings=(Encoding(4, None, np.array([2.0, -1.0, 0.5, 4.0])),),
    )
    scorer = LinearScorer(np.array([1.0, 2.0, 4.0, 8.0, 16.0, 0.0]))
    return Ranker(contract, NoRepresentation(), GlobalRouter(), (), scorer)


RANKER = made()


@pytest.fixture
async def shop() -> AsyncIterator[httpx.AsyncClient]:
    async with connected(models=[LiveModel("shop", 1, RANKER)]) as client:
        yield client


def expected(*rows: Sequence[Any]) -> list[float]:
    """The scores of rows that a caller writes down."""
    coded = [[BRANDS[cell] if at == 4 else cell for at, cell in enumerate(row)] for row in rows]
    found: list[float] = RANKER.rank(np.array(coded, np.float32)).scores.tolist()
    return found


HITS: list[dict[str, Any]] = [
    {
        "_id": "1",
        "_score": 9.25,
        "matched_queries": {"title_bm25": 6.125, "logged": 0.0},
        "fields": {"rating": [4.25], "brand": ["nike"]},
        "_source": {"title": "Rambo", "tags": [1, 2], "stats": {"clicks": 3, "views": [1, 2]}},
    },
    {
        "_id": "2",
        "_score": 7.5,
        "matched_queries": {"logged": 0.0},
        "fields": {"rating": []},
        "_source": {"stats": {"clicks": [5.0]}, "brand": "kobo"},
    },
    # No named query matches, and the document has nothing.
    {"_id": "3", "_score": 1.5},
]
ROWS: list[list[Any]] = [
    [6.125, 9.25, 4.25, 3.0, "nike", 14.5],
    [None, 7.5, None, 5.0, "kobo", 14.5],
    [None, 1.5, None, None, None, 14.5],
]
ASKED = {"score_feature": "engine", "query_features": json.dumps({"hour": 14.5})}


async def ask(
    client: httpx.AsyncClient, engine: str, hits: list[dict[str, Any]], **asked: str
) -> httpx.Response:
    page: dict[str, Any] = {"root": {"children": hits}} if engine == "vespa" else {"hits": {"hits": hits}}
    return await client.post(f"/v1/adapters/{engine}", params=asked, json=page)


def scores(
    answer: httpx.Response, hits: str = "hits", name: str = "_id", score: str = "_score"
) -> list[float]:
    """The scores of hits, in the order of their ids."""
    assert 200 == answer.status_code, answer.text
    page = answer.json()["root" if hits == "children" else "hits"][hits]
    return [hit[score] for hit in sorted(page, key=lambda hit: hit[name])]


@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch"])
async def test_named_queries_fields_documents_and_scores_are_features(
    shop: httpx.AsyncClient, engine: str
) -> None:
    answer = await ask(shop, engine, HITS, **ASKED)

    assert expected(*ROWS) == scores(answer)
    validator("SearchResponse").validate({"hits": {"hits": HITS}})
    validator("SearchReranked").validate(answer.json())
    counts = {one["feature"]: one["count"] for one in answer.json()["localrank"]["warnings"]}
    assert {"title_bm25": 2, "rating": 2, "stats.clicks": 1, "brand": 1} == counts


@pytest.mark.parametrize("order", [*permutations(range(3))])
async def test_the_order_of_the_hits_changes_no_score(
    shop: httpx.AsyncClient, order: tuple[int, ...]
) -> None:
    """Also if the first hit is one that holds nothing."""
    assert expected(*ROWS) == scores(await ask(shop, "opensearch", [HITS[at] for at in order], **ASKED))


async def test_missing_as_zero_is_for_named_queries_too(shop: httpx.AsyncClient) -> None:
    zeros = [[0.0 if cell is None and at < 4 else cell for at, cell in enumerate(row)] for row in ROWS]

    answer = await ask(shop, "opensearch", HITS, missing_as_zero="true", **ASKED)

    assert expected(*zeros) == scores(answer)


async def test_a_log_fields_and_named_queries_complete_each_other(shop: httpx.AsyncClient) -> None:
    log = [{"main": [{"name": "engine", "value": 0.5}, {"name": "more", "value": 1}]}]
    hits = [
        {**HITS[0], "fields": {**HITS[0]["fields"], "_ltrlog": log}},
        {"_id": "2", "fields": {"_ltrlog": log}},
    ]

    answer = await ask(shop, "elasticsearch", hits, query_features=ASKED["query_features"])

    rows: list[list[Any]] = [[6.125, 0.5, 4.25, 3.0, "nike", 14.5], [None, 0.5, None, None, None, 14.5]]
    assert expected(*rows) == scores(answer)
    ignored = [one for one in answer.json()["localrank"]["warnings"] if one["code"] == "feature_ignored"]
    assert [{"code": "feature_ignored", "feature": "more", "count": 2}] == ignored


async def test_sources_settle_which_of_two_values_counts(shop: httpx.AsyncClient) -> None:
    hits = [{**HITS[0], "_source": {"rating": 1.0, "stats.clicks": 7}}]
    asked = ASKED | {"sources": "matched_queries,fields"}

    refused = await ask(shop, "elasticsearch", hits, **ASKED)
    fields, source = [
        await ask(shop, "elasticsearch", hits, **asked | {"sources": some})
        for some in ("matched_queries,fields", "_source")
    ]

    assert (422, "/hits/hits/0/_source") == (refused.status_code, refused.json()["pointer"])
    assert "feature 'rating' stands in fields and in _source" in refused.json()["detail"]
    assert expected([6.125, 9.25, 4.25, None, "nike", 14.5]) == scores(fields)
    assert expected([None, 9.25, 1.0, 7.0, None, 14.5]) == scores(source)


def hit(**members: Any) -> list[dict[str, Any]]:
    return [{"_id": "1", **members}]


MATCHED = {"matched_queries": {"rating": 1}}
WRONG: list[tuple[list[dict[str, Any]], dict[str, str], str | None, str]] = [
    (hit(matched_queries=["title_bm25"]), {}, "/hits/hits/0", "no logged features; log them"),
    (hit(matched_queries={"titel": 1}), {}, "/hits/hits", "no hit logs 'title_bm25', 'engine'"),
    (hit(_source={"title": "x"}, fields={"n": [1]}), {}, "/hits/hits/0", "include_named_queries_score=true"),
    (hit(matched_queries={"rating": "1"}), {}, "/hits/hits/0", 'a number or null, found "1"'),
    (hit(**MATCHED, fields={"engine": [1, 2]}), {}, "/hits/hits/0/fields/engine", "one value, found 2 in fields"),
    (hit(_source={"stats": {"clicks": [1, 2]}}), {}, "/hits/hits/0/_source/stats.clicks", "found 2 in _source"),
    (hit(_source={"rating": {"mean": 1}}), {}, "/hits/hits/0", "a number or null, found an object"),
    (hit(_source={"rating": True}), {}, "/hits/hits/0", "a number or null, found true"),
    (hit(_source={"stats": {"clicks": 1}, "stats.clicks": 1}), {}, "/hits/hits/0/_source", "stands in _source twice"),
    (hit(**MATCHED, fields={"rating": [1]}), {}, "/hits/hits/0/fields", "in matched_queries and in fields"),
    (hit(**MATCHED), {"score_feature": "rating"}, "/hits/hits/0", "score_feature says that it is the score"),
    (hit(**MATCHED), {"score_feature": "ratings"}, None, "no feature 'ratings'; did you mean 'rating'?"),
    (hit(**MATCHED), {"sources": "_ltrlog,score"}, None, "expected some of _ltrlog, matched_queries, fields, _source"),
]  # fmt: skip


@pytest.mark.parametrize(("hits", "asked", "at", "said"), WRONG)
async def test_what_is_wrong_in_a_hit_is_said_with_its_place(
    shop: httpx.AsyncClient, hits: list[dict[str, Any]], asked: dict[str, str], at: str | None, said: str
) -> None:
    answer = await ask(shop, "elasticsearch", hits, **asked)

    assert (422, at) == (answer.status_code, answer.json()["pointer"]), answer.text
    assert said in answer.json()["detail"]


VESPA: list[dict[str, Any]] = [
    {
        "id": f"id:shop:product::{number}",
        "relevance": relevance,
        "source": "content",
        "fields": {
            "sddocname": "product",
            "rating": 99,
            "matchfeatures": {"title_bm25": title, "rating": 4.25, "stats.clicks": 3.0},
            "rankfeatures": {"brand": "nike", "fieldLength(title)": 3.0},
            "summaryfeatures": {"vespa.summaryFeatures.cached": 0.0},
        },
    }
    for number, (relevance, title) in enumerate([(0.25, 1.5), (0.125, 2.5)])
]


async def test_match_features_of_vespa_are_features(shop: httpx.AsyncClient) -> None:
    page = {
        "root": {
            "id": "toplevel",
            "relevance": 1.0,
            "fields": {"totalCount": 10**20},
            "children": VESPA,
            "coverage": {"full": True},
        }
    }

    answer = await shop.post("/v1/adapters/vespa", params=ASKED | {"top_n": "1"}, json=page)
    whole = await shop.post("/v1/adapters/vespa", params=ASKED, json=page)

    rows = [[1.5, 0.25, 4.25, 3.0, "nike", 14.5], [2.5, 0.125, 4.25, 3.0, "nike", 14.5]]
    assert expected(*rows) == scores(whole, "children", "id", "relevance")
    assert [] == whole.json()["localrank"]["warnings"]
    validator("VespaResponse").validate(page)
    validator("VespaReranked").validate(whole.json())
    best = answer.json()["root"]
    found = best.pop("children")
    assert [VESPA[1] | {"relevance": max(expected(*rows))}] == found
    assert {name: one for name, one in page["root"].items() if name != "children"} == best


@pytest.mark.parametrize("root", [{"fields": {"totalCount": 0}}, {"children": []}])
async def test_vespa_leaves_the_list_out_if_nothing_matches(
    shop: httpx.AsyncClient, root: dict[str, Any]
) -> None:
    answer = await shop.post("/v1/adapters/vespa", json={"root": root})

    assert (200, root) == (answer.status_code, answer.json()["root"])


@pytest.mark.parametrize(
    ("fields", "at", "said"),
    [
        ({"title": "x"}, "/root/children/0", "has no logged features; name them in the rank profile"),
        ({"matchfeatures": {"rating": 1}}, "/root/children", "no hit logs 'title_bm25'"),
        ({"matchfeatures": {"rating": {"type": "tensor(x[2])"}}}, "/root/children/0", "found an object"),
        (
            {"matchfeatures": {"rating": 1}, "summaryfeatures": {"rating": 1}},
            "/root/children/0/fields/summaryfeatures",
            "stands in matchfeatures and in summaryfeatures",
        ),
    ],
)
async def test_what_is_wrong_in_a_hit_of_vespa_is_said_with_its_place(
    shop: httpx.AsyncClient, fields: dict[str, Any], at: str, said: str
) -> None:
    answer = await ask(shop, "vespa", [{"id": "1", "fields": fields}])

    assert (422, at) == (answer.status_code, answer.json()["pointer"]), answer.text
    assert said in answer.json()["detail"]


async def test_named_queries_that_are_no_features_may_be_there_where_extra_features_are_refused() -> None:
    async with connected(Settings(extra_features="refuse"), models=[LiveModel("shop", 1, RANKER)]) as strict:
        assert expected(*ROWS) == scores(await ask(strict, "opensearch", HITS, **ASKED))
