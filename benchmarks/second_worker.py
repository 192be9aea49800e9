"""How much memory of its own a second worker has, on a linear model of 100,000 training queries.

    python -m benchmarks.second_worker [--queries 100000] [--features 136] [--seconds 5] [--out FILE]

Two workers serve and are asked until both have answered. Private memory is what ``smaps_rollup`` calls
so: pages that no other process maps. The exit code is 1 where a worker has 80 MB of them or more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import arrivals, results, served_models, servers
from localrank.commands.output import print_table

MOST_MEGABYTES = 80.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--seconds", type=float, default=5.0)
    results.add_out(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        served_models.publish(Path(folder), served_models.ranker(options.queries, options.features))
        body = served_models.as_npy(served_models.documents(100, options.features))
        request = servers.post("/v1/rerank", body, "application/x-npy")
        with servers.localrank(Path(folder), workers=2) as server:
            for _ in range(20):
                arrivals.closed(server.port, request, 20)  # a connection each, so that both are asked
            arrivals.open_loop(server.port, [(request, 100.0)], options.seconds)
            private, resident = server.memory("Private"), server.memory("Rss")
            shared = server.memory("Pss")
    # The parent and multiprocessing's tracker rank nothing.
    workers = sorted(resident, key=lambda pid: -resident[pid])[:2]
    rows = [
        {
            "queries": options.queries,
            "features": options.features,
            "private_mb": private[pid],
            "proportional_mb": shared[pid],
            "resident_mb": resident[pid],
        }
        for pid in workers
    ]
    results.write(options.out, workers=rows)
    figures = ("private_mb", "proportional_mb", "resident_mb")
    print_table(
        ("worker", "private MB", "proportional MB", "resident MB"),
        [(number, *(f"{row[name]:.0f}" for name in figures)) for number, row in enumerate(rows, 1)],
    )
    return int(max(private[pid] for pid in workers) >= MOST_MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
