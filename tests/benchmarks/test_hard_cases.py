"""The hard cases: the gate's false openings and its power are measured on what trains by default."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import hard_cases
from benchmarks.hard_cases import CHANGES, main, opened
from localrank_training.data.synthetic import Recipe, synthesize


def test_the_gate_opens_for_kinds_and_stays_shut_for_one() -> None:
    apart = synthesize(60, Recipe(kinds=2, features=8, documents=(12, 20)))[0]
    alike = synthesize(40, Recipe(kinds=1, features=8, documents=(12, 20), noise=1.0), seed=1)[0]

    assert opened(apart)
    assert not opened(alike)


def test_changes_leave_the_exam_its_labels() -> None:
    queries = synthesize(20, Recipe(features=4))[0]
    for name, change in CHANGES.items():
        lesson = change(queries, np.random.default_rng(0), lesson=True)
        held_out = change(queries, np.random.default_rng(0), lesson=False)
        np.testing.assert_array_equal(held_out.labels, queries.labels)
        changed = not np.array_equal(lesson.labels, queries.labels)
        assert changed == (name == "30 % of labels redrawn")
    assert CHANGES["20 noise features"](queries, np.random.default_rng(0), lesson=True).n_features == 24


@pytest.mark.parametrize(("share", "code"), [(0, 0), (1, 1)])
def test_the_exit_status_tells_whether_the_gate_holds(
    share: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hard_cases, "opened", lambda _queries: bool(share))

    assert main(["false_openings", "--draws", "3"]) == code
