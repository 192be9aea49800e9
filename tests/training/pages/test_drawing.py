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


@pytest.mark.parametrize("width", [720.0, 360.0])
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


def texts(root: Element, kind: str, anchor: str | None = None) -> list[Element]:
    return [one for one in found(root, "text", kind) if anchor is None or one.get("text-anchor") == anchor]


def frame(root: Element) -> tuple[float, float, float, float]:
    """Return left, right, top and bottom of the two axes."""
    below, beside = (numbers(line, "x1", "x2", "y1", "y2") for line in found(root, "line", "axis"))
    assert (below[0], below[2], below[3]) == (beside[0], beside[3], beside[3])
    assert beside[0] == beside[1]
    return below[0], below[1], beside[2], below[3]


#: A row of text takes 18 pixels, a digit 7.6, a point 4.8.
BETWEEN = [0.0, 1.0]


@pytest.mark.parametrize(
    ("names", "label", "width", "rooms"),
    [
        # Room above: 4 without a legend, a row and 6 with one; a row and 4 for the label; 6. It is 0.42 of the width high.
        # Below: 6, a row of numbers, a row for the label, 4.
        (("a",), "quality", 720.0, (4 + 18 + 4 + 6, 0.42 * 720, 6 + 18 + 18 + 4)),
        (("a", "b"), "quality", 720.0, (18 + 6 + 18 + 4 + 6, 0.42 * 720, 6 + 18 + 18 + 4)),
        # On a phone it is 200 pixels high.
        (("a", "b"), "quality", 360.0, (18 + 6 + 18 + 4 + 6, 200, 6 + 18 + 18 + 4)),
        (("a",), "", 720.0, (4 + 6, 0.42 * 720, 6 + 18 + 4)),
    ],
)
def test_legend_label_marks_numbers_and_label_stand_below_each_other(
    names: tuple[str, ...], label: str, width: float, rooms: tuple[float, float, float]
) -> None:
    above, height, below = rooms
    marks = [Dots(name, BETWEEN, BETWEEN) for name in names]
    root = picture(Plot("t", "c", Axis(label), Axis(label), marks), width)

    left, right, top, bottom = frame(root)
    assert [above, height] == pytest.approx([top, bottom - top])
    assert bottom + below == pytest.approx(float(root.attrib["height"]))
    # The widest number is 0.25 or 0.2; 8 pixels are between it and the axis, 6 at the border, 14 on the right.
    widest = max(len(one.text or "") - 1 for one in texts(root, "tick", "end")) * 7.6 + 4.8
    assert [14 + widest, width - 14] == pytest.approx([left, right])
    assert {left - 8} == {float(one.attrib["x"]) for one in texts(root, "tick", "end")}
    assert [bottom + 18] * 2 == pytest.approx(
        [float(texts(root, "tick", "middle")[k].attrib["y"]) for k in (0, -1)]
    )
    labels = [numbers(one, "x", "y") for one in texts(root, "label")]
    expected = [[4, top - 10], [(left + right) / 2, bottom + 6 + 18 + 12]] if label else []
    np.testing.assert_allclose(np.ravel(labels), np.ravel(expected), atol=0.01)
    for key in texts(root, "key"):
        # In the middle of the first row, 2 pixels lower; a third of a letter is above the base.
        assert 18 / 2 + 2 + 0.35 * 12 == pytest.approx(float(key.attrib["y"]))
    # Grid and background: a line for each number, right across; what is drawn may stand out by 6 pixels.
    lines = [numbers(line, "x1", "x2", "y1", "y2") for line in found(root, "line", "grid")]
    assert {(left, right)} == {(one[0], one[1]) for one in lines if one[2] == one[3]}
    assert {(top, bottom)} == {(one[2], one[3]) for one in lines if one[0] == one[1]}
    assert len(texts(root, "tick")) == len(lines)
    (inner,) = [one for one in root if one.tag == "svg"]
    assert [left - 6, top - 6, right - left + 12, bottom - top + 12] == pytest.approx(
        numbers(inner, "x", "y", "width", "height"), abs=0.01
    )
    np.testing.assert_allclose(np.array(inner.attrib["viewBox"].split(), float),
                               numbers(inner, "x", "y", "width", "height"), atol=0.01)  # fmt: skip
    assert f"0 0 {width:g} {float(root.attrib['height']):g}" == root.attrib["viewBox"]
    assert width == float(root.attrib["width"])


