"""Heads of requests: the grammar is httptools', everything else is ours."""

from __future__ import annotations

from typing import Any, cast

import pytest

from localrank_service.http.messages import LARGEST_HEAD, MOST_EMPTY_LINES, MOST_HEADERS, Head, Heads
from localrank_service.http.problems import Problem


def read(data: bytes, *, step: int | None = None) -> tuple[Head, int]:
    """Read a head, in pieces of so many bytes; return it and how many bytes it took."""
    head, at = Head(), 0
    while at < len(data) and not head.complete:
        at += head.feed(memoryview(data)[at : None if step is None else at + step])
    return head, at


def located(head: Head) -> dict[str, Any]:
    scope: dict[str, Any] = {"root_path": ""}
    head.locate(cast("Any", scope))
    return scope


def refused(data: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        located(read(data)[0])
    return caught.value


HEAD = b"POST /v1/rerank?top_n=3 HTTP/1.1\r\nHost: a.example:80\r\nX-Two: 1\r\nContent-Length: 12\r\nX-Two: 2\r\n\r\n"


@pytest.mark.parametrize("step", [None, *range(1, 8), 60])
def test_a_head_ends_where_its_empty_line_does(step: int | None) -> None:
    head, used = read(HEAD + b"body and the next request", step=step)

    assert (True, len(HEAD)) == (head.complete, used)
    assert (12, True, False) == (head.length, head.keeps, head.waits)
    scope = located(head)
    assert ("POST", "/v1/rerank", b"top_n=3", "1.1") == (
        scope["method"],
        scope["path"],
        scope["query_string"],
        scope["http_version"],
    )
    names = [name for name, _ in scope["headers"]]
    assert [b"host", b"x-two", b"content-length", b"x-two"] == names


def test_a_head_says_what_the_body_is() -> None:
    """Requests of another content type are other work, which admission looks at."""
    typed, _ = read(HEAD[:-2] + b"Content-Type: application/x-npy\r\n\r\n")
    untyped, _ = read(HEAD)

    assert (b"application/x-npy", b"") == (typed.content_type, untyped.content_type)
    assert b"/v1/rerank" == typed.path


@pytest.mark.parametrize(
    ("sent", "known"),
    [(b"7", True), (b"a" * 128, True), (b"a" * 129, False), (b"a b", False), (b"\xe4", False), (b"", False)],
)
def test_a_request_has_the_name_that_the_client_gives_it_if_that_can_be_sent_back(
    sent: bytes, *, known: bool
) -> None:
    head, _ = read(HEAD[:-2] + b"X-Request-ID: %b\r\n\r\n" % sent)

    assert (sent if known else None) == head.request_id


@pytest.mark.parametrize(
    ("lines", "waits"),
    [
        (b"Expect: 100-continue\r\nContent-Length: 1", True),
        (b"Expect: 100-Continue\r\nTransfer-Encoding: chunked", True),
        (b"Expect: 100-continue\r\nContent-Length: 0", False),
        (b"Content-Length: 1", False),
    ],
)
def test_a_client_may_wait_for_leave_to_send_a_body(lines: bytes, *, waits: bool) -> None:
    head, _ = read(b"POST / HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n\r\n")

    assert waits == head.waits


@pytest.mark.parametrize(
    ("options", "keeps"),
    [(b"close", False), (b"Close", False), (b"a, close", False), (b"keep-alive", True), (b"closed", True)],
)
def test_a_client_may_end_its_connection(options: bytes, *, keeps: bool) -> None:
    head, _ = read(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: %b\r\n\r\n" % options)

    assert keeps == head.keeps


def test_an_old_client_does_not_wait_whatever_it_expects() -> None:
    head, _ = read(b"POST / HTTP/1.0\r\nExpect: the best\r\nContent-Length: 1\r\n\r\n")

    assert (False, 1, "1.0") == (head.waits, head.length, head.version)


def test_an_empty_line_before_a_request_is_skipped() -> None:
    head, used = read(b"\r\n" + HEAD)

    assert (True, 2 + len(HEAD)) == (head.complete, used)


@pytest.mark.parametrize("step", [None, 1, 2, 3])
def test_only_a_few_empty_lines_are_skipped(step: int | None) -> None:
    lines = b"\r\n" * MOST_EMPTY_LINES
    if step in {None, 2}:  # one that comes alone in two pieces is part of the head
        assert read(lines + HEAD, step=step)[0].complete

        with pytest.raises(Problem) as caught:
            read(lines + b"\r\n" + HEAD, step=step)

        assert 400 == caught.value.status
    else:
        assert read(b"\r\n" + HEAD, step=step)[0].complete


def test_empty_lines_are_skipped_in_one_step() -> None:
    assert 2 * MOST_EMPTY_LINES == Head().feed(memoryview(b"\r\n" * MOST_EMPTY_LINES + HEAD))


@pytest.mark.parametrize("over", [0, 1])
def test_the_largest_head_is_exact(over: int) -> None:
    """Also if the bytes before the limit and after it come together, as those of a 120 kB head do."""
    start, end = b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"\r\n\r\n"
    data = start + b"x" * (LARGEST_HEAD - len(start) - len(end) + over) + end

    if over:
        assert 431 == refused(data).status
        assert 431 == refused(data[:-4] + b"x" * 60_000).status
    else:
        assert read(data)[0].complete


def test_headers_have_a_largest_number() -> None:
    lines = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A:\r\n" * (MOST_HEADERS - 1)

    assert read(lines + b"\r\n")[0].complete
    problem = refused(lines + b"A:\r\n\r\n")
    assert (431, f"the request has more than {MOST_HEADERS} headers") == (problem.status, problem.detail)


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"GET / HTTP/1.1", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nhost: b", 400),
        (b"GET / HTTP/1.1\r\nHost: a b", 400),
        (b"GET / HTTP/1.1\r\nHost: a/b", 400),
        (b"GET / HTTP/1.1\r\nHost: [::1", 400),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b", 400),
        (b"GET / HTTP/2.0\r\nHost: a", 505),
        (b"GET / HTTP/1.1\r\nHost: a\r\nExpect: the best", 417),
        (b"GET /\xff HTTP/1.1\r\nHost: a", 400),
    ],
)
def test_one_host_is_addressed_in_a_version_that_we_speak(lines: bytes, status: int) -> None:
    assert status == refused(lines + b"\r\n\r\n").status


