"""Promotions and rollbacks under load: none fails, no answer is of two versions, memory stays."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from localrank.artifact import Provenance
from localrank.registry.versions import Registry
from localrank.scorers import LinearScorer
from tests.faults.load import loaded
from tests.faults.running import running, until

if TYPE_CHECKING:
    from localrank.artifact import Artifact
    from localrank.ranker import Ranker
    from localrank.scorers import Scorer
    from tests.faults.running import Running


class Switch(NamedTuple):
    """From when to when it lasted until all workers served the version."""

    begun: float
    done: float
    version: int


def opposite(scorer: Scorer) -> Scorer:
    assert isinstance(scorer, LinearScorer)
    return replace(scorer, weights=-scorer.weights)


@pytest.fixture
def two(tmp_path: Path, demo: Artifact) -> tuple[Path, dict[int, Ranker]]:
    """A folder with a model whose second version ranks the other way round, and the rankers of both."""
    scorers = tuple(map(opposite, demo.ranker.scorers))
    rankers = {
        1: demo.ranker,
        2: replace(demo.ranker, scorers=scorers, global_scorer=opposite(demo.ranker.global_scorer)),
    }
    registry = Registry(tmp_path / "models")
    for ranker in rankers.values():
        registry.publish(
            "demo", ranker, Provenance("2026-01-01T00:00:00Z", source={}, probe=demo.probe.documents)
        )
    registry.promote("demo", 1)
    return tmp_path / "models", rankers


def resident(service: Running) -> list[int]:
    """Kilobytes of each worker."""
    found = []
    for pid in service.workers:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found.append(next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")))
    return found


@pytest.mark.parametrize("rounds", [12, pytest.param(200, marks=pytest.mark.soak)])
def test_promotions_and_rollbacks_fail_nothing_mix_nothing_and_keep_no_memory(
    two: tuple[Path, dict[int, Ranker]], body: bytes, rounds: int
) -> None:
    models_dir, rankers = two
    documents = np.array(json.loads(body)["features"], np.float32)
    rankings = {version: ranker.rank(documents) for version, ranker in rankers.items()}
    orders: dict[int, list[int]] = {version: one.order.tolist() for version, one in rankings.items()}
    assert orders[1] != orders[2]
    memory: list[list[int]] = []
    switches: list[Switch] = []

    def change(action: str, version: int) -> None:
        members = {"version": version} if action == "promote" else {}
        begun = time.monotonic()
        answer = service.client.post(f"/v1/models/demo/{action}", json=members)
        switches.append(Switch(begun, time.monotonic(), version))
        assert (200, version) == (answer.status_code, answer.json().get("version")), answer.text
        assert set(service.workers) == set(answer.json()["workers"])

    with running(models_dir) as service, loaded(service.url, body) as load:
        workers = service.workers
        while len(switches) < rounds:
            change("promote", 2)
            change("rollback", 1)
            if len(switches) in {10, rounds}:
                memory.append(resident(service))
        until(lambda: load.answers[-1].begun > switches[-1].done)
        shown = service.metric("localrank_requests_total")
        load.stop()
        assert workers == service.workers

    assert [] == load.failures
    for one in load.answers:
        version = one.document["version"]
        assert orders[version] == [result["index"] for result in one.document["results"]]
    # Between two switches there is one version.
    for this, following in pairwise(switches):
        asked = [one for one in load.answers if this.done < one.begun and one.ended < following.begun]
        assert {this.version} >= {one.document["version"] for one in asked}
    assert 2 == len(shown)
    seconds = [one.done - one.begun for one in switches]
    early, late = (sum(one) for one in memory)
    assert late <= 1.05 * early, memory
    print(  # noqa: T201
        f"{rounds} switches on 2 workers, {len(load.answers)} answers meanwhile, none failed, none mixed; "
        f"a switch took {np.median(seconds) * 1e3:.0f} ms (median), {max(seconds) * 1e3:.0f} ms (longest); "
        f"resident {early / 1e3:.1f} MB after ten, {late / 1e3:.1f} MB at the end"
    )


def ready(service: Running) -> dict[str, int]:
    """The models and versions that one worker answers with."""
    models: dict[str, int] = service.client.get("/readyz").json()["models"]
    return models


def test_a_model_that_is_published_while_the_service_runs_is_served_by_every_worker(
    two: tuple[Path, dict[int, Ranker]], demo: Artifact, body: bytes
) -> None:
    """As when the folder is mounted and somebody else publishes into it."""
    models_dir, rankers = two
    with (
        running(models_dir) as service,
        loaded(service.url, body.replace(b"{", b'{"model": "demo", ', 1)) as load,
    ):
        registry = Registry(models_dir)
        registry.publish(
            "web", rankers[2], Provenance("2026-01-01T00:00:00Z", source={}, probe=demo.probe.documents)
        )
        registry.promote("web", 1)

        both = until(
            lambda: [pid for pid in service.workers if service.logged("model web@1 loaded", pid)][1:]
        )
        # A worker has loaded a model shortly before it says so.
        until(lambda: [ready(service) for _ in range(10)] == [{"demo": 1, "web": 1}] * 10)
        answers = [
            service.client.post("/v1/rerank", json={"model": "web", **json.loads(body)}) for _ in range(10)
        ]
        load.stop()

    assert both
    assert {200} == {answer.status_code for answer in answers}
    assert [] == load.failures
