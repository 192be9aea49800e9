"""What the load test that is shipped says: ``deploy/locustfile.py`` against a served model, without a terminal.

    python -m benchmarks.locust_run [--users 25,50,100] [--documents 100] [--seconds 20] [--workers 1] [--out FILE]

Each user asks once a second, so users are the arrivals per second. The model is linear, of 136 features and a thousand
training queries. Locust makes its requests in Python, in one process beside the server: what it can ask is less than
what the server can answer, for which there is ``benchmarks.load``. The stages are means of what the server says it took. The exit code is 1 where a request fails, or fewer than `LEAST` of the arrivals were made.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import results, served_models, servers
from localrank.commands.output import print_table

N_FEATURES = 136
LOCUSTFILE = Path(__file__).parents[1] / "deploy" / "locustfile.py"
#: Share of the arrivals that locust has to make.
LEAST = 0.8
STAGES = ("decode", "sign", "route", "score", "order", "encode", "total")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", default="25,50,100")
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    results.add_out(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        served_models.publish(Path(folder), served_models.ranker(1000, N_FEATURES))
        with servers.localrank(Path(folder), workers=options.workers) as server:
            rows = [
                run(server, int(users), options.documents, options.seconds)
                for users in options.users.split(",")
            ]
    results.write(options.out, locust=[{"workers": options.workers, **row} for row in rows])
    figures = ("requests_per_s", "p50_ms", "p95_ms", "p99_ms")
    print_table(
        ("users", "requests", "failed", "requests/s", "p50 ms", "p95", "p99", *STAGES),
        [
            (
                row["users"],
                row["requests"],
                row["failures"],
                *(f"{row[name]:.1f}" for name in figures),
                *(f"{row[f'{stage}_ms']:.2f}" for stage in STAGES),
            )
            for row in rows
        ],
    )
    wanted = [row["users"] * options.seconds * LEAST for row in rows]
    return int(
        any(row["failures"] or row["requests"] < least for row, least in zip(rows, wanted, strict=True))
    )


def run(server: servers.Server, users: int, documents: int, seconds: int) -> results.Row:
    """Return what locust says about its requests and the server's stages."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "locust", "--locustfile", str(LOCUSTFILE)),
            *("--host", f"http://127.0.0.1:{server.port}", "--headless", "--only-summary"),
            *("--users", str(users), "--spawn-rate", str(users), "--run-time", f"{seconds}s"),
            *("--csv", f"{folder}/load"),
        ]
        environ = {**os.environ, "LOCALRANK_LOAD_DOCUMENTS": str(documents)}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=environ, timeout=seconds + 60
        )
        stats = Path(folder) / "load_stats.csv"
        if not stats.exists():
            raise servers.DidNotStart(f"locust: {done.stderr.strip()[-300:]}")
        with stats.open() as file:
            told = {(row["Type"], row["Name"]): row for row in csv.DictReader(file)}
    asked = told["POST", "/v1/rerank"]
    return {
        "users": users,
        "documents": documents,
        "features": N_FEATURES,
        "seconds": seconds,
        "requests": int(asked["Request Count"]),
        "failures": sum(
            int(row["Failure Count"]) for name, row in told.items() if name != ("", "Aggregated")
        ),
        "requests_per_s": float(asked["Requests/s"]),
        **{f"p{share}_ms": float(asked[f"{share}%"]) for share in (50, 95, 99)},
        # Means: locust counts whole milliseconds in its quantiles.
        **{f"{stage}_ms": float(told["stage", stage]["Average Response Time"]) for stage in STAGES},
    }


if __name__ == "__main__":
    sys.exit(main())
