"""Tables of items: read for publishing, and joined to judged documents by their ids.

A row of a table of items is read like a judged document that is a query of its own, so all formats and rules are those of
judged data. Docs: docs/use/tables.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData
from localrank_training.data.reading import read
from localrank_training.data.tables import Columns
from localrank_training.parallel.processes import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from localrank.arrays import Matrix
    from localrank.features.feature import Feature
    from localrank_training.data.queries import QuerySet


@dataclass(frozen=True, slots=True, eq=False)
class ItemRows:
    """Items as they were read.

    Attributes:
        ids: of each, all different.
        columns: name, kind and values of each.
        values: ``[n_items, n_columns]``, codes for categories; NaN for no value.
    """

    ids: tuple[str, ...]
    columns: tuple[Feature, ...]
    values: Matrix


def read_items(
    paths: Sequence[str | Path],
    id_column: str,
    *,
    ignore: tuple[str, ...] = (),
    category: tuple[str, ...] = (),
    date: tuple[str, ...] = (),
    progress: Progress = silent,
    say: Callable[[str], None] = lambda _: None,
) -> ItemRows:
    """Read a table of items: CSV, JSON lines, Parquet or Arrow, a row for each.

    Args:
        paths: files or folders of partitions.
        id_column: of the ids.
        ignore: columns that are no features.
        category: columns whose numbers are categories.
        date: columns of dates that become numbers.
        progress: told how far it is.
        say: told what was taken and what was left out.

    Raises:
        InvalidData: names file, row and column; an id that stands twice is one of the reasons.
    """
    columns = Columns(qid=id_column, ignore=ignore, category=category, date=date, judged=False, items=True)
    found = read(paths, columns=columns, progress=progress, say=say)
    if len(found) < found.n_docs:
        query = int(np.argmax(found.lengths > 1))
        again = int(found.offsets[query]) + 1
        place, first = (_row(found, one) for one in (again, again - 1))
        raise InvalidData(
            f"{place}: expected every id once, found {found.query_ids[query]!r} again, after {first}"
        )
    return ItemRows(found.query_ids, found.features, np.ascontiguousarray(found.documents, np.float32))


def _row(items: QuerySet, item: int) -> str:
    """Say where an item comes from: its file, and its row without the header."""
    path, _, number = items.where(item).partition(", query")[0].rpartition(":")
    return f"{path}: row {number}" if path else f"row {number}"
