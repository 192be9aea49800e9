"""The client: what it sends, what it makes of answers, and when it tries again."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from contextlib import asynccontextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from localrank.client import (
    AsyncClient,
    Client,
    Query,
    Reranked,
    Route,
    ServiceError,
    ServiceProblem,
    ServiceUnreachable,
    Unavailable,
    Warned,
)
from localrank.client.clients import KEPT_IDLE
from localrank.client.flows import Budget, Patience
from localrank.client.query import QueryOptions
from localrank.errors import InvalidDocuments

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

ANSWER: dict[str, Any] = {
    "request_id": "r",
    "model": "demo",
    "version": 3,
    "results": [{"rank": 1, "index": 2, "score": 2.5}, {"rank": 2, "index": 0, "score": 0.1 + 0.2}],
    "route": {
        "strategy": "lsh",
        "cluster": 2,
        "similarity": 0.8,
        "margin": 0.1,
        "candidates": 7,
        "fallback": None,
    },
    "degraded": None,
    "warnings": [{"code": "feature_imputed", "feature": "ctr", "count": 2}],
    "timings_ms": {"total": 0.5},
}
PROBLEM = {
    "status": 422,
    "detail": "why",
    "pointer": "/0/1",
    "type": "about:blank",
    "title": "t",
    "error": "why",
}
FEATURES = np.arange(12, dtype=np.float32).reshape(3, 4)


class Answers:
    """A service that gives prepared answers, and keeps what it was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def client(self, **arguments: Any) -> Client:
        return Client(transport=httpx.MockTransport(self), **arguments)


def ok() -> httpx.Response:
    return httpx.Response(200, json=ANSWER)


