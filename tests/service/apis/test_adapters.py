"""Search engines' responses come back in the ranker's order, and otherwise as they were."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank_service.apis import adapters
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from localrank_service.wire.query import Limits, Options
from tests.described import validator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

pytestmark = pytest.mark.anyio

NAMES = ("bm25", "pagerank", "ctr:7d", "age")


def elastic(rows: list[list[float | None]], entry: str = "features", **more: Any) -> dict[str, Any]:
    """A page as Elasticsearch with its LTR plug-in answers it; a feature that did not match has no value."""
    return {
        "took": 5,
        "timed_out": False,
        "_shards": {"total": 5, "successful": 5},
        "hits": {
            "total": {"value": 10_000, "relation": "gte"},
            "max_score": 20.5,
            "hits": [
                {
                    "_index": "products",
                    "_id": f"p{position}",
                    "_score": 20.5 - position,
                    "_source": {
                        "title": f"Ünïcode {position}",
                        "sku": 2**53 + position,
                        "tags": [None, {"a": []}],
                    },
                    "fields": {
                        "_ltrlog": [
                            {
                                entry: [
                                    {"name": name} if value is None else {"name": name, "value": value}
                                    for name, value in zip(NAMES, row, strict=True)
                                ]
                                + [{"name": n, "value": v} for n, v in more.items()]
                            }
                        ]
                    },
                    "matched_queries": ["logged"],
                }
                for position, row in enumerate(rows)
            ],
        },
        "aggregations": {"brands": {"buckets": [{"key": "x", "doc_count": 3}]}},
    }


def elastic_log(log: list[dict[str, Any]]) -> dict[str, Any]:
    return {"hits": {"hits": [{"_id": "p0", "fields": {"_ltrlog": log}}]}}


def solr(rows: list[list[float]], field: str = "[features]") -> dict[str, Any]:
    return {
        "responseHeader": {"status": 0, "QTime": 7},
        "response": {
            "numFound": 300,
            "start": 0,
            "maxScore": 3.5,
            "docs": [
                {
                    "id": f"p{position}",
                    "score": 3.5 - position,
                    field: ",".join(f"{name}={value}" for name, value in zip(NAMES, row, strict=True)),
                    **{f"field_{i}": i for i in range(100)},
                }
                for position, row in enumerate(rows)
            ],
        },
        "facet_counts": {"facet_queries": {}},
    }


@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch"])
async def test_hits_come_back_in_the_ranker_s_order(
    client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix], engine: str
) -> None:
    page = elastic(queries[0].tolist())
    expected = tiny_ranker.rank(queries[0])

    response = await client.post(f"/v1/adapters/{engine}", params={"model": "tiny"}, json=page)

    answer = response.json()
    validator("SearchResponse").validate(page)
    hits = answer["hits"]["hits"]
    assert [f"p{position}" for position in expected.order] == [hit["_id"] for hit in hits]
    assert expected.scores[expected.order].tolist() == [hit["_score"] for hit in hits]
    assert expected.scores.max() == answer["hits"]["max_score"]
    for hit in hits:
        before = page["hits"]["hits"][int(hit["_id"][1:])]
        assert {**before, "_score": hit["_score"]} == hit
    untouched = {"took", "timed_out", "_shards", "aggregations"}
    assert {name: page[name] for name in untouched} == {name: answer[name] for name in untouched}
    assert page["hits"]["total"] == answer["hits"]["total"]
    assert ("tiny", 3, expected.route.cluster) == (
        answer["localrank"]["model"],
        answer["localrank"]["version"],
        answer["localrank"]["route"]["cluster"],
    )
    assert "total" in answer["localrank"]["timings_ms"]
    assert "score;dur=" in response.headers["server-timing"]


@pytest.mark.parametrize("field", ["[features]", "fv", "mine"])
async def test_documents_of_solr_come_back_in_the_ranker_s_order(
    client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix], field: str
) -> None:
    page = solr(queries[0].tolist(), field)
    expected = tiny_ranker.rank(queries[0])
    asked = {"model": "tiny", "top_n": "5"} | ({"log": "mine"} if field == "mine" else {})

    answer = (await client.post("/v1/adapters/solr", params=asked, json=page)).json()

    if field == "[features]":
        validator("SolrResponse").validate(page)
    docs = answer["response"]["docs"]
    assert [f"p{position}" for position in expected.order[:5]] == [doc["id"] for doc in docs]
    assert expected.scores[expected.order[:5]].tolist() == [doc["score"] for doc in docs]
    assert (300, expected.scores.max()) == (answer["response"]["numFound"], answer["response"]["maxScore"])
    assert {"facet_queries": {}} == answer["facet_counts"]


async def test_a_feature_without_a_value_is_missing_or_zero(
    client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    rows: list[list[Any]] = queries[0].tolist()
    rows[3][2] = None  # "median" in this model
    as_missing, as_zero = queries[0].copy(), queries[0].copy()
    as_missing[3, 2], as_zero[3, 2] = np.nan, 0.0

    async def scores(**asked: str) -> list[float]:
        response = await client.post(
            "/v1/adapters/opensearch", params={"model": "tiny", **asked}, json=elastic(rows)
        )
        hits = response.json()["hits"]["hits"]
        return [hit["_score"] for hit in sorted(hits, key=lambda hit: int(hit["_id"][1:]))]

    assert tiny_ranker.rank(as_missing).scores.tolist() == await scores()
    assert tiny_ranker.rank(as_zero).scores.tolist() == await scores(missing_as_zero="true")


async def test_names_that_do_not_fit_are_named_together(
    client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    page = elastic(queries[0].tolist())
    for hit in page["hits"]["hits"]:
        hit["fields"]["_ltrlog"][0]["features"][3]["name"] = "agee"

    response = await client.post("/v1/adapters/elasticsearch", params={"model": "tiny"}, json=page)

    assert 422 == response.status_code
    assert (
        "no hit logs 'age', which the model takes; the hits log 'agee', which it does not know"
        == response.json()["detail"]
    )
    assert "/hits/hits" == response.json()["pointer"]


async def test_features_that_the_model_does_not_know_are_a_warning(
    client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    page = elastic(queries[0].tolist(), colour=0.5)

    answer = (await client.post("/v1/adapters/elasticsearch", params={"model": "tiny"}, json=page)).json()

    assert [{"code": "feature_ignored", "feature": "colour", "count": len(queries[0])}] == answer[
        "localrank"
    ]["warnings"]


async def test_one_of_several_log_entries_is_asked_for(
    client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    page = elastic(queries[0].tolist())
    for hit in page["hits"]["hits"]:
        hit["fields"]["_ltrlog"].append({"other": []})

    refused = await client.post("/v1/adapters/elasticsearch", params={"model": "tiny"}, json=page)
    answered = await client.post(
        "/v1/adapters/elasticsearch", params={"model": "tiny", "log": "features"}, json=page
    )

    assert 422 == refused.status_code
    assert (
        "has the log entries 'features', 'other'; choose one of them: ?log=features"
        in refused.json()["detail"]
    )
    assert 200 == answered.status_code


async def test_an_empty_page_stays_empty(client: httpx.AsyncClient) -> None:
    page = elastic([])

    answer = (await client.post("/v1/adapters/elasticsearch", params={"model": "tiny"}, json=page)).json()

    assert [] == answer["hits"]["hits"]
    assert answer["hits"]["max_score"] is None


def docs(*logged: Any, field: str = "fv") -> dict[str, Any]:
    return {"response": {"docs": [{"id": number, field: one} for number, one in enumerate(logged)]}}


HIT = elastic([[1, 2, 3, 4]])
LACKS = "no hit logs 'pagerank', 'ctr:7d', 'age', which the model takes"
VALUES: tuple[Any, ...] = (True, "1", [1], {})
#: Engine, body, options, status, pointer, and what the sentence says.
WRONG: list[tuple[str, Any, dict[str, Any], int, str | None, str]] = [
    # pages of another shape
    ("solr", [], {}, 422, "", "the body: expected an object, found a list"),
    ("solr", {}, {}, 422, "", "expected a search response with 'response'; found none"),
    ("elasticsearch", {"error": "x"}, {}, 422, "", "expected a search response with 'hits'; found none"),
    ("solr", {"response": []}, {}, 422, "/response", "response: expected an object, found a list"),
    ("solr", {"response": {}}, {}, 422, "/response/docs", "expected a list of hits, found null"),
    ("solr", {"response": {"docs": {}}}, {}, 422, "/response/docs", "a list of hits, found an object"),
    ("solr", {"response": {"docs": [1]}}, {}, 422, "/response/docs/0", "expected an object, found 1"),
    # ids
    *(
        ("opensearch", {"hits": {"hits": [{"_id": one}]}}, {}, 422, "/hits/hits/0/_id", f"_id: expected a text or an integer, found {said}")
        for one, said in ((1.5, "1.5"), ({}, "an object"), (["a"], "a list"), (True, "true"))
    ),
    # logs
    ("opensearch", {"hits": {"hits": [{"_id": "1"}]}}, {}, 422, "/hits/hits/0", "no logged features; log them"),
    ("opensearch", elastic_log([]), {}, 422, "/hits/hits/0", "has no logged features; log them"),
    ("opensearch", elastic_log({}), {}, 422, "/hits/hits/0", "has no logged features; log them"),  # type: ignore[arg-type]
    ("opensearch", elastic_log([{"e": 3}]), {}, 422, "/hits/hits/0", "has no logged features; log them"),
    ("opensearch", HIT, {"log": "x"}, 422, "/hits/hits/0", "no logged features under 'x'; log them"),
    ("opensearch", elastic_log([{"e": [3]}]), {}, 422, "/hits/hits/0/fields/_ltrlog", "and value, found 3"),
    ("opensearch", elastic_log([{"e": [{"value": 3}]}]), {}, 422, "/hits/hits/0/fields/_ltrlog", "name and value"),
    ("opensearch", elastic_log([{"e": [], "f": []}]), {}, 422, "/hits/hits/0/fields/_ltrlog", "'e', 'f'; choose one"),
    (
        "opensearch",
        elastic_log([{"e": [{"name": "age", "value": 1}, {"name": "age", "value": 2}]}]),
        {},
        422,
        "/hits/hits/0/fields/_ltrlog",
        "hits/hits/0: feature 'age' is logged twice",
    ),
    (
        "elasticsearch",
        elastic_log([{"e": []}, {"f": []}, {"e": []}]),
        {"log": "e"},
        422,
        "/hits/hits/0/fields/_ltrlog",
        "hits/hits/0 has a log entry twice: 'e', 'f', 'e'",
    ),
    ("solr", {"response": {"docs": [{"id": 1}]}}, {}, 422, "/response/docs/0", "ask for them: fl="),
    ("solr", docs("bm25"), {}, 422, "/response/docs/0/fv", "expected name=value"),
    ("solr", docs("=1"), {}, 422, "/response/docs/0/fv", 'name=value, found "=1"'),
    ("solr", docs("bm25=1,age=2,bm25=1"), {}, 422, "/response/docs/0/fv", "'bm25' is logged twice"),
    # values
    *(
        ("solr", docs({"bm25": value}), {}, 422, "/response/docs/0", "feature 'bm25': expected a number or null")
        for value in VALUES
    ),
    ("elasticsearch", elastic([[None, 2, 3, 4]]), {}, 422, "/hits/hits/0", "feature 'bm25' of document 0"),
    # names
    ("solr", docs({"bm25": 1}), {}, 422, "/response/docs", LACKS),
    (
        "solr",
        docs({"bm25": 1, **dict.fromkeys("fedcbag", 1)}),
        {},
        422,
        "/response/docs",
        f"{LACKS}; the hits log 'a', 'b', 'c', 'd', 'e' and 2 more, which it does not know",
    ),
    # options
    ("solr", docs(), {"a": "1"}, 422, None, "unknown option 'a'; expected some of model, query_id"),
    ("solr", docs(), {"top_n": ["1", "2"]}, 422, None, "option 'top_n' stands twice"),
    ("solr", docs(), {"top_n": "0"}, 422, None, "top_n: expected an integer of at least 1, found 0"),
    ("solr", docs(), {"top_n": "x"}, 422, None, 'found "x"'),
    ("solr", docs(), {"timeout_ms": "0"}, 422, None, "expected a number above 0"),
    ("solr", docs(), {"allow_degraded": "no"}, 422, None, "expected true or false"),
    ("solr", docs(), {"missing_as_zero": "yes"}, 422, None, "missing_as_zero"),
    ("solr", docs(), {"model": "none"}, 404, None, "no model 'none'"),
    ("elasticsearch", HIT, {"contract": "sha256:0"}, 409, None, "contract 'sha256:0'"),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "body", "asked", "status", "at", "said"), WRONG)
async def test_what_is_wrong_is_said_with_its_place(
    client: httpx.AsyncClient,
    *,
    engine: str,
    body: Any,
    asked: dict[str, Any],
    status: int,
    at: str | None,
    said: str,
) -> None:
    response = await client.post(f"/v1/adapters/{engine}", params={"model": "tiny", **asked}, json=body)

    assert (status, at) == (response.status_code, response.json()["pointer"]), response.text
    assert said in response.json()["detail"]


PAGE = (Path(__file__).parents[3] / "docs" / "use" / "search-engines.md").read_text()


async def test_the_connector_s_request_is_answered_as_opensearch_reads_it(
    client: httpx.AsyncClient, tiny_ranker: Ranker
) -> None:
    """OpenSearch's own pre-process function for Cohere fills in query, documents and top_n; documents are texts."""
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)]
    [connector] = [block for block in blocks if "actions" in block]
    [action] = connector["actions"]
    rows = [[1.0, 2.0, 3.0, 4.0], [10.0, 2.0, 3.0, 4.0]]
    logged = ", ".join(f"{{name={name}, value={value}}}" for name, value in zip(NAMES, rows[1], strict=True))
    body = action["request_body"]
    for name, value in {
        "model": "tiny",
        "query": "rambo",
        "top_n": "2",
        "documents": json.dumps([json.dumps(rows[0]), f"{{features=[{logged}]}}"]),
    }.items():
        body = body.replace(f"${{parameters.{name}}}", value)

    response = await client.post("/v2/rerank", content=body, headers={"content-type": "application/json"})

    assert "connector.pre_process.cohere.rerank" == action["pre_process_function"]
    found = {result["index"]: result["relevance_score"] for result in response.json()["results"]}
    assert dict(enumerate(tiny_ranker.rank(np.array(rows, np.float32)).scores.tolist())) == found


