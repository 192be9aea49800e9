"""How an object is shown: one line with the sizes of its parts, and tables for notebooks.

A class takes the line by ``__repr__ = one_line`` in its body, which a dataclass leaves alone.
"""

from __future__ import annotations

from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: At most this many characters of a value, and elements of a list, are shown.
_LONGEST, _MOST = 60, 3


def one_line(self: Any) -> str:
    """Return ``Name(field=value, …)`` of a dataclass; fields that are declared ``repr=False`` are left out."""
    shown = ", ".join(
        f"{field.name}={_short(getattr(self, field.name))}" for field in fields(self) if field.repr
    )
    return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, dict):
        return f"<{len(value)} entries>" if len(value) > _MOST else _cut(value)
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        if len(value) > _MOST or any(isinstance(one, np.ndarray) for one in value):
            return f"<{len(value)} of {type(value[0]).__name__}>"
        return f"({', '.join(map(_short, value))})"
    return _cut(value)


def _cut(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers have four digits after the point."""
    lines = [f"<table><caption>{escape(title)}</caption>"]
    lines.append("<tr>" + "".join(f"<th>{escape(name)}</th>" for name in header) + "</tr>")
    for row in rows:
        cells = [cell for _, cell in zip(header, row, strict=True)]
        texts = (
            f"{cell:.4f}" if isinstance(cell, float) else "–" if cell is None else str(cell) for cell in cells
        )
        lines.append("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in texts) + "</tr>")
    return "\n".join([*lines, "</table>"])
