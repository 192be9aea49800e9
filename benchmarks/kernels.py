"""What each compiled kernel saves, beside numpy or LAPACK doing the same (docs/decisions/kernels.md).

    python -m benchmarks.kernels

Median microseconds on one thread, both in turn on the same arrays; each pair is also compared, so that no fast but wrong
kernel gets a figure. The walk of trees has `benchmarks.trees`, the numbers of JSON have `benchmarks.stages`. The exit
code is 1 if a kernel is slower than numpy at the size that it is kept for.
"""

from __future__ import annotations

import itertools
import logging
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.routing import made
from benchmarks.signature import cloud
from localrank.commands.output import print_table
from localrank.features import principal, scaling
from localrank.native import library
from localrank.native.documents import Range
from localrank.points.signature import Signatures
from localrank.routing.search import CompiledSearch, HyperplaneTables, NumpySearch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localrank.arrays import Matrix

REPEATS = 300
SHAPES = ((20, 46), (100, 46), (100, 136), (1000, 136))
#: Training queries and features, at five directions.
TRAINING = ((1000, 46), (1000, 136), (10_000, 136), (1000, 700))
HEADER = ("kernel", "size", "numpy µs", "C µs", "times")


@contextmanager
def without_library() -> Iterator[None]:
    path, library.PATH = library.PATH, Path("/nowhere")
    library.library.cache_clear()
    yield
    library.PATH = path
    library.library.cache_clear()


def medians(compiled: Callable[[], object], plain: Callable[[], object]) -> tuple[float, float]:
    """Return the median microseconds of both, run in turn, the second without the library."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        times[0].extend(timed(compiled))
        with without_library():
            times[1].extend(timed(plain))
    return float(np.median(times[0])), float(np.median(times[1]))


def timed(run: Callable[[], object]) -> list[float]:
    run()
    taken = []
    for _ in range(REPEATS // 3):
        started = time.perf_counter()
        run()
        taken.append(1e6 * (time.perf_counter() - started))
    return taken


def of_documents(documents: Matrix) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what is done with one query's documents, by kernel."""
    known = Range(documents.min(axis=0) + 0.01, documents.max(axis=0) - 0.01)
    centred = principal._centred_in_single(documents)[0]  # noqa: SLF001
    scatter = principal._smaller_scatter(centred)  # noqa: SLF001
    yield "documents.c: to 0 … 1", lambda: scaling.within_query(documents, standard=False)
    yield "documents.c: to mean 0, deviation 1", lambda: scaling.within_query(documents, standard=True)
    scale = np.ones(documents.shape[1])
    yield "documents.c: distance to the largest value", lambda: scaling.behind_best(documents, scale)
    yield "documents.c: out of range", lambda: scaling.count_out_of_range(documents, known)
    yield "percentiles.c: mid-rank percentiles", lambda: scaling.percentiles(documents)
    yield "eigen.c: six eigenpairs", lambda: principal._top_eigenpairs(scatter, 6)  # noqa: SLF001
    yield "all of a signature", lambda: principal.principal_directions(documents, 5)


def check(name: str, ours: Any, theirs: Any) -> None:
    """Refuse figures of kernels that answer something else."""
    if name.startswith(("eigen", "all")):
        ours, theirs = (np.asarray(one[0], float) for one in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5, err_msg=name)


def of_routing(n_queries: int, n_features: int) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Yield both ways of what is done to find a query's cluster; every call is for the next query."""
    lsh, exact, asked, _ = made("spread", n_queries, 5, n_features)
    signatures = [asked.of(query) for query in range(100)]
    plain = HyperplaneTables(lsh.tables.planes, lsh.tables.offsets, lsh.tables.ids)
    plain.__dict__["_look_up"] = None
    known = exact.points
    assert isinstance(known, Signatures)
    compiled, numpy = CompiledSearch(known, exact.clusters), NumpySearch(known, exact.clusters, "eq5")
    some = np.random.default_rng(0).integers(0, n_queries, 256)
    for signature in signatures[:10]:
        assert abs(compiled.among_all(signature).similarity - numpy.among_all(signature).similarity) < 1e-5
        expected = plain.candidates(signature, None, 256, cap=64)
        np.testing.assert_array_equal(expected, lsh.tables.candidates(signature, None, 256, cap=64))

    def each(run: Callable[[Any], object]) -> Callable[[], object]:
        following = itertools.cycle(signatures)
        return lambda: run(next(following))

    yield (
        "nearest.c: 256 candidates",
        each(lambda one: compiled.among(one, some)),
        each(lambda one: numpy.among(one, some)),
    )
    yield "nearest.c: all", each(compiled.among_all), each(numpy.among_all)
    yield (
        "tables.c: look-up",
        each(lambda one: lsh.tables.candidates(one, None, 256, cap=64)),
        each(lambda one: plain.candidates(one, None, 256, cap=64)),
    )


def main() -> int:
    if library.library() is None:
        sys.exit("the compiled kernels are not installed: pip install --editable . with a C compiler")
    logging.disable()  # that there is no library, each time that it is taken away
    rows: list[tuple[str | float, ...]] = []
    with threadpool_limits(1):
        for n_docs, n_features in SHAPES:
            documents = cloud(n_docs, n_features, 0.9)
            for name, run in of_documents(documents):
                ours = run()
                with without_library():
                    theirs = run()
                check(name, ours, theirs)
                c, numpy = medians(run, run)
                rows.append((name, f"{n_docs} × {n_features}", numpy, c, numpy / c))
        for n_queries, n_features in TRAINING:
            for name, compiled, plain in of_routing(n_queries, n_features):
                c, numpy = medians(compiled, plain)
                rows.append((name, f"{n_queries} × {n_features}", numpy, c, numpy / c))
    print_table(HEADER, sorted(rows, key=lambda row: str(row[0])))
    missed = [
        f"{name}, {size}"
        for name, size, _, _, times in rows
        if size in {"100 × 136", "1000 × 136"} and float(times) < 1
    ]
    for what in missed:
        print(f"MISSED {what}: slower than numpy")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
