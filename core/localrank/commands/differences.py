"""How ``localrank models diff`` prints what changes between two versions: short cells, a row for each figure.

If a value is too long for a cell, the cell shows its size; ``--json`` has all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.commands.output import MANY, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.registry.difference import Change, Difference, Reranking

#: Characters of a cell.
_WIDEST = 40
#: At most this many probe queries are printed, the most changed first.
_MOST_QUERIES = 10


def print_difference(difference: Difference) -> None:
    """Print four parts: settings, metrics, contract, probe."""
    _print_changes("settings", [row for change in difference.settings for row in _rows(change)])
    _print_metrics(difference.metrics)
    _print_changes("contract", [row for change in difference.contract for row in _rows(change)])
    _print_probe(difference.probe)


def _print_changes(title: str, rows: Sequence[tuple[str, Any, Any]]) -> None:
    if rows:
        print_table(
            (title, "before", "after"), [(path, _cell(one), _cell(other)) for path, one, other in rows]
        )
    else:
        print(f"{title}: the same")
    print()


def _print_metrics(changes: Sequence[Change]) -> None:
    """Print figures side by side with their differences, and then all other changes."""
    rest: list[tuple[str, Any, Any]] = []
    for change in changes:
        if _is_table(change.before) and _is_table(change.after):
            header, rows = _side_by_side(change.before, change.after)
            print_table((header, "", "before", "after", "change"), rows, MANY)
            print()
        else:
            rest += _rows(change)
    if rest or not changes:
        _print_changes("metrics", rest)


def _side_by_side(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]
) -> tuple[str, list[tuple[object, ...]]]:
    """Join two tables by their first column; a row for each number that both or one of them has."""
    key = next(iter(before[0]))
    numbers = [
        name
        for name in before[0]
        if name in after[0] and any(isinstance(row[name], int | float) for row in (*before, *after))
    ]
    sides = [{row.get(key): row for row in side} for side in (before, after)]
    rows: list[tuple[object, ...]] = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        for number in numbers:
            old, new = (side.get(name, {}).get(number) for side in sides)
            change = None if old is None or new is None else f"{new - old:+.4f}"
            rows.append((name, number, old, new, change))
    return key, rows


def _print_probe(rerankings: Sequence[Reranking] | None) -> None:
    if rerankings is None:
        print(
            "probe: the versions do not have the same features and rules for missing values, so their rankings cannot be compared"
        )
        return
    moved = sorted((one for one in rerankings if one.furthest), key=lambda one: one.tau)
    if not moved:
        print(f"probe: both versions order all {len(rerankings)} queries alike")
        return
    first = sum(not one.same_first for one in rerankings)
    median = float(np.median([one.tau for one in rerankings]))
    print(
        f"probe: {len(moved)} of {len(rerankings)} queries change their order (median tau {median:.2f}), "
        f"{first} their first document"
    )
    print_table(
        ("probe of", "query", "documents", "cluster before", "after", "tau", "same first", "furthest move"),
        [
            (
                one.probe,
                one.query,
                one.documents,
                *one.clusters,
                one.tau,
                "yes" if one.same_first else "no",
                one.furthest,
            )
            for one in moved
        ],
        _MOST_QUERIES,
    )


def _rows(change: Change) -> Iterator[tuple[str, Any, Any]]:
    """Yield a change as rows of plain values: an object on one side becomes one row for each of its members."""
    yield from _flat(change.path, change.before, change.after)


def _flat(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    sides = [side if isinstance(side, dict) else {} for side in (before, after)]
    if not any(sides) or not all(side is None or isinstance(side, dict) for side in (before, after)):
        yield path, before, after
        return
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        yield from _flat(f"{path}.{name}", sides[0].get(name), sides[1].get(name))


def _is_table(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(row, dict) for row in value)


def _cell(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | list | tuple | dict):
        text = str(value)
    elif isinstance(value, int | float):
        text = f"{value:g}" if isinstance(value, float) else str(value)
    elif _is_table(value):
        text = f"{len(value)} rows"
    else:
        shown = ", ".join(str(_cell(one)) for one in value)
        text = shown if len(shown) <= _WIDEST else f"{len(value)} values"
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
