"""Clients that hold connections, send slowly, or hang up: others are served all the same, and memory stays bounded."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
BODY = json.dumps({"model": "demo", "ids": ["a", "b"], "features": [[1.0] * 10, [2.0] * 10]}).encode()
HEAD = b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
FAST = ("--head-timeout-seconds", "1", "--body-timeout-seconds", "1.5", "--keep-alive-seconds", "2")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "server.log"


@pytest.fixture(scope="module")
def client(log: Path) -> Iterator[httpx.Client]:
    """A server that has little patience."""
    with serving(ROOT / "models", *FAST, "--workers", "1", log=log) as running:
        yield running
    assert "Traceback" not in log.read_text()


def connect(client: httpx.Client) -> socket.socket:
    wire = socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return wire


@contextmanager
def holding(client: httpx.Client, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Send the same on so many connections."""
    with ExitStack() as stack:
        wires = [stack.enter_context(connect(client)) for _ in range(count)]
        for wire in wires:
            wire.sendall(sent)
        yield wires


def rest_of(wire: socket.socket) -> tuple[bytes, float]:
    """Return what comes until the server closes, and how many seconds that takes."""
    begun = time.monotonic()
    parts = []
    try:
        while part := wire.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        parts.append(b"reset")
    return b"".join(parts), time.monotonic() - begun


