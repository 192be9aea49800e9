"""Plant defects into the sources, one at a time, and see whether a test notices.

    python -m tests.mutation [--count 200] [--seed N] [--coverage .coverage] [--jobs 2] [--out FILE]

The defects are drawn from all of core, service, training and the C. Each is planted in a copy of the project, and the
tests run until one fails: first the test file of the same name, then the tests that execute the line, `MOST` at most. A
test that lasts too long has failed: the defect is an endless loop. Which tests execute a line is measured first, or taken
from ``--coverage``, the data of ``pytest --cov --cov-context=test``.

No maintained tool fits: those for Python know no C, and none starts from a sample. The exit code is 1 if nine tenths or
fewer were noticed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from coverage import CoverageData

from localrank import __version__
from tests.core.native.building import build_script
from tests.mutation.mutants import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "service", "training")
NATIVE = Path("core/localrank/native")
#: More than this share must be noticed.
WANTED = 0.9
#: Tests of a line that are run. A defect that all of these miss counts as unnoticed, though a later test might notice it.
MOST = 300
#: Seconds after which a test is taken to run forever, and after which all of them together are given up.
PATIENCE, LONGEST = 180, 7200

#: Tests of the C, which coverage does not see.
OF_C = {
    "documents.c": [
        "tests/core/native/test_kernels.py",
        "tests/core/test_contract.py",
        "tests/core/test_signature.py",
    ],
    "eigen.c": ["tests/core/native/test_kernels.py", "tests/core/test_signature.py"],
    "nearest.c": ["tests/core/native/test_nearest.py", "tests/core/test_routing.py"],
    "tables.c": ["tests/core/native/test_nearest.py", "tests/core/test_routing.py", "tests/core/test_lsh.py"],
    "walk.c": ["tests/core/scorers/test_trees.py"],
    "lanes.h": ["tests/core/native", "tests/core/test_signature.py", "tests/core/test_contract.py"],
}
OF_OTHER_C = ["tests/core/native", "tests/service/wire", "tests/hostile"]
LIMITS = ["-o", f"faulthandler_timeout={PATIENCE}", "-o", "faulthandler_exit_on_timeout=true"]
SANITIZERS = "tests/hostile/test_sanitizers.py"
#: What runs for a line that no test executes in its own process: servers and commands do.
ELSEWHERE = ["tests/end_to_end", "tests/service", "tests/training/commands"]
#: What runs last for lines of these folders: other processes execute them too, which coverage does not see.
ALSO = {
    "process": ["tests/end_to_end/test_serve.py", "tests/faults/test_workers.py"],
    "http": ["tests/end_to_end/test_raw_http.py", "tests/end_to_end/test_hostile_clients.py"],
}


class Coverage:
    """Which tests execute a line."""

    def __init__(self, data: Path) -> None:
        self._data = CoverageData(str(data))
        self._data.read()
        self._root = next(
            (path.removesuffix("core/localrank/__init__.py") for path in self._data.measured_files()
             if path.endswith("core/localrank/__init__.py")),
            f"{ROOT}/",
        )  # fmt: skip

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that execute the line: those of its room first, those with servers last."""
        lines = self._data.contexts_by_lineno(self._root + mutant.path)
        contexts = {one.rsplit("|", 1)[0] for one in lines.get(mutant.line, []) if one}
        if not contexts:
            # Executed when the module is imported, or in another process: any test of the file may notice.
            contexts = {one.rsplit("|", 1)[0] for found in lines.values() for one in found if one}
        room = Path(mutant.path).parent.name
        return sorted(contexts, key=lambda one: ("end_to_end" in one, f"/{room}/" not in one, one))[:MOST]


def named_after(place: Path, path: str) -> list[str]:
    """Return the test file of a source, or those of its folder's name if there is none."""
    stem, room = Path(path).stem.strip("_"), Path(path).parent.name
    for name in (f"test_{stem}.py", f"test_{stem}s.py", f"test_{room}.py"):
        if found := sorted((place / "tests").rglob(name)):
            return [str(one.relative_to(place)) for one in found]
    return []


def measured(place: Path, out: Path) -> Path:
    """Run all tests once in the copy and return which lines each executes."""
    data = out / "coverage"
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider"),
        *("--cov=localrank", "--cov=localrank_service", "--cov=localrank_training"),
        *("--cov-context=test", "--cov-report=", "tests"),
    ]
    environment = surroundings(place) | {"COVERAGE_FILE": str(data.resolve())}
    # What fails under measurement, such as a limit of time, tells as well which lines it executes.
    subprocess.run(command, cwd=place, env=environment, check=False)
    return data


