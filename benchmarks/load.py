"""What one instance bears: constant arrivals up to saturation, beside a server that does nothing.

    python -m benchmarks.load [--workers 1,2] [--documents 100] [--seconds 5] [--repeats 3] [--wire npy] [--short]
                              [--out FILE]

The loop is open: requests are sent at constant times whether or not earlier ones were answered, over at most 64 kept
connections, and latency counts from when a request should have been sent. ``idle`` is a FastAPI handler that reads the
same body and does nothing: what of a latency is the client, the kernel and the framework. The highest rate that a
server keeps is looked for by doubling arrivals and then halving steps; kept means that 99 % of the requests were answered,
half of them within 20 milliseconds. The client is one process and shares the processors with the server, which
is shown: ``client %`` is how much of one processor it used. Every rate is offered several times, all of them in each
repeat; figures are medians over repeats.

The exit code is 1 where a request fails, or where at a tenth of the highest rate the median is more than `MOST` times
that of one request after the other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks import arrivals, results, served_models, servers
from localrank.commands.output import print_table

N_FEATURES = 136
HEADER = (
    "server",
    "workers",
    "arrivals/s",
    "answers/s",
    "p50 ms",
    "p90",
    "p99",
    "p99.9",
    "CPU ms",
    "client %",
)
#: Times the median of one request after the other.
MOST = 10.0
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.2)
#: What is measured at each rate.
FIGURES = ("achieved", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "cpu_ms", "client_percent")


def kept(outcome: arrivals.Outcome) -> bool:
    answered = len(outcome.latencies[0])
    lost = outcome.unanswered + len(outcome.refused[0])
    return answered >= 0.99 * (answered + lost) and outcome.milliseconds()[0] < 20


def highest(server: servers.Server, request: bytes, alone: float) -> float:
    """Return the highest arrivals per second that the server keeps."""
    low, high = 0.0, 0.0
    rate = 0.3 / alone
    for _ in range(9):
        if kept(arrivals.open_loop(server.port, [(request, rate)], 1.0, wait=0.5)):
            low = rate
        else:
            high = rate
        if high and high - low < 0.08 * high:
            break
        rate = (low + high) / 2 if high else 2 * rate
    return low


def measure(
    name: str, server: servers.Server, request: bytes, workers: int, *, seconds: float, repeats: int
) -> tuple[list[results.Row], bool]:
    """Return a row for each share of the highest rate, and whether latency is what it should be."""
    arrivals.closed(server.port, request, 200)
    alone = float(np.median(arrivals.closed(server.port, request, 300)))
    most = highest(server, request, alone)
    offered = {share: max(1.0, share * most) for share in SHARES}
    each: dict[float, list[results.Row]] = {share: [] for share in SHARES}
    for _ in range(repeats):
        for share, rate in offered.items():
            each[share].append(once(server, request, rate, seconds))
    rows: list[results.Row] = []
    for share, found in each.items():
        medians = {figure: float(np.median([one[figure] for one in found])) for figure in FIGURES}
        every = {f"{figure}_each": [one[figure] for one in found] for figure in ("p50_ms", "p99_ms")}
        rows.append(
            {"server": name, "workers": workers, "share": share, "rate": offered[share], **medians, **every}
        )
    quiet = rows[0]["p50_ms"] <= max(MOST * alone * 1e3, 5.0)
    unanswered = any(one["unanswered"] for one in each[SHARES[0]])
    return rows, most > 0 and quiet and not unanswered


def once(server: servers.Server, request: bytes, rate: float, seconds: float) -> results.Row:
    used, own, began = server.cpu(), time.process_time(), time.perf_counter()
    outcome = arrivals.open_loop(server.port, [(request, rate)], seconds, wait=1.0)
    client = 100 * (time.process_time() - own) / (time.perf_counter() - began)
    cpu = 1e3 * (server.cpu() - used) / max(1, len(outcome.latencies[0]))
    figures = (outcome.achieved, *outcome.milliseconds(), cpu, client)
    return {
        **dict(zip(FIGURES, figures, strict=True)),
        "unanswered": outcome.unanswered + len(outcome.refused[0]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--wire", choices=["npy", "JSON"], default="npy")
    parser.add_argument("--short", action="store_true", help="one worker, one second")
    results.add_out(parser)
    options = parser.parse_args()
    if options.short:
        options.workers, options.seconds, options.repeats = "1", 1.0, 1
    documents = served_models.documents(options.documents, N_FEATURES)
    binary = options.wire == "npy"
    body = served_models.as_npy(documents) if binary else served_models.as_json(documents)
    kind = "application/x-npy" if binary else "application/json"
    spans = {"seconds": options.seconds, "repeats": options.repeats}
    rows: list[results.Row] = []
    good = True
    with tempfile.TemporaryDirectory() as folder:
        served_models.publish(Path(folder), served_models.ranker(options.queries, N_FEATURES))
        for workers in map(int, options.workers.split(",")):
            with servers.localrank(Path(folder), workers=workers) as server:
                asked = servers.post("/v1/rerank", body, kind)
                found, met = measure("localrank", server, asked, workers, **spans)
                rows, good = rows + found, good and met
            with ExitStack() as stack:
                port = servers.free_port()
                command = [
                    sys.executable,
                    "-m",
                    "uvicorn",
                    "--factory",
                    "benchmarks.idle:make",
                    "--port",
                    str(port),
                ]
                command += ["--workers", str(workers), "--no-access-log", "--log-level", "warning"]
                server = stack.enter_context(servers.running(command, port, servers.get("/ready")))
                asked = servers.post("/empty", body, kind)
                found, _ = measure("idle", server, asked, workers, **spans)
                rows += found
    results.write(options.out, load=rows)
    print_table(
        HEADER,
        [
            (
                row["server"],
                row["workers"],
                f"{row['rate']:.0f}",
                f"{row['achieved']:.0f}",
                *(f"{row[name]:.2f}" for name in ("p50_ms", "p90_ms", "p99_ms", "p999_ms")),
                f"{row['cpu_ms']:.3f}",
                f"{row['client_percent']:.0f}",
            )
            for row in rows
        ],
    )
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
