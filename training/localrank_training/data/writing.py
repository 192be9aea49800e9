"""Write judged queries: text, Parquet or the mapped form; convert one into another.

What is written reads back as the same values, labels, order, comments and names. Everything is read and checked once
before the first byte is written, and what is written gets its name when it is whole: a failure leaves nothing behind.
Memory holds labels, comments and one block of values.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast, get_args

import numpy as np
import pyarrow as pa

from localrank.errors import InvalidData
from localrank.features.columns import forget
from localrank_training.data.columns import AS_NAMED, Columns
from localrank_training.data.letor_writer import LetorWriter, check_feature_names, check_query_ids
from localrank_training.data.mapped import StoredComments, write_mapped
from localrank_training.data.parquet import ParquetWriter
from localrank_training.data.queries import default_names, repeated
from localrank_training.data.reading import Grouping, located
from localrank_training.data.replacing import replacing, telling
from localrank_training.data.rows import CELLS
from localrank_training.data.scanning import Block, Scan, blocks_of
from localrank_training.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from localrank.arrays import Indices, Matrix, Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.data.synthetic import Drawn

Format: TypeAlias = Literal["text", "gz", "zst", "parquet", "mapped"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: dict[Format, str] = {
    "text": ".txt",
    "gz": ".txt.gz",
    "zst": ".txt.zst",
    "parquet": ".parquet",
    "mapped": "",
}


#: The names of tables of text.
_TABLE = re.compile(r"(\.(csv|tsv))(\.gz|\.zst)?$", re.IGNORECASE)


def format_of(path: str | Path) -> Format:
    """Return the format that a name asks for: ``.gz``, ``.zst``, ``.parquet``, a final ``/`` (mapped), else text.

    Raises:
        InvalidData: it asks for CSV, which can only be read.
    """
    if str(path).endswith(("/", os.sep)):
        return "mapped"
    if table := _TABLE.search(str(path)):
        raise InvalidData(
            f"{path}: expected a name in .txt, .txt.gz, .txt.zst, .parquet or / (a folder, mapped), found {table[1]}, which "
            "can be read but not written"
        )
    suffix = Path(path).suffix.removeprefix(".")
    return cast("Format", suffix) if suffix in {"gz", "zst", "parquet"} else "text"


def write(
    queries: QuerySet,
    path: str | Path,
    *,
    to: Format | None = None,
    sparse: bool | None = None,
    overwrite: bool = False,
) -> None:
    """Write a set that is in memory, documents in the order of ``lines``.

    Args:
        queries: what to write.
        path: where to; for the mapped form a folder.
        to: the format; None takes it from the name.
        sparse: whether text leaves zeros out; None does so where most values are zero.
        overwrite: replace what is there.
    """
    codes = np.arange(len(queries))
    write_blocks(
        path,
        format_of(path) if to is None else to,
        lambda: blocks_of(queries, codes),
        query_ids=queries.query_ids,
        names=queries.feature_names,
        comments=queries.comments is not None,
        weights=queries.weights is not None,
        positions=queries.positions is not None,
        sparse=sparse,
        overwrite=overwrite,
    )


def write_drawn(drawn: Drawn, path: str | Path, *, overwrite: bool = False) -> None:
    """Write synthetic queries while they are drawn, with the kind of each as comments; the name decides the format."""
    write_blocks(
        path,
        format_of(path),
        lambda: _blocks_of_drawn(drawn),
        query_ids=drawn.query_ids,
        names=default_names(drawn.recipe.features),
        comments=True,
        weights=False,
        positions=False,
        sparse=None,
        overwrite=overwrite,
    )


def _blocks_of_drawn(drawn: Drawn) -> Iterator[Block]:
    most = max(1, CELLS // drawn.recipe.features)
    rows: list[Matrix] = []
    labels: list[Vector] = []
    first = 0
    for query, (documents, of_query) in enumerate(drawn):
        rows.append(documents.astype(np.float32))
        labels.append(of_query.astype(np.float64))
        last = query + 1
        if drawn.offsets[last] - drawn.offsets[first] >= most or last == len(drawn.kind_of):
            query_of = np.repeat(np.arange(first, last), np.diff(drawn.offsets[first : last + 1]))
            comments = pa.array([f"kind={drawn.kind_of[one]}" for one in query_of], pa.string())
            yield Block(np.concatenate(labels), query_of, comments, matrix=np.concatenate(rows))
            rows, labels, first = [], [], last


def convert(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    to: Format | None = None,
    sparse: bool | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
    columns: Columns = AS_NAMED,
    say: Callable[[str], None] = lambda _: None,
    skip: bool = False,
) -> int:
    """Write what the paths hold in another form; return the number of documents. See `write`.

    With ``skip``, files with which something is wrong are left out, and ``say`` is told of each.
    """
    form = format_of(out) if to is None else to
    checked = Checked(paths, progress, columns, say, skip=skip)
    write_blocks(
        out,
        form,
        checked.blocks,
        query_ids=checked.query_ids,
        names=checked.names,
        comments=checked.comments,
        weights=checked.weights,
        positions=checked.positions,
        sparse=sparse,
        overwrite=overwrite,
    )
    return checked.n_docs


class Checked:
    """Sources that were read once and are good; ``blocks`` reads them again."""

    def __init__(
        self,
        paths: Sequence[str | Path],
        progress: Progress,
        columns: Columns,
        say: Callable[[str], None],
        *,
        skip: bool = False,
    ) -> None:
        self._sources, skipped = located(paths, say, skip=skip)
        self._progress = progress
        self._columns = columns
        scan = Scan(
            self._sources,
            lambda _task, done, total: progress("checking", done, total),
            columns=columns,
            say=say,
            skip=skip,
            skipped=skipped,
        )
        queries = []
        self.comments = self.weights = self.positions = False
        for block in scan:
            queries.append(block.queries)
            self.weights = block.weights is not None
            self.positions = self.positions or block.positions is not None
            self.comments = self.comments or block.comments is not None
        self.queries = np.concatenate(queries)
        self.names = scan.names()
        self.query_ids = tuple(scan.query_ids)
        self.n_docs = len(self.queries)
        bad = {one.file for one in scan.skipped}
        self._sources = [source for source in self._sources if str(source.path) not in bad]

    def blocks(self) -> Iterator[Block]:
        scan = Scan(
            self._sources,
            lambda _task, done, total: self._progress("converting", done, total),
            columns=self._columns,
        )
        seen = 0
        for block in scan:
            here = self.queries[seen : seen + len(block)]
            if not np.array_equal(block.queries, here) or scan.n_columns > len(self.names):
                raise InvalidData(
                    f"{self._sources[0].path}: expected input that does not change while it is read twice, found a change"
                )
            seen += len(block)
            yield block
        if seen != self.n_docs or scan.names() != self.names:
            raise InvalidData(
                f"{self._sources[0].path}: expected input that does not change while it is read twice, found a change"
            )


class _Writer(Protocol):
    def write(self, block: Block, query_ids: Sequence[str]) -> None: ...
    def close(self) -> None: ...


def write_blocks(
    path: str | Path,
    to: Format,
    blocks: Callable[[], Iterable[Block]],
    *,
    query_ids: Sequence[str],
    names: Sequence[str],
    comments: bool,
    weights: bool,
    positions: bool,
    sparse: bool | None,
    overwrite: bool,
) -> None:
    """Write blocks of documents; the file or folder gets its name when it is whole.

    Args:
        path: where to; for the mapped form a folder.
        to: the format.
        blocks: yields the documents; the mapped form asks twice.
        query_ids: of the queries that the blocks number.
        names: of the features.
        comments: whether there are any.
        weights: whether there are any.
        positions: whether there are any.
        sparse: whether text leaves zeros out; None does so where most values are zero.
        overwrite: replace what is there.

    Raises:
        InvalidData: the format cannot hold it, or the file cannot be written.
    """
    path = Path(path)
    if to not in FORMATS:
        raise InvalidData(f"expected one of {', '.join(FORMATS)} as format, found {to!r}")
    if to in {"text", "gz", "zst"} and (weights or positions):
        found = "query weights" if weights else "positions"
        raise InvalidData(
            f"{path}: expected a format that keeps {found} (--to parquet or mapped), found LETOR text"
        )
    for what, given in (("feature name", names), ("query id", query_ids)):
        if (twice := repeated(given)) is not None:
            raise InvalidData(f"{path}: expected every {what} once, found {twice!r} again")
    if not path.parent.is_dir():
        raise InvalidData(f"{path}: expected an existing folder to write into, found none at {path.parent}")
    beside = path.with_name(path.name + ".names")
    needs_names = to in {"text", "gz", "zst"} and tuple(names) != default_names(len(names))
    with ExitStack() as stack:
        stack.enter_context(telling(path))
        temporary = stack.enter_context(replacing(path, overwrite=overwrite))
        # Left in reverse order: the names are there before the data are.
        if needs_names:
            check_feature_names(names)
            stack.enter_context(replacing(beside, overwrite=overwrite)).write_text(
                "".join(name + "\n" for name in names), "utf-8"
            )
        if to == "mapped":
            temporary.mkdir()
            _fill_mapped(temporary, blocks, query_ids=query_ids, names=names)
        else:
            ids = np.array(query_ids, object)
            writer: _Writer
            if to == "parquet":
                writer = ParquetWriter(
                    temporary, names, comments=comments, weights=weights, positions=positions
                )
            else:
                check_query_ids(query_ids)
                writer = LetorWriter(temporary, to, len(names), sparse=sparse)
            try:
                for block in blocks():
                    writer.write(block, ids[block.queries].tolist())
            finally:
                writer.close()
    if to in {"text", "gz", "zst", "parquet"} and not needs_names:
        beside.unlink(missing_ok=True)


def _fill_mapped(
    folder: Path, blocks: Callable[[], Iterable[Block]], *, query_ids: Sequence[str], names: Sequence[str]
) -> None:
    labels, queries, comments = [], [], []
    weights = np.full(len(query_ids), np.nan)
    positions: list[Indices] = []
    shown = False
    for block in blocks():
        labels.append(block.labels)
        queries.append(block.queries)
        shown = shown or block.positions is not None
        if block.weights is not None:
            weights[block.queries] = block.weights
        positions.append(np.zeros(len(block), np.int64) if block.positions is None else block.positions)
        comments.append(pa.nulls(len(block), pa.string()) if block.comments is None else block.comments)
    grouping = Grouping(np.concatenate(queries), len(query_ids))
    documents = write_mapped(
        folder,
        labels=np.concatenate(labels)[grouping.order],
        offsets=grouping.offsets,
        lines=grouping.order,
        query_ids=query_ids,
        feature_names=names,
        comments=StoredComments.of(comments, grouping.order),
        weights=None if np.isnan(weights).any() else weights,
        positions=np.concatenate(positions)[grouping.order] if shown else None,
    )
    done = 0
    for block in blocks():
        rows = grouping.rows(done, len(block))
        block.fill(documents, rows)
        if isinstance(rows, slice):
            forget(documents, rows.start, rows.stop)
        done += len(block)
    documents.flush()
