"""Which tests belong to which command, and long runs that go on where they stopped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_part_of_nightly_is_a_target_and_its_tests_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    parts = re.search(r"^NIGHTLY := (.*)$", makefile, re.MULTILINE)
    assert parts is not None

    for part in parts[1].split():
        assert re.search(rf"^{part}:|^[a-z -]*\b{part}\b[a-z -]*:", makefile, re.MULTILINE)
    for path in re.findall(r"\btests/[\w/.]+", makefile):
        assert (ROOT / path).exists()


@pytest.mark.slow
def test_a_run_with_a_journal_leaves_out_what_has_passed(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        "import os\ndef test_one(): pass\ndef test_two(): assert 'MENDED' in os.environ\n"
    )

    def run(**more: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q"]
        done = subprocess.run(
            [*command, "--journal", str(tmp_path / "night" / "passed"), str(tmp_path)],
            env={**os.environ, **more},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    first, second, third = run(), run(MENDED="yes"), run()

    assert "1 failed, 1 passed" in first[1]
    assert "1 passed, 1 deselected" in second[1]
    assert (0, "2 deselected") == (third[0], third[1][: third[1].index(" in ")].split("\n")[-1])