@pytest.fixture
async def lenient(connect: Any, make_ranker: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service whose model takes missing values, and at most four hits."""
    async with connect(
        Settings(max_documents=4), models=[LiveModel("tiny", 3, make_ranker(missing="nan"))]
    ) as client:
        yield client


async def scores(client: httpx.AsyncClient, page: dict[str, Any], **asked: str) -> list[float]:
    """The scores of Solr's documents, in the order of the page."""
    answer = await client.post("/v1/adapters/solr", params=asked, json=page)
    assert 200 == answer.status_code, answer.text
    listed = answer.json()["response"]["docs"]
    return [doc["score"] for doc in sorted(listed, key=lambda doc: page["response"]["docs"].index(
        {name: value for name, value in doc.items() if name != "score"}))]  # fmt: skip


async def ranked(client: httpx.AsyncClient, *rows: list[float | None]) -> list[float]:
    """The scores of the same rows in a rerank request."""
    answer = (await client.post("/v1/rerank", json={"features": rows})).json()
    return [one["score"] for one in sorted(answer["results"], key=lambda one: one["index"])]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("-1.5", -1.5),
        ("+2", 2.0),
        ("1.5E-3", 0.0015),
        ("2e3", 2000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("NaN", None),
        ("-NaN", None),
    ],
)
async def test_numbers_are_those_that_java_writes(
    text: str, value: float | None, lenient: httpx.AsyncClient
) -> None:
    assert await ranked(lenient, [value, 1, 1, 1]) == await scores(
        lenient, docs(f"bm25={text},pagerank=1,ctr:7d=1,age=1")
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "name=value") for text in ("inf", "nan", "1 ", "1_0", "0x1", ".", "", "e3", "1e", "１")),
        ("-Infinity", "'bm25' of document 0 is infinite"),
        ("Infinity", "'bm25' of document 0 is infinite"),
    ],
)
async def test_other_numbers_are_refused(text: str, said: str, lenient: httpx.AsyncClient) -> None:
    answer = await lenient.post("/v1/adapters/solr", json=docs(f"bm25={text},pagerank=1,ctr:7d=1,age=1"))

    assert (422, True) == (answer.status_code, said in answer.json()["detail"]), answer.text


