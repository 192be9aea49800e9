"""Work in threads: in order, one at a time, and nothing for those who are gone."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest
from starlette.requests import ClientDisconnect

from localrank_service.http import aside
from localrank_service.http.aside import PERMIT, Lane
from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


class Gate:
    """Work that takes until it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._released = threading.Semaphore(0)

    def work(self, name: str) -> Callable[[], str]:
        def function() -> str:
            self.begun.append(name)
            assert self._released.acquire(timeout=10)
            return name

        return function

    def release(self, count: int = 1) -> None:
        self._released.release(count)


class Pass:
    """A permit that remembers what it was asked."""

    arrived = 0.0

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.waiter: asyncio.Future[None] | None = None
        self.units = 0.0

    def hold(self, documents: int) -> None:
        raise NotImplementedError

    def use(self, lane: Lane, units: float) -> None:  # noqa: ARG002
        if self.refuses:
            raise Problem(429, "no")
        self.units += units

    def wait_for(self, waiter: asyncio.Future[None]) -> None:
        self.waiter = waiter


def enter(lane: Lane, gate: Gate, name: str, permit: Pass | None = None) -> asyncio.Task[str]:
    async def run() -> str:
        PERMIT.set(permit)
        return await lane.run(10, gate.work(name))

    return asyncio.create_task(run())


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError


async def test_work_is_done_in_order_and_one_at_a_time() -> None:
    lane, gate = Lane("test"), Gate()

    tasks = [enter(lane, gate, name) for name in "abcd"]
    await until(lambda: len(gate.begun) == 1)
    await asyncio.sleep(0.01)
    assert ["a"] == gate.begun
    gate.release(4)

    assert list("abcd") == [await task for task in tasks] == gate.begun


async def test_who_hangs_up_while_waiting_costs_nothing() -> None:
    lane, gate, permit = Lane("test"), Gate(), Pass()
    tasks = [
        enter(lane, gate, "a"),
        enter(lane, gate, "b"),
        enter(lane, gate, "c", permit),
        enter(lane, gate, "d"),
    ]
    await until(lambda: permit.waiter is not None)

    assert permit.waiter is not None
    permit.waiter.set_exception(ClientDisconnect())
    with pytest.raises(ClientDisconnect):
        await tasks[2]
    gate.release(3)

    assert list("abd") == [await tasks[i] for i in (0, 1, 3)] == gate.begun


async def test_a_cancelled_request_lets_the_next_one_in() -> None:
    lane, gate = Lane("test"), Gate()
    tasks = [enter(lane, gate, name) for name in "abcd"]
    await until(lambda: bool(gate.begun))

    tasks[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[2]
    gate.release(3)

    assert list("abd") == [await tasks[i] for i in (0, 1, 3)] == gate.begun


async def test_it_is_known_how_long_one_would_wait() -> None:
    lane = Lane("test")
    assert 0.0 == lane.wait()
    await lane.run(10, lambda: time.sleep(0.05))
    assert 0.005 <= lane.pace <= 0.05
    lane.pace = 0.1

    gate = Gate()
    tasks = [enter(lane, gate, name) for name in "abc"]
    await until(lambda: bool(gate.begun))

    # Three pieces of ten units at 0.1 s each, less what has been done of the first.
    assert 2.0 < lane.wait() <= 3.0
    gate.release(3)
    await asyncio.gather(*tasks)
    assert 0.0 == lane.wait()


async def test_a_failure_is_the_callers_and_the_lane_goes_on() -> None:
    lane = Lane("test")

    def fail() -> None:
        raise ValueError("this one")

    with pytest.raises(ValueError, match="this one"):
        await lane.run(1, fail)
    with pytest.raises(Problem):
        await enter(lane, Gate(), "a", Pass(refuses=True))

    assert 1 == await lane.run(1, lambda: 1)
    assert 0.0 == lane.wait()


async def test_work_in_a_thread_gives_way_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[tuple[str, float]] = []
    monkeypatch.setattr(
        aside, "sleep", lambda seconds: slept.append((threading.current_thread().name, seconds))
    )
    clock = iter([tick / 4096 for tick in range(100)])
    monkeypatch.setattr(aside, "monotonic", lambda: next(clock))

    def work() -> None:
        for _ in range(12):
            aside.give_way()

    work()
    assert not slept, "the event loop gives way to nobody"

    await Lane("large-things").run(1, work)
    # A turn of a millisecond is four looks at this clock and a part of one; after it the clock is read once more.
    assert slept == [("large-things_0", 5e-5)] * 2


async def test_the_pace_is_the_first_one_measured_and_then_a_running_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(aside, "monotonic", lambda: now[0])
    lane = Lane("test")
    paces, empty = [lane.pace], [lane.empty]

    for seconds in (1.0, 2.0, 0.0):

        def work(seconds: float = seconds) -> None:
            now[0] += seconds

        await lane.run(10, work)
        paces.append(lane.pace)
        empty.append(lane.empty)
        now[0] += 5.0

    # 0.1 s for each unit, then a tenth of the way to 0.2, then a tenth of the way to 0.
    assert [0.0, 0.1, 0.11, 0.099] == pytest.approx(paces)
    assert [100.0, 101.0, 108.0, 113.0] == empty


async def test_what_would_be_waited_for_is_what_is_left_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(aside, "monotonic", lambda: now[0])
    lane, gate = Lane("test"), Gate()
    lane.pace = 0.5
    tasks = [enter(lane, gate, name) for name in "abc"]
    for _ in range(5000):
        if gate.begun:
            break
        await asyncio.sleep(0.001)

    waits = []
    for later in (0.0, 2.0, 100.0):
        now[0] += later
        waits.append(lane.wait())
    gate.release(3)
    await asyncio.gather(*tasks)

    # Ten units take 5 s: three of them, then two and what is left of the first, which is never less than nothing.
    assert [15.0, 13.0, 10.0] == waits


def test_any_thread_gives_way_for_as_long_as_it_wants_to(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    now = [100.0]
    monkeypatch.setattr(aside, "sleep", slept.append)
    monkeypatch.setattr(aside, "monotonic", lambda: now[0])

    with aside.giving_way():
        aside.give_way()
        now[0] += 0.0011
        aside.give_way()
        aside.give_way()
        within = list(slept)
    now[0] += 10.0
    aside.give_way()

    assert [5e-5] == within == slept
