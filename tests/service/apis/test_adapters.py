"""Search engines' responses come back in the ranker's order, and otherwise as they were."""

from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank_service.apis import adapters
from localrank_service.http.problems import Problem
from localrank_service.wire.query import Limits, Options
from tests.described import validator
from tests.service.conftest import three_kinds

if TYPE_CHECKING:
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


@pytest.mark.parametrize(
    ("asked", "status"), [({"model": "none"}, 404), ({"contract": "other"}, 409), ({"top_n": "0"}, 422)]
)
async def test_what_is_wrong_in_the_query_string_of_an_adapter_has_no_place_in_the_body(
    asked: dict[str, str], status: int, client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    response = await client.post(
        "/v1/adapters/opensearch", params={"model": "tiny", **asked}, json=elastic(queries[0].tolist())
    )

    assert (status, None) == (response.status_code, response.json()["pointer"])


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


@pytest.mark.parametrize(
    ("engine", "body", "asked", "status", "message"),
    [
        ("elasticsearch", {"error": "x"}, {}, 422, "expected a search response with 'hits'; found none"),
        ("solr", {"response": {"docs": 3}}, {}, 422, "response.docs: expected a list of hits, found 3"),
        (
            "elasticsearch",
            {"hits": {"hits": [{"_id": "1"}]}},
            {},
            422,
            "hits/hits/0 has no logged features; log them",
        ),
        ("elasticsearch", elastic([[1, 2, 3, 4]]), {"log": "x"}, 422, "no logged features under 'x'"),
        ("solr", {"response": {"docs": [{"id": 1}]}}, {}, 422, "has no logged features; ask for them: fl="),
        ("solr", {"response": {"docs": [{"fv": "bm25"}]}}, {}, 422, "expected name=value"),
        ("solr", {"response": {"docs": [{"fv": {"bm25": "x"}}]}}, {}, 422, "expected a number or null"),
        ("solr", {"response": {"docs": [{"fv": "bm25=1_0"}]}}, {}, 422, 'name=value, found "bm25=1_0"'),
        ("solr", {"response": {"docs": [{"fv": "bm25=１"}]}}, {}, 422, "expected name=value"),
        ("solr", {"response": {"docs": [{"fv": "=1"}]}}, {}, 422, 'name=value, found "=1"'),
        (
            "solr",
            {"response": {"docs": [{"fv": "bm25=1,age=2,bm25=1"}]}},
            {},
            422,
            "response/docs/0: feature 'bm25' is logged twice",
        ),
        (
            "opensearch",
            elastic_log([{"e": [{"name": "age", "value": 1}, {"name": "age", "value": 2}]}]),
            {},
            422,
            "hits/hits/0: feature 'age' is logged twice",
        ),
        (
            "elasticsearch",
            elastic_log([{"e": []}, {"f": []}, {"e": []}]),
            {"log": "e"},
            422,
            "hits/hits/0 has a log entry twice: 'e', 'f', 'e'",
        ),
        ("elasticsearch", [], {}, 422, "expected an object"),
        ("elasticsearch", elastic([[1, 2, 3, 4]]), {"top_n": "0"}, 422, "top_n"),
        ("elasticsearch", elastic([[1, 2, 3, 4]]), {"topn": "1"}, 422, "unknown option 'topn'"),
        ("elasticsearch", elastic([[1, 2, 3, 4]]), {"missing_as_zero": "yes"}, 422, "missing_as_zero"),
        ("elasticsearch", elastic([[1, 2, 3, 4]]), {"contract": "sha256:0"}, 409, "contract 'sha256:0'"),
        ("elasticsearch", elastic([[None, 2, 3, 4]]), {}, 422, "feature 'bm25' of document 0 is missing"),
    ],
)
async def test_what_is_wrong_is_said(
    client: httpx.AsyncClient, *, engine: str, body: Any, asked: dict[str, str], status: int, message: str
) -> None:
    response = await client.post(f"/v1/adapters/{engine}", params={"model": "tiny", **asked}, json=body)

    assert status == response.status_code, response.text
    assert message in response.json()["detail"]


PAGE = (Path(__file__).parents[3] / "docs" / "use" / "search-engines.md").read_text()


async def test_the_connector_s_request_is_answered_as_opensearch_reads_it(client: httpx.AsyncClient) -> None:
    """The pre-process function of the page puts each document's text where a list of features stands."""
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)]
    [connector] = [block for block in blocks if "actions" in block]
    texts = ["[1.0, 2.0, 3.0, 4.0]", "[10.0, 2.0, 3.0, 4.0]"]
    documents = "[" + ",".join(f'{{"features":{text}}}' for text in texts) + "]"
    body = connector["actions"][0]["request_body"]
    body = body.replace("${parameters.model}", "tiny").replace("${parameters.documents}", documents)

    response = await client.post("/v2/rerank", content=body, headers={"content-type": "application/json"})

    assert "'{\"features\":' + params.text_docs[i] + '}'" in connector["actions"][0]["pre_process_function"]
    assert {0, 1} == {result["index"] for result in response.json()["results"]}
    assert all(0 < result["relevance_score"] <= 1 for result in response.json()["results"])


