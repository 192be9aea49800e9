"""Plant defects into the sources, one at a time, and see whether a test notices.

    python -m tests.mutation [--count 200] [--seed N] [--jobs 2] [--out FOLDER]
    python -m tests.mutation --only core/localrank/routing --tests tests/core/test_routing.py --count 50

The defects are drawn from all of core, service, training and the C. Each is planted in a copy of the project, and the
tests run until one fails: first the test file of the same name, then the tests that execute the line. What fails is run again
without the defect and counts if it passes then. Tests that last too long have failed: the defect is an endless loop.

Which tests execute a line is measured once for each state of the sources and kept in ``--out``, as is every verdict: the
same seed goes on where it stopped. With ``--tests`` these judge alone and nothing is measured or kept: so one sees what the
tests of one module miss.

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
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from localrank import __version__
from tests.core.native.building import build_script
from tests.mutation.executed import PACKAGES, SECONDS, Executed, failures, measure
from tests.mutation.mutants import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
NATIVE = Path("core/localrank/native")
#: More than this share must be noticed.
WANTED = 0.9
#: Seconds after which tests are taken to run forever.
LONGEST = 900.0
#: The same for the tests of one module.
LONGEST_OF_ONE = 120.0

#: Tests of the C, which coverage does not see.
OF_C = {
    "documents.c": [
        "tests/core/native/test_documents.py",
        "tests/core/native/test_kernels.py",
        "tests/core/test_contract.py",
        "tests/core/test_signature.py",
    ],
    "eigen.c": [
        "tests/core/native/test_eigen.py",
        "tests/core/native/test_kernels.py",
        "tests/core/test_signature.py",
    ],
    "nearest.c": [
        "tests/core/native/test_lookup.py",
        "tests/core/native/test_nearest.py",
        "tests/core/test_routing.py",
    ],
    "tables.c": [
        "tests/core/native/test_lookup.py",
        "tests/core/native/test_nearest.py",
        "tests/core/test_routing.py",
        "tests/core/test_lsh.py",
    ],
    "walk.c": [
        "tests/core/native/test_walk.py",
        "tests/core/scorers/test_trees.py",
        "tests/core/test_contributions.py",
    ],
    "leaves.c": ["tests/core/native/test_leaves.py", "tests/core/scorers/test_trees.py"],
    "leaves.h": ["tests/core/native/test_leaves.py", "tests/core/scorers/test_trees.py"],
    "json.c": ["tests/core/native/test_lift.py", "tests/service/wire/test_numbers.py"],
    "scan.c": ["tests/core/native/test_scan.py", "tests/service/wire/test_text.py"],
    "percentiles.c": ["tests/core/native/test_documents.py", "tests/core/native/test_kernels.py"],
    "lanes.h": ["tests/core/native", "tests/core/test_signature.py", "tests/core/test_contract.py"],
}
OF_OTHER_C = ["tests/core/native", "tests/service/wire", "tests/hostile"]
SANITIZERS = "tests/hostile/test_sanitizers.py::test_the_tests_of_every_kernel_make_no_sanitizer_speak"
#: What runs for a line that no test executes in its own process: servers and commands do.
ELSEWHERE = ["tests/end_to_end", "tests/service", "tests/training/cli"]
#: What runs last for lines of these folders: other processes execute them too, or they run when a module is imported, which
#: coverage does not see.
ALSO = {
    "cli": ["tests/training/cli/test_command_line.py", "tests/architecture/test_docs.py"],
    "commands": ["tests/training/cli/test_command_line.py", "tests/architecture/test_docs.py"],
    "apis": ["tests/service/apis", "tests/service/test_refusals.py"],
    "process": [
        "tests/architecture/test_docs.py",
        "tests/end_to_end/test_serve.py",
        "tests/faults/test_workers.py",
    ],
    "http": ["tests/end_to_end/test_raw_http.py", "tests/end_to_end/test_hostile_clients.py"],
}
#: Wheels are built from the sources anew and depend on the package index.
NEVER = ["--deselect=tests/end_to_end/test_wheel.py", "--deselect=tests/mutation"]


def named_after(place: Path, path: str) -> list[str]:
    """Return the test file of a source, or those of its folder's name if there is none."""
    stem, room = Path(path).stem.strip("_"), Path(path).parent.name
    for name in (f"test_{stem}.py", f"test_{stem}s.py", f"test_{room}.py"):
        if found := sorted((place / "tests").rglob(name)):
            return [str(one.relative_to(place)) for one in found]
    return []


