"""What a request costs beside what it cannot cost less than.

    python -m benchmarks.floor [--documents 100,1000] [--features 136] [--repeats 7] [--out FILE]
    python -m benchmarks.floor --layers [--documents 20,100,1000] [--features 46] [--repeats 7]

The floor is an empty FastAPI handler that is sent the same body, and the bare arithmetic: decode the numbers, subtract
the mean, one covariance product, one symmetric eigensolve for the leading directions, one score product, one sort, by
the library calls themselves. ``bare`` is what a handler that does this uses more than the empty one: between requests a
processor forgets, so the same calls in a loop that does nothing else, ``looped``, take less. All are asked in turn,
interleaved; ``ms`` are medians of CPU time per request of the whole process.

The target is the empty handler and 1.5 times the bare arithmetic, with a bootstrap interval (95 %) for the median
over repeats. The exit code is 1 if a request costs more than the target.

``--layers`` measures without a network, in this process: the application answers a request that is handed to it, and
beside it `Ranker.rank` orders the same documents. What the application takes more is what its layers cost: reading,
checking, counting, writing. Microseconds of CPU per request, medians over repeats.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import simdjson
import uvicorn
from fastapi import FastAPI, Request, Response
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

from benchmarks import arrivals, idle, results, served_models, servers
from localrank.commands.output import print_table
from localrank_service.app import create_app
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

#: Times the bare arithmetic that a request should cost above the empty handler.
TARGET = 1.5
COMPONENTS = served_models.COMPONENTS


def eigensolve(scatter: Matrix) -> Any:
    """Find the leading directions, and the eigenvalue after them."""
    size = len(scatter)
    count = min(COMPONENTS + 1, size)
    return lapack.ssyevr(
        scatter.T, range="I", lower=1, il=size - count + 1, iu=size, lwork=26 * size, overwrite_a=1
    )


def arithmetic(documents: Matrix, weights: Matrix) -> None:
    """Do what no implementation can leave out."""
    centred = documents - documents.mean(axis=0)
    eigensolve(centred.T @ centred if len(centred) >= centred.shape[1] else centred @ centred.T)
    np.argsort(-(documents @ weights), kind="stable")


def decode_npy(body: bytes, n_features: int) -> Matrix:
    return np.frombuffer(body, np.float32, offset=128).reshape(-1, n_features)


_PARSER: Any = simdjson.Parser()


def decode_json(body: bytes, n_features: int) -> Matrix:
    numbers = _PARSER.parse(body)["features"].as_buffer(of_type="d")
    return np.frombuffer(numbers).astype(np.float32).reshape(-1, n_features)


DECODERS: dict[str, Callable[[bytes, int], Matrix]] = {"npy": decode_npy, "JSON": decode_json}
PATHS = {"npy": "application/x-npy", "JSON": "application/json"}


def handlers(n_features: int) -> FastAPI:
    """Return the application of the empty handler, and of one for each wire that does the bare arithmetic."""
    app = idle.make()
    weights = np.ones(n_features, np.float32)

    @app.post("/{wire}")
    async def bare(wire: str, request: Request) -> Response:
        arithmetic(DECODERS[wire](await request.body(), n_features), weights)
        return Response(b"{}", media_type="application/json")

    return app


def looped(wire: str, body: bytes, n_features: int, runs: int = 30) -> float:
    """Return the median milliseconds of CPU of the bare arithmetic in a loop of its own."""
    times, weights = np.empty(runs), np.ones(n_features, np.float32)
    with threadpool_limits(1):
        for run in range(runs):
            start = time.process_time_ns()
            arithmetic(DECODERS[wire](body, n_features), weights)
            times[run] = time.process_time_ns() - start
    return float(np.median(times)) / 1e6


def served(server: servers.Server, request: bytes, count: int) -> float:
    """Return the milliseconds of CPU per request."""
    before = server.cpu()
    arrivals.closed(server.port, request, count)
    return 1e3 * (server.cpu() - before) / count


async def layers(ranker: Ranker, documents: Matrix, wire: str, repeats: int) -> results.Row:
    """Measure a request to the application in this process, and its ranking alone."""
    app = create_app(Settings(), models=[LiveModel("demo", 1, ranker)])
    body = {"npy": served_models.as_npy, "JSON": served_models.as_json}[wire](documents)
    headers = [(b"host", b"localhost"), (b"content-type", PATHS[wire].encode()), (b"accept", b"*/*")]
    headers.append((b"content-length", b"%d" % len(body)))
    statuses: list[int] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def request() -> None:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/rerank",
            "query_string": b"",
            "headers": [*headers],
        }
        await app(scope, receive, send)

    async def rank() -> None:
        ranker.rank(documents)

    count = int(np.clip(50_000 // len(documents), 100, 1000))
    found: list[list[float]] = []
    for _ in range(repeats + 1):
        found.append([])
        for call in (request, rank):
            begun = time.process_time_ns()
            for _ in range(count):
                await call()
            found[-1].append((time.process_time_ns() - begun) / count / 1e3)
    if set(statuses) != {200}:
        raise RuntimeError(f"expected status 200 only, found {set(statuses)}")
    each: Matrix = np.array(found[1:])  # the first warms caches
    whole, ranking = map(float, np.median(each, axis=0))
    return {
        "wire": wire,
        "documents": len(documents),
        "request_us": whole,
        "ranking_us": ranking,
        "layers_us": float(np.median(each[:, 0] - each[:, 1])),
        "interval": results.interval((each[:, 0] - each[:, 1]).tolist()),
    }


def show_layers(sizes: list[int], n_features: int, repeats: int) -> None:
    """Print what the layers of the application cost."""
    ranker = served_models.ranker(100, n_features)
    with threadpool_limits(1):
        rows = [
            asyncio.run(layers(ranker, served_models.documents(size, n_features), wire, repeats))
            for size in sizes
            for wire in DECODERS
        ]
    print_table(
        ("wire", "documents", "request µs", "ranking µs", "layers µs", "interval"),
        [
            (
                row["wire"],
                row["documents"],
                *(f"{row[name]:.0f}" for name in ("request_us", "ranking_us", "layers_us")),
                "{:.0f} to {:.0f}".format(*row["interval"]),
            )
            for row in rows
        ],
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", default="100,1000")
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--layers", action="store_true", help="measure the application without a network")
    parser.add_argument("--serve", type=int, metavar="PORT", help="only serve the handlers compared with")
    results.add_out(parser)
    options = parser.parse_args()
    if options.serve:
        uvicorn.run(handlers(options.features), port=options.serve, access_log=False, log_level="warning")
        return 0
    sizes = [int(size) for size in options.documents.split(",")]
    if options.layers:
        show_layers(sizes, options.features, options.repeats)
        return 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        served_models.publish(folder, served_models.ranker(options.queries, options.features))
        ours = stack.enter_context(servers.localrank(folder))
        port = servers.free_port()
        command = [sys.executable, "-m", "benchmarks.floor", "--serve", str(port)]
        command += ["--features", str(options.features)]
        plain = stack.enter_context(servers.running(command, port, servers.get("/ready")))
        rows = [
            compare(served_models.documents(size, options.features), wire, ours, plain, options.repeats)
            for size in sizes
            for wire in DECODERS
        ]
    results.write(options.out, floor=rows)
    print_table(
        (
            "wire",
            "documents",
            "request ms",
            "empty ms",
            "bare ms",
            "looped ms",
            "times bare",
            "interval",
            "ok",
        ),
        [
            (
                row["wire"],
                row["documents"],
                *(f"{row[name]:.3f}" for name in ("request_ms", "empty_ms", "bare_ms", "looped_ms")),
                f"{row['times']:.2f}",
                "{:.2f} to {:.2f}".format(*row["interval"]),
                verdict(row),
            )
            for row in rows
        ],
    )
    return int(any(verdict(row) == "NO" for row in rows))


def verdict(row: results.Row) -> str:
    return "yes" if row["times"] <= TARGET else "NO"


def compare(
    documents: Matrix, wire: str, ours: servers.Server, plain: servers.Server, repeats: int
) -> results.Row:
    body = {"npy": served_models.as_npy, "JSON": served_models.as_json}[wire](documents)
    count = int(np.clip(400_000 // len(documents), 300, 1000))
    asked = servers.post("/v1/rerank", body, PATHS[wire])
    nothing, same = servers.post("/empty", body, PATHS[wire]), servers.post(f"/{wire}", body, PATHS[wire])
    found = [
        (
            served(ours, asked, count),
            served(plain, nothing, count),
            served(plain, same, count),
            looped(wire, body, documents.shape[1]),
        )
        for _ in range(repeats + 1)
    ]
    each: Matrix = np.array(found[1:])  # the first warms caches
    request, empty, bare, loop = map(float, np.median(each, axis=0))
    return {
        "wire": wire,
        "documents": len(documents),
        "features": documents.shape[1],
        "request_ms": request,
        "empty_ms": empty,
        "bare_ms": bare - empty,
        "looped_ms": loop,
        "times": (request - empty) / (bare - empty),
        "interval": results.interval(((each[:, 0] - each[:, 1]) / (each[:, 2] - each[:, 1])).tolist()),
    }


if __name__ == "__main__":
    sys.exit(main())
