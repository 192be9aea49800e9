"""Pages are whole, safe and self-contained."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from localrank_training.report import (
    Axis,
    Dots,
    Facts,
    Folded,
    Items,
    Level,
    Line,
    Page,
    Plot,
    Pre,
    Section,
    Table,
)

NASTY = "<script>alert(1)</script> & \"quotes\" 'of' \x00\x1b a query"
#: Elements without an end.
VOID = {"meta", "br", "hr", "img", "input", "link"}

PLOT = Plot(
    f"Plot {NASTY}",
    f"Sentence {NASTY}.",
    Axis(NASTY, unit="ms"),
    Axis(NASTY),
    [Line(NASTY, [1, 2, 3], [0.1, 0.2, None], [0.05, 0.1, None], [0.15, 0.3, None]), Level("base", 0.15)],
    intervals="95 % intervals",
)
PAGE = Page(
    f"Title {NASTY}",
    f"Lead {NASTY} with `code < 3`",
    [
        NASTY,
        Facts([(NASTY, 0.12345, NASTY), ("queries", 12_345, "")]),
        Section(
            NASTY,
            [
                PLOT,
                Table(NASTY, ["name", "value"], [[NASTY, 0.5], ["b", None], ["c", -1.0]], NASTY),
                Section("Deeper", ["text"]),
            ],
        ),
        Pre(NASTY),
        Items([NASTY, "second"]),
        Folded(NASTY, [Pre(NASTY), Table(NASTY, ["name", ""], [[NASTY, 1]])]),
    ],
    NASTY,
)


class Walk(HTMLParser):
    """Follows a page as a browser would."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append((tuple(self.open), data))

    def inside(self, tag: str) -> list[str]:
        return [text for path, text in self.texts if path and path[-1] == tag]


@pytest.fixture(scope="module")
def walk() -> Walk:
    return Walk(PAGE.html())


def test_every_element_ends_where_it_should(walk: Walk) -> None:
    assert [] == walk.open
    assert PAGE.html().startswith("<!DOCTYPE html>\n<html")


def test_no_text_becomes_an_element(walk: Walk) -> None:
    assert "script" not in {tag for tag, _ in walk.tags}
    assert any("<script>alert(1)</script>" in text for text in walk.inside("td"))
    assert not re.search("[\x00-\x08\x0b-\x1f]", PAGE.html())


def test_the_page_asks_nobody_for_anything(walk: Walk) -> None:
    for tag, attributes in walk.tags:
        assert tag not in {"script", "link", "img", "iframe", "object", "a", "image"}
        assert not {name for name in attributes if name in {"src", "srcset"} or name.startswith("on")}
        assert (attributes.get("href") or "#").startswith("#")
    style = "".join(walk.inside("style"))
    assert "url(" not in style
    assert "@import" not in style
    policy = dict(walk.tags[[tag for tag, _ in walk.tags].index("meta") + 3][1])
    assert "default-src 'none'; style-src 'unsafe-inline'" == policy["content"]


def test_the_style_follows_the_readers_setting_and_the_printer(walk: Walk) -> None:
    style = "".join(walk.inside("style"))

    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style
    assert style.count("{") == style.count("}")


def test_a_plot_is_there_for_a_screen_and_for_a_phone_with_its_sentence_and_numbers(walk: Walk) -> None:
    drawn = [attributes for tag, attributes in walk.tags if tag == "svg" and attributes.get("role") == "img"]

    assert ["plot wide", "plot narrow"] == [one["class"] for one in drawn]
    assert all("Sentence" in (one["aria-label"] or "") for one in drawn)
    assert any("95 % intervals." in text for text in walk.inside("figcaption"))
    cells = walk.inside("td")
    assert {"0.1000", "0.2000", "0.0500", "0.3000"} <= set(cells)


def test_text_between_backticks_is_code(walk: Walk) -> None:
    assert ["code < 3"] == walk.inside("code")