def slow_beside(place: Path, path: str) -> list[str]:
    """Return how to run the slow tests of the folder that belongs to a source's; coverage leaves them out."""
    package, _, *rooms, _ = Path(path).parts
    folder = Path("tests", package, *rooms)
    return ["-m", "slow and not soak", str(folder)] if rooms and (place / folder).is_dir() else []


def surroundings(place: Path) -> dict[str, str]:
    """Return the environment in which Python takes the packages from the copy."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(place / package) for package in PACKAGES),
        "CI": "true",
    }


def copied(place: Path) -> Path:
    """Return a copy of what is under version control, with a library of its own."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place / name)
    # Each run reads the bytecode of all that it imports. It is compared with the source by content: one that changes twice in a
    # second may have the same size and time.
    compileall = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
    subprocess.run([*compileall, *PACKAGES], cwd=place, check=True)
    build(place)
    return place


def build(place: Path) -> bool:
    script = build_script()
    try:
        script.compile_native(place / NATIVE, place / NATIVE / script.LIBRARY, __version__)
    except script.CompilerError:
        return False
    return True


@dataclass(frozen=True)
class Verdict:
    """What became of one defect: ``killed``, ``survived`` or ``invalid``, and which test noticed it."""

    verdict: str
    by: str = ""


class Place:
    """A copy of the project in which defects are planted and tests run."""

    def __init__(self, folder: Path, seconds: float = LONGEST) -> None:
        self.folder = copied(folder)
        self._seconds = seconds
        self._output = folder / ".output"
        self._warm = subprocess.Popen(
            [sys.executable, "-m", "tests.mutation.warm"],
            cwd=folder,
            env=surroundings(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        assert self._warm.stdin is not None
        self._warm.stdin.close()
        self._warm.wait()

    def failing(self, tests: list[str], without: list[str]) -> str:
        """Run the tests until one fails; return which did, or an empty text. Those without a name are those of the import."""
        listed = self.folder / ".tests"
        listed.write_text("\n".join(tests))
        left_out = [f"--deselect={test}" for test in without]
        code = self._run([f"@{listed}", *NEVER, *left_out])
        output = self._output.read_text(errors="replace")
        # 5: nothing was left to run. 4: a fixture's module could not be imported.
        if code in {0, 5}:
            return ""
        named = failures(output)
        if code in {1, 2} and named:
            return named[0]
        endless = code == 1 and "Timeout (" in output
        if endless or code < 0 or (code == 4 and "while loading conftest" in output):
            return f"ended with {code}"
        raise RuntimeError(f"pytest ended with {code}: {output[-2000:]}")

    def _run(self, tests: list[str]) -> int:
        assert self._warm.stdin is not None
        assert self._warm.stdout is not None
        asked = {"tests": tests, "output": str(self._output), "seconds": self._seconds}
        print(json.dumps(asked), file=self._warm.stdin, flush=True)
        return int(self._warm.stdout.readline())

    def judge(self, mutant: Mutant, executed: Executed | None, tests: list[str]) -> Verdict:
        """Plant the defect, run these tests, or those that may notice it if none are named, and remove it."""
        source = self.folder / mutant.path
        text = source.read_text()
        planted = mutant.planted(text)
        in_c = source.suffix != ".py"
        if not in_c:
            try:
                compile(planted, mutant.path, "exec")
            except SyntaxError:
                return Verdict("invalid")
        stages = [tests] if executed is None else self._stages(mutant, executed)
        for stage in filter(None, stages):
            while True:
                source.write_text(planted)
                try:
                    if in_c and not build(self.folder):
                        return Verdict("invalid")
                    noticed = self.failing(stage, [] if executed is None else executed.failed)
                finally:
                    source.write_text(text)
                    if in_c:
                        build(self.folder)
                if not noticed:
                    break
                # Import errors and crashes have no test to run again.
                if "::" not in noticed or not self.failing([noticed], []):
                    return Verdict("killed", noticed)
                if executed is None:
                    raise RuntimeError(f"{noticed} fails without a defect, too")
                executed.without(noticed)
        return Verdict("survived")

    def _stages(self, mutant: Mutant, executed: Executed) -> list[list[str]]:
        """Return the lists of tests that may notice the defect, those first that notice most."""
        source = Path(mutant.path)
        if source.suffix != ".py":
            return [OF_C.get(source.name, OF_OTHER_C), ["-m", "soak", SANITIZERS]]
        first = [named_after(self.folder, mutant.path), executed.tests_of(mutant)]
        if executed.seconds < SECONDS:
            return first
        also = ALSO.get(source.parent.name, [])
        return [first[0], first[1] or ELSEWHERE, also, slow_beside(self.folder, mutant.path)]


@cache
def _every_defect() -> tuple[Mutant, ...]:
    files = sorted(
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".c", ".h"}
    )
    return tuple(mutant for path in files for mutant in mutants_of(ROOT, path))


def drawn(seed: int) -> list[Mutant]:
    """Return all defects in an order drawn by the seed."""
    mutants = list(_every_defect())
    random.Random(seed).shuffle(mutants)
    return mutants


@dataclass
class Results:
    """Every verdict of a seed, kept in a file as it comes if there is one."""

    file: Path | None
    known: dict[str, Verdict] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            for line in self.file.read_text().splitlines():
                kept = json.loads(line)
                self.known[kept["mutant"]] = Verdict(kept["verdict"], kept["by"])

    def keep(self, mutant: Mutant, verdict: Verdict) -> None:
        line = json.dumps({"mutant": str(mutant), "verdict": verdict.verdict, "by": verdict.by})
        with self._lock:
            self.known[str(mutant)] = verdict
            if self.file is not None:
                with self.file.open("a") as lines:
                    print(line, file=lines)


def measured(out: Path, scratch: Path, jobs: int, seconds: float) -> Executed:
    """Return which tests execute a line; measure it first if that is not kept."""
    try:
        return Executed(ROOT, out, seconds)
    except FileNotFoundError:
        print("running the tests once to see which lines each executes", flush=True)
        place = copied(scratch / "measured")
        measure(place, out, surroundings(place), jobs)
        return Executed(ROOT, out, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="which defects; by default new ones"
    )
    parser.add_argument("--only", default="", help="defects whose path or line matches this expression")
    parser.add_argument("--tests", nargs="+", default=[], help="run these only, and keep nothing")
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help="of tests for a defect; with fewer, slow tests are left out: the share is at least what is found",
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "mutation")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}", flush=True)
    results = Results(None if options.tests else options.out / f"mutants-{options.seed}.jsonl")
    waiting = iter(one for one in drawn(options.seed) if re.search(options.only, str(one)))
    verdicts: dict[str, Verdict] = {}

    with (
        tempfile.TemporaryDirectory(prefix="localrank-mutation-") as scratch,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        executed = (
            None if options.tests else measured(options.out, Path(scratch), options.jobs, options.seconds)
        )
        free: SimpleQueue[Place] = SimpleQueue()
        seconds = LONGEST_OF_ONE if options.tests else LONGEST
        places = [Place(Path(scratch, str(number)), seconds) for number in range(options.jobs)]
        for place in places:
            free.put(place)

        def attempt(mutant: Mutant) -> tuple[Mutant, Verdict]:
            if known := results.known.get(str(mutant)):
                return mutant, known
            place, begun = free.get(), time.monotonic()
            try:
                verdict = place.judge(mutant, executed, options.tests)
            except RuntimeError as problem:
                verdict = Verdict("invalid", str(problem).splitlines()[-1])
            finally:
                free.put(place)
            results.keep(mutant, verdict)
            lasted = time.monotonic() - begun
            print(f"{verdict.verdict:8} {lasted:6.1f} s  {mutant}  {verdict.by}", flush=True)
            return mutant, verdict

        while len(verdicts) < options.count:
            batch = [one for _, one in zip(range(options.count - len(verdicts)), waiting, strict=False)]
            if not batch:
                break
            for mutant, verdict in pool.map(attempt, batch):
                if verdict.verdict != "invalid":
                    verdicts[str(mutant)] = verdict
        for place in places:
            place.close()

    survivors = [mutant for mutant, one in verdicts.items() if one.verdict == "survived"]
    share = 1 - len(survivors) / max(1, len(verdicts))
    print(f"\nseed {options.seed}: {len(verdicts)} mutants, {share:.1%} noticed; not noticed:")
    print(*survivors, sep="\n")
    return int(share <= WANTED)


if __name__ == "__main__":
    sys.exit(main())
