from __future__ import annotations

import timeit

from localrank_service.telemetry.observing import OBSERVATION, Observer

HEADERS = [(b"host", b"localhost"), (b"content-type", b"application/json")]
SCOPE = {"headers": HEADERS, "path": "/v1/rerank", "request_id": "r-1", "method": "POST"}


def test_a_request_of_which_nothing_is_noted_costs_less_than_a_microsecond() -> None:
    observer = Observer()

    def request() -> None:
        assert observer.observe(SCOPE, "POST", traced=False) is None
        OBSERVATION.get()

    seconds = min(timeit.repeat(request, number=10_000, repeat=20)) / 10_000

    assert seconds < 1e-6
