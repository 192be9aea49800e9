"""What an experiment finds: tables, plots and sentences (`localrank_training.report` says how they look)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank_training.report import Plot, Table


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that one experiment found.

    Attributes:
        tables: the first one belongs to the figure, and goes into the CSV.
        plots: at least one.
        sentences: what all of it says, the most important first.
    """

    tables: Sequence[Table]
    plots: Sequence[Plot]
    sentences: Sequence[str]

    def __post_init__(self) -> None:
        """Refuse findings that a reader could not understand."""
        for table in self.tables:
            if any(len(row) != len(table.header) for row in table.rows):
                raise ValueError(f"table {table.title!r}: expected rows of {len(table.header)} cells")
        if not (self.tables and self.plots and self.sentences):
            raise ValueError("findings: expected a table, a plot and a sentence at least")

    def to_json(self) -> dict[str, Any]:
        """Tables and sentences, and the numbers of the plots."""
        plots = []
        for plot in self.plots:
            header, rows = plot.table()
            plots.append({"title": plot.title, "says": plot.text, "header": header, "rows": rows})
        return {
            "sentences": list(self.sentences),
            "tables": [asdict(table) for table in self.tables],
            "plots": plots,
        }


def spread_of(values: Sequence[float], share: float = 0.9) -> tuple[float, float]:
    """Return between which figures the middle ``share`` of several draws lies."""
    tail = (1 - share) / 2
    low, high = np.quantile(np.asarray(values, np.float64), [tail, 1 - tail])
    return float(low), float(high)
