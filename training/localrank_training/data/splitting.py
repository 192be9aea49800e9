"""Split judged queries into parts, whole queries at random: fractions, or folds that rotate as LETOR's do."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from localrank.errors import InvalidConfiguration, InvalidData
from localrank_training.data.columns import AS_NAMED, Columns
from localrank_training.data.replacing import replacing, telling
from localrank_training.data.scanning import Block
from localrank_training.data.writing import SUFFIXES, Checked, Format, write_blocks
from localrank_training.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from localrank.arrays import Indices


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
    # What costs nothing to check comes before the data are read, which may take minutes.
    if (fractions is None) == (folds is None):
        raise InvalidConfiguration("expected either fractions or folds to split by, found both or neither")
    names = None if fractions is None else _parts(fractions)
    out = Path(out)
    if out.exists():
        kind = "one" if out.is_dir() else "a file"
        raise InvalidData(f"{out}: expected a folder that does not exist yet, found {kind}")
    checked = Checked(paths, progress, columns, say)
    n_queries = len(checked.query_ids)
    if fractions is not None and names is not None:
        sizes, files = _by_fractions(fractions, names, n_queries)
    else:
        sizes, files = _by_folds(cast("int", folds), n_queries)
    part_of = np.repeat(np.arange(len(sizes)), sizes)[
        np.argsort(np.random.default_rng(seed).permutation(n_queries))
    ]
    lengths = np.bincount(checked.queries, minlength=n_queries)

    report: dict[str, tuple[int, int]] = {}
    with telling(out), replacing(out, overwrite=False) as temporary:
        temporary.mkdir()
        for name, parts in files.items():
            chosen = np.isin(part_of, parts)
            kept = np.flatnonzero(chosen)
            codes = np.full(n_queries, -1)
            codes[kept] = np.arange(len(kept))
            path = temporary / (name + SUFFIXES[to])
            path.parent.mkdir(exist_ok=True)
            write_blocks(
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
            report[name + SUFFIXES[to]] = (len(kept), int(lengths[kept].sum()))
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


def _chosen_again(checked: Checked, codes: Indices) -> Iterator[Block]:
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
