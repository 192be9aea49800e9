"""A shadow never keeps a request waiting: it drops, it counts, and it works only while nothing is to be answered."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank_service.online import shadow as shadowing
from localrank_service.online.definition import defined
from localrank_service.online.experiments import Running
from localrank_service.online.shadow import Job, Shadow
from localrank_service.telemetry.counts import Counts
from localrank_service.telemetry.experiments import ExperimentMeters
from localrank_service.telemetry.instruments import MetricTable

if TYPE_CHECKING:
    from localrank.arrays import Matrix
    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio


def counted(meters: ExperimentMeters) -> dict[str, int]:
    return {
        name: int(meters.shadows.of("beside", "run", name)[0]) for name in ("ranked", "dropped", "failed")
    }


async def until(meters: ExperimentMeters, **expected: int) -> None:
    for _ in range(2000):
        if {**dict.fromkeys(("ranked", "dropped", "failed"), 0), **expected} == counted(meters):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(counted(meters))


@pytest.fixture
def job(tiny_model: LiveModel, queries: list[Matrix]) -> Job:
    shadow = {"name": "beside", "kind": "shadow", "model": "tiny", "candidate": "tiny@3"}
    return Job(Running(defined(shadow), "run", tiny_model), queries[0], tiny_model.ranker.rank(queries[0]))


async def test_it_waits_while_requests_are_answered_and_drops_what_is_too_much(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadowing, "MOST_WAITING", 5)
    admission: Any = SimpleNamespace(working=1)
    meters = ExperimentMeters(MetricTable(Counts(None)))
    shadow = Shadow(admission, meters)

    for _ in range(20):
        shadow.offer(job)
    held = counted(meters)
    admission.working = 0
    await until(meters, ranked=20 - held["dropped"], dropped=held["dropped"])
    shadow.offer(job)
    await until(meters, ranked=21 - held["dropped"], dropped=held["dropped"])
    shadow.close()

    assert (0, True) == (held["ranked"], held["dropped"] in {14, 15})


async def test_large_requests_fill_the_queue_sooner(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadowing, "MOST_NUMBERS", 2 * job.documents.size)
    admission: Any = SimpleNamespace(working=1)
    meters = ExperimentMeters(MetricTable(Counts(None)))
    shadow = Shadow(admission, meters)

    for _ in range(3):
        shadow.offer(job)
    dropped = counted(meters)["dropped"]
    shadow.close()

    assert 1 == dropped


async def test_it_gives_way_between_the_stages(job: Job) -> None:
    """A request that comes while it ranks stops it before the next stage."""
    admission: Any = SimpleNamespace(working=0)
    meters = ExperimentMeters(MetricTable(Counts(None)))
    shadow = Shadow(admission, meters)
    reached = threading.Event()
    ranker = job.running.candidate.ranker

    class Busy:
        def rank(self, documents: Matrix, *, stage: Any) -> Any:
            admission.working = 1  # a request comes in the middle
            reached.set()
            return ranker.rank(documents, stage=stage)

    candidate: Any = SimpleNamespace(ranker=Busy(), name="tiny")
    shadow.offer(job._replace(running=replace(job.running, candidate=candidate)))
    await asyncio.to_thread(reached.wait, 60)
    await asyncio.sleep(0.05)
    waiting = counted(meters)["ranked"]
    admission.working = 0
    await until(meters, ranked=1)
    shadow.close()

    assert 0 == waiting


async def test_a_candidate_that_fails_is_counted_and_the_next_is_ranked(job: Job) -> None:
    admission: Any = SimpleNamespace(working=0)
    meters = ExperimentMeters(MetricTable(Counts(None)))
    shadow = Shadow(admission, meters)

    shadow.offer(job._replace(documents=np.zeros((3, 9), np.float32)))
    shadow.offer(job)
    await until(meters, ranked=1, failed=1)
    shadow.close()
    shadow.offer(job)

    assert 1 == counted(meters)["dropped"]


@pytest.mark.parametrize(("step", "tau", "overlap"), [(1, 1.0, 1.0), (-1, -1.0, 0.0)])
async def test_the_same_ranking_agrees_in_full_and_the_opposite_one_not_at_all(
    job: Job, *, step: int, tau: float, overlap: float
) -> None:
    admission: Any = SimpleNamespace(working=0)
    meters = ExperimentMeters(MetricTable(Counts(None)))
    shadow = Shadow(admission, meters)
    ours = job.answered

    shadow.offer(job._replace(answered=replace(ours, order=ours.order[::step], scores=step * ours.scores)))
    await until(meters, ranked=1)
    shadow.close()

    found = meters.shadowed(meters._counts.counted(), "run")
    assert (tau, overlap) == pytest.approx((found["kendall_tau"], found["overlap_at_10"]))
    assert found["rbo"] == 1.0 if step == 1 else 0.0 < found["rbo"] < 0.5


async def test_what_was_ranked_makes_room(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadowing, "MOST_NUMBERS", job.documents.size)
    admission: Any = SimpleNamespace(working=0)
    meters = ExperimentMeters(MetricTable(Counts(None)))
    shadow = Shadow(admission, meters)

    for number in range(1, 4):
        shadow.offer(job)
        await until(meters, ranked=number)
    shadow.close()


async def test_one_document_and_equal_scores_say_nothing_of_agreement(job: Job) -> None:
    admission: Any = SimpleNamespace(working=0)
    meters = ExperimentMeters(MetricTable(Counts(None)))
    shadow = Shadow(admission, meters)
    ranker = job.running.candidate.ranker
    single = job.documents[:1]
    equal = np.repeat(single, 4, axis=0)

    for documents in (single, equal):
        shadow.offer(job._replace(documents=documents, answered=ranker.rank(documents)))
    await until(meters, ranked=2)
    shadow.close()

    found = meters.shadowed(meters._counts.counted(), "run")
    assert (2, None, 1.0) == (found["ranked"], found["kendall_tau"], found["overlap_at_10"])
    assert 1 == sum(list(meters.overlap.of("beside", "run").cells)[:-1])


async def test_so_many_requests_wait_at_most() -> None:
    """As docs/use/online.md says of a full queue."""
    assert (256, 4_000_000) == (shadowing.MOST_WAITING, shadowing.MOST_NUMBERS)
