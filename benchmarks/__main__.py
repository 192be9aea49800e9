"""Run every benchmark, one after another, each in a process of its own.

    python -m benchmarks [--short] [--out FOLDER] [NAME ...]

``--short`` is the form that fits into continuous integration, where the machine is shared: those that compare CPU time or
memory within one run, and no latencies. One that misses a threshold is run again, up to `TRIES` times in all, before it
counts: a neighbour comes and goes, what has become slower stays. ``--out`` collects what those that can write it
measured, as ``FOLDER/NAME.json``. Those that need real data sets are left out, by name, where ``LOCALRANK_DATA`` is not set.
The exit code is 1 if one missed its threshold.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

#: One thread for linear algebra unless told otherwise, as every process of LocalRank has.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


#: How often the short form runs one that misses its threshold.
TRIES = 3


class Benchmark(NamedTuple):
    """How one module is run."""

    arguments: tuple[str, ...] = ()
    #: None: not part of the short form.
    short: tuple[str, ...] | None = None
    real_data: bool = False
    #: Whether it takes ``--out``.
    writes: bool = False


BENCHMARKS = {
    # Speed, against thresholds.
    "signature": Benchmark(short=("--decays", "0.9")),
    "growing": Benchmark(),
    "routing": Benchmark(),
    "clustering": Benchmark(real_data=True),
    "recall": Benchmark(),
    "dask_speed": Benchmark(),
    "trees": Benchmark(short=("--short",)),
    "explanations": Benchmark(),
    "distances": Benchmark(short=()),
    "kernels": Benchmark(),
    "tables": Benchmark(),
    "loading": Benchmark(short=()),
    "propensities": Benchmark(),
    "unbiased": Benchmark(),
    "loading_models": Benchmark(short=("--queries", "20000", "--features", "136")),
    "metrics": Benchmark(short=()),
    "ranksvm": Benchmark(),
    # Requests, beside the bare arithmetic and an empty handler.
    "stages": Benchmark(short=("--short",), writes=True),
    "floor": Benchmark(short=("--repeats", "3"), writes=True),
    "forms": Benchmark(short=("--repeats", "5")),
    "overload": Benchmark(writes=True),
    "connections": Benchmark(short=("--short",), writes=True),
    "fleet": Benchmark(writes=True),
    "capacity": Benchmark(("--measure",), writes=True),
    "impressions": Benchmark(),
    "experiments": Benchmark(),
    # Beside the servers that a user would take instead; installs them first.
    "peers": Benchmark(
        short=("--peers", "localrank,fastapi", "--documents", "1000", "--repeats", "3", "--rates", ""),
        writes=True,
    ),
    # Quality, of queries whose kinds are known and of real ones.
    "synthetic": Benchmark(),
    "shop": Benchmark(short=("--short",), writes=True),
    "default_costs": Benchmark(real_data=True, writes=True),
    "shrinkage": Benchmark(real_data=True),
    "local_against_global": Benchmark(real_data=True),
    "guard": Benchmark(real_data=True),
    "rankers": Benchmark(real_data=True),
    "stability": Benchmark(real_data=True),
    "truncated_lists": Benchmark(real_data=True),
    "votes": Benchmark(real_data=True),
    "transductive": Benchmark(real_data=True),
    # What learning costs.
    "training": Benchmark(("--web", "--growth"), real_data=True),
}


def main() -> int:
    """Run what was asked for; return 1 if any failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; expected one of {', '.join(BENCHMARKS)}")
    failed = []
    for name in asked.names or BENCHMARKS:
        benchmark = BENCHMARKS[name]
        arguments = benchmark.short if asked.short else benchmark.arguments
        if arguments is None:
            continue
        if benchmark.real_data and not os.environ.get("LOCALRANK_DATA"):
            print(f"\n## {name}: left out, LOCALRANK_DATA is not set", flush=True)
            continue
        if asked.out and benchmark.writes:
            arguments = (*arguments, "--out", str(asked.out / f"{name}.json"))
        if not met(name, arguments, TRIES if asked.short else 1):
            failed.append(name)
    if failed:
        print(f"\nmissed their thresholds: {', '.join(failed)}")
    return 1 if failed else 0


def met(name: str, arguments: Sequence[str], tries: int) -> bool:
    """Run one until it meets its thresholds, this many times at most; tell whether it did."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    for attempt in range(1, tries + 1):
        print(f"\n## {shlex.join(['python', *command[1:]])}\n", flush=True)
        started = time.perf_counter()
        code = subprocess.run(command, check=False, env=ONE_THREAD | os.environ).returncode
        verdict = "good" if code == 0 else f"failed ({code}), {attempt} of {tries}"
        print(f"\n{name}: {verdict}, {time.perf_counter() - started:.0f} s", flush=True)
        if code == 0:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
