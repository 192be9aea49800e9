"""The head of an answer; whole exchanges over real sockets are in tests/end_to_end."""

from __future__ import annotations

import pytest

from localrank_service.http.exchange import head_of


def test_a_head_is_a_line_and_its_headers() -> None:
    head = head_of(404, [(b"content-length", b"2"), (b"x-request-id", b"a b")])

    assert b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nx-request-id: a b\r\n\r\n" == head


@pytest.mark.parametrize(
    "header",
    [
        (b"x-request-id", b"a\r\nset-cookie: b=c"),
        (b"x-request-id", b"a\nset-cookie: b=c"),
        (b"x-request-id", b"a\rb"),
        (b"x\r\nset-cookie", b"b=c"),
        (b"x-request-id", b"a\0b"),
    ],
)
def test_a_header_cannot_bring_another(header: tuple[bytes, bytes]) -> None:
    """Header injection: what a caller sent may come back in an answer's header."""
    with pytest.raises(ValueError, match="line break"):
        head_of(200, [(b"content-length", b"2"), header])
