"""What the handler of SIGTERM does before the server's own; tests/end_to_end has real servers and signals."""

from __future__ import annotations

import asyncio
import signal
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from localrank_service.process.draining import drain_on_sigterm

if TYPE_CHECKING:
    from collections.abc import Iterator


class Service:
    """A service that can be told to drain."""

    def __init__(self, seconds: float) -> None:
        self.settings = SimpleNamespace(drain_seconds=seconds)
        self.draining = False

    def drain(self) -> None:
        self.draining = True


@pytest.fixture
def stopped() -> Iterator[list[int]]:
    """What the server's own handler was called with."""
    before = signal.getsignal(signal.SIGTERM)
    calls: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: calls.append(number))
    yield calls
    signal.signal(signal.SIGTERM, before)


def handle() -> None:
    handler: Any = signal.getsignal(signal.SIGTERM)
    handler(signal.SIGTERM, None)


def test_without_a_pause_the_server_stops_at_once_and_is_unready(stopped: list[int]) -> None:
    service: Any = Service(0.0)

    async def terminate() -> None:
        drain_on_sigterm(service)
        assert not service.draining
        handle()

    asyncio.run(terminate())
    assert ([signal.SIGTERM], True) == (stopped, service.draining)


def test_with_a_pause_it_is_unready_at_once_and_stops_after_it(stopped: list[int]) -> None:
    service: Any = Service(0.05)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, _frame: (stopped.append(number), ended.set()))  # type: ignore[func-returns-value]

    async def terminate() -> tuple[list[int], bool]:
        drain_on_sigterm(service)
        handle()
        at_once = list(stopped), service.draining
        await asyncio.to_thread(ended.wait)
        return at_once

    assert ([], True) == asyncio.run(asyncio.wait_for(terminate(), 30))
    assert [signal.SIGTERM] == stopped


def test_a_second_signal_skips_the_pause(stopped: list[int]) -> None:
    service: Any = Service(3600.0)

    async def terminate() -> None:
        drain_on_sigterm(service)
        handle()
        handle()

    asyncio.run(terminate())
    assert [signal.SIGTERM] == stopped


def test_a_server_that_does_not_listen_for_signals_is_left_alone(stopped: list[int]) -> None:
    service: Any = Service(0.0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    async def start() -> None:
        drain_on_sigterm(service)

    asyncio.run(start())
    ignored = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: asyncio.run(start()))
    thread.start()
    thread.join()

    assert signal.SIG_IGN == ignored == signal.getsignal(signal.SIGTERM)
    assert [] == stopped


def test_a_server_in_another_thread_keeps_the_handler_of_the_process(stopped: list[int]) -> None:
    service: Any = Service(0.0)

    async def start() -> None:
        drain_on_sigterm(service)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: asyncio.run(start()))
    thread.start()
    thread.join()

    assert before == signal.getsignal(signal.SIGTERM)
    handle()
    assert ([signal.SIGTERM], False) == (stopped, service.draining)