def surroundings(place: Path) -> dict[str, str]:
    """Return the environment in which Python takes the packages from the copy."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(place / package) for package in PACKAGES),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CI": "true",
    }


def copied(place: Path) -> Path:
    """Return a copy of what is under version control, with a library of its own."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place / name)
    build(place)
    return place


def build(place: Path) -> bool:
    script = build_script()
    try:
        script.compile_native(place / NATIVE, place / NATIVE / script.LIBRARY, __version__)
    except script.CompilerError:
        return False
    return True


def notices(place: Path, tests: list[str]) -> bool:
    """Run the tests in the copy until one fails; return whether one did."""
    listed = place / ".tests"
    listed.write_text("\n".join(tests))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:cov",
        f"@{listed}",
    ]
    process = subprocess.Popen(
        command,
        cwd=place,
        env=surroundings(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return False
    # 4: a fixture's module could not be imported.
    if process.returncode == 4 and b"while loading conftest" in output:
        return True
    if process.returncode not in {0, 1, 2, -6, -8, -11}:
        raise RuntimeError(f"pytest ended with {process.returncode}: {output.decode()[-2000:]}")
    return process.returncode != 0


def judge(place: Path, mutant: Mutant, coverage: Coverage) -> str:
    """Plant the defect, run the tests, remove it; return ``killed``, ``survived`` or ``invalid``."""
    source = place / mutant.path
    text = source.read_text()
    planted = mutant.planted(text)
    in_c = source.suffix != ".py"
    try:
        if not in_c:
            compile(planted, mutant.path, "exec")
    except SyntaxError:
        return "invalid"
    source.write_text(planted)
    try:
        if in_c:
            if not build(place):
                return "invalid"
            stages = [OF_C.get(source.name, OF_OTHER_C), [SANITIZERS]]
        else:
            stages = [named_after(place, mutant.path), coverage.tests_of(mutant) or ELSEWHERE]
            stages.append(ALSO.get(source.parent.name, []))
        return "killed" if any(notices(place, stage) for stage in stages if stage) else "survived"
    finally:
        source.write_text(text)
        if in_c:
            build(place)


def drawn(seed: int) -> list[Mutant]:
    """Return all defects in an order drawn by the seed."""
    files = sorted(
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".c", ".h"}
    )
    mutants = [mutant for path in files for mutant in mutants_of(ROOT, path)]
    random.Random(seed).shuffle(mutants)
    return mutants


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="which defects; by default new ones"
    )
    parser.add_argument("--only", default="", help="defects whose path or line matches this expression")
    parser.add_argument("--coverage", type=Path, help="measured before")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "mutation")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    waiting = iter(one for one in drawn(options.seed) if re.search(options.only, str(one)))
    results: list[dict[str, Any]] = []
    places: SimpleQueue[Path] = SimpleQueue()

    with (
        tempfile.TemporaryDirectory(prefix="localrank-mutation-") as scratch,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        for number in range(options.jobs):
            places.put(copied(Path(scratch, str(number))))
        coverage = Coverage(options.coverage or measured(Path(scratch, "0"), options.out))

        def attempt(mutant: Mutant) -> tuple[Mutant, str, float]:
            place, begun = places.get(), time.monotonic()
            try:
                return mutant, judge(place, mutant, coverage), time.monotonic() - begun
            finally:
                places.put(place)

        def next_ones(count: int) -> list[Mutant]:
            return [one for _, one in zip(range(count), waiting, strict=False)]

        while len(results) < options.count and (batch := next_ones(options.count - len(results))):
            for mutant, verdict, seconds in pool.map(attempt, batch):
                print(f"{verdict:8} {seconds:6.1f} s  {mutant}", flush=True)
                if verdict != "invalid":
                    results.append({"mutant": str(mutant), "verdict": verdict})

    survivors = [one["mutant"] for one in results if one["verdict"] == "survived"]
    share = 1 - len(survivors) / max(1, len(results))
    (options.out / "mutants.json").write_text(
        json.dumps({"seed": options.seed, "results": results}, indent=1)
    )
    print(f"\nseed {options.seed}: {len(results)} mutants, {share:.1%} noticed; not noticed:")
    print(*survivors, sep="\n")
    return int(share <= WANTED)


if __name__ == "__main__":
    sys.exit(main())
