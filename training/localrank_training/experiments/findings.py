"""What an experiment finds: tables, plots and sentences, before anybody decides how they look."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Cell", "Findings", "Plot", "Series", "Table", "spread_of"]

#: Of a table; None is a figure that there is not.
Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        title: what its figures are.
        header: of the columns.
        rows: a cell for each column.
        says: what to read in it, in a sentence.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    says: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"table {self.title!r}: {len(self.header)} columns, a row of {len(row)}")


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot, or one kind of points.

    Attributes:
        name: in the legend.
        x: numbers, or names for points that stand next to each other.
        y: as many.
        low, high: ends of the interval of each; empty if there is none.
        drawn: as a line; as points; or, for one number that holds for every x, as a level.
    """

    name: str
    x: tuple[float, ...] | tuple[str, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    drawn: Literal["line", "points", "level"] = "line"


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot.

    Attributes:
        title: what it shows.
        x: label of the axis, with its unit.
        y: likewise.
        series: all on the same axes.
        says: what to see in it, in a sentence.
        logarithmic: which axes are: ``""``, ``"x"``, ``"y"`` or ``"xy"``.
    """

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    says: str
    logarithmic: Literal["", "x", "y", "xy"] = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that one experiment found.

    Attributes:
        tables: the first is that of the figure, and goes into the CSV.
        plots: at least one.
        sentences: what all of it says, the most important first.
    """

    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    sentences: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def spread_of(values: Sequence[float], share: float = 0.9) -> tuple[float, float]:
    """Return between which figures the middle ``share`` of several draws lies."""
    tail = (1 - share) / 2
    low, high = np.quantile(np.asarray(values, np.float64), [tail, 1 - tail])
    return float(low), float(high)
