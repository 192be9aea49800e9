"""docs/research/results.md shows what was measured, and a row of it comes out of its command again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import quality_page, results
from benchmarks.contestants import CONTESTANTS, METRICS, figures_of
from benchmarks.quality import splits

PAGE = Path(__file__).parents[2] / "docs" / "research" / "results.md"


def test_the_page_shows_what_was_measured() -> None:
    found = results.read("quality")

    assert found is not None
    page = PAGE.read_text()
    assert page == quality_page.filled(page, found)
    assert all(line in page for line in quality_page.leading(found))
    assert len(quality_page.gates(found)) > 10


def test_the_picture_has_a_place_for_every_set() -> None:
    found = results.read("quality")

    assert found is not None
    first, _ = quality_page.picture(found).axes
    assert [text.get_text() for text in first.get_yticklabels()] == [
        "OHSUMED",
        "MQ2008",
        "table-search",
        "querywise",
        "answer-selection",
        "pooled",
    ]


@pytest.mark.realdata
@pytest.mark.usefixtures("real_data")
def test_the_row_of_ranksvm_on_table_search_comes_out_again() -> None:
    found = results.read("quality")
    assert found is not None
    (row,) = (
        row for row in found["quality"] if (row["set"], row["contestant"]) == ("table-search", "global")
    )

    figures = [
        figures_of(split.test, CONTESTANTS["global"](split.lesson, split.validation, split.test).scores)
        for split in splits("table-search", "opened")
    ]

    means = np.nanmean(np.concatenate(figures, axis=1), axis=1)
    assert means.tolist() == pytest.approx([row[metric] for metric in METRICS], abs=1e-4)
