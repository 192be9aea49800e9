"""What one worker does when more is asked of it than it can answer.

    python -m benchmarks.overload [--seconds 60] [--repeats 5] [--models linear,trees] [--poisson] [--short]
                                  [--neighbour] [--out FILE]

One worker on one processor, the generator on another: 100 × 136 npy on a linear model, and 1,000 × 136 npy on a model of
2,000 trees of 64 leaves. What the worker answers when it is never idle is its *peak*. Then it is asked at half of that rate,
at three times it, and at half again. Latency counts from when a request should have been sent. Beside the
requests, ``/livez`` is asked 20 times a second over a kept connection and 20 times over a new one. ``idle`` is a FastAPI
handler under uvicorn that reads the same body and does nothing, asked at the same rates: what of a latency is the
generator, the kernel and the framework, and what a server does that refuses nothing. *CPU* is the answers per second of the
server's own processor time at three times the peak as a share of those at the peak: what refusing costs, whatever
else runs on the machine.

Each repeat has its load average and the share of processor time that was stolen; the table shows the largest of each
(`benchmarks.noise`). With ``--neighbour`` another process is busy on the worker's processor all the time; its rows stand
apart in the file, and no threshold holds for them.

The exit code is 1 unless, in the median of the repeats and at three times the peak, the p99 of the answered requests is
at most `SLOWER` times that at half the peak, the answers are at least `GOODPUT` of the peak, every ``/livez`` comes within
`HEALTH_MS`, no worker is lost, memory grows by no more than `GROWTH_MB`, and two seconds later nothing is refused.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import socket
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks import arrivals, noise, results, served_models, servers
from localrank.commands.output import print_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

N_FEATURES = 136
#: Times the p99 at half the peak that the p99 at three times the peak may be.
SLOWER = 3.0
#: Share of the peak that is still answered at three times it.
GOODPUT = 0.85
#: Milliseconds within which every health check is answered.
HEALTH_MS = 100.0
#: Megabytes by which the largest resident memory may grow.
GROWTH_MB = 150.0
#: Seconds after which everything is as before.
RECOVERY = 2.0
#: Connections that the generator may open, and those that keep a worker busy without being refused.
MANY, FEW = 256, 3
HEALTH_RATE = 20.0
HEADER = (
    "model",
    "server",
    "peak/s",
    "p50 ms at half",
    "p99",
    "p50 ms at three times",
    "p99",
    "times",
    "answered/peak",
    "CPU",
    "refused/s",
    "livez ms, kept",
    "new",
    "grown MB",
    "refused after",
    "load",
    "stolen",
)
FIGURES = (
    "peak",
    "half_p50_ms",
    "half_p99_ms",
    "over_p50_ms",
    "over_p99_ms",
    "times",
    "goodput",
    "cpu",
    "refused_per_s",
    "livez_ms",
    "livez_new_ms",
    "growth_mb",
    "refused_after",
    "load",
    "stolen",
)


def probe(port: int, livez: bytes, ends: Connection) -> None:
    """Ask for health over new connections until told to stop; send back the longest milliseconds."""
    longest = 0.0
    while not ends.poll(1 / HEALTH_RATE):
        begun = time.perf_counter()
        try:
            with socket.create_connection(("127.0.0.1", port), 30) as wire:
                wire.sendall(livez)
                answer = wire.recv(4096)
        except OSError:
            answer = b""
        taken = time.perf_counter() - begun if answer.startswith(b"HTTP/1.1 200") else 30.0
        longest = max(longest, taken)
    ends.send(longest * 1e3)


@contextmanager
def probing(port: int, livez: bytes) -> Iterator[dict[str, float]]:
    """Probe beside the block; the mapping then has ``longest``, in milliseconds."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=probe, args=(port, livez, theirs))
    process.start()
    found: dict[str, float] = {}
    try:
        yield found
    finally:
        ours.send(None)
        if ours.poll(35):
            found["longest"] = ours.recv()
        process.join(5)


def largest(server: servers.Server) -> float:
    """Return the largest resident memory that any process of the server has had, in megabytes."""
    found = [0.0]
    for pid in server.processes():
        status = Path(f"/proc/{pid}/status").read_text()
        if match := re.search(r"VmHWM:\s+(\d+) kB", status):
            found.append(int(match[1]) / 1000)
    return max(found)


def quantile(latencies: list[float], share: float) -> float:
    return float(np.quantile(latencies, share)) * 1e3 if latencies else float("inf")


class Peak(NamedTuple):
    """What a server answers that is never idle: per second, and per second of its own processor time."""

    rate: float
    per_cpu: float


def run(
    server: servers.Server, request: bytes, health: str, peak: Peak, options: argparse.Namespace
) -> results.Row:
    """Ask at half of a rate, at three times it, and at half again."""
    livez, rate = servers.get(health), peak.rate
    seconds, seed = options.seconds, 1 if options.poisson else None
    kinds = [(request, rate / 2), (livez, HEALTH_RATE)]
    half = arrivals.open_loop(server.port, kinds, seconds, connections=MANY, seed=seed)
    before, memory = server.processes(), largest(server)
    kinds = [(request, rate * 3), (livez, HEALTH_RATE)]
    used = server.cpu()
    with probing(server.port, livez) as probed:
        over = arrivals.open_loop(server.port, kinds, seconds, connections=MANY, wait=0.0, seed=seed)
    used = server.cpu() - used
    kinds = [(request, rate / 2), (livez, HEALTH_RATE)]
    after = arrivals.open_loop(server.port, kinds, 2 * RECOVERY, connections=MANY, seed=seed)
    late = [moment for moment in after.refused[0] if moment > RECOVERY]
    half_p99, over_p99 = quantile(half.latencies[0], 0.99), quantile(over.latencies[0], 0.99)
    return {
        "half_p50_ms": quantile(half.latencies[0], 0.5),
        "half_p99_ms": half_p99,
        "over_p50_ms": quantile(over.latencies[0], 0.5),
        "over_p99_ms": over_p99,
        "times": over_p99 / half_p99,
        "goodput": len(over.latencies[0]) / seconds / rate,
        "cpu": len(over.latencies[0]) / used / peak.per_cpu,
        "refused_per_s": len(over.refused[0]) / seconds,
        "livez_ms": max(over.latencies[1], default=float("inf")) * 1e3,
        "livez_new_ms": probed.get("longest", float("inf")),
        "growth_mb": largest(server) - memory,
        "refused_after": len(late),
        "lost": before != server.processes(),
    }


