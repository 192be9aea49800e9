"""The log line of a request: what it holds, what it never holds, how many there are."""

from __future__ import annotations

import json
import logging
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from localrank_service.process.logs import JsonFormatter, TextFormatter
from localrank_service.process.settings import Settings
from localrank_service.telemetry.access import MOST_LINES, AccessLog, LogLine
from localrank_service.telemetry.observing import Observation, Observed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio

BODY = {"features": [[1.53125, 2.28125, 3, 4], [4.78125, 3, 2, 1]]}
TRACE = "0af7651916cd43dd8448eb211c80319c"


class Lines(logging.Handler):
    """The access lines, as JSON and as text."""

    def __init__(self) -> None:
        super().__init__()
        self.json: list[dict[str, Any]] = []
        self.text: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.json.append(json.loads(JsonFormatter().format(record)))
        self.text.append(TextFormatter("%(message)s").format(record))


@pytest.fixture
def lines() -> Iterator[Lines]:
    log = logging.getLogger("localrank.access")
    handler, level = Lines(), log.level
    log.addHandler(handler)
    log.setLevel("INFO")
    yield handler
    log.removeHandler(handler)
    log.setLevel(level)


def settings(**more: Any) -> Settings:
    return Settings(**{"access_log": 1.0, "api_key": "search:the-serving-key", **more})


SENT = {"x-api-key": "the-serving-key", "x-request-id": "r-1", "traceparent": f"00-{TRACE}-{'1' * 16}-01"}


async def test_a_ranking_s_line_says_what_was_asked_and_how_it_went(
    connect: Any, tiny_model: LiveModel, lines: Lines
) -> None:
    async with connect(settings(), models=[tiny_model]) as client:
        answer = await client.post("/v1/rerank", json=BODY, headers=SENT)

    [line] = lines.json
    assert "POST /v1/rerank 200" == line["message"]
    assert ("info", "localrank.access", "r-1") == (line["level"], line["logger"], line["request_id"])
    assert ("POST", "/v1/rerank", 200) == (line["method"], line["route"], line["status"])
    assert ("tiny", 3, 2, "search") == (line["model"], line["version"], line["documents"], line["key"])
    assert answer.json()["route"]["cluster"] == line["cluster"]
    assert TRACE == line["trace_id"]
    assert line["span_id"] in answer.headers["traceresponse"]
    assert answer.json()["timings_ms"].items() <= line["timings_ms"].items() | {
        ("total", answer.json()["timings_ms"]["total"])
    }
    assert line["milliseconds"] >= line["timings_ms"]["total"] > 0
    assert "127.0.0.1" == line["client"]
    assert "queries" not in line


async def test_a_line_holds_no_key_no_query_string_and_no_feature(
    connect: Any, tiny_model: LiveModel, lines: Lines
) -> None:
    secrets = {"key": "the-serving-key", "api_key": "another-key"}
    bearer = {"authorization": "Bearer the-serving-key"}
    async with connect(settings(), models=[tiny_model]) as client:
        for headers in (SENT, bearer, {"x-api-key": "wrong-key-1"}, {}):
            await client.post("/v1/rerank", json=BODY, headers=headers)
            await client.post("/v1/rerank", json=BODY, params=secrets, headers=headers)
        await client.get("/v1/models", params=secrets, headers=SENT)
        await client.get("/nowhere", params=secrets)

    assert 10 == len(lines.json)
    for line in (*map(json.dumps, lines.json), *lines.text):
        assert "-key" not in line
        assert "?" not in line
        assert not any(value in line for value in ("1.53125", "2.28125", "4.78125"))


async def test_the_lines_of_refusals_have_what_is_known(
    connect: Any, tiny_model: LiveModel, lines: Lines
) -> None:
    async with connect(settings(), models=[tiny_model]) as client:
        await client.post("/v1/rerank", json={"features": [[1]]}, headers=SENT)
        await client.post("/v1/rerank", content="{", headers=SENT | {"content-type": "application/json"})
        await client.request("BREW", "/v1/rerank", headers=SENT)
        await client.get("/livez")

    wrong, malformed, method, health = lines.json
    assert (422, "tiny", 0) == (wrong["status"], wrong["model"], wrong["documents"])
    assert (400, 0) == (malformed["status"], malformed["documents"])
    assert "model" not in malformed
    assert (405, "other") == (method["status"], method["method"])
    assert ("GET /livez 200", False) == (health["message"], "documents" in health)


