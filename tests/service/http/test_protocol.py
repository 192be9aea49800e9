"""The transport that joins what is written in one turn of the loop; requests over real sockets are in tests/end_to_end."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from localrank_service.http.protocol import _Joined


class Recorder:
    """Stands for a transport: remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str | bytes] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.told.append("close")
        self.closing = True

    def pause_reading(self) -> None:
        self.told.append("pause")


def joined() -> tuple[Recorder, _Joined]:
    recorder = Recorder()
    return recorder, _Joined(cast("asyncio.Transport", recorder))


@pytest.mark.anyio
async def test_what_is_written_in_one_turn_is_sent_at_once_and_in_order() -> None:
    recorder, transport = joined()

    transport.write(b"head ")
    transport.write(b"body ")
    assert recorder.told == []
    await asyncio.sleep(0)
    transport.write(b"next")
    await asyncio.sleep(0)

    assert recorder.told == [b"head body ", b"next"]


@pytest.mark.anyio
async def test_closing_sends_what_was_written_first_and_nothing_afterwards() -> None:
    recorder, transport = joined()

    transport.write(b"last")
    transport.close()
    transport.write(b"too late")
    await asyncio.sleep(0)

    assert recorder.told == [b"last", "close"]


@pytest.mark.anyio
async def test_a_long_answer_is_sent_as_it_is() -> None:
    recorder, transport = joined()
    body = bytes(100_000)

    transport.write(b"head")
    transport.write(body)

    assert recorder.told == [b"head", body]
    assert recorder.told[1] is body
    await asyncio.sleep(0)
    assert len(recorder.told) == 2


@pytest.mark.anyio
async def test_nothing_is_sent_for_an_empty_body() -> None:
    recorder, transport = joined()

    transport.write(b"")
    await asyncio.sleep(0)
    assert recorder.told == []

    transport.write(b"head")
    transport.write(b"")
    await asyncio.sleep(0)
    assert recorder.told == [b"head"]


@pytest.mark.anyio
async def test_everything_else_is_the_transports() -> None:
    recorder, transport = joined()

    transport.pause_reading()

    assert not transport.is_closing()
    assert recorder.told == ["pause"]
