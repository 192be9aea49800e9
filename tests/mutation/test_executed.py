"""Which tests are chosen for a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from coverage import CoverageData

from tests.mutation.executed import SECONDS, Executed, digest
from tests.mutation.mutants import Mutant

if TYPE_CHECKING:
    from pathlib import Path

PATH = "core/room/noun.py"


def mutant(line: int) -> Mutant:
    return Mutant(PATH, line, 0, 1, "a", "b")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / PATH).parent.mkdir(parents=True)
    (root / PATH).write_text("a = 1\nb = 2\nc = 3\n")
    return root


def executed(
    root: Path, lines: dict[str, list[int]], seconds: dict[str, float], failed: list[str]
) -> Executed:
    out = root.parent
    data = CoverageData(str(out / f"coverage-{digest(root)}"))
    for test, numbers in lines.items():
        data.set_context(f"{test}|run")
        data.add_lines({f"/measured/{PATH}": numbers})
    data.write()
    kept = {"root": "/measured", "seconds": seconds, "failed": failed}
    (out / f"tests-{digest(root)}.json").write_text(json.dumps(kept))
    return Executed(root, out)


def test_tests_of_the_room_come_first_short_ones_before_long_ones_and_files_stay_together(root: Path) -> None:
    lines = {
        "tests/core/other/test_a.py::one": [2],
        "tests/end_to_end/test_b.py::one": [2],
        "tests/core/room/test_c.py::long": [2],
        "tests/core/room/test_d.py::middle": [2],
        "tests/core/room/test_c.py::short": [2],
        "tests/core/room/test_c.py::of_another_line": [3],
    }
    seconds = {"tests/core/room/test_c.py::long": 3.0, "tests/core/room/test_d.py::middle": 2.0}

    chosen = executed(root, lines, seconds, []).tests_of(mutant(2))

    assert chosen == [
        "tests/core/room/test_c.py::short",
        "tests/core/room/test_c.py::long",
        "tests/core/room/test_d.py::middle",
        "tests/core/other/test_a.py::one",
        "tests/end_to_end/test_b.py::one",
    ]


def test_no_more_are_chosen_than_fit_in_the_time(root: Path) -> None:
    tests = [f"tests/test_{name}.py::one" for name in "abc"]

    chosen = executed(root, {test: [2] for test in tests}, dict.fromkeys(tests, SECONDS / 2), [])

    assert tests[:2] == chosen.tests_of(mutant(2))


def test_what_fails_without_a_defect_is_left_out(root: Path) -> None:
    tests = [f"tests/test_{name}.py::one" for name in "abc"]
    found = executed(root, {test: [2] for test in tests}, {}, tests[:1])

    found.without(tests[1])

    assert tests[2:] == found.tests_of(mutant(2))


def test_a_line_that_no_test_executes_is_judged_by_those_of_its_file(root: Path) -> None:
    found = executed(root, {"tests/test_a.py::one": [2]}, {}, [])

    assert ["tests/test_a.py::one"] == found.tests_of(mutant(1))


def test_another_state_of_the_sources_has_to_be_measured_anew(root: Path) -> None:
    executed(root, {}, {}, [])
    (root / PATH).write_text("a = 2\n")

    with pytest.raises(FileNotFoundError):
        Executed(root, root.parent)
