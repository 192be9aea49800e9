"""What large requests do to health checks and small requests of the same worker.

    python -m benchmarks.mixed [--seconds 8] [--sizes 2000x136,5000x136,5000x700] [--out FILE]

One worker answers health checks (50 a second) and requests of 20 documents (100 a second), both at constant arrivals,
first alone and then beside large requests that use about a third of it. Latency counts from when a request should have
been sent. The exit code is 1 where the p99 of health checks grows by more than one large request takes alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import arrivals, results, served_models, servers
from localrank.commands.output import print_table

HEADER = ("large", "a second", "health p50 ms", "p99", "small p50 ms", "p99", "large p50 ms", "ok")
FIGURES = ("health_p50_ms", "health_p99_ms", "small_p50_ms", "small_p99_ms")
#: Milliseconds that the p99 of a health check may grow by, as a share of what a large request takes alone.
MOST = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--sizes", default="2000x136,5000x136,5000x700")
    results.add_out(parser)
    options = parser.parse_args()
    rows: list[results.Row] = []
    for size in options.sizes.split(","):
        n_docs, n_features = map(int, size.split("x"))
        with tempfile.TemporaryDirectory() as folder:
            served_models.publish(Path(folder), served_models.ranker(1000, n_features))
            with servers.localrank(Path(folder)) as server:
                rows += compare(server, n_docs, n_features, options.seconds)
    results.write(options.out, mixed=rows)
    print_table(
        HEADER,
        [
            (
                f"{row['documents']}×{row['features']}"
                if row["rate"]
                else f"none, {row['features']} features",
                f"{row['rate']:.0f}",
                *(f"{row[name]:.2f}" for name in FIGURES),
                f"{row['large_p50_ms']:.1f}" if row["rate"] else "–",
                "yes" if row["met"] else "NO",
            )
            for row in rows
        ],
    )
    return int(not all(row["met"] for row in rows))


def compare(server: servers.Server, n_docs: int, n_features: int, seconds: float) -> list[results.Row]:
    def request(count: int) -> bytes:
        body = served_models.as_npy(served_models.documents(count, n_features))
        return servers.post("/v1/rerank", body, "application/x-npy")

    large = request(n_docs)
    alone = float(np.median(arrivals.closed(server.port, large, 20)))
    usual = [(servers.get("/livez"), 50.0), (request(20), 100.0)]
    rows = []
    quiet = 0.0
    for rate in (0.0, 0.33 / alone):
        kinds = [*usual, (large, rate)] if rate else usual
        outcome = arrivals.open_loop(server.port, kinds, seconds)
        (h50, _, h99, _), (s50, _, s99, _) = outcome.milliseconds(0), outcome.milliseconds(1)
        rows.append(
            {
                "documents": n_docs,
                "features": n_features,
                "rate": rate,
                **dict(zip(FIGURES, (h50, h99, s50, s99), strict=True)),
                "large_p50_ms": outcome.milliseconds(2)[0] if rate else None,
                "met": not rate or h99 - quiet <= MOST * alone * 1e3,
            }
        )
        quiet = h99
    return rows


if __name__ == "__main__":
    sys.exit(main())