CONTRACT = three_kinds(missing="nan").contract
LIMITS = Limits(5, refuse_extra_features=False, max_numbers=16)


def adapted(
    engine: str, body: Any, *options: tuple[str, str], limits: Limits = LIMITS
) -> adapters.AdaptedQuery:
    return adapters.read(engine, json.dumps(body).encode(), options, limits)


def solr_page(*logged: Any, field: str = "fv") -> dict[str, Any]:
    return {"response": {"docs": [{"id": number, field: one} for number, one in enumerate(logged)]}}


def test_every_option_is_taken_from_the_query_string_of_an_adapter() -> None:
    given = {
        "model": "m",
        "query_id": "7",
        "session_id": "8",
        "top_n": "3",
        "contract": "c",
        "log": "entry",
        "timeout_ms": "1.5",
        "allow_degraded": "false",
        "missing_as_zero": "true",
    }

    query = adapted("solr", solr_page(), *given.items())

    assert (
        Options(
            model="m",
            query_id="7",
            top_n=3,
            contract="c",
            timeout_ms=1.5,
            allow_degraded=False,
            session_id="8",
            timeout_at=None,
        )
        == query.options
    )
    assert ("entry", True) == (query._entry, query._zero)
    plain = adapted("solr", solr_page())
    assert (Options(timeout_at=None), None, False) == (plain.options, plain._entry, plain._zero)
    assert 16 * len(json.dumps(solr_page())) == plain.cost


@pytest.mark.parametrize(
    ("options", "pointer", "said"),
    [
        ([("a", "1")], None, "unknown option 'a'; expected some of model, query_id"),
        ([("model", "a"), ("model", "b")], None, "option 'model' stands twice"),
        ([("top_n", "0")], None, "top_n: expected an integer of at least 1, found 0"),
        ([("top_n", "x")], None, 'found "x"'),
        ([("timeout_ms", "0")], None, "expected a number above 0"),
        ([("allow_degraded", "no")], None, "expected true or false"),
    ],
)
def test_wrong_options_of_an_adapter_are_named(
    options: list[tuple[str, str]], pointer: str | None, said: str
) -> None:
    with pytest.raises(Problem) as caught:
        adapted("solr", solr_page(), *options)

    assert (422, pointer) == (caught.value.status, caught.value.pointer)
    assert said in caught.value.detail


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
        ("-Infinity", -math.inf),
        ("Infinity", math.inf),
        ("NaN", math.nan),
        ("inf", None),
        ("nan", None),
        ("1 ", None),
        ("1_0", None),
        ("0x1", None),
        (".", None),
        ("", None),
        ("e3", None),
        ("1e", None),
    ],
)
def test_numbers_are_those_that_java_writes(text: str, value: float | None) -> None:
    query = adapted("solr", solr_page(f"bm25={text},pagerank=1,ctr:7d=1,age=1"))

    if value is None:
        with pytest.raises(Problem, match="response/docs/0: a logged feature: expected name=value") as caught:
            query.documents(CONTRACT)
        assert (422, "/response/docs/0/fv") == (caught.value.status, caught.value.pointer)
    else:
        np.testing.assert_array_equal(
            np.array([[value, 1, 1, 1]], np.float32), query.documents(CONTRACT).matrix
        )


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


@pytest.mark.parametrize("first", range(4))
def test_solr_s_field_is_looked_for_under_its_usual_names_in_order(first: int) -> None:
    names = ("[features]", "[fv]", "features", "fv")[first:]
    document = {"id": "a"} | {name: f"bm25={position}" for position, name in enumerate(names)}

    usual = adapted("solr", {"response": {"docs": [document]}}, ("missing_as_zero", "true"))
    asked = adapted(
        "solr", {"response": {"docs": [document]}}, ("missing_as_zero", "true"), ("log", names[-1])
    )

    assert [[0.0, 0, 0, 0]] == usual.documents(CONTRACT).matrix.tolist()
    assert [[len(names) - 1.0, 0, 0, 0]] == asked.documents(CONTRACT).matrix.tolist()


def test_a_name_may_hold_an_equals_sign_and_a_text_may_be_empty() -> None:
    documents = adapted("solr", solr_page("a=b=1", ""), ("missing_as_zero", "true")).documents(CONTRACT)

    assert {"a=b": 1} == documents.ignored
    assert [[0.0] * 4] * 2 == documents.matrix.tolist()
    assert [0, 1] == documents.ids
    assert "/response/docs/1" == documents.locate(1, 2) == documents.locate(1, None)