@pytest.mark.parametrize(
    ("width", "upright", "level"),
    [
        # One number for 40 pixels of height, 5 at least: 7 steps of 302 pixels are a fifth each, 5 of 200 are a half.
        (720.0, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"], 11),
        (360.0, ["0", "0.5", "1.0"], 5),
        # One for 52 pixels of width, 3 at least.
        (120.0, ["0", "0.5", "1.0"], 2),
    ],
)
def test_there_are_as_many_numbers_as_there_is_room_for(width: float, upright: list[str], level: int) -> None:
    root = picture(plotted(Dots("a", BETWEEN, BETWEEN)), width)

    assert upright == [one.text for one in texts(root, "tick", "end")]
    assert level == len(texts(root, "tick", "middle"))


def test_an_axis_without_numbers_needs_no_room_for_them() -> None:
    plot = Plot("t", "c", Axis("one", ticks=[]), Axis("two", ticks=[]), [Dots("", BETWEEN, BETWEEN)])
    root = picture(plot, WIDE)

    left, _, _, bottom = frame(root)
    assert [] == texts(root, "tick")
    assert 14.0 == left
    # The label is a row, 6 pixels below.
    assert bottom + 6 + 18 == pytest.approx(float(root.attrib["height"]))
    assert bottom + 4 + 12 == pytest.approx(float(texts(root, "label")[1].attrib["y"]))


def test_chosen_numbers_are_written_if_they_are_within_the_axis() -> None:
    plot = Plot("t", "c", Axis("x", ticks=[-5.0, 0.0, 0.5, 7.0]), Axis("y"), [Dots("", BETWEEN, BETWEEN)])

    assert ["0", "0.5"] == [one.text for one in texts(picture(plot, WIDE), "tick", "middle")]


@pytest.mark.parametrize(
    ("axis", "low", "high"),
    [
        # A twenty-fifth of the distance is left free on both sides, unless zero is the end.
        (Axis("x"), 2 - 0.04 * 8, 10 + 0.04 * 8),
        (Axis("x", zero=True), 0.0, 10 + 0.04 * 10),
        (Axis("x", low=1.0, high=20.0), 1.0, 20.0),
        # Of a logarithmic axis it is three hundredths: (10 / 2) ^ 0.03.
        (Axis("x", log=True), 2 / 5**0.03, 10 * 5**0.03),
    ],
)
def test_an_axis_ends_a_little_beyond_the_numbers(axis: Axis, low: float, high: float) -> None:
    root = picture(plotted(Dots("a", [2.0, 5.0, 10.0], [0.1, 0.2, 0.3]), x=axis), WIDE)

    left, right, _, _ = frame(root)
    places = np.array([numbers(dot, "cx")[0] for dot in found(root, "circle", "dot")])
    of = np.log if axis.log else np.positive
    shares = (of([2.0, 5.0, 10.0]) - of(low)) / (of(high) - of(low))
    np.testing.assert_allclose((places - left) / (right - left), shares, atol=1e-4)


@pytest.mark.parametrize(("log", "low", "high"), [(False, 2.5, 3.5), (True, 1.5, 6.0)])
def test_one_number_stands_in_the_middle_of_its_axis(*, log: bool, low: float, high: float) -> None:
    # Around 3 half a unit is left, or half and twice of it; of (6 / 1.5) ^ 0.03 or a twenty-fifth besides.
    room = 4**0.03 if log else 0.04
    ends = (low / room, high * room) if log else (low - room, high + room)
    root = picture(plotted(Dots("a", [3.0], [0.5]), Level("", 3.2, of="x"), x=Axis("x", log=log)), WIDE)
    alone = picture(plotted(Dots("a", [3.0], [0.5]), x=Axis("x", log=log)), WIDE)

    left, right, _, _ = frame(alone)
    (dot,) = found(alone, "circle", "dot")
    assert (left + right) / 2 == pytest.approx(numbers(dot, "cx")[0], abs=0.01)
    written = [float(one.text or "") for one in texts(alone, "tick", "middle")]
    assert ends[0] <= min(written) < 3 < max(written) <= ends[1]
    # A level counts, too: now the number is left of the middle.
    left, right, _, _ = frame(root)
    assert numbers(found(root, "circle", "dot")[0], "cx")[0] < left + 0.1 * (right - left)


def test_bars_that_hang_down_end_at_the_upper_border() -> None:
    root = picture(plotted(Bars("a", [1.0, 2.0], [-3.0, -4.0])), WIDE)

    _, _, top, bottom = frame(root)
    boxes = [numbers(box, "y", "height") for box in found(root, "rect", "bar")]
    np.testing.assert_allclose([y for y, _ in boxes], top, atol=0.01)
    np.testing.assert_allclose(
        [h for _, h in boxes], [(bottom - top) * 3 / 4.16, (bottom - top) * 4 / 4.16], atol=0.01
    )


@pytest.mark.parametrize(
    ("names", "marks", "each"),
    [
        # 16 pixels for a category and 9 for each mark, and as much as its lines need: 18 each, and 6.
        (["a", "b", "c"], 1, 16 + 9),
        (["a", "b", "c"], 3, 16 + 3 * 9),
        (["a", "much too long for a row of them", "c"], 1, 2 * 18 + 6),
    ],
)
def test_sideways_categories_have_room_for_their_marks_and_names(
    names: list[str], marks: int, each: float
) -> None:
    dots = [Dots(f"m{number}", [0, 1, 2], [1, 2, 3]) for number in range(marks)]
    plot = plotted(*dots, Level("", 2.0), x=Axis("", categories=names), sideways=True)
    root = picture(plot, NARROW)

    left, right, top, bottom = frame(root)
    assert 3 * each == pytest.approx(bottom - top)
    # A name is at most 0.42 of the width long and stands around the middle of its place; lines are 0.8 rows apart.
    ticks = texts(root, "tick", "end")
    assert left <= 14 + 0.42 * NARROW
    for place, name in enumerate(names):
        rows = [
            float(one.attrib["y"]) for one in ticks if (one.text or "") in name and len(one.text or "") > 1
        ]
        rows = rows or [float(one.attrib["y"]) for one in ticks if one.text == name]
        assert top + (place + 0.5) * each + 0.35 * 12 == pytest.approx(np.mean(rows), abs=0.01)
        np.testing.assert_allclose(np.diff(rows), 0.8 * 18, atol=0.01)
    # The marks of a place stand around its middle.
    shapes = [one for one in root.iter() if one.get("class") == "dot" and one.tag == "circle"]
    if marks == 1:
        assert [top + (k + 0.5) * each for k in range(3)] == pytest.approx(
            [numbers(one, "cy")[0] for one in shapes]
        )
    # Categories have no grid.
    assert [] == [one for one in found(root, "line", "grid") if one.get("y1") == one.get("y2")]
    (level,) = found(root, "line", "level")
    assert [top, bottom] == numbers(level, "y1", "y2")
    assert left < numbers(level, "x1")[0] == numbers(level, "x2")[0] < right


def test_sideways_numbers_have_room() -> None:
    root = picture(plotted(Dots("a", X, Y), sideways=True), NARROW)

    _, _, top, bottom = frame(root)
    assert 300 == pytest.approx(bottom - top)


def test_a_map_is_0_72_of_its_width_high() -> None:
    root = picture(plotted(Dots("a", X, Y), equal=True), WIDE)

    left, right, top, bottom = frame(root)
    places = np.array([numbers(dot, "cx", "cy") for dot in found(root, "circle", "dot")])
    assert 0.72 * WIDE == pytest.approx(bottom - top)
    # The numbers reach across, with a twenty-fifth on both sides, and stand in the middle of the height.
    assert (right - left) / 1.08 == pytest.approx(np.ptp(places[:, 0]), abs=0.02)
    assert (top + bottom) / 2 == pytest.approx((places[:, 1].max() + places[:, 1].min()) / 2, abs=0.02)


@pytest.mark.parametrize("sideways", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_bars_of_a_category_take_0_74_of_its_place_and_a_tenth_is_free_between_them(
    count: int, *, sideways: bool
) -> None:
    names = [str(number) for number in range(12)]
    bars = [Bars(f"b{number}", range(12), range(1, 13)) for number in range(count)]
    root = picture(plotted(*bars, x=Axis("", categories=names), sideways=sideways), WIDE)

    left, right, top, bottom = frame(root)
    place = (bottom - top if sideways else right - left) / 12
    (at, long), (base, reach) = (
        (("y", "height"), ("x", "width")) if sideways else (("x", "width"), ("y", "height"))
    )
    boxes = [box for group in root.iter("g") for box in found(group, "rect", "bar") if len(group) == 12]
    thick = min(0.9 * 0.74 * place / count, 36.0)
    np.testing.assert_allclose([numbers(box, long)[0] for box in boxes], thick, atol=0.01)
    begin = top if sideways else left
    middles = np.array([numbers(box, at)[0] + thick / 2 for box in boxes]).reshape(count, 12)
    np.testing.assert_allclose(
        middles.mean(axis=0), [begin + (k + 0.5) * place for k in range(12)], atol=0.01
    )
    np.testing.assert_allclose(np.diff(middles, axis=0), 0.74 * place / 2, atol=0.01)
    ends = np.array([numbers(box, base, reach) for box in boxes])
    np.testing.assert_allclose(ends[:, 1] / ends[0, 1], np.tile(range(1, 13), count), atol=0.01)
    assert ({left} if sideways else {round(bottom, 2)}) == set(
        np.round(ends[:, 0] + (0 if sideways else ends[:, 1]), 2)
    )


@pytest.mark.parametrize(
    ("places", "thick"),
    [
        # 0.9 of 0.8 of the least distance, of 24 pixels if there is none; never more than 36 pixels.
        ([1.0], 0.9 * 0.8 * 24 / 0.8),
        ([1.0, 100.0], 36.0),
    ],
)
def test_bars_of_numbers_are_no_thicker_than_36_pixels(places: list[float], thick: float) -> None:
    root = picture(plotted(Bars("a", places, [1.0] * len(places))), WIDE)

    assert {round(thick if len(places) > 1 else 0.9 * 0.8 * 24.0, 2)} == {
        numbers(box, "width")[0] for box in found(root, "rect", "bar")
    }


def test_bars_of_numbers_leave_a_fifth_of_the_least_distance_free() -> None:
    root = picture(plotted(Bars("a", [0.0, 50.0, 52.0, 100.0], [1.0] * 4)), WIDE)

    left, right, _, _ = frame(root)
    apart = (right - left) * 2 / 108
    assert [0.9 * 0.8 * apart] * 4 == pytest.approx(
        [numbers(box, "width")[0] for box in found(root, "rect", "bar")], abs=0.01
    )


@pytest.mark.parametrize("sideways", [False, True])
def test_a_whisker_has_a_cap_of_six_pixels_at_each_end(*, sideways: bool) -> None:
    root = picture(plotted(Dots("a", X, Y, [None, *LOW[1:]], HIGH), sideways=sideways), WIDE)

    lines = np.array([numbers(one, "x1", "x2", "y1", "y2") for one in found(root, "line", "whisker")])
    if sideways:
        lines = lines[:, [2, 3, 0, 1]]
    stems, caps = lines[0::3], np.stack([lines[1::3], lines[2::3]])
    # The first has one end only.
    assert 3 == len(stems)
    np.testing.assert_allclose(stems[:, 0], stems[:, 1])
    for end, cap in enumerate(caps):
        np.testing.assert_allclose(cap[:, 0], stems[:, 0] - 3, atol=0.011)
        np.testing.assert_allclose(cap[:, 1], stems[:, 0] + 3, atol=0.011)
        np.testing.assert_allclose(cap[:, 2:].T, [stems[:, 2 + end]] * 2)
    assert not found(root, "line", "over")
    assert found(picture(plotted(Bars("a", X, Y, LOW, HIGH)), WIDE), "line", "over")


def test_points_of_all_shapes_are_about_as_large_and_stand_around_their_place() -> None:
    root = picture(plotted(*(Dots("", [1.0], [1.0], radius=10.0) for _ in range(5))), WIDE)

    circle, *polygons = [one for one in root.iter() if one.get("class") == "dot"]
    x, y, r = numbers(circle, "cx", "cy", "r")
    assert 10.0 == r
    for shape, polygon in enumerate(polygons):
        xs, ys = np.array([point.split(",") for point in polygon.attrib["points"].split()], float).T
        area = abs(np.dot(xs, np.roll(ys, 1)) - np.dot(ys, np.roll(xs, 1))) / 2
        assert 0.79 < area / (np.pi * r**2) < 1.01
        assert [x, x] == pytest.approx([xs.mean(), (xs.min() + xs.max()) / 2], abs=0.06)
        assert ys.min() < y - 0.85 * r
        assert ys.max() > y + 0.85 * r
        # A square, a triangle that points up, a diamond, a triangle that points down.
        assert [2, 1, 1, 2][shape] == np.count_nonzero(ys == ys.min())
        assert [2, 2, 1, 1][shape] == np.count_nonzero(ys == ys.max())
    square = np.array([point.split(",") for point in polygons[0].attrib["points"].split()], float)
    assert np.ptp(square[:, 0]) == pytest.approx(np.ptp(square[:, 1]))
    assert np.ptp(square[:, 0]) ** 2 == pytest.approx(np.pi * r**2, rel=0.01)


def test_colours_repeat_after_eight_and_a_tone_is_taken_as_it_is() -> None:
    marks: list[Dots | Line] = [*(Dots(f"m{k}", [1.0], [1.0]) for k in range(9)), Line("line", X, Y, tone=12)]
    root = picture(plotted(*marks), WIDE)

    tones = [group.attrib["class"] for group in root.iter("g")]
    expected = [*(f"tone{k}" for k in range(8)), "tone0", "tone4"]
    # Once for the marks, once for the legend.
    assert expected * 2 == tones


def test_keys_of_the_legend_look_like_their_marks() -> None:
    marks: list[Line | Dots | Bars | Level] = [
        Line("line", X, Y, dashed=True),
        Line("bare", X, Y, dots=False),
        Bars("bars", X, Y),
        Dots("dots", X, Y, tone=0, radius=9.0),
        Level("level", 0.3),
    ]
    root = picture(plotted(*marks), WIDE)

    groups = list(root.iter("g"))[len(marks) :]
    keys = texts(root, "key")
    # From 4 pixels on, each is 26 wide and its name, and 16 are free: narrow letters take 4.8, wide ones 11, others 7.6.
    lengths = [2 * 4.8 + 2 * 7.6, 4 * 7.6, 4 * 7.6, 2 * 7.6 + 4.8 + 7.6, 2 * 4.8 + 3 * 7.6]
    starts = 4 + np.concatenate([[0.0], np.cumsum([26 + length + 16 for length in lengths])[:-1]])
    np.testing.assert_allclose([numbers(key, "x")[0] for key in keys], starts + 26, atol=0.011)
    middle = float(keys[0].attrib["y"]) - 0.35 * 12
    kinds = [[(one.tag, one.get("class")) for one in group] for group in groups]
    assert [
        [("path", "line dashed"), ("circle", "dot")],
        [("path", "line")],
        [("rect", "bar")],
        [("circle", "dot")],
        [("line", "level")],
    ] == kinds
    for group, start in zip(groups[:2], starts, strict=False):
        path = np.array(group[0].attrib["d"].replace("M", "").replace("L", "").split(), float)
        np.testing.assert_allclose(path, [start, middle, start + 20, middle], atol=0.01)
    assert [starts[0] + 10, middle, 3.2] == pytest.approx(numbers(groups[0][1], "cx", "cy", "r"), abs=0.011)
    assert [starts[2] + 4, middle - 5, 12, 10] == pytest.approx(
        numbers(groups[2][0], "x", "y", "width", "height"), abs=0.011
    )
    assert [starts[3] + 10, middle, 4] == pytest.approx(numbers(groups[3][0], "cx", "cy", "r"), abs=0.011)
    assert [starts[4], starts[4] + 20, middle, middle] == pytest.approx(
        numbers(groups[4][0], "x1", "x2", "y1", "y2"), abs=0.011
    )
    drawn = list(root.iter("g"))[: len(marks)]
    # The first line is dashed and has points, the second is neither.
    assert (["path", *["circle"] * 4], ["path"]) == tuple([one.tag for one in group] for group in drawn[:2])
    assert {3.2} == {numbers(one, "r")[0] for one in drawn[0][1:]}
    assert ["line dashed", "line"] == [group[0].get("class") for group in drawn[:2]]


def test_a_row_of_the_legend_is_filled_before_the_next_begins() -> None:
    # Each takes 26 + 10 x 7.6 + 16 = 118 of 360 pixels, after the first 4: three fit to the pixel, and so do three more.
    names = ["aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc", "dddddddddd", "eeeeeeeeee"]
    root = picture(plotted(*(Line(name, X, Y) for name in names)), 358.0)

    keys = [numbers(key, "x", "y") for key in texts(root, "key")]

    x, y = 4 + 26, 15.2
    expected = [[x, y], [x + 118, y], [x + 236, y], [x, y + 18], [x + 118, y + 18]]
    np.testing.assert_allclose(keys, expected, atol=0.011)
    _, _, top, _ = frame(root)
    assert 2 * 18 + 6 + 18 + 4 + 6 == pytest.approx(top)


def test_hints_belong_to_their_points_and_missing_points_are_left_out() -> None:
    root = picture(plotted(Dots("a", [1.0, None, 3.0], [1.0, 2.0, 3.0], hints=["one", "two", "three"])), WIDE)

    assert ["one", "three"] == [one[0].text for one in found(root, "circle", "dot")]


def test_a_band_needs_two_intervals_and_leaves_out_those_without_an_end() -> None:
    low: list[float | None] = [0.1, None, 0.3, 0.4]
    whole = picture(plotted(Line("a", X, Y, low, HIGH)), WIDE)
    alone = picture(plotted(Line("a", X[:1], Y[:1], LOW[:1], HIGH[:1])), WIDE)

    (band,) = found(whole, "polygon", "band")
    assert 6 == len(band.attrib["points"].split())
    assert [] == found(alone, "polygon", "band")


def test_a_long_text_is_broken_at_spaces_and_a_long_word_is_cut() -> None:
    names = ["a few words that are short", "m" * 40, "ab"]
    plot = plotted(Dots("a", [0, 1, 2], [1, 2, 3]), x=Axis("", categories=names))
    root = picture(plot, WIDE)

    left, right, _, bottom = frame(root)
    ticks = texts(root, "tick", "middle")
    room = (right - left) / 3 - 4
    middles = [left + (k + 0.5) * (right - left) / 3 for k in range(3)]
    by_place = [
        [one for one in ticks if numbers(one, "x")[0] == pytest.approx(at, abs=0.01)] for at in middles
    ]
    assert names[0] == " ".join(one.text or "" for one in by_place[0])
    # Wide letters and the dots take 11 pixels: as many as fit, and the next would not.
    (cut,) = by_place[1]
    assert "m" * int(room / 11 - 1) + "…" == cut.text
    assert ["ab"] == [one.text for one in by_place[2]]
    assert [bottom + 18] == [numbers(one, "y")[0] for one in by_place[2]]


def test_lines_of_a_category_take_rows_above_the_label() -> None:
    names = ["many words which need some rows", "b", "c", "e"]
    root = picture(
        Plot("t", "c", Axis("label", categories=names), Axis("y"), [Bars("", range(4), range(4))]), NARROW
    )

    _, _, _, bottom = frame(root)
    first, *others = [one for one in texts(root, "tick", "middle") if len(one.text or "") > 1]
    rows = 1 + len(others)
    assert rows > 2
    assert [bottom + 18 + 0.8 * 18 * k for k in range(rows)] == pytest.approx(
        [numbers(one, "y")[0] for one in (first, *others)], abs=0.011
    )
    label = texts(root, "label", "middle")[0]
    assert bottom + 6 + rows * 18 + 12 == pytest.approx(numbers(label, "y")[0], abs=0.011)
    assert bottom + 6 + rows * 18 + 18 + 4 == pytest.approx(float(root.attrib["height"]), abs=0.011)


def test_a_label_of_two_lines_ends_above_the_marks() -> None:
    long = "a label of many words that does not fit into one line of a phone at all"
    root = picture(Plot("t", "c", Axis("x"), Axis(long), [Dots("", X, Y)]), NARROW)

    _, _, top, _ = frame(root)
    lines = [one for one in texts(root, "label") if one.get("text-anchor") is None]
    assert long == " ".join(one.text or "" for one in lines)
    assert [top - 10 - 18, top - 10] == pytest.approx([numbers(one, "y")[0] for one in lines], abs=0.011)
    assert 4 + 2 * 18 + 4 + 6 == pytest.approx(top)


def test_a_short_label_stands_below_the_middle_of_the_axis_and_a_long_one_within_the_picture() -> None:
    names = ["a name of much room for one"]
    marks = [Bars("", [0], [3])]
    label = "exactly so long a label that it fits in there"
    root = picture(Plot("t", "c", Axis("", categories=names), Axis(label), marks, sideways=True), NARROW)

    (text,) = texts(root, "label", "middle")
    width = sum(4.8 if letter in " ijltf" else 7.6 for letter in label)
    left, right, _, _ = frame(root)
    assert (left + right) / 2 > 360 - width / 2 - 4
    assert 360 - width / 2 - 4 == pytest.approx(numbers(text, "x")[0], abs=0.011)


def test_plots_of_a_file_stand_in_columns_below_their_titles() -> None:
    plots = [plotted(Line("a", X, Y)), plotted(Dots("b", X, Y), equal=True), plotted(Bars("c", X, Y))]
    root = fromstring(drawing(*plots, columns=2, width=800.0).svg)

    drawn = [one for one in root if one.tag.endswith("svg")]
    heights = [float(one.get("height", 0)) for one in drawn]
    # A title takes a row and 6 pixels; 12 are free below each row, which is as high as its highest plot.
    second = 24 + max(heights[:2]) + 12
    assert heights[1] > heights[0]
    assert [(0, 24), (400, 24), (0, second + 24)] == ([
        (numbers(one, "x")[0], numbers(one, "y")[0]) for one in drawn
    ])  # fmt: skip
    names = texts(root, "name")
    assert [(4, 16), (404, 16), (4, second + 16)] == ([
        (numbers(one, "x")[0], numbers(one, "y")[0]) for one in names
    ])  # fmt: skip
    whole = second + 24 + heights[2] + 12
    assert [800, whole] == pytest.approx(numbers(root, "width", "height"))
    assert f"0 0 800 {whole:g}" == root.attrib["viewBox"]
    (paper,) = found(root, "rect", "paper")
    assert [800, whole] == pytest.approx(numbers(paper, "width", "height"))


def test_one_plot_of_a_file_has_no_title_above_it() -> None:
    plot = plotted(Line("a", X, Y))
    root = fromstring(drawing(plot).svg)

    assert [] == texts(root, "name")
    (inner,) = [one for one in root if one.tag.endswith("svg")]
    assert [0.0, 0.0] == numbers(inner, "x", "y")
    assert WIDE == numbers(inner, "width")[0]
    assert numbers(inner, "height") == numbers(root, "height")


def test_long_names_of_a_wide_plot_take_260_pixels_at_most() -> None:
    # 30 letters of 7.6 and a space of 4.8 are 232.8 pixels, and so are each further 31; three words would be 347.
    names = [f"{'a' * 15} {'b' * 15} {'c' * 15}", "b"]
    root = picture(plotted(Dots("", [0, 1], [1, 2]), x=Axis("", categories=names), sideways=True), WIDE)

    assert [f"{'a' * 15} {'b' * 15}", "c" * 15, "b"] == [one.text for one in texts(root, "tick", "end")]
    assert 14 + 30 * 7.6 + 4.8 == pytest.approx(frame(root)[0], abs=0.01)


def test_names_of_two_letters_are_never_cut() -> None:
    names = [f"m{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    root = picture(plotted(Dots("", range(26), range(26)), x=Axis("", categories=names)), NARROW)

    assert names == [one.text for one in texts(root, "tick", "middle")]


def test_plots_stand_below_each_other_if_nothing_else_is_said() -> None:
    root = fromstring(drawing(plotted(Line("a", X, Y)), plotted(Bars("b", X, Y))).svg)

    drawn = [one for one in root if one.tag.endswith("svg")]
    assert [(0, 720), (0, 720)] == [tuple(numbers(one, "x", "width")) for one in drawn]
    assert numbers(drawn[1], "y") > numbers(drawn[0], "y")
