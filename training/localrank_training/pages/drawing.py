"""Plots as SVG, for one width: a plot is drawn once for a screen and once for a phone, so that letters keep their size.

From top to bottom: legend, what the vertical axis measures, the marks between the axes, the numbers along the horizontal
axis, what it measures. Colours are classes, which the style of the page or of the file gives for light and dark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING

from localrank_training.pages.markup import add, element, xml_text
from localrank_training.pages.plot import Bars, Dots, Level, Line, number
from localrank_training.pages.scale import Scale, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from xml.etree.ElementTree import Element

    from localrank_training.pages.plot import Axis, Mark, Plot

WIDE, NARROW = 720.0, 360.0
#: Of letters: their height in pixels, the room of a row, and the widths of most and of narrow and wide ones.
_SIZE, _ROW = 12.0, 18.0
_LETTER, _NARROW, _WIDE = 7.6, 4.8, 11.0
_TONES = 8
_SHAPES = 5


@dataclass(frozen=True, slots=True)
class Drawing:
    """A file with one plot or several."""

    svg: str

    def write(self, path: Path) -> None:
        """Write the file."""
        path.write_text(self.svg, encoding="utf-8")


def drawing(*plots: Plot, columns: int = 1, width: float = WIDE) -> Drawing:
    """Draw plots into one file, side by side in this many columns; if there are several, each has its title above it."""
    each = width / columns
    head = _ROW + 6.0 if len(plots) > 1 else 0.0
    drawn = [picture(plot, each) for plot in plots]
    root = element("svg", xmlns="http://www.w3.org/2000/svg", role="img", class_="plot")
    add(root, "title", "; ".join(plot.title for plot in plots))
    add(root, "desc", " ".join(plot.text for plot in plots))
    add(root, "style", files(__package__).joinpath("plot.css").read_text("utf-8"))
    paper = add(root, "rect", class_="paper", width=width)
    top = 0.0
    for first in range(0, len(plots), columns):
        row = list(zip(plots, drawn, strict=True))[first : first + columns]
        for column, (plot, one) in enumerate(row):
            if head:
                add(root, "text", plot.title, x=column * each + 4.0, y=top + _SIZE + 4.0, class_="name")
            one.attrib |= {"x": f"{column * each:g}", "y": f"{top + head:g}"}
            root.append(one)
        top += head + max(float(one.get("height", 0)) for _, one in row) + (12.0 if head else 0.0)
    paper.set("height", f"{top:g}")
    root.attrib |= {"viewBox": f"0 0 {width:g} {top:g}", "width": f"{width:g}", "height": f"{top:g}"}
    return Drawing('<?xml version="1.0" encoding="utf-8"?>\n' + xml_text(root) + "\n")


def picture(plot: Plot, width: float) -> Element:
    """Draw one plot."""
    return _Picture(plot, width).drawn()


class _Picture:
    """The places of everything in one plot."""

    def __init__(self, plot: Plot, width: float) -> None:
        self.plot, self.width = plot, width
        across, up = (plot.y, plot.x) if plot.sideways else (plot.x, plot.y)
        self.across, self.up = across, up
        self.legend = _legend(plot.marks, width)
        top = (len(self.legend) * _ROW + 6.0) if self.legend else 4.0
        self.up_text = _lines(up.text, width - 8.0)
        self.across_text = _lines(across.text, width - 8.0)
        top += len(self.up_text) * _ROW + (4.0 if up.text else 0.0) + 6.0
        room = min(0.42 * width, 260.0)
        self.up_names = [_lines(name, room) for name in up.categories or ()]
        right = width - 14.0
        height = self._height()
        limits = [self._limits(axis, along) for axis, along in ((across, "across"), (up, "up"))]
        bottom = top + height
        # The numbers on the left side tell how much room is left for the rest.
        vertical = Scale(*limits[1], *((top, bottom) if plot.sideways else (bottom, top)), up.log)
        self.up_ticks = self._ticks(up, vertical, max(int(height / 40.0), 5))
        labels = self.up_names or [[text] for _, text in self.up_ticks]
        left = 14.0 + max((_width(line) for lines in labels for line in lines), default=0.0)
        horizontal = Scale(*limits[0], left, right, across.log)
        if plot.equal:
            horizontal, vertical = _equal(horizontal, vertical)
        self.horizontal, self.vertical = horizontal, vertical
        self.left, self.right, self.top, self.bottom = left, right, top, bottom
        if plot.equal:
            self.up_ticks = self._ticks(up, vertical, max(int(height / 40.0), 5))
        self.across_ticks = self._ticks(across, horizontal, max(int((right - left) / 52.0), 3))
        self.across_names = self._across_names()

    def drawn(self) -> Element:
        """Return the picture."""
        names = max((len(lines) for lines in self.across_names), default=1)
        room = 6.0 + names * _ROW + len(self.across_text) * _ROW + 4.0
        height = self.bottom + (room if self.across_ticks else 6.0 + len(self.across_text) * _ROW)
        root = element("svg", class_="plot", width=self.width, height=height, role="img")
        root.set("viewBox", f"0 0 {self.width:g} {height:g}")
        add(root, "title", self.plot.title)
        self._axes(root, names)
        inner = add(
            root,
            "svg",
            x=self.left - 6.0,
            y=self.top - 6.0,
            width=self.right - self.left + 12.0,
            height=self.bottom - self.top + 12.0,
            viewBox=f"{self.left - 6.0:g} {self.top - 6.0:g} {self.right - self.left + 12.0:g} "
            f"{self.bottom - self.top + 12.0:g}",
        )
        for position, mark in enumerate(self.plot.marks):
            group = add(inner, "g", class_=f"tone{_tone(mark, position) % _TONES}")
            self._mark(group, mark, position)
        self._legend(root)
        return root

    def _height(self) -> float:
        plot = self.plot
        if plot.equal:
            return 0.72 * self.width
        if not plot.sideways:
            return max(0.42 * self.width, 200.0)
        if plot.x.categories is None:
            return 300.0
        marks = sum(not isinstance(mark, Level) for mark in plot.marks)
        lines = max(len(names) for names in self.up_names) if self.up_names else 1
        return len(plot.x.categories) * max(16.0 + 9.0 * marks, lines * _ROW + 6.0)

    def _limits(self, axis: Axis, along: str) -> tuple[float, float]:
        if axis.categories is not None:
            return -0.5, len(axis.categories) - 0.5
        is_x = (along == "across") != self.plot.sideways
        found = [value for mark in self.plot.marks for value in _reach(mark, is_x=is_x)]
        if axis.log and any(value <= 0 for value in found):
            raise ValueError(f"plot {self.plot.title!r}: expected numbers above zero of {axis.label}")
        bars = not is_x and any(isinstance(mark, Bars) for mark in self.plot.marks)
        if axis.zero or bars:
            found.append(0.0)
        low, high = (min(found), max(found)) if found else (0.0, 1.0)
        if low == high:
            low, high = (low / 2, high * 2) if axis.log else (low - 0.5, high + 0.5)
        if axis.log:
            room = (high / low) ** 0.03
            low, high = low / room, high * room
        else:
            room = 0.04 * (high - low)
            low = low if low == 0 and (axis.zero or bars) else low - room
            high = high if high == 0 and (axis.zero or bars) else high + room
        low = low if axis.low is None else axis.low
        high = high if axis.high is None else axis.high
        return low, high

    def _ticks(self, axis: Axis, scale: Scale, most: int) -> list[tuple[float, str]]:
        if axis.categories is not None:
            return [(float(place), name) for place, name in enumerate(axis.categories)]
        if axis.ticks is None:
            # With only one number there is no distance.
            counts = [most, most + 1, most + 2, most + 4]
            values = next((found for one in counts if len(found := scale.ticks(one)) > 1), scale.ticks(most))
        else:
            values = [one for one in axis.ticks if scale.holds(one)]
        return list(zip(values, written(values, log=axis.log), strict=True))

    def _across_names(self) -> list[list[str]]:
        if self.across.categories is None:
            return [[text] for _, text in self.across_ticks]
        room = (self.right - self.left) / max(len(self.across.categories), 1) - 4.0
        return [_lines(name, room) for name in self.across.categories]

    def _axes(self, root: Element, names: int) -> None:
        left, right, top, bottom = self.left, self.right, self.top, self.bottom
        first = top - 10.0 - (len(self.up_text) - 1) * _ROW
        _text(root, self.up_text, 4.0, first, class_="label")
        for value, _ in self.up_ticks:
            at = self.vertical.at(value)
            if self.up.categories is None:
                add(root, "line", x1=left, x2=right, y1=at, y2=at, class_="grid")
        up_names = self.up_names or [[text] for _, text in self.up_ticks]
        for (value, _), lines in zip(self.up_ticks, up_names, strict=True):
            start = self.vertical.at(value) + 0.35 * _SIZE - (len(lines) - 1) * 0.4 * _ROW
            _text(root, lines, left - 8.0, start, row=0.8 * _ROW, class_="tick", text_anchor="end")
        for (value, _), lines in zip(self.across_ticks, self.across_names, strict=True):
            at = self.horizontal.at(value)
            if self.across.categories is None:
                add(root, "line", x1=at, x2=at, y1=top, y2=bottom, class_="grid")
            _text(root, lines, at, bottom + _ROW, row=0.8 * _ROW, class_="tick", text_anchor="middle")
        add(root, "line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis")
        add(root, "line", x1=left, x2=left, y1=top, y2=bottom, class_="axis")
        below = bottom + (6.0 + names * _ROW if self.across_ticks else 4.0) + _SIZE
        # Below the middle of the axis, if there is room on both sides.
        half = max((_width(line) for line in self.across_text), default=0.0) / 2 + 4.0
        middle = max(min((left + right) / 2, self.width - half), half)
        _text(root, self.across_text, middle, below, class_="label", text_anchor="middle")

    def _mark(self, group: Element, mark: Mark, position: int) -> None:
        if isinstance(mark, Level):
            upright = (mark.of == "x") != self.plot.sideways
            at = (self.horizontal if upright else self.vertical).at(mark.at)
            sides = (
                {"x1": at, "x2": at, "y1": self.top, "y2": self.bottom}
                if upright
                else {"x1": self.left, "x2": self.right, "y1": at, "y2": at}
            )
            add(group, "line", class_="level", **sides)
        elif isinstance(mark, Line):
            self._line(group, mark, position)
        elif isinstance(mark, Dots):
            aside = self._aside(mark)
            self._whiskers(group, mark, aside)
            for point, (x, y) in enumerate(self._points(mark.x, mark.y, aside)):
                if x is None or y is None:
                    continue
                dot = _shape(group, _tone(mark, position), x, y, mark.radius)
                if mark.hints is not None:
                    add(dot, "title", mark.hints[point])
        else:
            self._bars(group, mark)

    def _line(self, group: Element, mark: Line, position: int) -> None:
        if mark.low is not None and mark.high is not None:
            lows = list(self._points(mark.x, mark.low, 0.0))
            highs = list(self._points(mark.x, mark.high, 0.0))
            known = [
                (low, high)
                for low, high in zip(lows, highs, strict=True)
                if None not in low and None not in high
            ]
            around = [low for low, _ in known] + [high for _, high in reversed(known)]
            if len(known) > 1:
                add(group, "polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in around), class_="band")
        places = list(self._points(mark.x, mark.y, 0.0))
        steps: list[str] = []
        broken = True
        for x, y in places:
            if x is None or y is None:
                broken = True
                continue
            steps.append(f"{'M' if broken else 'L'}{x:.1f} {y:.1f}")
            broken = False
        add(group, "path", d=" ".join(steps), class_="line dashed" if mark.dashed else "line")
        if mark.dots:
            for x, y in places:
                if x is not None and y is not None:
                    _shape(group, _tone(mark, position), x, y, 3.2)

    def _bars(self, group: Element, mark: Bars) -> None:
        aside, half = self._aside(mark), self._thickness() / 2
        for x, y, (px, py) in zip(mark.x, mark.y, self._points(mark.x, mark.y, aside), strict=True):
            if x is None or y is None or px is None or py is None:
                continue
            if self.plot.sideways:
                base = self.horizontal.at(0.0)
                box = {"x": min(base, px), "width": abs(px - base), "y": py - half, "height": 2 * half}
            else:
                base = self.vertical.at(0.0)
                box = {"x": px - half, "width": 2 * half, "y": min(base, py), "height": abs(py - base)}
            add(group, "rect", class_="bar", **box)
        self._whiskers(group, mark, aside, over_bars=True)

    def _whiskers(self, group: Element, mark: Dots | Bars, aside: float, *, over_bars: bool = False) -> None:
        if mark.low is None or mark.high is None:
            return
        kind = "whisker over" if over_bars else "whisker"
        ends = zip(self._points(mark.x, mark.low, aside), self._points(mark.x, mark.high, aside), strict=True)
        for (x1, y1), (x2, y2) in ends:
            if x1 is None or y1 is None or x2 is None or y2 is None:
                continue
            add(group, "line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)
            for x, y in ((x1, y1), (x2, y2)):
                cap = (x, x, y - 3.0, y + 3.0) if self.plot.sideways else (x - 3.0, x + 3.0, y, y)
                add(group, "line", x1=cap[0], x2=cap[1], y1=cap[2], y2=cap[3], class_=kind)

    def _points(
        self, xs: Sequence[float | None], ys: Sequence[float | None], aside: float
    ) -> Iterator[tuple[float | None, float | None]]:
        """Return where points are drawn; ``aside`` moves them along x, in pixels."""
        sideways = self.plot.sideways
        of_x, of_y = (self.vertical, self.horizontal) if sideways else (self.horizontal, self.vertical)
        for one, other in zip(xs, ys, strict=True):
            x, y = number(one), number(other)
            if x is None or y is None:
                yield None, None
            elif sideways:
                yield of_y.at(y), of_x.at(x) + aside
            else:
                yield of_x.at(x) + aside, of_y.at(y)

    def _aside(self, mark: Dots | Bars) -> float:
        """Return how far a mark stands from the middle of its category, so that marks stand side by side."""
        if self.plot.x.categories is None:
            return 0.0
        beside = [one for one in self.plot.marks if isinstance(one, Dots | Bars)]
        place = next(number for number, one in enumerate(beside) if one is mark)
        return (place - (len(beside) - 1) / 2) * self._room() / len(beside)

    def _room(self) -> float:
        """Return the pixels that all marks of one place have together."""
        scale = self.vertical if self.plot.sideways else self.horizontal
        if self.plot.x.categories is not None:
            return 0.74 * abs(scale.at(1.0) - scale.at(0.0))
        places = sorted({
            value for mark in self.plot.marks if isinstance(mark, Bars)
            for value in map(number, mark.x) if value is not None
        })  # fmt: skip
        gaps = [abs(scale.at(b) - scale.at(a)) for a, b in pairwise(places)]
        return 0.8 * min(gaps, default=24.0)

    def _thickness(self) -> float:
        count = sum(isinstance(mark, Dots | Bars) for mark in self.plot.marks)
        room = self._room() / (count if self.plot.x.categories is not None else 1)
        return min(0.9 * room, 36.0)

    def _legend(self, root: Element) -> None:
        for row, names in enumerate(self.legend):
            y = 0.5 * _ROW + row * _ROW + 2.0
            for x, position, text in names:
                mark = self.plot.marks[position]
                group = add(root, "g", class_=f"tone{_tone(mark, position) % _TONES}")
                if isinstance(mark, Level):
                    add(group, "line", x1=x, x2=x + 20.0, y1=y, y2=y, class_="level")
                elif isinstance(mark, Line):
                    kind = "line dashed" if mark.dashed else "line"
                    add(group, "path", d=f"M{x:g} {y:g} L{x + 20.0:g} {y:g}", class_=kind)
                    if mark.dots:
                        _shape(group, _tone(mark, position), x + 10.0, y, 3.2)
                elif isinstance(mark, Bars):
                    add(group, "rect", x=x + 4.0, y=y - 5.0, width=12.0, height=10.0, class_="bar")
                else:
                    _shape(group, _tone(mark, position), x + 10.0, y, 4.0)
                add(root, "text", text, x=x + 26.0, y=y + 0.35 * _SIZE, class_="key")


def _legend(marks: Sequence[Mark], width: float) -> list[list[tuple[float, int, str]]]:
    """Return rows of where a name stands, whose mark it is, and the name; none if one mark says all."""
    named = [(position, mark.name.replace("`", "")) for position, mark in enumerate(marks) if mark.name]
    if len(named) < 2:
        return []
    rows: list[list[tuple[float, int, str]]] = [[]]
    x = 4.0
    for position, name in named:
        room = 26.0 + _width(name) + 16.0
        if rows[-1] and x + room > width:
            rows.append([])
            x = 4.0
        rows[-1].append((x, position, name))
        x += room
    return rows


def _reach(mark: Mark, *, is_x: bool) -> list[float]:
    """Return the numbers of a mark along one axis."""
    if isinstance(mark, Level):
        return [mark.at] if (mark.of == "x") == is_x else []
    lists = [mark.x] if is_x else [mark.y, mark.low or (), mark.high or ()]
    return [value for values in lists for value in map(number, values) if value is not None]


def _equal(horizontal: Scale, vertical: Scale) -> tuple[Scale, Scale]:
    """Widen one of two scales until a unit is equally long on both."""
    across, up = horizontal.high - horizontal.low, vertical.high - vertical.low
    pixels = abs(horizontal.end - horizontal.start), abs(vertical.end - vertical.start)
    unit = max(across / pixels[0], up / pixels[1])

    def widened(scale: Scale, length: float) -> Scale:
        middle, half = (scale.low + scale.high) / 2, unit * length / 2
        return Scale(middle - half, middle + half, scale.start, scale.end, scale.log)

    return widened(horizontal, pixels[0]), widened(vertical, pixels[1])


def _tone(mark: Mark, position: int) -> int:
    return position if mark.tone is None else mark.tone


def _shape(group: Element, tone: int, x: float, y: float, r: float) -> Element:
    """Draw a point; its shape tells marks apart without colours."""
    kind = tone % _SHAPES
    if kind == 0:
        return add(group, "circle", cx=x, cy=y, r=r, class_="dot")
    a = {1: 0.886 * r, 2: 1.25 * r, 3: 1.25 * r, 4: 1.3 * r}[kind]
    corners = {
        1: ((-a, -a), (a, -a), (a, a), (-a, a)),
        2: ((0.0, -a), (0.95 * a, 0.7 * a), (-0.95 * a, 0.7 * a)),
        3: ((0.0, -a), (a, 0.0), (0.0, a), (-a, 0.0)),
        4: ((0.0, a), (0.95 * a, -0.7 * a), (-0.95 * a, -0.7 * a)),
    }[kind]
    return add(
        group, "polygon", points=" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners), class_="dot"
    )


def _text(
    root: Element, lines: Sequence[str], x: float, y: float, *, row: float = _ROW, **attributes: object
) -> None:
    for place, line in enumerate(lines):
        add(root, "text", line, x=x, y=y + place * row, **attributes)


def _lines(text: str, room: float) -> list[str]:
    """Break a text into lines that fit, at spaces; a word that is too long is cut."""
    lines: list[str] = []
    for word in text.replace("`", "").split():
        short = word
        while len(short) > 2 and _width(short) > room:
            short = f"{short.rstrip('…')[:-1]}…"
        if lines and _width(f"{lines[-1]} {short}") <= room:
            lines[-1] += f" {short}"
        else:
            lines.append(short)
    return lines


def _width(text: str) -> float:
    """Return the largest width of a text in pixels, in any font of the reader."""
    # Not `sum`, which rounds in another way since Python 3.12: a drawing is the same with every Python.
    return math.fsum(
        _WIDE
        if letter in "@mwMW%…" or letter.isupper()
        else _NARROW
        if letter in " ijltf.,:;'|[]()-"
        else _LETTER
        for letter in text
    )