@pytest.mark.parametrize("first", range(4))
async def test_solr_s_field_is_looked_for_under_its_usual_names_in_order(
    first: int, lenient: httpx.AsyncClient
) -> None:
    names = ("[features]", "[fv]", "features", "fv")[first:]
    page = {"response": {"docs": [{"id": "a"} | {name: f"bm25={at}" for at, name in enumerate(names, 1)}]}}

    usual = await scores(lenient, page, missing_as_zero="true")
    asked = await scores(lenient, page, missing_as_zero="true", log=names[-1])

    assert [usual, asked] == [await ranked(lenient, [at, 0, 0, 0]) for at in (1, len(names))]


async def test_names_may_hold_an_equals_sign_texts_may_be_empty_and_null_is_missing(
    lenient: httpx.AsyncClient,
) -> None:
    odd = await lenient.post("/v1/adapters/solr", params={"missing_as_zero": "true"}, json=docs("a=b=1", ""))
    missing = docs({"bm25": None, "pagerank": 1, "ctr:7d": 2, "age": 3}, {"pagerank": 4})

    assert [{"code": "feature_ignored", "feature": "a=b", "count": 1}] == odd.json()["localrank"]["warnings"]
    assert await ranked(lenient, [None, 1, 2, 3], [None, 4, None, None]) == await scores(lenient, missing)


