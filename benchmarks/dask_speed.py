"""What a second Dask worker brings, and what pieces and arrays cost on their way.

    python -m benchmarks.dask_speed [--queries 300] [--repeats 2]

Trains RANKSVM with five settings on synthetic queries by cross-validation, on one worker and on two, each a process with one thread on
this machine, in turn; then does pieces that do nothing, and sends an array. Wall time on a machine with other work says little:
``by processor time`` is what the run would take if every process had a core, the client's and the busiest worker's processor
time. Printed are medians. The exit code is 1 if two workers do not make it at least 1.4 times as fast by processor time.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from distributed import LocalCluster

from localrank.commands.output import print_table
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.parallel.dask_workers import dask_workers
from localrank_training.parallel.processes import in_parallel
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank.arrays import Matrix
    from localrank_training.data.queries import QuerySet
    from localrank_training.parallel.dask_workers import DaskWorkers

#: The client's own part does not become shorter: 1.5 is what was measured.
LEAST_SPEED_UP = 1.4
PIECES, MEGABYTES = 200, 64


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    queries, _ = synthesize(options.queries, Recipe(), seed=0)
    found: dict[int, list[tuple[float, ...]]] = {1: [], 2: []}
    for _ in range(options.repeats):
        for count, rows in found.items():
            with (
                LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster,
                dask_workers(cluster.scheduler_address) as workers,
            ):
                rows.append(measured(workers, queries))
    rows = [(count, *np.round(np.median(each, axis=0), 3)) for count, each in found.items()]
    print_table(
        ("workers", "wall s", "client cpu s", "busiest cpu s", "all cpu s", "piece ms", "MB/s sent"), rows
    )
    one, two = (row[2] + row[3] for row in rows)
    print(
        f"\nby processor time: {one:.2f} s with one worker, {two:.2f} s with two, {one / two:.2f} times as fast"
    )
    return int(one / two < LEAST_SPEED_UP)


def measured(workers: DaskWorkers, queries: QuerySet) -> tuple[float, ...]:
    """Return wall and processor seconds of a run, milliseconds of an empty piece, and megabytes sent in a second."""
    config = TrainingConfig.from_tables(
        {
            "clustering": {"candidates": [1, 2]},
            "learner": {"method": "ranksvm", "C": [0.1, 0.3, 1.0, 3.0, 10.0]},
        }
    )
    client = workers._client  # noqa: SLF001  what it costs is not for users to ask
    # Modules are loaded before anything is timed.
    train(queries.select(range(30)), config, workers=workers.threads)
    before = client.run(time.process_time)
    wall, cpu = time.perf_counter(), time.process_time()
    train(queries, config, workers=workers.threads)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    after = client.run(time.process_time)
    each = [after[worker] - before[worker] for worker in before]

    started = time.perf_counter()
    in_parallel(nothing, [(number,) for number in range(PIECES)], workers=2)
    piece = 1e3 * (time.perf_counter() - started) / PIECES
    array = np.random.default_rng(0).random((MEGABYTES, 125_000))
    started = time.perf_counter()
    in_parallel(first_of, [(array,)], workers=2)
    return wall, cpu, max(each), sum(each), piece, MEGABYTES / (time.perf_counter() - started)


def nothing(number: int) -> int:
    return number


def first_of(array: Matrix) -> float:
    return float(array[0, 0])


if __name__ == "__main__":
    sys.exit(main())
