"""One page: a title, a sentence with the conclusion, and parts below each other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, TypeAlias

from localrank_training.pages.drawing import NARROW, WIDE, picture
from localrank_training.pages.markup import add, clean, element, html_text
from localrank_training.pages.plot import Plot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from xml.etree.ElementTree import Element

#: The page asks nobody for anything, whatever it holds.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
#: A number as text, perhaps with a sign, a share or an interval.
_NUMBER = re.compile(r"[-+−]?[\d.,]+ ?%?( ?\[[-+−\d., ]+\]| ± [\d.]+)?")
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of numbers and words.

    Attributes:
        title: what is in it.
        header: names of the columns.
        rows: of cells. Floating-point numbers get four digits after the point, `None` a dash, everything else its text.
        caption: a sentence below it: what to notice.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """A few figures that a reader should see first: what it is, the figure, and a note."""

    facts: Sequence[tuple[str, object, str]]


@dataclass(frozen=True, slots=True)
class Pre:
    """Text as it is, such as a command or a configuration."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list of sentences."""

    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Folded:
    """Parts that few readers need: they show when the summary is opened. Paper shows none of them."""

    summary: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what is below it."""

    title: str
    parts: Sequence[Part]


#: A text is a paragraph; ``words`` between backticks are set as code.
Part: TypeAlias = str | Table | Facts | Pre | Plot | Items | Folded | Section


@dataclass(frozen=True, slots=True)
class Page:
    """A self-contained HTML file.

    Attributes:
        title: of the page.
        lead: the conclusion, in a sentence or two.
        parts: below each other.
        foot: where it comes from: data, versions, date.
        language: of the texts.
    """

    title: str
    lead: str
    parts: Sequence[Part]
    foot: str = ""
    language: str = field(default="en", kw_only=True)

    def html(self) -> str:
        """Return the file's text."""
        root = element("html", lang=self.language)
        head = add(root, "head")
        add(head, "meta", charset="utf-8")
        add(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
        add(head, "meta", name="color-scheme", content="light dark")
        add(head, "meta", content=_POLICY).set("http-equiv", "Content-Security-Policy")
        add(head, "title", self.title.replace("`", ""))
        style = "".join(
            files(__package__).joinpath(f"{name}.css").read_text("utf-8") for name in ("page", "plot")
        )
        add(head, "style", style)  # fmt: skip
        main = add(add(root, "body"), "main")
        _code(add(main, "h1"), self.title)
        _paragraph(main, self.lead, class_="lead")
        for part in self.parts:
            _add_part(main, part, 2)
        if self.foot:
            _paragraph(add(main, "footer"), self.foot)
        return "<!DOCTYPE html>\n" + html_text(root) + "\n"

    def write(self, path: Path) -> None:
        """Write the file."""
        path.write_text(self.html(), encoding="utf-8")


def _add_part(parent: Element, part: Part, level: int) -> None:
    if isinstance(part, str):
        _paragraph(parent, part)
    elif isinstance(part, Pre):
        add(parent, "pre", part.text, tabindex=0)
    elif isinstance(part, Facts):
        listed = add(parent, "dl", class_="facts")
        for what, figure, note in part.facts:
            one = add(listed, "div")
            _code(add(one, "dt"), what)
            add(one, "dd", _cell(figure), class_="figure")
            if note:
                _code(add(one, "dd"), note)
    elif isinstance(part, Table):
        _add_table(parent, part)
    elif isinstance(part, Plot):
        _add_plot(parent, part)
    elif isinstance(part, Items):
        items = add(parent, "ul")
        for text in part.texts:
            _code(add(items, "li"), text)
    elif isinstance(part, Folded):
        folded = add(parent, "details")
        _code(add(folded, "summary"), part.summary)
        for inner in part.parts:
            _add_part(folded, inner, level)
    else:
        section = add(parent, "section")
        _code(add(section, f"h{min(level, 6)}"), part.title)
        for inner in part.parts:
            _add_part(section, inner, level + 1)


def _add_table(parent: Element, table: Table) -> None:
    # A wide table scrolls by itself, with keys too, so that the page does not.
    figure = add(parent, "figure")
    box = add(figure, "div", class_="scroll", role="region", tabindex=0)
    box.set("aria-label", clean(table.title))
    drawn = add(box, "table")
    _code(add(drawn, "caption"), table.title)
    numeric = [_numeric([row[column] for row in table.rows]) for column in range(len(table.header))]
    row_of_names = add(add(drawn, "thead"), "tr")
    for name, right in zip(table.header, numeric, strict=True):
        kind = "number" if right else "text"
        if name:
            add(row_of_names, "th", name, scope="col", class_=kind)
        else:
            # A column without a name has no header.
            add(row_of_names, "td", class_=kind)
    body = add(drawn, "tbody")
    for row in table.rows:
        line = add(body, "tr")
        for cell, right in zip(row, numeric, strict=True):
            _code(add(line, "td", class_="number" if right else "text"), _cell(cell))
    if table.caption:
        _code(add(figure, "figcaption"), table.caption)


def _add_plot(parent: Element, plot: Plot) -> None:
    figure = add(parent, "figure")
    _code(add(figure, "p", class_="title"), plot.title)
    for width, name in ((WIDE, "wide"), (NARROW, "narrow")):
        drawn = picture(plot, width)
        drawn.set("class", f"plot {name}")
        drawn.set("aria-label", clean(f"{plot.title}. {plot.text}"))
        figure.append(drawn)
    _code(add(figure, "figcaption"), plot.text)
    if plot.numbers:
        folded = add(figure, "details")
        add(folded, "summary", "The numbers")
        header, rows = plot.table()
        _add_table(folded, Table(plot.title, header, rows))


def _paragraph(parent: Element, text: str, **attributes: object) -> None:
    _code(add(parent, "p", **attributes), text)


def _code(parent: Element, text: str) -> None:
    """Set a text, with what is between backticks as code."""
    pieces = _CODE.split(clean(text))
    parent.text = pieces[0]
    for code, after in zip(pieces[1::2], pieces[2::2], strict=True):
        add(parent, "code", code).tail = after


def _numeric(cells: Sequence[object]) -> bool:
    """Tell whether a column holds numbers, which stand below each other by their last digit."""
    there = [cell for cell in cells if cell is not None and cell != ""]
    return bool(there) and all(
        (isinstance(cell, int | float) and not isinstance(cell, bool))
        or (isinstance(cell, str) and _NUMBER.fullmatch(cell) is not None)
        for cell in there
    )


def _cell(cell: object) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:.4f}".replace("-", "−")
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
