"""What is drawn stands where its numbers are, as the axes tell."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest

from localrank_training.pages import Axis, Bars, Dots, Level, Line, Plot, drawing
from localrank_training.pages.drawing import NARROW, WIDE, picture

if TYPE_CHECKING:
    from pathlib import Path

X, Y = [1.0, 2.0, 4.0, 8.0], [0.30, 0.42, 0.45, 0.40]
LOW, HIGH = [value - 0.02 for value in Y], [value + 0.03 for value in Y]


def plotted(
    *marks: Line | Dots | Bars | Level, x: Axis | None = None, sideways: bool = False, equal: bool = False
) -> Plot:
    return Plot(
        "Title",
        "A sentence.",
        x or Axis("clusters"),
        Axis("quality"),
        marks,
        intervals="95 % intervals over 10 queries",
        sideways=sideways,
        equal=equal,
    )


def found(root: Element, tag: str, kind: str) -> list[Element]:
    return [one for one in root.iter() if one.tag.endswith(tag) and kind in one.get("class", "").split()]


def numbers(element: Element, *names: str) -> list[float]:
    return [float(element.attrib[name]) for name in names]


def reader(root: Element, along: str, *, log: bool = False) -> tuple[float, float]:
    """Return slope and offset from pixels to numbers, as somebody reads them off the ticks."""
    ticks = found(root, "text", "tick")
    upright = [one for one in ticks if one.get("text-anchor") == "end"]
    mine = upright if along == "y" else [one for one in ticks if one not in upright]
    values = [float((one.text or "").replace("−", "-").replace(",", "")) for one in mine]
    # A number's middle is a third of a letter above its base.
    places = [float(one.attrib[along]) - (4.2 if along == "y" else 0.0) for one in mine]
    slope, offset = np.polyfit(places, np.log10(values) if log else values, 1)
    return float(slope), float(offset)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_points_stand_where_the_ticks_say(width: float) -> None:
    root = picture(plotted(Dots("a", X, Y)), width)

    places = np.array([numbers(dot, "cx", "cy") for dot in found(root, "circle", "dot")])

    (a, b), (c, d) = reader(root, "x"), reader(root, "y")
    np.testing.assert_allclose(a * places[:, 0] + b, X, atol=0.02)
    np.testing.assert_allclose(c * places[:, 1] + d, Y, atol=0.001)


def test_points_stand_where_the_ticks_of_a_logarithmic_axis_say() -> None:
    root = picture(plotted(Dots("a", X, Y), x=Axis("clusters", log=True)), WIDE)

    places = np.array([numbers(dot, "cx") for dot in found(root, "circle", "dot")])

    slope, offset = reader(root, "x", log=True)
    np.testing.assert_allclose(10 ** (slope * places[:, 0] + offset), X, rtol=0.01)


@pytest.mark.parametrize("kind", [Dots, Bars])
def test_whiskers_reach_from_one_end_of_the_interval_to_the_other(kind: type[Dots | Bars]) -> None:
    root = picture(plotted(kind("a", X, Y, LOW, HIGH)), WIDE)

    lines = [numbers(line, "x1", "x2", "y1", "y2") for line in found(root, "line", "whisker")]
    stems = np.array([line for line in lines if line[0] == line[1]])

    slope, offset = reader(root, "y")
    np.testing.assert_allclose(slope * stems[:, 2] + offset, LOW, atol=0.002)
    np.testing.assert_allclose(slope * stems[:, 3] + offset, HIGH, atol=0.002)


def test_the_band_of_a_line_lies_between_the_ends_of_its_intervals() -> None:
    root = picture(plotted(Line("a", X, Y, LOW, HIGH)), WIDE)

    (band,) = found(root, "polygon", "band")
    points = np.array([point.split(",") for point in band.attrib["points"].split()], float)

    slope, offset = reader(root, "y")
    np.testing.assert_allclose(slope * points[:, 1] + offset, [*LOW, *reversed(HIGH)], atol=0.002)


def test_bars_begin_at_zero() -> None:
    root = picture(plotted(Bars("a", X, [3.0, -1.0, 2.0, 0.5])), WIDE)

    boxes = np.array([numbers(box, "y", "height") for box in found(root, "rect", "bar")])

    slope, offset = reader(root, "y")
    tops, bottoms = slope * boxes[:, 0] + offset, slope * boxes.sum(axis=1) + offset
    np.testing.assert_allclose(tops, [3.0, 0.0, 2.0, 0.5], atol=0.03)
    np.testing.assert_allclose(bottoms, [0.0, -1.0, 0.0, 0.0], atol=0.03)


def test_sideways_categories_run_down_and_values_along_the_bottom() -> None:
    names = ["first", "second", "third", "fourth"]
    root = picture(
        plotted(Dots("a", range(4), Y, LOW, HIGH), x=Axis("", categories=names), sideways=True), WIDE
    )

    places = np.array([numbers(dot, "cx", "cy") for dot in found(root, "circle", "dot")])

    ticks = found(root, "text", "tick")
    assert names == [one.text for one in ticks if one.get("text-anchor") == "end"]
    assert (np.diff(places[:, 1]) > 0).all()
    slope, offset = reader(root, "x")
    np.testing.assert_allclose(slope * places[:, 0] + offset, Y, atol=0.002)


def test_marks_of_one_category_stand_side_by_side() -> None:
    axis = Axis("", categories=["one", "two"])
    root = picture(plotted(Dots("a", [0, 1], [1, 2]), Dots("b", [0, 1], [1, 2], tone=5), x=axis), WIDE)

    inner = [one for one in root.iter() if one.get("class", "").startswith("tone")][:2]
    first, second = ([numbers(dot, "cx")[0] for dot in found(group, "circle", "dot")] for group in inner)

    distance = first[1] - first[0]
    assert distance == pytest.approx(second[1] - second[0], abs=0.05)
    assert [0.37 * distance] * 2 == pytest.approx(
        [b - a for a, b in zip(first, second, strict=True)], abs=0.05
    )


def test_a_level_crosses_the_whole_plot_where_it_says() -> None:
    root = picture(plotted(Dots("a", X, Y), Level("base", 0.35), Level("", 3.0, of="x")), WIDE)

    # The first one with a key stands in the legend.
    lines = [numbers(line, "x1", "x2", "y1", "y2") for line in found(root, "line", "level")][:2]

    (a, b), (c, d) = reader(root, "x"), reader(root, "y")
    assert c * lines[0][2] + d == pytest.approx(0.35, abs=0.002)
    assert lines[0][2] == lines[0][3]
    assert a * lines[1][0] + b == pytest.approx(3.0, abs=0.02)
    assert lines[1][0] == lines[1][1]


def test_a_line_is_broken_where_a_number_is_missing() -> None:
    root = picture(plotted(Line("a", X, [0.3, None, float("nan"), 0.4])), WIDE)

    (line,) = found(root, "path", "line")

    assert 2 == line.attrib["d"].count("M")
    assert "L" not in line.attrib["d"]
    assert 2 == len(found(root, "circle", "dot"))


def test_units_are_equally_long_on_a_map() -> None:
    x, y = [0.0, 10.0, 0.0], [0.0, 0.0, 1.0]
    root = picture(plotted(Dots("a", x, y), equal=True), WIDE)

    places = np.array([numbers(dot, "cx", "cy") for dot in found(root, "circle", "dot")])

    assert places[1, 0] - places[0, 0] == pytest.approx(10 * (places[0, 1] - places[2, 1]), rel=0.01)


def test_the_legend_names_every_mark_once_in_rows_that_fit() -> None:
    names = [f"a rather long name, number {number}" for number in range(7)]
    root = picture(plotted(*(Line(name, X, Y) for name in names)), NARROW)

    keys = found(root, "text", "key")

    assert names == [key.text for key in keys]
    assert len({key.attrib["y"] for key in keys}) == 7
    # One mark needs no legend.
    assert [] == found(picture(plotted(Line("a", X, Y)), NARROW), "text", "key")


def test_marks_differ_in_shape_as_well_as_in_colour() -> None:
    root = picture(plotted(*(Dots(str(number), [1.0], [1.0]) for number in range(5))), WIDE)

    groups = {
        next(iter(group)).tag + str(next(iter(group)).get("points", "").count(","))
        for group in root.iter("g")
        if group.get("class", "").startswith("tone")
    }

    assert {"circle0", "polygon4", "polygon3"} <= groups


def test_nothing_to_draw_still_has_axes() -> None:
    root = picture(plotted(Dots("a", [None], [float("inf")])), WIDE)

    assert found(root, "line", "axis")
    assert [] == found(root, "circle", "dot")


def test_one_number_has_an_axis_around_it() -> None:
    root = picture(plotted(Dots("a", [3.0], [0.5])), WIDE)

    (dot,) = found(root, "circle", "dot")
    slope, offset = reader(root, "y")
    assert slope * numbers(dot, "cy")[0] + offset == pytest.approx(0.5, abs=0.01)


def test_a_file_is_one_image_with_its_own_style_in_light_and_dark(tmp_path: Path) -> None:
    plots = [plotted(Line("a & b", X, Y, LOW, HIGH)), plotted(Bars("<c>", X, Y)), plotted(Dots("d", X, Y))]

    drawing(*plots, columns=2).write(tmp_path / "some.svg")

    text = (tmp_path / "some.svg").read_text()
    root = fromstring(text)
    assert "{http://www.w3.org/2000/svg}svg" == root.tag
    assert 3 == sum(child.tag.endswith("svg") for child in root)
    assert "prefers-color-scheme: dark" in text
    assert text == drawing(*plots, columns=2).svg


def test_a_logarithmic_axis_takes_no_zero() -> None:
    with pytest.raises(ValueError, match="above zero of clusters"):
        picture(plotted(Dots("a", [0.0], [1.0]), x=Axis("clusters", log=True)), WIDE)


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        (Line("a", X, Y, LOW, HIGH), "expected a description of the intervals of 'a', found none"),
        (Dots("a", X, Y, low=LOW), "expected both ends of the intervals of 'a'"),
        (Bars("a", X, Y[:2]), "expected 4 values of 'a', found 2"),
    ],
)
def test_what_a_reader_could_not_understand_is_refused(mark: Line | Dots | Bars, sentence: str) -> None:
    told = "" if "found none" in sentence else "95 % intervals"

    with pytest.raises(ValueError, match=sentence):
        Plot("Title", "A sentence.", Axis("x"), Axis("y"), [mark], intervals=told)


def test_names_in_the_legend_do_not_run_into_each_other() -> None:
    names = ["NDCG@10", "MAP", "WWW", "iii", "as good"]
    root = picture(plotted(*(Dots(name, X, Y) for name in names)), WIDE)

    keys = found(root, "text", "key")

    ends = [float(key.attrib["x"]) + 8.0 * len(key.text or "") for key in keys[:2]]
    assert all(end < float(after.attrib["x"]) - 20 for end, after in zip(ends, keys[1:3], strict=True))


@pytest.mark.parametrize("width", [360.0, 720.0])
def test_a_label_below_long_names_stays_within_the_picture(width: float) -> None:
    long = Axis("feature", categories=["a very long name of a feature that takes much room"])
    plot = Plot(
        "t", "c", long, Axis("share of what features add to scores, %"), [Bars("", [0], [3])], sideways=True
    )

    labels = [
        one for one in found(picture(plot, width), "text", "label") if one.get("text-anchor") == "middle"
    ]

    assert labels
    for one in labels:
        # Letters are 7 pixels wide on average.
        assert float(one.get("x", 0)) + 7 * len(one.text or "") / 2 <= width


def test_an_axis_has_two_numbers_at_least() -> None:
    plot = Plot("t", "c", Axis("x"), Axis("y"), [Dots("", [-0.011, 0.189], [0, 1])])

    ticks = [one for one in found(picture(plot, 200.0), "text", "tick") if one.get("text-anchor") == "middle"]

    assert len(ticks) > 1
