"""Bodies in chunks, against httptools, which reads them too."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank_service.http.messages import FREE_CHUNKS, LEAST_CHUNK, Chunks
from localrank_service.http.problems import Problem


def read(data: bytes, step: int) -> tuple[bytes, int, bool]:
    """Return the content, how many bytes the body took, and whether it is complete."""
    chunks, content, at = Chunks(), b"", 0
    while at < len(data) and not chunks.complete:
        part, used = chunks.feed(memoryview(data)[at : at + step])
        content += part
        at += used
    return content, at, chunks.complete


class Reference:
    """What httptools makes of the same bytes."""

    def __init__(self, data: bytes) -> None:
        self.content = b""
        self.complete = self.refused = False
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            parser.feed_data(data)
        except httptools.HttpParserError:
            self.refused = not self.complete

    def on_body(self, part: bytes) -> None:
        if not self.complete:
            self.content += part

    def on_message_complete(self) -> None:
        self.complete = True


def chunked(parts: list[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    lines = [b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts if part]
    return b"".join(lines) + b"0\r\n" + trailer + b"\r\n"


@given(
    st.lists(st.binary(max_size=40), max_size=6),
    st.sampled_from([b"", b";a=b", b';name="value"']),
    st.sampled_from([b"", b"Expires: never\r\n", b"A: 1\r\nB:\r\n"]),
    st.integers(1, 50),
)
def test_what_was_cut_into_chunks_is_read_whole(
    parts: list[bytes], extension: bytes, trailer: bytes, step: int
) -> None:
    data = chunked(parts, extension, trailer)

    content, used, complete = read(data + b"GET / HTTP/1.1", step)

    assert (b"".join(parts), len(data), True) == (content, used, complete)
    reference = Reference(data)
    assert (content, True) == (reference.content, reference.complete)


@given(
    st.lists(st.binary(max_size=20), min_size=1, max_size=4),
    st.data(),
    st.sampled_from(b"\r\n;0aF: \x00\xff"),
)
def test_what_is_damaged_is_read_as_httptools_reads_it_or_refused(
    parts: list[bytes], draw: st.DataObject, byte: int
) -> None:
    data = bytearray(chunked(parts))
    data[draw.draw(st.integers(0, len(data) - 1))] = byte
    reference = Reference(bytes(data))

    try:
        content, _, complete = read(bytes(data), 7)
    except Problem:
        return
    # httptools refuses some lines before they end, which is not complete either.
    assert (reference.complete, False) == (complete, complete and reference.refused)
    assert content == reference.content or reference.refused


@pytest.mark.parametrize(
    "data",
    [
        b"5\nhello\r\n",
        b"5\r\nhelloX\r\n",
        b"5\r\nhello\rX",
        b"5 5\r\nhello\r\n",
        b"-5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"\r\n5\r\nhello\r\n",
        b"5;" + b"x" * 300 + b"\r\n",
        b"FFFFFFFFFFFFFFFFFF\r\n",
        b"0\r\nno colon\r\n\r\n",
        b"0\r\n" + b"A: " + b"x" * 9000 + b"\r\n\r\n",
        b"0\r\n" + b"A: 1\r\n" * 2000 + b"\r\n",
        b"0\r\nA: 1\nB: 2\r\n\r\n",
    ],
)
@pytest.mark.parametrize("step", [1, 1 << 16])
def test_what_two_readers_could_understand_in_two_ways_is_refused(data: bytes, step: int) -> None:
    with pytest.raises(Problem) as caught:
        read(data, step)

    assert 400 == caught.value.status


def test_a_body_may_have_some_tiny_chunks_and_more_if_they_are_larger_on_average() -> None:
    # Their content stands for sixteen further chunks; the last chunk, which is empty, counts too.
    tiny = [b"x"] * FREE_CHUNKS
    allowed = len(tiny) + len(tiny) // LEAST_CHUNK - 1
    few, many = chunked([b"x"] * allowed), chunked([b"x"] * (allowed + 1))
    large = chunked([*tiny, *[b"x" * LEAST_CHUNK] * 5000])

    with pytest.raises(Problem) as caught:
        read(many, 1 << 16)

    assert 413 == caught.value.status
    assert read(few, 1 << 16)[2]
    assert read(large, 1 << 16)[2]


def test_one_step_reads_a_few_hundred_lines() -> None:
    """Between two steps the event loop may do something else."""
    chunks, data = Chunks(), memoryview(chunked([b"x"] * 2000, trailer=b"A:\r\n" * 2000))

    _, used = chunks.feed(data)

    assert 6 * 200 < used < 6 * 300
    steps = 1
    while used < len(data):
        used += chunks.feed(data[used:])[1]
        steps += 1
    assert chunks.complete
    assert 15 <= steps <= 25
