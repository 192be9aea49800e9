"""Tests run in forks of a warm process see the sources as they stand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENDLESS = "def test_it():\n    while True:\n        pass\n"


@pytest.mark.slow
def test_every_run_reads_the_test_anew_and_an_endless_one_is_killed(tmp_path: Path) -> None:
    test, output = tmp_path / "test_it.py", tmp_path / "output"
    tests = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(test)]
    seen = []
    with subprocess.Popen(
        [sys.executable, "-m", "tests.mutation.warm"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as warm:
        assert warm.stdin is not None
        assert warm.stdout is not None
        for text, seconds in (
            ("def test_it(): assert True\n", 60),
            ("def test_it(): assert not 7\n", 60),
            (ENDLESS, 3),
        ):
            test.write_text(text)
            asked = {"tests": tests, "output": str(output), "seconds": seconds}
            print(json.dumps(asked), file=warm.stdin, flush=True)
            seen.append((int(warm.stdout.readline()), "test_it.py::test_it" in output.read_text()))

    assert [(0, False), (1, True), (-9, False)] == seen
    assert 0 == warm.returncode
