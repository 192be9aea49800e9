"""The clock on the wall is set: nothing that is timed depends on it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.load import loaded
from tests.faults.running import running, until

if TYPE_CHECKING:
    from tests.faults.load import Load

SERVICE = Path(__file__).parents[2] / "service"

#: Makes ``time.time`` and ``time.time_ns`` of a process as wrong as a file says.
WRONG = """
import time
_time, _time_ns = time.time, time.time_ns

def _offset():
    with open({path!r}) as file:
        return int(file.read() or "0")

time.time = lambda: _time() + _offset()
time.time_ns = lambda: _time_ns() + _offset() * 10**9
"""


def more_answers(load: Load) -> None:
    asked = len(load.answers)
    until(lambda: len(load.answers) > asked + 100)


@pytest.mark.soak
def test_a_clock_that_jumps_disturbs_nothing(models_dir: Path, body: bytes, tmp_path: Path) -> None:
    clock, patch = tmp_path / "clock", tmp_path / "patch"
    clock.write_text("0")
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(WRONG.format(path=str(clock)))

    with (
        running(models_dir, "--hang-seconds", "1", PYTHONPATH=str(patch)) as service,
        loaded(service.url, body) as load,
    ):
        workers = service.workers
        more_answers(load)
        versions = []
        for days in (30, -60, 0):
            clock.write_text(str(days * 86400))
            more_answers(load)
            for action, members in (("promote", {"version": 2}), ("rollback", {})):
                answer = service.client.post(f"/v1/models/demo/{action}", json=members)
                versions.append(answer.json().get("version", answer.text))
            time.sleep(1.2)  # longer than a worker may hang
        shown = service.client.get("/v1/stats").json()
        last = service.metric("localrank_last_request_timestamp_seconds")
        load.stop()
        assert workers == service.workers

    assert [] == load.failures
    assert [2, 1] * 3 == versions
    minute = shown["windows"]["1m"]
    assert len(load.answers) - 100 <= minute["requests"]["ok"] <= len(load.answers)
    assert 0 < shown["uptime_seconds"] < 120
    # What is a time of day is shown as one, wrong as the clock is.
    assert all(abs(when - time.time()) < 40 * 86400 for when in last.values())


def test_only_what_is_shown_is_read_from_the_clock_on_the_wall() -> None:
    """Times of day: of a span, of the last request, of what is logged, and of how old a folder that somebody left is."""
    found = {
        path.relative_to(SERVICE / "localrank_service").as_posix()
        for path in SERVICE.rglob("*.py")
        if re.search(r"\btime\.time(_ns)?\b|\bfrom time import .*\btime\b", path.read_text())
    }

    logged = {"online/files.py", "online/impressions.py"}
    assert logged | {"telemetry/spans.py", "telemetry/meters.py", "process/runtime_folder.py"} == found