@pytest.mark.parametrize("value", [True, "1", [1], {}])
def test_a_value_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(Problem, match="response/docs/0: feature 'bm25': expected a number or null") as caught:
        adapted("solr", solr_page({"bm25": value})).documents(CONTRACT)

    assert "/response/docs/0" == caught.value.pointer


def test_null_is_missing_but_the_feature_counts_as_logged() -> None:
    page = solr_page({"bm25": None, "pagerank": 1, "ctr:7d": 2, "age": 3}, {"pagerank": 4})

    found = adapted("solr", page).documents(CONTRACT)

    np.testing.assert_array_equal(
        np.array([[np.nan, 1, 2, 3], [np.nan, 4, np.nan, np.nan]], np.float32), found.matrix
    )


@pytest.mark.parametrize(
    ("logged", "said"),
    [
        ({"bm25": 1}, "no hit logs 'pagerank', 'ctr:7d', 'age', which the model takes"),
        (
            {"bm25": 1, **dict.fromkeys("fedcbag", 1)},
            (
                "no hit logs 'pagerank', 'ctr:7d', 'age', which the model takes; the hits log 'a', 'b', 'c', 'd', 'e' and "
                "2 more, which it does not know"
            ),
        ),
    ],
)
def test_what_no_hit_logs_is_named_beside_what_they_log(logged: dict[str, int], said: str) -> None:
    with pytest.raises(Problem) as caught:
        adapted("solr", solr_page(logged)).documents(CONTRACT)

    assert (422, "/response/docs", said) == (caught.value.status, caught.value.pointer, caught.value.detail)


def test_unknown_features_may_be_refused() -> None:
    strict = Limits(5, refuse_extra_features=True)
    page = solr_page({"x": 1, **dict.fromkeys(NAMES, 1)})

    with pytest.raises(Problem) as caught:
        adapted("solr", page, limits=strict).documents(CONTRACT)

    assert "the hits log 'x', which the model does not know" == caught.value.detail
    assert {"x": 1} == adapted("solr", page).documents(CONTRACT).ignored


@pytest.mark.parametrize(
    ("count", "limits", "said"),
    [
        (5, Limits(5, refuse_extra_features=False), None),
        (6, Limits(5, refuse_extra_features=False), "6 documents; this server takes 5 per request"),
        (4, Limits(5, refuse_extra_features=False, max_numbers=16), None),
        (5, Limits(5, refuse_extra_features=False, max_numbers=16), "5 documents of 4 features have 20 numbers"),
    ],
)  # fmt: skip
def test_so_many_hits_are_taken(count: int, limits: Limits, said: str | None) -> None:
    page = solr_page(*["bm25=1"] * count)
    if said is None:
        found = adapted("solr", page, ("missing_as_zero", "true"), limits=limits).documents(CONTRACT)
        assert count == len(found.matrix)
        return

    with pytest.raises(Problem) as caught:
        adapted("solr", page, ("missing_as_zero", "true"), limits=limits).documents(CONTRACT)

    assert (413, "/response/docs") == (caught.value.status, caught.value.pointer)
    assert said in caught.value.detail


@pytest.mark.parametrize(
    ("log", "entry", "said"),
    [
        ([], None, "has no logged features; log them"),
        ({}, None, "has no logged features; log them"),
        ([{"e": 3}], None, "has no logged features; log them"),
        ([{"e": []}], "f", "has no logged features under 'f'; log them"),
        ([{"e": [3]}], None, "a logged feature: expected an object with name and value, found 3"),
        ([{"e": [{"value": 3}]}], None, "a logged feature: expected an object with name and value"),
        ([{"e": [], "f": []}], None, "has the log entries 'e', 'f'; choose one of them: ?log=e"),
    ],
)
def test_a_wrong_log_is_explained(log: Any, entry: str | None, said: str) -> None:
    options = [] if entry is None else [("log", entry)]

    with pytest.raises(Problem) as caught:
        adapted("opensearch", elastic_log(log), *options).documents(CONTRACT)

    assert 422 == caught.value.status
    assert caught.value.detail.startswith("hits/hits/0")
    assert said in caught.value.detail


@pytest.mark.parametrize(
    ("body", "pointer", "said"),
    [
        ([], "", "the body: expected an object, found a list"),
        ({}, "", "expected a search response with 'response'; found none"),
        ({"response": []}, "/response", "response: expected an object, found a list"),
        ({"response": {}}, "/response/docs", "response.docs: expected a list of hits, found null"),
        ({"response": {"docs": {}}}, "/response/docs", "response.docs: expected a list of hits, found an object"),
        ({"response": {"docs": [1]}}, "/response/docs/0", "response/docs/0: expected an object, found 1"),
    ],
)  # fmt: skip
def test_a_page_of_another_shape_is_pointed_at(body: Any, pointer: str, said: str) -> None:
    with pytest.raises(Problem) as caught:
        adapted("solr", body).documents(CONTRACT)

    assert (422, pointer, said) == (caught.value.status, caught.value.pointer, caught.value.detail)