def test_headings_go_down_one_level_at_a_time(walk: Walk) -> None:
    assert ["h1", "h2", "h3"] == [tag for tag, _ in walk.tags if re.fullmatch("h[1-6]", tag)]


def test_figures_have_four_digits_and_counts_have_commas(walk: Walk) -> None:
    figures = walk.inside("dd")

    assert "0.1235" in figures
    assert "12,345" in figures


def test_lists_and_folded_parts_hold_what_they_are_given(walk: Walk) -> None:
    assert 2 == len(walk.inside("li"))
    folded = [path for path, text in walk.texts if "script" in text and path[-2:] == ("details", "pre")]
    assert 1 == len(folded)


def test_a_column_without_a_name_has_no_header() -> None:
    walk = Walk(Page("T", "L", [Table("t", ["a", ""], [["x", 1]])]).html())

    assert ["th", "td", "td", "td"] == [tag for tag, _ in walk.tags if tag in {"th", "td"}]


def test_columns_of_numbers_stand_by_their_last_digit() -> None:
    rows: list[list[object]] = [["a", 1.0, "+0.0100 [−0.01, +0.03]", 3], ["12", None, "−0.0100 ± 0.02", None]]
    walk = Walk(Page("T", "L", [Table("t", ["a", "b", "c", "d"], rows)]).html())

    assert ["text", "number", "number", "number"] == [
        attributes["class"] for tag, attributes in walk.tags if tag == "th"
    ]
    assert "−" in "".join(walk.inside("td"))
    assert 2 == walk.inside("td").count("–")


def test_the_same_page_has_the_same_bytes() -> None:
    assert PAGE.html() == PAGE.html()


def test_numbers_are_left_out_if_a_table_of_the_page_has_them() -> None:
    with_numbers, without = (
        Walk(
            Page(
                "T", "L", [Plot("t", "c", Axis("x"), Axis("y"), [Dots("", [1], [2])], numbers=numbers)]
            ).html()
        )
        for numbers in (True, False)
    )

    assert ["The numbers"] == with_numbers.inside("summary")
    assert [] == without.inside("summary")


def test_headings_end_at_the_sixth_level() -> None:
    part: Section | str = "text"
    for title in "gfedcb":
        part = Section(title, [part])

    walk = Walk(Page("a", "L", [part]).html())

    assert ["h1", "h2", "h3", "h4", "h5", "h6", "h6"] == [
        tag for tag, _ in walk.tags if re.fullmatch("h[1-6]", tag)
    ]


def test_what_scrolls_is_reached_by_the_keyboard(walk: Walk) -> None:
    reached = [(tag, attributes["tabindex"]) for tag, attributes in walk.tags if "tabindex" in attributes]

    # Other numbers than 0 would change the order of the page.
    assert {("pre", "0"), ("div", "0")} == set(reached)


def test_cells_are_written_by_their_kind() -> None:
    rows: list[list[object]] = [[12_345, 0.5, None, True, "text", -0.25]]

    walk = Walk(Page("T", "L", [Table("t", list("abcdef"), rows)]).html())

    assert ["12,345", "0.5000", "–", "True", "text", "−0.2500"] == walk.inside("td")
    assert ["number", "number", "text", "text", "text", "number"] == [
        attributes["class"] for tag, attributes in walk.tags if tag == "th"
    ]


@pytest.mark.parametrize(("foot", "notes"), [("made here", ["made here"]), ("", [])])
def test_a_foot_and_notes_are_there_if_they_say_something(foot: str, notes: list[str]) -> None:
    walk = Walk(Page("T `a`", "L", [Facts([("x", 1, ""), ("y", 2, "note")])], foot).html())

    assert notes == [text for path, text in walk.texts if "footer" in path]
    assert ["1", "2", "note"] == walk.inside("dd")
    assert ["T a"] == walk.inside("title")
    assert ("html", {"lang": "en"}) == walk.tags[0]
