"""How the running service is started, waited for, asked and stopped; a process and a connection that only pretend."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank_papers.figures.times import Served, serving

if TYPE_CHECKING:
    from pathlib import Path


class Connection:
    """Answers one thing after the other; an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked, self.closed = list(answers), list[tuple[Any, ...]](), 0

    def request(self, *asked: Any) -> None:
        self.asked.append(asked)

    def getresponse(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, content = answer
        return SimpleNamespace(status=status, read=lambda: json.dumps(content).encode())

    def close(self) -> None:
        self.closed += 1


class Process:
    """A service that runs until it is told to end, or for so many looks."""

    def __init__(self, looks: int = 10**6, *, stubborn: bool = False) -> None:
        self.looks, self.stubborn, self.done = looks, stubborn, list[str]()

    def poll(self) -> int | None:
        self.looks -= 1
        return None if self.looks >= 0 else 1

    def terminate(self) -> None:
        self.done.append("terminate")

    def kill(self) -> None:
        self.done.append("kill")

    def wait(self, timeout: float | None = None) -> int:
        self.done.append("wait" if timeout is None else f"wait {timeout:g}")
        if self.stubborn and timeout is not None:
            raise subprocess.TimeoutExpired("localrank", timeout)
        return 0


def timed(**stages: float) -> Any:
    return 200, {"timings_ms": stages}


def test_one_query_is_sent_as_an_array_and_timed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(timed(sign=0.5, total=2.0))
    monkeypatch.setattr("time.perf_counter", iter([1.0, 1.25]).__next__)
    documents = np.arange(6, dtype=np.float32).reshape(2, 3)

    found = Served(connection).milliseconds("a model", documents)  # type: ignore[arg-type]

    assert {"sign": 0.5, "total": 2.0, "request": 250.0} == found
    ((method, path, body, headers),) = connection.asked
    assert ("POST", "/v1/rerank?model=a+model") == (method, path)
    assert {"content-type": "application/x-npy"} == headers
    np.testing.assert_array_equal(documents, np.load(io.BytesIO(body)))


@pytest.mark.parametrize(
    ("content", "found"), [({"detail": "no such model"}, "no such model"), ({"title": "no"}, "404")]
)
def test_a_query_that_is_not_ranked_is_an_error(content: Any, found: str) -> None:
    served = Served(Connection((404, content)))  # type: ignore[arg-type]

    with pytest.raises(InvalidConfiguration, match=f"expected a ranking by a, found {found}"):
        served.milliseconds("a", np.zeros((1, 1), np.float32))


def test_models_take_turns_and_the_least_of_all_rounds_counts() -> None:
    times = {"a": [[3.0, 5.0], [4.0, 1.0]], "b": [[7.0, 7.0], [6.0, 9.0]]}
    order = [timed(route=one) for round_ in (0, 1) for model in "ab" for one in times[model][round_]]
    connection = Connection(*order)

    found = Served(connection).fastest(["a", "b"], [np.zeros((1, 1), np.float32)] * 2, 2)  # type: ignore[arg-type]

    assert [3.0, 1.0] == found["a"]["route"].tolist()
    assert [6.0, 7.0] == found["b"]["route"].tolist()
    assert {"route", "request"} == set(found["a"])
    assert list("aabbaabb") == [path.rsplit("=")[1] for _, path, *_ in connection.asked]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that says which process and connection there will be, and what was asked of them."""
    kept = SimpleNamespace()

    def prepare(process: Process, connection: Connection, *, printed: str = "") -> Any:
        def popen(command: list[str], *, stdout: Any, stderr: Any, env: dict[str, str]) -> Process:
            kept.command, kept.environment = command, env
            assert stdout is stderr
            stdout.write(printed)
            return process

        def connect(host: str, port: int, timeout: float) -> Connection:
            kept.host, kept.port, kept.timeout = host, port, timeout
            return connection

        kept.slept = []
        monkeypatch.setattr("subprocess.Popen", popen)
        monkeypatch.setattr("http.client.HTTPConnection", connect)
        monkeypatch.setattr("time.sleep", kept.slept.append)
        return kept

    return prepare


@pytest.mark.parametrize("stubborn", [False, True])
def test_the_service_is_waited_for_and_stopped(
    stubborn: bool,  # noqa: FBT001
    started: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCALRANK_MODEL", "another")
    monkeypatch.setenv("UNTOUCHED", "yes")
    process, connection = Process(stubborn=stubborn), Connection(OSError(), (503, {}), (200, {}))
    kept = started(process, connection)

    with serving(tmp_path / "models") as service:
        assert isinstance(service, Served)
        assert [] == process.done
        # Closed once, after the connection was refused.
        assert 1 == connection.closed

    assert 2 == connection.closed
    assert ["terminate", "wait 15", *(["kill", "wait"] if stubborn else [])] == process.done
    assert [("GET", "/readyz")] * 3 == connection.asked
    assert [0.05, 0.05] == kept.slept
    assert ("127.0.0.1", 120.0) == (kept.host, kept.timeout)
    assert 1024 < kept.port < 65536
    expected = ["-m", "localrank", "serve", "--models-dir", str(tmp_path / "models"), "--host", "127.0.0.1"]
    assert [sys.executable, *expected, "--port", str(kept.port), "--workers", "1"] == kept.command
    assert ("yes", None) == (kept.environment["UNTOUCHED"], kept.environment.get("LOCALRANK_MODEL"))
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    assert ["1"] * 3 == [kept.environment[name] for name in threads]


def test_a_service_that_ends_says_its_last_three_lines(started: Any, tmp_path: Path) -> None:
    process, connection = Process(looks=1), Connection((503, {}))
    started(process, connection, printed="one\ntwo\nthree\nfour\n")

    with (
        pytest.raises(InvalidConfiguration, match=r"to become ready, found: two \| three \| four$"),
        serving(tmp_path / "models"),
    ):
        pass

    assert "terminate" in process.done
    assert 1 == connection.closed


def test_two_minutes_are_waited_at_most(
    started: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Connection(*[(503, {})] * 9)
    started(Process(), connection)
    # The limit is set at 5; two looks are within it, and the third is at it.
    monkeypatch.setattr("time.monotonic", iter([5.0, 6.0, 124.5, 125.0]).__next__)

    with pytest.raises(InvalidConfiguration, match="to become ready"), serving(tmp_path / "models"):
        pass

    assert 2 == len(connection.asked)
