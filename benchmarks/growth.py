"""How the latency of a request grows with the training set: a thousand queries against a million.

    python -m benchmarks.growth [--sizes 1000,10000,100000,1000000] [--features 46]
                                [--kinds spread,tight] [--rounds 3] [--short] [--out FILE]

All models are served at once, by a worker each, and asked in turn, one request after the other: 100 documents in npy,
spread along the directions of some training query of the largest model. Made-up training sets as in
``benchmarks.routing``. ``CPU`` is that of the server per request. The exit code is 1 where p50 with the largest training
set is more than 1.5 times p50 with the smallest.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks import arrivals, results, served_models, servers
from localrank.commands.output import print_table

MOST = 1.5
N_DOCS = 100
DIFFERENT = 300
HEADER = ("set", "training queries", "p50 ms", "p90", "p99", "CPU ms", "times", "ok")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--features", type=int, default=46)
    parser.add_argument("--kinds", default="spread,tight")
    parser.add_argument("--rounds", type=int, default=3, help="over all requests")
    parser.add_argument("--short", action="store_true", help="up to 50,000 training queries")
    results.add_out(parser)
    options = parser.parse_args()
    if options.short:
        options.sizes, options.rounds = "1000,50000", 2
    sizes = [int(size) for size in options.sizes.split(",")]
    rows = [
        row
        for kind in options.kinds.split(",")
        for row in measure(kind, sizes, options.features, options.rounds)
    ]
    results.write(options.out, growth=rows)
    print_table(
        HEADER,
        [
            (
                row["kind"],
                row["queries"],
                *(f"{row[name]:.2f}" for name in ("p50_ms", "p90_ms", "p99_ms")),
                f"{row['cpu_ms']:.3f}",
                f"{row['times']:.2f}",
                "yes" if row["times"] <= MOST else "NO",
            )
            for row in rows
        ],
    )
    return int(any(row["times"] > MOST for row in rows))


def measure(kind: str, sizes: list[int], n_features: int, rounds: int) -> list[results.Row]:
    """Serve a model of each size, the largest last, and ask them in turn."""
    with ExitStack() as stack:
        running = []
        for size in sizes:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            made = served_models.ranker(size, n_features, kind, normalise="none")
            served_models.publish(folder, made)
            running.append(stack.enter_context(servers.localrank(folder)))
        requests = [
            servers.post("/v1/rerank", served_models.as_npy(documents), "application/x-npy")
            for documents in (served_models.near(made, N_DOCS, seed) for seed in range(DIFFERENT))
        ]
        del made
        for request in requests[:50]:
            for server in running:
                arrivals.closed(server.port, request, 2)
        taken: list[list[float]] = [[] for _ in sizes]
        before = [server.cpu() for server in running]
        for _ in range(rounds):
            for request in requests:
                for server, times in zip(running, taken, strict=True):
                    times.extend(arrivals.closed(server.port, request, 2)[1:])
        used = [server.cpu() - begun for server, begun in zip(running, before, strict=True)]
    first = float(np.median(taken[0]))
    rows = []
    for size, times, cpu in zip(sizes, taken, used, strict=True):
        p50, p90, p99 = (1e3 * float(value) for value in np.quantile(times, [0.5, 0.9, 0.99]))
        rows.append(
            {
                "kind": kind,
                "queries": size,
                "features": n_features,
                "p50_ms": p50,
                "p90_ms": p90,
                "p99_ms": p99,
                "cpu_ms": 1e3 * cpu / (2 * len(times)),
                "times": p50 / 1e3 / first,
            }
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
