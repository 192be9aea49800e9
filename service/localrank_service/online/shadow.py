"""Ranking beside the answers: a bounded queue, and one thread that works only while no request does.

A request that is to be shadowed leaves its documents and its ranking in the queue, which takes a microsecond, and is
answered. If the queue is full the request is dropped and counted. Before every ranking and every stage of one, the thread
waits until this worker has nothing to answer. A worker that is never idle shadows nothing; its counts show this.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import sleep
from typing import TYPE_CHECKING, Final, NamedTuple

from localrank.rankings import kendall_tau, overlap, rank_biased_overlap, ranks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix
    from localrank.ranker import Ranking
    from localrank_service.http.admission import Admission
    from localrank_service.online.experiments import Running
    from localrank_service.telemetry.experiments import ExperimentMeters

_log = logging.getLogger("localrank.service")

#: Requests that wait, and numbers of all their documents.
MOST_WAITING: Final = 256
MOST_NUMBERS: Final = 4_000_000
#: The overlap is the share of this many first documents that two rankings have in common.
OVERLAP: Final = 10
#: Seconds after which the thread looks again whether requests are being answered.
_PAUSE: Final = 1e-3


class Job(NamedTuple):
    """One request for one shadow."""

    running: Running
    documents: Matrix
    answered: Ranking


class Shadow:
    """The queue and the thread of one worker, which begins with the first request."""

    def __init__(self, admission: Admission, meters: ExperimentMeters) -> None:
        self._admission, self._meters = admission, meters
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._numbers = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def offer(self, job: Job) -> None:
        """Take on a request, or drop it; called by the event loop, and never waits."""
        size = job.documents.size
        if self._queue.qsize() >= MOST_WAITING or self._numbers + size > MOST_NUMBERS or self._closed:
            self._meters.shadows.of(*job.running.labels, "dropped")[0] += 1.0
            return
        self._numbers += size
        self._queue.put(job)
        if self._thread is None:
            work = self._work
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=lambda: work(loop), name="shadow", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Rank no more."""
        self._closed = True
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (job := self._queue.get()) is not None:
            try:
                found: tuple[float, float, float] | None = self._agreement(job)
            except Exception as error:  # noqa: BLE001
                # An error here comes from the candidate, and no answer is lost.
                running = job.running
                name, run = running.labels
                _log.warning("shadow %s: %s %s: %s", name, running.candidate.name, run, error)
                found = None
            # Only the event loop counts.
            done: Callable[[], None] = lambda job=job, found=found: self._count(job, found)  # type: ignore[misc] # noqa: E731
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(done)

    def _stage(self, _name: str, /) -> None:
        """Wait until nothing is to be answered."""
        admission = self._admission
        while admission.working and not self._closed:
            sleep(_PAUSE)

    def _agreement(self, job: Job) -> tuple[float, float, float]:
        """Return how far the candidate's ranking agrees with the answer, by tau, rank-biased overlap and overlap."""
        ranking = job.running.candidate.ranker.rank(job.documents, stage=self._stage)
        ranks = ranks_of(job.answered.order), ranks_of(ranking.order)
        tau = kendall_tau(job.answered.scores, ranking.scores)
        return tau, rank_biased_overlap(*ranks), overlap(*ranks, OVERLAP)

    def _count(self, job: Job, found: tuple[float, float, float] | None) -> None:
        self._numbers -= job.documents.size
        meters, labels = self._meters, job.running.labels
        meters.shadows.of(*labels, "failed" if found is None else "ranked")[0] += 1.0
        if found is not None and len(job.documents) > 1:
            into = (meters.kendall_tau, meters.rank_biased_overlap, meters.overlap)
            for histogram, value in zip(into, found, strict=True):
                if not math.isnan(value):  # tau, if all scores of one are the same
                    histogram.of(*labels).observe(value)
