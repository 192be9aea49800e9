"""Experiments as a caller meets them: one worker, real models, the application itself."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import os
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import AsyncMock

import numpy as np
import pytest

from localrank.artifact import Provenance
from localrank.features.contract import FeatureContract
from localrank.journal import Logged
from localrank.ladder import OVERLOAD, TIMEOUT, Degraded
from localrank.rankings import team_draft
from localrank.registry.versions import Registry
from localrank_service.http.admission import Admission, LoadLimits
from localrank_service.http.problems import Problem
from localrank_service.models.live import LiveModel, LiveModels, addresses_of
from localrank_service.models.workers import Report, Workers
from localrank_service.online.arms import coins, place
from localrank_service.online.definition import defined
from localrank_service.online.experiments import DrawnPart, Experiments
from localrank_service.online.store import ExperimentStore
from localrank_service.process.settings import Settings
from localrank_service.telemetry.experiments import RANK_BUCKETS
from localrank_service.telemetry.meters import Meters
from localrank_service.wire.answer import Part
from localrank_service.wire.query import Options
from tests.service.conftest import queries_of_three_kinds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import httpx

    from localrank_service.online.shadow import Job

pytestmark = pytest.mark.anyio

#: Of the draws.
KEY = bytes(32)
ADMIN = {"x-api-key": "the-admin-key"}
BASELINE = {"kind": "split", "model": "demo", "candidate": "demo@2", "percent": 50}
QUERY = queries_of_three_kinds(seed=7)[0].tolist()


@pytest.fixture
def settings(models_dir: Path, tmp_path: Path) -> Settings:
    """Version 2 of the model demo ranks the opposite way."""
    (tmp_path / "experiments.json.secret").write_text(KEY.hex())
    return Settings(
        models_dir=models_dir,
        experiments_file=tmp_path / "experiments.json",
        admin_key="the-admin-key",
        poll_seconds=0.02,
        model="demo",
    )


async def put(client: httpx.AsyncClient, name: str, **members: Any) -> None:
    answer = await client.put(f"/v1/experiments/{name}", json=members, headers=ADMIN)
    assert 200 == answer.status_code, answer.text


async def shown(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.get("/v1/experiments")
    assert 200 == answer.status_code
    found: dict[str, Any] = answer.json()
    return found


async def only(client: httpx.AsyncClient) -> dict[str, Any]:
    [found] = (await shown(client))["experiments"]
    return dict(found)


async def rank(client: httpx.AsyncClient, **members: Any) -> dict[str, Any]:
    answer = await client.post("/v1/rerank", json={"features": QUERY, **members})
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def until(client: httpx.AsyncClient, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    for _ in range(2000):
        if done(found := await only(client)):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(found)


async def test_routes_of_experiments_say_how_to_turn_them_on(client: httpx.AsyncClient, connect: Any) -> None:
    listed = await client.get("/v1/experiments")
    async with connect(Settings(admin_key="the-admin-key")) as one:
        changed = await one.put("/v1/experiments/a", json={}, headers=ADMIN)
        removed = await one.delete("/v1/experiments/a", headers=ADMIN)

    for answer in (listed, changed, removed):
        assert 409 == answer.status_code
        assert "set LOCALRANK_EXPERIMENTS_FILE" in answer.json()["detail"]


async def test_changes_need_an_admin_key_json_and_the_right_page(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    async with connect(settings) as client:
        await loaded(client)
        answers = [
            await client.put("/v1/experiments/a", json=BASELINE),
            await client.delete("/v1/experiments/a"),
            await client.put("/v1/experiments/a", json=BASELINE, headers=ADMIN | {"origin": "http://evil"}),
            await client.put(
                "/v1/experiments/a", content="{}", headers=ADMIN | {"content-type": "text/plain"}
            ),
            await client.put(
                "/v1/experiments/a", content="{", headers=ADMIN | {"content-type": "application/json"}
            ),
            await client.put("/v1/experiments/a", json=BASELINE | {"name": "b"}, headers=ADMIN),
            await client.put("/v1/experiments/a", json=BASELINE | {"percent": 0}, headers=ADMIN),
            await client.delete("/v1/experiments/a", headers=ADMIN),
        ]
        found = await shown(client)

    assert [401, 401, 403, 415, 400, 422, 422, 404] == [answer.status_code for answer in answers]
    assert [] == found["experiments"]


@pytest.mark.parametrize(
    ("members", "status", "at"),
    [
        ({"candidate": "demo@9"}, 404, "/candidate"),
        ({"candidate": "demo@challenger"}, 404, "/candidate"),
        ({"candidate": "other@1"}, 404, "/candidate"),
        ({"model": "other"}, 404, "/model"),
        ({"model": "other", "candidate": "other@1"}, 404, "/model"),
    ],
)
async def test_what_does_not_exist_is_not_written_down(
    connect: Any,
    settings: Settings,
    loaded: Callable[..., Awaitable[None]],
    *,
    members: Any,
    status: int,
    at: str,
) -> None:
    async with connect(settings) as client:
        await loaded(client)
        answer = await client.put("/v1/experiments/a", json=BASELINE | members, headers=ADMIN)
        found = await shown(client)

    assert (status, at) == (answer.status_code, answer.json()["pointer"])
    assert [] == found["experiments"]


async def test_a_split_gives_each_session_the_version_that_was_drawn_for_it(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    async with connect(settings) as client:
        await loaded(client)
        before = await rank(client, session_id="s0")
        await put(client, "half", **BASELINE)
        answers = {session: await rank(client, session_id=f"s{session}") for session in range(40)}
        again = [await rank(client, session_id=f"s{session}") for session in range(5)]
        explicit = [await rank(client, session_id="s0", model=model) for model in ("demo@1", "demo@champion")]
        unnamed = await rank(client)
        found = await only(client)
        await client.delete("/v1/experiments/half", headers=ADMIN)
        after = await rank(client, session_id="s0")

    drawn = {session: place(KEY, "half", f"s{session}") < 0.5 for session in range(40)}
    assert {session: 2 if candidate else 1 for session, candidate in drawn.items()} == {
        session: answer["version"] for session, answer in answers.items()
    }
    assert {session: {"name": "half", "arm": "candidate" if candidate else "baseline"} for session, candidate in drawn.items()} == {
        session: answer["experiment"] for session, answer in answers.items()
    }  # fmt: skip
    assert [answers[session]["version"] for session in range(5)] == [one["version"] for one in again]
    assert all("experiment" not in one for one in (before, *explicit, unnamed, after))
    counts = Counter("candidate" if drawn[session] else "baseline" for session in [*range(40), *range(5)])
    assert counts == {arm: sum(one["requests"].values()) for arm, one in found["arms"].items()}
    assert ("running", 1) == (found["state"], found["outside"])
    assert {"baseline": "demo@1", "candidate": "demo@2"} == found["versions"]


async def test_every_wire_takes_part_and_says_so(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    session = next(f"s{n}" for n in range(100) if place(KEY, "half", f"s{n}") < 0.5)
    array = io.BytesIO()
    np.save(array, np.array(QUERY, np.float32))
    tensor = {"name": "features", "datatype": "FP32", "shape": [20, 4], "data": QUERY}
    groups = {"name": "group", "datatype": "INT32", "shape": [2], "data": [12, 8]}
    names = ("bm25", "pagerank", "ctr:7d", "age")
    hits = [{"[features]": ",".join(f"{n}={v}" for n, v in zip(names, row, strict=True))} for row in QUERY]
    async with connect(settings) as client:
        await loaded(client)
        await put(client, "half", **BASELINE)
        npy = await client.post(
            f"/v1/rerank?session_id={session}",
            content=array.getvalue(),
            headers={"content-type": "application/x-npy"},
        )
        batch = await client.post(
            "/v1/rerank/batch", json={"queries": [{"features": QUERY, "session_id": session}]}
        )
        cohere = await client.post(
            "/v2/rerank", json={"documents": [{"features": row} for row in QUERY], "session_id": session}
        )
        solr = await client.post(f"/v1/adapters/solr?session_id={session}", json={"response": {"docs": hits}})
        infer = await client.post(
            "/v2/models/demo/infer",
            json={"inputs": [tensor, groups], "parameters": {"session_id": session}},
        )

    part = {"name": "half", "arm": "candidate"}
    assert (2, part) == (npy.json()["version"], npy.json()["experiment"])
    assert part == batch.json()["answers"][0]["answer"]["experiment"]
    assert part == cohere.json()["meta"]["localrank"]["experiment"]
    assert part == solr.json()["localrank"]["experiment"]
    assert ("2", {"experiment": "half", "arm": "candidate"}) == (
        infer.json()["model_version"],
        infer.json()["parameters"],
    )


async def test_interleaved_results_come_from_both_and_name_their_teams(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    mixing = {"kind": "interleaving", "model": "demo", "candidate": "demo@2", "depth": 6}
    async with connect(settings) as client:
        await loaded(client)
        await put(client, "mixed", **mixing)
        first, second = [await rank(client, model=model) for model in ("demo@1", "demo@2")]
        answers = []
        for number in range(5):
            answer = await client.post(
                "/v1/rerank", json={"features": QUERY}, headers={"x-request-id": f"request-{number}"}
            )
            answers.append(answer.json())
        cohere = await client.post(
            "/v2/rerank", json={"documents": [{"features": row} for row in QUERY], "top_n": 8}
        )
        infer = await client.post(
            "/v2/models/demo/infer",
            json={"inputs": [{"name": "features", "datatype": "FP32", "shape": [20, 4], "data": QUERY}]},
        )
        explained = await rank(client, explain="contributions")
        found = await only(client)

    before, after = (np.array([one["index"] for one in answer["results"]]) for answer in (first, second))
    scores = {one["index"]: one["score"] for one in first["results"]}
    for number, answer in enumerate(answers):
        expected = team_draft(before, after, 6, coins(KEY, "mixed", f"request-{number}"))
        results = answer["results"]
        assert expected.order.tolist() == [one["index"] for one in results]
        teams = [("baseline", "candidate")[team] for team in expected.teams]
        assert [*teams, *[None] * 14] == [one["team"] for one in results]
        assert scores == {one["index"]: one["score"] for one in results}
        assert ({"name": "mixed", "arm": "interleaved"}, 1) == (answer["experiment"], answer["version"])
    teams = cohere.json()["meta"]["localrank"]["experiment"]["teams"]
    assert (8, [None, None]) == (len(teams), teams[6:])
    assert "parameters" not in infer.json()  # its tensors have no room for teams
    assert "experiment" not in explained
    assert 2 == found["outside"]
    assert {"baseline": 6, "candidate": 6} == {
        arm: one["requests"]["ok"] for arm, one in found["arms"].items()
    }


async def test_a_shadow_ranks_beside_and_agrees_as_far_as_it_does(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    async with connect(settings) as client:
        await loaded(client)
        await put(client, "beside", kind="shadow", model="demo", candidate="demo@2")
        answers = [await rank(client) for _ in range(10)]
        found = await until(client, lambda one: one["shadow"]["ranked"] == 10)
        metrics = (await client.get("/metrics")).text

    assert all(("experiment" not in one, one["version"]) == (True, 1) for one in answers)
    assert -1.0 == found["shadow"]["kendall_tau"]  # the opposite order
    assert (0, 0) == (found["shadow"]["dropped"], found["shadow"]["failed"])
    assert f'localrank_shadow_rbo_count{{experiment="beside",run="{found["run"]}"}} 10.0' in metrics


async def test_a_shadow_beside_interleaving_ranks_what_the_baseline_ranked(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    async with connect(settings) as client:
        await loaded(client)
        await put(client, "mixed", kind="interleaving", model="demo", candidate="demo@2")
        await put(client, "beside", kind="shadow", model="demo", candidate="demo@2")
        arms = {(await rank(client))["experiment"]["arm"] for _ in range(5)}
        for _ in range(2000):
            found = {one["name"]: one for one in (await shown(client))["experiments"]}["beside"]["shadow"]
            if found["ranked"] == 5:
                break
            await asyncio.sleep(0.01)

    assert {"interleaved"} == arms
    # The opposite of the baseline's order, not of the mixed one.
    assert (5, -1.0) == (found["ranked"], found["kendall_tau"])


@pytest.mark.parametrize("kind", ["split", "interleaving", "shadow"])
async def test_a_trial_gets_the_champion_and_counts_nowhere_as_traffic(
    kind: str, connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]], tmp_path: Path
) -> None:
    logging = replace(settings, impression_log=1.0, impression_log_dir=tmp_path / "log")
    plain = {"kind": kind, "model": "demo", "candidate": "demo@2", "percent": 100, "unit": "request"}
    async with connect(logging) as client:
        await loaded(client)
        before = await rank(client, model="demo@1")
        await put(client, "all", **plain)
        counted = (await client.get("/v1/stats")).json()
        client.headers["localrank-trial"] = "true"
        tried = [await rank(client) for _ in range(3)]
        wrong = await client.post("/v1/rerank", json={"features": QUERY}, headers={"localrank-trial": "yes"})
        after = (await client.get("/v1/stats")).json()
        found = await only(client)

    assert all("experiment" not in one and one["version"] == 1 for one in tried)
    assert [before["results"]] * 3 == [one["results"] for one in tried]
    assert ({}, 0) == (found["arms"], found["outside"])
    if kind == "shadow":
        assert {0} == {found["shadow"][outcome] for outcome in ("ranked", "dropped", "failed")}
    one, other = (stats["models"]["demo"]["versions"]["1"] for stats in (counted, after))
    assert (one["clusters"], one["drift"]) == (other["clusters"], other["drift"])
    assert one["requests"]["ok"] + 3 == other["requests"]["ok"]
    assert 1 == len(list(Logged([tmp_path / "log"]).impressions()))
    assert (400, "header LocalRank-Trial: expected true or false, found another value") == (
        wrong.status_code,
        wrong.json()["detail"],
    )


async def test_timeouts_that_are_too_short_for_the_baseline_do_not_take_back_a_canary(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    """Whoever knows from an answer that its session has the candidate may send what it likes."""
    rails = {"minimum_requests": 10}
    async with connect(settings) as client:
        await loaded(client)
        await put(
            client, "few", kind="canary", model="demo", candidate="demo@2", percent=50, guardrails=rails
        )
        sessions: dict[str, list[int]] = {"baseline": [], "candidate": []}
        for number in range(40):
            arm = (await rank(client, session_id=number))["experiment"]["arm"]
            sessions[arm].append(number)
        for session in sessions["candidate"] * 10:
            assert None is not (await rank(client, session_id=session, timeout_ms=0.001))["degraded"]
            late = {"features": QUERY, "session_id": session, "timeout_ms": 0.001, "allow_degraded": False}
            assert 504 == (await client.post("/v1/rerank", json=late)).status_code
        generous = await rank(client, session_id=sessions["candidate"][0], timeout_ms=60_000)
        found = await only(client)

    assert None is generous["degraded"]
    n_candidate = len(sessions["candidate"])
    assert "running" == found["state"]
    assert {"ok": n_candidate + 1, "degraded": 0, "error": 0} == found["arms"]["candidate"]["requests"]
    assert 10 * n_candidate == found["outside"]


async def test_the_key_of_the_draws_is_kept_and_never_told(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    assert settings.experiments_file is not None
    path = settings.experiments_file.with_name("experiments.json.secret")
    path.unlink()
    arms, told = [], ""
    for _ in range(2):
        async with connect(settings) as client:
            await loaded(client)
            await put(client, "half", **BASELINE)
            answers = [await rank(client, session_id=number) for number in range(30)]
            told += (await client.get("/v1/experiments")).text + (await client.get("/metrics")).text
        arms.append([answer["experiment"]["arm"] for answer in answers])

    assert {"baseline", "candidate"} == set(arms[0])
    assert arms[0] == arms[1]
    assert 0o600 == path.stat().st_mode & 0o777
    assert path.read_text() not in told
    assert arms[0] == [
        "candidate" if place(bytes.fromhex(path.read_text()), "half", str(number)) < 0.5 else "baseline"
        for number in range(30)
    ]


async def test_a_canary_that_fails_costs_no_answer_and_is_taken_back(
    connect: Any,
    settings: Settings,
    make_ranker: Callable[..., Any],
    loaded: Callable[..., Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Version 3 refuses missing values, which version 1 takes."""
    registry = Registry(settings.models_dir)
    for name, missing in (("lax", "zero"), ("lax", "reject")):
        registry.publish(
            name,
            make_ranker(missing=missing),
            Provenance("2026-01-01T00:00:00Z", source={}, probe=queries_of_three_kinds()[:3]),
        )
    registry.promote("lax", 1)
    rails = {"minimum_requests": 10}
    async with connect(settings) as client:
        await loaded(client)
        canary = {"kind": "canary", "model": "lax", "candidate": "lax@2", "percent": 50, "guardrails": rails}
        await put(client, "strict", **canary, unit="request")
        answers = [await rank(client, model="lax", features=[[None, 1, 2, 3], *QUERY[1:]]) for _ in range(60)]
        found = await until(client, lambda one: one["state"] == "returned")
        after = await rank(client, model="lax", features=[[None, 1, 2, 3], *QUERY[1:]])
        metrics = (await client.get("/metrics")).text
    async with connect(settings) as restarted:
        await loaded(restarted)
        still = await until(restarted, lambda one: one["state"] != "waiting")

    arms = {(answer.get("experiment") or {}).get("arm") for answer in answers}
    assert {"baseline", "candidate"} <= arms
    assert {1} == {answer["version"] for answer in (*answers, after)}
    assert "experiment" not in after
    assert ("errors", "returned") == (found["returned"]["reason"], still["state"])
    assert found["returned"]["evidence"] == found["reason"] == still["reason"]
    assert 'localrank_experiment_returns_total{experiment="strict",reason="errors"} 1.0' in metrics
    assert f'localrank_experiment_returned{{experiment="strict",run="{found["run"]}"}} 1.0' in metrics
    assert "canary strict is taken back: the candidate failed in" in caplog.text