async def test_a_batch_is_one_line(connect: Any, tiny_model: LiveModel, lines: Lines) -> None:
    batch = {"queries": [BODY, {"features": [[1]]}, BODY, *[{"features": []}] * 97]}
    async with connect(settings(), models=[tiny_model]) as client:
        await client.post("/v1/rerank/batch", json=batch, headers=SENT)

    [line] = lines.json
    assert (100, 4) == (line["queries"], line["documents"])
    assert "cluster" not in line
    assert {"decode", "sign", "route", "score", "order", "encode", "total"} == set(line["timings_ms"])


async def test_features_are_shown_if_asked_for_and_so_many_documents(
    connect: Any, tiny_model: LiveModel, lines: Lines
) -> None:
    async with connect(settings(access_log_features=3), models=[tiny_model]) as client:
        await client.post("/v1/rerank", json={"features": [[1, None, 3, 4]]}, headers=SENT)
        await client.post("/v1/rerank/batch", json={"queries": [BODY, BODY]}, headers=SENT)

    one, batch = lines.json
    assert [[1, None, 3, 4]] == one["features"]
    assert [*BODY["features"], BODY["features"][0]] == batch["features"]


async def test_a_path_cannot_write_lines_of_its_own(
    connect: Any, tiny_model: LiveModel, lines: Lines
) -> None:
    async with connect(settings(), models=[tiny_model]) as client:
        await client.get("/x%0d%0a12:00:00 INFO forged%1b[31m" + "y" * 1000)

    [text] = lines.text
    assert r"GET /x\r\n12:00:00 INFO forged\x1b[31myyy" in text
    assert text.isprintable()
    assert len(text) < 600


async def test_about_the_share_asked_for_is_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(random, "random", random.Random(0).random)
    log = AccessLog(0.01)

    logged = sum(log.line() is not None for _ in range(100_000))

    # Binomial: 1,000 +- 4 standard deviations of 31.5.
    assert 874 <= logged <= 1126


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 1000)])
async def test_none_and_all_are_exact(share: float, expected: int) -> None:
    log = AccessLog(share)

    assert expected == sum(log.line() is not None for _ in range(1000))


async def test_lines_are_bounded_and_those_left_out_are_counted(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = AccessLog(1.0)

    for _ in range(MOST_LINES + 50):
        log.write("GET /livez 200", {})
    now[0] += 1
    for _ in range(2):
        log.write("GET /livez 200", {})

    assert MOST_LINES + 2 == len(lines.json)
    assert [50] == [line["left_out"] for line in lines.json if "left_out" in line]


async def test_without_the_setting_there_are_no_lines(client: httpx.AsyncClient, lines: Lines) -> None:
    await client.post("/v1/rerank", json=BODY)

    assert [] == lines.json


async def test_a_line_shows_exact_figures_and_so_much_of_a_path(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [10.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    scope = {"path": "/" + "y" * 300, "request_id": "r-1", "client": None}
    observation = Observation(scope, "POST", None, [])
    for _ in range(2):
        observation.add(Observed(None, None, None, {"decode": 0.12346, "total": 1.5}, []))
    now[0] += 0.0123456

    LogLine(AccessLog(1.0)).finish(observation, 422, "/v1/rerank/batch")

    [line] = lines.json
    assert f"POST /{'y' * 255} 422" == line["message"]
    assert (12.346, 2, 0) == (line["milliseconds"], line["queries"], line["documents"])
    # 0.1235 and 0.12346, to a tenth of a microsecond.
    assert {"decode": 0.247, "total": 3.0} == line["timings_ms"]
    assert not {"client", "key", "trace_id", "model", "features"} & line.keys()


async def test_a_worker_writes_100_lines_in_each_second_at_most(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/operate/operations.md says."""
    now = [0.5]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = AccessLog(1.0)

    for _ in range(3):
        for _ in range(101):
            log.write("GET /livez 200", {})
        now[0] += 1

    assert 300 == len(lines.json)
    assert [1, 1] == [line["left_out"] for line in lines.json if "left_out" in line]
