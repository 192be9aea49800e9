"""Experiments over real sockets, with two workers that do the same."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from localrank.__main__ import main
from localrank.artifact import Provenance
from localrank.registry.versions import Registry
from tests.end_to_end.serving import serving
from tests.service.conftest import queries_of_three_kinds, three_kinds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

ADMIN = {"x-api-key": "the-admin-key"}
QUERY = queries_of_three_kinds(seed=7)[0].tolist()
WITHOUT = [[None, 1.0, 2.0, 3.0], *QUERY[1:]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 2 ranks the opposite way; version 3 refuses a missing value, which the others take."""
    folder = tmp_path_factory.mktemp("experiments") / "models"
    registry = Registry(folder)
    for sign, missing in ((1.0, "zero"), (-1.0, "zero"), (1.0, "reject")):
        registry.publish(
            "web",
            three_kinds(weights_sign=sign, missing=missing),  # type: ignore[arg-type]
            Provenance("2026-01-01T00:00:00Z", source={}, probe=queries_of_three_kinds()[:3]),
        )
    registry.promote("web", 1)
    return folder


def ask(client: httpx.Client, number: int, features: Any = QUERY) -> dict[str, Any]:
    """Ask by a new connection, so that either worker may answer."""
    members = {"features": features, "session_id": f"s{number % 20}"}
    answer = client.post("/v1/rerank", json=members, headers={"connection": "close"})
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def patiently(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def stats(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/stats").json()
    return found


def follow(client: httpx.Client, n_workers: int) -> bool:
    """Tell whether ``n_workers`` workers do the same experiments."""
    workers = client.get("/v1/experiments").json()["workers"]
    found = {worker["generation"] for worker in workers}
    return len(workers) == n_workers and len(found) == 1 and "" not in found


def until(client: httpx.Client, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        [found] = client.get("/v1/experiments").json()["experiments"]
        if done(found):
            return dict(found)
        time.sleep(0.05)
    raise AssertionError(found)


def test_two_workers_do_the_same_and_take_a_canary_back_together(models: Path, tmp_path: Path) -> None:
    file, log = tmp_path / "experiments.json", tmp_path / "server.log"
    flags = ("--workers", "2", "--experiments-file", str(file), "--admin-key", ADMIN["x-api-key"])
    split = {"kind": "split", "model": "web", "candidate": "web@2"}
    canary = {"kind": "canary", "model": "web", "candidate": "web@3", "percent": 50}
    rails = {"guardrails": {"minimum_requests": 10}}
    with serving(models, *flags, "--poll-seconds", "0.1", log=log) as client, ThreadPoolExecutor(4) as pool:
        put = client.put("/v1/experiments/half", json=split, headers=ADMIN)
        answers = list(pool.map(lambda number: (number % 20, ask(client, number)), range(120)))
        half = until(client, lambda one: sum(map(total, one["arms"].values())) == 120)
        listed = client.get("/v1/experiments").json()

        file.write_text(json.dumps({"experiments": [{"name": "strict", **canary, **rails}]}))
        until(client, lambda one: (one["name"], one["state"]) == ("strict", "running"))
        # The other worker may look a moment later.
        patiently(lambda: follow(client, 2))
        kept = list(pool.map(lambda number: ask(client, number, WITHOUT), range(150)))
        back = until(client, lambda one: one["state"] == "returned")
        patiently(lambda: follow(client, 2))
        after = list(pool.map(lambda number: ask(client, number, WITHOUT), range(40)))
        metrics = client.get("/metrics").text
        removed = client.delete("/v1/experiments/strict", headers=ADMIN)

    assert (200, 2) == (put.status_code, len(put.json()["workers"]))
    versions = {(session, answer["version"], answer["experiment"]["arm"]) for session, answer in answers}
    assert 20 == len(versions)  # a session has one version, whichever worker answers
    assert {("baseline", 1), ("candidate", 2)} == {(arm, version) for _, version, arm in versions}
    counts = Counter(answer["experiment"]["arm"] for _, answer in answers)
    assert counts == {arm: total(one) for arm, one in half["arms"].items()}
    assert [listed["generation"]] * 2 == [worker["generation"] for worker in listed["workers"]]
    assert {1} == {answer["version"] for answer in (*kept, *after)}
    assert "errors" == back["returned"]["reason"]
    assert all("experiment" not in answer for answer in after)
    assert 'localrank_experiment_returns_total{experiment="strict",reason="errors"} 1.0' in metrics
    assert "canary strict is taken back" in log.read_text()
    assert (200, {"experiments": []}) == (removed.status_code, json.loads(file.read_text()))


def test_clicks_on_interleaved_results_say_who_wins(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users click what version 2 puts first; the log of two workers and the report find that out."""
    log = tmp_path / "impressions"
    file = tmp_path / "experiments.json"
    mixed = {"name": "mixed", "kind": "interleaving", "model": "web", "candidate": "web@2"}
    beside = {"name": "beside", "kind": "shadow", "model": "web", "candidate": "web@2"}
    file.write_text(json.dumps({"experiments": [mixed, beside]}))
    flags = ("--workers", "2", "--experiments-file", str(file), "--impression-log", "1")

    def visit(number: int) -> dict[str, Any]:
        answer = ask(client, number)
        liked = next(one["index"] for one in answer["results"] if one["team"] == "candidate")
        event = {"request_id": answer["request_id"], "index": liked, "click": True}
        said = client.post("/v1/feedback", json={"events": [event]}, headers={"connection": "close"})
        assert 200 == said.status_code
        return answer

    with serving(models, *flags, "--impression-log-dir", str(log)) as client, ThreadPoolExecutor(4) as pool:
        patiently(lambda: follow(client, 2))
        answers = list(pool.map(visit, range(121)))
        patiently(lambda: stats(client)["impressions"]["feedback"]["logged"] == 121)
    code = main(["experiments", "report", str(log), "--json"])
    [found] = json.loads(capsys.readouterr().out)

    assert 0 == code
    assert all({"name": "mixed", "arm": "interleaved"} == answer["experiment"] for answer in answers)
    assert ("mixed", "interleaving", "candidate") == (found["experiment"], found["kind"], found["better"])
    assert {"interleaved": 121} == found["impressions"]
    assert {"baseline": 0.0, "candidate": 1.0} == found["means"]


def total(arm: dict[str, Any]) -> int:
    return sum(arm["requests"].values())