async def test_if_the_candidate_fails_the_baseline_explains_as_much_as_without_it(
    connect: Any,
    settings: Settings,
    make_ranker: Callable[..., Any],
    loaded: Callable[..., Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Version 2 refuses missing values; what it was to explain does not count."""
    registry = Registry(settings.models_dir)
    for missing in ("zero", "reject"):
        registry.publish(
            "lax",
            make_ranker(missing=missing),
            Provenance("2026-01-01T00:00:00Z", source={}, probe=queries_of_three_kinds()[:3]),
        )
    registry.promote("lax", 1)
    monkeypatch.setattr("localrank_service.ranking.reranking.MOST_CELLS", 4 * len(QUERY))
    monkeypatch.setattr("localrank_service.ranking.reranking.MOST_ROUTES", 1)
    async with connect(settings) as client:
        await loaded(client)
        await put(client, "strict", kind="split", model="lax", candidate="lax@2", percent=100, unit="request")
        asked = {"model": "lax", "features": [[None, 1, 2, 3], *QUERY[1:]]}
        answers = [await rank(client, **asked, explain=kind) for kind in ("contributions", "route")]
        found = await only(client)

    assert [1, 1] == [answer["version"] for answer in answers]
    assert 2 == found["arms"]["candidate"]["requests"]["error"]


@pytest.mark.parametrize("arm", ["baseline", "candidate"])
async def test_empty_lists_say_nothing_of_how_long_an_arm_takes(
    arm: str, connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    """Nor do they fail, although they are the first that the baseline ranks."""
    async with connect(settings) as client:
        await loaded(client)
        await put(client, "half", **BASELINE)
        arms: dict[str, int] = {}
        for session in range(40):
            if (
                "baseline"
                == (found := await rank(client, features=[], session_id=session))["experiment"]["arm"]
            ):
                arms["baseline"] = session
            else:
                arms["candidate"] = session
        for _ in range(5):
            answer = await rank(client, session_id=arms[arm], timeout_ms=60_000)
        requests = (await only(client))["arms"]

    assert 0 == len(found["results"])
    assert arm == answer["experiment"]["arm"]
    assert [0, 0] == [requests[one]["requests"]["error"] for one in ("baseline", "candidate")]


async def test_what_both_versions_refuse_is_the_callers_fault(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    async with connect(settings) as client:
        await loaded(client)
        await put(client, "half", **BASELINE)
        refused = [
            await client.post("/v1/rerank", json={"features": [[None, 1, 2, 3]], "session_id": f"s{n}"})
            for n in range(10)
        ]
        found = await only(client)

    assert {422} == {answer.status_code for answer in refused}
    assert {"/features/0/0"} == {answer.json()["pointer"] for answer in refused}
    assert {} == found["arms"]


async def test_the_file_is_read_again_and_what_cannot_run_says_why(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    def write(*experiments: dict[str, Any]) -> None:
        assert settings.experiments_file is not None
        settings.experiments_file.write_text(json.dumps({"experiments": experiments}))

    async with connect(settings) as client:
        await loaded(client)
        write({"name": "a", **BASELINE, "candidate": "demo@9"})
        missing = await until_listed(
            client, lambda found: found["state"] == "waiting" and "demo@9" in (found["reason"] or "")
        )
        write({"name": "a", **BASELINE, "candidate": "demo@champion"})
        over = await until_listed(client, lambda found: found["state"] == "over")
        write({"name": "a", **BASELINE})
        running = await until_listed(client, lambda found: found["state"] == "running")
        write({"name": "a"})
        for _ in range(2000):
            if (broken := await shown(client))["problem"]:
                break
            await asyncio.sleep(0.01)
        answer = await rank(client, session_id="s1")

    assert "model 'demo@9' is broken: version 9: demo: expected version 9, found 1, 2" == missing["reason"]
    assert "is now version 1, the candidate itself" in over["reason"]
    assert None is running["reason"]
    assert "without kind" in broken["problem"]
    assert "a" == answer["experiment"]["name"]  # the experiments stay as they were


async def until_listed(client: httpx.AsyncClient, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    for _ in range(2000):
        listed = (await shown(client))["experiments"]
        if listed and done(listed[0]):
            return dict(listed[0])
        await asyncio.sleep(0.01)
    raise AssertionError(listed)


async def test_comparing_two_versions_takes_no_part(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    async with connect(settings) as client:
        await loaded(client)
        await put(client, "half", **BASELINE, unit="request")
        compared = await client.post("/v1/compare", json={"candidate": "demo@2", "features": QUERY})
        found = await only(client)

    assert ("1", "2") == tuple(str(compared.json()[side]["version"]) for side in ("baseline", "candidate"))
    assert {} == found["arms"]


# One worker without an application.


class Beside:
    """Stands for the shadow: what it was offered."""

    def __init__(self) -> None:
        self.offered: list[Job] = []

    def offer(self, job: Job) -> None:
        self.offered.append(job)


class Alone:
    """The experiments of a worker that serves versions 1 and 2 of `tiny`, and version 1 of `other`."""

    def __init__(self, file: Path, make_ranker: Callable[..., Any], *written: dict[str, Any]) -> None:
        self.file = file
        file.with_name(f"{file.name}.secret").write_text(KEY.hex())
        self.live = LiveModels()
        models = [
            LiveModel(name, version, make_ranker())
            for name, version in (("tiny", 1), ("tiny", 2), ("other", 1))
        ]
        self.models = {f"{model.name}@{model.version}": model for model in models}
        self.live.replace(addresses_of(models), {})
        self.meters = Meters()
        self.workers = Workers(None)
        admission = Admission(LoadLimits.of(Settings()), self.meters)
        self.store = ExperimentStore(file, None)
        self.experiments = Experiments(self.store, self.live, None, self.workers, self.meters, admission)
        self.beside = Beside()
        self.experiments.shadow = self.beside  # type: ignore[assignment]
        self.write(*written)

    def write(self, *written: dict[str, Any]) -> None:
        self.file.write_text(
            json.dumps({"experiments": [{"model": "tiny", "candidate": "tiny@2"} | one for one in written]})
        )

    @property
    def counted(self) -> dict[tuple[str, ...], float]:
        """Requests by experiment, arm and outcome."""
        return {
            (name, arm, outcome): cells[0]
            for process in self.meters.counted()
            for (name, _, arm, outcome), cells in process.series.get(
                "localrank_experiment_requests_total", {}
            ).items()
            if cells[0]
        }

    def draw(self, *, teams: bool = True, request: str = "r", **options: Any) -> DrawnPart | None:
        return self.experiments.draw(self.models["tiny@1"], Options(**options), request, teams=teams)


@pytest.fixture
def alone(tmp_path: Path, make_ranker: Callable[..., Any]) -> Callable[..., Alone]:
    def made(*written: dict[str, Any]) -> Alone:
        return Alone(tmp_path / "experiments.json", make_ranker, *written)

    return made


class Arrival(asyncio.Event):
    """Models that arrive when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.awaited.set()
        return await super().wait()


async def test_a_worker_can_stop_in_the_instant_in_which_its_models_arrive(
    alone: Callable[..., Alone],
) -> None:
    """`asyncio.wait_for` of Python 3.11 loses a cancellation then: the worker never ended."""
    arrival = Arrival()
    loader: Any = SimpleNamespace(tried=arrival, pin=AsyncMock())
    experiments = dataclasses.replace(alone().experiments, loader=loader)
    following = asyncio.create_task(experiments.follow(3600.0))
    await arrival.awaited.wait()
    arrival.set()
    await asyncio.sleep(0)

    following.cancel()

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10.0):
            await following


SPLIT = {"name": "half", "kind": "split"}
MIXED = {"name": "mixed", "kind": "interleaving", "percent": 50}
SHADOW = {"name": "beside", "kind": "shadow", "percent": 50, "unit": "session_id"}
CANARY = {"name": "few", "kind": "canary", "unit": "request", "guardrails": {"minimum_requests": 10}}


async def test_without_experiments_no_request_takes_part(alone: Callable[..., Alone]) -> None:
    one = alone()
    await one.experiments.refresh()

    assert one.draw(session_id="s") is None
    assert ({}, False) == (one.counted, one.experiments.active)
    one.write(SPLIT)
    await one.experiments.refresh()
    assert one.experiments.active
    assert one.experiments.draw(one.models["other@1"], Options(session_id="s"), "r", teams=True) is None


async def test_a_split_draws_by_the_session(alone: Callable[..., Alone]) -> None:
    one = alone(SPLIT)
    await one.experiments.refresh()
    drawn = [one.draw(session_id=number, teams=False) for number in range(100)]

    for number, found in enumerate(drawn):
        arm = "candidate" if place(KEY, "half", str(number)) < 0.5 else "baseline"
        assert found is not None
        assert Part("half", arm, str(number), 0.5) == found.part
        assert (one.models["tiny@2"], 0.5) == (found.running.candidate, found.running.share)
    assert {} == one.counted
    assert one.draw(query_id="q") is None
    assert {("half", "", "outside"): 1.0} == one.counted


async def test_interleaving_leaves_the_others_alone_and_needs_room_for_teams(
    alone: Callable[..., Alone],
) -> None:
    one = alone(MIXED)
    await one.experiments.refresh()

    drawn = [one.draw(request=f"r{number}") for number in range(100)]

    for number, found in enumerate(drawn):
        chosen = place(KEY, "mixed", f"r{number}") < 0.5
        assert (None if found is None else found.part) == (
            Part("mixed", "interleaved", f"r{number}", 0.5) if chosen else None
        )
    assert {} == one.counted
    assert one.draw(teams=False) is None
    assert {("mixed", "", "outside"): 1.0} == one.counted


async def test_what_is_drawn_below_the_share_is_chosen(
    alone: Callable[..., Alone], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = alone({**SPLIT, "percent": 25}, {**SHADOW, "percent": 25})
    await one.experiments.refresh()
    arms = []
    ranked = SimpleNamespace(documents=SimpleNamespace(matrix=np.zeros((2, 4))), ranking=None, ruled=None)
    for found in (0.0, np.nextafter(0.25, 0), 0.25, 0.9):
        monkeypatch.setattr("localrank_service.online.experiments.place", lambda *_, found=found: found)
        drawn = one.draw(session_id="s")
        assert drawn is not None
        arms.append(drawn.part.arm)
        one.experiments.offer(one.models["tiny@1"], Options(session_id="s"), "r", ranked)  # type: ignore[arg-type]

    assert ["candidate", "candidate", "baseline", "baseline"] == arms
    assert 2 == len(one.beside.offered)


async def test_shadows_are_offered_what_was_ranked(alone: Callable[..., Alone]) -> None:
    one = alone(SHADOW, {**SHADOW, "name": "second", "percent": 100, "candidate": "tiny@2"})
    await one.experiments.refresh()
    matrix, ranking = np.zeros((2, 4)), object()
    ranked: Any = SimpleNamespace(documents=SimpleNamespace(matrix=matrix), ranking=ranking, ruled=None)
    session = next(f"s{n}" for n in range(100) if place(KEY, "beside", f"s{n}") < 0.5)

    for options in (Options(session_id=session), Options()):
        one.experiments.offer(one.models["tiny@1"], options, "r", ranked)
    one.experiments.offer(one.models["other@1"], Options(session_id=session), "r", ranked)

    assert ["beside", "second"] == [job.running.definition.name for job in one.beside.offered]
    for job in one.beside.offered:
        assert (one.models["tiny@2"], True, True) == (
            job.running.candidate, job.documents is matrix, job.answered is ranking
        )  # fmt: skip
    assert {definition.run for definition in one.store.read().definitions} == {
        job.running.run for job in one.beside.offered
    }
    assert {("beside", "", "outside"): 1.0, ("second", "", "outside"): 1.0} == one.counted
    assert one.draw(session_id=session) is None
    assert one.experiments.active


async def test_answers_are_counted_by_outcome_with_their_time(alone: Callable[..., Alone]) -> None:
    one = alone(SPLIT)
    await one.experiments.refresh()
    drawn = one.draw(session_id="s")
    assert drawn is not None
    hundred: Any = SimpleNamespace(order=np.arange(100))
    late: Any
    busy: Any
    answered: Any = SimpleNamespace(degraded=None, ranking=hundred)
    late, busy = (
        SimpleNamespace(degraded=Degraded("global", reason), ranking=hundred)
        for reason in (TIMEOUT, OVERLOAD)
    )

    drawn.running.pace.learn(100, 0.001)
    one.experiments.ranked(drawn.running, "candidate", answered, 0.00123, fair=True)
    for cheaper, fair in ((late, True), (late, False), (busy, True)):
        one.experiments.ranked(drawn.running, "candidate", cheaper, 0.00123, fair=fair)
    one.experiments.count(drawn.running, "baseline", "error")

    [shown] = one.experiments.shown()["experiments"]
    assert {
        ("half", "candidate", "ok"): 1, ("half", "candidate", "degraded"): 1, ("half", "baseline", "error"): 1,
        ("half", "", "outside"): 2,
    } == one.counted  # fmt: skip
    assert {"baseline", "candidate"} == shown["arms"].keys()
    assert {"ok": 1, "degraded": 1, "error": 0} == shown["arms"]["candidate"]["requests"]
    bound = min(bound for bound in RANK_BUCKETS if bound >= 0.00123)
    assert dict.fromkeys(("p50", "p95"), float(f"{1e3 * bound:.3g}")) == shown["arms"]["candidate"]["rank_ms"]
    assert {"p50": None, "p95": None} == shown["arms"]["baseline"]["rank_ms"]
    assert 2 == shown["outside"]


async def test_what_is_shown_is_what_is_written_and_how_it_is(alone: Callable[..., Alone]) -> None:
    one = alone(SPLIT, SHADOW, {**CANARY, "model": "other", "candidate": "other@9"})
    await one.experiments.refresh()

    found = one.experiments.shown()

    assert one.store.read().generation == found["generation"]
    [worker] = found["workers"]
    assert (os.getpid(), found["generation"], None) == (worker["pid"], worker["generation"], found["problem"])
    half, beside, few = found["experiments"]
    assert ("running", None, "running", None) == (
        half["state"],
        half["reason"],
        beside["state"],
        beside["reason"],
    )
    assert ("waiting", "no model 'other@9'; expected one of: other@1, other@champion") == (
        few["state"],
        few["reason"],
    )
    assert {"baseline": "tiny@1", "candidate": "tiny@2"} == half["versions"]
    assert {"baseline": "other@1", "candidate": None} == few["versions"]
    assert ("shadow" in half, "shadow" in beside) == (False, True)
    assert 0 == beside["shadow"]["ranked"]
    assert [
        {"name": "half", "kind": "split", "state": "running"},
        {"name": "beside", "kind": "shadow", "state": "running"},
        {"name": "few", "kind": "canary", "state": "waiting"},
    ] == one.experiments.states()


async def test_before_the_first_look_an_experiment_waits(alone: Callable[..., Alone]) -> None:
    one = alone(SPLIT)
    one.experiments.written = one.store.read()

    [shown] = one.experiments.shown()["experiments"]

    assert ("waiting", "it starts in a moment") == (shown["state"], shown["reason"])
    assert [{"name": "half", "kind": "split", "state": "waiting"}] == one.experiments.states()


async def test_versions_of_other_features_wait(
    alone: Callable[..., Alone], make_ranker: Callable[..., Any]
) -> None:
    one = alone(SPLIT)
    ranker = make_ranker()
    contract = FeatureContract.learn(np.eye(4, dtype=np.float32), [4], names=("a", "b", "c", "d"))
    models = [one.models["tiny@1"], LiveModel("tiny", 2, dataclasses.replace(ranker, contract=contract))]
    one.live.replace(addresses_of(models), {})

    await one.experiments.refresh()

    [shown] = one.experiments.shown()["experiments"]
    assert "waiting" == shown["state"]
    assert "expected the features of 'tiny' in the same order, found others in 'tiny@2'" == shown["reason"]
    assert not one.experiments.active


async def test_an_experiment_whose_model_is_gone_waits(alone: Callable[..., Alone]) -> None:
    one = alone({**SPLIT, "model": "gone"})

    await one.experiments.refresh()

    [shown] = one.experiments.shown()["experiments"]
    assert ("waiting", "no model 'gone'; expected one of: other, tiny") == (shown["state"], shown["reason"])


async def test_why_an_experiment_does_not_run_is_logged_once(
    alone: Callable[..., Alone], caplog: pytest.LogCaptureFixture
) -> None:
    one = alone({**SPLIT, "candidate": "tiny@champion"})
    for _ in range(3):
        await one.experiments.refresh()
    said = caplog.messages.copy()
    one.live.replace(addresses_of([one.models["tiny@2"]]), {})
    await one.experiments.refresh()

    over = "experiment half is over: the champion of 'tiny' is now version {}, the candidate itself"
    assert [over.format(1)] == said
    assert [over.format(1), over.format(2)] == caplog.messages


async def test_nothing_is_loaded_while_the_models_are(alone: Callable[..., Alone]) -> None:
    one = alone({**SPLIT, "candidate": "tiny@9"})
    one.live.loaded = False

    await one.experiments.refresh()

    [shown] = one.experiments.shown()["experiments"]
    assert ("waiting", "looking for models") == (shown["state"], shown["reason"])


async def test_a_canary_that_fails_is_noted_once_and_counted_by_who_noted_it(
    alone: Callable[..., Alone], caplog: pytest.LogCaptureFixture
) -> None:
    one = alone(CANARY)
    await one.experiments.refresh()
    [definition] = one.store.read().definitions
    drawn = one.draw(request="r")
    assert drawn is not None
    answered: Any = SimpleNamespace(degraded=None, ranking=SimpleNamespace(order=np.arange(20)))
    for _ in range(200):
        one.experiments.ranked(drawn.running, "baseline", answered, 0.001, fair=True)
        one.experiments.count(drawn.running, "candidate", "error")

    await one.experiments._judge()
    await one.experiments._judge()

    [shown] = one.experiments.shown()["experiments"]
    assert ("returned", "errors") == (shown["state"], shown["returned"]["reason"])
    assert shown["reason"] == shown["returned"]["evidence"]
    assert "few" == shown["returned"]["experiment"]
    assert datetime.fromisoformat(shown["returned"]["at"]).utcoffset() == timedelta(0)
    assert "." not in shown["returned"]["at"]
    assert 1.0 == one.meters.experiments.returns.of("few", "errors")[0]
    assert 1.0 == one.meters.experiments.returned.of("few", definition.run)[0]
    assert (False, None) == (one.experiments.active, one.draw(request="r"))
    [said] = caplog.messages
    assert said.startswith("canary few is taken back: the candidate failed in 200 of 200 requests")
    assert said.endswith("; tiny answers all requests")


async def test_a_canary_that_another_worker_noted_is_not_counted_again(
    alone: Callable[..., Alone], caplog: pytest.LogCaptureFixture
) -> None:
    one = alone(CANARY)
    await one.experiments.refresh()
    drawn = one.draw(request="r")
    assert drawn is not None
    answered: Any = SimpleNamespace(degraded=None, ranking=SimpleNamespace(order=np.arange(20)))
    for _ in range(200):
        one.experiments.ranked(drawn.running, "baseline", answered, 0.001, fair=True)
        one.experiments.count(drawn.running, "candidate", "error")
    record = {"experiment": "few", "at": "2026-01-01T00:00:00+00:00", "reason": "errors", "evidence": "all"}
    one.store.note_return(drawn.running.run, record)

    await one.experiments._judge()

    [shown] = one.experiments.shown()["experiments"]
    assert (record, "all", []) == (shown["returned"], shown["reason"], caplog.messages)
    assert 0.0 == one.meters.experiments.returns.of("few", "errors")[0]


async def test_splits_are_not_judged(alone: Callable[..., Alone]) -> None:
    one = alone(SPLIT)
    await one.experiments.refresh()
    drawn = one.draw(session_id="s")
    assert drawn is not None
    for _ in range(200):
        answered: Any = SimpleNamespace(degraded=None, ranking=SimpleNamespace(order=np.arange(20)))
        one.experiments.ranked(drawn.running, "baseline", answered, 0.001, fair=True)
        one.experiments.count(drawn.running, "candidate", "error")

    await one.experiments._judge()

    assert [{"name": "half", "kind": "split", "state": "running"}] == one.experiments.states()


async def test_counts_of_experiments_that_are_gone_are_forgotten(alone: Callable[..., Alone]) -> None:
    one = alone(SPLIT, {**CANARY, "model": "other", "candidate": "other@1"})
    await one.experiments.refresh()
    drawn = one.draw(session_id="s")
    assert drawn is not None
    one.experiments.count(drawn.running, "baseline", "error")
    await one.experiments.refresh()
    kept = one.counted
    one.write({**SPLIT, "percent": 40})

    await one.experiments.refresh()

    assert ({("half", "baseline", "error"): 1.0}, {}) == (kept, one.counted)


async def test_a_change_waits_until_every_worker_follows(alone: Callable[..., Alone]) -> None:
    one = alone()
    definition = defined(SPLIT | {"model": "tiny", "candidate": "tiny@2"})

    changed = await one.experiments.change("half", definition, 5.0)

    assert (os.getpid(),) == changed
    assert ["half"] == [state["name"] for state in one.experiments.states()]
    assert one.experiments.active
    assert (os.getpid(),) == await one.experiments.change("half", None, 5.0)
    assert not one.experiments.active


async def test_a_change_that_some_workers_do_not_follow_says_which(alone: Callable[..., Alone]) -> None:
    one = alone()
    reports = [Report(71, {}, {}, "old"), Report(72, {}, {}, "other")]
    one.workers.living = lambda: [*reports, Report(73, {}, {}, one.store.read().generation)]  # type: ignore[method-assign]
    definition = defined(SPLIT | {"model": "tiny", "candidate": "tiny@2"})

    with pytest.raises(Problem) as late:
        await one.experiments.change("half", definition, 0.0)

    assert (503, {"Retry-After": "1"}) == (late.value.status, late.value.headers)
    assert "the file is written, but these workers do not use it yet: 71, 72" == late.value.detail
    assert 1 == len(one.store.read().definitions)


async def settled(done: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if done():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError


async def test_experiments_are_followed_whatever_goes_wrong(
    alone: Callable[..., Alone], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = alone(SPLIT)
    looks = 0
    read = one.store.read

    def failing() -> Any:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise RuntimeError("anything")
        return read()

    monkeypatch.setattr(one.store, "read", failing)
    following = asyncio.create_task(one.experiments.follow(0.001))
    await settled(lambda: looks > 2 and one.experiments.looked.is_set())
    following.cancel()

    assert ["cannot update the experiments; trying again"] == caplog.messages
    assert caplog.records[0].exc_info
    assert [{"name": "half", "kind": "split", "state": "running"}] == one.experiments.states()


async def test_experiments_begin_as_soon_as_the_models_are_there(alone: Callable[..., Alone]) -> None:
    one = alone(SPLIT)
    addresses = one.live.addresses
    one.live.replace({}, {})
    one.live.loaded = False
    one.experiments._loaded = asyncio.Event()
    following = asyncio.create_task(one.experiments.follow(3600.0))
    await settled(lambda: bool(one.experiments.written.definitions))
    early = one.experiments.looked.is_set(), one.experiments.active
    one.live.replace(addresses, {})
    one.experiments._loaded.set()
    await settled(one.experiments.looked.is_set)
    following.cancel()

    assert (False, False) == early
    assert one.experiments.active
