"""Write judged queries: text, Parquet or the mapped form; convert one into another; split by query.

What is written reads back as the same values, labels, order, comments and names. Everything is read and checked once
before the first byte is written, and what is written gets its name when it is whole: a failure leaves nothing behind.
Memory holds labels, comments and one block of values.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from localrank.columns import forget
from localrank.errors import InvalidData
from localrank_training.data.columns import AS_NAMED, Columns
from localrank_training.data.mapped import StoredComments, write_mapped
from localrank_training.data.parquet import ParquetWriter
from localrank_training.data.queries import default_names, repeated
from localrank_training.data.reading import Grouping, located
from localrank_training.data.rows import CELLS
from localrank_training.data.scanning import Block, Scan, blocks_of
from localrank_training.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.data.synthetic import Drawn

__all__ = ["FORMATS", "Format", "convert", "format_of", "split", "write", "write_drawn"]

Format: TypeAlias = Literal["text", "gz", "zst", "parquet", "mapped"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIXES: dict[Format, str] = {
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
    _write(
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
    """Write synthetic queries while they are drawn, with the kind of each as comments; the format is that of the name."""
    _write(
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
    checked = _Checked(paths, progress, columns, say, skip=skip)
    _write(
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


def split(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    fractions: Sequence[float] | None = None,
    folds: int | None = None,
    seed: int = 0,
    to: Format = "text",
    progress: Progress = silent,
    columns: Columns = AS_NAMED,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, tuple[int, int]]:
    """Deal the queries into files of a new folder, whole queries at random.

    Args:
        paths: what to split.
        out: the folder; it must not exist.
        fractions: of the queries; two are train and test, three are train, validation and test.
        folds: K parts ``S1..SK``; ``FoldK/`` has ``train`` (K - 2 parts), ``validation`` and ``test``, rotating as LETOR's
            official folds do.
        seed: of the shuffle; the same queries in the same order split in the same way.
        to: the format of the files.
        progress: told the bytes read.
        columns: what the columns of tables hold, and whether text leaves zeros out.
        say: told what was taken from a table and what was left out.

    Returns:
        Queries and documents of every file, by its name in the folder.
    """
    checked = _Checked(paths, progress, columns, say)
    n_queries = len(checked.query_ids)
    if (fractions is None) == (folds is None):
        raise InvalidData("expected either fractions or folds to split by, found both or neither")
    if fractions is not None:
        sizes, files = _by_fractions(fractions, n_queries)
    else:
        sizes, files = _by_folds(cast("int", folds), n_queries)
    part_of = np.repeat(np.arange(len(sizes)), sizes)[
        np.argsort(np.random.default_rng(seed).permutation(n_queries))
    ]
    lengths = np.bincount(checked.queries, minlength=n_queries)

    out = Path(out)
    if out.exists():
        raise InvalidData(f"{out}: expected a folder that does not exist yet, found one")
    report: dict[str, tuple[int, int]] = {}
    with _telling(out), _replacing(out, overwrite=False) as temporary:
        temporary.mkdir()
        for name, parts in files.items():
            chosen = np.isin(part_of, parts)
            kept = np.flatnonzero(chosen)
            codes = np.full(n_queries, -1)
            codes[kept] = np.arange(len(kept))
            path = temporary / (name + _SUFFIXES[to])
            path.parent.mkdir(exist_ok=True)
            _write(
                path,
                to,
                partial(_chosen_again, checked, codes),
                query_ids=[checked.query_ids[query] for query in kept],
                names=checked.names,
                comments=checked.comments,
                weights=checked.weights,
                positions=checked.positions,
                sparse=None,
                overwrite=False,
            )
            report[name + _SUFFIXES[to]] = (len(kept), int(lengths[kept].sum()))
    return report


def _by_fractions(fractions: Sequence[float], n_queries: int) -> tuple[Indices, dict[str, list[int]]]:
    names = {2: ["train", "test"], 3: ["train", "validation", "test"]}.get(len(fractions))
    if names is None or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-9:
        raise InvalidData(
            f"expected two or three fractions above 0 that add up to 1, found {', '.join(map(str, fractions))}"
        )
    # Largest remainders: whole numbers that add up, each within one of its share.
    shares = np.array(fractions) * n_queries
    sizes = np.floor(shares + 1e-9).astype(np.int64)
    sizes[np.argsort(sizes - shares, kind="stable")[: n_queries - int(sizes.sum())]] += 1
    if int(sizes.min()) == 0:
        raise InvalidData(
            f"expected at least one query in each of {len(names)} parts, found {n_queries} queries"
        )
    return sizes, {name: [part] for part, name in enumerate(names)}


def _by_folds(folds: int, n_queries: int) -> tuple[Indices, dict[str, list[int]]]:
    if not 3 <= folds <= n_queries:
        raise InvalidData(f"expected 3 to {n_queries} folds of {n_queries} queries, found {folds}")
    sizes = np.full(folds, n_queries // folds)
    sizes[: n_queries % folds] += 1
    files = {}
    for fold in range(folds):
        order = [(fold + part) % folds for part in range(folds)]
        files[f"Fold{fold + 1}/train"] = order[:-2]
        files[f"Fold{fold + 1}/validation"] = order[-2:-1]
        files[f"Fold{fold + 1}/test"] = order[-1:]
    return sizes, files


def _chosen_again(checked: _Checked, codes: Indices) -> Iterator[Block]:
    return _chosen(checked.blocks(), codes)


def _chosen(blocks: Iterable[Block], codes: Indices) -> Iterator[Block]:
    """Keep the documents of queries whose code is not negative."""
    for block in blocks:
        numbers = codes[block.queries]
        rows = np.flatnonzero(numbers >= 0)
        if len(rows) == 0:
            continue
        width = int(block.lines.columns.max(initial=-1)) + 1 if block.lines is not None else 0
        matrix = block.matrix if block.matrix is not None else block.dense(width)
        comments = None if block.comments is None else block.comments.take(pa.array(rows))
        yield Block(
            block.labels[rows],
            numbers[rows],
            comments,
            matrix=matrix[rows],
            weights=None if block.weights is None else block.weights[rows],
            positions=None if block.positions is None else block.positions[rows],
        )


class _Checked:
    """Sources that have been read once and found good; ``blocks`` reads them again."""

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
                    f"{self._sources[0].path}: expected data that stay as they are, found a change"
                )
            seen += len(block)
            yield block
        if seen != self.n_docs or scan.names() != self.names:
            raise InvalidData(f"{self._sources[0].path}: expected data that stay as they are, found a change")


# --------------------------------------------------------------------------------------------------------- writers


class _Writer(Protocol):
    def write(self, block: Block, query_ids: Sequence[str]) -> None: ...
    def close(self) -> None: ...


def _write(
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
        stack.enter_context(_telling(path))
        temporary = stack.enter_context(_replacing(path, overwrite=overwrite))
        # Left in reverse order: the names are there before the data are.
        if needs_names:
            _check_names(names)
            stack.enter_context(_replacing(beside, overwrite=overwrite)).write_text(
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
                _check_query_ids(query_ids)
                writer = _TextWriter(temporary, to, len(names), sparse=sparse)
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


class _TextWriter:
    """LETOR text; a number is the shortest one that reads back as itself."""

    def __init__(self, path: Path, to: Format, n_features: int, *, sparse: bool | None) -> None:
        self._sparse = sparse
        self._first = True
        self._n_features = n_features
        self._prefixes = pa.array([f" {index}:" for index in range(1, n_features + 1)])
        self._stack = ExitStack()
        file = self._stack.enter_context(path.open("wb"))
        self._file: Any = file
        if to == "gz":
            self._file = self._stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        elif to == "zst":
            compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
            self._file = self._stack.enter_context(compressor.stream_writer(file, closefd=False))

    def write(self, block: Block, query_ids: Sequence[str]) -> None:
        labels, comments, matrix = block.labels, block.comments, block.dense(self._n_features)
        if self._sparse is None:
            # If a file leaves out only last features, it looks like a damaged dense file.
            self._sparse = float(np.mean(matrix == 0)) > 0.5 and _has_hole(matrix)
        lines = pc.binary_join_element_wise(_numerals(labels), pa.array(query_ids, pa.string()), " qid:")
        tails = pa.array(["\n"] * len(labels)) if comments is None else _comment_tails(comments)
        lines = pc.binary_join_element_wise(lines, self._values(matrix), tails, "")
        _, offsets, text = lines.buffers()
        ends = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
        self._file.write(memoryview(text)[int(ends[0]) : int(ends[-1])])
        self._first = False

    def close(self) -> None:
        self._stack.close()

    def _values(self, matrix: Matrix) -> Any:
        if self._sparse:
            kept = _kept(matrix)
            if self._first:
                kept[0, -1] = True  # shows how many features there are
            columns = np.nonzero(kept)[1]
            offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
            values = matrix[kept]
        else:
            values = matrix.reshape(-1)
            columns = np.tile(np.arange(matrix.shape[1]), len(matrix))
            offsets = np.arange(len(matrix) + 1) * matrix.shape[1]
        prefixes = self._prefixes.take(pa.array(columns.astype(np.int32)))
        texts = pc.binary_join_element_wise(prefixes, _numerals(values), "")
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), texts), "")


def _has_hole(matrix: Matrix) -> bool:
    """Whether a document of sparse text leaves a feature out before one that it has."""
    kept = _kept(matrix)
    return bool((~kept[:, :-1] & kept[:, 1:]).any())


def _kept(matrix: Matrix) -> Bits:
    """Return which values sparse text has: all but zeros, which an absent feature means."""
    kept: Bits = (matrix != 0) | np.signbit(matrix)
    return kept


def _numerals(values: Vector | Matrix) -> Any:
    """Return the shortest text of each number; ``?`` for NaN."""
    texts = pa.array(values).cast(pa.string())
    if values.dtype == np.float32:
        # A reader first converts the text to the nearest double. If that does not give the same float32, all digits are
        # written.
        back = texts.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float32)
        wrong = (back != values) & ~np.isnan(values)
        if bool(wrong.any()):
            exact = pa.array([repr(float(value)) for value in values[wrong]])
            texts = pc.replace_with_mask(texts, pa.array(wrong), exact)
    missing = np.isnan(values)
    return pc.if_else(pa.array(missing), "?", texts) if bool(missing.any()) else texts


def _comment_tails(comments: Any) -> Any:
    for character, name in (("\n", "a line feed"), ("\r", "a carriage return"), ("\x00", "a zero byte")):
        found = pc.match_substring(comments, character)
        if pc.any(found).as_py():
            raise InvalidData(f"expected comments of one line of text, found one with {name}")
    marked = pc.binary_join_element_wise(" #", comments, "\n", "")
    return pc.if_else(pc.equal(comments, ""), "\n", marked)


_NOT_IN_QUERY = re.compile(r"[\x00-\x20#]")


def _check_query_ids(query_ids: Sequence[str]) -> None:
    for query_id in query_ids:
        if not query_id or _NOT_IN_QUERY.search(query_id):
            raise InvalidData(
                f"expected query ids that text can hold (no blank, no '#', not empty), found {query_id!r}"
            )


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not name.strip() or name != name.strip() or "\n" in name:
            raise InvalidData(f"expected feature names that fit on a line, found {name!r}")


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Say what could not be written."""
    try:
        yield
    except OSError as error:
        raise InvalidData(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def _replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a name beside ``path``. If writing succeeds, the file or folder gets the name ``path``."""
    if not overwrite and path.exists():
        raise InvalidData(
            f"{path}: expected a name that is not in use, found a file or folder (--overwrite replaces it)"
        )
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InvalidData(f"{path}: expected a file or a folder to replace, found neither")
    room = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        temporary = room / path.name
        yield temporary
        _sync(temporary)
        if temporary.is_dir() and path.is_dir():
            path.replace(room / "old")
        temporary.replace(path)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _sync(path: Path) -> None:
    for file in [path] if path.is_file() else [entry for entry in path.rglob("*") if entry.is_file()]:
        with file.open("rb+") as stream:
            os.fsync(stream.fileno())
