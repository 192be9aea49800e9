"""Time and memory of every learner, against what a user would run instead, and how both grow.

    LOCALRANK_DATA=… python -m benchmarks.training [--web] [--growth] [--limit SECONDS]

Each fit runs in a forked process of its own, with one thread, on the first fold of each set; `--web` adds synthetic queries of
the size of MSLR-WEB10K's training folds (6,000 queries of 120 documents, 136 features, five labels). Seconds are
processor time; memory is the peak above what was resident before the fit, the queries included. `--growth` doubles
queries, documents and features of synthetic sets in turn and prints the exponent that fits the times.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.folds import CONVENTIONS, folds
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.lesson import Lesson

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from localrank_training.data.queries import QuerySet

#: As many trees for everything that has trees, so that times compare.
TREES = 200
SETTINGS: dict[str, dict[str, Any]] = {
    "gbrt": {"num_iterations": TREES, "num_threads": 1},
    "lambdamart": {"num_iterations": TREES, "num_threads": 1},
    "extra_trees": {"trees": TREES, "num_threads": 1},
    "random_forest": {"trees": TREES, "num_threads": 1},
}
#: Printed by a paper, on the machines of their time, and never measured here.
PRINTED = (
    "MHR's paper (table 7) prints 248 to 310 minutes for the three base rankers of OHSUMED and 663 to 887 for RankSVM, "
    "both by SVMlight on a PC of 2.2 GHz [qin2007]."
)
#: More bytes of pairs than these are not made.
MOST_BYTES = 4e9


@dataclass(frozen=True)
class Cost:
    """What one fit took; or why there was none."""

    seconds: float = 0.0
    megabytes: float = 0.0
    failure: str = ""

    def __str__(self) -> str:
        if self.failure:
            return self.failure
        return f"{self.seconds:.2f} s, {self.megabytes:.0f} MB"


def learner(method: str) -> Callable[[QuerySet], object]:
    return lambda queries: make(method, SETTINGS.get(method, {})).fit(Lesson(queries))


def lightgbm_by_hand(queries: QuerySet) -> object:
    import lightgbm

    data = lightgbm.Dataset(queries.documents, queries.labels, group=queries.lengths)
    parameters = {
        "objective": "lambdarank",
        "num_leaves": 7,
        "learning_rate": 0.05,
        "num_threads": 1,
        "verbose": -1,
    }
    return lightgbm.train(parameters, data, TREES)


def extra_trees_by_hand(queries: QuerySet) -> object:
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(TREES, min_samples_leaf=5, max_features=1 / 3, n_jobs=1, random_state=0)
    return forest.fit(queries.documents, np.exp2(queries.labels) - 1)


def ridge_by_hand(queries: QuerySet) -> object:
    from sklearn.linear_model import Ridge

    return Ridge(1.0).fit(queries.documents, queries.labels)


def explicit_pairs(queries: QuerySet) -> object:
    """The usual RankSVM of scikit-learn users: a linear classifier of the differences of all pairs."""
    from sklearn.svm import LinearSVC

    pairs = 0
    for query in range(len(queries)):
        _, counts = np.unique(queries.labels_of(query), return_counts=True)
        pairs += (int(counts.sum()) ** 2 - int((counts**2).sum())) // 2
    if pairs * queries.n_features * 8 > MOST_BYTES:
        raise MemoryError(f"{pairs:,} pairs would fill {pairs * queries.n_features * 8 / 1e9:.0f} GB")
    differences, signs = np.empty((pairs, queries.n_features)), np.ones(pairs)
    end = 0
    for query in range(len(queries)):
        documents, labels = queries.documents_of(query), queries.labels_of(query)
        better, worse = np.nonzero(labels[:, None] > labels[None, :])
        begin, end = end, end + len(better)
        differences[begin:end] = documents[better] - documents[worse]
    signs[::2] = -1.0
    differences[::2] *= -1.0
    return LinearSVC(C=10.0 / pairs, fit_intercept=False, dual=False).fit(differences, signs)


ALTERNATIVES: dict[str, Callable[[QuerySet], object]] = {
    "LightGBM lambdarank, called by hand": lightgbm_by_hand,
    "scikit-learn ExtraTreesRegressor": extra_trees_by_hand,
    "scikit-learn Ridge": ridge_by_hand,
    "scikit-learn LinearSVC on explicit pairs": explicit_pairs,
}


def cost_of(fit: Callable[[QuerySet], object], queries: QuerySet, limit: float) -> Cost:
    """Fit in a forked process, which shares the queries' memory."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(sender, fit, queries), daemon=True)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else Cost(failure=f"more than {limit:.0f} s")
    except EOFError:
        return Cost(failure="ended without an answer")
    finally:
        process.terminate()
        process.join()