async def test_so_many_hits_are_taken_and_unknown_features_may_be_refused(
    lenient: httpx.AsyncClient, connect: Any, tiny_model: LiveModel
) -> None:
    page = docs({"x": 1, **dict.fromkeys(NAMES, 1)})
    as_zero = {"missing_as_zero": "true"}
    taken, refused = [
        await lenient.post("/v1/adapters/solr", params=as_zero, json=docs(*["bm25=1"] * count))
        for count in (4, 5)
    ]
    async with connect(Settings(extra_features="refuse"), models=[tiny_model]) as strict:
        unknown = await strict.post("/v1/adapters/solr", json=page)

    assert (200, 413, 422) == (taken.status_code, refused.status_code, unknown.status_code)
    assert "/response/docs" == refused.json()["pointer"] == unknown.json()["pointer"]
    assert "5 documents; this server takes 4 per request" == refused.json()["detail"]
    assert "the hits log 'x', which the model does not know" == unknown.json()["detail"]


def test_every_option_is_taken_from_the_query_string_of_an_adapter() -> None:
    given = {
        "model": "m",
        "query_id": "7",
        "session_id": "8",
        "top_n": "3",
        "contract": "c",
        "timeout_ms": "1.5",
        "allow_degraded": "false",
    }
    limits = Limits(5, refuse_extra_features=False)
    body = json.dumps(docs()).encode()

    query = adapters.read("solr", body, [*given.items()], limits)

    assert query.options == Options(
        model="m",
        query_id="7",
        top_n=3,
        contract="c",
        timeout_ms=1.5,
        allow_degraded=False,
        session_id="8",
        timeout_at=None,
    )
    assert 16 * len(body) == query.cost


