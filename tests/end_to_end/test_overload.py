"""One worker that is asked for several times what it can answer; `benchmarks/overload.py` measures the same at length."""

from __future__ import annotations

import json
import socket
import statistics
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import served_models
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

FEATURES = 20
NPY = {"content-type": "application/x-npy"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server of a model that takes some tens of milliseconds for a request."""
    folder = tmp_path_factory.mktemp("overload") / "models"
    forest = served_models.forest(2000, 6, FEATURES)
    served_models.publish(folder, served_models.ranker(50, FEATURES, scorer=forest))
    with serving(folder, "--workers", "1") as running:
        yield running


class Asking(threading.Thread):
    """A client that asks again as soon as it was answered."""

    def __init__(self, client: httpx.Client, request: bytes, until: float) -> None:
        super().__init__(daemon=True)
        self.address = client.base_url.host, client.base_url.port or 80
        self.request, self.until = request, until
        self.answers: list[tuple[int, float, bytes]] = []

    def run(self) -> None:
        with socket.create_connection(self.address, timeout=30) as wire, wire.makefile("rb") as stream:
            while (begun := time.monotonic()) < self.until:
                wire.sendall(self.request)
                status = int(stream.readline().split()[1])
                length, after = 0, b""
                while (line := stream.readline().strip()) != b"":
                    name, _, value = line.partition(b": ")
                    length = int(value) if name == b"content-length" else length
                    after = value if name == b"retry-after" else after
                stream.read(length)
                self.answers.append((status, time.monotonic() - begun, after))
                if status == 429:
                    time.sleep(0.005)


def request_of(n_documents: int) -> bytes:
    body = served_models.as_npy(served_models.documents(n_documents, FEATURES))
    head = "POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\nContent-Length: {}\r\n\r\n"
    return head.format(len(body)).encode() + body


def status_on_a_new_connection(client: httpx.Client, path: str) -> int:
    """Ask as a load balancer does; an httpx client would take longer to make than the server to answer."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=30) as wire:
        wire.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        with wire.makefile("rb") as stream:
            return int(stream.readline().split()[1])


def test_what_cannot_be_answered_in_time_is_refused_and_health_checks_are_answered(
    client: httpx.Client,
) -> None:
    pid = client.get("/info").json()["pid"]
    body = served_models.as_npy(served_models.documents(1000, FEATURES))
    alone = []
    for _ in range(5):
        begun = time.monotonic()
        assert 200 == client.post("/v1/rerank", content=body, headers=NPY).status_code
        alone.append(time.monotonic() - begun)
    before = resident(pid)

    clients = [Asking(client, request_of(1000), time.monotonic() + 4) for _ in range(16)]
    for one in clients:
        one.start()
    health = []
    while any(one.is_alive() for one in clients):
        begun = time.monotonic()
        assert [200, 200] == [status_on_a_new_connection(client, path) for path in ("/livez", "/readyz")]
        health.append(time.monotonic() - begun)
        time.sleep(0.05)

    answers = [answer for one in clients for answer in one.answers]
    answered = [seconds for status, seconds, _ in answers if status == 200]
    refused = [(seconds, after) for status, seconds, after in answers if status == 429]
    assert len(answers) == len(answered) + len(refused)
    assert len(refused) > len(answered) > 0
    # All waiting together would take sixteen times as long as one.
    assert statistics.median(answered) < 8 * statistics.median(alone)
    assert statistics.median(seconds for seconds, _ in refused) < statistics.median(answered)
    assert all(1 <= int(after) <= 30 for _, after in refused)
    # One worker ranks and answers both; on a busy machine each takes longer.
    assert statistics.median(health) < max(0.2, statistics.median(alone))
    assert resident(pid) - before < 150

    wait_until_nothing_is_in_work(client)
    for _ in range(10):
        answer = client.post("/v1/rerank", content=body, headers=NPY)
        assert 200 == answer.status_code, answer.text
    assert pid == client.get("/info").json()["pid"]
    assert 'localrank_refused_total{reason="queue"}' in client.get("/metrics").text
    wait_until_nothing_is_in_work(client)


def wait_until_nothing_is_in_work(client: httpx.Client) -> None:
    """The gauge is written anew some times in a second."""
    deadline = time.monotonic() + 30
    while "localrank_inflight_documents 0.0" not in client.get("/metrics").text:
        assert time.monotonic() < deadline


def test_a_refusal_says_what_it_is_and_keeps_the_connection(client: httpx.Client) -> None:
    """It comes before the body is sent: the client that asks for permission is not given it."""
    occupied = [Asking(client, request_of(1000), time.monotonic() + 3) for _ in range(8)]
    for one in occupied:
        one.start()
    request = request_of(1000)
    head, end, _ = request.partition(b"\r\n\r\n")
    address = client.base_url.host, client.base_url.port or 80
    refused = permitted = False
    while not (refused and permitted) and any(one.is_alive() for one in occupied):
        with socket.create_connection(address, timeout=30) as wire:
            wire.sendall(head + b"\r\nExpect: 100-continue" + end)
            answer = wire.recv(1 << 16)
            if answer.startswith(b"HTTP/1.1 100"):
                permitted = True
                continue
            said_head, _, said = answer.partition(b"\r\n\r\n")
            assert said_head.startswith(b"HTTP/1.1 429 Too Many Requests")
            problem = json.loads(said)
            assert 429 == problem["status"]
            assert "overloaded" in problem["detail"]
            refused = True
    for one in occupied:
        one.join(30)

    assert refused
    # Each kept its one connection throughout.
    assert all({status for status, _, _ in one.answers} <= {200, 429} for one in occupied)
    assert any(status == 429 for one in occupied for status, _, _ in one.answers)


def resident(pid: int) -> float:
    """Return megabytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