def busiest(server: servers.Server, request: bytes, seconds: float) -> Peak:
    """Return what the server answers when it is never idle."""
    alone = float(np.median(arrivals.closed(server.port, request, 30)))
    found = []
    for _ in range(3):
        used = server.cpu()
        outcome = arrivals.open_loop(server.port, [(request, 10 / alone)], seconds, connections=FEW, wait=0.0)
        answers = len(outcome.latencies[0])
        found.append(Peak(answers / seconds, answers / (server.cpu() - used)))
    return sorted(found)[1]


def once(server: servers.Server, request: bytes, options: argparse.Namespace) -> tuple[Peak, results.Row]:
    """Find the peak of LocalRank, and ask as `run` does."""
    peak = busiest(server, request, min(3.0, options.seconds))
    return peak, run(server, request, "/livez", peak, options)


def met(row: results.Row) -> bool:
    return bool(
        row["times"] <= SLOWER
        and row["goodput"] >= GOODPUT
        and max(row["livez_ms"], row["livez_new_ms"]) <= HEALTH_MS
        and row["growth_mb"] <= GROWTH_MB
        and not row["refused_after"]
        and not row["lost"]
    )


@contextmanager
def on(processor: int) -> Iterator[None]:
    """Start what is started within the block on one processor."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def idle() -> Iterator[servers.Server]:
    """Run the handler that does nothing."""
    port = servers.free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "benchmarks.idle:make", "--port", str(port)]
    command += ["--no-access-log", "--log-level", "warning", "--timeout-keep-alive", "600"]
    with servers.running(command, port, servers.get("/ready")) as server:
        yield server


def medians(rows: list[results.Row]) -> results.Row:
    found: dict[str, Any] = {
        name: float(np.median([row[name] for row in rows])) for name in FIGURES if name in rows[0]
    }
    found |= noise.largest(rows)._asdict()
    return {**found, "lost": any(row["lost"] for row in rows), "times_each": [row["times"] for row in rows]}


def compare(model: str, processor: int, options: argparse.Namespace) -> list[results.Row]:
    trees = model == "trees"
    scorer = served_models.forest(2000, 6, N_FEATURES) if trees else None
    documents = served_models.documents(1000 if trees else 100, N_FEATURES)
    body, kind = served_models.as_npy(documents), "application/x-npy"
    rows: list[results.Row] = []
    with tempfile.TemporaryDirectory() as folder:
        served_models.publish(Path(folder), served_models.ranker(1000, N_FEATURES, scorer=scorer))
        with on(processor):
            starting = servers.localrank(Path(folder))
            server = starting.__enter__()
        try:
            request = servers.post("/v1/rerank", body, kind)
            arrivals.closed(server.port, request, 50)
            found = []
            peaks = []
            for _ in range(options.repeats):
                (peak, row), disturbed = noise.measured(partial(once, server, request, options))
                peaks.append(peak)
                found.append(row | disturbed._asdict())
            peak = sorted(peaks)[len(peaks) // 2]
            rows.append({"model": model, "server": "localrank", "peak": peak.rate, **medians(found)})
        finally:
            starting.__exit__(None, None, None)
    with on(processor):
        starting = idle()
        server = starting.__enter__()
    try:
        request = servers.post("/empty", body, kind)
        own = busiest(server, request, min(3.0, options.seconds))
        asked = Peak(peak.rate, own.per_cpu)
        control, disturbed = noise.measured(partial(run, server, request, "/ready", asked, options))
        rows.append({"model": model, "server": "idle", "peak": own.rate, **control, **disturbed._asdict()})
    finally:
        starting.__exit__(None, None, None)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--models", default="linear,trees")
    parser.add_argument("--poisson", action="store_true", help="random arrivals instead of constant ones")
    parser.add_argument("--neighbour", action="store_true", help="keep the worker's processor busy")
    parser.add_argument("--short", action="store_true", help="five seconds, once")
    results.add_out(parser)
    options = parser.parse_args()
    if options.short:
        options.seconds, options.repeats = 5.0, 1
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[-1]})
    rows: list[results.Row] = []
    for model in options.models.split(","):
        with noise.neighbours(int(options.neighbour), {processors[0]}):
            found = compare(model, processors[0], options)
        rows += found
        os.sched_setaffinity(0, set(processors))  # the file names the machine, which has all of them
        results.write_beside(options.out, **{f"{model}_neighbour" if options.neighbour else model: found})
        os.sched_setaffinity(0, {processors[-1]})
    print_table(
        HEADER,
        [(row["model"], row["server"], *(f"{row[name]:.4g}" for name in FIGURES)) for row in rows],
    )
    return int(not options.neighbour and not all(met(row) for row in rows if row["server"] == "localrank"))


if __name__ == "__main__":
    sys.exit(main())