def _measure(sender: Connection, fit: Callable[[QuerySet], object], queries: QuerySet) -> None:
    before = _resident("VmRSS")
    started = time.process_time()
    try:
        with threadpool_limits(1):
            fit(queries)
        cost = Cost(time.process_time() - started, _resident("VmHWM") - before)
    except MemoryError as error:
        cost = Cost(failure=str(error) or "out of memory")
    sender.send(cost)


def _resident(field: str) -> float:
    """Return a field of the process's memory in megabytes; Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return float("nan")


def web_sized() -> QuerySet:
    recipe = Recipe(documents=(120, 120), features=136, levels=5)
    return synthesize(6000, recipe)[0]


def costs(sets: dict[str, QuerySet], limit: float) -> None:
    """Print the table of all fits."""
    for name, queries in sets.items():
        print(f"- {name}: {len(queries)} queries, {queries.n_docs} documents, {queries.n_features} features")
    print("\n| | " + " | ".join(sets) + " |\n|---|" + "---|" * len(sets))
    fits = {method: learner(method) for method in LEARNERS} | {f"*{k}*": v for k, v in ALTERNATIVES.items()}
    for name, fit in fits.items():
        found = [str(cost_of(fit, queries, limit)) for queries in sets.values()]
        print(f"| {name} | " + " | ".join(found) + " |", flush=True)
    print(f"\n{PRINTED}")


def growth(limit: float) -> None:
    """Print seconds per size, and the exponent of the growth."""
    base = {"queries": 200, "documents": 50, "features": 40}
    for varied, factors in (("queries", (1, 2, 4, 8)), ("documents", (1, 2, 4, 8)), ("features", (1, 2, 4))):
        sizes = [{**base, varied: base[varied] * factor} for factor in factors]
        sets = [
            synthesize(
                size["queries"],
                Recipe(documents=(size["documents"],) * 2, features=size["features"], levels=3),
            )[0]
            for size in sizes
        ]
        print(f"\nSeconds by {varied} ({', '.join(f'{v} {k}' for k, v in base.items() if k != varied)}):\n")
        print("| | " + " | ".join(str(size[varied]) for size in sizes) + " | exponent |")
        print("|---|" + "---|" * (len(sizes) + 1))
        for method in LEARNERS:
            found = [cost_of(learner(method), queries, limit) for queries in sets]
            seconds = [cost.seconds for cost in found]
            exponent = ""
            if all(second > 0 for second in seconds):
                slope = np.polyfit(np.log([size[varied] for size in sizes]), np.log(seconds), 1)[0]
                exponent = f"{slope:.1f}"
            shown = [cost.failure or f"{cost.seconds:.2f}" for cost in found]
            print(f"| {method} | " + " | ".join(shown) + f" | {exponent} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=list(CONVENTIONS), choices=list(CONVENTIONS))
    parser.add_argument("--web", action="store_true", help="add a synthetic set of the size of MSLR-WEB10K")
    parser.add_argument("--growth", action="store_true", help="measure how times grow")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that a fit may take")
    arguments = parser.parse_args()
    for library in ("lightgbm", "sklearn.ensemble", "sklearn.linear_model", "sklearn.svm"):
        import_module(library)  # Forked processes share it, so no fit pays for it.
    sets = {name: next(iter(folds(name)))[0] for name in arguments.sets}
    if arguments.web:
        sets["WEB10K-sized"] = web_sized()
    if sets:
        costs(sets, arguments.limit)
    if arguments.growth:
        growth(arguments.limit)


if __name__ == "__main__":
    main()
