"""What the supervisor does when nothing can be started; tests/faults has real processes."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import pytest
import uvicorn

from localrank_service.process.supervisor import Supervisor, _cause
from localrank_service.telemetry.meters import Meters

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with socket.socket() as listener:
        yield Supervisor(uvicorn.Config("no:app", workers=2), listener, Meters(), 5.0, announce=lambda: True)


def test_a_worker_that_cannot_be_started_is_tried_again_ever_more_rarely(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("localrank_service.process.supervisor.time.monotonic", lambda: 100.0)

    def fail(_supervisor: Supervisor, _awake: socket.socket) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(Supervisor, "_start", fail)
    place = supervisor._places[0]
    starts = []

    with socket.socket() as awake:
        for _ in range(8):
            supervisor._fill(place, awake)
            starts.append(place.start_at - 100.0)

    assert [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0] == starts
    assert "cannot start a worker: Resource temporarily unavailable; trying again in 1 s" in caplog.messages


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-9, "SIGKILL"),
        (-signal.SIGSEGV, "SIGSEGV"),
        (-40, "signal 40"),
    ],
)
def test_a_death_has_a_cause(code: int, cause: str) -> None:
    assert cause == _cause(code)
