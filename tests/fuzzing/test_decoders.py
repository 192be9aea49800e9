"""Every decoder, given damaged examples: what comes out is an answer or a refusal by name, and nothing grows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing.targets import TARGETS, check, examples

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

#: Short bytes that mean something to one of the formats.
PARTS = (
    *(
        b"",
        b"\0",
        b"\x80",
        b"\xff",
        b"\xed\xa0\x80",
        b"\n",
        b"\r\n",
        b"\\",
        b'"',
        b",",
        b":",
        b"[",
        b"]",
        b"{",
        b"}",
    ),
    *(
        b"\\u0000",
        b"\\ud800",
        b"1e999",
        b"-0",
        b"9" * 30,
        b"0.",
        b"null",
        b"true",
        b"nan",
        b"qid:",
        b"#",
        b"\1\0\0\0",
    ),
)

#: How many inputs each target gets in `make fuzz`; the slow ones get fewer.
MANY = 10_000
SLOW = {"array of a version": 1000, "manifest": 3000, "parquet": 3000}

#: What once came out as another error than a refusal by name.
FOUND = [
    ("csv", b"qi\xe0,label,f1,f2\na,1,0.5,\nb,0,1,2\n"),
    ("csv", b"qid,label,f9,f2\na,1,0.\xd25,\nb,0,1,2\n"),
]

positions = st.integers(0, 2**16)
changes = st.one_of(
    st.tuples(st.just("put"), positions, st.binary(max_size=4) | st.sampled_from(PARTS), st.integers(0, 4)),
    st.tuples(st.just("flip"), positions, st.just(b""), st.integers(0, 7)),
    st.tuples(st.just("drop"), positions, st.just(b""), st.integers(1, 40)),
    st.tuples(st.just("repeat"), positions, st.just(b""), st.integers(1, 40)),
    st.tuples(st.just("cut"), positions, st.just(b""), st.just(0)),
)


def damaged(data: bytes, done: list[tuple[str, int, bytes, int]]) -> bytes:
    found = bytearray(data)
    for kind, position, part, count in done:
        at = position % (len(found) + 1)
        if kind == "put":
            found[at : at + count] = part
        elif kind == "flip" and at < len(found):
            found[at] ^= 1 << count
        elif kind == "drop":
            del found[at : at + count]
        elif kind == "repeat":
            found[at:at] = found[at : at + count]
        elif kind == "cut":
            del found[at:]
    return bytes(found)


def fuzz(name: str, count: int) -> Callable[[], None]:
    @settings(
        max_examples=count,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(
        data=st.builds(damaged, st.sampled_from(examples(name)), st.lists(changes, min_size=1, max_size=6))
        | st.binary(max_size=200)
    )
    def run(data: bytes) -> None:
        check(name, data)

    return run


@pytest.mark.parametrize("name", TARGETS)
def test_examples_are_answered(name: str) -> None:
    for example in examples(name):
        check(name, example)


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found_is_refused_by_name(name: str, data: bytes) -> None:
    check(name, data)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_examples_are_answered_or_refused_by_name(name: str) -> None:
    fuzz(name, 25 if name in SLOW else 60)()


@pytest.mark.soak
@pytest.mark.parametrize("name", TARGETS)
def test_a_great_many_damaged_examples(name: str) -> None:
    before = resident()

    fuzz(name, SLOW.get(name, MANY))()

    assert resident() - before < 200 * 2**20


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("runs", [2000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_bytes_that_reach_new_code_are_answered_or_refused_by_name(runs: int, tmp_path: Path) -> None:
    """Coverage-guided: libFuzzer keeps the bytes that led further, and goes on from them."""
    pytest.importorskip("atheris", reason="atheris has no build for this platform")
    limits = (
        "-timeout=10",
        "-rss_limit_mb=1024",
        "-max_len=4096",
        f"-artifact_prefix={tmp_path}/",
        "-seed=1",
    )
    command = [
        sys.executable,
        "-m",
        "tests.fuzzing.coverage",
        str(tmp_path / "corpus"),
        "--",
        f"-runs={runs}",
        *limits,
    ]
    begun = time.monotonic()

    # A process begins with the highest memory of the one that it was made from, so a small one lies in between.
    command = ["sh", "-c", '"$@"; exit $?', "sh", *command]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)

    assert 0 == done.returncode, done.stderr[-5000:]
    found = re.findall(r"cov: (\d+)", done.stderr)
    assert int(found[-1]) > int(found[0])
    assert f"#{runs}\tDONE" in done.stderr, (time.monotonic() - begun, done.stderr[-2000:])
