"""Write judged queries, convert one format into another, and split a set into parts.

What is written reads back as the same values, labels, order, comments and names. The whole input is read and checked
before the first byte is written, and what is written gets its name when it is whole: a failure leaves nothing behind.

Files and folders that are written whole or not at all: they get their name when they are whole.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias, cast, get_args

import numpy as np
import pyarrow as pa

from localrank.errors import InvalidConfiguration, InvalidData, PublishFailed
from localrank.features.columns import forget
from localrank_training.data.columnar import ParquetWriter, write_arrow
from localrank_training.data.letor import LetorWriter, check_feature_names, check_query_ids
from localrank_training.data.queries import Texts, default_names, repeated
from localrank_training.data.reading import read
from localrank_training.data.rows import CELLS
from localrank_training.data.tables import AS_NAMED, Columns, Piece
from localrank_training.parallel.processes import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from localrank.arrays import Indices, Matrix, Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.data.synthetic import Drawn


def check_writable(path: Path) -> None:
    """Refuse at once what `whole_file` would refuse after hours of work.

    Raises:
        PublishFailed: the file cannot be written.
    """
    folder = path.resolve().parent
    if path.is_dir():
        why = "it is a folder"
    elif not folder.exists():
        why = f"no such folder: {folder}"
    elif not folder.is_dir():
        why = f"{folder} is a file"
    elif path.exists() and not path.is_file():
        why = "" if os.access(path, os.W_OK) else os.strerror(errno.EACCES)
    else:
        why = "" if os.access(folder, os.W_OK | os.X_OK) else f"{folder}: {os.strerror(errno.EACCES)}"
    if why:
        raise PublishFailed(f"{path}: cannot be written: {why}")


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Open a text file that is written whole or not at all.

    A device, a pipe or what a link leads to is written, never replaced.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("w", newline="", encoding="utf-8") as file:
                yield file
            return
        target = path.resolve()
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with partial.open("w", newline="", encoding="utf-8") as file:
                yield file
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PublishFailed(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Say what could not be written."""
    try:
        yield
    except OSError as error:
        raise InvalidData(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
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


Format: TypeAlias = Literal["text", "gz", "zst", "parquet", "arrow"]
FORMATS: tuple[Format, ...] = get_args(Format)

SUFFIXES: dict[Format, str] = {
    "text": ".txt",
    "gz": ".txt.gz",
    "zst": ".txt.zst",
    "parquet": ".parquet",
    "arrow": ".arrow",
}
#: Endings of names of plain text.
_PLAIN = ("", ".txt")
#: The names of tables of text.
_TABLE = re.compile(r"(\.(csv|tsv|json|jsonl))(\.gz|\.zst)?$", re.IGNORECASE)


def format_of(path: str | Path) -> Format:
    """Return the format that a name asks for; a name without an ending asks for text.

    Raises:
        InvalidData: it asks for CSV or JSON, which can only be read, or for something unknown.
    """
    expected = f"{path}: expected a name in .txt, .txt.gz, .txt.zst, .parquet or .arrow, found "
    if table := _TABLE.search(str(path)):
        raise InvalidData(f"{expected}{table[1]}, which can be read but not written")
    inner, ending = Path(Path(path).stem).suffix.lower(), Path(path).suffix.lower()
    if ending in {".gz", ".zst"} and inner in _PLAIN:
        return "gz" if ending == ".gz" else "zst"
    if ending in {".parquet", ".arrow"}:
        return "parquet" if ending == ".parquet" else "arrow"
    if ending not in _PLAIN:
        raise InvalidData(f"{expected}{inner if ending in {'.gz', '.zst'} else ''}{ending}")
    return "text"


#: Bytes of documents that are held while they are converted.
_HELD = 1 << 24
_TEXT = frozenset({"text", "gz", "zst"})


def write(
    queries: QuerySet,
    path: str | Path,
    *,
    to: Format | None = None,
    sparse: bool | None = None,
    overwrite: bool = False,
) -> None:
    """Write a set, documents in the order of ``lines``; the file gets its name when it is whole.

    Args:
        queries: what to write.
        path: where to.
        to: the format; None takes it from the name.
        sparse: whether text leaves zeros out; None does so where most values are zero.
        overwrite: replace what is there.

    Raises:
        InvalidData: the format cannot hold it, or the file cannot be written.
    """
    path, to = Path(path), format_of(path) if to is None else to
    if to in _TEXT and (lost := _lost_in_text(queries)) is not None:
        raise _too_little(path, *lost)
    names, kept = queries.feature_names, (queries.comments, queries.weights, queries.positions)
    with _opened(path, to, queries.query_ids, names, overwrite=overwrite) as temporary:
        if to == "arrow":
            write_arrow(temporary, queries)
        elif to == "parquet":
            comments, weights, positions = (one is not None for one in kept)
            _fill(
                ParquetWriter(
                    temporary,
                    names,
                    comments=comments,
                    weights=weights,
                    positions=positions,
                    special=queries.special,
                ),
                _pieces(queries),
            )
        else:
            _fill(LetorWriter(temporary, to, len(names), sparse=sparse), _pieces(queries))


def write_drawn(drawn: Drawn, path: str | Path, *, overwrite: bool = False) -> None:
    """Write synthetic queries, with the kind of each as comments; the name decides the format.

    Text and Parquet are written while the queries are drawn.
    """
    path, to = Path(path), format_of(path)
    names = default_names(drawn.recipe.features)
    with _opened(path, to, drawn.query_ids, names, overwrite=overwrite) as temporary:
        if to == "arrow":
            write_arrow(temporary, drawn.whole())
        elif to == "parquet":
            _fill(
                ParquetWriter(temporary, names, comments=True, weights=False, positions=False), _drawn(drawn)
            )
        else:
            _fill(LetorWriter(temporary, to, len(names), sparse=None), _drawn(drawn))


def _lost_in_text(queries: QuerySet) -> tuple[str, str] | None:
    """Return what LETOR text would not keep, and the options that leave it out; None if it keeps all."""
    if queries.weights is not None or queries.positions is not None:
        return "positions" if queries.weights is None else "query weights", ""
    categories = [one.name for one in queries.features if one.kind == "category"]
    return ("categories", f"--ignore {','.join(categories)}") if categories else None


def _too_little(path: Path, lost: str, advice: str) -> InvalidData:
    other = f", or {advice}" if advice else ""
    return InvalidData(
        f"{path}: expected a format that keeps {lost} (--to parquet or arrow){other}, found LETOR text"
    )


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
    """Write what the paths hold in another form; return the number of documents. See `write` and `read`."""
    form = format_of(out) if to is None else to
    queries = read(paths, progress=progress, columns=columns, say=say, skip=skip, held=_HELD)
    write(queries, out, to=form, sparse=sparse, overwrite=overwrite)
    return queries.n_docs


def split(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    fractions: Sequence[float] | None = None,
    folds: int | None = None,
    seed: int = 0,
    to: Format | None = None,
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
        to: the format of the files; None takes LETOR text, or Parquet for what text does not keep.
        progress: told the bytes read.
        columns: what the columns of tables hold, and whether text leaves zeros out.
        say: told what was taken from a table and what was left out, and why the files are not text.

    Returns:
        Queries and documents of every file, by its name in the folder.
    """
    # What costs nothing to check comes before the data are read, which may take minutes.
    if (fractions is None) == (folds is None):
        found = "neither" if folds is None else "both"
        raise InvalidConfiguration(f"expected either fractions or folds to split by, found {found}")
    names = None if fractions is None else _parts(fractions)
    out = Path(out)
    if out.exists():
        kind = "one" if out.is_dir() else "a file"
        raise InvalidData(f"{out}: expected a folder that does not exist yet, found {kind}")
    queries = read(paths, progress=progress, columns=columns, say=say, held=_HELD)
    lost = _lost_in_text(queries)
    if to is None:
        to = "text" if lost is None else "parquet"
        if lost is not None:
            say(f"{out}: the files are Parquet, because LETOR text does not keep {lost[0]}")
    elif to in _TEXT and lost is not None:
        raise _too_little(out, *lost)
    if fractions is not None and names is not None:
        sizes, files = _by_fractions(fractions, names, len(queries))
    else:
        sizes, files = _by_folds(cast("int", folds), len(queries))
    order = np.random.default_rng(seed).permutation(len(queries))
    part_of = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(order)]
    report: dict[str, tuple[int, int]] = {}
    with telling(out), replacing(out, overwrite=False) as temporary:
        temporary.mkdir()
        for name, parts in files.items():
            part = queries.select(np.flatnonzero(np.isin(part_of, parts)))
            path = temporary / (name + SUFFIXES[to])
            path.parent.mkdir(exist_ok=True)
            write(part, path, to=to)
            report[name + SUFFIXES[to]] = (len(part), part.n_docs)
    return report


def _parts(fractions: Sequence[float]) -> list[str]:
    """Return the names of the parts."""
    names = {2: ["train", "test"], 3: ["train", "validation", "test"]}.get(len(fractions))
    # NaN is neither above 0 nor close to a sum of 1.
    if names is None or not (all(part > 0 for part in fractions) and abs(sum(fractions) - 1) <= 1e-9):
        raise InvalidConfiguration(
            f"expected two or three fractions above 0 that add up to 1, found {', '.join(map(str, fractions))}"
        )
    return names


def _by_fractions(
    fractions: Sequence[float], names: Sequence[str], n_queries: int
) -> tuple[Indices, dict[str, list[int]]]:
    # Largest remainders: whole numbers that add up, each within one of its share.
    shares = np.array(fractions) * n_queries
    sizes = np.floor(shares).astype(np.int64)
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


@contextmanager
def _opened(
    path: Path, to: Format, query_ids: Sequence[str], names: Sequence[str], *, overwrite: bool
) -> Iterator[Path]:
    """Yield a name to write to; the file gets its own when it is whole, and so do names beside it."""
    if to not in FORMATS:
        raise InvalidData(f"expected one of {', '.join(FORMATS)} as format, found {to!r}")
    for what, given in (("feature name", names), ("query id", query_ids)):
        if (twice := repeated(given)) is not None:
            raise InvalidData(f"{path}: expected every {what} once, found {twice!r} again")
    if not path.parent.is_dir():
        raise InvalidData(f"{path}: expected an existing folder to write into, found none at {path.parent}")
    beside = path.with_name(path.name + ".names")
    needs_names = to in _TEXT and tuple(names) != default_names(len(names))
    with ExitStack() as stack:
        stack.enter_context(telling(path))
        temporary = stack.enter_context(replacing(path, overwrite=overwrite))
        if to in _TEXT:
            check_query_ids(query_ids)
        # Left in reverse order: the names are there before the data are.
        if needs_names:
            check_feature_names(names)
            stack.enter_context(replacing(beside, overwrite=overwrite)).write_text(
                "".join(name + "\n" for name in names), "utf-8"
            )
        yield temporary
    if not needs_names:
        beside.unlink(missing_ok=True)


def _fill(writer: ParquetWriter | LetorWriter, pieces: Iterator[Piece]) -> None:
    try:
        for piece in pieces:
            writer.write(piece)
    finally:
        writer.close()


def _pieces(queries: QuerySet) -> Iterator[Piece]:
    """Yield a set's documents in the order of their input."""
    order = np.argsort(queries.lines, kind="stable")
    ids = np.array(queries.query_ids, object)
    query_of = queries.query_of
    comments = None if queries.comments is None else Texts.of(queries.comments)
    size = max(CELLS // queries.n_features, 1)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        of = query_of[rows]
        yield Piece(
            labels=queries.labels[rows],
            query_ids=ids[of].tolist(),
            documents=np.asarray(queries.documents[rows]),
            comments=None if comments is None else comments.arrow(rows),
            weights=None if queries.weights is None else queries.weights[of],
            positions=None if queries.positions is None else queries.positions[rows],
        )
        forget(queries.documents, int(rows.min()), int(rows.max()) + 1)


def _drawn(drawn: Drawn) -> Iterator[Piece]:
    """Yield synthetic queries while they are drawn."""
    most = max(1, CELLS // drawn.recipe.features)
    documents: list[Matrix] = []
    labels: list[Vector] = []
    first = 0
    for query, (some, of_query) in enumerate(drawn):
        documents.append(some.astype(np.float32))
        labels.append(of_query.astype(np.float64))
        last = query + 1
        if drawn.offsets[last] - drawn.offsets[first] >= most or last == len(drawn.kind_of):
            query_of = np.repeat(np.arange(first, last), np.diff(drawn.offsets[first : last + 1]))
            yield Piece(
                labels=np.concatenate(labels),
                query_ids=[drawn.query_ids[one] for one in query_of],
                documents=np.concatenate(documents),
                comments=pa.array([drawn.comment_of(int(one)) for one in query_of], pa.string()),
                weights=None,
                positions=None,
            )
            documents, labels, first = [], [], last
