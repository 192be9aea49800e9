"""What ``/v1/stats`` tells since the start is what ``/metrics`` tells, over all workers; its slices are the windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from localrank.ladder import Degraded
from localrank.routing.route import Route
from localrank_service.models.live import LiveModel
from localrank_service.telemetry import recent
from localrank_service.telemetry.counts import Counts
from localrank_service.telemetry.meters import Meters
from localrank_service.telemetry.recent import SECONDS, Recent
from tests.service.telemetry.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker, Ranking

TIMES = {"decode": 0.1, "score": 0.2, "total": 0.4}


def test_the_workers_counts_are_added(tmp_path: Path, tiny_ranker: Ranker, queries: list[Matrix]) -> None:
    model = LiveModel("web", 3, tiny_ranker)
    one, other = Meters(tmp_path), Meters(tmp_path)
    one.trained(model)
    ranking = tiny_ranker.rank(queries[0])

    def routed(cluster: int | None, fallback: str | None = None) -> Ranking:
        return replace(ranking, route=Route("exact", cluster, 0.9, 0.1, 3, fallback), imputed={0: 2})

    def answer(times: int) -> None:
        for meters, cluster in ((one, 0), (one, 0), (other, 1)) * times:
            meters.ranked("v1", model, routed(cluster), 1, TIMES)
        for _ in range(times):
            degraded = Degraded("global", "timeout")
            other.ranked("v1", model, routed(None, "no_signature"), 0, TIMES, degraded=degraded)

    answer(24)
    few = one.stats()["models"]["web"]["versions"]["3"]
    answer(1)
    other.refused("v1", model, 422, 0.1)
    one.refused("v1", None, 404, 0.1)

    found = one.stats()["models"]

    assert {"web"} == found.keys()
    version = found["web"]["versions"]["3"]
    assert {"ok": 75, "degraded": 25, "invalid": 1, "error": 0} == version["requests"]
    counted = {cluster["cluster"]: cluster["requests"] for cluster in version["clusters"]}
    assert {0: 50, 1: 25, 2: 0, None: 25} == counted
    assert [0, 1, 2, None] == [cluster["cluster"] for cluster in version["clusters"]]
    assert 1.0 == pytest.approx(sum(cluster["training_share"] for cluster in version["clusters"]))
    assert {"no_signature": 25} == version["fallbacks"]
    # Shares 1/2, 1/4, 0 and 1/4 of the traffic against thirds: a sixth and a quarter are beyond.
    trained = [cluster["training_share"] for cluster in version["clusters"]]
    expected = sum(abs(a - b) for a, b in zip([0.5, 0.25, 0.0, 0.25], trained, strict=True)) / 2
    assert expected == pytest.approx(version["drift"])
    assert (None, 4, 0) == (few["drift"], few["drift_missing"], version["drift_missing"])
    assert [{"rung": "global", "reason": "timeout", "requests": 25}] == found["web"]["degraded"]
    assert (200, 75) == (found["web"]["imputed"], found["web"]["out_of_range"])
    assert found == other.stats()["models"]


def test_slices_tell_when_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = Clock()
    monkeypatch.setattr(recent, "time", clock)
    counts = [Counts(tmp_path), Counts(tmp_path)]
    one, other = map(Recent, counts)
    # Far enough back to have left the ring, then 10 minutes ago by both workers, then now.
    one.ranked("web", {"total": 5.0})
    clock.now += 3000
    for series in (one, one, other):
        series.ranked("web", {"total": 2.0})
    clock.now += 600
    other.ranked("web", {"total": 50.0})
    other.ranked("demo", {"total": 1.0})
    one.refused("web", "invalid")

    found = one.series(counts[0].counted(), clock.now)

    web = found["models"]["web"]
    back = -1 - 600 // SECONDS
    assert (4, 3, 1) == (sum(web["ok"]), web["ok"][back], web["ok"][-1])
    assert (1, 2) == (web["invalid"][-1], found["ok"][-1])
    assert 2.0 == pytest.approx(web["p50"][back], rel=0.1)
    assert 50.0 == pytest.approx(web["p99"][-1], rel=0.1)
    assert {"ok", "invalid", "error", "p50", "p99"} == web.keys()
    assert {61} == {len(web[name]) for name in web}
    assert web["p50"][-2] is None
    assert 0 <= found["latest_seconds"] < SECONDS == found["seconds"]


@pytest.mark.anyio
async def test_slices_are_told_if_asked_for(client: httpx.AsyncClient) -> None:
    await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]] * 30})

    plain = (await client.get("/v1/stats")).json()
    sliced = (await client.get("/v1/stats", params={"series": "true"})).json()
    refused = await client.get("/v1/stats", params={"series": "yes"})

    assert "series" not in plain
    assert 1 == sum(sliced["series"]["ok"]) == sum(sliced["series"]["models"]["tiny"]["ok"])
    assert (422, "series: expected true or false, found 'yes'") == (
        refused.status_code,
        refused.json()["detail"],
    )
