"""The settings of a learner as docs/use/configuration.md lists them, and as its class declares them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from localrank_training.reference import page

ROOT = Path(__file__).parents[3]


@lru_cache
def listed(method: str) -> list[str]:
    """Return the lines of the page about a learner."""
    return _section((ROOT / "docs" / "use" / "configuration.md").read_text(), method)


def declared(method: str) -> list[str]:
    """Return what they would be if the page were made now."""
    return _section(page(), method)


def _section(text: str, method: str) -> list[str]:
    _, _, after = text.partition(f"\n### `{method}`\n")
    return after.partition("\n## ")[0].partition("\n### ")[0].strip().splitlines()
