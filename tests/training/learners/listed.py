"""The settings of a learner as docs/use/configuration.md lists them, and as its class declares them."""

from __future__ import annotations

from functools import lru_cache

from tools.configuration import DOCS, pages


@lru_cache
def listed(method: str) -> list[str]:
    """Return the lines of the page about a learner."""
    return _section((DOCS / "use" / "configuration.md").read_text(), method)


def declared(method: str) -> list[str]:
    """Return what they would be if the page were made now."""
    return _section(pages()[DOCS / "use" / "configuration.md"], method)


def _section(text: str, method: str) -> list[str]:
    _, _, after = text.partition(f"\n### `{method}`\n")
    return after.partition("\n## ")[0].partition("\n### ")[0].strip().splitlines()
