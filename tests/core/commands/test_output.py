"""What commands print: columns that line up, JSON without NaN, and no list longer than a reader wants."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.commands.output import MANY, print_json, print_notes, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = Sequence[object]


def table(capsys: pytest.CaptureFixture[str], *arguments: Any) -> list[str]:
    print_table(*arguments)
    return capsys.readouterr().out.splitlines()


def test_texts_stand_to_the_left_and_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("a", 1, 0.5, "x"), ("longer", None, 12.25, 3), ("b", 200, None, "yz")]

    assert [
        "name  n  figure  mixed",
        "a     1  0.5000  x",
    ] == table(capsys, ("name", "n", "figure", "mixed"), rows[:1])
    assert [
        "name      n   figure  mixed",
        "a         1   0.5000  x",
        "longer    -  12.2500  3",
        "b       200        -  yz",
    ] == table(capsys, ("name", "n", "figure", "mixed"), rows)


def test_a_table_without_rows_is_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    assert ["name  n"] == table(capsys, ("name", "n"), [])


@pytest.mark.parametrize(
    ("most", "printed"),
    [
        (None, ["n", "1", "2", "3"]),
        (4, ["n", "1", "2", "3"]),
        (3, ["n", "1", "2", "3"]),
        (2, ["n", "1", "2", "... and 1 more; --json prints all"]),
    ],
)
def test_rows_beyond_the_most_are_counted(
    capsys: pytest.CaptureFixture[str], most: int | None, printed: list[str]
) -> None:
    assert printed == table(capsys, ("n",), [(1,), (2,), (3,)], most)


@pytest.mark.parametrize("err", [False, True])
@pytest.mark.parametrize(
    ("count", "more"), [(0, []), (25, []), (26, ["... and 1 more notes; --json prints all"])]
)
def test_25_notes_are_printed_and_more_are_counted(
    capsys: pytest.CaptureFixture[str], *, err: bool, count: int, more: list[str]
) -> None:
    print_notes([f"number {i}" for i in range(count)], err=err)

    out, errors = capsys.readouterr()
    assert ("" if err else errors) == (out if err else "")
    printed = [f"note: number {i}" for i in range(min(count, 25))]
    assert [*printed, *more] == (errors if err else out).splitlines()
    assert 25 == MANY


def test_notes_go_to_the_standard_output_unless_said_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    print_notes(["one"])

    assert ("note: one\n", "") == capsys.readouterr()


def test_json_is_indented_and_has_null_for_nan(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({1: np.float64(0.5), "ä": [np.nan, np.array([1.5, np.nan]), (True, None)]})

    printed = capsys.readouterr().out
    assert {"1": 0.5, "ä": [None, [1.5, None], [True, None]]} == json.loads(printed)
    assert printed.startswith('{\n  "1": 0.5,\n  "ä": [\n    null,\n')
