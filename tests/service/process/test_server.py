"""The moment in which a server stops listening: whoever is connected is accepted, and nobody is reset."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import ExitStack

import pytest
import uvicorn

from localrank.native.door import shut_door
from localrank_service.process.server import Server

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can drop attempts to connect")


def listening(stack: ExitStack) -> socket.socket:
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    return listener


@linux
def test_those_who_are_connected_can_be_accepted_behind_a_shut_door() -> None:
    with ExitStack() as stack:
        listener = listening(stack)
        before = stack.enter_context(socket.create_connection(listener.getsockname(), timeout=5))
        shut_door(listener)

        after = stack.enter_context(socket.socket())
        after.settimeout(0.2)
        with pytest.raises(TimeoutError):
            after.connect(listener.getsockname())
        accepted = stack.enter_context(listener.accept()[0])
        accepted.sendall(b"hello")
        assert before.recv(5) == b"hello"
        listener.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            listener.accept()


@linux
@pytest.mark.parametrize("last", [True, False])
def test_a_worker_shuts_the_door_only_if_all_workers_stop(
    *, last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker that goes on serving has the same listener."""
    shut: list[int] = []
    monkeypatch.setattr("localrank_service.process.server.shut_door", lambda one: shut.append(one.fileno()))

    async def app(_scope: object, _receive: object, _send: object) -> None: ...

    with ExitStack() as stack:
        config = uvicorn.Config(app, lifespan="off", log_config=None)
        server = Server(config, lambda: last)

        async def serve() -> None:
            config.load()
            server.lifespan = config.lifespan_class(config)
            listener = listening(stack)
            await server.startup([listener])
            await server._stop_listening([listener])

        asyncio.run(serve())
    assert len(shut) == last
