"""Experiments as a caller meets them: one worker, real models, the application itself."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from pydantic import SecretStr

from localrank.artifact import Provenance
from localrank.interleaving import team_draft
from localrank.registry import Registry
from localrank_service.describe.openapi import SCHEMAS
from localrank_service.experiments.drawing import coins, place
from localrank_service.process.settings import Settings
from tests.service.conftest import queries_of_three_kinds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import httpx

pytestmark = pytest.mark.anyio

ADMIN = {"x-api-key": "the-admin-key"}
BASELINE = {"kind": "split", "model": "demo", "candidate": "demo@2", "percent": 50}
QUERY = queries_of_three_kinds(seed=7)[0].tolist()


def valid(name: str, found: Any) -> Any:
    jsonschema.Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}}
    ).validate(found)
    return found


@pytest.fixture
def settings(models_dir: Path, tmp_path: Path) -> Settings:
    """Version 2 of the model demo ranks the opposite way."""
    return Settings(
        models_dir=models_dir,
        experiments_file=tmp_path / "experiments.json",
        admin_key=SecretStr("the-admin-key"),
        poll_seconds=0.02,
        model="demo",
    )


async def put(client: httpx.AsyncClient, name: str, **members: Any) -> None:
    answer = await client.put(f"/v1/experiments/{name}", json=members, headers=ADMIN)
    assert 200 == answer.status_code, answer.text
    valid("ExperimentChanged", answer.json())


async def shown(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.get("/v1/experiments")
    assert 200 == answer.status_code
    found: dict[str, Any] = valid("Experiments", answer.json())
    return found


async def only(client: httpx.AsyncClient) -> dict[str, Any]:
    [found] = (await shown(client))["experiments"]
    return dict(found)


async def rank(client: httpx.AsyncClient, **members: Any) -> dict[str, Any]:
    answer = await client.post("/v1/rerank", json={"features": QUERY, **members})
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] = valid("RerankAnswer", answer.json())
    return found


async def until(client: httpx.AsyncClient, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    for _ in range(2000):
        if done(found := await only(client)):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(found)


async def test_routes_of_experiments_say_how_to_turn_them_on(client: httpx.AsyncClient, connect: Any) -> None:
    listed = await client.get("/v1/experiments")
    async with connect(Settings(admin_key=SecretStr("the-admin-key"))) as one:
        changed = await one.put("/v1/experiments/a", json={}, headers=ADMIN)
        removed = await one.delete("/v1/experiments/a", headers=ADMIN)

    for answer in (listed, changed, removed):
        assert 409 == answer.status_code
        assert "set LOCALRANK_EXPERIMENTS_FILE" in valid("Problem", answer.json())["detail"]


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

    assert (status, at) == (answer.status_code, valid("Problem", answer.json())["pointer"])
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

    drawn = {session: place("half", f"s{session}") < 0.5 for session in range(40)}
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
    session = next(f"s{n}" for n in range(100) if place("half", f"s{n}") < 0.5)
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
    assert part == valid("CohereAnswer", cohere.json())["meta"]["localrank"]["experiment"]
    assert part == valid("SolrReranked", solr.json())["localrank"]["experiment"]
    assert ("2", {"experiment": "half", "arm": "candidate"}) == (
        valid("InferAnswer", infer.json())["model_version"],
        infer.json()["parameters"],
    )


async def test_interleaved_results_come_from_both_and_name_their_teams(
    connect: Any, settings: Settings, loaded: Callable[..., Awaitable[None]]
) -> None:
    mixing = {"kind": "interleaving", "model": "demo", "candidate": "demo@2", "depth": 6}
    async with connect(settings) as client:
        await loaded(client)
        first, second = [await rank(client, model=model) for model in ("demo@1", "demo@2")]
        await put(client, "mixed", **mixing)
        answers = []
        for number in range(5):
            answer = await client.post(
                "/v1/rerank", json={"features": QUERY}, headers={"x-request-id": f"request-{number}"}
            )
            answers.append(valid("RerankAnswer", answer.json()))
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
        expected = team_draft(before, after, 6, coins("mixed", f"request-{number}"))
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

    assert "no model 'demo@9'" in missing["reason"]
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