def busy(status: int = 503, after: str | None = "0") -> httpx.Response:
    return httpx.Response(
        status, json=PROBLEM | {"status": status}, headers={} if after is None else {"retry-after": after}
    )


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which take no time."""
    taken: list[float] = []
    monkeypatch.setattr("localrank.client.clients.time.sleep", taken.append)
    return taken


def test_the_options_of_a_call_are_those_of_a_query() -> None:
    fields = Query.__dataclass_fields__

    assert {name: field.type for name, field in fields.items() if name not in {"features", "ids"}} == {
        name: hint.__forward_arg__ for name, hint in QueryOptions.__annotations__.items()
    }


def test_arrays_go_out_as_bytes_and_come_back_as_arrays() -> None:
    service = Answers(ok())

    with service.client(model="demo", api_key="secret") as client:
        answer = client.rerank(
            FEATURES,
            ["a", ("b", 1), None],
            top_n=2,
            contract="sha256:1",
            explain="contributions",
            compare=(2, 0),
        )

    [request] = service.requests
    assert ("POST", "/v1/rerank") == (request.method, request.url.path)
    assert "Bearer secret" == request.headers["authorization"]
    assert "application/x-npy" == request.headers["content-type"]
    assert [
        ("model", "demo"),
        ("top_n", "2"),
        ("explain", "contributions"),
        ("contract", "sha256:1"),
        ("compare", "2,0"),
    ] == request.url.params.multi_items()
    sent = np.load(io.BytesIO(request.content))
    assert np.float32 == sent.dtype
    np.testing.assert_array_equal(FEATURES, sent)
    np.testing.assert_array_equal([2, 0], answer.order)
    np.testing.assert_array_equal([2.5, 0.1 + 0.2], answer.scores)
    assert (None, "a") == answer.ids
    assert Route("lsh", 2, 0.8, 0.1, 7, None) == answer.route
    assert (Warned("feature_imputed", "ctr", 2),) == answer.warnings
    assert ("demo", 3, "r", 0.5) == (
        answer.model,
        answer.version,
        answer.request_id,
        answer.timings_ms["total"],
    )


@pytest.mark.parametrize(
    ("features", "dtype"),
    [
        (FEATURES.astype(np.float64), np.float32),
        (FEATURES.astype(np.int64), np.float32),
        (FEATURES.astype(np.float16), np.float16),
        (FEATURES.tolist(), np.float32),
        (np.asfortranarray(FEATURES), np.float32),
        (FEATURES[::-1][::-1], np.float32),
    ],
)
def test_whatever_numbers_are_given_float32_arrives(features: Any, dtype: Any) -> None:
    service = Answers(ok())

    with service.client() as client:
        client.rerank(features)

    sent = np.load(io.BytesIO(service.requests[0].content))
    assert (dtype, True) == (sent.dtype, sent.flags.c_contiguous)
    np.testing.assert_array_equal(FEATURES, sent)


def test_documents_by_name_go_as_json() -> None:
    documents: list[dict[str, Any]] = [{"bm25": np.float32(0.5), "ctr": None}, {"bm25": float("nan")}, {}]
    service = Answers(ok())

    with service.client() as client:
        client.rerank(documents, ids=[1, 2, 3])

    assert {
        "documents": [
            {"features": {"bm25": 0.5, "ctr": None}},
            {"features": {"bm25": None}},
            {"features": {}},
        ]
    } == json.loads(service.requests[0].content)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_with_texts_goes_as_values(make: Callable[[Any], Any]) -> None:
    frame = make({"brand": ["nike", None], "bm25": [0.5, 0.25], "sale": [True, False]})
    service = Answers(ok())

    with service.client() as client:
        client.rerank(frame)

    assert {
        "feature_names": ["brand", "bm25", "sale"],
        "features": [["nike", 0.5, True], [None, 0.25, False]],
    } == json.loads(service.requests[0].content)


def test_a_date_is_no_value() -> None:
    service = Answers(ok())

    with service.client() as client, pytest.raises(InvalidDocuments, match="found a date"):
        client.rerank([[1.0, date(2026, 1, 2)]])

    assert [] == service.requests


def test_no_documents_may_be_sent() -> None:
    service = Answers(httpx.Response(200, json=ANSWER | {"results": []}))

    with service.client() as client:
        answer = client.rerank([], ids=[])

    assert {"features": []} == json.loads(service.requests[0].content)
    assert ((), 0) == (answer.ids, len(answer.order))


def test_ids_that_are_not_as_many_are_refused_here() -> None:
    with Answers(ok()).client() as client, pytest.raises(ValueError, match="2 ids for 3 documents"):
        client.rerank(FEATURES, ids=[1, 2])


def test_a_problem_is_raised_with_the_service_s_words_and_not_tried_again(pauses: list[float]) -> None:
    service = Answers(httpx.Response(422, json=PROBLEM, headers={"x-request-id": "r-1"}))

    with service.client() as client, pytest.raises(ServiceError, match="422: why") as caught:
        client.rerank(FEATURES)

    assert ServiceProblem(422, "why", "/0/1", "about:blank", "r-1") == caught.value.problem
    assert (1, []) == (len(service.requests), pauses)


@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"[]", b'{"detail": "x"}', b""])
def test_an_error_of_something_in_between_is_raised_as_well(body: bytes) -> None:
    with (
        Answers(httpx.Response(502, content=body)).client() as client,
        pytest.raises(ServiceError, match="502: Bad Gateway"),
    ):
        client.rerank(FEATURES)


@pytest.mark.parametrize(
    "failure",
    [
        busy(),
        busy(429),
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("slow"),
        httpx.PoolTimeout("full"),
    ],
)
def test_what_was_not_begun_is_tried_again(failure: Any, pauses: list[float]) -> None:
    service = Answers(failure, failure, ok())

    with service.client() as client:
        answer = client.rerank(FEATURES)

    assert isinstance(answer, Reranked)
    assert (3, 2) == (len(service.requests), len(pauses))
    assert service.requests[0].content == service.requests[2].content


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (busy(503, after=None), Unavailable),
        (busy(503, after="Wed, 21 Oct 2026 07:28:00 GMT"), Unavailable),
        (busy(500), ServiceError),
        (busy(504), ServiceError),
        (httpx.ReadError("broken"), ServiceUnreachable),
        (httpx.ReadTimeout("slow"), ServiceUnreachable),
        (httpx.WriteError("broken"), ServiceUnreachable),
        (httpx.RemoteProtocolError("gone"), ServiceUnreachable),
    ],
)
def test_what_may_have_been_begun_is_not_tried_again(
    failure: Any, raised: type[Exception], pauses: list[float]
) -> None:
    service = Answers(failure)

    with service.client() as client, pytest.raises(raised):
        client.rerank(FEATURES)

    assert (1, []) == (len(service.requests), pauses)


def test_tries_end(pauses: list[float]) -> None:
    service = Answers(busy())

    with service.client(retries=4) as client, pytest.raises(Unavailable):
        client.rerank(FEATURES)

    assert (5, 4) == (len(service.requests), len(pauses))


def test_a_failure_names_the_host_but_no_password() -> None:
    """Nothing listens on the port, which was free a moment ago."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with (
        Client(f"http://user:secret@127.0.0.1:{port}", retries=0) as client,
        pytest.raises(ServiceUnreachable) as caught,
    ):
        client.rerank(FEATURES)

    assert str(caught.value).startswith(f"127.0.0.1:{port}: ConnectError: ")
    assert "secret" not in str(caught.value)