@pytest.mark.parametrize(
    "host", [b"", b"localhost", b"a.example:8080", b"127.0.0.1:1", b"[::1]:80", b"xn--bcher-kva.example"]
)
def test_a_host_may_be_a_name_or_an_address(host: bytes) -> None:
    assert read(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host)[0].complete


def test_http_1_0_needs_no_host_and_ends_its_connection() -> None:
    head, _ = read(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")

    assert (True, False) == (head.complete, head.keeps)


SMUGGLED = [
    b"Content-Length: 5\r\nContent-Length: 6",
    b"Content-Length: 5, 5",
    b"Content-Length: +5",
    b"Content-Length: 0x5",
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Content-Length : 5",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding:\x0bchunked",
    b"Transfer-Encoding : chunked",
    b"X: 1\nTransfer-Encoding: chunked",
    b"X: 1\rTransfer-Encoding: chunked",
    b"X\r\n folded: 1",
    b"X: 1\r\n Transfer-Encoding: chunked",
    b"X\x00: 1",
    b"X: 1\x00",
]


@pytest.mark.parametrize("lines", SMUGGLED)
def test_a_head_that_two_readers_could_understand_in_two_ways_is_refused(lines: bytes) -> None:
    """Request smuggling: a proxy in front and this server must agree where each request ends."""
    problem = refused(b"POST / HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n\r\n")

    assert problem.status in {400, 501}


def test_chunks_in_http_1_0_are_refused() -> None:
    assert 400 == refused(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").status


def test_an_offer_of_another_protocol_is_not_passed_on() -> None:
    head, _ = read(
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAMA\r\nContent-Length: 3\r\n\r\n"
    )

    assert (3, True) == (head.length, head.keeps)
    assert [b"host", b"content-length"] == [name for name, _ in head.headers]


def test_a_whole_address_counts_instead_of_the_host_header() -> None:
    """RFC 9112, section 3.2.2; a check of the host must see the one that is addressed."""
    scope = located(read(b"GET http://[::1]:8080/a%20b?c=d HTTP/1.1\r\nHost: elsewhere\r\n\r\n")[0])

    assert ("/a b", b"c=d") == (scope["path"], scope["query_string"])
    assert [(b"host", b"[::1]:8080")] == scope["headers"]


def test_a_known_head_is_found_by_all_of_its_bytes_and_no_others() -> None:
    heads = Heads()
    arrived = memoryview(HEAD + b"\r\n\r\nbody")
    head, _ = read(bytes(arrived))
    heads.keep(arrived, head)

    assert heads.find(arrived) is head
    assert heads.find(memoryview(HEAD)) is head
    for at in range(len(HEAD)):
        changed = bytearray(arrived)
        changed[at] ^= 1
        assert heads.find(memoryview(changed)) is None
        assert heads.find(memoryview(HEAD[:at])) is None


def test_what_an_application_does_to_its_headers_is_not_seen_by_the_next_request() -> None:
    head, _ = read(HEAD)

    located(head)["headers"].clear()

    assert 4 == len(located(head)["headers"])


def test_heads_that_name_their_request_and_large_ones_are_not_kept() -> None:
    heads = Heads()
    for line in (b"X-Request-ID: 7", b"X-Long: " + b"a" * 2048):
        data = HEAD[:-2] + line + b"\r\n\r\n"
        heads.keep(memoryview(data), read(data)[0])

        assert heads.find(memoryview(data)) is None


def test_only_so_many_heads_are_kept() -> None:
    heads = Heads()
    sent = [HEAD.replace(b"top_n=3", b"top_n=%d" % number) for number in range(300)]
    for data in sent:
        heads.keep(memoryview(data), read(data)[0])

    found = [heads.find(memoryview(data)) is not None for data in sent]
    assert found == [False] * 256 + [True] * 44
