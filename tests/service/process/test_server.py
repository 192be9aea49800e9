"""The moment in which a server stops listening: whoever is connected is accepted, and nobody is reset."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from contextlib import ExitStack
from types import SimpleNamespace

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


async def greeting(scope: dict[str, object], receive: object, send: object) -> None:  # noqa: ARG001
    """Answer every request with two letters."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b"hi"})  # type: ignore[operator]


def served(*, last: bool) -> tuple[list[bytes], bool, int]:
    """Stop a server to which two clients are connected that it has not accepted; return what they got."""
    with ExitStack() as stack:
        config = uvicorn.Config(greeting, lifespan="off", log_config=None)
        server = Server(config, lambda: last)
        listener = listening(stack)

        async def serve() -> tuple[list[bytes], bool, int]:
            config.load()
            server.lifespan = config.lifespan_class(config)
            await server.startup([listener])
            frozen = gc.get_freeze_count()
            clients = [
                stack.enter_context(socket.create_connection(listener.getsockname(), timeout=5))
                for _ in range(2)
            ]
            await server._stop_listening([listener])
            closed = listener.fileno() == -1
            answers = []
            for client in clients:
                client.settimeout(0.0)
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                answer = b""
                while part := await loop.sock_recv(client, 4096):
                    answer += part
                answers.append(answer)
            return answers, closed, frozen

        try:
            return asyncio.run(asyncio.wait_for(serve(), 60))
        finally:
            gc.unfreeze()


@pytest.mark.parametrize("last", [True, False])
def test_who_is_connected_when_it_stops_is_answered(*, last: bool) -> None:
    answers, closed, frozen = served(last=last)

    assert [True, True] == [
        one.startswith(b"HTTP/1.1 200 OK\r\n") and one.endswith(b"\r\nhi") for one in answers
    ]
    assert closed
    assert frozen > 0


def test_its_end_stops_listening_before_it_waits_for_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []

    async def stop_listening(_server: Server, sockets: list[socket.socket]) -> None:
        done.append(sockets)

    async def shutdown(_server: uvicorn.Server, sockets: object = None) -> None:
        done.append(("shutdown", sockets))

    monkeypatch.setattr(Server, "_stop_listening", stop_listening)
    monkeypatch.setattr(uvicorn.Server, "shutdown", shutdown)
    server = Server(uvicorn.Config("no:app"))
    with socket.socket() as listener:
        asyncio.run(server.shutdown([listener]))
        asyncio.run(server.shutdown())

        assert [[listener], ("shutdown", [listener]), [], ("shutdown", None)] == done
    assert server._is_last()


@pytest.mark.parametrize("stuck", [True, False])
def test_a_server_that_refuses_everything_for_nothing_stops(
    *, stuck: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(uvicorn.Config(greeting, lifespan="off", log_config=None))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    server.lifespan.state["connections"] = SimpleNamespace(stuck=stuck)

    stops = [asyncio.run(server.on_tick(1)) for _ in range(2)]

    assert ([stuck, stuck], stuck) == (stops, server.stuck)
    assert int(stuck) == len(caplog.messages)
