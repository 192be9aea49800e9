"""What every kind of plot has in common, and golden files of its numbers (`tests.training.golden`).

`test_drawing.py` reads places off the axes.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from localrank_training.pages import (
    Axis,
    Bars,
    Dots,
    Level,
    Line,
    Plot,
)
from localrank_training.pages.drawing import NARROW, WIDE, picture
from localrank_training.pages.markup import xml_text
from localrank_training.pages.scale import round_numbers, written
from tests.training.golden import agree

GOLDEN = Path(__file__).parent / "golden"
NAN = float("nan")
NAMES = [
    "a long name with many words that breaks",
    "WIDE LETTERS @ 100 %",
    "short",
    "incomprehensibilities,unbroken",
]
X, Y = [1.0, 2.0, 4.0, 8.0], [0.30, 0.42, 0.45, 0.40]
LOW, HIGH = [0.27, 0.40, 0.43, 0.33], [0.32, 0.47, 0.46, 0.44]
GAPS: list[float | None] = [0.2, None, 0.35, NAN, 0.5, 0.55]
EIGHT = range(8)

PLOTS = {
    "curves": Plot(
        "Curves", "Two and a level.", Axis("clusters"), Axis("NDCG@10", unit="%"),
        [Line("local", X, Y, LOW, HIGH), Line("global", X, [0.41] * 4, dashed=True), Level("base", 0.36)],
        intervals="95 % over 10 queries",
    ),
    "gaps": Plot(
        "Gaps", "A line breaks where numbers are missing.", Axis("x"), Axis("y"),
        [
            Line("`broken`", range(6), GAPS, [0.1, None, 0.3, 0.3, NAN, 0.5], [0.3, 0.4, 0.4, 0.5, 0.6, 0.6]),
            Line("", range(6), [0.3] * 6, dots=False, dashed=True, tone=4),
            Line("short", [0, 1], [0.2, 0.3], [None, 0.2], [0.25, 0.4]),
            Dots("points", [None, 1, 2.5], [0.4, NAN, 0.44], hints=["first", "second", "third"]),
        ],
        intervals="made up",
    ),
    "shapes": Plot(
        "Shapes", "Tones go round after eight, shapes after five.", Axis("x", low=-1.0, high=12.0), Axis("y", zero=True),
        [Dots(f"kind number {one}", [one, one + 0.5], [one + 1, one + 3], radius=3.0 + one) for one in range(11)],
    ),
    "lines-of-every-tone": Plot(
        "Lines", "Points of a line have the shape of its tone.", Axis("x"), Axis("y"),
        [Line(f"line {one}", [0, 1], [one, one + 1], tone=2 * one + 1) for one in range(5)],
    ),
    "bars": Plot(
        "Bars", "They begin at zero.", Axis("kind", categories=["one", "two", "three"]), Axis("share", high=1.0),
        [
            Bars("first", [0, 1, 2], [0.2, None, -0.3], [0.1, None, -0.35], [0.3, None, -0.2]),
            Bars("second", [0, 2], [0.5, 0.25]),
            Dots("dots", [0, 1, 2], [0.4, 0.1, 0.2], [0.3, 0.0, 0.1], [0.5, 0.3, 0.2]),
        ],
        intervals="all of them",
    ),
    "histogram": Plot(
        "Histogram", "Bars along numbers are as wide as the least gap.", Axis("documents"), Axis("queries"),
        [Bars("", [10, 20, 40, 45], [3, 8, 1, 2], [2, 7, 0, 1], [4, 9, 2, 3]), Level("mean", 24.5, of="x")],
        intervals="made up",
    ),
    "one-bar": Plot("One bar", "Alone.", Axis("documents"), Axis("queries"), [Bars("", [10], [3])]),
    "negative-bars": Plot("Below", "Nothing above.", Axis("n"), Axis("loss"), [Bars("", [1, 2], [-3.0, -1.5])]),
    "sideways": Plot(
        "Sideways", "Names have room.", Axis("way", categories=NAMES), Axis("MAP, mean over test queries", unit="points"),
        [
            Dots("one", EIGHT[:4], Y, LOW, HIGH),
            Dots("two", [0, 2], [0.28, 0.5]),
            Bars("three", [1, 3], [0.1, 0.2], [0.05, 0.1], [0.15, 0.3]),
            Level("zero", 0.31),
            Level("of x", 1.5, of="x"),
        ],
        intervals="95 %",
        sideways=True,
    ),
    "sideways-numbers": Plot(
        "Sideways with numbers", "", Axis("depth"), Axis("milliseconds", log=True),
        [Line("a", X, [1.5, 20, 300, 9000])],
        sideways=True,
    ),
    "sideways-bars": Plot(
        "Sideways bars of numbers", "", Axis("depth"), Axis("gain"), [Bars("a", [1, 2, 4], [5, -6, 2.5])], sideways=True
    ),
    "logarithms": Plot(
        "Both axes", "Equal factors.", Axis("n", log=True, ticks=[1, 3, 10, 100, 5000]), Axis("time", "s", log=True),
        [Line("a", [1, 10, 100], [0.02, 0.5, 70]), Level("limit", 3.0), Dots("b", [5, 50], [0.1, 0.3], [0.05, 0.2], [0.3, 0.4])],
        intervals="least and largest",
    ),
    "one-logarithm": Plot("One number", "", Axis("n", log=True), Axis("time", log=True), [Dots("", [8], [0.3])]),
    "one-number": Plot("One number", "", Axis("n"), Axis("time"), [Dots("", [8], [0.3])]),
    "nothing": Plot("Nothing", "", Axis(""), Axis("", ticks=[]), []),
    "map": Plot(
        "A map", "One unit is equally long.", Axis("first", ticks=[]), Axis("second", ticks=[]),
        [Dots("a", [0, 1, 2], [0, 5, 9]), Dots("b", [-1, 3], [2, 2])], equal=True,
    ),
    "wide-map": Plot("Wide", "", Axis("first"), Axis("second"), [Dots("", [0, 50], [0, 2])], equal=True),
    "tall-map": Plot("Tall", "", Axis("first"), Axis("second"), [Dots("", [0, 1], [-20, 60])], equal=True),
    "ends": Plot(
        "Ends", "", Axis("x", low=0.0, high=10.0, zero=True), Axis("y", zero=True, low=None, high=2.0),
        [Line("a", [1, 9], [0.5, 1.5])],
    ),
    "below-zero": Plot("Below zero", "", Axis("x", zero=True), Axis("y", zero=True), [Line("a", [-5, -1], [-2, -0.5])]),
    "long-labels": Plot(
        "Labels", "", Axis("a label along the bottom that is far too long for one row of a phone or even of a screen, so it breaks", "units"),
        Axis("what is measured upwards, which needs a second row and on a phone a third one too, as this text is long"),
        [Line("a", X, Y), Line("b", X, LOW), Line("a legend that is long enough to need the next row", X, HIGH), Level("d", 0.5)],
    ),
    "many-categories": Plot(
        "Many", "", Axis("", categories=[f"category {one}" for one in range(9)]), Axis("y"),
        [Dots("a", range(9), range(9)), Dots("b", range(9), range(1, 10))],
    ),
    "categories-upwards": Plot("Upwards", "", Axis("x"), Axis("y", categories=["low", "middle", "high"]), [Dots("", [1, 2, 3], [0, 1, 2])]),
    "large": Plot("Large", "", Axis("x", "documents"), Axis("y"), [Line("", [0, 2_500_000], [1e-7, 9e-7])]),
}  # fmt: skip


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_is_an_image_with_a_name_and_all_its_marks_in_sight(name: str, width: float) -> None:
    image = ET.fromstring(xml_text(picture(PLOTS[name], width)))

    assert ("img", PLOTS[name].title) == (image.get("role"), image.findtext("title"))
    x, y, wide, high = map(float, image.attrib["viewBox"].split())
    assert (0, 0, width) == (x, y, wide)
    ends = dict.fromkeys(("x", "cx", "x1", "x2"), wide) | dict.fromkeys(("y", "cy", "y1", "y2"), high)
    for element in image.iter():
        assert all(-1 <= float(element.get(one, 0)) <= end + 1 for one, end in ends.items()), element.attrib


def test_the_numbers_of_plots_are_the_golden_ones() -> None:
    found = {
        name: {"text": plot.text, "table": plot.table(), "axes": [plot.x.text, plot.y.text]}
        for name, plot in PLOTS.items()
    }

    agree(GOLDEN / "numbers.json", found)


def test_round_numbers_are_the_golden_ones() -> None:
    ends = [
        (0.0, 1.0),
        (-3.2, 7.9),
        (0.013, 0.0171),
        (2.0, 2.5),
        (1.0, 9000.0),
        (0.3, 0.9),
        (12.0, 14.0),
        (5e-4, 2e6),
    ]
    found = {
        f"{low:g} to {high:g}, {most}{', log' if log else ''}": written(
            round_numbers(low, high, most, log=log), log=log
        )
        for low, high in ends
        for most in (1, 2, 3, 5, 8, 12)
        for log in (False, True)
        if low > 0 or not log
    }

    agree(GOLDEN / "round-numbers.json", found)
