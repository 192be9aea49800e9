"""Compressed bodies are read in steps whose number is bounded by their size."""

from __future__ import annotations

import asyncio
import gzip
import sys
import threading
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank_service.http import body as module
from localrank_service.http.problems import Problem

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 2**20

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda content: gzip.compress(content, 1, mtime=0),
    "deflate": zlib.compress,
    "zstd": zstd.compress,
}


def decompressed(body: bytes, encoding: str, limit: int = LIMIT) -> bytes:
    return asyncio.run(module._decompressed(body, encoding, limit))


def refused(body: bytes, encoding: str, limit: int = LIMIT) -> Problem:
    with pytest.raises(Problem) as problem:
        decompressed(body, encoding, limit)
    return problem.value


@pytest.mark.parametrize("encoding", COMPRESS)
@pytest.mark.parametrize("size", [0, 1, 2**14, 2**16, 2**16 + 1, LIMIT - 1, LIMIT])
def test_what_was_compressed_comes_out(encoding: str, size: int) -> None:
    content = bytes(position * position >> 7 & 0xFF for position in range(size))

    assert content == decompressed(COMPRESS[encoding](content), encoding)
    assert bytes(size) == decompressed(COMPRESS[encoding](bytes(size)), encoding)


@pytest.mark.parametrize("encoding", COMPRESS)
def test_a_byte_more_than_allowed_is_refused(encoding: str) -> None:
    assert 413 == refused(COMPRESS[encoding](bytes(LIMIT + 1)), encoding).status


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_members_are_joined_up_to_their_limit(encoding: str) -> None:
    parts = [bytes([part % 251]) * (part % 3) for part in range(module._MOST_MEMBERS)]
    body = b"".join(map(COMPRESS[encoding], parts))

    assert b"".join(parts) == decompressed(body, encoding)
    assert 413 == refused(body + COMPRESS[encoding](b""), encoding).status


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_empty_members_are_not_read_beyond_their_limit(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once copied all that came after it: two megabytes of them took four seconds."""
    begun = 0
    start = module.ENCODINGS[encoding]

    def counted() -> module._Inflater:
        nonlocal begun
        begun += 1
        return start()

    monkeypatch.setitem(module.ENCODINGS, encoding, counted)
    body = COMPRESS[encoding](b"") * 20_000

    assert 413 == refused(body, encoding).status
    assert module._MOST_MEMBERS == begun


@pytest.mark.parametrize("encoding", COMPRESS)
@pytest.mark.parametrize(("size", "aside"), [(2**16, False), (2**20, True)])
def test_only_what_takes_many_steps_leaves_the_event_loop(
    encoding: str, size: int, monkeypatch: pytest.MonkeyPatch, *, aside: bool
) -> None:
    threads: set[threading.Thread] = set()
    pieces = module._pieces

    def seen(body: bytes, encoding: str) -> object:
        for piece in pieces(body, encoding):
            threads.add(threading.current_thread())
            yield piece

    monkeypatch.setattr(module, "_pieces", seen)

    decompressed(COMPRESS[encoding](bytes(size)), encoding)

    assert aside == (threads != {threading.current_thread()})


@pytest.mark.parametrize("encoding", COMPRESS)
@pytest.mark.parametrize("size", [100, 300_000])
def test_a_body_that_is_cut_is_refused_wherever_it_is_cut(encoding: str, size: int) -> None:
    whole = COMPRESS[encoding](bytes(position * position >> 5 & 0xFF for position in range(size)))

    for end in {0, 1, len(whole) // 2, len(whole) - 1}:
        problem = refused(whole[:end], encoding)
        assert (400, "") == (problem.status, problem.pointer)


def test_what_comes_after_the_end_of_deflate_is_counted() -> None:
    assert "3 bytes after its end" in refused(zlib.compress(b"x") + b"abc", "deflate").detail
    assert "40000 bytes after its end" in refused(zlib.compress(b"x") + bytes(40_000), "deflate").detail


@given(
    parts=st.lists(st.binary(max_size=50) | st.integers(0, 200_000).map(bytes), min_size=1, max_size=4),
    encoding=st.sampled_from(["gzip", "zstd"]),
)
def test_any_members_are_joined(parts: list[bytes], encoding: str) -> None:
    content = b"".join(parts)

    assert content == decompressed(b"".join(map(COMPRESS[encoding], parts)), encoding, len(content))
