"""What two workers answer to 4 to 256 connections that ask again at once: load generators, pools, proxies.

    python -m benchmarks.connections [--seconds 4] [--repeats 5] [--connections 4,8,16,32,64,128,256] [--short]
                                     [--neighbour] [--out FILE]

100 × 136 npy on a linear model. In each repeat, every number of connections has its turn: all are opened together, and
each asks as soon as its answer is there, also if that is a refusal. *Best* is the share of the answers per second of the
number of connections that was answered most in the same repeat. *CPU* is the same for answers per second of the workers'
own processor time, whatever else runs on the machine; the generator takes processor time beside them. *Evenly* is the
processor time of the worker that used least as a share of the one that used most. With ``--neighbour`` another process
is busy.

The exit code is 1 unless, in the median of the repeats, every number of at least `LEAST` connections has `BEST` of the
best, at most `REFUSED` of up to `FEW` connections' requests are refused, and no worker uses less than `EVENLY` of another.
The short form looks at CPU instead of the best, and at 8 and 16 connections: on a busy machine, more would wait for
longer than they may.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import arrivals, noise, results, served_models, servers
from localrank.commands.output import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

N_FEATURES = 136
WORKERS = 2
#: Share of the most answers per second that each number of connections gets, from `LEAST` connections on.
BEST, LEAST = 0.9, 8
#: Share of the requests of up to so many connections that is refused at most.
REFUSED, FEW = 0.01, 64
#: Processor time of one worker relative to another.
EVENLY = 0.7
HEADER = (
    "connections",
    "answers/s",
    "best",
    "CPU",
    "refused",
    "p50 ms",
    "p99 ms",
    "evenly",
    "load",
    "stolen",
)
FIGURES = ("rate", "best", "cpu", "refused", "p50_ms", "p99_ms", "evenly")


def once(server: servers.Server, request: bytes, connections: int, seconds: float) -> results.Row:
    """Ask over so many connections."""
    workers = server.processes()[1:]
    before = {pid: servers.used(pid) for pid in workers}
    outcome, disturbed = noise.measured(
        lambda: arrivals.closed_loop(server.port, request, connections, seconds)
    )
    used = sorted(servers.used(pid) - before[pid] for pid in workers)
    answers, refused = len(outcome.latencies[0]), len(outcome.refused[0])
    quantiles = np.quantile(outcome.latencies[0], [0.5, 0.99]) * 1e3
    return {
        "connections": connections,
        "rate": answers / seconds,
        "per_cpu": answers / sum(used),
        "refused": refused / (answers + refused),
        "p50_ms": float(quantiles[0]),
        "p99_ms": float(quantiles[1]),
        "evenly": used[0] / used[-1],
        **disturbed._asdict(),
    }


def measure(options: argparse.Namespace) -> list[results.Row]:
    counts = [int(count) for count in options.connections.split(",")]
    body = served_models.as_npy(served_models.documents(100, N_FEATURES))
    request = servers.post("/v1/rerank", body, "application/x-npy")
    repeats: list[list[results.Row]] = []
    with tempfile.TemporaryDirectory() as folder:
        served_models.publish(Path(folder), served_models.ranker(1000, N_FEATURES))
        with servers.localrank(Path(folder), workers=WORKERS) as server:
            arrivals.closed_loop(server.port, request, LEAST, 1.0)
            for _ in range(options.repeats):
                rows = [once(server, request, count, options.seconds) for count in counts]
                most = max(row["rate"] for row in rows)
                cheapest = max(row["per_cpu"] for row in rows)
                repeats.append(
                    [row | {"best": row["rate"] / most, "cpu": row["per_cpu"] / cheapest} for row in rows]
                )
    return [medians(rows) for rows in zip(*repeats, strict=True)]


def medians(rows: Sequence[results.Row]) -> results.Row:
    found = {name: float(np.median([row[name] for row in rows])) for name in FIGURES}
    return {"connections": rows[0]["connections"], **found, **noise.largest([*rows])._asdict()}


def met(row: results.Row, share: str) -> bool:
    """Tell whether a row keeps what is promised, by its share of the best or of the CPU."""
    return bool(
        (row["connections"] < LEAST or row[share] >= BEST)
        and (row["connections"] > FEW or row["refused"] < REFUSED)
        and row["evenly"] >= EVENLY
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--connections", default="4,8,16,32,64,128,256")
    parser.add_argument("--neighbour", action="store_true", help="keep one processor busy")
    parser.add_argument(
        "--short", action="store_true", help="8, 64 and 256 connections, two seconds, three times"
    )
    results.add_out(parser)
    options = parser.parse_args()
    if options.short:
        options.seconds, options.repeats, options.connections = 2.0, 3, "8,16"
    with noise.neighbours(int(options.neighbour)):
        rows = measure(options)
    results.write_beside(options.out, **{"neighbour" if options.neighbour else "quiet": rows})
    print_table(
        HEADER,
        [
            (str(row["connections"]), *(f"{row[name]:.3g}" for name in (*FIGURES, "load", "stolen")))
            for row in rows
        ],
    )
    return int(
        not options.neighbour and not all(met(row, "cpu" if options.short else "best") for row in rows)
    )


if __name__ == "__main__":
    sys.exit(main())