def memory(client: httpx.Client) -> float:
    """Return the megabytes of the worker's resident memory."""
    pid = client.get("/info").json()["pid"]
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def refused(client: httpx.Client, reason: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    label = f'localrank_refused_total{{reason="{reason}"}} '
    return sum(float(line.removeprefix(label)) for line in lines if line.startswith(label))


def test_a_head_that_does_not_end_is_given_up(client: httpx.Client) -> None:
    before = refused(client, "head_timeout")
    with connect(client) as wire:
        wire.sendall(HEAD)
        answer, seconds = rest_of(wire)

    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"the request's head did not arrive within 1 s" in answer
    assert 0.8 < seconds < 5
    assert before + 1 == refused(client, "head_timeout")


def test_a_connection_without_a_request_is_closed(client: httpx.Client) -> None:
    with connect(client) as silent:
        answer, seconds = rest_of(silent)
        assert (b"", True) == (answer, 0.8 < seconds < 5)
    with connect(client) as idle:
        idle.sendall(REQUEST)
        answer, seconds = rest_of(idle)
        assert answer.startswith(b"HTTP/1.1 200")
        assert 1.8 < seconds < 6


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (HEAD + b"Content-Length: 1000\r\n\r\n", b"{"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\n{"),
        (HEAD + b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n", b""),
    ],
    ids=["length", "chunks", "permission"],
)
def test_a_body_that_does_not_end_is_given_up(client: httpx.Client, head: bytes, body: bytes) -> None:
    before = refused(client, "body_timeout")
    with connect(client) as wire:
        wire.sendall(head + body)
        answer, seconds = rest_of(wire)

    answer = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"connection: close" in answer
    assert 1.2 < seconds < 6
    assert before + 1 == refused(client, "body_timeout")


def test_a_body_that_trickles_is_given_up(client: httpx.Client) -> None:
    """Also one that sends a byte now and then, and one that nobody reads."""
    with connect(client) as wire, connect(client) as unread:
        wire.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
        unread.sendall(b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
        assert unread.recv(1 << 16).startswith(b"HTTP/1.1 404")
        begun = time.monotonic()
        ended: set[socket.socket] = set()
        while len(ended) < 2 and time.monotonic() - begun < 6:
            for one in {wire, unread} - ended:
                try:
                    one.sendall(b" ")
                except OSError:
                    ended.add(one)
            time.sleep(0.05)
        assert 2 == len(ended)


def test_many_half_sent_requests_hold_little_memory(client: httpx.Client) -> None:
    """1,500 half-sent heads and 60 half-sent bodies held 1 GB for as long as the client liked."""
    before = memory(client)
    head = HEAD + b"".join(b"X-%d: %b\r\n" % (number, b"x" * 600) for number in range(90))
    body = HEAD + b"Content-Length: 16777216\r\n\r\n" + bytes(8 << 20)
    with holding(client, 1500, head[:60_000]):
        assert 200 == client.get("/livez").status_code
        with_heads = memory(client)
    with ExitStack() as stack:
        wires = [stack.enter_context(connect(client)) for _ in range(60)]
        most = 0.0
        for wire in wires:
            with suppress(OSError):  # given up for another
                wire.sendall(body)
            most = max(most, memory(client))
        assert 200 == client.post("/v1/rerank", content=BODY, headers=json_type()).status_code

    assert with_heads - before < 250
    assert most - before < 400


def json_type() -> dict[str, str]:
    return {"content-type": "application/json"}


def test_a_client_that_hangs_up_costs_nothing(client: httpx.Client) -> None:
    """At any point of its request, and before it takes the answer."""
    for cut in (0, 10, len(HEAD), len(REQUEST) - 20, len(REQUEST)):
        for _ in range(20):
            with connect(client) as wire:
                if cut % 2:
                    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                wire.sendall(REQUEST[:cut])

    assert 200 == client.post("/v1/rerank", content=BODY, headers=json_type()).status_code
    deadline = time.monotonic() + 10
    while "localrank_inflight_requests 1.0" not in client.get("/metrics").text:
        assert time.monotonic() < deadline


def test_a_client_that_does_not_take_its_answers_is_cut_off(client: httpx.Client) -> None:
    """It may send ahead as much as it likes: nothing is read for it before it takes what it was sent."""
    before = memory(client)
    with connect(client) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.settimeout(1.0)
        asked = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 2000
        with suppress(OSError):
            while True:
                wire.sendall(asked)
        deadline = time.monotonic() + 20
        while refused(client, "slow_reader") < 1:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    assert memory(client) - before < 50


def test_with_few_descriptors_new_clients_are_served(tmp_path: Path) -> None:
    """An attacker holds all connections that there can be, and comes back as soon as one is closed."""
    log = tmp_path / "server.log"
    with (
        serving(ROOT / "models", "--workers", "1", log=log, descriptors=64) as client,
        ExitStack() as stack,
    ):
        for kind in (b"", HEAD, HEAD + b"Content-Length: 1000\r\n\r\n{"):
            wires = [stack.enter_context(connect(client)) for _ in range(100)]
            for wire in wires:
                with suppress(OSError):  # closed for another
                    wire.sendall(kind)
            time.sleep(1.2)
            for _ in range(20):
                with httpx.Client(base_url=client.base_url, timeout=10) as another:
                    assert 200 == another.get("/livez").status_code
                    answer = another.post("/v1/rerank", content=BODY, headers=json_type())
                    assert 200 == answer.status_code
        assert refused(client, "connections") > 100
    said = log.read_text()
    assert "Traceback" not in said
    assert said.count("ended early") <= 3


def test_idle_connections_make_room_for_new_ones(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with serving(ROOT / "models", "--workers", "1", "--max-connections", "8", log=log) as client:
        with ExitStack() as stack:
            for _ in range(30):
                another = stack.enter_context(httpx.Client(base_url=client.base_url))
                assert 200 == another.get("/livez").status_code
        assert 'localrank_refused_total{reason="connections"}' in client.get("/metrics").text


def test_bad_requests_do_not_fill_the_log(client: httpx.Client, log: Path) -> None:
    lines, before = len(log.read_text().splitlines()), refused(client, "malformed")
    begun = time.monotonic()
    for sent in (b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n", b"GET /" + b"x" * 70_000):
        for _ in range(50):
            with connect(client) as wire:
                wire.sendall(sent)
                assert rest_of(wire)[0].startswith(b"HTTP/1.1 4")

    assert before + 150 == refused(client, "malformed")
    assert len(log.read_text().splitlines()) - lines <= 1 + (time.monotonic() - begun) / 10


def test_a_page_may_read_that_the_server_is_overloaded(tmp_path: Path) -> None:
    """The refusal is not the application's, and has the headers of its answers all the same."""
    body = json.dumps({"features": [[0.5] * 10] * 2000}).encode()
    origin = b"Origin: https://shop.example\r\n"
    flags = ("--workers", "1", "--cors-origins", "https://shop.example", "--max-queue-ms", "0.1")
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    answers: list[bytes] = []
    statuses: set[bytes] = set()
    with serving(ROOT / "models", *flags, log=tmp_path / "server.log") as client:
        until = time.monotonic() + 30
        while b"429" not in statuses and time.monotonic() < until:
            with ExitStack() as stack:
                wires = [stack.enter_context(connect(client)) for _ in range(40)]
                for wire in wires:
                    wire.sendall(HEAD + b"Connection: close\r\n" + origin + length + body)
                answers += [rest_of(wire)[0] for wire in wires]
            statuses = {answer.split()[1] for answer in answers}

    assert {b"200", b"429"} == statuses
    assert all(b"access-control-allow-origin: https://shop.example\r\n" in answer for answer in answers)
