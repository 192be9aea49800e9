"""The papers' tables and figures on one small data set, as ``localrank papers run`` writes them.

Left out are those that measure times, and those that refuse so little data.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.golden.command import run
from tests.golden.frame import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXPERIMENTS = (
    "localrank-fig4", "localrank-fig5", "localrank-fig6", "localrank-fig9", "localrank-fig10", "localrank-assignment", "localrank-share", "localrank-components", "localrank-labels",
    "localrank-fig11", "localrank-fig15", "localrank-prototypes", "adaptive-fig4", "pca-query-table1", "pca-query-fig3", "pca-query-quality", "lgmml-table2",
    "mhr-fig1", "mhr-table3", "mhr-table4", "mhr-table5", "mhr-table6", "mhr-grades",
)  # fmt: skip


def answers(folder: Path) -> Iterator[tuple[str, str, Any]]:
    run(folder, "data", "split", str(DATA / "train.csv"), "--out", "folds", "--folds", "3")
    arguments = ("--data", "folds", "--out", "out", "--draws", "0", "--workers", "1")
    for name in EXPERIMENTS:
        done = run(folder, "papers", "run", name, *arguments)
        assert done.code == 0, done.err
        found = json.loads((folder / "out" / f"{name}.json").read_text())
        tables = {
            one["title"]: [one["header"], *([short(cell) for cell in row] for row in one["rows"])]
            for one in found["tables"]
        }
        yield "papers", name, {"title": found["title"], "sentences": found["sentences"], "tables": tables}


def short(cell: Any) -> Any:
    return float(f"{cell:.7g}") if isinstance(cell, float) else cell
