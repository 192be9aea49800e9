"""Plots as SVG: axes with ticks and units, lines, points and levels, intervals, a legend."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank_training.experiments.findings import Plot, Series

__all__ = ["svg_of"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 400, 74, 16, 40, 70
_LEGEND_LINE = 20
#: Told apart without colour vision too [wong2011].
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555", "#a6761d")


def svg_of(plots: Sequence[Plot]) -> str:
    """Return plots one below the other."""
    drawings = [_Drawing(plot) for plot in plots]
    total = sum(drawing.height for drawing in drawings)
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {total}" role="img" '
            'font-family="system-ui, sans-serif" font-size="13">'
        ),
        f'<rect width="{_WIDTH}" height="{total}" fill="#ffffff"/>',
    ]
    top = 0
    for drawing in drawings:
        lines += [f'<g transform="translate(0 {top})">', *drawing.lines(), "</g>"]
        top += drawing.height
    return "\n".join([*lines, "</svg>"]) + "\n"


class _Scale:
    """Numbers of one axis to places on the page."""

    def __init__(self, values: Sequence[float], first: float, last: float, *, logarithmic: bool) -> None:
        self._log = logarithmic
        finite = [v for v in values if math.isfinite(v) and (v > 0 or not logarithmic)] or [0.0, 1.0]
        low, high = min(finite), max(finite)
        if logarithmic:
            low, high = math.log10(low), math.log10(high)
        room = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
        self._low, self._high, self._first, self._last = low - room, high + room, first, last

    def __call__(self, value: float) -> float:
        if self._log:
            value = math.log10(value) if value > 0 else self._low
        share = (value - self._low) / (self._high - self._low)
        return self._first + share * (self._last - self._first)

    def ticks(self) -> list[float]:
        if self._log:
            powers = range(math.floor(self._low), math.ceil(self._high) + 1)
            factors = (1, 2, 5) if self._high - self._low < 3 else (1,)
            found = [f * 10.0**p for p in powers for f in factors]
            return [v for v in found if self._low <= math.log10(v) <= self._high]
        step = 10.0 ** math.floor(math.log10((self._high - self._low) / 4))
        step *= next(f for f in (1, 2, 5, 10) if (self._high - self._low) / (f * step) <= 6)
        first = math.ceil(self._low / step)
        return [step * i for i in range(first, math.floor(self._high / step) + 1)]


class _Drawing:
    """One plot."""

    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        self._names = list(dict.fromkeys(x for s in plot.series for x in s.x if isinstance(x, str)))
        legend = math.ceil(len(plot.series) / 2) * _LEGEND_LINE
        self.height = _HEIGHT + legend
        ys = [y for s in plot.series for y in (*s.y, *s.low, *s.high)]
        self._y = _Scale(ys, _HEIGHT - _BOTTOM, _TOP, logarithmic="y" in plot.logarithmic)
        xs = [x for s in plot.series for x in s.x if not isinstance(x, str)]
        if self._names:
            xs = [-0.5, len(self._names) - 0.5]
        self._x = _Scale(xs, _LEFT, _WIDTH - _RIGHT, logarithmic="x" in plot.logarithmic and not self._names)

    def lines(self) -> list[str]:
        """Return its elements."""
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        found = [
            f'<text x="{_LEFT}" y="22" font-size="15" font-weight="600">{escape(self.plot.title)}</text>',
            f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 16}" text-anchor="middle">{escape(self.plot.x)}</text>',
            (
                f'<text transform="translate(16 {(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
                f"{escape(self.plot.y)}</text>"
            ),
        ]
        for tick in self._y.ticks():
            y = f"{self._y(tick):.1f}"
            found.append(f'<line x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}" stroke="#e3e3e3"/>')
            found.append(f'<text x="{_LEFT - 8}" y="{y}" dy="4" text-anchor="end">{tick:.6g}</text>')
        marks = list(enumerate(self._names)) if self._names else [(t, f"{t:.6g}") for t in self._x.ticks()]
        for at, text in marks:
            x = f"{self._x(at):.1f}"
            found.append(f'<line x1="{x}" x2="{x}" y1="{bottom}" y2="{bottom + 5}" stroke="#666"/>')
            found.append(f'<text x="{x}" y="{bottom + 20}" text-anchor="middle">{escape(text)}</text>')
        found.append(f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#666"/>')
        for number, series in enumerate(self.plot.series):
            found += self._drawn(series, number, _COLOURS[number % len(_COLOURS)])
        return found

    def _drawn(self, series: Series, number: int, colour: str) -> list[str]:
        found = []
        if series.drawn == "level":
            y = f"{self._y(series.y[0]):.1f}"
            dashes = 'stroke-dasharray="6 4"'
            found.append(
                f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2" {dashes}/>'
            )
        else:
            xs = [self._place(x, number) for x in series.x]
            places = [(x, self._y(y)) for x, y in zip(xs, series.y, strict=True)]
            ends = [
                (x, self._y(low), self._y(high))
                for (x, _), low, high in zip(places, series.low, series.high, strict=False)
            ]
            if series.drawn == "line" and ends:
                there = " ".join(f"{x:.1f},{high:.1f}" for x, _, high in ends)
                back = " ".join(f"{x:.1f},{low:.1f}" for x, low, _ in reversed(ends))
                found.append(f'<polygon points="{there} {back}" fill="{colour}" fill-opacity="0.15"/>')
            if series.drawn == "line":
                path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
                found.append(
                    f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"/>'
                )
            else:
                found += [
                    f'<path d="M{x:.1f} {a:.1f}V{b:.1f}" stroke="{colour}" stroke-width="2"/>'
                    for x, a, b in ends
                ]
                found += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in places]
        x = _LEFT + (number % 2) * (_WIDTH - _LEFT) / 2
        y = f"{_HEIGHT + (number // 2) * _LEGEND_LINE:.0f}"
        found.append(f'<rect x="{x}" y="{y}" width="14" height="4" rx="2" fill="{colour}"/>')
        found.append(f'<text x="{x + 20}" y="{y}" dy="7">{escape(series.name)}</text>')
        return found

    def _place(self, x: float | str, number: int) -> float:
        if not isinstance(x, str):
            return self._x(x)
        # Names that several series have stand next to each other.
        beside = (number - (len(self.plot.series) - 1) / 2) * 0.6 / max(len(self.plot.series), 1)
        return self._x(self._names.index(x) + beside)
