"""Read judged queries into memory, or open the mapped form."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from localrank.errors import InvalidData
from localrank_training.data import rows as rows_module
from localrank_training.data.columns import AS_NAMED, Columns
from localrank_training.data.mapped import StoredComments, check_chosen, open_mapped
from localrank_training.data.queries import Origin, QuerySet, Skipped, default_names
from localrank_training.data.rows import Spill
from localrank_training.data.scanning import Block, Scan
from localrank_training.data.sources import Source, locate
from localrank_training.data.tables import FEATURES, Layout, rows
from localrank_training.data.weights import QueryWeights
from localrank_training.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from localrank.arrays import Indices, Matrix


def read(
    paths: Sequence[str | Path] | str | Path,
    *,
    progress: Progress = silent,
    n_features: int | None = None,
    columns: Columns = AS_NAMED,
    say: Callable[[str], None] = lambda _: None,
    skip: bool = False,
) -> QuerySet:
    """Read judged queries; their documents need not be adjacent within a file.

    Documents that are too many to be held (`localrank_training.data.rows`) come as a mapped file, which lies in the folder for
    temporary files as long as it is needed.

    Args:
        paths: files or folders of partitions: LETOR text or CSV (plain, gzip, zstd), Parquet, the mapped form.
        progress: told ``("reading", bytes read, bytes in all)``.
        n_features: how many features there are, where the data may not show it (sparse text whose last feature is
            never there); a document with more is refused. Data that name their features have those.
        columns: what the columns of tables hold, and whether text leaves zeros out.
        say: told what was taken from a table and what was left out.
        skip: leave out files with which something is wrong; they are in `QuerySet.skipped`.

    Returns:
        Queries in the order of their first documents, documents of a query in the order of the input.

    Raises:
        InvalidData: names file, line and column if there are any.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    sources, skipped = located(given, say, skip=skip)
    if len(sources) == 1 and sources[0].kind == "mapped":
        return _opened(sources[0].path, n_features, columns)
    scan = Scan(sources, progress, n_features, columns, say, skip=skip, skipped=skipped)
    blocks, spill = _collected(scan)
    grouping = Grouping(np.concatenate([block.queries for block in blocks]), len(scan.query_ids))
    names = scan.names()
    origin = _origin(blocks, sources)
    documents, to = _room(blocks, spill, grouping, len(names))
    labels = np.empty(len(documents), np.float64)
    comments: list[str] | None = None
    texts: list[Any] = []
    shown = any(block.positions is not None for block in blocks)
    positions = np.zeros(len(documents), np.int64) if shown else None
    weighted = blocks[0].weights is not None
    done = 0
    for position, block in enumerate(blocks):
        places = grouping.rows(done, len(block))
        if to is not spill or spill is None:
            block.fill(documents, places)
        labels[places] = block.labels
        if positions is not None and block.positions is not None:
            positions[places] = block.positions
        if to is not None:
            texts.append(pa.nulls(len(block), pa.string()) if block.comments is None else block.comments)
        elif block.comments is not None:
            comments = [""] * len(documents) if comments is None else comments
            _place(comments, block.comments, places)
        done += len(block)
        # Freed while the matrix fills, so that both are never whole in memory at once.
        blocks[position] = Block(block.labels, block.queries, None)
    return QuerySet(
        documents=documents if to is None else to.whole(*documents.shape),
        labels=labels,
        offsets=grouping.offsets,
        query_ids=tuple(scan.query_ids),
        feature_names=names,
        lines=grouping.order,
        comments=StoredComments.of(texts, grouping.order) if comments is None else tuple(comments),
        origin=origin,
        weights=scan.weights.of_queries() if weighted else None,
        positions=positions,
        gaps=tuple(scan.gaps),
        skipped=tuple(scan.skipped),
    )


def located(
    paths: Sequence[str | Path], say: Callable[[str], None], *, skip: bool
) -> tuple[list[Source], list[Skipped]]:
    """Find the files; return those that hold something else apart, if they may be skipped.

    Raises:
        InvalidData: there is nothing to read.
    """
    skipped: list[Skipped] = []

    def note(path: Path, error: InvalidData) -> None:
        skipped.append(Skipped(str(path), str(error)))
        say(f"skipped: {error}")

    sources = locate(paths, note if skip else None)
    if not sources:
        raise InvalidData(
            f"expected a file that can be read, found none; the first of {len(skipped)}: {skipped[0].reason}"
        )
    return sources, skipped


def _collected(scan: Scan) -> tuple[list[Block], Spill | None]:
    """Return all blocks; the values of very many are in a file."""
    blocks: list[Block] = []
    spill: Spill | None = None
    held = 0
    for block in scan:
        blocks.append(block)
        if block.matrix is not None:
            held += block.matrix.nbytes
        if held > rows_module.HELD:
            first = len(blocks) - 1 if spill is not None else 0
            spill = spill or Spill()
            for at in range(first, len(blocks)):
                matrix = blocks[at].matrix
                blocks[at] = blocks[at] if matrix is None else replace(blocks[at], matrix=spill.add(matrix))
    return blocks, spill


