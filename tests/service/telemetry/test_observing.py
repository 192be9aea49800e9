from __future__ import annotations

import timeit
from typing import Any

from localrank_service.telemetry.observing import OBSERVATION, Observation, Observed, Observer

HEADERS = [(b"host", b"localhost"), (b"content-type", b"application/json")]
SCOPE = {"headers": HEADERS, "path": "/v1/rerank", "request_id": "r-1", "method": "POST"}


def test_a_request_of_which_nothing_is_noted_costs_less_than_a_microsecond() -> None:
    observer = Observer()

    def request() -> None:
        assert observer.observe(SCOPE, "POST", traced=False) is None
        OBSERVATION.get()

    def nothing() -> None:
        pass

    # A busy machine is slow for everything: a call of nothing takes 40 nanoseconds on a quiet one.
    # A round takes less than the time for which a busy machine lets a process run.
    rounds = [(timeit.timeit(request, number=200), timeit.timeit(nothing, number=200)) for _ in range(500)]
    seconds, empty = (min(times) / 200 for times in zip(*rounds, strict=True))

    assert seconds < max(1e-6, 25 * empty)


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []

    def finish(self, _observation: Observation, status: int, route: str) -> None:
        self.told.append((status, route))


def test_all_queries_are_counted_and_the_first_64_kept() -> None:
    observation = Observation(SCOPE, "POST", None, [])
    for number in range(100):
        observation.add(Observed(None, None, None, {"total": float(number)}, []))

    assert (100, 64) == (observation.n_queries, len(observation.queries))
    assert 63.0 == observation.queries[-1].milliseconds["total"]


def test_an_observation_is_at_hand_until_it_is_finished_and_every_recorder_is_told_once() -> None:
    recorders: list[Any] = [Recorder(), Recorder()]
    before = OBSERVATION.get()

    observation = Observation(SCOPE, "POST", None, recorders)
    within = OBSERVATION.get()
    observation.finish(404, "other")

    assert (None, observation, None) == (before, within, OBSERVATION.get())
    assert [[(404, "other")]] * 2 == [recorder.told for recorder in recorders]
    assert [] == observation.headers()


def test_one_that_nobody_records_is_not_at_hand() -> None:
    observation = Observation(SCOPE, "POST", None, [])

    assert OBSERVATION.get() is None
    observation.finish(200, "/livez")


def test_closing_sends_what_is_left() -> None:
    class Spans:
        closed = 0

        def close(self) -> None:
            self.closed += 1

    spans: Any = Spans()
    Observer(None, spans).close()
    Observer().close()

    assert 1 == spans.closed
