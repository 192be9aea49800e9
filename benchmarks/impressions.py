"""What the impression log costs a request, and what other forms of its files would.

    python -m benchmarks.impressions [--repeats 20] [--requests 400] [--documents 100] [--features 136] [--beside PYTHON]
    python -m benchmarks.impressions --formats

The same service is run without the log, with the log at 10 % and at 100 %. All are asked in turn, interleaved, in an order drawn
anew each time; what counts is the CPU time of all threads, until what was logged is written. ``--beside`` also runs the service of another
installation, such as that of an earlier version, which has to cost the same as this one without the log. The exit code is 1
if the median of the ratios to the service without the log is above `MOST` at 10 %, and, with ``--beside``, if it is off by more
than `SAME`.

``--formats`` writes the same records in several forms: JSON with numbers, JSON with base64, Parquet, and the frames of the log;
each as it is and compressed by zstd at level 1. Processor time of one thread, the least of interleaved runs.
"""

from __future__ import annotations

import argparse
import base64
import io
import random
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from benchmarks import arrivals, results, served_models, servers
from localrank.commands.output import print_table
from localrank.journal import frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix

#: Times the service without the log that one with the log at 10 % may cost.
MOST = 1.03
#: How far an installation beside this one may be off.
SAME = 0.03
#: Records that are written together.
_TOGETHER = 8


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--beside", metavar="PYTHON", help="interpreter of another installation")
    parser.add_argument("--formats", action="store_true", help="compare forms of files instead")
    options = parser.parse_args()
    if options.formats:
        return formats(options.documents, options.features)
    return costs(options)


def costs(options: argparse.Namespace) -> int:
    body = served_models.as_json(served_models.documents(options.documents, options.features))
    request = servers.post("/v1/rerank", body, "application/json")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models = folder / "models"
        models.mkdir()
        served_models.publish(models, served_models.ranker(options.queries, options.features))
        running = {
            name: stack.enter_context(
                servers.localrank(
                    models, LOCALRANK_IMPRESSION_LOG=share, LOCALRANK_IMPRESSION_LOG_DIR=str(folder / name)
                )
            )
            for name, share in (("off", "0"), ("10 %", "0.1"), ("100 %", "1"))
        }
        if options.beside:
            port = servers.free_port()
            command = [options.beside, "-m", "localrank", "serve", "--models-dir", str(models)]
            command += ["--port", str(port), "--workers", "1"]
            running["beside"] = stack.enter_context(servers.running(command, port, servers.get("/readyz")))
        found: dict[str, list[float]] = {name: [] for name in running}
        order = list(running)
        for repeat in range(options.repeats + 1):
            random.shuffle(order)
            for name in order:
                milliseconds = served(running[name], request, options.requests)
                if repeat:  # the first warms caches
                    found[name].append(milliseconds)
    rows, missed = [], False
    for name, values in found.items():
        ratios = [one / off for one, off in zip(values, found["off"], strict=True)]
        ratio, (low, high) = float(np.median(ratios)), results.interval(ratios)
        good = True
        if name == "10 %":
            good = ratio <= MOST
        elif name == "beside":
            good = abs(ratio - 1) <= SAME
        missed |= not good
        rows.append(
            (
                name,
                f"{np.median(values):.3f}",
                f"{ratio:.3f}",
                f"{low:.3f} to {high:.3f}",
                "yes" if good else "NO",
            )
        )
    print(
        f"{options.documents} documents of {options.features} features, JSON, median of {options.repeats}:\n"
    )
    print_table(("log", "CPU ms", "times off", "interval", "ok"), rows)
    return int(missed)


def served(server: servers.Server, request: bytes, count: int) -> float:
    """Return the milliseconds of CPU per request."""
    before = cpu(server)
    arrivals.closed(server.port, request, count)
    # The log is written five times a second.
    time.sleep(0.5)
    return 1e3 * (cpu(server) - before) / count


def cpu(server: servers.Server) -> float:
    """Return the seconds of CPU of all threads, more exact than in ticks."""
    total = 0
    for pid in server.processes():
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def formats(n_documents: int, n_features: int) -> int:
    rng = np.random.default_rng(0)
    records = [record(rng, n_documents, n_features) for _ in range(64)]
    ways: dict[str, Callable[[list[Any]], bytes]] = {
        "JSON, numbers": lambda some: b"".join(map(as_numbers, some)),
        "JSON, base64": lambda some: b"".join(map(as_base64, some)),
        "frames": lambda some: b"".join(map(as_frame, some)),
        "Parquet, uncompressed": lambda some: as_parquet(some, "none"),
        "Parquet, zstd": lambda some: as_parquet(some, "zstd"),
    }
    squeeze = zstandard.ZstdCompressor(level=1)
    for name in ("JSON, numbers", "JSON, base64", "frames"):
        ways[f"{name}, zstd"] = partial(squeezed, squeeze, ways[name])
    seconds, sizes = dict.fromkeys(ways, np.inf), dict.fromkeys(ways, 0)
    blocks = [records[start : start + _TOGETHER] for start in range(0, len(records), _TOGETHER)]
    for _ in range(10):
        for name, way in ways.items():
            began = time.process_time()
            sizes[name] = sum(len(way(block)) for block in blocks)
            seconds[name] = min(seconds[name], time.process_time() - began)
    print(f"{n_documents} documents of {n_features} features, {_TOGETHER} records together:\n")
    print_table(
        ("form", "µs of CPU per record", "KB per record"),
        [
            (name, f"{1e6 * seconds[name] / len(records):.0f}", f"{sizes[name] / len(records) / 1e3:.1f}")
            for name in ways
        ],
    )
    return 0


def squeezed(squeeze: Any, way: Callable[[list[Any]], bytes], some: list[Any]) -> bytes:
    compressed: bytes = squeeze.compress(way(some))
    return compressed


def record(rng: np.random.Generator, n_documents: int, n_features: int) -> tuple[Any, Matrix, Any, Any]:
    """Return members and features; half of the features are counts, as in web search."""
    features = rng.random((n_documents, n_features)).astype(np.float32)
    features[:, ::2] = rng.poisson(3, features[:, ::2].shape)
    scores = rng.standard_normal(n_documents)
    members = {
        "kind": "impression",
        "time": 1.8e9 + rng.random(),
        "request_id": f"{rng.integers(2**62):032x}",
        "query_id": f"q-{rng.integers(10**6)}",
        "model": "web",
        "version": 7,
        "contract": "sha256:" + "a" * 64,
        "ids": [f"d{number}" for number in rng.integers(0, 10**8, n_documents)],
        "route": {"strategy": "lsh", "cluster": 2, "similarity": 0.83, "margin": 0.11, "candidates": 153},
    }
    return members, features, scores, np.argsort(-scores).astype(np.int32)


def as_numbers(one: Any) -> bytes:
    members, features, scores, order = one
    members = members | {"features": features, "scores": scores, "order": order}
    return orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"


def as_base64(one: Any) -> bytes:
    members, *arrays = one
    texts = [base64.b64encode(array).decode() for array in arrays]
    return orjson.dumps(members | dict(zip(("features", "scores", "order"), texts, strict=True))) + b"\n"


def as_frame(one: Any) -> bytes:
    members, *arrays = one
    return b"".join(frame(orjson.dumps(members), [array.tobytes() for array in arrays]))


def as_parquet(some: list[Any], compression: str) -> bytes:
    table = pa.table(
        {
            "members": [orjson.dumps(members) for members, *_ in some],
            **{
                name: pa.array([one[position].reshape(-1) for one in some])
                for position, name in enumerate(("features", "scores", "order"), 1)
            },
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, compression=compression)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
