"""Clients that take up all connections, or hang up in the middle, cost others nothing."""

from __future__ import annotations

import json
import random
import select
import selectors
import socket
import statistics
import struct
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, cast

import httpx
import pytest

from tests.faults.load import loaded
from tests.faults.running import ADMIN, running, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.running import Running

pytestmark = pytest.mark.slow

HEAD = b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
JSON = {"content-type": "application/json"}


def log(figures: str) -> None:
    """Show what `pytest -s` shows."""
    print(figures)  # noqa: T201


def connect(service: Running) -> socket.socket:
    host, port = service.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


@pytest.mark.parametrize(
    "sent",
    [b"", HEAD, HEAD + b"Content-Length: 100000\r\n\r\n{"],
    ids=["silent", "half a head", "half a body"],
)
def test_with_all_descriptors_in_use_old_and_new_clients_are_answered(
    models_dir: Path, body: bytes, sent: bytes
) -> None:
    """Each worker may open 64 files; somebody holds 300 connections and opens fifty a second."""
    stopped = threading.Event()
    held: list[socket.socket] = []

    def hold(service: Running) -> None:
        while not stopped.is_set():
            with suppress(OSError):
                held.append(connect(service))
                held[-1].sendall(sent)
            if len(held) > 300:
                held.pop(0).close()
                time.sleep(0.02)

    with running(models_dir, prepare=["ulimit -n 64"]) as service, loaded(service.url, body) as load:
        until(lambda: len(load.answers) > 100)
        attacker = threading.Thread(target=hold, args=(service,), daemon=True)
        attacker.start()
        try:
            until(lambda: len(held) >= 300)
            begun = len(load.answers)
            waits = []
            for number in range(30):
                asked = time.monotonic()
                with httpx.Client(
                    base_url=service.url, timeout=30, headers=ADMIN, trust_env=False
                ) as another:
                    assert 200 == another.get("/livez").status_code
                    assert 200 == another.post("/v1/rerank", content=body, headers=JSON).status_code
                    if number % 10 == 0:
                        promoted = another.post(
                            "/v1/models/demo/promote", json={"version": 1 + number % 20 // 10}
                        )
                        assert 200 == promoted.status_code, promoted.text
                waits.append(time.monotonic() - asked)
            until(lambda: len(load.answers) > begun + 100)
        finally:
            stopped.set()
            attacker.join(30)
            for wire in held:
                wire.close()
        failures = load.failures
        assert 0 == len(service.logged("Traceback"))
        log(f"{sent!r}: {len(load.answers)} answers, slowest new client {max(waits):.2f} s")
    # If a busy machine stops all of them for a second, every client is idle and may lose its connection to another's.
    assert len(failures) <= max(4, len(load.answers) / 100)
    assert {0} >= {one.status for one in failures}


def test_clients_that_hang_up_in_the_middle_leave_nothing_behind(models_dir: Path, body: bytes) -> None:
    request = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    stopped = threading.Event()
    hung_up = [0]

    def hang_up(service: Running, seed: int) -> None:
        chance = random.Random(seed)
        while not stopped.is_set():
            with connect(service) as wire:
                if chance.random() < 0.5:  # a reset instead of an orderly end
                    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with suppress(OSError):
                    wire.sendall(request[: chance.randrange(len(request) + 1)])
                    if chance.random() < 0.3:
                        time.sleep(0.001)
            hung_up[0] += 1

    with running(models_dir) as service, loaded(service.url, body) as load, ExitStack() as stack:
        stack.callback(stopped.set)
        threads = [threading.Thread(target=hang_up, args=(service, seed), daemon=True) for seed in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: hung_up[0] > 1000 and len(load.answers) > 200)
        stopped.set()
        for thread in threads:
            thread.join(30)
        load.stop()
        assert [] == load.failures
    assert not [line for line in service.lines if "Traceback" in line or "exception" in line]


@pytest.mark.parametrize("how", ["reset", "unread answer"])
def test_clients_that_are_lost_while_they_are_answered_give_back_their_places(
    models_dir: Path, how: str
) -> None:
    """400 complete requests of 9 kB; afterwards everybody is answered, and the service can be stopped."""
    content = json.dumps({"features": [[0.123456789] * 10] * 70}).encode()
    request = HEAD + b"Content-Length: %d\r\n\r\n" % len(content) + content
    with running(models_dir) as service:
        for _ in range(4):
            with ExitStack() as stack:
                wires = [stack.enter_context(connect(service)) for _ in range(100)]
                for wire in wires:
                    wire.sendall(request)
                    if how == "reset":
                        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if how == "reset":
                    time.sleep(0.03)
                else:
                    select.select(wires, [], [], 30)
        until(lambda: not service.in_work())

        statuses = [
            service.client.post("/v1/rerank", content=content, headers=JSON).status_code for _ in range(20)
        ]
        assert 0 == service.stop()
    assert [200] * 20 == statuses


def test_bad_clients_do_not_fill_the_log(models_dir: Path) -> None:
    """Two workers, each of which may write one line every ten seconds."""
    with running(models_dir) as service:
        lines, begun = len(service.lines), time.monotonic()
        for number in range(400):
            with connect(service) as wire:
                wire.sendall(b"\x16\x03\x01" if number % 2 else b"GET / HTTP/1.1\r\n\r\n")
                assert wire.recv(1 << 16).startswith(b"HTTP/1.1 400")
        assert 400 == service.metric("localrank_refused_total")['{reason="malformed"}']
        seconds = time.monotonic() - begun

        assert len(service.lines) - lines <= 2 * (1 + seconds / 10)


@pytest.mark.parametrize(
    ("count", "sent"),
    [
        (60, b"\r\n" * 65_536),
        (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000),
        (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"80\r\n" + b"x" * 128 + b"\r\n") * 900),
        (400, HEAD + b"".join(b"X-%d: %b\r\n" % (number, b"x" * 600) for number in range(98)) + b"\r\n"),
    ],
    ids=["empty lines", "tiny chunks", "small chunks", "headers"],
)
def test_clients_that_send_what_is_slow_to_read_do_not_delay_health_checks(
    models_dir: Path, sent: bytes, count: int
) -> None:
    """Each connection sends 60 to 130 kB as often as it can, and comes back when it is closed."""
    connected, stopped = threading.Event(), threading.Event()

    def flood(service: Running) -> None:
        with selectors.DefaultSelector() as selector, ExitStack() as stack:

            def begin() -> None:
                wire = stack.enter_context(connect(service))
                wire.settimeout(0.0)
                selector.register(wire, selectors.EVENT_READ | selectors.EVENT_WRITE, [sent])

            for _ in range(count):
                begin()
            connected.set()
            while not stopped.is_set():
                for key, event in selector.select(0.05):
                    wire, left = cast("socket.socket", key.fileobj), key.data
                    try:
                        if event & selectors.EVENT_READ and not wire.recv(1 << 16):
                            raise ConnectionResetError
                        if event & selectors.EVENT_WRITE:
                            left[0] = left[0][wire.send(left[0]) :] or sent
                    except BlockingIOError:
                        continue
                    except OSError:
                        selector.unregister(wire)
                        wire.close()
                        begin()

    with running(models_dir, "--hang-seconds", "3") as service:
        workers = service.workers
        attacker = threading.Thread(target=flood, args=(service,), daemon=True)
        attacker.start()
        waits = []
        try:
            assert connected.wait(30)
            begun = time.monotonic()
            while time.monotonic() - begun < 4.0:
                asked = time.monotonic()
                assert 200 == service.client.get("/livez").status_code
                waits.append(time.monotonic() - asked)
        finally:
            stopped.set()
            attacker.join(30)
        log(f"{count} connections, {sent[-20:]!r}: {len(waits)} checks, the slowest {max(waits):.2f} s")
        assert workers == service.workers
    # A busy machine delays them, too; a worker that reads everything at once delays them for many seconds.
    assert statistics.median(waits) < 1.0
    assert max(waits) < 3.0
