from __future__ import annotations

import asyncio
import math
import os
import re
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from localrank.ladder import Degraded
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from localrank_service.telemetry.instruments import Counter, Gauge, Histogram
from localrank_service.telemetry.meters import DOCUMENT_BUCKETS, MARGIN_BUCKETS, TIME_BUCKETS, Meters
from tests.service.telemetry.clock import Clock

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
        assert (
            clusters.count(cluster) == found["localrank_routes_total", str(cluster), "", "tiny", "exact", "3"]
        )
    assert 1 == found["localrank_routes_total", "global", "no_signature", "tiny", "exact", "3"]
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


def test_the_documentation_lists_every_metric_with_its_labels_and_no_other() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operate" / "operations.md").read_text()

    rows = re.findall(r"^\| `(localrank_\w+)` \|([^|]*)\|", page, re.MULTILINE)

    documented = {name: re.findall(r"\w+", labels) for name, labels in rows}
    assert {one.name: list(one.labels) for one in Meters().instruments} == documented
    assert len(documented) == len(rows)


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
    assert 784 - 64 == meters.routes.of("tiny", 1, "other", "", ranking.route.strategy)[0]


async def test_drift_is_the_distance_between_the_shares_of_traffic_and_training(
    client: httpx.AsyncClient, queries: list[Matrix], tiny_ranker: Ranker
) -> None:
    """Training had as many queries in each of three clusters; here one of them gets more, and the global scorer some."""
    by_cluster: dict[int | None, list[Matrix]] = {}
    for query in queries:
        by_cluster.setdefault(tiny_ranker.rank(query).route.cluster, []).append(query)
    sent = [query[:5].tolist() for query in (*by_cluster[0][:1] * 6, *by_cluster[1][:1] * 2)]
    tenth = {"queries": [{"features": rows} for rows in (*sent, [[1, 2, 3, 4]], [[1, 2, 3, 4]])]}
    for number in range(10):
        if number == 9:
            before = await samples(client)
        await client.post("/v1/rerank/batch", json=tenth)

    found = await samples(client)
    assert ("localrank_route_drift", "tiny", "3") not in before  # 90 requests may differ by chance

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

        def kinds(self) -> list[int]:
            return []

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


STAGES = {"decode": 0.125, "sign": 0.25, "score": 0.5, "encode": 0.0625, "total": 1.0}


