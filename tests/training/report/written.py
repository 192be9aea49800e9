"""What a page says, read back as a browser would: its texts, tables and elements."""

from __future__ import annotations

from html.parser import HTMLParser

#: Elements without an end.
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Written(HTMLParser):
    """A page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.headings: list[str] = []
        self.facts: list[str] = []
        self.plots: dict[str, str] = {}
        self.text = ""
        self._rows: list[list[str]] = []
        self._caption = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in {"th", "td"}:
            self._rows[-1].append("")
        elif tag in {"h1", "h2", "h3"}:
            self.headings.append("")
        elif tag in {"dt", "dd"}:
            self.facts.append("")
        elif tag == "svg" and "aria-label" in found:
            title, _, caption = (found["aria-label"] or "").partition(". ")
            self.plots[title] = caption

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop(), (tag, self.open)
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        if "style" in self.open or "title" in self.open:
            return
        self.text += data
        if "caption" in self.open:
            self._caption += data
        elif {"th", "td"} & set(self.open):
            self._rows[-1][-1] += data
        for tags, kept in (({"h1", "h2", "h3"}, self.headings), ({"dt", "dd"}, self.facts)):
            if tags & set(self.open):
                kept[-1] += data

    def column(self, table: str, name: str) -> list[str]:
        """The cells of a column below its name."""
        header, *rows = self.tables[table]
        return [row[header.index(name)] for row in rows]