def _room(
    blocks: Sequence[Block], spill: Spill | None, grouping: Grouping, n_features: int
) -> tuple[Matrix, Spill | None]:
    """Return where the documents go, and the file that this is in; nothing has to move if they are in ``spill`` in their order."""
    n_docs = len(grouping.order)
    written = all(block.matrix is not None and block.matrix.shape[1] == n_features for block in blocks)
    if spill is not None and written and grouping.adjacent:
        return spill.whole(n_docs, n_features), spill
    if 4 * n_docs * n_features <= rows_module.HELD:
        return np.zeros((n_docs, n_features), np.float32), None
    to = Spill()
    return to.empty(n_docs, n_features), to


def read_table(
    table: object, *, columns: Columns = AS_NAMED, say: Callable[[str], None] = lambda _: None
) -> QuerySet:
    """Take judged queries from a table in memory: a pandas or polars frame, an Arrow table, a dictionary of columns.

    Whatever speaks Arrow's C stream interface is taken without a copy of its own. Missing values are null or NaN.

    Args:
        table: a row per document.
        columns: what the columns hold.
        say: told what was taken and what was left out.

    Raises:
        InvalidData: names row and column.
    """
    try:
        arrow = pa.table(table)
    except (TypeError, ValueError, pa.ArrowException) as error:
        found = str(error).splitlines()[0][:160]
        kind = type(table).__name__
        hint = "; collect() it first" if hasattr(table, "collect") else ""
        raise InvalidData(
            f"expected a table with named columns (pandas, polars, Arrow, a dictionary), found a {kind}{hint}: {found}"
        ) from None
    if not arrow.num_rows:
        raise InvalidData("table: expected judged documents, found no rows")
    layout = Layout("table", arrow.schema, columns, _list_width(arrow), in_python=True)
    say(f"table: {layout.describe()}")
    arrow = arrow.select(layout.columns).combine_chunks()
    batch = rows(arrow.to_batches()[0], 1, layout, layout.names, range(len(layout.names)))
    grouping = Grouping(batch.queries, len(batch.query_ids))
    weights = None
    if batch.weights is not None:
        weights = QueryWeights()
        weights.add(batch.queries, batch.weights, batch.query_ids, lambda row: f"table: row {row + 1}")
    comments = None if batch.comments is None else batch.comments.take(pa.array(grouping.order)).to_pylist()
    return QuerySet(
        documents=np.ascontiguousarray(batch.matrix[grouping.order]),
        labels=batch.labels[grouping.order],
        offsets=grouping.offsets,
        query_ids=tuple(batch.query_ids),
        feature_names=layout.names,
        lines=grouping.order,
        comments=None if comments is None else tuple(comments),
        origin=Origin(("table",), np.zeros(1, np.int64), np.arange(1, arrow.num_rows + 1, dtype=np.int32)),
        weights=None if weights is None else weights.of_queries(),
        positions=None if batch.positions is None else batch.positions[grouping.order],
    )


def _list_width(table: Any) -> int | None:
    """Return how many values the first list of features has; None without such a column."""
    position = table.schema.get_field_index(FEATURES)
    first = table.column(position)[0].as_py() if position >= 0 else None
    return len(first) if isinstance(first, list) else None


def _origin(blocks: Sequence[Block], sources: Sequence[Source]) -> Origin | None:
    """Say where each document stands; None if a mapped set is among the sources, which does not know."""
    numbers = [block.numbers for block in blocks if block.numbers is not None]
    if len(numbers) < len(blocks):
        return None
    lengths = np.zeros(len(sources), np.int64)
    for block in blocks:
        lengths[block.source] += len(block)
    return Origin(
        files=tuple(str(source.path) for source in sources),
        starts=np.cumsum(lengths) - lengths,
        numbers=np.concatenate(numbers).astype(np.int32),
    )


def _opened(folder: Path, n_features: int | None, columns: Columns) -> QuerySet:
    queries = open_mapped(folder)
    check_chosen(folder, queries, columns)
    unnamed = queries.feature_names == default_names(queries.n_features)
    if unnamed and n_features is not None and queries.n_features != n_features:
        raise InvalidData(f"{folder}: expected {n_features} features, found {queries.n_features}")
    return queries


class Grouping:
    """Puts the documents of each query next to each other, keeping their order.

    Attributes:
        order: ``[n_docs]`` position in the input of each document in its place.
        offsets: ``[n_queries + 1]``.
    """

    def __init__(self, queries: Indices, n_queries: int) -> None:
        """Take ``[n_docs]`` query numbers in input order, numbered by first appearance."""
        self._places: Indices | None = None
        if bool((queries[1:] >= queries[:-1]).all()):
            self.order = np.arange(len(queries))
        else:
            self.order = np.argsort(queries, kind="stable")
            self._places = np.empty_like(self.order)
            self._places[self.order] = np.arange(len(queries))
        self.offsets = np.concatenate([[0], np.cumsum(np.bincount(queries, minlength=n_queries))]).astype(
            np.int64
        )

    @property
    def adjacent(self) -> bool:
        """Whether they were next to each other already."""
        return self._places is None

    def rows(self, start: int, count: int) -> Indices | slice:
        """Return the places of the documents ``start:start + count`` of the input."""
        return slice(start, start + count) if self._places is None else self._places[start : start + count]


def _place(comments: list[str], texts: Any, rows: Indices | slice) -> None:
    if isinstance(rows, slice):
        comments[rows] = texts.to_pylist()
        return
    for row, text in zip(rows.tolist(), texts.to_pylist(), strict=True):
        comments[row] = text
