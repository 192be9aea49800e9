"""What is logged, what is not, and what becomes of it if the disk or the queue is full."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.journal import FEEDBACK, Logged, RecordFile, journals_in
from localrank.ranker import Stopwatch
from localrank_service.online import impressions as log_module
from localrank_service.online.files import LEAST_BYTES, Files
from localrank_service.online.impressions import Event, ImpressionLog
from localrank_service.process.settings import Settings
from localrank_service.ranking.reranking import rank_plainly
from localrank_service.telemetry.meters import Meters
from localrank_service.wire.query import Documents, Options
from localrank_service.wire.rules import Ruled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import httpx

    from localrank_service.models.live import LiveModel
    from localrank_service.wire.answer import Ranked

pytestmark = pytest.mark.anyio

ROWS: list[list[float | None]] = [[1.5, 2.25, 3, 4], [4.75, 3, 2, None], [0, 0, 1, 9]]
SCOPE: dict[str, Any] = {"request_id": "r", "trial": False, "client": ("1.2.3.4", 5)}
BODY: dict[str, Any] = {
    "ids": ["a", 2, "c"],
    "features": ROWS,
    "query_id": "q-1",
    "session_id": 17,
    "top_n": 2,
}


def settings(folder: Path, **more: Any) -> Settings:
    return Settings(**{"impression_log": 1.0, "impression_log_dir": folder, **more})


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.iterdir()]


def metric(text: str, name: str) -> float:
    return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(name)), 0.0)


async def test_an_impression_has_all_that_it_takes_to_learn_from_it(
    connect: Any, tiny_model: LiveModel, tmp_path: Path
) -> None:
    async with connect(settings(tmp_path), models=[tiny_model]) as client:
        answer = (await client.post("/v1/rerank", json=BODY, headers={"x-request-id": "r-1"})).json()

    logged = Logged([tmp_path])
    [one] = logged.impressions()
    assert {"r-1", 0, "q-1", 17, "rerank", "tiny", 3} == {
        *(one[name] for name in ("request_id", "query", "query_id", "session_id", "api", "model", "version"))
    }
    np.testing.assert_array_equal(np.array(ROWS, np.float32), one["features"])
    assert [one["index"] for one in answer["results"]] == one["order"][: one["shown"]].tolist()
    assert [one["score"] for one in answer["results"]] == one["scores"][one["order"][:2]].tolist()
    assert ["a", 2, "c"] == one["ids"]
    assert (answer["route"], None, None) == (one["route"], one["degraded"], one["experiment"])
    contract = tiny_model.ranker.contract
    assert {contract.digest: contract.names} == {
        digest: tuple(one.name for one in features) for digest, features in logged.features.items()
    }


async def test_every_wire_is_logged_and_no_key(connect: Any, tiny_model: LiveModel, tmp_path: Path) -> None:
    named = [dict(zip(tiny_model.ranker.contract.names, row, strict=True)) for row in ROWS]
    hits = [
        {"_id": f"h{position}", "_score": 1.0, "fields": {"_ltrlog": [{"log": [
            {"name": name, "value": value} for name, value in document.items() if value is not None
        ]}]}}
        for position, document in enumerate(named)
    ]  # fmt: skip
    tensor = {"name": "features", "datatype": "FP32", "shape": [3, 4]}
    infer = {
        "inputs": [
            tensor | {"data": [[0 if cell is None else cell for cell in row] for row in ROWS]},
            {"name": "doc_ids", "datatype": "BYTES", "shape": [3], "data": ["x", "y", "z"]},
            {"name": "group", "datatype": "INT32", "shape": [2], "data": [2, 1]},
        ],
        "parameters": {"query_id": "q-v2"},
    }
    async with connect(settings(tmp_path, api_key="search:the-serving-key"), models=[tiny_model]) as client:
        for path, body in (
            ("/v1/rerank", BODY),
            ("/v1/rerank/batch", {"queries": [BODY, {"features": [[1]]}, BODY]}),
            ("/v2/rerank", {"documents": [{"features": row} for row in ROWS], "session_id": "s"}),
            ("/v1/adapters/elasticsearch?session_id=s-7", {"hits": {"hits": hits}}),
            ("/v2/models/tiny/infer", infer),
        ):
            await client.post(path, json=body, headers={"x-api-key": "the-serving-key"})

    logged = list(Logged([tmp_path]).impressions())
    assert [
        ("cohere", 0, None, "s", None),
        ("elasticsearch", 0, None, "s-7", ["h0", "h1", "h2"]),
        ("rerank", 0, "q-1", 17, ["a", 2, "c"]),
        ("rerank_batch", 0, "q-1", 17, ["a", 2, "c"]),
        ("rerank_batch", 2, "q-1", 17, ["a", 2, "c"]),
        ("v2", 0, "q-v2", None, ["x", "y"]),
        ("v2", 1, "q-v2", None, ["z"]),
    ] == sorted((one["api"], one["query"], one["query_id"], one["session_id"], one["ids"]) for one in logged)
    assert not any(b"the-serving-key" in content for content in contents(tmp_path))


async def test_off_is_the_default_and_costs_nothing_but_a_sentence(
    connect: Any, tiny_model: LiveModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with connect(Settings(), models=[tiny_model]) as client:
        await client.post("/v1/rerank", json=BODY)
        refused = await client.post("/v1/feedback", json={"events": []})

    assert [] == contents(tmp_path)
    assert 409 == refused.status_code
    assert "set LOCALRANK_IMPRESSION_LOG" in refused.json()["detail"]


async def test_feedback_is_logged_next_to_what_was_shown(
    connect: Any, tiny_model: LiveModel, tmp_path: Path
) -> None:
    events = [
        {"request_id": "r-1", "id": "a", "click": True, "event_id": "e1"},
        {"request_id": "r-1", "query": 2, "index": 1, "grade": 3},
    ]
    async with connect(settings(tmp_path), models=[tiny_model]) as client:
        answer = await client.post("/v1/feedback", json={"events": events}, headers={"x-request-id": "r-2"})
        metrics = (await client.get("/metrics")).text

    assert {"request_id": "r-2", "accepted": 2, "dropped": 0} == answer.json()
    first, second = Logged([tmp_path]).feedback()
    assert ("r-1", 0, "a", None, True, None, "e1") == tuple(
        first[name] for name in ("request_id", "query", "id", "index", "click", "grade", "event_id")
    )
    assert (2, 1, False, 3.0) == tuple(second[name] for name in ("query", "index", "click", "grade"))
    assert "localrank_feedback_total" in metrics


async def test_no_caller_chooses_what_is_logged(connect: Any, tiny_model: LiveModel, tmp_path: Path) -> None:
    """Neither the id of a request nor the answer to feedback tells whether it is logged."""
    async with connect(settings(tmp_path, impression_log=0.3), models=[tiny_model]) as client:
        for _ in range(200):
            await client.post("/v1/rerank", json=BODY, headers={"x-request-id": "always-the-same"})
        events = [{"request_id": f"r-{number}", "index": 0, "click": True} for number in range(100)]
        answer = (await client.post("/v1/feedback", json={"events": events})).json()

    # Binomial: 60 +- 6 standard deviations of 6.5.
    assert 21 < len(list(Logged([tmp_path]).impressions())) < 99
    assert (100, 0) == (answer["accepted"], answer["dropped"])


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 400)])
async def test_none_and_all_are_exact(share: float, expected: int, ranked: Ranked, tmp_path: Path) -> None:
    log = made(tmp_path, share=share)
    for number in range(400):
        log.show("rerank", SCOPE, number, ranked)
    log.close()
    log._write_all()

    assert expected == log.state()["logged"]


async def test_one_caller_fills_half_of_the_log_and_no_more(
    ranked: Ranked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MOST_RECORDS", 10**6)
    now = 0.0
    monkeypatch.setattr("localrank_service.online.impressions.monotonic", lambda: now)
    log = made(tmp_path)
    greedy, other, keyed = (
        {**SCOPE, "client": (address, 1)} for address in ("1.2.3.4", "5.6.7.8", "1.2.3.4")
    )
    keyed["key"] = "search"
    half = LEAST_BYTES // 2 // (1024 + 2 * 4 * 4 + 2 * 64)

    log.show("rerank", other, 0, ranked)
    for number in range(2 * half):
        log.show("rerank", greedy, number, ranked)
    first = log._meters.logged()["impressions"]["over_quota"]
    for scope in (other, keyed):
        log.show("rerank", scope, 0, ranked)
    now = 1800.0
    for number in range(half):
        log.show("rerank", greedy, number, ranked)
    second = log._meters.logged()["impressions"]["over_quota"]
    event = Event("r", 0, "a", None, True, None, None)  # noqa: FBT003
    log.say(other, [event])
    said = log.say(greedy, [event] * 3000)

    assert (half, True) == (first, abs(second - first - half / 2) <= 1)
    assert {"accepted": LEAST_BYTES // 2 // 256, "dropped": 3000 - LEAST_BYTES // 2 // 256} == said
    assert log.say(other, [event]) == {"accepted": 1, "dropped": 0}


async def test_the_only_caller_has_no_quota(
    ranked: Ranked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MOST_RECORDS", 10**6)
    log = made(tmp_path)
    half = LEAST_BYTES // 2 // (1024 + 2 * 4 * 4 + 2 * 64)

    for number in range(3 * half):
        log.show("rerank", SCOPE, number, ranked)
    log.show("rerank", {**SCOPE, "key": "other"}, 0, ranked)
    log.show("rerank", SCOPE, 0, ranked)

    assert 1 == log.state()["over_quota"]


async def test_feedback_does_not_displace_what_was_shown(
    ranked: Ranked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MOST_RECORDS", 10**6)
    log = made(tmp_path)
    event = Event("r", 0, "a", None, True, None, None)  # noqa: FBT003
    log.show("rerank", SCOPE, 0, ranked)
    for caller in range(10):
        log.say({**SCOPE, "key": f"k{caller}"}, [event] * 2000)
        log._write_all()

    kinds = {path.name.partition("-")[0] for path in journals_in(tmp_path)}
    assert {"impressions", "feedback"} == kinds
    assert 1 == len(list(Logged([tmp_path]).impressions()))
    assert 0 < len(list(Logged([tmp_path]).feedback())) < 20_000
    assert sum(map(len, contents(tmp_path))) < 2 * LEAST_BYTES


async def test_a_queue_that_is_full_drops_and_counts_and_answers_all_the_same(
    connect: Any, tiny_model: LiveModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MOST_RECORDS", 5)
    monkeypatch.setattr(log_module, "_GATHER", 3600.0)
    async with connect(settings(tmp_path), models=[tiny_model]) as client:
        answers = [await client.post("/v1/rerank", json=BODY) for _ in range(9)]
        events = [{"request_id": "r", "index": 0, "click": True}] * 3
        said = (await client.post("/v1/feedback", json={"events": events})).json()
        metrics = (await client.get("/metrics")).text

    assert [200] * 9 == [one.status_code for one in answers]
    assert (0, 3) == (said["accepted"], said["dropped"])
    assert 4 == metric(metrics, 'localrank_impressions_total{outcome="dropped"}')
    assert 3 == metric(metrics, 'localrank_feedback_total{outcome="dropped"}')
    assert 5 == len(list(Logged([tmp_path]).impressions()))


async def test_large_documents_fill_the_queue_by_their_bytes(
    connect: Any, tiny_model: LiveModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MOST_BYTES", 50_000)
    monkeypatch.setattr(log_module, "_GATHER", 3600.0)
    body = {"features": [[1.0, 2.0, 3.0, 4.0]] * 300}
    async with connect(settings(tmp_path), models=[tiny_model]) as client:
        for _ in range(5):
            await client.post("/v1/rerank", json=body)
        metrics = (await client.get("/metrics")).text

    assert 4 == metric(metrics, 'localrank_impressions_total{outcome="dropped"}')


async def test_a_full_disk_loses_records_and_nothing_else(
    connect: Any, tiny_model: LiveModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    def full(_descriptor: int, _parts: list[bytes]) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with connect(settings(tmp_path), models=[tiny_model]) as client:
        with monkeypatch.context() as patched:
            patched.setattr(os, "writev", full)
            answers = [await client.post("/v1/rerank", json=BODY) for _ in range(3)]
            await until(client, 'localrank_impressions_total{outcome="lost"}', 3)
        answers.append(await client.post("/v1/rerank", json=BODY))
        await until(client, 'localrank_impressions_total{outcome="logged"}', 1)

    assert [200] * 4 == [one.status_code for one in answers]
    logged = Logged([tmp_path])
    assert 1 == len(list(logged.impressions()))
    assert 0 == logged.damaged
    assert 1 == len(logged.features)


async def test_a_folder_that_cannot_be_written_loses_records_and_nothing_else(
    connect: Any, tiny_model: LiveModel, tmp_path: Path, until: Any
) -> None:
    (tmp_path / "log").write_text("a file stands where the folder should be")
    async with connect(settings(tmp_path / "log"), models=[tiny_model]) as client:
        assert 200 == (await client.post("/v1/rerank", json=BODY)).status_code
        await until(client, 'localrank_impressions_total{outcome="lost"}', 1)
        events = {"events": [{"request_id": "r", "index": 0, "click": True}]}
        assert 200 == (await client.post("/v1/feedback", json=events)).status_code
        await until(client, 'localrank_feedback_total{outcome="lost"}', 1)


async def test_stats_say_how_the_log_is(
    connect: Any, tiny_model: LiveModel, tmp_path: Path, client: httpx.AsyncClient, until: Any
) -> None:
    assert (await client.get("/v1/stats")).json()["impressions"] is None
    async with connect(settings(tmp_path, impression_log=1), models=[tiny_model]) as logging:
        await logging.post("/v1/rerank", json=BODY)
        await until(logging, 'localrank_impressions_total{outcome="logged"}', 1)
        stats = (await logging.get("/v1/stats")).json()["impressions"]

    assert (1.0, 1, 0, 0) == tuple(stats[name] for name in ("share", "logged", "dropped", "lost"))
    assert 2**30 == stats["most_bytes"]
    assert {"logged": 0, "dropped": 0, "over_quota": 0, "lost": 0} == stats["feedback"]
    assert 0 < stats["bytes"] == sum(map(len, contents(tmp_path)))


@pytest.fixture
def ranked(tiny_model: LiveModel) -> Ranked:
    """One answer, of two documents."""
    matrix = np.array([[1, 2, 3, 4], [4, 3, 2, 1]], np.float32)
    return rank_plainly(tiny_model, Documents(matrix, ["a", "b"], lambda *_: ""), Options(), Stopwatch())


def made(folder: Path, *, share: float = 1.0) -> ImpressionLog:
    files, feedback = Files(folder, LEAST_BYTES), Files(folder, LEAST_BYTES, kind=FEEDBACK)
    return ImpressionLog(share, folder, files, feedback, Meters())


async def test_a_log_that_was_never_written_to_ends_at_once(tmp_path: Path) -> None:
    log = made(tmp_path / "log")
    log.start()
    thread = log._thread
    assert thread is not None

    log.close()

    assert not thread.is_alive()
    assert not (tmp_path / "log").exists()


async def test_a_log_that_was_never_started_can_be_closed(tmp_path: Path) -> None:
    made(tmp_path / "log").close()


async def test_what_was_written_makes_room_in_the_queue(
    ranked: Ranked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record counts 1,024 bytes, its numbers and 64 bytes for each document; feedback counts 1,024."""
    size = 1024 + 2 * 4 * 4 + 2 * 64
    monkeypatch.setattr(log_module, "MOST_BYTES", 2 * size + 1024)
    log, event = made(tmp_path), Event("r", 0, "a", None, True, None, None)  # noqa: FBT003
    found = []

    for _ in range(3):
        for _ in range(2):
            log.show("rerank", SCOPE, 0, ranked)
        found.append(log.say(SCOPE, [event, event]))
        log.show("rerank", SCOPE, 0, ranked)
        log._write_all()
    log.close()

    state = log.state()
    assert [{"accepted": 1, "dropped": 1}] * 3 == found
    assert (6, 3, 0) == (state["logged"], state["dropped"], state["lost"])
    assert {"logged": 3, "dropped": 3, "over_quota": 0, "lost": 0} == state["feedback"]
    assert 6 == len(list(Logged([tmp_path]).impressions()))


