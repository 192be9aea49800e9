"""How long RankSVM takes, and what making no pairs is worth.

    python -m benchmarks.ranksvm [--small]
    LOCALRANK_DATA=… python -m benchmarks.ranksvm --folds

Two questions, each with a threshold that sets the exit code:

- One solve, from zero to a proven 1e-7 of the optimum, on queries of the size of MSLR-WEB10K: 6,000 queries of 120
  documents with 136 features and labels 0 to 4. Seconds and peak memory, the documents included. ``--small`` asks
  for a tenth of the queries.
- The same Newton steps on explicit pairs, and scikit-learn's liblinear on them, where pairs still fit: 64 queries with
  45 features, of 150 documents, as in a fold of OHSUMED, and of 300. The gain grows with the length of the lists, and
  the threshold is for the longer. Solvers take turns in one process; the least seconds of each
  count, and the optima must agree to 1e-6.

``--folds`` answers another one instead: how good it is on the official folds of OHSUMED and MQ2008, C chosen by
validation MAP, for each way of weighing pairs.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.svm import LinearSVC

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

SECONDS, GIGABYTES, TIMES_FASTER = 60.0, 3.0, 20.0
AGREEMENT = 1e-6
SUM_C = 1e-4


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
    failed = large(600 if arguments.small else 6_000)
    beside_explicit_pairs(150)
    failed |= beside_explicit_pairs(300)
    return int(failed)


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


def beside_explicit_pairs(length: int) -> bool:
    """Solve the same problem without pairs and with."""
    queries = normalised(64, Recipe(documents=(length, length), features=45, levels=3, separation=0.3))
    differences = explicit_pairs(queries)
    learner = RankSvm(C=SUM_C, balance=0.0, total="sum")
    solvers: dict[str, Callable[[], Vector]] = {
        "no pairs": lambda: learner.fit(Lesson(queries)).weights,
        "explicit pairs, Newton": lambda: newton(explicit_pairs(queries), SUM_C),
        "explicit pairs, liblinear": lambda: liblinear(explicit_pairs(queries), SUM_C),
    }
    best = dict.fromkeys(solvers, np.inf)
    found: dict[str, Vector] = {}
    for _ in range(3):
        for name, solver in solvers.items():
            seconds, found[name] = timed(solver)
            best[name] = min(best[name], seconds)
    expected = found["explicit pairs, Newton"]
    apart = float(np.linalg.norm(found["no pairs"] - expected) / np.linalg.norm(expected))
    ratio = min(best["explicit pairs, Newton"], best["explicit pairs, liblinear"]) / best["no pairs"]
    for name, seconds in best.items():
        print(f"64 x {length} x 45, {len(differences):,} pairs, {name:<26} {seconds:8.3f} s")
    print(
        f"{ratio:.0f} times as fast (at least {TIMES_FASTER:g}), optima {apart:.0e} apart (at most {AGREEMENT:g})"
    )
    return ratio < TIMES_FASTER or apart > AGREEMENT


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


def explicit_pairs(queries: QuerySet) -> Vector:
    """Return ``[n_pairs, n_features]``, the better document less the worse."""
    differences = []
    for query in range(len(queries)):
        documents, labels = queries.documents_of(query).astype(np.float64), queries.labels_of(query)
        better, worse = np.nonzero(labels[:, None] > labels[None, :])
        differences.append(documents[better] - documents[worse])
    return np.concatenate(differences)


def newton(differences: Vector, C: float) -> Vector:
    """Minimise the sum over explicit pairs by Newton steps with the whole Hessian, halved until they descend."""
    weights = np.zeros(differences.shape[1])

    def value(weights: Vector) -> float:
        short = np.maximum(0.0, 1.0 - differences @ weights)
        return float(0.5 * weights @ weights + C * short @ short)

    for _ in range(100):
        margins = differences @ weights
        active = differences[margins < 1.0]
        pull = 2.0 * C * (active.T @ (1.0 - margins[margins < 1.0]))
        gradient = weights - pull
        if np.linalg.norm(gradient) <= 1e-7 * np.linalg.norm(pull):
            break
        step = np.linalg.solve(np.eye(len(weights)) + 2.0 * C * (active.T @ active), gradient)
        share, now = 1.0, value(weights)
        while value(weights - share * step) > now and share > 1e-6:
            share *= 0.5
        weights = weights - share * step
    return weights


def liblinear(differences: Vector, C: float) -> Vector:
    """Solve with scikit-learn's squared hinge: half of the pairs turned round, as it needs two classes."""
    signs = np.where(np.arange(len(differences)) % 2, -1.0, 1.0)
    svm = LinearSVC(C=C, loss="squared_hinge", dual=False, fit_intercept=False, tol=1e-6)
    weights = svm.fit(differences * signs[:, None], signs).coef_[0]

    return np.asarray(weights)


def timed(solver: Callable[[], Vector]) -> tuple[float, Vector]:
    """Return the seconds of this process, and the result."""
    started = time.process_time()
    result = solver()
    return time.process_time() - started, result


if __name__ == "__main__":
    sys.exit(main())
