"""What a plot shows, and its picture: two axes, marks with their intervals, a title and a sentence; drawn by matplotlib.

Numbers that are `None` or not finite are left out; a line is broken there. Places of a mark along an axis with categories
are positions in them, counted from 0. A page holds a picture for a screen and one for a phone, so that letters keep their
size. Colours are variables of the style, which the page or the file gives for light and dark. matplotlib takes half a
second to import, so that is done only when something is drawn.
"""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

Numbers: TypeAlias = "Sequence[float | None]"

#: Of a page's column and of a phone, in pixels.
WIDE, NARROW = 720.0, 360.0
#: Letters of 12 pixels: the room of a row, and the mean width of a letter.
_ROW, _LETTER = 16.0, 7.0
#: The colours of a light page by the variable of the style that stands for each; PNG files have these colours.
_COLOURS = {"ink": "#1c2430", "soft": "#5a6675", "paper": "#ffffff", "rule": "#e3e7ec", "axis": "#9aa5b1"} | {
    f"tone{number}": colour
    for number, colour in enumerate(
        ("#0b62c4", "#c2410c", "#0f766e", "#9333ea", "#a16207", "#be123c", "#4d7c0f", "#475569")
    )
}
_VARIABLES = {colour: f"var(--{name})" for name, colour in _COLOURS.items()}
_TONES, _SHAPES = 8, "os^Dv"
_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 12.0,
    "axes.titlesize": 12.0,
    "axes.titlecolor": _COLOURS["ink"],
    "axes.labelcolor": _COLOURS["ink"],
    "axes.edgecolor": _COLOURS["axis"],
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": _COLOURS["rule"],
    "text.color": _COLOURS["ink"],
    "legend.frameon": False,
    "legend.borderaxespad": 0.0,
    "lines.markeredgewidth": 0.75,
    "lines.markeredgecolor": _COLOURS["paper"],
    **{
        f"{side}tick.{name}": value
        for side in "xy"
        for name, value in (
            ("color", _COLOURS["axis"]),
            ("labelcolor", _COLOURS["soft"]),
            ("major.size", 0.0),
            ("major.pad", 6.0),
        )
    },
}
#: Neither XML nor HTML can hold these characters.
_REFUSED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
            for axis, values in ((self.x, mark.x), (self.y, mark.y)):
                if axis.log and any(value is not None and value <= 0 for value in values):
                    raise ValueError(f"plot {self.title!r}: expected numbers above zero of {axis.label}")

    @property
    def text(self) -> str:
        """The caption, and what the intervals are."""
        over = f"{self.intervals[0].upper()}{self.intervals[1:].rstrip('.')}." if self.intervals else ""
        return f"{self.caption} {over}".strip()

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


def pictures(plot: Plot) -> str:
    """Return the elements of a page: a picture for a screen and one for a phone."""
    found = []
    for width, kind in ((WIDE, "wide"), (NARROW, "narrow")):
        root = _svg([plot], 1, width, f"{kind} {plot.title}")
        root.set("class", f"plot {kind}")
        root.set("aria-label", clean(f"{plot.title}. {plot.text}"))
        found.append(tostring(root, encoding="unicode"))
    return "".join(found)


def svg(*plots: Plot, columns: int = 1) -> str:
    """Return the text of a file with one plot or several, in this many columns; if several, each has its title above it."""
    root = _svg(plots, columns, WIDE, "file")
    root.set("xmlns", "http://www.w3.org/2000/svg")
    style = Element("style")
    style.text = files(__package__).joinpath("plot.css").read_text("utf-8")
    root.insert(0, style)
    for tag, text in (("desc", " ".join(one.text for one in plots)), ("title", "; ".join(one.title for one in plots))):  # fmt: skip
        said = Element(tag)
        said.text = clean(text)
        root.insert(0, said)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, encoding="unicode")}\n'


def png(*plots: Plot, columns: int = 1, width: float = WIDE) -> bytes:
    """Return the bytes of a file with one plot or several, in the colours of a light page."""
    return _file(plots, columns, width, "png", "")


def clean(text: str) -> str:
    """Replace characters that no document can hold."""
    return _REFUSED.sub("\ufffd", text)


