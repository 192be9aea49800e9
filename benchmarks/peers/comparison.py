"""What a request costs here and at what a user would pick instead: the same documents, the same linear model.

    python -m benchmarks.peers [--peers NAME,...] [--documents 20,100,1000] [--repeats 5] [--rates 0.5] [--cache build/peers]

Every server runs in an environment of its own, made below ``--cache`` when it is missing, on the settings its
documentation recommends, with one worker. All of those compared are started together; then in each repeat all of them
are asked in an order shuffled anew, one request after the other on one kept connection. ``CPU`` is the user and system
time of a server's whole process tree per request, less what it uses when idle; the interval is that of the
median over repeats (95 %, bootstrap). ``latency`` is at constant arrivals, so many per second, counted from when a
request should have been sent. LocalRank also signs the query and finds its model among a thousand training queries;
the others multiply the documents with one vector.

The exit code is 1 where a target is missed: less CPU on our best wire than every server on its best; than FastAPI with
pydantic 1.4 times less at 100 documents and 3 times at 1,000 on JSON, 1.8 and 6 times on npy. A server that does not
start is listed with what it said.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import arrivals, served_models, servers
from benchmarks.peers.catalogue import OURS, PEERS, PLAIN, NotInstalled, Place, environment
from localrank_training.commands.output import print_table

if TYPE_CHECKING:
    from localrank.arrays import Matrix

N_FEATURES = 136
N_QUERIES = 1000
#: Seconds of asking per server, wire, size and repeat.
SPAN = 1.0
#: How many times less CPU than FastAPI with pydantic, by wire and documents.
LEAST = {("JSON", 100): 1.4, ("npy", 100): 1.8, ("JSON", 1000): 3.0, ("npy", 1000): 6.0}
#: Servers that only score by hand are the price of locality, not a target.
BY_HAND = "by hand"

Key = tuple[str, str, int]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--documents", default="20,100,1000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rates", default="50,200", help="arrivals per second; empty for none")
    parser.add_argument("--cache", type=Path, default=Path("build/peers"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names = options.peers.split(",")
    if unknown := set(names) - PEERS.keys():
        parser.error(f"no peer {', '.join(sorted(unknown))}; expected some of {', '.join(PEERS)}")
    sizes = [int(size) for size in options.documents.split(",")]
    rates = [float(rate) for rate in options.rates.split(",") if rate]
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running, absent = start(names, options.cache, work, stack)
        requests = {
            (name, wire, size): PEERS[name].wires[wire](served_models.documents(size, N_FEATURES))
            for name in running
            for wire in PEERS[name].wires
            for size in sizes
        }
        absent |= weed(running, requests)
        spent = costs(running, requests, options.repeats, random.Random(options.seed))
        for name, reason in absent.items():
            print(f"{name} is left out: {reason}")
        report(spent, sizes)
        late = {
            (key, rate): latency(running[key[0]], requests[key], rate) for rate in rates for key in requests
        }
    if late:
        print()
        rows = [
            (*key, rate, *[f"{value:.2f}" for value in found]) for (key, rate), found in sorted(late.items())
        ]
        print_table(("server", "wire", "documents", "arrivals/s", "p50 ms", "p99 ms", "answered %"), rows)
    return judge(spent, sizes)


def start(
    names: list[str], cache: Path, work: Path, stack: ExitStack
) -> tuple[dict[str, servers.Server], dict[str, str]]:
    """Start all servers; return those that run, and why the others do not."""
    weights = work / "weights.npy"
    made = served_models.ranker(N_QUERIES, N_FEATURES)
    np.save(weights, np.random.default_rng(0).standard_normal(N_FEATURES))
    running, absent = {}, {}
    for name in names:
        peer = PEERS[name]
        folder = work / name
        folder.mkdir()
        if name == OURS:
            served_models.publish(folder / "models", made)
        try:
            python = environment(name, peer, cache)
            place = Place(python, folder, weights, servers.free_port())
            environ = {"PEER_WEIGHTS": str(weights), "PEER_PORT": str(place.port), **peer.environ}
            environ["PATH"] = f"{python.parent}:/usr/bin:/bin"
            running[name] = stack.enter_context(
                servers.running(
                    [str(part) for part in peer.start(place)],
                    place.port,
                    servers.get(peer.ready),
                    environ=environ,
                    within=120,
                    cwd=folder,
                )
            )
        except (NotInstalled, servers.DidNotStart, OSError) as error:
            absent[name] = str(error)
        print(f"{name}: {absent.get(name, 'runs')}", flush=True)
    return running, absent


def weed(running: dict[str, servers.Server], requests: dict[Key, bytes]) -> dict[str, str]:
    """Drop wires that are not answered with 200; return what was said instead."""
    refused = {}
    for key in list(requests):
        name, wire, size = key
        try:
            arrivals.closed(running[name].port, requests[key], 3)
        except (arrivals.Refused, OSError) as error:
            refused[f"{name}, {wire}, {size} documents"] = " ".join(str(error).split())[:300]
            del requests[key]
    return refused


def costs(
    running: dict[str, servers.Server], requests: dict[Key, bytes], repeats: int, shuffler: random.Random
) -> dict[Key, Matrix]:
    """Return ``[repeats, 2]`` for each: milliseconds of CPU per request, median milliseconds of a request."""
    found: dict[Key, list[tuple[float, float]]] = {key: [] for key in requests}
    counts = {}
    for key, request in requests.items():
        took = arrivals.closed(running[key[0]].port, request, 10)
        counts[key] = int(np.clip(SPAN / np.median(took), 20, 2000))
    idle = {}
    for name, server in running.items():
        before, began = server.cpu(), time.perf_counter()
        time.sleep(2.0)
        idle[name] = (server.cpu() - before) / (time.perf_counter() - began)
    for repeat in range(repeats):
        order = list(requests)
        shuffler.shuffle(order)
        for key in order:
            server = running[key[0]]
            arrivals.closed(server.port, requests[key], 5)
            before, began = server.cpu(), time.perf_counter()
            times = arrivals.closed(server.port, requests[key], counts[key])
            used = server.cpu() - before - idle[key[0]] * (time.perf_counter() - began)
            found[key].append((1e3 * used / counts[key], 1e3 * float(np.median(times))))
        print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    return {key: np.array(rows, np.float32) for key, rows in found.items()}


def latency(server: servers.Server, request: bytes, rate: float) -> tuple[float, float, float]:
    """Return p50 and p99 in milliseconds, and the share answered, of some seconds of constant arrivals."""
    try:
        outcome = arrivals.open_loop(server.port, [(request, rate)], 3.0, wait=1.0)
    except (arrivals.Refused, OSError):
        return float("nan"), float("nan"), 0.0
    answered = len(outcome.latencies[0])
    p50, _, p99, _ = outcome.milliseconds()
    return p50, p99, 100 * answered / (answered + outcome.unanswered)


def interval(values: Matrix) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the median."""
    drawn = np.random.default_rng(0).choice(values, (2000, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(low), float(high)


def report(spent: dict[Key, Matrix], sizes: list[int]) -> None:
    for size in sizes:
        print(f"\n{size} documents of {N_FEATURES} features\n")
        here = {key: rows for key, rows in spent.items() if key[2] == size}
        best = min(float(np.median(rows[:, 0])) for key, rows in here.items() if key[0] == OURS)
        rows = []
        for (name, wire, _), measured in sorted(here.items(), key=lambda item: np.median(item[1][:, 0])):
            cpu = float(np.median(measured[:, 0]))
            low, high = interval(measured[:, 0])
            wall = float(np.median(measured[:, 1]))
            rows.append(
                (name, wire, f"{cpu:.3f}", f"{low:.3f} to {high:.3f}", f"{cpu / best:.2f}", f"{wall:.2f}")
            )
        print_table(("server", "wire", "CPU ms", "interval", "times ours", "p50 ms"), rows)


def judge(spent: dict[Key, Matrix], sizes: list[int]) -> int:
    """Compare with the targets; return 1 if one is missed."""
    median = {key: float(np.median(rows[:, 0])) for key, rows in spent.items()}
    verdicts = []
    for size in sizes:
        own = min((cpu for key, cpu in median.items() if key[0] == OURS and key[2] == size), default=np.nan)
        for name in dict.fromkeys(key[0] for key in median):
            if name in {OURS, BY_HAND}:
                continue
            theirs = min(
                (cpu for key, cpu in median.items() if key[0] == name and key[2] == size), default=np.nan
            )
            verdicts.append((f"{size} documents: {name}, best wires", theirs / own, 1.0))
        for (wire, documents), least in LEAST.items():
            mine = median.get((OURS, wire, size))
            plain = median.get((PLAIN, "pydantic", size))
            if documents == size and mine is not None and plain is not None:
                verdicts.append((f"{size} documents: pydantic against {wire}", plain / mine, least))
    print()
    rows = [
        (what, f"{ratio:.2f}", least, "yes" if ratio > least else "NO") for what, ratio, least in verdicts
    ]
    print_table(("CPU of another over ours", "times", "at least", "ok"), rows)
    return int(any(not ratio > least for _, ratio, least in verdicts))
