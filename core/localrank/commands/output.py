"""How commands print: figures as a table or as JSON, nothing decorative in a pipe."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Clusters, and notes of them, that are printed; a model may have one for every training query.
MANY = 25
#: Rows of other tables. The settings that the default method tries, some 26, are all shown.
ROWS = 50


def print_json(answer: object) -> None:
    """Print one JSON document; numbers as they are, NaN as null."""
    print(json.dumps(_plain(answer), indent=2, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], most: int | None = None) -> None:
    """Print aligned columns: text to the left, numbers to the right.

    Args:
        header: the names of the columns.
        rows: a cell for each column.
        most: how many rows are printed; a last line counts the others.
    """
    more = 0 if most is None else max(0, len(rows) - most)
    rows = rows[: len(rows) - more]
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [
        max(len(name), *(len(row[i]) for row in texts)) if texts else len(name)
        for i, name in enumerate(header)
    ]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float) or row[i] is None for row in rows)
        for i in range(len(header))
    ]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ).rstrip()

    print(line(list(header)))
    for row in texts:
        print(line(row))
    if more:
        print(f"... and {more} more; --json prints all")


def print_notes(notes: Sequence[object], *, err: bool = False) -> None:
    """Print what a reader should know, a line each; a last line counts what is beyond `MANY`."""
    file = sys.stderr if err else sys.stdout
    for note in notes[:MANY]:
        print(f"note: {note}", file=file)
    if len(notes) > MANY:
        print(f"... and {len(notes) - MANY} more notes; --json prints all", file=file)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and value != value:  # noqa: PLR0124
        return None
    return value
