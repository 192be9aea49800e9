"""Plots as files and as parts of a page: what a reader sees stands where the numbers say, in every window."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from localrank_training.report import Axis, Bars, Dots, Level, Line, Plot, png, svg
from localrank_training.report.plots import pictures

NASTY = "<script>alert(1)</script> & \"quotes\" 'of' \x00\x1b a $query$ 日本"
NAN = float("nan")
X, Y = [1.0, 2.0, 4.0, 8.0], [0.30, 0.42, 0.45, 0.40]
LOW, HIGH = [0.27, 0.40, 0.43, 0.33], [0.32, 0.47, 0.46, 0.44]
NAMES = ["a long name with many words that breaks", "short", NASTY, "incomprehensibilities,unbroken" * 9]
I = "over 9 queries"  # noqa: E741

PLOTS = {
    "curves": Plot("Curves", "Two.", Axis("clusters"), Axis("NDCG@10", unit="%"),
        [Line("local", X, Y, LOW, HIGH), Line("`global`", X, [0.41] * 4, dashed=True), Level("base", 0.36)], I),
    "gaps": Plot("Gaps", "A line breaks.", Axis("x"), Axis("y"),
        [Line("", range(4), [0.2, None, NAN, 0.5], [0.1, None, 0.3, NAN], [0.3, 0.4, 0.4, 0.5]),
         Dots("points", [None, 1, 2.5], [0.4, NAN, 0.44], hints=["first", "second", "third"])], I),
    "sideways": Plot(NASTY, NASTY, Axis("way", categories=NAMES), Axis(NASTY),
        [Dots("one", range(4), Y, LOW, HIGH), Bars("two", [0, 2], [0.2, -0.5], [0.1, -0.6], [0.3, -0.4]), Level("", 0.0),
         Level("of x", 1.5, of="x")], I, sideways=True),
    "many": Plot("Many", "", Axis("x", zero=True), Axis("y", categories=["low", "middle", "high"]),
        [Dots(f"kind number {one} {NASTY}", [one + 1], [one % 3]) for one in range(11)]),
    "histogram": Plot("Histogram", "", Axis("documents"), Axis("queries", high=10.0), [Bars("", [10, 20, 45], [3, 8, 1])]),
    "map": Plot("Map", "", Axis("first", ticks=()), Axis("second", ticks=()), [Dots("", [0, 50], [0, 2])], equal=True),
    "nothing": Plot("Nothing", "", Axis(""), Axis("", log=True), []),
}  # fmt: skip


def elements(text: str) -> ET.Element:
    return ET.fromstring(re.sub(' xmlns="[^"]*"', "", f"<div>{text.partition('?>')[2] or text}</div>"))


def written(picture: ET.Element, anchor: str = "") -> dict[str, tuple[float, float]]:
    """Where each text of one line stands."""
    return {
        "".join(one.itertext()): (float(one.attrib["x"]), float(one.attrib["y"]))
        for one in picture.iter("text")
        if "x" in one.attrib and anchor in one.attrib["style"]
    }


def points(picture: ET.Element) -> np.ndarray:
    return np.array([[float(one.attrib["x"]), float(one.attrib["y"])] for one in picture.iter("use")])


def along(picture: ET.Element, side: str, *, log: bool = False) -> np.ndarray:
    """Return what turns a place in the picture into a number, by the numbers that are written on an axis."""
    found = written(picture, "anchor: middle" if side == "x" else "anchor: end")
    numbers = {
        float(text.replace("−", "-").replace(",", "")): place["xy".index(side)]
        for text, place in found.items()
        if re.fullmatch(r"−?[\d.,]+", text)
    }
    values = np.array(list(numbers))
    turn: np.ndarray = np.polyfit(list(numbers.values()), np.log10(values) if log else values, 1)
    return turn


def drawn(plot: Plot) -> ET.Element:
    return elements(svg(plot))


def paths(picture: ET.Element, look: str) -> list[np.ndarray]:
    """The corners of every path whose style has this."""
    return [
        np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", one.attrib["d"]), float)
        for one in picture.iter("path")
        if look in one.get("style", "")
    ]


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_is_two_images_that_say_what_they_show(name: str) -> None:
    plot = PLOTS[name]

    found = elements(pictures(plot))

    label = f"{plot.title}. {plot.text}".replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
    assert [("img", label, "plot wide"), ("img", label, "plot narrow")] == [
        (one.get("role"), one.get("aria-label"), one.get("class")) for one in found
    ]
    assert [720.0, 360.0] == [float(one.attrib["width"]) for one in found]
    ids = [one.attrib["id"] for one in found.iter() if "id" in one.attrib]
    assert len(set(ids)) == len(ids)
    assert pictures(plot) == pictures(plot)


@pytest.mark.parametrize("name", PLOTS)
def test_colours_and_letters_are_the_page_s(name: str) -> None:
    styles = " ".join(one.get("style", "") for one in drawn(PLOTS[name]).iter())

    assert "font-family" not in styles
    assert not re.search("#[0-9a-f]{6}", styles)
    assert "var(--soft)" in styles or name in {"nothing", "map"}


@pytest.mark.parametrize("log", [False, True])
def test_points_stand_where_the_ticks_say(*, log: bool) -> None:
    x, y = [1.0, 10.0, 40.0], [0.02, 0.5, 1.5]
    picture = drawn(Plot("t", "c", Axis("x", log=log), Axis("y", log=log), [Dots("", x, y)]))

    across, up = along(picture, "x", log=log), along(picture, "y", log=log)
    found = points(picture)[-3:]

    np.testing.assert_allclose(np.polyval(across, found[:, 0]), np.log10(x) if log else x, atol=0.01)
    # The letters of a number stand a little below its place, all equally.
    off = np.polyval(up, found[:, 1]) - (np.log10(y) if log else y)
    np.testing.assert_allclose(off, off.mean(), atol=0.01)


@pytest.mark.parametrize("kind", [Dots, Bars])
def test_whiskers_reach_from_one_end_to_the_other_beside_their_category(kind: type[Dots | Bars]) -> None:
    plot = Plot("t", "c", Axis("k", categories=["one", "two"]), Axis("gain"),
                [kind("a", [0, 1], [1.0, 2.0], [0.5, 1.0], [1.5, 4.0]), kind("b", [0, 1], [3.0, 3.0])], I, sideways=True)  # fmt: skip
    picture = drawn(plot)
    gain = along(picture, "x")

    whiskers = [
        one for one in paths(picture, "stroke-width: 1.6") if len(one) == 2 and np.ptp(one[:, 0]) > 10
    ]

    np.testing.assert_allclose(
        [[0.5, 1.5], [1.0, 4.0]], [np.polyval(gain, one[:, 0]) for one in whiskers], atol=0.01
    )
    first, second = (written(picture)[name][1] for name in ("one", "two"))
    assert first < second
    assert abs(whiskers[0][0, 1] - first) < (second - first) / 3


def test_bars_begin_at_zero_and_the_band_of_a_line_lies_between_its_ends() -> None:
    bars = drawn(Plot("t", "c", Axis("x"), Axis("y"), [Bars("", [1, 2], [3.0, -1.0])]))
    up = along(bars, "y")
    boxes = [np.polyval(up, one[:, 1]) for one in paths(bars, "opacity: 0.8")]
    band = drawn(Plot("t", "c", Axis("x"), Axis("y"), [Line("", [0, 1], [1, 2], [0, 1], [2, 4])], I))
    shape = next(one.attrib["href"] for one in band.iter("use") if "opacity: 0.16" in one.attrib["style"])
    [corners] = [one.attrib["d"] for one in band.iter("path") if "#" + one.get("id", "") == shape]
    around = np.polyval(along(band, "y"), np.array(re.findall(r"[\d.]+ (-?[\d.]+)", corners), float))

    shift = boxes[0].min()
    np.testing.assert_allclose([3.0, -1.0], [boxes[0].max() - shift, boxes[1].min() - shift], atol=0.01)
    assert 4.0 == pytest.approx(around.max() - around.min(), abs=0.01)


def test_units_are_equally_long_on_a_map() -> None:
    picture = drawn(Plot("t", "c", Axis("a"), Axis("b"), [Dots("", [0, 3, 0], [0, 0, 3])], equal=True))
    first, right, above = points(picture)[-3:]

    assert right[0] - first[0] == pytest.approx(first[1] - above[1])


def test_marks_differ_in_shape_and_colour_and_a_line_is_broken_at_a_gap() -> None:
    picture = drawn(PLOTS["many"])
    looks = {(one.attrib["href"], one.attrib["style"]) for one in picture.iter("use")}
    [line] = [
        one.attrib["d"]
        for one in drawn(PLOTS["gaps"]).iter("path")
        if "stroke-width: 2" in one.get("style", "")
    ]

    assert 8 <= len(looks)
    assert 5 <= len({shape for shape, _ in looks})
    assert 2 == line.count("M")


def test_hints_belong_to_their_points_and_missing_points_are_left_out() -> None:
    hinted = [one for one in drawn(PLOTS["gaps"]).iter("use") if one.find("title") is not None]

    assert ["third"] == [one.findtext("title") for one in hinted]


def test_the_legend_names_every_mark_once_if_there_are_two() -> None:
    curves = list(written(drawn(PLOTS["curves"])))
    alone = "".join(drawn(Plot("t", "c", Axis("x"), Axis("y"), [Dots("alone", [1], [2])])).itertext())

    assert [1, 1, 1] == [curves.count(name) for name in ("local", "global", "base")]
    assert "alone" not in alone


@pytest.mark.parametrize(
    ("axis", "ends"),
    [(Axis("x", zero=True), (0.0, None)), (Axis("x", low=-10.0, high=50.0), (-10.0, 50.0))],
)
def test_an_axis_ends_where_it_should(axis: Axis, ends: tuple[float | None, float | None]) -> None:
    picture = drawn(Plot("t", "c", axis, Axis("y"), [Dots("", [20, 30], [1, 2])]))
    sides = next(one for one in picture.iter("clipPath"))[0].attrib
    left, wide = float(sides["x"]), float(sides["width"])
    found = np.polyval(along(picture, "x"), [left, left + wide])

    for expected, number in zip(ends, found, strict=True):
        assert expected is None or number == pytest.approx(expected, abs=0.1)


def test_a_file_holds_all_plots_with_their_titles_and_a_style_for_light_and_dark() -> None:
    text = svg(PLOTS["curves"], PLOTS["gaps"], PLOTS["map"], columns=2)
    alone = written(drawn(PLOTS["curves"]))

    root = ET.fromstring(text)
    places = {"".join(one.itertext()): one for one in elements(text).iter("text")}

    assert "{http://www.w3.org/2000/svg}svg" == root.tag
    assert ["title", "desc", "style"] == [one.tag.rpartition("}")[2] for one in root[:3]]
    assert "Curves; Gaps; Map" == root[0].text
    assert "prefers-color-scheme: dark" in (root[2].text or "")
    assert {"Curves", "Gaps", "Map"} <= places.keys()
    assert "Curves" not in alone
    assert png(PLOTS["curves"]).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("mark", "axis", "sentence"),
    [
        (
            Dots("a", [1], [2], [1], [3]),
            Axis("x"),
            "expected a description of the intervals of 'a', found none",
        ),
        (Line("a", [1, 2], [2]), Axis("x"), "expected 2 values of 'a', found 1"),
        (Dots("a", [0], [2]), Axis("n", log=True), "expected numbers above zero of n"),
    ],
)
def test_what_a_reader_could_not_understand_is_refused(mark: Line | Dots, axis: Axis, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Plot("t", "c", axis, Axis("y"), [mark])


def test_an_interval_has_two_ends() -> None:
    with pytest.raises(ValueError, match="expected both ends"):
        Plot("t", "c", Axis("x"), Axis("y"), [Dots("a", [1], [2], [1])], "i")


def test_the_table_of_a_plot_holds_all_numbers_of_its_marks() -> None:
    marks: list[Line | Dots | Level] = [
        Line("a", [0, 1], [0.5, None], [0.4, None], [0.6, None]),
        Dots("b", [1, None], [0.7, 0.8]),
        Level("base", 0.3),
        Level("", 0.1),
        Level("upright", 0.2, of="x"),
    ]
    plot = Plot(
        "t", "c", Axis("kind", categories=["one", "two"]), Axis("quality", unit="%"), marks, intervals="i"
    )

    assert (
        ["", "kind", "quality, %", "from", "to"],
        [
            ["a", "one", 0.5, 0.4, 0.6],
            ["a", "two", None, None, None],
            ["b", "two", 0.7, None, None],
            ["b", None, 0.8, None, None],
            ["base", None, 0.3, None, None],
        ],
    ) == plot.table()


def test_a_table_has_no_columns_for_names_and_intervals_that_there_are_not() -> None:
    plot = Plot("t", "c", Axis("x"), Axis("y"), [Dots("", [1.5], [2]), Level("base", 3)])

    assert (["x", "y"], [[1.5, 2]]) == plot.table()


@pytest.mark.parametrize(
    ("intervals", "said"), [("", "c"), ("over 3 queries", "c Over 3 queries."), ("X.", "c X.")]
)
def test_the_sentence_of_a_plot_says_what_its_intervals_are(intervals: str, said: str) -> None:
    assert said == Plot("t", "c", Axis("x"), Axis("y"), [], intervals=intervals).text
