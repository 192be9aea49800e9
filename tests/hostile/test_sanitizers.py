"""The C under sanitizers: no byte outside an array, no operation that C leaves undefined, whatever the tests make of it.

The library is built with the address and the undefined-behaviour sanitizer, and tests of core, of number reading and of
hostile artifacts run on it in a process of their own, which ends at the first mistake. `test_damaged_json.py` does the
same for damaged texts, without Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.native.building import build_script, built

ROOT = Path(__file__).parents[2]
OPTIONS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DLOCALRANK_ONE_TARGET")

#: What reaches every kernel in a few minutes. Large clouds take long under sanitizers and use the same kernels. Tests of how
#: the library is built use libraries of their own, which have no sanitizer.
SHORT = [
    "tests/core/native",
    "tests/core/scorers/test_trees.py",
    "tests/core/test_contract.py",
    "tests/core/test_lsh.py",
    "tests/core/test_routing.py",
    "tests/core/test_signature.py",
    "tests/hostile/test_fuzzed_artifacts.py",
    "tests/hostile/test_hostile_artifacts.py",
    "tests/service/wire/test_numbers.py",
    "tests/service/wire/test_text.py",
    "--deselect=tests/core/native/test_library.py",
    "--deselect=tests/core/native/test_nearest.py::test_narrower_processors_find_the_same_bits",
    "--deselect=tests/core/test_signature.py::test_a_krylov_space_finds_the_directions_of_a_large_cloud",
]


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("sanitized"), *OPTIONS)


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the sanitizer's runtime, which has to be loaded before anything else."""
    asked = [*build_script().compiler(), "-print-file-name=libasan.so"]
    runtime = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    environment = {**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )


def test_a_mistake_ends_the_process(sanitized: Path) -> None:
    probe = (
        "import sys; from pathlib import Path; import numpy as np; from localrank.native.library import load\n"
        "rows = np.zeros((2, 3), np.float32); one = np.zeros(3, np.float32)\n"
        "at = [array.ctypes.data for array in (rows, one, one)]\n"
        "load(Path(sys.argv[1])).localrank_out_of_range(at[0], int(sys.argv[2]), 3, at[1], at[2])\n"
    )

    good, bad = (run("-c", probe, sanitized, n_docs) for n_docs in ("2", "9"))

    assert 0 == good.returncode, good.stderr
    assert "AddressSanitizer: heap-buffer-overflow" in bad.stderr
    assert "localrank_out_of_range" in bad.stderr


def check(sanitized: Path, *options: str) -> None:
    done = run(
        *(
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "--capture=sys",
            "-k",
            "not numpy",
        ),
        *("--library", sanitized),
        *options,
    )

    assert 0 == done.returncode, (done.stdout + done.stderr)[-10_000:]
    assert " passed" in done.stdout


@pytest.mark.soak
def test_the_tests_of_every_kernel_make_no_sanitizer_speak(sanitized: Path) -> None:
    check(sanitized, "--hypothesis-profile=few", *SHORT)


@pytest.mark.soak
def test_all_tests_of_core_and_hostile_files_make_no_sanitizer_speak(sanitized: Path) -> None:
    check(
        sanitized,
        *("-m", "soak or not soak", "tests/core", "tests/hostile", "tests/service/wire"),
        f"--deselect=tests/hostile/{Path(__file__).name}",
    )
