"""An experiment: a table or figure of a paper, as a plan of fits and a function that reads their results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from localrank_training.report import Axis, Dots, Level, Plot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from localrank_papers.figures.fits import Arrays, Fit, Fits
    from localrank_papers.figures.folds import Data
    from localrank_training.report import Table


@dataclass(frozen=True, slots=True)
class Study:
    """What an experiment is given.

    Attributes:
        data: the folds; without any for an experiment that makes its own data.
        fits: results that are on disk.
        draws: of random partitions and the like, for the controls; 0 leaves these out.
        seed: of everything that is drawn.
    """

    data: Data
    fits: Fits
    draws: int
    seed: int

    def of(self, fit: Fit) -> Arrays:
        """Return the result of a fit."""
        return self.fits.of(fit)


@dataclass(frozen=True, slots=True)
class Protocol:
    """How the experiment is done.

    Attributes:
        whose: the paper's, or ours.
        text: what it is; how it departs from the paper's if it is ours.
    """

    whose: Literal["the paper's", "ours"]
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands on every figure of a run.

    Attributes:
        data: whose data: the paper's, another set, or synthetic.
        protocol: whose protocol, and what it is.
        not_run: what of the figure could not be run, and why; empty if all of it was.
    """

    data: str
    protocol: str
    not_run: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table or figure of a paper.

    Attributes:
        name: ``localrank-fig6``.
        paper: who wrote it and when.
        figure: as the paper numbers it.
        title: what it shows, in a few words.
        protocol: how it is done.
        not_run: what could not be run and why; empty if everything could.
        paper_data: the data sets of the paper's figure; none for an experiment that makes its own data.
        plan: the fits that are known beforehand; what else is needed is run by `find`.
        find: makes tables, plots and sentences of the results.
        needs_data: whether it reads ``--data``.
        synthetic: what stands for the paper's data, for an experiment that makes its own.
    """

    name: str
    paper: str
    figure: str
    title: str
    protocol: Protocol
    not_run: str
    paper_data: tuple[str, ...]
    plan: Callable[[Study], Iterable[Fit]]
    find: Callable[[Study], Findings]
    needs_data: bool = True
    synthetic: str = ""

    def mark(self, data: Data) -> Mark:
        """Return what stands on every figure of a run on this data."""
        if not self.needs_data:
            whose = f"synthetic: {self.synthetic}"
        elif data.name in self.paper_data:
            whose = f"the paper's: {data.name}"
        else:
            whose = f"another than the paper's ({', '.join(self.paper_data)}): {data.name}"
        return Mark(whose, f"{self.protocol.whose}: {self.protocol.text}", self.not_run)


# ------------------------------------------------------------------------------------------------
# What an experiment finds: tables, plots and sentences (`localrank_training.report` says how they look).


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


# ------------------------------------------------------------------------------------------------
# Dots of several kinds over the same categories; the drawing puts those of one category next to each other.


class Kind(NamedTuple):
    """One kind of dots.

    Attributes:
        name: in the legend.
        categories: where it has dots.
        values: there.
        low, high: of their intervals.
    """

    name: str
    categories: Sequence[str]
    values: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def side_by_side(categories: Sequence[str], kinds: Sequence[Kind]) -> list[Dots]:
    """Return the dots of every kind, those of one category in the order of the kinds."""
    return [
        Dots(
            kind.name,
            [categories.index(category) for category in kind.categories],
            kind.values,
            kind.low,
            kind.high,
        )
        for kind in kinds
    ]


def beside(
    title: str,
    says: str,
    ways: Mapping[str, tuple[float, float, float]],
    level: tuple[str, float],
    *,
    intervals: str,
    y: str = "MAP, mean over test queries",
) -> Plot:
    """Return a plot of several ways, each with its figure and interval, beside the line of what they are compared with."""
    values, low, high = (list(column) for column in zip(*ways.values(), strict=True))
    return Plot(
        title,
        says,
        x=Axis("", categories=list(ways)),
        y=Axis(y),
        marks=[Dots("", range(len(ways)), values, low, high), Level(*level)],
        intervals=intervals,
        sideways=True,
    )
