"""What a request costs on each wire, beside the ranking alone.

    python -m benchmarks.wires [--turns 60]

The application is called as a server would call it, in this process and without a socket: middleware, routing, reading,
ranking, writing, metrics. A linear model of 136 features, 1,000 training queries; documents of random numbers. One BLAS
thread; all wires run in turn; figures are the least CPU time of many turns, in milliseconds, and how many times the
ranking alone that is. ``by orjson`` is what JSON costs where nothing was compiled.

The exit code is 1 where npy takes more than 2.2 times the ranking alone at 1,000 documents, or JSON more than 0.5 times
what it takes so.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from localrank.commands.output import print_table
from localrank.contract import FeatureContract
from localrank.ranker import Ranker
from localrank.routing import ExactRouter
from localrank.scorers import LinearScorer
from localrank.signature import PcaRepresentation
from localrank_service.app import create_app
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from localrank_service.wire import numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix

WIDTH = 136
INFER = "/v2/models/bench/infer"
PARTS = 10


class Request(NamedTuple):
    """One request as a server hands it on."""

    path: str
    body: bytes
    headers: dict[str, str]
    compiled: bool = True


def model() -> Ranker:
    random = np.random.default_rng(0)
    queries = [random.standard_normal((30, WIDTH)).astype(np.float32) for _ in range(1000)]
    contract = FeatureContract.learn(
        np.concatenate(queries), [30] * 1000, missing="median", normalise="query_minmax"
    )
    representation = PcaRepresentation(3)
    signatures = representation.sign_all([contract.cloud(query).normalised for query in queries])
    scorers = tuple(LinearScorer(random.standard_normal(WIDTH)) for _ in range(5))
    router = ExactRouter(signatures, np.arange(1000) % 5)
    return Ranker(contract, representation, router, scorers, LinearScorer(np.ones(WIDTH)))


def requests(documents: Matrix) -> dict[str, Request]:
    shape = list(documents.shape)
    rows = [[float(str(value)) for value in row] for row in documents]
    as_json = {"content-type": "application/json"}
    columns = json.dumps({"features": rows}).encode()
    by_row = json.dumps(
        {"documents": [{"id": str(i), "features": row} for i, row in enumerate(rows)]}
    ).encode()
    packed = json.dumps(
        {"features_b64": base64.b64encode(documents.tobytes()).decode(), "shape": shape}
    ).encode()
    buffer = io.BytesIO()
    np.save(buffer, documents)
    flat = {
        "name": "features",
        "datatype": "FP32",
        "shape": shape,
        "data": [cell for row in rows for cell in row],
    }
    tensor = {
        "name": "features",
        "datatype": "FP32",
        "shape": shape,
        "parameters": {"binary_data_size": documents.nbytes},
    }
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    length = "inference-header-content-length"
    batch = b'{"queries": [' + b", ".join([columns] * PARTS) + b"]}"
    return {
        "JSON columns": Request("/v1/rerank", columns, as_json),
        "JSON columns, by orjson": Request("/v1/rerank", columns, as_json, compiled=False),
        "JSON rows with ids": Request("/v1/rerank", by_row, as_json),
        "JSON base64": Request("/v1/rerank", packed, as_json),
        "npy": Request("/v1/rerank", buffer.getvalue(), {"content-type": "application/x-npy"}),
        "V2 JSON": Request(INFER, json.dumps({"inputs": [flat]}).encode(), {}),
        "V2 binary": Request(INFER, head + documents.tobytes(), {length: str(len(head))}),
        "V2 raw": Request(INFER, documents.tobytes(), {length: "0"}),
        "Cohere": Request("/v2/rerank", by_row, as_json),
        f"batch of {PARTS}, each": Request("/v1/rerank/batch", batch, as_json),
    }


def called(app: Any, request: Request) -> Callable[[], Any]:
    """Return what calls the application once and checks that it answered."""
    headers = {"host": "localhost", "content-length": str(len(request.body))} | request.headers
    scope = {
        "type": "http",
        "method": "POST",
        "path": request.path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def call() -> None:
        status = 0

        async def receive() -> Any:
            return {"type": "http.request", "body": request.body, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)

        await app(dict(scope), receive, send)
        if status != 200:
            raise RuntimeError(f"{request.path}: {status}")

    return call


async def measured(ranker: Ranker, documents: Matrix, turns: int) -> dict[str, float]:
    """Return the least CPU time of each wire in milliseconds, and of the ranking alone."""
    app = create_app(Settings(max_documents=20_000), models=[LiveModel("bench", 1, ranker)])
    sent = requests(documents)
    calls = {name: called(app, request) for name, request in sent.items()}
    best: dict[str, float] = dict.fromkeys(("ranking alone", *calls), np.inf)
    for _ in range(turns):
        begun = time.process_time()
        ranker.rank(documents)
        best["ranking alone"] = min(best["ranking alone"], time.process_time() - begun)
        for name, call in calls.items():
            with (
                nullcontext()
                if sent[name].compiled
                else mock.patch.object(numbers, "lift_numbers", return_value=None)
            ):
                begun = time.process_time()
                await call()
                best[name] = min(best[name], time.process_time() - begun)
    parts = {name: PARTS if name.startswith("batch") else 1 for name in best}
    return {name: seconds * 1e3 / parts[name] for name, seconds in best.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=60)
    turns = parser.parse_args().turns
    ranker, random = model(), np.random.default_rng(1)
    figures = {}
    for n_docs in (20, 100, 1000):
        documents = random.standard_normal((n_docs, WIDTH)).astype(np.float32)
        with threadpool_limits(1):
            figures[n_docs] = asyncio.run(measured(ranker, documents, turns if n_docs < 1000 else turns // 3))
    print_table(
        ("", *(f"{n_docs} × {WIDTH}{unit}" for n_docs in figures for unit in (", ms", ", times"))),
        [
            (
                name,
                *(
                    text
                    for found in figures.values()
                    for text in (f"{found[name]:.3f}", f"{found[name] / found['ranking alone']:.2f}")
                ),
            )
            for name in figures[1000]
        ],
    )
    large = figures[1000]
    fits = large["npy"] <= 2.2 * large["ranking alone"]
    fits &= large["JSON columns"] <= 0.5 * large["JSON columns, by orjson"]
    print("ok" if fits else "a threshold was missed")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
