"""A row of the table of all rankers comes out of its command again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.rankers import ENTRIES, tables

PAGE = Path(__file__).parents[2] / "docs" / "research" / "rankers.md"


def means(line: str) -> list[float]:
    """Return the figures of a row without their intervals."""
    return [float(figure) for figure in re.findall(r"\| (\d\.\d+)", line)]


@pytest.mark.realdata
@pytest.mark.usefixtures("real_data")
def test_least_squares_on_ohsumed_comes_out_again() -> None:
    (entry,) = (entry for entry in ENTRIES if entry.name == "linear")
    page = PAGE.read_text()
    shown = page[page.index("## OHSUMED\n") :]
    published = [means(line) for line in shown.splitlines() if line.startswith("| linear |")]

    rows = [means(line) for line in tables("OHSUMED", [entry], workers=1) if line.startswith("| linear |")]

    assert len(rows) == 2
    assert rows == [pytest.approx(row, abs=1e-4) for row in published[:2]]
