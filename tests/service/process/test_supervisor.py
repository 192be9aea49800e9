"""What the supervisor does with workers that are only played here; tests/faults has real processes."""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from uvicorn.config import STARTUP_FAILURE

from localrank_service.process import supervisor as module
from localrank_service.process.supervisor import Supervisor, _cause, _Place, _Worker
from localrank_service.process.worker import STUCK
from localrank_service.telemetry.meters import Meters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localrank_service.process.neighbours import Neighbours


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with socket.socket() as listener:
        made = Supervisor(uvicorn.Config("no:app", workers=2), listener, Meters(), 5.0, announce=lambda: True)
        yield made
        made._board.close()


def test_a_worker_that_cannot_be_started_is_tried_again_ever_more_rarely(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("localrank_service.process.supervisor.time.monotonic", lambda: 100.0)

    def fail(_supervisor: Supervisor, _place: _Place, _awake: socket.socket) -> None:
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
        (STUCK, "stuck"),
        (-9, "SIGKILL"),
        (-signal.SIGSEGV, "SIGSEGV"),
        (-40, "signal 40"),
    ],
)
def test_a_death_has_a_cause(code: int, cause: str) -> None:
    assert cause == _cause(code)


class Process:
    """The process of a worker, as far as the supervisor looks at it."""

    def __init__(self, pid: int = 7, *, ends_at: int | None = 1) -> None:
        self.pid = pid
        self.exitcode: int | None = None
        self.told: list[str] = []
        self.sentinel, self._held = os.pipe()
        self._ends_at = ends_at
        self.then: Callable[[], None] = lambda: None

    def end(self, code: int) -> None:
        self.exitcode = code
        os.close(self._held)

    def is_alive(self) -> bool:
        return self.exitcode is None

    def join(self) -> None:
        self.told.append("join")

    def kill(self) -> None:
        self.told.append("kill")
        self.end(-9)

    def terminate(self) -> None:
        self.told.append("terminate")
        if self.told.count("terminate") == self._ends_at:
            self.end(0)
        self.then()


def employ(supervisor: Supervisor, place: int, process: Process, *, begun: float | None = None) -> int:
    """Give a place to a worker; return where that writes its beats."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    worker: Any = _Worker(process, reader, time.monotonic() if begun is None else begun)  # type: ignore[arg-type]
    supervisor._places[place].worker = worker
    return writer


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def deaths(supervisor: Supervisor) -> dict[str, int]:
    found: dict[str, int] = supervisor.meters.stats()["deaths"]
    return found


def test_there_is_a_place_for_every_worker(supervisor: Supervisor) -> None:
    assert [(None, 0.0, 0)] * 2 == [(one.worker, one.start_at, one.failures) for one in supervisor._places]
    assert b"\0" == supervisor._ending[:]


def test_workers_that_die_young_are_replaced_ever_more_rarely_and_others_at_once(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Young is below 10 seconds; the first two in a row cost no pause."""
    monkeypatch.setattr("localrank_service.process.supervisor.time.monotonic", lambda: 100.0)
    place, pauses, closed = supervisor._places[1], [], []

    for lived in (9.9, 9.9, 9.9, 9.9, 10.0, 9.9, 9.9, 9.9):
        process = Process()
        employ(supervisor, 1, process, begun=100.0 - lived)
        worker = place.worker
        assert worker is not None
        process.end(-9)
        supervisor._bury(place, worker)
        assert place.worker is None
        pauses.append(place.start_at - 100.0)
        closed.append((not is_open(worker.beats), process.told))

    assert [0, 1, 2, 4, 0, 0, 1, 2] == pauses
    assert [(True, ["join"])] * 8 == closed
    assert {"SIGKILL": 8} == deaths(supervisor)
    assert "worker 7 ended: SIGKILL, after 9.9 s; another one starts now" == caplog.messages[0]
    assert "worker 7 ended: SIGKILL, after 9.9 s; another one starts in 4 s" == caplog.messages[3]
    assert (None, 0.0) == (supervisor._places[0].worker, supervisor._places[0].start_at)


@pytest.mark.parametrize(
    ("code", "served", "failed"),
    [
        (STARTUP_FAILURE, False, True),
        (STARTUP_FAILURE, True, False),
        (1, False, False),
        (0, False, False),
    ],
)
def test_the_service_fails_if_a_worker_cannot_start_before_any_has_served(
    code: int,
    served: bool,  # noqa: FBT001
    failed: bool,  # noqa: FBT001
    supervisor: Supervisor,
    caplog: pytest.LogCaptureFixture,
) -> None:
    supervisor._served = served
    process, place = Process(), supervisor._places[0]
    employ(supervisor, 0, process)
    assert place.worker is not None
    process.end(code)

    supervisor._bury(place, place.worker)

    assert failed == supervisor._failed
    assert {f"exit code {code}": 1} == deaths(supervisor)
    assert (not failed) == any("another one starts" in message for message in caplog.messages)
    assert int(not failed) == place.failures


