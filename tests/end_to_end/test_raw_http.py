"""What no client library would send, byte by byte, to a real server."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

ROOT = Path(__file__).parents[2]
BODY = json.dumps({"model": "demo", "ids": ["a", "b"], "features": [[1.0] * 10, [2.0] * 10]}).encode()
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
CLOSE = b"Connection: close\r\n"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    with serving(ROOT / "models", log=log) as running:
        yield running
    assert "Traceback" not in log.read_text()


def request(*headers: bytes, line: bytes = b"POST /v1/rerank", body: bytes = BODY) -> bytes:
    head = line + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + b"".join(headers)
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def answers(client: httpx.Client, *pieces: bytes) -> list[tuple[int, Any]]:
    """Send the pieces one after the other; return each answer's status and JSON until the server hangs up."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            wire.sendall(piece)
            if len(pieces) > 1:
                time.sleep(0.02)  # so that the pieces arrive as such
        found = []
        with wire.makefile("rb") as stream:
            while line := stream.readline():
                length = 0
                while (header := stream.readline().strip()) != b"":
                    name, _, value = header.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                found.append((int(line.split()[1]), json.loads(stream.read(length) or b"null")))
        return found


def ranked(answer: tuple[int, Any]) -> list[str]:
    status, said = answer
    assert status == 200, said
    return [result["id"] for result in said["results"]]


@pytest.mark.parametrize("cut", [None, 10, 60, 150, 260, 300])
def test_an_offer_of_http2_does_not_cost_the_body(client: httpx.Client, cut: int | None) -> None:
    """Java's ``HttpClient`` makes it with its first request of every connection."""
    sent = request(H2C) + request(CLOSE)
    pieces = [sent] if cut is None else [sent[:cut], sent[cut:]]

    first, second = answers(client, *pieces)

    assert ["b", "a"] == ranked(first) == ranked(second)


def test_an_offer_and_a_goodbye_are_told_apart(client: httpx.Client) -> None:
    (only,) = answers(client, request(b"Connection: close, Upgrade\r\nUpgrade: h2c\r\n"))

    assert ["b", "a"] == ranked(only)


def test_a_body_in_chunks_may_follow_an_offer(client: httpx.Client) -> None:
    head = request(H2C, b"Transfer-Encoding: chunked\r\n", body=b"").replace(b"Content-Length: 0\r\n", b"")
    chunks = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (40, BODY[:40], len(BODY) - 40, BODY[40:])

    first, second = answers(client, head, chunks[:30], chunks[30:] + request(CLOSE))

    assert ["b", "a"] == ranked(first) == ranked(second)


def test_a_web_socket_is_not_opened(client: httpx.Client) -> None:
    offer = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n"

    ((status, said),) = answers(client, request(offer, line=b"GET /v1/rerank", body=b""))

    assert (405, "/v1/rerank does not answer GET; it answers POST") == (status, said["detail"])


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 50,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
        request(b"Content-Length: 3\r\n"),
        request(b"Transfer-Encoding: chunked\r\n"),
        request(b"no colon\r\n"),
    ],
    ids=["tls", "http2", "connect", "two lengths", "length and chunks", "no header"],
)
def test_what_is_not_http_is_answered_as_every_error_is(client: httpx.Client, sent: bytes) -> None:
    ((status, said),) = answers(client, sent)

    assert (400, 400, "expected an HTTP/1.1 request, found something else") == (
        status,
        said["status"],
        said["detail"],
    )
    assert said["error"] == said["detail"]


def test_a_head_has_a_largest_size(client: httpx.Client) -> None:
    """tests/service/http/test_heads.py has the exact limits."""
    ((status, said),) = answers(client, b"GET /" + b"a" * 70_000)

    assert (431, 431) == (status, said["status"])
    assert "more than 65536 bytes" in said["detail"]


def test_garbage_does_not_swallow_the_answers_before_it(client: httpx.Client) -> None:
    *good, (status, said) = answers(client, request() * 3 + b"\0garbage\r\n\r\n")

    assert [["b", "a"]] * 3 == [ranked(answer) for answer in good]
    assert (400, "expected an HTTP/1.1 request, found something else") == (status, said["detail"])


def test_a_smuggled_request_is_not_answered(client: httpx.Client) -> None:
    """A proxy that heeds the length forwards one request; a server that heeded the chunks would answer two."""
    hidden = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = b"0\r\n\r\n" + hidden
    for headers in (
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"X: 1\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 4\r\n",
    ):
        ((status, _),) = answers(client, request(headers, body=body))

        assert status in {400, 501}


def test_what_a_client_sends_does_not_become_a_header(client: httpx.Client) -> None:
    """Neither by an id that is sent back, nor by a path or a query that an error names."""
    for sent in (
        request(b"X-Request-Id: a\tb\r\n", CLOSE),
        request(CLOSE, line=b"POST /v1/%0d%0aset-cookie:a=b"),
        request(CLOSE, line=b"POST /v1/rerank?top_n=1%0d%0aset-cookie:a=b"),
        request(CLOSE, line=b"PUT /v1/models/%0d%0aset-cookie:a=b"),
    ):
        with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20) as wire:
            wire.sendall(sent)
            with wire.makefile("rb") as stream:
                head, _, _ = stream.read().partition(b"\r\n\r\n")

        names = [line.partition(b":")[0] for line in head.split(b"\r\n")[1:]]
        assert b"set-cookie" not in names, head
        assert len(names) == len(set(names)), head


def test_a_body_may_be_larger_than_a_head(client: httpx.Client) -> None:
    body = BODY[:-1] + b" " * 200_000 + b"}"

    first, second = answers(client, request(body=body) + request(CLOSE, body=body))

    assert ["b", "a"] == ranked(first) == ranked(second)


def test_requests_sent_ahead_are_answered_in_order(client: httpx.Client) -> None:
    bodies = [
        json.dumps(
            {"model": "demo", "query_id": number, "ids": [str(number)], "features": [[1.0] * 10]}
        ).encode()
        for number in range(8)
    ]

    found = answers(
        client, b"".join(request(body=body) for body in bodies[:-1]) + request(CLOSE, body=bodies[-1])
    )

    assert [[str(number)] for number in range(8)] == [ranked(answer) for answer in found]


def test_a_client_that_waits_for_permission_gets_it_before_the_answer(client: httpx.Client) -> None:
    asked = request(CLOSE, b"Expect: 100-continue\r\n")
    head, end, body = asked.partition(b"\r\n\r\n")
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20) as wire:
        wire.sendall(head + end)
        permission = wire.recv(1 << 16)
        wire.sendall(body)
        with wire.makefile("rb") as stream:
            answer = stream.read()

    assert permission == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_client_that_has_nothing_more_to_say_is_answered(client: httpx.Client) -> None:
    """As ``nc -N`` does, which ends its side with the request."""
    for _ in range(20):
        with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20) as wire:
            wire.sendall(request())
            wire.shutdown(socket.SHUT_WR)
            with wire.makefile("rb") as stream:
                answer = stream.read()

        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_small_answer_comes_as_a_whole(client: httpx.Client) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20) as wire:
        for _ in range(20):
            wire.sendall(request())
            head, _, body = wire.recv(1 << 16).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert ["b", "a"] == [result["id"] for result in json.loads(body)["results"]]
