"""Joining published tables to judged documents by their ids, as the service does it for requests.

A value that the data hold is kept. Only what they lack comes from the table, so that data with the values of their own time
are not changed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData
from localrank.features.feature import Feature
from localrank.registry.tables import tables_in
from localrank.tables import generation
from localrank_training.data.categories import check_kinds, kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Indices, Matrix
    from localrank.tables.table import ItemTable
    from localrank_training.data.queries import QuerySet
    from localrank_training.data.tables import Columns

#: Features of one query cannot come from a table, which knows documents only.
_QUERY = "a feature of the query cannot be from a table"
#: Share of documents that a table lacks from which on it may be the wrong one.
_MANY = 0.2
#: Characters of an id in a message.
_SHOWN = 60


def looked_up(queries: QuerySet, columns: Columns, say: Callable[[str], None]) -> QuerySet:
    """Return the queries with the features of the tables that the user or the model names.

    Args:
        queries: as they were read, with the ids of documents.
        columns: name a table, or the features of a model that are from tables.
        say: told what was joined, and that its values are those of today.

    Raises:
        InvalidData: the data have no ids, or a column is of another kind than in the table.
        ArtifactError: there is no such table, or it is broken.
    """
    wanted: dict[str, list[str] | None] = {}
    for one in columns.known:
        if one.table is not None:
            wanted.setdefault(one.table, []).append(one.name)  # type: ignore[union-attr]
    chosen: dict[str, str] = {}
    for reference in (columns.table or "").split(",") if columns.table is not None else ():
        name = reference.strip().partition("@")[0]
        if name in chosen:
            raise InvalidData(f"--table: expected every table once, found {name!r} again")
        chosen[name] = reference.strip()
        wanted.setdefault(name, None)
    for name, features in wanted.items():
        queries = _joined(queries, chosen.get(name, name), features, columns, say)
    return queries


def _joined(
    queries: QuerySet,
    table: str,
    wanted: list[str] | None,
    columns: Columns,
    say: Callable[[str], None],
) -> QuerySet:
    if queries.comments is None:
        raise InvalidData(
            f"expected the ids of the documents, by which table {table.partition('@')[0]!r} is joined, found none "
            "(--id names their column)"
        )
    ids = list(queries.comments)
    models_dir = columns.models_dir or os.environ.get("LOCALRANK_MODELS_DIR") or "models"
    reference = tables_in(Path(models_dir)).resolve(table)
    found = generation.load(reference.path).table
    rows = found.rows(ids)
    for at, column in enumerate(found.columns):
        if wanted is None or column.name in wanted:
            queries = _with_column(queries, found, at, rows, columns)
    missing = int(np.count_nonzero(rows < 0))
    if columns.judged and len(found) and missing == len(rows) > 0:
        raise InvalidData(
            f"table {found.name}, generation {found.generation}: expected ids of its items as ids of the documents, such as "
            f"{found.first_id[:_SHOWN]!r}, found none of them in {len(rows)} documents, but {str(ids[0])[:_SHOWN]!r} "
            "(--id names another column)"
        )
    say(
        f"table {found.name}, generation {found.generation}: joined by the ids of the documents; {missing} of {len(rows)} "
        "documents are not in it"
    )
    if missing > _MANY * len(rows):
        say(
            f"warning: table {found.name} lacks {missing / len(rows):.0%} of the documents; is it the right table, and are the "
            "ids of the same kind?"
        )
    if columns.judged:
        say(
            f"the values of table {found.name} are those of {found.created}: if they have changed since the documents were "
            "judged, or because of it, the model learns what it will not know, and figures are too good "
            "(docs/use/tables.md)"
        )
    return queries


def _with_column(queries: QuerySet, table: ItemTable, at: int, rows: Indices, columns: Columns) -> QuerySet:
    """Return the queries with one column of the table where they lack its values."""
    theirs = table.columns[at]
    values = np.full(len(rows), np.nan, np.float32)
    values[rows >= 0] = table.values[rows[rows >= 0], at]
    if theirs.name in queries.feature_names:
        own = queries.special.get(theirs.name, Feature(theirs.name))
        if own.scope == "query":
            raise InvalidData(f"table {table.name}: column {theirs.name!r}: {_QUERY}")
        check_kinds([theirs], queries.special)
        if own.kind != theirs.kind:
            raise InvalidData(
                f"expected categories as {theirs.name!r}, as table {table.name} has, found numbers; add --category "
                f"{theirs.name}"
            )
        position = queries.feature_names.index(theirs.name)
        if own.kind == "category":
            both = replace(own, values=tuple(dict.fromkeys((*own.values, *theirs.values))))
            values = _recoded(values, theirs, both)
            theirs = both
        present = queries.column(position)
        documents = np.array(queries.documents, np.float32, order="C")
        documents[:, position] = np.where(np.isnan(present), values, present)
        names = queries.feature_names
    else:
        documents = np.concatenate([np.asarray(queries.documents), values[:, None]], axis=1)
        names = (*queries.feature_names, theirs.name)
    queries = replace(
        queries,
        documents=documents,
        feature_names=names,
        special={**queries.special, theirs.name: replace(theirs, table=table.name)},
    )
    return kept(queries, theirs.name, known=any(one.name == theirs.name for one in columns.known))


def _recoded(codes: Matrix, before: Feature, after: Feature) -> Matrix:
    new = np.array([*map(after.code_of, before.values), np.nan], np.float32)
    return new[np.where(np.isnan(codes), len(before.values), codes).astype(np.intp)]