def test_a_worker_is_killed_once_after_five_silent_rounds(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    process, place = Process(), supervisor._places[0]
    employ(supervisor, 0, process)
    for _ in range(5):
        supervisor._count_silence()
    after_five = list(process.told)
    for _ in range(3):
        supervisor._count_silence()

    assert ([], ["kill"]) == (after_five, process.told)
    assert place.worker is not None
    assert place.worker.hung
    assert ["worker 7 hangs: its event loop did not respond for 5 s; killing it"] == caplog.messages
    supervisor._bury(place, place.worker)
    assert {"hung": 1} == deaths(supervisor)
    assert "worker 7 ended: hung, after" in caplog.messages[-1]


def test_a_beat_ends_the_silence_and_tells_whether_the_worker_serves(supervisor: Supervisor) -> None:
    process = Process()
    writer = employ(supervisor, 1, process)
    worker = supervisor._places[1].worker
    assert worker is not None
    found = []

    with socket.socket() as awake, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        awake.connect(listener.getsockname())
        awake.settimeout(0.0)
        for beats in (b".", b"." * 10_000 + b"s", b"."):
            worker.silent = 4
            os.write(writer, beats)
            supervisor._wait(awake, 60.0)
            found.append((worker.silent, supervisor._served))
        worker.silent = 4
        supervisor._wait(awake, 0.0)

    assert [(0, False), (0, True), (0, True)] == found
    assert (4, True) == (worker.silent, process.is_alive())
    assert supervisor._places[1].worker is worker


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    awake, wake = socket.socketpair()
    with awake, wake:
        awake.settimeout(0.0)
        wake.settimeout(0.0)
        yield awake, wake


def test_waiting_ends_with_a_death_a_signal_or_when_a_worker_is_due(
    supervisor: Supervisor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    awake, wake = sockets
    begun = time.monotonic()
    supervisor._places[1].start_at = begun - 1.0
    supervisor._wait(awake, 20.0)  # one is due

    supervisor._places[1].start_at = begun + 3600.0
    wake.send(b"\x0f" * 100)
    supervisor._wait(awake, 20.0)
    with pytest.raises(BlockingIOError):
        awake.recv(1)

    process = Process()
    employ(supervisor, 0, process)
    process.end(3)
    supervisor._wait(awake, 20.0)

    assert time.monotonic() - begun < 15.0
    assert supervisor._places[0].worker is None
    assert {"exit code 3": 1} == deaths(supervisor)


class Rounds:
    """A clock that goes on when the supervisor waits, and what it did."""

    def __init__(self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, until: int) -> None:
        self.now = 100.0
        self.waited: list[float] = []
        self.silences: list[float] = []
        self.filled: list[tuple[int, float]] = []
        self.stopped: list[float] = []

        def wait(_: Supervisor, _awake: object, seconds: float) -> None:
            self.waited.append(seconds)
            self.now += seconds
            if len(self.waited) == until:
                supervisor._signals.append(signal.SIGTERM)

        def fill(_: Supervisor, place: _Place, _awake: object) -> None:
            number = next(at for at, one in enumerate(supervisor._places) if one is place)
            self.filled.append((number, self.now))
            place.worker = True  # type: ignore[assignment]

        monkeypatch.setattr("localrank_service.process.supervisor.time.monotonic", lambda: self.now)
        monkeypatch.setattr(Supervisor, "_wait", wait)
        monkeypatch.setattr(Supervisor, "_fill", fill)
        monkeypatch.setattr(Supervisor, "_count_silence", lambda _: self.silences.append(round(self.now, 6)))
        monkeypatch.setattr(Supervisor, "_stop", lambda _, _awake, tick: self.stopped.append(tick))


@pytest.mark.parametrize(("hang_seconds", "tick"), [(2.0, 0.4), (5.0, 1.0), (20.0, 4.0)])
def test_it_looks_often_until_the_service_is_announced_and_counts_silence_in_fifths_of_the_limit(
    hang_seconds: float,
    tick: float,
    supervisor: Supervisor,
    sockets: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def announce() -> bool:
        asked.append(1)
        return len(asked) == 3

    supervisor.announce = announce
    supervisor.hang_seconds = hang_seconds
    rounds = Rounds(supervisor, monkeypatch, until=40)
    supervisor._places[1].start_at = 100.08

    supervisor._run(sockets[0])

    assert 3 == len(asked)
    assert [0.05, 0.05, *[pytest.approx(min(tick, 1.0))] * 38] == rounds.waited
    assert [(0, 100.0), (1, pytest.approx(100.1))] == rounds.filled
    gaps = [after - before for before, after in zip([100.0, *rounds.silences], rounds.silences, strict=False)]
    assert all(tick - 1e-6 <= gap <= tick + min(tick, 1.0) + 1e-6 for gap in gaps)
    assert len(gaps) >= int((rounds.now - 100.0) / (tick + min(tick, 1.0)))
    assert [pytest.approx(tick)] == rounds.stopped


def test_it_stops_at_once_if_no_worker_can_serve(
    supervisor: Supervisor, sockets: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(supervisor, monkeypatch, until=10)
    supervisor._failed = True

    supervisor._run(sockets[0])

    assert ([], [], [1.0]) == (rounds.waited, rounds.filled, rounds.stopped)


def test_stopping_ends_every_worker_and_passes_on_further_signals(
    supervisor: Supervisor, sockets: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    quick, slow = Process(7), Process(8, ends_at=2)
    for place, process in enumerate((quick, slow)):
        employ(supervisor, place, process)

    def again() -> None:
        if slow.told == ["terminate"]:
            supervisor._signals.append(signal.SIGINT)

    slow.then = again

    supervisor._stop(sockets[0], 0.5)

    assert (["terminate", "join"], ["terminate", "terminate", "join"]) == (quick.told, slow.told)
    assert -1 == supervisor.listener.fileno()
    assert 1 == supervisor._ending[0]
    assert ({}, []) == (deaths(supervisor), caplog.messages)
    assert [float("inf")] * 2 == [place.start_at for place in supervisor._places]


def test_a_worker_that_hangs_does_not_keep_the_others_from_ending(
    supervisor: Supervisor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    process = Process(ends_at=None)
    employ(supervisor, 0, process)

    supervisor._stop(sockets[0], 0.01)

    assert ["terminate", "kill", "join"] == process.told
    assert {} == deaths(supervisor)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Restore what the supervisor changes in this process; a shell ignores SIGINT for what it runs in the background."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in module._STOP}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    signal.set_wakeup_fd(-1)
    gc.unfreeze()


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("failed", [False, True])
def test_signals_wake_it_and_are_remembered_unless_they_are_ignored(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, *, failed: bool
) -> None:
    """As under nohup, which ignores SIGHUP."""
    supervisor.config = uvicorn.Config("json:app", workers=2)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    seen: list[object] = []

    def run(_: Supervisor, awake: socket.socket) -> None:
        for number in module._STOP:
            os.kill(os.getpid(), number)
        seen.extend(
            [
                list(supervisor._signals),
                awake.recv(16),
                os.get_blocking(awake.fileno()),
                gc.get_freeze_count() > 0,
            ]
        )
        supervisor._failed = failed

    monkeypatch.setattr(Supervisor, "_run", run)

    assert supervisor.run() is not failed
    both = [signal.SIGTERM, signal.SIGINT]
    assert [both, bytes(both), False, True] == seen
    assert -1 == signal.set_wakeup_fd(-1)


@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_starts_with_signals_blocked_and_a_pipe_of_its_own(
    supervisor: Supervisor,
    sockets: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    *,
    fails: bool,
) -> None:
    made: list[dict[str, Any]] = []
    masks: list[set[int]] = []

    class Fork:
        def Process(self, **how: Any) -> Any:  # noqa: N802 - as the library has it
            made.append(how)
            return self

        def start(self) -> None:
            masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
            if fails:
                raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(module, "_fork", Fork())
    begun = time.monotonic()

    found = None
    with suppress(BlockingIOError):
        found = supervisor._start(supervisor._places[1], sockets[0])

    number, awake, reader, writer = made[0]["args"]
    assert (1, sockets[0], supervisor._work) == (number, awake, made[0]["target"])
    assert {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} <= masks[0]
    assert not set(module._STOP) & signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert not is_open(writer)
    assert is_open(reader) is not fails
    if not fails:
        assert found is not None
        assert (reader, False, 0, False) == (found.beats, os.get_blocking(reader), found.silent, found.hung)
        assert begun <= found.begun <= time.monotonic()
        os.close(reader)


@pytest.mark.usefixtures("handlers")
def test_a_worker_lets_go_of_what_is_the_supervisors_and_serves(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = employ(supervisor, 1, Process())
    held = supervisor._places[1].worker
    assert held is not None
    awake, wake = socket.socketpair()
    wake.settimeout(0.0)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    reader, writer = os.pipe()
    given: list[Any] = []

    def work(config: object, listener: object, beats: int, every: float, neighbours: Neighbours) -> None:
        given.extend([config, listener, beats, every, neighbours.ending(), is_open(beats)])
        supervisor._ending[0] = 1
        given.append(neighbours.ending())

    monkeypatch.setattr(module, "work", work)
    signal.pthread_sigmask(signal.SIG_BLOCK, module._STOP)

    supervisor._work(0, awake, reader, writer)

    assert [supervisor.config, supervisor.listener, writer, 1.0, False, True, True] == given
    assert (-1, False, False) == (awake.fileno(), is_open(reader), is_open(held.beats))
    assert -1 == signal.set_wakeup_fd(-1)
    assert not set(module._STOP) & signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.SIG_IGN == signal.getsignal(signal.SIGHUP)
    for number in (signal.SIGTERM, signal.SIGINT):
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), number)
        assert 0 == ended.value.code
    for one in (writer, other):
        os.close(one)
    wake.close()
