"""How the latency of a request grows with the training set: a thousand queries against a million.

    python -m benchmarks.growth [--sizes 1000,1000000] [--features 46] [--kinds spread,tight] [--short]

Both models are served at once, by a worker each, and asked in turn, one request after the other: 100 documents in npy,
spread along the directions of some training query of the larger model. Made-up training sets as in
``benchmarks.routing``. The exit code is 1 where p50 with
the largest training set is more than 1.5 times p50 with the smallest.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks import arrivals, served_models, servers
from localrank_training.commands.output import print_table

MOST = 1.5
N_DOCS = 100
DIFFERENT = 300
HEADER = ("set", "training queries", "p50 ms", "p90", "p99", "times", "ok")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,1000000")
    parser.add_argument("--features", type=int, default=46)
    parser.add_argument("--kinds", default="spread,tight")
    parser.add_argument("--short", action="store_true", help="up to 50,000 training queries")
    options = parser.parse_args()
    if options.short:
        options.sizes = "1000,50000"
    sizes = [int(size) for size in options.sizes.split(",")]
    rows: list[tuple[str | int, ...]] = []
    good = True
    for kind in options.kinds.split(","):
        with ExitStack() as stack:
            running = []
            for size in sizes:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                made = served_models.ranker(size, options.features, kind, normalise="none")
                served_models.publish(folder, made)
                running.append(stack.enter_context(servers.localrank(folder)))
                requests = [
                    servers.post("/v1/rerank", served_models.as_npy(documents), "application/x-npy")
                    for documents in (served_models.near(made, N_DOCS, seed) for seed in range(DIFFERENT))
                ]
            taken: list[list[float]] = [[] for _ in sizes]
            for request in (*requests[:50], *requests, *requests):
                for server, times in zip(running, taken, strict=True):
                    times.extend(arrivals.closed(server.port, request, 2)[1:])
        first = float(np.median(taken[0][50:]))
        for size, times in zip(sizes, taken, strict=True):
            p50, p90, p99 = np.quantile(times[50:], [0.5, 0.9, 0.99])
            ratio = float(p50) / first
            good &= ratio <= MOST
            shown = (f"{1e3 * value:.2f}" for value in (p50, p90, p99))
            rows.append((kind, size, *shown, f"{ratio:.2f}", "yes" if ratio <= MOST else "NO"))
    print_table(HEADER, rows)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