def test_time_is_split_into_what_the_protocol_s_statistics_ask_for(
    tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    """Input is decoding, output is encoding, and the rest of the total is computing."""
    meters, model = Meters(), LiveModel("tiny", 1, tiny_ranker)
    ranking = tiny_ranker.rank(queries[0])

    for _ in range(2):
        meters.ranked("rerank", model, ranking, 0, STAGES)
    meters.ranked("rerank", model, ranking, 0, {"score": 0.5, "total": 1.0})
    meters.refused("rerank", model, 499, 0.25)
    meters.refused("rerank", model, 500, 0.5)
    meters.refused("rerank", None, 404, 9.0)

    figures = meters.statistics()["tiny", "1"]
    expected = {
        "ok": 3.0,
        "invalid": 1.0,
        "error": 1.0,
        "success": 3e-3,
        "input": 2 * 0.125e-3,
        "compute": 2 * 0.8125e-3 + 1e-3,
        "output": 2 * 0.0625e-3,
        "fail": 0.75,
    }
    assert expected == pytest.approx({name: figures[name] for name in expected})
    assert {"invalid": 1.0} == meters.statistics()["", ""]


def test_stages_that_took_longer_than_the_total_compute_nothing(
    tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    """Clocks are read one after the other."""
    meters, model = Meters(), LiveModel("tiny", 1, tiny_ranker)

    meters.ranked(
        "rerank", model, tiny_ranker.rank(queries[0]), 0, {"decode": 2.0, "encode": 1.0, "total": 2.5}
    )

    assert 0.0 == meters.model_seconds.of("tiny", 1, "compute")[0]


def test_bounds_go_in_steps_of_1_2_5_and_10() -> None:
    def steps(least: float, most: float) -> list[float]:
        every = [step * 10.0**power for power in range(-6, 5) for step in (1.0, 2.5, 5.0)]
        return [one for one in every if least * 0.99 < one < most * 1.01]

    assert steps(50e-6, 2.5) == pytest.approx(list(TIME_BUCKETS[:-1]))
    assert 10.0 == TIME_BUCKETS[-1]
    assert [1, *steps(5, 5000)] == pytest.approx(list(DOCUMENT_BUCKETS))
    assert steps(0.001, 0.5) == pytest.approx(list(MARGIN_BUCKETS))


class Trained:
    """A model with clusters of these sizes."""

    name, version = "many", 1

    def __init__(self, *sizes: int) -> None:
        self._sizes = list(sizes)

    def sizes(self) -> list[int]:
        return self._sizes

    def kinds(self) -> list[int]:
        return []


@pytest.mark.parametrize(
    ("sizes", "shares"),
    [
        ((3, 1), {"0": 0.75, "1": 0.25, "global": 0.0}),
        ((), {}),
        ((0, 0), {}),
        ((1,) * 64, {**{str(cluster): 1 / 64 for cluster in range(64)}, "global": 0.0}),
    ],
)
def test_the_shares_of_training_are_those_of_the_clusters(
    sizes: tuple[int, ...], shares: dict[str, float]
) -> None:
    meters = Meters()

    meters.trained(Trained(*sizes))  # type: ignore[arg-type]

    assert shares == {
        one.labels["cluster"]: one.value
        for family in meters.collect()
        for one in family.samples
        if one.name == "localrank_training_share"
    }


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let meters read a clock of the test."""
    found = Clock()
    monkeypatch.setattr("localrank_service.telemetry.meters.time", found)
    return found


def test_stats_tell_what_is_going_on_since_the_start_of_the_first_worker(
    tmp_path: Path, clock: Clock
) -> None:
    one = Meters(tmp_path)
    fresh = one.stats()
    clock.now += 30.26
    other = Meters(tmp_path)
    for meters, count in ((one, 2.0), (other, 3.0)):
        meters.in_flight.set(count)
        meters.connections.set(count + 1)
        meters.refused_requests.of("queue")[0] += count
        meters.worker_deaths.of("SIGKILL")[0] += 1
        meters.impressions.of("logged")[0] += count
        meters.feedback.of("over_quota")[0] += 1
        meters.feedback.of("dropped")[0] += 0

    stats = other.stats()

    assert (0.0, 0, 0, {}, {}) == tuple(
        fresh[name] for name in ("uptime_seconds", "in_flight", "connections", "refused", "deaths")
    )
    assert (30.3, 5, 7, {"queue": 5}, {"SIGKILL": 2}) == tuple(
        stats[name] for name in ("uptime_seconds", "in_flight", "connections", "refused", "deaths")
    )
    assert "series" not in stats
    assert {"impressions": {"logged": 5}, "feedback": {"over_quota": 2, "dropped": 0}} == one.logged()


def test_a_worker_that_takes_the_place_of_another_goes_on_counting_the_time(
    tmp_path: Path, clock: Clock
) -> None:
    first = Meters(tmp_path)
    file = first._counts._file
    assert file is not None
    os.close(file._lock)  # it dies
    clock.now += 60.0

    assert 60.0 == Meters(tmp_path).stats()["uptime_seconds"]


def test_what_was_recent_of_models_that_are_gone_is_dropped_and_counted_anew(
    tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    meters, ranking = Meters(), tiny_ranker.rank(queries[0])
    for name in ("gone", "stays"):
        ranked(meters, LiveModel(name, 1, tiny_ranker), ranking)
    meters.refused("rerank", None, 404, 0.1)

    def recent() -> dict[str, int]:
        window = meters.stats()["windows"]["15m"]
        return {"all": sum(window["requests"].values())} | {
            name: figures["requests"]["ok"] for name, figures in window["models"].items()
        }

    before = recent()
    meters.retire([("stays", 1)])
    after = recent()
    ranked(meters, LiveModel("gone", 1, tiny_ranker), ranking)

    assert {"all": 3, "gone": 1, "stays": 1} == before
    assert {"all": 2, "stays": 1} == after
    assert {"all": 3, "gone": 1, "stays": 1} == recent()


def test_versions_that_only_a_dead_worker_served_are_not_shown_for_its_alias(
    tmp_path: Path, tiny_ranker: Ranker, queries: list[Matrix], clock: Clock
) -> None:
    dead, alive = Meters(tmp_path), Meters(tmp_path)
    ranking = tiny_ranker.rank(queries[0])
    for meters, version in ((dead, 1), (alive, 2)):
        meters.model_version.set(version, "tiny", "champion")
    for version in range(1, 21):
        clock.now += 1.0
        ranked(alive, LiveModel("tiny", version, tiny_ranker), ranking)
    both = shown(alive, "localrank_requests_total", "version")
    file = dead._counts._file
    assert file is not None
    os.close(file._lock)

    newest = {str(version) for version in range(11, 21)}
    assert {"1", "2"} | newest == both
    assert {"2"} | newest == shown(alive, "localrank_requests_total", "version")


def test_labels_are_the_documented_ones() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "operate" / "operations.md").read_text()
    rows = re.findall(r"^\| `(localrank_\w+)` \| ([^|]*)\|", documented, re.MULTILINE)
    labels = {name: re.findall(r"`(\w+)`", text) for name, text in rows}

    assert labels == {one.name: list(one.labels) for one in Meters().instruments}


def test_every_instrument_is_shown_and_in_an_order_of_its_own() -> None:
    meters = Meters()
    instruments = {
        id(one)
        for one in (*vars(meters).values(), *vars(meters.experiments).values())
        if isinstance(one, Counter | Gauge | Histogram)
    }
    names = [family.name for family in meters.collect()]

    # The build was made on the way and the drift of two others.
    assert instruments <= {id(one) for one in meters.instruments}
    assert len(instruments) + 2 == len(meters.instruments) == len(set(names))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("in_flight", 5.0),
        ("documents_in_flight", 5.0),
        ("connections", 5.0),
        ("training_share", 2.0),
        ("model_version", 2.0),
        ("model_broken", 3.0),
        ("remote_seen", 3.0),
        ("last", 3.0),
    ],
)
def test_what_two_workers_say_is_added_or_the_highest_or_the_latest_counts(
    name: str, expected: float, tmp_path: Path
) -> None:
    workers = [Meters(tmp_path), Meters(tmp_path)]
    for meters, value in zip(workers, (3.0, 2.0), strict=True):
        gauge = getattr(meters, name)
        gauge.set(value, *("1" for _ in gauge.labels))

    [sample] = getattr(workers[0], name).family(workers[0].counted()).samples

    assert expected == sample.value


@pytest.mark.parametrize(
    "name",
    ["in_flight", "connections", "training_share", "model_version", "model_broken", "remote_seen", "last"],
)
def test_what_a_dead_worker_said_last_counts_only_of_answers(name: str, tmp_path: Path) -> None:
    dead, alive = Meters(tmp_path), Meters(tmp_path)
    gauge = getattr(dead, name)
    gauge.set(3.0, *("1" for _ in gauge.labels))
    file = dead._counts._file
    assert file is not None
    os.close(file._lock)

    samples = getattr(alive, name).family(alive.counted()).samples

    assert ([3.0] if name == "last" else []) == [one.value for one in samples]


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("queue_wait", TIME_BUCKETS),
        ("duration", TIME_BUCKETS),
        ("stage", TIME_BUCKETS),
        ("documents", DOCUMENT_BUCKETS),
        ("margin", MARGIN_BUCKETS),
    ],
)
def test_observations_fall_into_the_buckets_of_their_unit(name: str, bounds: tuple[float, ...]) -> None:
    meters = Meters()
    histogram = getattr(meters, name)
    observed = histogram.of(*("1" for _ in histogram.labels))
    for bound in bounds:
        observed.observe(bound)
    observed.observe(2 * bounds[-1])

    samples = histogram.family(meters.counted()).samples

    buckets = [(float(one.labels["le"]), one.value) for one in samples if one.name.endswith("_bucket")]
    assert [(bound, number) for number, bound in enumerate((*bounds, math.inf), 1)] == buckets


def test_one_ranking_is_counted_everywhere(tiny_ranker: Ranker, queries: list[Matrix], clock: Clock) -> None:
    meters, model = Meters(), LiveModel("tiny", 1, tiny_ranker)
    ranking = tiny_ranker.rank(queries[0])
    without = replace(ranking, route=ranking.route._replace(margin=None, cluster=None, fallback="low_margin"))

    meters.ranked("rerank", model, ranking, 0, STAGES)
    meters.ranked("cohere", model, without, 7, STAGES, degraded=Degraded("global", "timeout"))

    def cells(name: str) -> dict[tuple[str, ...], float]:
        instrument = getattr(meters, name)
        return {
            tuple(one.labels[label] for label in instrument.labels): one.value
            for one in instrument.family(meters.counted()).samples
            if one.name.endswith(("_total", "_count", "_seconds")) and not one.name.endswith("_created")
        }

    cluster = str(ranking.route.cluster)
    assert {("rerank", "tiny", "1", "ok"): 1, ("cohere", "tiny", "1", "degraded"): 1} == cells("requests")
    assert {("tiny", "global", "timeout"): 1} == cells("degraded")
    assert {("rerank", "tiny"): 1, ("cohere", "tiny"): 1} == cells("duration")
    assert {(stage,): 2 for stage in STAGES if stage != "total"} == cells("stage")
    assert {("tiny",): 2} == cells("documents")
    exact = {("tiny", "1", cluster, "", "exact"): 1, ("tiny", "1", "global", "low_margin", "exact"): 1}
    assert exact == cells("routes")
    assert {("tiny",): 1} == cells("margin")
    assert {("tiny",): 7} == cells("out_of_range")
    assert {("tiny", "1"): clock.time()} == cells("last")
    recent = meters.recent.shown(meters.counted(), time.monotonic(), uptime=1e4)
    assert 2 == recent["1m"]["models"]["tiny"]["requests"]["ok"]


@pytest.mark.parametrize(("cluster", "label"), [(0, "0"), (63, "63"), (64, "other"), (1000, "other")])
def test_clusters_from_64_on_are_others(
    cluster: int, label: str, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    meters, ranking = Meters(), tiny_ranker.rank(queries[0])

    ranked(
        meters,
        LiveModel("tiny", 1, tiny_ranker),
        replace(ranking, route=ranking.route._replace(cluster=cluster)),
    )

    assert {label} == shown(meters, "localrank_routes_total", "cluster")


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(400, "invalid"), (422, "invalid"), (499, "invalid"), (500, "error"), (503, "error")],
)
def test_whose_fault_it_was_is_told_by_the_status(status: int, outcome: str, tiny_model: LiveModel) -> None:
    meters = Meters()

    meters.refused("rerank", tiny_model, status, 0.25)
    meters.refused("rerank", None, status, 0.25)

    assert {outcome} == shown(meters, "localrank_requests_total", "outcome")
    window = meters.stats()["windows"]["1m"]
    assert (2, 1) == (window["requests"][outcome], window["models"]["tiny"]["requests"][outcome])
    assert 0.25 == meters.model_seconds.of("tiny", 3, "fail")[0]
    assert {"tiny"} == shown(meters, "localrank_model_seconds_total", "model")


def test_answers_are_counted_one_by_one() -> None:
    meters = Meters()

    for _ in range(3):
        meters.answered("/v1/rerank", "POST", 200)

    assert 3.0 == meters.http_requests.of("/v1/rerank", "POST", 200)[0]


def test_slices_of_time_are_told_only_if_asked_for() -> None:
    meters = Meters()

    assert "series" not in meters.stats()
    assert 15 == meters.stats(series=True)["series"]["seconds"]
