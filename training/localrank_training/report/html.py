"""One page: a title, a sentence with the conclusion, and parts below each other; one self-contained HTML file.

Pages run no scripts and ask no other host. They follow the reader's light or dark setting, fit a phone and print. Nothing
here knows what is being reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, TypeAlias

from localrank_training.report.plots import Plot, clean, pictures

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A number as text, perhaps with a sign, a share or an interval.
_NUMBER = re.compile(r"[-+−]?[\d.,]+ ?%?( ?\[[-+−\d., ]+\]| ± [\d.]+)?")


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
    """

    title: str
    lead: str
    parts: Sequence[Part]
    foot: str = ""

    def html(self) -> str:
        """Return the file's text."""
        here = files(__package__)
        return Template(here.joinpath("page.html").read_text("utf-8")).substitute(
            name=_escaped(self.title.replace("`", "")),
            plots=here.joinpath("plot.css").read_text("utf-8"),
            title=_words(self.title),
            lead=_words(self.lead),
            parts=_parts(self.parts, 2),
            foot=f"<footer><p>{_words(self.foot)}</p></footer>" if self.foot else "",
        )


def _parts(parts: Sequence[Part], level: int) -> str:
    return "\n".join(_part(one, level) for one in parts)


def _part(part: Part, level: int) -> str:
    if isinstance(part, str):
        return f"<p>{_words(part)}</p>"
    if isinstance(part, Pre):
        return f'<pre tabindex="0">{_escaped(part.text)}</pre>'
    if isinstance(part, Facts):
        facts = "".join(_fact(*one) for one in part.facts)
        return f'<dl class="facts">{facts}</dl>'
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Plot):
        return _plot(part)
    if isinstance(part, Items):
        return f"<ul>{''.join(f'<li>{_words(text)}</li>' for text in part.texts)}</ul>"
    if isinstance(part, Folded):
        return f"<details><summary>{_words(part.summary)}</summary>{_parts(part.parts, level)}</details>"
    heading = f"h{min(level, 6)}"
    return f"<section><{heading}>{_words(part.title)}</{heading}>\n{_parts(part.parts, level + 1)}</section>"


def _fact(what: str, figure: object, note: str) -> str:
    more = f"<dd>{_words(note)}</dd>" if note else ""
    return f'<div><dt>{_words(what)}</dt><dd class="figure">{_escaped(_cell(figure))}</dd>{more}</div>'


def _table(table: Table) -> str:
    kinds = ["number" if _numeric([row[at] for row in table.rows]) else "text" for at in range(len(table.header))]  # fmt: skip
    # A column without a name has no header.
    names = "".join(
        f'<th scope="col" class="{kind}">{_escaped(name)}</th>' if name else f'<td class="{kind}"></td>'
        for name, kind in zip(table.header, kinds, strict=True)
    )
    rows = "\n".join(f"<tr>{_cells(row, kinds)}</tr>" for row in table.rows)
    # A wide table scrolls by itself, with keys too, so that the page does not.
    return (
        f'<figure><div class="scroll" role="region" tabindex="0" aria-label="{_escaped(table.title)}"><table>'
        f"<caption>{_words(table.title)}</caption><thead><tr>{names}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
        f"{_caption(table.caption)}</figure>"
    )


def _cells(row: Sequence[object], kinds: Sequence[str]) -> str:
    return "".join(
        f'<td class="{kind}">{_words(_cell(cell))}</td>' for cell, kind in zip(row, kinds, strict=True)
    )


def _plot(plot: Plot) -> str:
    numbers = f"<details><summary>The numbers</summary>{_table(Table(plot.title, *plot.table()))}</details>"
    return (
        f'<figure><p class="title">{_words(plot.title)}</p>{pictures(plot)}{_caption(plot.text)}'
        f"{numbers if plot.numbers else ''}</figure>"
    )


def _caption(text: str) -> str:
    return f"<figcaption>{_words(text)}</figcaption>" if text else ""


def _words(text: str) -> str:
    """Set a text, with what is between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", _escaped(text))


def _escaped(text: str) -> str:
    return escape(clean(text))


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
