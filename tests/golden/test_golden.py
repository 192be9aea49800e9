"""The answers of all public doors are those of the golden files (`tests.golden.frame`)."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden.frame import FILES, Scene, differences, mismatches, record
from tests.golden.page import browser
from tests.golden.scenes import SCENES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ANEW = "If this change is meant, run `make golden` and read what git diff shows."


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in {"page", "papers", "command-reports"} else ())
        for name in SCENES
    ],
)
def test_answers_are_the_golden_ones(name: str, tmp_path: Path) -> None:
    if name == "page" and browser() is None and not os.environ.get("CI"):
        pytest.skip("there is no Chromium: make test-deps installs it")

    wrong = mismatches(SCENES[name], tmp_path)

    assert not wrong, "\n".join([f"{len(wrong)} members differ", *wrong[:40], _ANEW])


def scene(answer: Any) -> Scene:
    def answers(_folder: Path) -> Iterator[tuple[str, str, Any]]:
        yield "invented", "a case", answer

    return Scene(answers, libraries=("numpy",), only=("kept",))


def test_a_mismatch_names_file_case_member_expected_and_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.golden.frame.FILES", tmp_path)
    record(scene({"kept": {"a": [1, 2.5]}, "request_id": "x"}), tmp_path)

    found = mismatches(scene({"kept": {"a": [1, 2.5 + 1e-15], "b": 3}, "request_id": "y"}), tmp_path)

    assert [
        "invented.json | a case | /kept/a/1: expected 2.5, found 2.500000000000001",
        "invented.json | a case | /kept/b: expected nothing, found 3",
    ] == found


def test_another_kernel_compares_what_a_scene_names_and_less_strictly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.golden.frame.FILES", tmp_path)
    record(scene({"kept": 2.5, "choice": 1}), tmp_path)
    file = tmp_path / "invented.json"
    golden = json.loads(file.read_text())
    file.write_text(json.dumps({**golden, "recorded with": {**golden["recorded with"], "kernel": "another"}}))

    assert [] == mismatches(scene({"kept": 2.5 + 1e-6, "choice": 2}), tmp_path)
    assert 1 == len(mismatches(scene({"kept": 2.5 + 1e-3, "choice": 1}), tmp_path))


def test_nearly_equal_scores_may_stand_in_either_order() -> None:
    one, two = (
        [{"index": i, "rank": r, "score": 1.0 + i * e} for r, i in enumerate(order, 1)]
        for order, e in (((0, 1), 0), ((1, 0), 1e-9))
    )

    assert [] == list(differences(one, two, 1e-6))
    assert [] != list(differences(one, two))


def test_every_golden_file_says_what_it_is() -> None:
    for file in FILES.glob("*.json"):
        head = json.loads(file.read_text())

        assert {"about", "recorded with", "cases"} == head.keys(), file
        assert "make golden" in head["about"]
