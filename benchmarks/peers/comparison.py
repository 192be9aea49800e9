"""What a request costs here and at what a user would pick instead: the same documents, the same model.

    python -m benchmarks.peers [--peers NAME,...] [--model linear|trees] [--documents 20,100,1000] [--repeats 5]
                               [--rates 20,50,100,200] [--cache build/peers] [--out FILE]

Every server runs in an environment of its own, made below ``--cache`` when it is missing, on the settings its
documentation recommends, with one worker. All of those compared are started together; then in each repeat all of them
are asked in an order shuffled anew, one request after the other on one kept connection. ``CPU`` is the user and system
time of a server's whole process tree per request, less what it uses when idle. ``latency`` is at constant arrivals, so
many per second, counted from when a request should have been sent; in each repeat all servers, wires, sizes and rates
take turns in an order shuffled anew. Figures are medians over repeats, intervals those of the median (95 %, bootstrap).

The model is linear, or 300 trees of 31 leaves grown by LightGBM's LambdaMART, which the other servers score with
LightGBM's own predict on one thread. LocalRank also signs the query and finds its model among a thousand training
queries.

The exit code is 1 where a target is missed: less CPU on our best wire than every server on its best; with the linear
model also, than FastAPI with pydantic, 1.4 times less at 100 documents and 3 times at 1,000 on JSON, 1.8 and 6 times on
npy. A server that does not start is listed with what it said.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks import arrivals, results, served_models, servers
from benchmarks.peers.catalogue import OURS, PEERS, PLAIN, NotInstalled, Place, environment
from localrank.commands.output import print_table
from localrank_training.learners.forests import from_lightgbm

N_FEATURES = 136
N_QUERIES = 1000
#: Seconds of asking per server, wire, size and repeat.
SPAN = 1.0
#: Requests that a span of constant arrivals has at least, and its seconds.
ARRIVALS, SECONDS = 100, 2.0
#: Per cent answered below which a rate counts as one that a server cannot keep.
KEPT = 95.0
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
    parser.add_argument("--model", choices=["linear", "trees"], default="linear")
    parser.add_argument("--documents", default="20,100,1000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rates", default="20,50,100,200", help="arrivals per second; empty for none")
    parser.add_argument("--cache", type=Path, default=Path("build/peers"))
    parser.add_argument("--seed", type=int, default=0)
    results.add_out(parser)
    options = parser.parse_args()
    names = options.peers.split(",")
    if unknown := set(names) - PEERS.keys():
        parser.error(f"no peer {', '.join(sorted(unknown))}; expected some of {', '.join(PEERS)}")
    sizes = [int(size) for size in options.documents.split(",")]
    rates = [float(rate) for rate in options.rates.split(",") if rate]
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running, absent = start(names, options.model, options.cache, work, stack)
        requests = {
            (name, wire, size): PEERS[name].wires[wire](served_models.documents(size, N_FEATURES))
            for name in running
            for wire in PEERS[name].wires
            for size in sizes
        }
        absent |= weed(running, requests)
        shuffler = random.Random(options.seed)
        spent = costs(running, requests, options.repeats, shuffler)
        report(spent, sizes)
        late = latencies(running, requests, rates, options.repeats, shuffler)
    left_out = [{"what": what, "why": why} for what, why in absent.items()]
    results.write(options.out, cpu=spent, latency=late, left_out=left_out)
    for name, reason in absent.items():
        print(f"\n{name} is left out: {reason}")
    if late:
        print()
        print_table(
            (
                "server",
                "wire",
                "documents",
                "arrivals/s",
                "p50 ms",
                "interval",
                "p99 ms",
                "interval",
                "answered %",
            ),
            [
                (
                    *(row[name] for name in ("server", "wire", "documents", "rate")),
                    *(
                        text
                        for figure in ("p50_ms", "p99_ms")
                        for text in (
                            f"{row[figure]:.2f}",
                            "{:.2f} to {:.2f}".format(*row[f"{figure}_interval"]),
                        )
                    ),
                    f"{row['answered']:.1f}",
                )
                for row in late
            ],
        )
    return judge(spent, sizes, options.model)


def start(
    names: list[str], model: str, cache: Path, work: Path, stack: ExitStack
) -> tuple[dict[str, servers.Server], dict[str, str]]:
    """Start all servers; return those that run, and why the others do not."""
    if model == "trees":
        path = work / "forest.txt"
        served_models.grow(path, N_FEATURES)
        made = served_models.ranker(N_QUERIES, N_FEATURES, scorer=from_lightgbm(path.read_text()))
    else:
        path = work / "weights.npy"
        np.save(path, np.random.default_rng(0).standard_normal(N_FEATURES))
        made = served_models.ranker(N_QUERIES, N_FEATURES)
    running, absent = {}, {}
    for name in names:
        peer = PEERS[name]
        folder = work / name
        folder.mkdir()
        if name == OURS:
            served_models.publish(folder / "models", made)
        try:
            python = environment(name, peer, cache)
            place = Place(python, folder, path, servers.free_port(), N_FEATURES)
            environ = {**place.environ, **peer.environ, "PATH": f"{python.parent}:/usr/bin:/bin"}
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
) -> list[results.Row]:
    """Return a row for each: milliseconds of CPU per request, and how long one takes after the other."""
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
        progress(f"CPU, repeat {repeat + 1} of {repeats}")
    return [
        {
            **named(key),
            "cpu_ms": float(np.median([cpu for cpu, _ in measured])),
            "cpu_ms_interval": results.interval([cpu for cpu, _ in measured]),
            "closed_ms": float(np.median([wall for _, wall in measured])),
        }
        for key, measured in found.items()
    ]


def latencies(
    running: dict[str, servers.Server],
    requests: dict[Key, bytes],
    rates: list[float],
    repeats: int,
    shuffler: random.Random,
) -> list[results.Row]:
    """Return a row for each at each rate of constant arrivals.

    What a server could not keep once it is not asked again, nor more: it would only answer what others wait for.
    """
    found: dict[tuple[Key, float], list[tuple[float, float, float]]] = {
        (key, rate): [] for key in requests for rate in rates
    }
    too_much: dict[Key, float] = {}
    for repeat in range(repeats):
        order = list(found)
        shuffler.shuffle(order)
        for key, rate in order:
            if rate < too_much.get(key, np.inf):
                found[key, rate].append(latency(running[key[0]], requests[key], rate))
                if found[key, rate][-1][2] < KEPT:
                    too_much[key] = rate
                    settle(running[key[0]])
        progress(f"latency, repeat {repeat + 1} of {repeats}")
    rows = []
    for (key, rate), measured in found.items():
        each = np.array([one for one in measured if one[2] >= KEPT] or measured or [(np.nan, np.nan, 0.0)])
        p50, p99, answered = map(float, np.median(each, axis=0))
        if rate >= too_much.get(key, np.inf):
            answered = min((one[2] for one in measured), default=0.0)
        rows.append(
            {
                **named(key),
                "rate": rate,
                "p50_ms": p50,
                "p50_ms_interval": results.interval(each[:, 0].tolist()),
                "p99_ms": p99,
                "p99_ms_interval": results.interval(each[:, 1].tolist()),
                "answered": answered,
            }
        )
    return rows


def latency(server: servers.Server, request: bytes, rate: float) -> tuple[float, float, float]:
    """Return p50 and p99 in milliseconds, and per cent answered, of some seconds of constant arrivals."""
    try:
        arrivals.closed(server.port, request, 2)
        seconds = max(SECONDS, ARRIVALS / rate)
        outcome = arrivals.open_loop(server.port, [(request, rate)], seconds, wait=1.0)
    except (arrivals.Refused, OSError):
        return float("nan"), float("nan"), 0.0
    answered = len(outcome.latencies[0])
    p50, _, p99, _ = outcome.milliseconds()
    return p50, p99, 100 * answered / (answered + outcome.unanswered)


def settle(server: servers.Server, within: float = 30.0) -> None:
    """Wait until a server that was asked too much has worked off what it was sent."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        before = server.cpu()
        time.sleep(0.5)
        if server.cpu() - before < 0.1:
            return


