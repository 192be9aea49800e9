"""Many queries in one body: each is answered as if it had come alone."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from localrank_service.apis import batch as batch_route
from localrank_service.apis.batch import split
from localrank_service.http.problems import Problem
from localrank_service.models.live import LiveModel, addresses_of
from localrank_service.process.settings import Settings
from localrank_service.wire.query import Limits

if TYPE_CHECKING:
    import httpx

    from localrank.arrays import Matrix

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
ROW = [1, 2, 3, 4]


def told(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs from request to request."""
    return {name: value for name, value in answer.items() if name not in {"request_id", "timings_ms"}}


async def test_an_alias_that_moves_within_a_batch_moves_for_the_next_request(
    connect: Any, make_ranker: Any, queries: list[Matrix], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"queries": [{"model": "a", "features": queries[0].tolist()}] * 3}

    async with connect(models=[LiveModel("a", 1, make_ranker())]) as client:
        live = client._transport.app.state.service.live
        following = addresses_of([LiveModel("a", 2, make_ranker(weights_sign=-1.0))])
        answer = batch_route._answer

        async def promoting(*arguments: Any, **named: Any) -> Any:
            answered = await answer(*arguments, **named)
            live.replace(following, {})
            return answered

        monkeypatch.setattr(batch_route, "_answer", promoting)
        during = (await client.post("/v1/rerank/batch", json=body)).json()
        after = (await client.post("/v1/rerank/batch", json=body)).json()

    assert [1, 1, 1] == [one["answer"]["version"] for one in during["answers"]]
    assert [2, 2, 2] == [one["answer"]["version"] for one in after["answers"]]


async def test_each_query_is_answered_as_if_it_had_come_alone(
    connect: Any, make_ranker: Any, queries: list[Matrix]
) -> None:
    bodies: list[dict[str, Any]] = [
        {"model": "a", "features": queries[0].tolist(), "top_n": 3},
        {"model": "b", "ids": list(range(20)), "features": queries[1].tolist(), "explain": "route"},
        {"model": "a", "documents": [{"id": "x", "features": queries[2][0].tolist()}]},
        {"model": "b", "features": []},
    ]
    models = [LiveModel("a", 1, make_ranker()), LiveModel("b", 2, make_ranker(weights_sign=-1.0))]

    async with connect(models=models) as client:
        alone = [(await client.post("/v1/rerank", json=body)).json() for body in bodies]
        response = await client.post(
            "/v1/rerank/batch", json={"queries": bodies}, headers={"x-request-id": "the-id"}
        )

    assert 200 == response.status_code, response.text
    batch = response.json()
    assert [200] * 4 == [one["status"] for one in batch["answers"]]
    assert [told(answer) for answer in alone] == [told(one["answer"]) for one in batch["answers"]]
    assert {"the-id"} == {batch["request_id"], *(one["answer"]["request_id"] for one in batch["answers"])}


WRONG: list[tuple[str, int, str]] = [
    ('{"features": [[1, 2], [3]]}', 422, "/queries/1/features/0"),
    ('{"features": [[1, 2, 3, 4]], "model": "nope"}', 404, "/queries/1/model"),
    ('{"features": [[1, 2, 3, 4]], "contract": "sha256:0"}', 409, "/queries/1/contract"),
    ('{"features": [[1, 2, 3, 4]], "features": []}', 400, "/queries/1"),
    ('{"features": [[1, 2, 3, 1e39]]}', 422, "/queries/1/features/0/3"),
    ('{"features": [[1, 2, 3, 1e400]]}', 422, "/queries/1/features/0/3"),
    ('{"topn": 1}', 422, "/queries/1/topn"),
    ("[]", 422, "/queries/1"),
    ("null", 422, "/queries/1"),
    ("[" * 50 + "]" * 50, 422, "/queries/1"),
    ('"features"', 422, "/queries/1"),
]


@pytest.mark.parametrize(("wrong", "status", "at"), WRONG)
async def test_one_that_fails_does_not_fail_the_rest(
    wrong: str, status: int, at: str, client: httpx.AsyncClient
) -> None:
    right = json.dumps({"features": [ROW]})

    response = await client.post(
        "/v1/rerank/batch", content=f'{{"queries": [{right}, {wrong}, {right}]}}', headers=JSON
    )

    assert 200 == response.status_code, response.text
    answers = response.json()["answers"]
    assert [200, status, 200] == [one["status"] for one in answers]
    problem = answers[1]["problem"]
    assert (status, at) == (problem["status"], problem["pointer"])