async def test_so_many_records_wait_and_no_more(
    ranked: Ranked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MOST_RECORDS", 3)
    log = made(tmp_path)

    for number in range(5):
        log.show("rerank", SCOPE, number, ranked)
    log._write_all()

    assert [0, 1, 2] == [one["query"] for one in Logged([tmp_path]).impressions()]
    assert (3, 2) == (log.state()["logged"], log.state()["dropped"])


async def test_a_record_larger_than_a_file_is_lost_and_the_others_are_written(
    ranked: Ranked, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = made(tmp_path)
    large = replace(ranked, documents=replace(ranked.documents, ids=["x" * LEAST_BYTES, "b"]))

    log.show("rerank", SCOPE, 0, ranked)
    for record in (large, ranked):
        log.show("rerank", SCOPE, 1, record)
    log._write_all()

    logged = Logged([tmp_path])
    assert [0, 1] == [one["query"] for one in logged.impressions()]
    assert (2, 1) == (log.state()["logged"], log.state()["lost"])
    assert 1 == len(logged.features)
    assert [] == caplog.messages


async def test_ids_of_any_kind_are_texts_numbers_or_nothing(ranked: Ranked, tmp_path: Path) -> None:
    log = made(tmp_path)
    for ids in ([b"\xffa", 7], [None, "b"], None):
        log.show("rerank", SCOPE, 0, replace(ranked, documents=replace(ranked.documents, ids=ids)))
    log._write_all()

    assert [["\ufffda", 7], [None, "b"], None] == [one["ids"] for one in Logged([tmp_path]).impressions()]


async def test_the_names_of_features_stand_once_in_each_file(ranked: Ranked, tmp_path: Path) -> None:
    log = made(tmp_path)
    for _ in range(2):
        for query in range(2):
            log.show("rerank", SCOPE, query, ranked)
        log._write_all()
    log._shown.files.close()
    log.show("rerank", SCOPE, 2, ranked)
    log._write_all()

    kinds = [
        [record.members["kind"] for record in RecordFile(path).records()] for path in journals_in(tmp_path)
    ]
    assert [["contract", *["impression"] * 4], ["contract", "impression"]] == kinds


async def test_why_records_are_lost_is_said_once_and_so_is_that_they_no_longer_are(
    ranked: Ranked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    log = made(tmp_path)
    event = Event("r", 0, "a", None, True, None, None)  # noqa: FBT003
    append = log._shown.files.append
    outcomes: list[OSError | int | None] = [
        OSError(errno.EIO, "Input/output error"), OSError(errno.EIO, "Input/output error"), OSError("gone"), 1, None, None
    ]  # fmt: skip

    def appended(frames: Sequence[Any]) -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, OSError):
            raise outcome
        return append(frames if outcome is None else frames[:outcome])

    monkeypatch.setattr(log._shown.files, "append", appended)
    for _ in range(6):
        log.show("rerank", SCOPE, 0, ranked)
        log.say(SCOPE, [event])
        log._write_all()

    lost = f"the impression log in {tmp_path} loses records: "
    assert [
        f"{lost}Input/output error",
        f"{lost}gone",
        f"{lost}the disk is full",
        f"the impression log in {tmp_path} can be written again",
    ] == caplog.messages
    state = log.state()
    assert (2, 4, {"logged": 6, "dropped": 0, "over_quota": 0, "lost": 0}) == (
        state["logged"],
        state["lost"],
        state["feedback"],
    )
    # The fourth time only the names fitted, and they were written anew afterwards.
    assert [*["feedback"] * 6, "contract", "contract", "impression", "impression"] == [
        record.members["kind"] for path in journals_in(tmp_path) for record in RecordFile(path).records()
    ]


async def test_a_record_that_cannot_be_written_is_lost_and_the_others_are_not(
    ranked: Ranked, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = made(tmp_path)
    broken = replace(ranked, options=replace(ranked.options, query_id=object()))  # type: ignore[arg-type]

    for query, one in enumerate((broken, ranked)):
        log.show("rerank", SCOPE, query, one)
    log._write_all()

    assert ["a record for the impression log cannot be written"] == caplog.messages
    assert caplog.records[0].exc_info
    assert [1] == [one["query"] for one in Logged([tmp_path]).impressions()]
    assert (1, 1) == (log.state()["logged"], log.state()["lost"])


@pytest.mark.parametrize(("together", "writes"), [(1, 3), (10**6, 1)])
async def test_records_are_written_together_up_to_a_number_of_bytes(
    together: int, writes: int, ranked: Ranked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "_TOGETHER", together)
    log = made(tmp_path)
    append, sizes = log._shown.files.append, []

    def appended(frames: Sequence[Any]) -> int:
        sizes.append(len(frames))
        return append(frames)

    monkeypatch.setattr(log._shown.files, "append", appended)
    for query in range(3):
        log.show("rerank", SCOPE, query, ranked)
    log._write_all()

    assert (writes, 4) == (len(sizes), sum(sizes))
    assert [0, 1, 2] == [one["query"] for one in Logged([tmp_path]).impressions()]


async def test_as_many_bytes_as_are_written_together_are_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = made(tmp_path)
    event = Event("r", 0, "a", None, True, None, None)  # noqa: FBT003
    monkeypatch.setattr("localrank_service.online.impressions.time.time", lambda: 1.7e9)
    log.say(SCOPE, [event])
    log._write_all()
    [path] = journals_in(tmp_path)
    size = path.stat().st_size
    sizes = []
    append = log._said.files.append

    def appended(frames: Sequence[Any]) -> int:
        sizes.append(len(frames))
        return append(frames)

    monkeypatch.setattr(log._said.files, "append", appended)
    for together in (3 * size, 3 * size - 1):
        monkeypatch.setattr(log_module, "_TOGETHER", together)
        log.say(SCOPE, [event] * 3)
        log._write_all()

    assert [3, 2, 1] == sizes


@pytest.mark.parametrize(("top_n", "shown"), [(None, 2), (1, 1), (2, 2), (5, 2)])
async def test_as_many_documents_were_shown_as_were_asked_for(
    top_n: int | None, shown: int, ranked: Ranked, tmp_path: Path
) -> None:
    log = made(tmp_path)
    log.show("rerank", SCOPE, 0, replace(ranked, options=replace(ranked.options, top_n=top_n)))
    log._write_all()

    [one] = Logged([tmp_path]).impressions()
    assert shown == one["shown"]
    assert (2, 2) == (len(one["order"]), len(one["scores"]))


async def test_the_log_says_what_was_pinned_and_left_out_and_keeps_the_model_s_scores(
    ranked: Ranked, tmp_path: Path
) -> None:
    log = made(tmp_path)
    options = replace(ranked.options, offset=1, pin=(1,), boost={"0": 1e3})
    ruled = Ruled((1,), {0: 1e3}, ranked.ranking)
    order = replace(ranked.ranking, order=np.array([1, 0]), scores=ranked.ranking.scores + np.array([1e3, 0]))
    log.show("rerank", SCOPE, 0, replace(ranked, options=options, ranking=order, ruled=ruled))
    log.show("rerank", SCOPE, 1, ranked)
    log._write_all()

    one, other = Logged([tmp_path]).impressions()
    assert (1, 1, 1, [1, 0]) == (one["offset"], one["shown"], one["pinned"], one["order"].tolist())
    assert ranked.ranking.scores.tolist() == one["scores"].tolist()
    assert (0, 2, 0) == (other["offset"], other["shown"], other["pinned"])


async def test_times_have_microseconds_and_so_has_feedback(
    ranked: Ranked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrank_service.online.impressions.time.time", lambda: 1.7e9 + 0.12345678)
    log = made(tmp_path)
    log.show("rerank", SCOPE, 0, ranked)
    log.say(SCOPE, [Event("r", 0, "a", None, True, None, None)])  # noqa: FBT003
    log._write_all()

    records = [
        record.members
        for path in journals_in(tmp_path)
        for record in RecordFile(path).records()
        if "time" in record.members
    ]
    assert [1.7e9 + 0.123457] * 2 == [one["time"] for one in records]


async def test_the_limits_are_those_of_the_documentation() -> None:
    assert (4096, 64 * 2**20) == (log_module.MOST_RECORDS, log_module.MOST_BYTES)
    assert (2**20, 1024) == (log_module._TOGETHER, log_module._FIXED)


async def test_records_gather_before_they_are_written_and_what_waits_is_written_at_the_end(
    ranked: Ranked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "_GATHER", 3600.0)
    log = made(tmp_path)
    log.start()
    for query in range(3):
        log.show("rerank", SCOPE, query, ranked)
    before = log.state()["logged"]

    log.close()

    assert log._thread is not None
    assert (0, False, True) == (before, log._thread.is_alive(), log._thread.daemon)
    assert 3 == log.state()["logged"] == len(list(Logged([tmp_path]).impressions()))
    assert -1 == log._shown.files._file