def test_pauses_grow_with_jitter_and_respect_what_the_service_asks(pauses: list[float]) -> None:
    refused = Answers(httpx.ConnectError("refused"))
    with refused.client(retries=4) as client, pytest.raises(ServiceUnreachable, match="refused"):
        client.rerank(FEATURES)
    own = list(pauses)
    pauses.clear()
    with Answers(busy(after="3")).client(retries=2) as client, pytest.raises(Unavailable):
        client.rerank(FEATURES)

    assert all(0 <= pause <= 0.05 * 2**turn for turn, pause in enumerate(own))
    assert len(set(own)) == 4
    assert all(3.0 <= pause <= 3.75 for pause in pauses)
    assert 2 == len(pauses)


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jitter always gives the longest pause."""
    monkeypatch.setattr("localrank.client.flows.random.uniform", lambda _least, most: most)


@pytest.mark.usefixtures("longest")
def test_pauses_double_up_to_two_seconds() -> None:
    patience = Patience(time.monotonic() + 600, 600, 8, Budget())

    pauses = [patience.wait(None) for _ in range(9)]

    assert [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, None] == pauses


@pytest.mark.usefixtures("longest")
def test_a_pause_that_is_asked_for_becomes_up_to_a_quarter_longer() -> None:
    patience = Patience(time.monotonic() + 600, 600, 2, Budget())

    assert [5.0, 10.0, None] == [patience.wait(asked) for asked in (4.0, 8.0, 0.0)]


def test_ten_retries_are_allowed_and_then_one_for_every_ten_calls() -> None:
    unused, budget = Budget(), Budget()
    budget.earn()  # it holds ten at most

    assert [True] * 10 + [False] == [unused.spend() for _ in range(11)]
    assert [True] * 10 + [False] == [budget.spend() for _ in range(11)]
    for _ in range(9):
        budget.earn()
    assert not budget.spend()
    for _ in range(2):  # one more than ten, as ten times a tenth is rounded
        budget.earn()
    assert [True, False] == [budget.spend() for _ in range(2)]


def test_a_call_whose_time_is_over_is_not_sent() -> None:
    with pytest.raises(ServiceUnreachable, match=r"no answer within 0.5 s"):
        Patience(time.monotonic(), 0.5, 2, Budget()).left()
    assert 0 < Patience(time.monotonic() + 60, 0.5, 2, Budget()).left() <= 60


def test_an_idle_connection_is_given_up_before_the_service_does() -> None:
    """The service keeps it for 75 seconds."""
    assert 30.0 == KEPT_IDLE.keepalive_expiry


@pytest.mark.anyio
async def test_both_clients_send_every_option() -> None:
    service = Answers(ok())
    options: dict[str, Any] = {
        "model": "web@2",
        "top_n": 1,
        "explain": "route",
        "contract": "sha256:1",
        "feature_names": ["w", "x", "y", "z"],
        "compare": (0, 2),
        "timeout_ms": 2.5,
        "allow_degraded": False,
        "fallback_feature": "w",
        "query_id": "q",
        "session_id": 7,
    }
    without_names = {name: value for name, value in options.items() if name != "feature_names"}
    with service.client(model="demo") as client:
        client.rerank(FEATURES, **options)
        client.rerank(FEATURES, **without_names)
    async with asynchronous(service, model="demo") as other:
        await other.rerank(FEATURES, **options)
        await other.rerank(FEATURES, **without_names)

    first, second, *same = service.requests
    assert [(one.url, one.content) for one in (first, second)] == [(one.url, one.content) for one in same]
    assert options | {"compare": [0, 2], "features": FEATURES.tolist()} == json.loads(first.content)
    assert {
        "model": "web@2",
        "top_n": "1",
        "explain": "route",
        "contract": "sha256:1",
        "compare": "0,2",
        "timeout_ms": "2.5",
        "allow_degraded": "false",
        "fallback_feature": "w",
        "query_id": "q",
        "session_id": "7",
    } == dict(second.url.params)


@pytest.mark.anyio
async def test_a_call_that_says_nothing_has_ten_seconds_and_two_retries(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("localrank.client.clients.anyio.sleep", sleep)
    service = Answers(busy())

    with service.client() as client, pytest.raises(Unavailable):
        client.rerank(FEATURES)
    async with asynchronous(service) as other:
        with pytest.raises(Unavailable):
            await other.rerank(FEATURES)

    assert (6, 4) == (len(service.requests), len(pauses))
    assert 5 < service.requests[0].extensions["timeout"]["read"] <= 10
    assert {} == dict(service.requests[0].url.params)
    assert "authorization" not in service.requests[0].headers


@pytest.mark.anyio
async def test_both_clients_send_batches_feedback_and_ask_for_models() -> None:
    served = {
        "name": "web",
        "version": 3,
        "aliases": {"champion": 3},
        "contract": "sha256:1",
        "n_features": 2,
        "n_clusters": 4,
        "routing": "lsh",
        "default": True,
        "more": "later versions may say more",
    }
    replies = (
        httpx.Response(200, json={"models": [served]}),
        httpx.Response(200, json={"request_id": "b", "answers": [{"status": 200, "answer": ANSWER}]}),
        httpx.Response(200, json={"accepted": 1}),
    )
    service = Answers(*replies, *replies)
    with service.client() as client:
        models = client.models(timeout=3.0)
        batch = client.rerank_batch([Query(FEATURES)], timeout=3.0)
        accepted = client.feedback("r", clicks=[1], timeout=3.0)
    async with asynchronous(service) as other:
        assert models == await other.models(timeout=3.0)
        (same,) = await other.rerank_batch([Query(FEATURES)], timeout=3.0)
        assert accepted == await other.feedback("r", clicks=[1], timeout=3.0)

    assert ("web", 3, "lsh", True) == (
        models[0].name,
        models[0].version,
        models[0].routing,
        models[0].default,
    )
    assert isinstance(batch[0], Reranked)
    assert isinstance(same, Reranked)
    assert batch[0].request_id == same.request_id == "r"
    assert {"accepted": 1} == accepted
    assert [("GET", "/v1/models"), ("POST", "/v1/rerank/batch"), ("POST", "/v1/feedback")] * 2 == [
        (request.method, request.url.path) for request in service.requests
    ]
    assert all(request.extensions["timeout"]["read"] <= 3 for request in service.requests)
    (event,) = json.loads(service.requests[2].content)["events"]
    assert ("r", 0, 1, True) == tuple(event[name] for name in ("request_id", "query", "index", "click"))


@pytest.mark.anyio
async def test_a_closed_client_sends_nothing() -> None:
    service = Answers(ok())
    client, other = service.client(), AsyncClient(transport=httpx.MockTransport(service))
    with client:
        pass
    async with other:
        pass

    with pytest.raises(RuntimeError, match="closed"):
        client.rerank(FEATURES)
    with pytest.raises(RuntimeError, match="closed"):
        await other.rerank(FEATURES)


def test_an_answer_tells_its_experiment_its_teams_and_what_was_degraded() -> None:
    results = [one | {"team": team} for one, team in zip(ANSWER["results"], ("baseline", None), strict=True)]
    route = ANSWER["route"] | {"cluster": None, "fallback": "no_signature"}
    more = {
        "results": results,
        "route": route,
        "degraded": {"rung": "global", "reason": "deadline"},
        "experiment": {"name": "e", "arm": "interleaved"},
        "explanation": {"signature": {}},
    }
    shared = ANSWER["route"] | {"local": False, "shares": [0.25, 0.75]}
    service = Answers(
        httpx.Response(200, json=ANSWER | more), httpx.Response(200, json=ANSWER | {"route": shared})
    )
    with service.client() as client:
        first, second = client.rerank(FEATURES), client.rerank(FEATURES)

    assert ("baseline", None) == first.teams
    assert more["experiment"] == first.experiment
    assert more["degraded"] == first.degraded
    assert more["explanation"] == first.explanation
    assert not first.route.local  # there is no cluster
    assert (None, None, None, None) == (second.teams, second.experiment, second.degraded, second.explanation)
    assert (False, (0.25, 0.75)) == (second.route.local, second.route.shares)


def test_arrays_in_a_batch_are_rows_of_short_numbers_and_null_is_missing() -> None:
    batch = {"request_id": "b", "answers": [{"status": 200, "answer": ANSWER}] * 5}
    service = Answers(httpx.Response(200, json=batch), ok())
    small = np.array([[0.1, 2**-20]], np.float16)
    arrays: list[Any] = [
        FEATURES.astype(">f4"), [[0.1, np.nan], [np.inf, -3]], small, np.zeros((0, 4), np.float32), []
    ]  # fmt: skip
    with service.client() as client:
        client.rerank_batch([Query(one) for one in arrays])
        client.rerank(np.zeros((0, 4), np.float32))

    sent = [one["features"] for one in json.loads(service.requests[0].content)["queries"]]
    assert [FEATURES.tolist(), [[0.1, None], [1e39, -3]]] == sent[:2]
    assert small.astype(np.float32).tolist() == np.array(sent[2], np.float32).tolist()
    assert [[], []] == sent[3:]
    # The shape of an array tells the number of features even if there are no documents.
    assert (0, 4) == np.load(io.BytesIO(service.requests[1].content)).shape


def test_no_pause_goes_beyond_the_deadline(pauses: list[float]) -> None:
    service = Answers(busy(after="5"))

    with service.client(timeout=4.0) as client, pytest.raises(Unavailable):
        client.rerank(FEATURES)

    assert (1, []) == (len(service.requests), pauses)


def test_retries_stay_a_tenth_of_the_calls(pauses: list[float]) -> None:
    """A service in trouble gets ten retries, and then one for every ten calls."""
    service = Answers(busy())

    with service.client(retries=5) as client:
        for _ in range(110):
            with pytest.raises(Unavailable):
                client.rerank(FEATURES)

    assert 10 + 110 // 10 - 1 <= len(pauses) <= 10 + 110 // 10 + 1
    assert 110 + len(pauses) == len(service.requests)


@pytest.mark.usefixtures("pauses")
def test_the_time_left_is_what_a_try_may_take() -> None:
    service = Answers(busy(), ok())

    with service.client(timeout=7.0) as client:
        client.rerank(FEATURES)
        client.rerank(FEATURES, timeout=2.0)

    allowed = [request.extensions["timeout"]["read"] for request in service.requests]
    assert 6.0 < allowed[1] < allowed[0] <= 7.0
    assert allowed[2] <= 2.0


def test_a_batch_has_each_query_s_answer_or_error_in_its_place() -> None:
    batch = {
        "request_id": "b",
        "answers": [{"status": 200, "answer": ANSWER}, {"status": 422, "problem": PROBLEM}],
        "timings_ms": {},
    }
    service = Answers(httpx.Response(200, json=batch))
    queries = [Query(FEATURES, ids=["a", "b", "c"], top_n=2), Query([{"bm25": 1.0}], model="web")]

    with service.client(model="demo") as client:
        first, second = client.rerank_batch(queries)

    assert isinstance(first, Reranked)
    assert ("c", "a") == first.ids
    assert isinstance(second, ServiceError)
    assert ServiceProblem(422, "why", "/0/1", "about:blank", "b") == second.problem
    sent = json.loads(service.requests[0].content)["queries"]
    assert {"model": "demo", "features": FEATURES.tolist(), "top_n": 2} == sent[0]
    assert {"model": "web", "documents": [{"features": {"bm25": 1.0}}]} == sent[1]


@asynccontextmanager
async def asynchronous(
    handler: Callable[[httpx.Request], httpx.Response], **arguments: Any
) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(transport=httpx.MockTransport(handler), **arguments) as client:
        yield client


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_the_asynchronous_client_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("localrank.client.clients.anyio.sleep", sleep)
    service = Answers(busy(after="1"), httpx.ConnectError("refused"), ok())

    async with asynchronous(service) as client:
        answer = await client.rerank(FEATURES, ids=["a", "b", "c"])
        service.answers = [httpx.Response(422, json=PROBLEM)]
        with pytest.raises(ServiceError, match="why"):
            await client.rerank(FEATURES)
        service.answers = [httpx.ReadError("broken")]
        with pytest.raises(ServiceUnreachable):
            await client.rerank(FEATURES)

    assert ("c", "a") == answer.ids
    assert 2 == len(pauses)
    assert "application/x-npy" == service.requests[0].headers["content-type"]


@pytest.mark.anyio
async def test_an_asynchronous_call_ends_at_its_deadline() -> None:
    async def never(_request: httpx.Request) -> httpx.Response:
        await anyio.sleep_forever()
        raise AssertionError

    begun = time.monotonic()
    async with AsyncClient(transport=httpx.MockTransport(never), timeout=0.05) as client:
        with pytest.raises(ServiceUnreachable, match=r"no answer within 0.05 s"):
            await client.rerank(FEATURES)

    assert time.monotonic() - begun < 5


def test_one_client_serves_many_threads() -> None:
    service = Answers(ok())
    answers: list[Reranked] = []

    with service.client() as client:
        threads = [
            threading.Thread(target=lambda: answers.append(client.rerank(FEATURES, ids=[1, 2, 3])))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [(3, 1)] * 8 == [answer.ids for answer in answers]


def test_feedback_names_the_answer_and_positions_and_each_event_once() -> None:
    service = Answers(httpx.Response(200, json={"accepted": 3}))
    with service.client() as client:
        assert {"accepted": 3} == client.feedback("r-1", clicks=[2, 0], grades={1: 3}, query=4)

    [request] = service.requests
    events = json.loads(request.content)["events"]
    assert "/v1/feedback" == request.url.path
    assert 3 == len({event.pop("event_id") for event in events})
    assert [
        {"request_id": "r-1", "query": 4, "index": 2, "click": True},
        {"request_id": "r-1", "query": 4, "index": 0, "click": True},
        {"request_id": "r-1", "query": 4, "index": 1, "grade": 3.0},
    ] == events


def test_feedback_takes_the_answer_itself() -> None:
    service = Answers(ok(), httpx.Response(200, json={}))
    with service.client() as client:
        client.feedback(client.rerank(FEATURES, query_id="q", session_id=7), clicks=[0])

    asked, said = service.requests
    assert {"query_id": "q", "session_id": "7"} == dict(asked.url.params)
    assert "r" == json.loads(said.content)["events"][0]["request_id"]


@pytest.mark.anyio
async def test_both_clients_evaluate_alike() -> None:
    service = Answers(httpx.Response(200, json={"metrics": []}))
    named: list[dict[str, Any]] = [{"bm25": 1.0}, {"bm25": None}]
    exam = [Query(FEATURES, query_id="q"), Query(named)]
    labels: list[Any] = [[0, 1, 2], np.array([1, 0])]
    with service.client(model="web") as client:
        assert {"metrics": []} == client.evaluate(exam, labels, metrics=["map"], per_query=True)
        with pytest.raises(ValueError, match="1 lists of labels for 2 queries"):
            client.evaluate(exam, labels[:1])
    async with AsyncClient(transport=httpx.MockTransport(service), model="web") as other:
        await other.evaluate(exam, labels, metrics=["map"], per_query=True)
        await other.feedback("r", grades={0: 1})

    one, same, said = service.requests
    assert one.content == same.content
    assert 1 == len(json.loads(said.content)["events"])
    first, second = (members := json.loads(one.content))["queries"]
    assert ("web", ["map"], "standard", True) == tuple(
        members[name] for name in ("model", "metrics", "convention", "per_query")
    )
    assert {"query_id": "q", "labels": [0, 1, 2], "features": FEATURES.tolist()} == first
    assert (named, [1, 0]) == ([one["features"] for one in second["documents"]], second["labels"])
