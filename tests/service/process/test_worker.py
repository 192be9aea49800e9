"""What a worker writes to its supervisor; tests/faults has real workers."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from localrank_service.process import worker
from localrank_service.process.neighbours import Board, Neighbours
from localrank_service.process.server import Server
from localrank_service.process.worker import SERVING, STARTING, STUCK, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            continue


def alone(ending: Callable[[], bool] = lambda: True) -> Neighbours:
    """Return the neighbours of a worker that has none."""
    board = Board(1)
    board.close()
    return Neighbours(board, 0, ending)


def beating(writer: int) -> worker._Server:
    return worker._Server(uvicorn.Config("no:app"), writer, 0.005, alone())


def heard(reader: int) -> bytes:
    try:
        return os.read(reader, 1 << 20)
    except BlockingIOError:
        return b""


async def until(reader: int, byte: bytes) -> None:
    while byte not in heard(reader):  # noqa: ASYNC110 - a pipe has no event
        await asyncio.sleep(0.002)


def test_it_beats_again_and_again_and_says_when_it_serves(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    server = beating(writer)

    async def beat() -> None:
        task = asyncio.create_task(server._beat())
        for _ in range(2):
            await until(reader, STARTING)
        server.started = True
        for _ in range(2):
            await until(reader, SERVING)
        task.cancel()

    asyncio.run(asyncio.wait_for(beat(), 30))
    assert b".s" == STARTING + SERVING


def test_a_pipe_that_nobody_empties_does_not_stop_the_beat(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    server = beating(writer)

    async def beat() -> None:
        task = asyncio.create_task(server._beat())
        await asyncio.sleep(0.02)
        await until(reader, STARTING)
        task.cancel()

    asyncio.run(asyncio.wait_for(beat(), 30))


def test_a_worker_ends_itself_when_its_supervisor_is_gone(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = pipe
    os.close(reader)
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))

    asyncio.run(asyncio.wait_for(beating(writer)._beat(), 30))

    assert [(os.getpid(), signal.SIGTERM)] == sent
    assert f"the supervisor of worker {os.getpid()} is gone; the worker stops" in caplog.messages


def test_a_worker_that_is_stuck_says_so_by_its_exit_code(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker._Server, "run", lambda self, sockets: setattr(self, "stuck", bool(sockets)))

    with socket.socket() as listener, pytest.raises(SystemExit) as ended:
        work(uvicorn.Config("no:app"), listener, pipe[1], 0.005, alone())

    assert STUCK == ended.value.code


def test_it_beats_from_its_start_and_is_the_last_if_it_is_told_so(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = pipe
    seen: list[Any] = []

    async def start(_: Server, sockets: Any = None) -> None:
        await until(reader, STARTING)
        seen.append(sockets)

    def run(self: worker._Server, sockets: Any = None) -> None:
        seen.append(self._is_last())
        asyncio.run(asyncio.wait_for(self.startup(sockets), 30))

    monkeypatch.setattr(Server, "startup", start)
    monkeypatch.setattr(worker._Server, "run", run)
    with socket.socket() as listener:
        for answer in ("", "yes"):
            work(uvicorn.Config("no:app"), listener, writer, 0.005, alone(partial(bool, answer)))

        assert [False, [listener], True, [listener]] == seen