def named(key: Key) -> results.Row:
    server, wire, documents = key
    return {"server": server, "wire": wire, "documents": documents, "features": N_FEATURES}


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def report(spent: list[results.Row], sizes: list[int]) -> None:
    for size in sizes:
        print(f"\n{size} documents of {N_FEATURES} features\n")
        here = sorted((row for row in spent if row["documents"] == size), key=lambda row: row["cpu_ms"])
        best = min((row["cpu_ms"] for row in here if row["server"] == OURS), default=np.nan)
        print_table(
            ("server", "wire", "CPU ms", "interval", "times ours", "p50 ms"),
            [
                (
                    row["server"],
                    row["wire"],
                    f"{row['cpu_ms']:.3f}",
                    "{:.3f} to {:.3f}".format(*row["cpu_ms_interval"]),
                    f"{row['cpu_ms'] / best:.2f}",
                    f"{row['closed_ms']:.2f}",
                )
                for row in here
            ],
        )


def judge(spent: list[results.Row], sizes: list[int], model: str) -> int:
    """Compare with the targets; return 1 if one is missed."""
    median = {(row["server"], row["wire"], row["documents"]): row["cpu_ms"] for row in spent}
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
        for (wire, documents), least in LEAST.items() if model == "linear" else ():
            mine = median.get((OURS, wire, size))
            plain = median.get((PLAIN, "JSON", size))
            if documents == size and mine is not None and plain is not None:
                verdicts.append((f"{size} documents: pydantic against {wire}", plain / mine, least))
    print()
    rows = [
        (what, f"{ratio:.2f}", least, "yes" if ratio > least else "NO") for what, ratio, least in verdicts
    ]
    print_table(("CPU of another over ours", "times", "at least", "ok"), rows)
    return int(any(not ratio > least for _, ratio, least in verdicts))