async def test_a_query_that_breaks_the_server_does_not_fail_the_rest(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from localrank_service.apis.rerank import reader as rerank_json

    read = rerank_json.JsonQuery.read

    def breaking(body: bytes, limits: Limits) -> Any:
        if b"secret" in body:
            raise RuntimeError("the secret reason")
        return read(body, limits)

    monkeypatch.setattr(rerank_json.JsonQuery, "read", breaking)

    response = await client.post(
        "/v1/rerank/batch", json={"queries": [{"query_id": "secret", "features": [ROW]}, {"features": [ROW]}]}
    )

    answers = response.json()["answers"]
    assert [500, 200] == [one["status"] for one in answers]
    assert "secret" not in response.text
    assert "the secret reason" in caplog.text


MALFORMED: list[tuple[str | bytes, int, str]] = [
    ("", 400, ""),
    ("{", 400, ""),
    ('{"queries": [{}', 400, ""),
    ('{"queries": [{]}', 400, ""),
    ('{"queries": []} {}', 400, ""),
    ('{"queries": [], "queries": []}', 400, ""),
    ("[]", 422, ""),
    ("{}", 422, "/queries"),
    ('{"queries": {}}', 422, "/queries"),
    ('{"queries": null}', 422, "/queries"),
    ('{"queries": [], "model": "tiny"}', 422, "/model"),
    ('{"model": "tiny", "queries": []}', 422, "/model"),
    ("[" * 3000, 400, ""),
    ('{"\\u0071ueries": [' + "[" * 1000 + "]" * 1000 + "]}", 400, ""),
    ('{"\\u0071ueries": [' + "[" * 500 + "]" * 500 + "]}", 400, ""),
    ('\x0b{"queries": []}', 400, ""),
    ('{"queries": []}\x0c', 400, ""),
    ('{"queries":\x0b []}', 400, ""),
]


@pytest.mark.parametrize(("body", "status", "at"), MALFORMED)
async def test_a_body_that_holds_no_queries_is_refused(
    body: str | bytes, status: int, at: str, client: httpx.AsyncClient
) -> None:
    response = await client.post("/v1/rerank/batch", content=body, headers=JSON)

    assert (status, at) == (response.status_code, response.json()["pointer"]), response.text


async def test_no_queries_have_no_answers(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/rerank/batch", json={"queries": []})

    assert (200, []) == (response.status_code, response.json()["answers"])


def contents(body: str) -> list[bytes]:
    return [query.content for query in split(body.encode(), Limits(4, refuse_extra_features=False))]


def test_a_body_is_cut_where_its_queries_end_however_it_is_written() -> None:
    queries = ['{"a": "]}, {"}', "{\n}", "[1, [2]]", '"\\u005d"']
    plain = '{"queries": [' + ", ".join(queries) + "]}"

    assert [query.encode() for query in queries] == contents(plain)
    spaced = ' \n{ "queries" :[' + ",".join(queries) + "] }\n"
    assert [query.encode() for query in queries] == contents(spaced)
    escaped = plain.replace("queries", "\\u0071ueries")
    assert [json.loads(query) for query in queries] == [json.loads(query) for query in contents(escaped)]


async def test_limits_hold_for_the_whole(connect: Any, tiny_model: LiveModel) -> None:
    sizes = [2, 3, 2, 1, 1]
    body = {"queries": [{"features": [ROW] * size} for size in sizes]}
    async with connect(Settings(max_documents=5), models=[tiny_model]) as client:
        some = await client.post("/v1/rerank/batch", json=body)
        most = await client.post("/v1/rerank/batch", json={"queries": [{}] * 6})

    assert [200, 200, 413, 413, 413] == [one["status"] for one in some.json()["answers"]]
    assert "/queries/2" == some.json()["answers"][2]["problem"]["pointer"]
    assert "takes 5 per request, and 0 are left" in some.json()["answers"][2]["problem"]["detail"]
    assert (413, "/queries") == (most.status_code, most.json()["pointer"])


@pytest.mark.parametrize("name", ["queries", "\\u0071ueries"])
def test_queries_are_counted_before_any_is_written_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written again, each takes some kilobytes: a small body once took all the memory that there was."""
    monkeypatch.setattr("orjson.dumps", lambda _: pytest.fail("a query was written again"))
    monkeypatch.setattr("orjson.loads", lambda text: text.strip(b'"').decode("unicode-escape"))

    with pytest.raises(Problem) as refused:
        split(f'{{"{name}": [{", ".join(["{}"] * 6)}]}}'.encode(), Limits(5, refuse_extra_features=False))

    assert (413, "/queries") == (refused.value.status, refused.value.pointer)


async def test_a_batch_lists_so_many_warnings_and_counts_the_rest(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each missing value of each query would be an object in the answer, which grew to 200 times the request."""
    monkeypatch.setattr(batch_route, "_MOST_WARNINGS", 5)
    query = {"features": [[1, None, None, None]]}

    response = await client.post("/v1/rerank/batch", json={"queries": [query] * 3})

    warnings = [one["answer"]["warnings"] for one in response.json()["answers"]]
    imputed = [
        {"code": "feature_imputed", "feature": name, "count": 1} for name in ("pagerank", "ctr:7d", "age")
    ]
    omitted = {"code": "warnings_omitted", "feature": ""}
    assert [imputed, [*imputed[:2], omitted | {"count": 1}], [omitted | {"count": 3}]] == warnings


async def test_other_requests_are_answered_between_two_queries(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = batch_route._answer
    turns: list[int] = []

    async def counting(*arguments: Any, **options: Any) -> Any:
        # What is scheduled now runs as soon as the batch gives way.
        asyncio.get_running_loop().call_soon(turns.append, options["position"])
        before[options["position"]] = list(turns)
        return await answered(*arguments, **options)

    before: dict[int, list[int]] = {}
    monkeypatch.setattr(batch_route, "_answer", counting)
    await client.post("/v1/rerank/batch", json={"queries": [{"features": [ROW]}] * 3})

    assert {0: [], 1: [0], 2: [0, 1]} == before


async def test_every_query_is_counted(client: httpx.AsyncClient) -> None:
    await client.post(
        "/v1/rerank/batch", json={"queries": [{"features": [ROW]}, {"features": [ROW]}, {"features": [[1]]}]}
    )

    metrics = (await client.get("/metrics")).text

    assert 'localrank_requests_total{api="rerank_batch",model="tiny",outcome="ok",version="3"} 2.0' in metrics
    assert (
        'localrank_requests_total{api="rerank_batch",model="tiny",outcome="invalid",version="3"} 1.0'
        in metrics
    )
