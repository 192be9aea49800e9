"""What new judged queries cost a published model, and how far it is then from one that learned from everything.

    python -m benchmarks.growing [--queries 1000,10000,100000,1000000] [--new 1000] [--features 46]
    LOCALRANK_DATA=… python -m benchmarks.growing --sets OHSUMED MQ2008 [--method auto]

The first form grows the hash tables of that many training queries by some new ones, and makes the tables of all of them anew
beside it: seconds of processor time, the best of three. The second form trains on two partitions of a set, extends the version
by two more, and compares it with a model learned from all but the fifth of the new queries on which both are measured. The
partition of the official test fold stays closed. The exit code is 1 if growing takes longer than making the tables anew.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.folds import data_dir
from localrank.artifact import load
from localrank.commands.output import print_table
from localrank.points.signature import Signatures
from localrank.registry.versions import Registry
from localrank.routing.search import HyperplaneTables, automatic_planes, draw_planes
from localrank_training.data.reading import read
from localrank_training.parallel.processes import available_cores
from localrank_training.publishing.extend import against_retraining, extend
from localrank_training.publishing.publish import publish
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable

COMPONENTS, TABLES, REPEATS = 5, 16, 3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", default="1000,10000,100000,1000000")
    parser.add_argument("--new", type=int, default=1000)
    parser.add_argument("--features", type=int, default=46)
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--method", default="auto")
    options = parser.parse_args()
    if options.sets:
        for name in options.sets:
            print_apart(name, options.method)
        return 0
    rows = [growing(int(number), options.new, options.features) for number in options.queries.split(",")]
    print_table(("training queries", "new", "grown, s", "made anew, s", "times"), rows)
    return int(any(float(row[2]) > float(row[3]) for row in rows))


def growing(n_queries: int, new: int, n_features: int) -> tuple[int, int, float, float, float]:
    """Return the seconds of growing and of making anew."""
    random = np.random.default_rng(0)
    shape = (n_queries + new, COMPONENTS, n_features)
    directions = random.standard_normal(shape, np.float32)
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    every = Signatures(directions, np.ones(shape[:2]), np.full(shape[0], COMPONENTS))
    known, coming = every.take(np.arange(n_queries)), every.take(np.arange(n_queries, shape[0]))
    planes = draw_planes(n_features, TABLES, automatic_planes(n_queries), seed=0)
    tables = HyperplaneTables.build(known, planes)
    grown = fastest(lambda: tables.grown(coming, known.ranks))
    anew = fastest(lambda: HyperplaneTables.build(every, planes))
    return n_queries, new, round(grown, 4), round(anew, 4), round(anew / grown, 1)


def fastest(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


def print_apart(name: str, method: str) -> None:
    """Print how far an extended model is from a retrained one."""
    old, new = (
        read([data_dir() / name / f"S{number}.txt.gz" for number in numbers]) for numbers in ((1, 2), (3, 4))
    )
    with tempfile.TemporaryDirectory() as folder:
        registry = Registry(Path(folder))
        trained = train(old, TrainingConfig.read(method=method), workers=available_cores())
        artifact = load(publish(registry, "model", trained, old).path)
        started = time.process_time()
        extended = extend(artifact, new)
        seconds = time.process_time() - started
        found = against_retraining(artifact, old, new, workers=available_cores())
    print(
        f"\n{name}, {method}: {len(new)} queries joined {len(old)} in {seconds:.2f} s of processor time; "
        f"similarity {extended.near} to training queries, {extended.usual} among these; "
        f"measured on {found.queries} queries, Kendall's tau {found.tau:.3f}"
    )
    print_table(
        ("metric", "extended", "retrained", "difference", "95 % interval"),
        [
            (one.metric, one.candidate, one.baseline, f"{one.difference:+.4f}", one.interval_text)
            for one in found.comparisons
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