def raw(text: str) -> Any:
    """JSON whose numbers are kept as they were written."""
    return json.loads(text, parse_int=str, parse_float=str)


async def test_numbers_are_repeated_as_they_were_written(client: httpx.AsyncClient) -> None:
    """Also a score with an escaped name, or none."""
    log = json.dumps(elastic([[1, 2, 3, 4]])["hits"]["hits"][0]["fields"])
    odd = '"n" : [12345678901234567890123, 1e2, -0, 1.10, {"_score": -0, "a\\u00e9": "\\/"}]'
    members = ('"_score": 7 ,', '"_sc\\u006fre" : null,', '"other": -0,', "")
    hits = [f'{{"_id": "{at}", {member} {odd}, "fields": {log} }}' for at, member in enumerate(members)]
    page = f'{{"took": 1e1, "hits": {{"total": {{"value": -0}}, "hits": [{", ".join(hits)}]}}}}'

    answer = await client.post(
        "/v1/adapters/elasticsearch", content=page, headers={"content-type": "application/json"}
    )

    assert 200 == answer.status_code, answer.text
    before, after = raw(page), raw(answer.text)
    score = answer.json()["hits"]["hits"][0]["_score"]
    for hit in before["hits"]["hits"]:
        hit["_score"] = str(score)
    del after["localrank"]
    assert before == after


async def test_a_long_number_that_is_none_is_refused_at_once(client: httpx.AsyncClient) -> None:
    page = {"response": {"docs": [{"id": "a", "fv": f"bm25={'1' * 100_000}x"}]}}
    begun = time.process_time()

    answer = await client.post("/v1/adapters/solr", json=page)

    assert 422 == answer.status_code
    assert time.process_time() - begun < 1
