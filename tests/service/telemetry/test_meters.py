from __future__ import annotations

import asyncio
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from localrank_service.telemetry.meters import Meters

if TYPE_CHECKING:
    import httpx

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker, Ranking

pytestmark = pytest.mark.anyio


async def samples(client: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, in the order of their names."""
    text = (await client.get("/metrics")).text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_requests_are_counted_by_outcome(client: httpx.AsyncClient) -> None:
    await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]] * 30})
    await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]]})
    await client.post("/v1/rerank", json={"features": [[1, 2, 3]]})
    await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]], "model": "nope"})
    await client.get("/nope")
    await client.request("BREW", "/livez")

    found = await samples(client)

    assert 2 == found["localrank_requests_total", "rerank", "tiny", "ok", "3"]
    assert 1 == found["localrank_requests_total", "rerank", "tiny", "invalid", "3"]
    assert 1 == found["localrank_requests_total", "rerank", "", "invalid", ""]
    assert 2 == found["localrank_http_requests_total", "POST", "/v1/rerank", "200"]
    assert 1 == found["localrank_http_requests_total", "POST", "/v1/rerank", "422"]
    assert 1 == found["localrank_http_requests_total", "GET", "other", "404"]
    assert 1 == found["localrank_http_requests_total", "other", "/livez", "405"]
    assert 2 == found["localrank_request_duration_seconds_count", "rerank", "tiny"]
    assert 1 == found["localrank_inflight_requests",]


async def test_list_lengths_fall_into_their_buckets(client: httpx.AsyncClient) -> None:
    for n_docs in (1, 5, 6, 30):
        await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]] * n_docs})

    found = await samples(client)

    for bucket, count in {"1.0": 1, "5.0": 2, "10.0": 3, "25.0": 3, "50.0": 4, "+Inf": 4}.items():
        assert count == found["localrank_documents_bucket", bucket, "tiny"]


async def test_stages_have_the_names_and_the_times_of_the_answers(
    client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    answers = [
        (await client.post("/v1/rerank", json={"features": query.tolist()})).json() for query in queries
    ]

    found = await samples(client)

    for stage in ("decode", "sign", "route", "score", "order", "encode"):
        total = sum(answer["timings_ms"][stage] for answer in answers) / 1e3
        assert len(queries) == found["localrank_stage_duration_seconds_count", stage]
        assert total == pytest.approx(found["localrank_stage_duration_seconds_sum", stage], rel=1e-9)
    assert ("localrank_stage_duration_seconds_bucket", "5e-05", "sign") in found
    whole = sum(answer["timings_ms"]["total"] for answer in answers) / 1e3
    assert whole == pytest.approx(found["localrank_request_duration_seconds_sum", "rerank", "tiny"], rel=1e-9)


async def test_routes_are_counted_by_cluster(
    client: httpx.AsyncClient, queries: list[Matrix], tiny_ranker: Ranker
) -> None:
    for query in queries:
        await client.post("/v1/rerank", json={"features": query.tolist()})
    await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]]})

    found = await samples(client)

    clusters = [tiny_ranker.rank(query).route.cluster for query in queries]
    for cluster in range(3):
        assert clusters.count(cluster) == found["localrank_routes_total", str(cluster), "", "tiny", "3"]
    assert 1 == found["localrank_routes_total", "global", "no_signature", "tiny", "3"]
    assert len(queries) == found["localrank_route_margin_count", "tiny"]


async def test_imputed_and_out_of_range_values_are_counted(
    client: httpx.AsyncClient, tiny_ranker: Ranker
) -> None:
    lowest, highest = tiny_ranker.contract.quantiles[0], tiny_ranker.contract.quantiles[-1]
    inside = ((lowest + highest) / 2).tolist()
    above, below = (highest + 1).tolist(), (lowest - 1).tolist()
    assert np.isfinite([inside, above, below]).all()

    await client.post("/v1/rerank", json={"features": [inside, above, [*below[:2], *inside[2:]]]})
    await client.post("/v1/rerank", json={"features": [[inside[0], None, inside[2], None], [inside[0]] * 4]})

    found = await samples(client)
    assert 4 + 2 == found["localrank_feature_out_of_range_total", "tiny"] - sum(
        not low <= inside[0] <= high for low, high in zip(lowest, highest, strict=True)
    )
    assert 1 == found["localrank_feature_imputed_total", "pagerank", "tiny"]
    assert 1 == found["localrank_feature_imputed_total", "age", "tiny"]


async def test_names_follow_the_conventions(client: httpx.AsyncClient) -> None:
    await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]]})
    text = (await client.get("/metrics")).text

    for family in text_string_to_metric_families(text):
        assert family.name.startswith("localrank_")
        assert family.documentation
        if family.type == "counter":
            assert f"{family.name}_total" in text


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: make test-deps")
async def test_promtool_finds_no_fault(client: httpx.AsyncClient) -> None:
    await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4], [4, 3, 2, 1], [99, 9, 9, None]]})
    text = (await client.get("/metrics")).text

    linted = await asyncio.to_thread(
        subprocess.run, ["promtool", "check", "metrics"], input=text, capture_output=True, text=True
    )

    assert (0, "") == (linted.returncode, linted.stdout + linted.stderr)


async def test_every_metric_is_documented(client: httpx.AsyncClient) -> None:
    documented = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()

    for family in text_string_to_metric_families((await client.get("/metrics")).text):
        suffix = "_total" if family.type == "counter" else ""
        assert f"`{family.name}{suffix}`" in documented


async def test_the_version_served_is_shown(connect: Any, loaded: Any, models_dir: Any) -> None:
    async with connect(Settings(models_dir=models_dir)) as client:
        await loaded(client)
        found = await samples(client)

    assert 1 == found["localrank_model_version", "champion", "demo"]
    assert 0 == found["localrank_model_broken", "demo"]


def ranked(meters: Meters, model: LiveModel, ranking: Ranking) -> None:
    meters.ranked("rerank", model, ranking, 0, {"decode": 0.1, "score": 0.2, "total": 0.4})


def shown(meters: Meters, name: str, label: str) -> set[str]:
    text = meters.expose().decode()
    return {
        sample.labels[label]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def test_versions_that_are_gone_are_no_longer_shown(
    tmp_path: Path, tiny_ranker: Ranker, queries: list[Matrix], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All processes show the same, and drop what is not shown; the latest and what an alias stands for stay."""
    clock = iter(range(10**9))
    monkeypatch.setattr("localrank_service.telemetry.meters.time.time", lambda: float(next(clock)))
    one, other = Meters(tmp_path), Meters(tmp_path)
    ranking = tiny_ranker.rank(queries[0])
    sizes = []

    for version in range(1, 201):
        model = LiveModel("tiny", version, tiny_ranker)
        one.model_version.set(1, "tiny", "stable")
        for meters in (one, other):
            ranked(meters, model, ranking)
            meters.retire([("tiny", version)])
        sizes.append(sum(path.stat().st_size for path in tmp_path.glob("*.series")))
    one.refused("rerank", None, 404, 0.1)
    again = LiveModel("tiny", 150, tiny_ranker)
    ranked(other, again, ranking)

    newest = {str(version) for version in range(192, 201)}
    for name in (
        "localrank_requests_total",
        "localrank_routes_total",
        "localrank_model_seconds_total",
        "localrank_last_request_timestamp_seconds",
    ):
        assert {"1", "150"} | newest == shown(one, name, "version") - {""}
        assert shown(one, name, "version") == shown(other, name, "version")
    assert 2.0 == one.statistics()["tiny", "200"]["ok"]
    assert 1.0 == one.statistics()["tiny", "150"]["ok"]
    assert max(sizes[30:]) < 1.1 * max(sizes[:30])


def test_clusters_have_series_up_to_a_number(tiny_ranker: Ranker, queries: list[Matrix]) -> None:
    """There may be a cluster for each of a thousand training queries."""
    meters, model = Meters(), LiveModel("tiny", 1, tiny_ranker)
    ranking = tiny_ranker.rank(queries[0])
    for cluster in range(784):
        ranked(meters, model, replace(ranking, route=ranking.route._replace(cluster=cluster)))

    found = shown(meters, "localrank_routes_total", "cluster")

    assert {*map(str, range(64)), "other"} == found
    assert 784 - 64 == meters.routes.of("tiny", 1, "other", "")[0]


async def test_drift_is_the_distance_between_the_shares_of_traffic_and_training(
    client: httpx.AsyncClient, queries: list[Matrix], tiny_ranker: Ranker
) -> None:
    """Training had as many queries in each of three clusters; here one of them gets more, and the global scorer some."""
    by_cluster: dict[int | None, list[Matrix]] = {}
    for query in queries:
        by_cluster.setdefault(tiny_ranker.rank(query).route.cluster, []).append(query)
    sent = [*by_cluster[0][:1] * 6, *by_cluster[1][:1] * 2]
    for query in sent:
        await client.post("/v1/rerank", json={"features": query.tolist()})
    for _ in range(2):
        await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]]})

    found = await samples(client)

    for cluster in ("0", "1", "2"):
        assert found["localrank_training_share", cluster, "tiny", "3"] == pytest.approx(1 / 3)
    traffic, training = [0.6, 0.2, 0.0, 0.2], [1 / 3, 1 / 3, 1 / 3, 0.0]
    distance = sum(abs(p - q) for p, q in zip(traffic, training, strict=True)) / 2
    assert found["localrank_route_drift", "tiny", "3"] == pytest.approx(distance)


def test_clusters_beyond_the_first_share_the_label_other() -> None:
    class Many:
        name, version = "many", 1

        def sizes(self) -> list[int]:
            return [1] * 80

    meters = Meters()

    meters.trained(Many())  # type: ignore[arg-type]

    samples = {
        one.labels["cluster"]: one.value
        for family in meters.collect()
        for one in family.samples
        if one.name == "localrank_training_share"
    }
    assert 66 == len(samples)
    assert samples["other"] == pytest.approx(16 / 80)
    assert sum(samples.values()) == pytest.approx(1)
