"""``POST /v1/evaluate``: the same figures as offline, under limits of its own, after live requests."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localrank.metrics import measure
from localrank_service.apis.evaluate import measuring as evaluating
from localrank_service.process.settings import Settings
from localrank_training.data.writing import convert
from tests.described import DOCUMENT

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker
    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio
TEXT = {"content-type": "text/plain"}
#: Of four features.
VALUES: list[list[float | None]] = [
    [1.0, -0.5, 3.4028235e38, 1e-45],
    [0.0, 0.0, None, 7.0],
    [-0.0, None, 1.1, 0.0],
    [1e10, 0.0, 0.0, 2.5],
]


def judged(queries: list[Matrix]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(4)
    return [
        {
            "query_id": f"q{number}",
            "features": query.tolist(),
            "labels": rng.integers(0, 3, len(query)).tolist(),
        }
        for number, query in enumerate(queries)
    ]


def letor(queries: list[dict[str, Any]]) -> bytes:
    """Documents of all queries in turns."""
    lines = [
        (
            row,
            number,
            f"{label} qid:{one['query_id']} " + " ".join(f"{i}:{x!r}" for i, x in enumerate(values, 1)),
        )
        for number, one in enumerate(queries)
        for row, (label, values) in enumerate(zip(one["labels"], one["features"], strict=True))
    ]
    return "\n".join(line for _, _, line in sorted(lines)).encode()


async def test_figures_are_those_of_the_ranker_itself(
    client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    exam = judged(queries)
    labels = np.concatenate([one["labels"] for one in exam])
    offsets = np.concatenate([[0], np.cumsum([len(one["labels"]) for one in exam])])
    rankings = [tiny_ranker.rank(query) for query in queries]
    names = ["ndcg@5", "map", "err@10"]
    expected = measure(
        labels, np.concatenate([one.scores for one in rankings]), offsets, names, "standard-skip"
    )

    answer = await client.post(
        "/v1/evaluate",
        json={"queries": exam, "metrics": names, "convention": "standard-skip", "per_query": True},
    )

    found = answer.json()
    assert 200 == answer.status_code
    assert [one.to_json() for one in expected] == found["metrics"]
    assert [one.per_query[3] for one in expected] == list(found["per_query"][3]["metrics"].values())
    assert ("tiny", 3, "champion", 12, 240) == tuple(
        found[name] for name in ("model", "version", "alias", "queries", "documents")
    )
    assert 12 == sum(found["routes"].values())
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p99"] <= found["latency_ms"]["max"]
    assert {"sign", "route", "score", "order"} == set(found["stages_ms"])
    assert found["request_id"] == answer.headers["x-request-id"]


async def test_letor_text_gives_the_same_figures(client: httpx.AsyncClient, queries: list[Matrix]) -> None:
    exam = judged(queries)
    in_json = await client.post("/v1/evaluate", json={"queries": exam, "metrics": ["ndcg@3", "mrr"]})

    in_text = await client.post(
        "/v1/evaluate?metrics=ndcg@3&metrics=mrr&model=tiny@3", content=letor(exam), headers=TEXT
    )

    assert 200 == in_text.status_code
    assert in_json.json()["metrics"] == in_text.json()["metrics"]
    assert (None, "champion") == (in_text.json()["alias"], in_json.json()["alias"])


async def test_all_forms_of_documents_are_read(client: httpx.AsyncClient) -> None:
    named = {"bm25": 1, "pagerank": 2, "ctr:7d": None, "age": 4}
    forms: list[dict[str, Any]] = [
        {"documents": [{"id": "a", "features": named}, {"features": [4, 3, 2, 1]}], "labels": [1, 0]},
        {"features": [[1, 2, None, 4], [4, 3, 2, 1]], "labels": [1, 0], "ids": ["a", "b"]},
        {"features": [], "labels": []},
    ]

    answer = await client.post("/v1/evaluate", json={"queries": forms})

    assert 200 == answer.status_code
    assert (3, 4, ["ndcg@10", "map"]) == (
        answer.json()["queries"], answer.json()["documents"], [one["metric"] for one in answer.json()["metrics"]]
    )  # fmt: skip


async def test_nothing_to_evaluate_is_answered(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/v1/evaluate", json={"queries": []})).json()

    assert (0, None, None) == (answer["queries"], answer["latency_ms"], answer["metrics"][0]["mean"])


QUERY: dict[str, Any] = {"features": [[1, 2, 3, 4]], "labels": [1]}


@pytest.mark.parametrize(
    ("body", "status", "pointer", "detail"),
    [
        ({}, 422, "/queries", "queries: expected a list of objects, found null"),
        ({"queries": {}}, 422, "/queries", "expected a list of objects"),
        ({"queries": [QUERY], "metric": "map"}, 422, "/metric", "unknown member 'metric'"),
        ({"queries": [QUERY], "metrics": ["auc"]}, 422, "/metrics", "metric 'auc': expected one of map"),
        ({"queries": [QUERY], "metrics": ["map"] * 33}, 422, "/metrics", "33 metrics; expected at most 32"),
        ({"queries": [QUERY], "convention": "trec"}, 422, "/convention", "expected one of letor3"),
        (
            {"queries": [QUERY], "convention": "mslr", "top_grade": 9},
            422,
            "/top_grade",
            "its top grade is always 4",
        ),
        ({"queries": [QUERY], "metrics": ["ndcg@0"]}, 422, "/metrics", "ndcg@0"),
        ({"queries": [QUERY], "metrics": ["ndcg@99999999999999999999"]}, 422, "/metrics", "99999999"),
        ({"queries": [QUERY], "metrics": "map"}, 422, "/metrics", "metrics: expected a list of texts"),
        ({"queries": [QUERY], "metrics": [1]}, 422, "/metrics", "metrics: expected a list of texts"),
        ({"queries": [QUERY], "top_grade": 0}, 422, "/top_grade", "an integer of at least 1, found 0"),
        ({"queries": [QUERY], "top_grade": 2**53}, 422, "/top_grade", "top grade: expected 1 to"),
        ({"queries": [QUERY], "per_query": None}, 422, "/per_query", "expected true or false, found null"),
        ({"queries": [QUERY], "model": "other"}, 404, "/model", "no model 'other'"),
        ({"queries": [QUERY], "contract": "sha256:0"}, 409, "/contract", "the model's is"),
        ({"queries": [QUERY, [1]]}, 422, "/queries/1", "expected an object"),
        ({"queries": [QUERY, {"features": [[1, 2, 3, 4]]}]}, 422, "/queries/1", "the query has no labels"),
        ({"queries": [QUERY | {"labels": [1, 2]}]}, 422, "/queries/0/labels", "2 labels for 1 documents"),
        ({"queries": [QUERY | {"labels": [-1]}]}, 422, "/queries/0/labels/0", "a number of at least 0"),
        ({"queries": [QUERY | {"labels": None}]}, 422, "/queries/0/labels", "at least 0, found null"),
        ({"queries": [QUERY | {"labels": "1"}]}, 422, "/queries/0/labels", 'at least 0, found "1"'),
        ({"queries": [QUERY | {"labels": [0, True]}]}, 422, "/queries/0/labels/1", "found true"),
        ({"queries": [QUERY | {"query_id": []}]}, 422, "/queries/0/query_id", "found a list"),
        ({"queries": [QUERY | {"labels": [1.5]}], "convention": "mslr"}, 422, "/queries", "grades 0 to 4"),
        ({"queries": [QUERY | {"top_n": 3}]}, 422, "/queries/0/top_n", "unknown member 'top_n'"),
        ({"queries": [QUERY, QUERY | {"features": [[1, 2]]}]}, 422, "/queries/1/features/0", "expected 4"),
        ({"queries": [QUERY | {"features": [[None, 2, 3, 4]]}]}, 422, "/queries/0/features/0/0", "bm25"),
    ],
)
async def test_what_is_wrong_is_said(
    client: httpx.AsyncClient, body: dict[str, Any], status: int, pointer: str, detail: str
) -> None:
    answer = await client.post("/v1/evaluate", json=body)

    assert (status, pointer) == (answer.status_code, answer.json()["pointer"])
    assert detail in answer.json()["detail"]


@pytest.mark.parametrize(
    ("options", "status", "detail"),
    [
        ("top_n=3", 422, "unknown option 'top_n' in the query string; expected some of model, metrics"),
        ("model=tiny&model=tiny", 400, "option 'model' stands twice in the query string"),
        ("top_grade=x", 422, 'top_grade: expected an integer of at least 1, found "x"'),
        ("top_grade=999999999999999999", 422, "top grade: expected 1 to"),
        ("per_query=yes", 422, "expected true or false"),
        ("metrics=auc", 422, "metric 'auc'"),
        ("contract=sha256:0", 409, "the model's is"),
    ],
)
async def test_wrong_options_of_text_point_nowhere_in_the_body(
    client: httpx.AsyncClient, options: str, status: int, detail: str
) -> None:
    answer = await client.post(f"/v1/evaluate?{options}", content=b"1 qid:1 1:1", headers=TEXT)

    assert (status, detail in answer.json()["detail"]) == (answer.status_code, True)
    assert answer.json()["pointer"] is None or status == 409


async def test_options_of_text_mean_what_those_of_json_mean(
    client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    exam = judged(queries)
    options: dict[str, Any] = {
        "model": "tiny@3",
        "contract": tiny_ranker.contract.digest,
        "metrics": ["err@5", "p@1"],
        "convention": "standard-skip",
        "top_grade": 7,
        "per_query": True,
    }
    in_json = (await client.post("/v1/evaluate", json={**options, "queries": exam})).json()
    defaults = (await client.post("/v1/evaluate", json={"queries": exam, "metrics": []})).json()

    in_text = await client.post(
        "/v1/evaluate", params={**options, "per_query": "true"}, content=letor(exam), headers=TEXT
    )

    figures = ("alias", "metrics", "per_query", "queries", "documents")
    assert [in_json[name] for name in figures] == [in_text.json()[name] for name in figures]
    assert ["ndcg@10", "map"] == [one["metric"] for one in defaults["metrics"]]


async def test_it_has_limits_of_its_own(connect: Any, tiny_model: LiveModel) -> None:
    limits = Settings(evaluate_queries=2, evaluate_documents=3, max_documents=1)
    two = QUERY | {"features": [[1, 2, 3, 4]] * 2, "labels": [1, 0]}
    async with connect(limits, models=[tiny_model]) as client:
        fits = await client.post("/v1/evaluate", json={"queries": [QUERY, two]})
        queries = await client.post("/v1/evaluate", json={"queries": [QUERY] * 3})
        documents = await client.post("/v1/evaluate", json={"queries": [two, two]})
        text = await client.post("/v1/evaluate", content=letor([two | {"query_id": 1}] * 2), headers=TEXT)
        many = [two | {"query_id": number, "features": [[1, 2, 3, 4]], "labels": [1]} for number in range(3)]
        text_queries = await client.post("/v1/evaluate", content=letor(many), headers=TEXT)

    assert 200 == fits.status_code
    assert [413] * 4 == [one.status_code for one in (queries, documents, text, text_queries)]
    assert "3 queries; this server evaluates 2 per request" == queries.json()["detail"]
    assert "more than 3 documents" in documents.json()["detail"]


async def test_few_named_features_of_many_documents_cannot_fill_the_memory(
    connect: Any, tiny_model: LiveModel
) -> None:
    """Each row that is read has all features of the model, however few its text names."""
    limits = Settings(max_body_bytes=2**18, evaluate_seconds=600)
    row = {"features": {"bm25": 1, "pagerank": 1, "ctr:7d": 1}}
    short = {"documents": [row] * 1000, "labels": [0] * 1000}
    async with connect(limits, models=[tiny_model]) as client:
        # 65,536 numbers are 16,384 documents of four features.
        text = await client.post("/v1/evaluate", content=b"1 qid:1 1:1\n" * 16_385, headers=TEXT)
        fits = await client.post("/v1/evaluate", content=b"1 qid:1 1:1\n" * 16_384, headers=TEXT)
        packed = gzip.compress(json.dumps({"queries": [short] * 17}).encode())
        named = await client.post(
            "/v1/evaluate",
            content=packed,
            headers={"content-encoding": "gzip", "content-type": "application/json"},
        )

    assert (413, 200) == (text.status_code, fits.status_code)
    assert "more than 65536 numbers" in text.json()["detail"]
    assert 413 == named.status_code


async def test_it_can_be_off(connect: Any, tiny_model: LiveModel) -> None:
    async with connect(Settings(evaluate_seconds=0), models=[tiny_model]) as client:
        answer = await client.post("/v1/evaluate", json={"queries": []})

    assert 409 == answer.status_code
    assert "set LOCALRANK_EVALUATE_SECONDS" in answer.json()["detail"]


async def test_it_waits_for_live_requests_and_gives_up_in_time(
    connect: Any, tiny_model: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = threading.Event()
    monkeypatch.setattr(evaluating, "sleep", lambda seconds: pauses.set() if seconds else None)
    async with connect(Settings(evaluate_seconds=0.2), models=[tiny_model]) as client:
        admission = client._transport.app.state.service.admission
        admission.waiting = 1
        late = await client.post("/v1/evaluate", json={"queries": [QUERY]})
        admission.waiting = 0
        in_time = await client.post("/v1/evaluate", json={"queries": []})

    assert pauses.is_set()
    assert (504, 200) == (late.status_code, in_time.status_code)
    assert "has ranked 0 of 1 queries in 0.2 s" in late.json()["detail"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"1 qid:1 1:1\n" * 50, "text/plain"),
        (json.dumps({"queries": [QUERY] * 50}).encode(), "application/json"),
    ],
)
async def test_reading_ends_in_time_too(
    connect: Any, tiny_model: LiveModel, content: bytes, kind: str
) -> None:
    async with connect(Settings(evaluate_seconds=1e-4), models=[tiny_model]) as client:
        late = await client.post("/v1/evaluate", content=content, headers={"content-type": kind})
        again = await client.post("/v1/evaluate", content=content, headers={"content-type": kind})

    assert (504, 504) == (late.status_code, again.status_code)
    assert "reading the judged queries took longer than 0.0001 s" in late.json()["detail"]


async def test_one_evaluation_at_a_time(
    connect: Any, tiny_model: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    run = evaluating.EvaluationRun.run

    def slow(self: evaluating.EvaluationRun) -> dict[str, Any]:
        loop.call_soon_threadsafe(begun.set)
        go.wait(30)
        return run(self)

    monkeypatch.setattr(evaluating.EvaluationRun, "run", slow)
    async with connect(models=[tiny_model]) as client:
        first = asyncio.create_task(client.post("/v1/evaluate", json={"queries": [QUERY]}))
        await begun.wait()
        second = await client.post("/v1/evaluate", json={"queries": [QUERY]})
        ranked = await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]]})
        go.set()
        answered = await first

    assert (200, 429, 200) == (answered.status_code, second.status_code, ranked.status_code)
    assert "1" == second.headers["retry-after"]


async def test_it_is_not_counted_among_live_requests(client: httpx.AsyncClient) -> None:
    await client.post("/v1/evaluate", json={"queries": [QUERY]})

    assert "localrank_requests_total{" not in (await client.get("/metrics")).text


async def test_the_example_of_the_documentation_is_one(client: httpx.AsyncClient) -> None:
    [example] = DOCUMENT["components"]["schemas"]["EvaluateRequest"]["examples"]

    assert 404 == (await client.post("/v1/evaluate", json=example)).status_code


async def test_routes_and_stages_are_those_of_the_rankings(
    client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    """A query of one document has no signature, so the global scorer ranks it."""
    exam = [*judged(queries[:3]), QUERY | {"query_id": "one"}]
    begun = time.perf_counter()

    found = (await client.post("/v1/evaluate", json={"queries": exam, "per_query": True})).json()

    clusters = [str(tiny_ranker.rank(query).route.cluster) for query in queries[:3]]
    assert {one: clusters.count(one) for one in clusters} | {"global": 1} == found["routes"]
    assert sorted(found["routes"]) == list(found["routes"])
    assert ["q0", "q1", "q2", "one"] == [one["query_id"] for one in found["per_query"]]
    spent = found["stages_ms"]
    assert sum(spent.values()) <= found["latency_ms"]["mean"] + 0.01
    assert {"read", "rank", "measure"} == set(found["timings_ms"])
    assert found["timings_ms"]["rank"] >= 4 * found["latency_ms"]["mean"] - 0.01
    assert all(value > 0 for value in found["timings_ms"].values())
    assert sum(found["timings_ms"].values()) <= (time.perf_counter() - begun) * 1e3


async def test_per_query_figures_are_left_out_unless_asked_for(client: httpx.AsyncClient) -> None:
    for more in ({}, {"per_query": False}):
        assert (
            "per_query" not in (await client.post("/v1/evaluate", json={"queries": [QUERY], **more})).json()
        )


@pytest.mark.parametrize(
    ("model", "alias"),
    [(None, "champion"), ("tiny", "champion"), ("tiny@3", None), ("tiny@champion", "champion")],
)
async def test_the_alias_is_that_of_the_request(
    model: str | None, alias: str | None, client: httpx.AsyncClient
) -> None:
    answer = await client.post("/v1/evaluate", json={"queries": [QUERY], "model": model})

    assert alias == answer.json()["alias"]
    assert ["request_id", "model", "version", "alias"] == list(answer.json())[:4]
    assert "no-store" == answer.headers["cache-control"]


async def test_an_error_of_a_query_names_it(client: httpx.AsyncClient) -> None:
    missing = {"features": [[1, 2, 3, 4], [None, 2, 3, 4]], "labels": [1, 0]}

    by_position = await client.post("/v1/evaluate", json={"queries": [QUERY, missing]})
    by_name = await client.post("/v1/evaluate", json={"queries": [QUERY, missing | {"query_id": 0}]})
    in_text = await client.post("/v1/evaluate", content=b"1 qid:a 1:? 2:1\n", headers=TEXT)

    assert [422] * 3 == [one.status_code for one in (by_position, by_name, in_text)]
    assert by_position.json()["detail"].startswith("query 1: feature 'bm25' of document 1 is missing")
    assert by_name.json()["detail"].startswith("query 0: feature 'bm25' of document 1 is missing")
    assert in_text.json()["detail"].startswith("query a: ")
    assert "/queries/1/features/1/0" == by_position.json()["pointer"] == by_name.json()["pointer"]
    assert "" == in_text.json()["pointer"]


async def test_labels_that_cannot_be_measured_are_refused_before_anything_is_ranked(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluating, "rank_plainly", lambda *_: pytest.fail("ranked"))
    high = {"features": [[1, 2, 3, 4]], "labels": [5]}

    in_json = await client.post("/v1/evaluate", json={"queries": [high], "metrics": ["err@5"]})
    in_text = await client.post("/v1/evaluate?metrics=err@5", content=b"5 qid:1 1:1\n", headers=TEXT)

    assert (422, "/queries") == (in_json.status_code, in_json.json()["pointer"])
    assert (422, None) == (in_text.status_code, in_text.json()["pointer"])


@pytest.mark.parametrize(
    "line",
    [
        b"0 qid:1 1:" + b"111:" * 40 + b"_",
        b"0 qid:1 1:" + b"1" * 16_000 + b"x",
        b"1 qid:1 1:1,2:1",
        b"1 qid:1 1:nan",
        b"1 qid:1 1:inf",
        b"1 qid:1 1:1e39",
        b"1 qid:\xff 1:1",
    ],
)
async def test_a_wrong_line_is_refused_at_once(client: httpx.AsyncClient, line: bytes) -> None:
    begun = time.process_time()

    answer = await client.post("/v1/evaluate", content=b"1 qid:1 1:1\n" + line, headers=TEXT)

    assert 422 == answer.status_code, answer.text
    assert answer.json()["detail"].startswith("line 2, column ")
    assert time.process_time() - begun < 1


async def test_lines_are_gathered_by_query_across_blocks_and_what_is_left_out_is_zero(
    connect: Any, tiny_model: LiveModel
) -> None:
    """Blocks have 64 KiB; the second wrong line is in a later one."""
    lines = [f"{at % 3} qid:{at % 5} 1:{at} 3:-1e2 # comment {at}" for at in range(3000)]
    gathered = [
        {
            "query_id": str(query),
            "labels": [at % 3 for at in range(query, 3000, 5)],
            "features": [[at, 0, -100, 0] for at in range(query, 3000, 5)],
        }
        for query in range(5)
    ]
    asked = {"metrics": ["ndcg", "mrr"], "per_query": "true"}
    async with connect(models=[tiny_model]) as client:
        in_text = await client.post(
            "/v1/evaluate", params=asked, content="\ufeff# by hand\n\n" + "\n".join(lines), headers=TEXT
        )
        in_json = await client.post("/v1/evaluate", json={**asked, "per_query": True, "queries": gathered})
        lines[2900] = "wrong"
        wrong = await client.post("/v1/evaluate", content="\n".join(lines), headers=TEXT)
        nothing = await client.post("/v1/evaluate", content="\ufeff# nothing\n\n", headers=TEXT)

    figures = ("metrics", "per_query", "queries", "documents")
    assert [in_json.json()[name] for name in figures] == [in_text.json()[name] for name in figures]
    assert wrong.json()["detail"].startswith("line 2901, ")
    assert 0 == nothing.json()["queries"]


@pytest.mark.parametrize("character", ["x", "\r", "1", "#"])
async def test_a_line_longer_than_a_block_is_refused_and_none_of_it_is_left_out(
    client: httpx.AsyncClient, character: str
) -> None:
    line = "1 qid:a 1:1" + character * 70_000 + " 2:2"

    answer = await client.post("/v1/evaluate", content=f"1 qid:a 1:1\n{line}\n1 qid:a 1:1\n", headers=TEXT)

    said = "line 2, column 16641: expected at most 16640 bytes on a line, found more"
    assert (422, said) == (answer.status_code, answer.json()["detail"])


async def test_what_convert_writes_can_be_evaluated(client: httpx.AsyncClient, tmp_path: Path) -> None:
    """Missing values, zeros left out, the smallest and the largest numbers, comments, ids with colons."""
    labels = [1.5, 0.0, 2.0, 1e-300]
    table = pa.table(
        {
            "qid": ["a:b", "é", "a:b", "é"],
            "label": labels,
            "doc_id": ["d # 1", "", "漢", "x"],
            **{f"f{feature}": pa.array(values, pa.float32()) for feature, values in enumerate(VALUES, 1)},
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    figures = []

    for sparse in (False, True):
        convert([tmp_path / "a.parquet"], tmp_path / f"{sparse}.txt", to="text", sparse=sparse)
        text = (tmp_path / f"{sparse}.txt").read_bytes()
        answer = await client.post("/v1/evaluate?metrics=ndcg&metrics=mrr", content=text, headers=TEXT)
        assert 200 == answer.status_code, answer.text
        figures.append([answer.json()[name] for name in ("queries", "documents", "metrics")])

    labelled = [
        {"labels": [labels[row] for row in rows],
         "features": [[values[row] for values in VALUES] for row in rows]}
        for rows in ([0, 2], [1, 3])
    ]  # fmt: skip
    answer = await client.post("/v1/evaluate", json={"queries": labelled, "metrics": ["ndcg", "mrr"]})
    assert [2, 4] == figures[0][:2]
    assert figures == [[answer.json()[name] for name in ("queries", "documents", "metrics")]] * 2
