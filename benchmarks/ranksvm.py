"""How long RankSVM takes on queries of the size of MSLR-WEB10K, and how good its ways of weighing pairs are.

    python -m benchmarks.ranksvm [--small]
    LOCALRANK_DATA=… python -m benchmarks.ranksvm --folds

One solve, from zero to a proven 1e-7 of the optimum: 6,000 queries of 120 documents with 136 features and labels 0 to 4.
Seconds and peak memory, the documents included, have thresholds. ``--small`` takes a tenth of the queries. ``--folds``
measures instead how good each way of weighing pairs is on the official folds of OHSUMED and MQ2008, C chosen by
validation MAP.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from benchmarks.folds import CONVENTIONS, folds
from localrank.metrics import measure
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.pairs import levels_within
from localrank_training.learners.ranksvm import RankSvm

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Vector
    from localrank.scorers import LinearScorer
    from localrank_training.data.queries import QuerySet

SECONDS, GIGABYTES = 60.0, 3.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="600 queries instead of 6,000")
    parser.add_argument("--folds", action="store_true", help="quality on real data instead of speed")
    arguments = parser.parse_args()
    if arguments.folds:
        for name in CONVENTIONS:
            quality(name)
        return 0
    return int(large(600 if arguments.small else 6_000))


def quality(name: str) -> None:
    """Print means over the official folds, C chosen by validation MAP."""
    print(f"{name:<8} balance total  validation MAP    MAP  NDCG@10 ({CONVENTIONS[name][0]})")
    parts = list(folds(name))
    ways: list[tuple[float, Literal["mean", "sum"]]] = [
        (0.0, "sum"),
        (0.0, "mean"),
        (0.5, "mean"),
        (1.0, "mean"),
    ]
    for balance, total in ways:
        grid = 10.0 ** (np.arange(-6.0, 0.1, 0.5) if total == "sum" else np.arange(0.0, 3.1, 0.5))
        rows = []
        for lesson, validation, test in parts:
            best, start = (-1.0, -1.0, -1.0), None
            for C in grid:
                start = RankSvm(C=C, balance=balance, total=total).fit(Lesson(lesson, start=start))
                held, _ = figures(validation, start, name)
                best = max(best, (held, *figures(test, start, name)))
            rows.append(best)
        means = np.mean(rows, axis=0)
        print(f"{name:<8} {balance:7g} {total:<5}  {means[0]:14.4f}  {means[1]:.4f}  {means[2]:.4f}")


def figures(queries: QuerySet, scorer: LinearScorer, name: str) -> tuple[float, float]:
    """Return MAP and NDCG@10 in the set's own convention."""
    scores = scorer.score_rows(queries.documents)
    found = measure(queries.labels, scores, queries.offsets, ["map", "ndcg@10"], CONVENTIONS[name][0])
    return found[0].mean, found[1].mean


def large(n_queries: int) -> bool:
    """Solve once at the size of MSLR-WEB10K."""
    queries = normalised(
        n_queries, Recipe(documents=(120, 120), features=136, noise_features=36, separation=0.3)
    )
    n_pairs = pairs_of(queries)
    worst = 0.0
    for C in (1.0, 10.0, 100.0):
        seconds, _ = timed(partial(solve, queries, C))
        worst = max(worst, seconds)
        print(f"{n_queries} x 120 x 136, {n_pairs:,} pairs, C = {C:<5g} {seconds:6.1f} s")
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(f"longest {worst:.1f} s (at most {SECONDS:g}), peak {gigabytes:.2f} GB (at most {GIGABYTES:g})")
    return worst > SECONDS or gigabytes > GIGABYTES


def solve(queries: QuerySet, C: float) -> Vector:
    return RankSvm(C=C).fit(Lesson(queries)).weights


def normalised(n_queries: int, recipe: Recipe) -> QuerySet:
    """Make queries, every feature between 0 and 1 within its query."""
    queries, _ = synthesize(n_queries, recipe)
    for query in range(len(queries)):
        documents = queries.documents_of(query)
        documents -= documents.min(axis=0)
        documents /= documents.max(axis=0)
    return queries


def pairs_of(queries: QuerySet) -> int:
    """Count the pairs of documents with different labels."""
    levels = levels_within(queries.labels, queries.offsets)
    width = int(levels.max()) + 1
    counts = np.bincount(queries.query_of * width + levels, minlength=len(queries) * width)
    rows = counts.reshape(len(queries), width)
    return int((rows.sum(axis=1) ** 2 - (rows**2).sum(axis=1)).sum() // 2)


def timed(solver: Callable[[], Vector]) -> tuple[float, Vector]:
    """Return the seconds of this process, and the result."""
    started = time.process_time()
    result = solver()
    return time.process_time() - started, result


if __name__ == "__main__":
    sys.exit(main())
