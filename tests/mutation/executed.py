"""Which tests execute a line of the sources, and how long each takes: one run of all tests that are not slow."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from coverage import CoverageData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.mutation.mutants import Mutant

PACKAGES = ("core", "service", "training", "papers")
#: Tests of a line are chosen until they would take so many seconds.
SECONDS = 240.0
#: What a test is taken to last at least: its own set-up is not counted.
LEAST = 0.05

_DURATION = re.compile(r"^([\d.]+)s (?:setup|call|teardown) +(\S.*)$", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?: \S+)*?)(?: - .*)?$", re.MULTILINE)


def failures(output: str) -> list[str]:
    """Return the tests that pytest's summary says to have failed, in its order."""
    return _FAILED.findall(output)


def digest(root: Path) -> str:
    """Return a name for the state of the sources: lines are counted in them."""
    names = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in names)).hexdigest()[:12]


def measure(place: Path, out: Path, environment: Mapping[str, str], jobs: int) -> None:
    """Run the tests once in a copy of the project and keep what each executes, how long it takes, and which fail."""
    state = digest(place)
    data = out / f"coverage-{state}"
    command = [
        *(
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-vv",
            "-n",
            str(jobs),
            "--dist",
            "worksteal",
            "-p",
            "no:cacheprovider",
        ),
        *("-m", "not slow and not soak", "--durations=0", "--durations-min=0.001", "-rfE"),
        *("--cov=localrank", "--cov=localrank_service", "--cov=localrank_training", "--cov=localrank_papers"),
        *("--cov-context=test", "--cov-report=", "tests"),
    ]
    # What fails under measurement, such as a limit of time, is not used to judge.
    done = subprocess.run(
        command,
        cwd=place,
        env={**environment, "COVERAGE_FILE": str(data.resolve())},
        check=False,
        capture_output=True,
        text=True,
    )
    seconds: defaultdict[str, float] = defaultdict(float)
    for taken, test in _DURATION.findall(done.stdout):
        seconds[test] += float(taken)
    if not data.exists() or not seconds:
        raise RuntimeError(f"the tests did not run: {(done.stdout + done.stderr)[-2000:]}")
    # Written last: where it stands, the measurement is whole.
    (out / f"tests-{state}.json").write_text(
        json.dumps({"root": str(place), "seconds": seconds, "failed": failures(done.stdout)})
    )


class Executed:
    """Which tests execute a line."""

    def __init__(self, root: Path, out: Path, seconds: float = SECONDS) -> None:
        """Read what `measure` kept of this state of the sources; FileNotFoundError if it has not run."""
        self.seconds = seconds
        state = digest(root)
        kept = json.loads((out / f"tests-{state}.json").read_text())
        self._seconds: dict[str, float] = kept["seconds"]
        self._failed = set(kept["failed"])
        self._root = f"{kept['root']}/"
        self._data = CoverageData(str(out / f"coverage-{state}"))
        self._data.read()

    def without(self, test: str) -> None:
        """Leave a test out from now on: it fails without a defect, too."""
        self._failed.add(test)

    @property
    def failed(self) -> list[str]:
        return sorted(self._failed)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that execute the line, as many as fit in its seconds: those of its room first, short ones first.

        Those of one file stand together, so that their fixtures are made once.
        """
        lines = self._data.contexts_by_lineno(self._root + mutant.path)
        tests = {one.rsplit("|", 1)[0] for one in lines.get(mutant.line, []) if one}
        if not tests:
            # Executed when the module is imported, or in another process: any test of the file may notice.
            tests = {one.rsplit("|", 1)[0] for found in lines.values() for one in found if one}
        room = Path(mutant.path).parent.name
        order = sorted(
            tests - self._failed,
            key=lambda one: ("end_to_end" in one, f"/{room}/" not in one, self._seconds.get(one, 0.0), one),
        )
        files: dict[str, list[str]] = {}
        total = 0.0
        for test in order:
            total += max(LEAST, self._seconds.get(test, 0.0))
            if total > self.seconds:
                break
            files.setdefault(test.split("::")[0], []).append(test)
        return [test for found in files.values() for test in found]