def _svg(plots: Sequence[Plot], columns: int, width: float, salt: str) -> Element:
    """Draw plots as an element without names of namespaces, so that it may stand in a page."""
    drawn = fromstring(_file(plots, columns, width, "svg", salt))  # noqa: S314 (matplotlib has written it)
    box = drawn.attrib["viewBox"]
    root = Element("svg", {"class": "plot", "role": "img", "viewBox": box})
    root.attrib |= dict(zip(("width", "height"), box.split()[2:], strict=True))
    root.extend(child for child in drawn if not child.tag.endswith("metadata"))
    for one in root.iter():
        one.tag = one.tag.rpartition("}")[2]
        one.attrib = {name.rpartition("}")[2]: value for name, value in one.attrib.items()}
        one.text, one.tail = one.text if one.tag == "text" else None, None
        if one.attrib.get("transform", "").startswith("rotate(-0 "):
            del one.attrib["transform"]
        if "style" in one.attrib:
            style = re.sub("font-family: [^;]*(; )?", "", one.attrib["style"])
            one.set("style", re.sub("#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), style))
    for group in root.iter("g"):
        # Pictures of one page have the same names of groups; only those of shapes differ.
        name = group.attrib.pop("id", "")
        if name.startswith("hints"):
            plot, mark = map(int, name.split()[1:])
            for point, hint in zip(group.iter("use"), _hints(plots[plot].marks[mark]), strict=True):
                SubElement(point, "title").text = clean(hint)
    return root


def _hints(mark: Mark) -> list[str]:
    """Return the hints of the points that are drawn."""
    if not isinstance(mark, Dots) or mark.hints is None:
        return []
    return [
        hint
        for hint, *place in zip(mark.hints, _numbers(mark.x), _numbers(mark.y), strict=True)
        if all(map(math.isfinite, place))
    ]


def _file(plots: Sequence[Plot], columns: int, width: float, kind: str, salt: str) -> bytes:
    """Let matplotlib draw plots: with the same bytes each time, whatever settings of its own a user has."""
    from matplotlib import style
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    written = BytesIO()
    with style.context(["default", _STYLE | {"svg.hashsalt": salt}]), warnings.catch_warnings():
        # The font that measures lacks some letters of the world; the reader's has them.
        warnings.simplefilter("ignore")
        each, alone = width / columns, len(plots) == 1
        heights = [_height(plot, each, alone=alone) for plot in plots]
        rows = [max(heights[first : first + columns]) for first in range(0, len(plots), columns)]
        figure = Figure((width / 72, sum(rows) / 72), dpi=72)
        panels = [figure] if alone else figure.subfigures(len(rows), columns, squeeze=False, height_ratios=rows).flat  # fmt: skip
        for number, (plot, panel) in enumerate(zip(plots, panels, strict=False)):
            _draw(panel, plot, each, number, alone=alone)
        # Laid out here, as `savefig` would draw everything once more for that.
        ConstrainedLayoutEngine().execute(figure)
        figure.savefig(written, format=kind, dpi=144, metadata={"Date": None} if kind == "svg" else {})
    return written.getvalue()


def _draw(panel: Figure, plot: Plot, width: float, number: int, *, alone: bool) -> None:
    axes = panel.subplots()
    across, up = (plot.y, plot.x) if plot.sideways else (plot.x, plot.y)
    for position, mark in enumerate(plot.marks):
        _mark(axes, plot, mark, position, width=width, name=f"hints {number} {position}")
    left = 0.42 * width if plot.sideways else 0.15 * width
    _scale(axes, "x", across, 0.95 * (width - left) / max(len(across.categories or ()), 1))
    _scale(axes, "y", up, left)
    if plot.sideways:
        axes.invert_yaxis()
    if plot.equal:
        axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(_wrapped(across.text, width - left))
    axes.set_title(_wrapped(up.text, width - left), loc="left", pad=8)
    names = _legend(plot)
    if len(names) > 1:
        handles, labels = axes.get_legend_handles_labels()
        panel.legend(handles, labels, loc=f"outside {'upper' if alone else 'lower'} left", ncols=_columns(names, width))  # fmt: skip
    if not alone:
        panel.suptitle(_wrapped(plot.title, width), x=0.01, ha="left", fontsize=13, fontweight="bold")


def _mark(axes: Any, plot: Plot, mark: Mark, position: int, *, width: float, name: str) -> None:
    tone = position if mark.tone is None else mark.tone
    look: dict[str, Any] = {"color": _COLOURS[f"tone{tone % _TONES}"]}
    label = {"label": _plain(mark.name) or None}
    if isinstance(mark, Level):
        line = axes.axvline if (mark.of == "x") != plot.sideways else axes.axhline
        line(mark.at, color=_COLOURS["ink"], linewidth=1.2, linestyle=(0, (2, 3)), **label)
        return

    def along(x: Any, y: Any) -> tuple[Any, Any]:
        return (y, x) if plot.sideways else (x, y)

    shape = _SHAPES[tone % len(_SHAPES)]
    columns = [_numbers(one) for one in (mark.x, mark.y, mark.low, mark.high) if one is not None]
    if not isinstance(mark, Line):
        columns[0] = [place + _aside(plot, mark) for place in columns[0]]
    x, y, *ends = columns
    if isinstance(mark, Line):
        if ends:
            band = axes.fill_betweenx if plot.sideways else axes.fill_between
            band(x, *ends, **look, alpha=0.16, linewidth=0)
        style = {"linestyle": "--" if mark.dashed else "-", "linewidth": 2, "markersize": 6.4}
        axes.plot(*along(x, y), marker=shape if mark.dots else "", **look, **style, **label)
        return
    if isinstance(mark, Bars):
        bars = axes.barh if plot.sideways else axes.bar
        bars(x, y, _thickness(plot, width), **look, **label, alpha=0.8)
        look = {"color": _COLOURS["ink"]}
    if ends:
        (axes.hlines if plot.sideways else axes.vlines)(x, *ends, **look, linewidth=1.6)
        for end in ends:
            axes.plot(*along(x, end), "|" if plot.sideways else "_", **look, markeredgecolor=look["color"], markeredgewidth=1.6)  # fmt: skip
    if isinstance(mark, Dots):
        gid = {"gid": name} if mark.hints else {}
        axes.plot(*along(x, y), shape, **look, **label, **gid, markersize=2 * mark.radius)


def _scale(axes: Any, side: str, axis: Axis, room: float) -> None:
    """Give one side its numbers or names, as wide as there is room."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    ticks, limits = getattr(axes, f"{side}axis"), getattr(axes, f"set_{side}lim")
    if axis.categories is not None:
        ticks.set_ticks(range(len(axis.categories)), [_wrapped(name, room) for name in axis.categories])
        limits(-0.5, len(axis.categories) - 0.5)
        return
    axes.grid(axis=side)
    # As many whatever room is left, so that the layout, which looks at them, leaves room for the last one.
    ticks.set_major_locator(
        MaxNLocator(6 if side == "y" else max(3, int(room / 60)), steps=(1, 2, 2.5, 5, 10))
    )
    if axis.log:
        getattr(axes, f"set_{side}scale")("log")
        low, high = getattr(axes, f"get_{side}lim")()
        ticks.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
        ticks.set_minor_locator(NullLocator())
    if axis.ticks is not None:
        ticks.set_ticks(axis.ticks)
    ticks.set_major_formatter("{x:,.10g}")
    if axis.zero or axis.low is not None:
        limits(axis.low or 0.0, None)
    if axis.high is not None:
        limits(None, axis.high)


def _height(plot: Plot, width: float, *, alone: bool) -> float:
    """Return the height of a plot with its words."""
    names = _legend(plot)
    words = math.ceil(len(names) / _columns(names, width)) if len(names) > 1 else 0
    words += 4 + (not alone)
    if plot.equal:
        area = 0.72 * width
    elif not plot.sideways:
        area = max(0.36 * width, 190.0)
    elif plot.x.categories is None:
        area = 300.0
    else:
        marks = sum(not isinstance(mark, Level) for mark in plot.marks)
        lines = max((_wrapped(name, 0.42 * width).count("\n") + 1 for name in plot.x.categories), default=1)
        area = len(plot.x.categories) * max(16.0 + 9.0 * marks, lines * _ROW + 6.0)
    return area + words * 1.3 * _ROW


def _aside(plot: Plot, mark: Dots | Bars) -> float:
    """Return how far a mark stands from the middle of its category, so that marks stand side by side."""
    if plot.x.categories is None:
        return 0.0
    beside = [one for one in plot.marks if isinstance(one, Dots | Bars)]
    place = next(number for number, one in enumerate(beside) if one is mark)
    return 0.74 * (place - (len(beside) - 1) / 2) / len(beside)


def _thickness(plot: Plot, width: float) -> float:
    if plot.x.categories is not None:
        beside = sum(isinstance(mark, Dots | Bars) for mark in plot.marks)
        most = 0.67 if plot.sideways else 36.0 * len(plot.x.categories) / width
        return min(0.67 / beside, most)
    places = sorted({place for mark in plot.marks if isinstance(mark, Bars) for place in _numbers(mark.x)})
    return 0.8 * min((after - before for before, after in pairwise(places)), default=1.0)


def _legend(plot: Plot) -> list[str]:
    """Return the names of marks; one by itself says nothing."""
    return [_plain(mark.name) for mark in plot.marks if mark.name]


def _columns(names: Sequence[str], width: float) -> int:
    return max(1, min(len(names), int(width / (_LETTER * max(map(len, names)) + 52.0))))


def _numbers(values: Numbers) -> list[float]:
    return [math.nan if value is None or not math.isfinite(value) else float(value) for value in values]


def _plain(text: str) -> str:
    return clean(text).replace("`", "")


def _wrapped(text: str, room: float) -> str:
    """Break a text into lines that fit; what is too long is cut."""
    return "\n".join(wrap(_plain(text), max(int(room / _LETTER), 6), max_lines=4, placeholder=" …"))
