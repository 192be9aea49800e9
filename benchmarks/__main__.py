"""Run every benchmark, one after another, each in a process of its own.

    python -m benchmarks [--short] [NAME ...]

``--short`` is the form that fits into continuous integration. Those that need real data sets are left out, by name, where
``LOCALRANK_DATA`` is not set. The exit code is 1 if one missed its threshold.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import NamedTuple

#: One thread for linear algebra unless told otherwise, as every process of LocalRank has.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Benchmark(NamedTuple):
    """How one module is run."""

    arguments: tuple[str, ...] = ()
    #: None: not part of the short form.
    short: tuple[str, ...] | None = None
    real_data: bool = False


BENCHMARKS = {
    # Speed, against thresholds.
    "signature": Benchmark(short=("--decays", "0.9")),
    "routing": Benchmark(short=("--queries", "1000,10000")),
    "trees": Benchmark(),
    "distances": Benchmark(short=()),
    "decoding": Benchmark(short=()),
    "wires": Benchmark(short=("--turns", "30")),
    "contract": Benchmark(short=()),
    "loading": Benchmark(short=()),
    "loading_models": Benchmark(),
    "metrics": Benchmark(short=()),
    "ranksvm": Benchmark(short=("--small",)),
    # Requests, beside the bare arithmetic and an empty handler.
    "stages": Benchmark(short=("--short",)),
    "floor": Benchmark(short=("--repeats", "3")),
    "growth": Benchmark(short=("--short", "--kinds", "tight")),
    "load": Benchmark(short=("--short",)),
    "mixed": Benchmark(short=("--seconds", "3", "--sizes", "5000x136")),
    "second_worker": Benchmark(short=("--queries", "20000")),
    # Beside the servers that a user would take instead; installs them first.
    "peers": Benchmark(),
    # Quality, of queries whose kinds are known and of real ones.
    "synthetic": Benchmark(),
    "local_against_global": Benchmark(real_data=True),
    "rankers": Benchmark(real_data=True),
    "stability": Benchmark(real_data=True),
    "truncated_lists": Benchmark(real_data=True),
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
        print(f"\n## python -m benchmarks.{name} {' '.join(arguments)}".rstrip() + "\n", flush=True)
        started = time.perf_counter()
        command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
        code = subprocess.run(command, check=False, env=ONE_THREAD | os.environ).returncode
        print(
            f"\n{name}: {'good' if code == 0 else f'failed ({code})'}, {time.perf_counter() - started:.0f} s"
        )
        failed += [name] if code else []
    if failed:
        print(f"\nmissed their thresholds: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
