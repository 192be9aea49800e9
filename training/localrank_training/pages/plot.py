"""What a plot shows: two axes, marks with their intervals, a title and a sentence. How it looks is in `drawing`.

Numbers that are `None` or not finite are left out; a line is broken there. Places of a mark along an axis with categories
are positions in them, counted from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Numbers: TypeAlias = "Sequence[float | None]"


@dataclass(frozen=True, slots=True)
class Axis:
    """What is measured along one side.

    Attributes:
        label: what, for people.
        unit: of the numbers, if they have one.
        categories: names instead of numbers.
        log: equal factors take equal room; numbers must be above zero.
        zero: the axis begins at zero, as it always does under bars.
        low, high: where the axis ends, if not where the numbers do.
        ticks: the numbers that are written; by default round ones. Empty for an axis whose numbers mean nothing.
    """

    label: str
    unit: str = ""
    categories: Sequence[str] | None = None
    log: bool = False
    zero: bool = False
    low: float | None = None
    high: float | None = None
    ticks: Sequence[float] | None = None

    @property
    def text(self) -> str:
        """The label with the unit."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """How a mark differs from others.

    Attributes:
        tone: which colour and shape, counted from 0; by default the mark's place among the marks of the plot.
    """

    tone: int | None = None


@dataclass(frozen=True, slots=True)
class Line(_Look):
    """Points that are joined, such as a curve; with ``low`` and ``high``, a band around it.

    Attributes:
        name: in the legend; an empty one is left out there.
        x, y: the points.
        low, high: of the interval of each ``y``.
        dashed: for what the others are compared with.
        dots: mark each point.
    """

    name: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    dashed: bool = False
    dots: bool = True


@dataclass(frozen=True, slots=True)
class Dots(_Look):
    """Points by themselves; with ``low`` and ``high``, a whisker through each.

    Attributes:
        name: in the legend.
        x, y: the points.
        low, high: of the interval of each ``y``.
        hints: what each point is, shown when the pointer rests on it.
        radius: of a point.
    """

    name: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    hints: Sequence[str] | None = None
    radius: float = 4.0


@dataclass(frozen=True, slots=True)
class Bars(_Look):
    """Bars from zero; with ``low`` and ``high``, a whisker at the end of each."""

    name: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None


@dataclass(frozen=True, slots=True)
class Level(_Look):
    """A straight line right across, such as zero or a baseline.

    Attributes:
        name: in the legend.
        at: where.
        of: the axis that ``at`` is a number of.
    """

    name: str
    at: float
    of: str = "y"


Mark: TypeAlias = Line | Dots | Bars | Level


@dataclass(frozen=True, slots=True)
class Plot:
    """One picture.

    Attributes:
        title: what is seen.
        caption: a sentence: what to notice.
        x: where marks stand.
        y: what is measured there.
        marks: drawn in this order.
        intervals: what the intervals of the marks are, and over what; needed if a mark has one.
        sideways: x runs down the left side and y along the bottom. Long names of categories have room there.
        equal: one unit is equally long on both axes, as on a map.
        numbers: the page has the numbers too, as a table that can be opened.
    """

    title: str
    caption: str
    x: Axis
    y: Axis
    marks: Sequence[Mark]
    intervals: str = ""
    sideways: bool = False
    equal: bool = False
    numbers: bool = True

    def __post_init__(self) -> None:
        """Refuse a plot that a reader could not understand."""
        for mark in self.marks:
            if isinstance(mark, Level):
                continue
            ends = [mark.low, mark.high]
            if any(end is not None for end in ends) and not self.intervals:
                raise ValueError(
                    f"plot {self.title!r}: expected a description of the intervals of {mark.name!r}, found "
                    "none"
                )
            if (mark.low is None) != (mark.high is None):
                raise ValueError(
                    f"plot {self.title!r}: expected both ends of the intervals of {mark.name!r}, found one"
                )
            for values in (mark.y, *ends):
                if values is not None and len(values) != len(mark.x):
                    raise ValueError(
                        f"plot {self.title!r}: expected {len(mark.x)} values of {mark.name!r}, found {len(values)}"
                    )

    @property
    def text(self) -> str:
        """The caption, and what the intervals are."""
        return f"{self.caption} {_sentence(self.intervals)}".strip()

    def table(self) -> tuple[list[str], list[list[object]]]:
        """Return header and rows of all numbers, as the marks hold them."""
        marks = [mark for mark in self.marks if not isinstance(mark, Level)]
        named = any(mark.name for mark in marks)
        bounded = any(mark.low is not None for mark in marks)
        header = [*([""] if named else []), self.x.text, self.y.text, *(["from", "to"] if bounded else [])]
        rows: list[list[object]] = []
        for mark in marks:
            nothing: Numbers = [None] * len(mark.x)
            ends = zip(mark.low or nothing, mark.high or nothing, strict=True)
            for place, value, (low, high) in zip(mark.x, mark.y, ends, strict=True):
                at: object = place
                if self.x.categories is not None and place is not None:
                    at = self.x.categories[round(place)]
                rows.append([*([mark.name] if named else []), at, value, *([low, high] if bounded else [])])
        rows += [[mark.name, None, mark.at, *([None, None] if bounded else [])] for mark in self.marks
                 if isinstance(mark, Level) and mark.name and mark.of == "y" and named]  # fmt: skip
        return header, rows


def number(value: float | None) -> float | None:
    """Return a number that can be drawn, or `None`."""
    return None if value is None or not math.isfinite(value) else float(value)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}." if text else ""
