"""How long it takes from a body's bytes to a float32 matrix, by every parser one would pick.

    LOCALRANK_DATA=… python -m benchmarks.decoding

The bodies hold documents of MSLR-WEB10K's sample, or random numbers of float32 where that is not there, as
``json.dumps`` writes them: columns with ids, the same with one value in fifty missing, rows with ids. All run in turn in
one process; times are the least CPU time of many turns. *checked* are those that know ``[[1,2,3],[4]]`` from
``[[1,2],[3,4]]`` and what a missing value is; ``service`` is what the service does, ids, options and contract included,
``without compiled code`` the same where nothing was compiled when it was installed.

The exit code is 1 where the service takes more than 0.4 times what it would take without compiled code on columns of
1,000 documents, or more than the bare, unchecked simdjson.
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import time
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import orjson
import simdjson
from pydantic import BaseModel

from localrank.commands.output import print_table
from localrank.contract import FeatureContract
from localrank.native import lift, scan
from localrank_service.wire import npy, rerank_json
from localrank_service.wire.query import Limits
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix

WIDTH = 136
LIMITS = Limits(5000, refuse_extra_features=False)


class Validated(BaseModel):
    """What a plain FastAPI handler declares."""

    ids: list[str]
    features: list[list[float | None]]


TYPED = msgspec.json.Decoder(type=dict[str, list[Any]])


def documents() -> tuple[str, Matrix]:
    """Return 1,000 documents, and where they come from."""
    if folder := os.environ.get("LOCALRANK_DATA"):
        found = read([Path(folder) / "MSLR-sample" / "data.txt.gz"]).documents[:1000]
        return "MSLR sample", np.ascontiguousarray(found, np.float32)
    return "random", np.random.default_rng(0).standard_normal((1000, WIDTH)).astype(np.float32)


def shortest(row: Matrix) -> list[float]:
    return [int(value) if value == int(value) else float(str(value)) for value in row]


def arms(contract: FeatureContract) -> dict[str, tuple[bool, Callable[[bytes], Any]]]:
    """Return ``{name: (checked, decode)}`` for bodies of columns."""
    parser = simdjson.Parser()

    def bare(body: bytes) -> Any:
        root: Any = parser.parse(body)
        flat = np.frombuffer(root["features"].as_buffer(of_type="d"))
        return flat.reshape(-1, WIDTH).astype(np.float32)

    def packed(rows: list[Any]) -> Any:
        flat = struct.pack(f"{len(rows) * WIDTH}d", *chain.from_iterable(rows))
        return np.frombuffer(flat).reshape(-1, WIDTH).astype(np.float32)

    def service(body: bytes) -> Any:
        return rerank_json.read(body, LIMITS).documents(contract).matrix

    def without(body: bytes) -> Any:
        kept = [(module, vars(module)["library"]) for module in (lift, scan)]
        for module, _ in kept:
            vars(module)["library"] = lambda: None
        try:
            return service(body)
        finally:
            for module, library in kept:
                vars(module)["library"] = library

    return {
        "pydantic, then numpy": (
            True,
            lambda body: np.array(Validated.model_validate_json(body).features, np.float32),
        ),
        "json, then numpy": (False, lambda body: np.array(json.loads(body)["features"], np.float32)),
        "msgspec, then numpy": (False, lambda body: np.array(TYPED.decode(body)["features"], np.float32)),
        "orjson, then numpy": (False, lambda body: np.array(orjson.loads(body)["features"], np.float32)),
        "msgspec, packed": (False, lambda body: packed(TYPED.decode(body)["features"])),
        "orjson, packed": (False, lambda body: packed(orjson.loads(body)["features"])),
        "simdjson, flattened": (False, bare),
        "service, without compiled code": (True, without),
        "service": (True, service),
    }


def ranked_where_it_lies(contract: FeatureContract, body: bytes) -> Any:
    return npy.read(body, [], LIMITS).documents(contract)


def least(decodes: list[Callable[[], Any]], turns: int) -> list[float]:
    """Return the least CPU time of each in milliseconds, run in turn."""
    times = np.full((turns, len(decodes)), np.inf)
    for turn in range(turns):
        for position, decode in enumerate(decodes):
            begun = time.process_time()
            decode()
            times[turn, position] = time.process_time() - begun
    best: list[float] = (times.min(axis=0) * 1e3).tolist()
    return best


def main() -> int:
    source, matrix = documents()
    contract = FeatureContract.learn(matrix, [len(matrix)], missing="median", normalise="none")
    everything = arms(contract)
    columns: list[dict[str, float]] = []
    header = []
    for n_docs in (3, 100, 1000):
        rows = [shortest(row) for row in matrix[:n_docs]]
        ids = [f"document-{position}" for position in range(n_docs)]
        holes = [[None if (d + f) % 50 == 0 else v for f, v in enumerate(row)] for d, row in enumerate(rows)]
        by_row = [{"id": one, "features": row} for one, row in zip(ids, rows, strict=True)]
        buffer = io.BytesIO()
        np.save(buffer, matrix[:n_docs])
        bodies = {
            "columns": json.dumps({"ids": ids, "features": rows}).encode(),
            "missing": json.dumps({"ids": ids, "features": holes}).encode(),
            "rows": json.dumps({"documents": by_row}).encode(),
            "npy": buffer.getvalue(),
        }
        for kind, body in bodies.items():
            decodes: dict[str, Callable[[], Any]] = {
                name: partial(decode, body)
                for name, (checked, decode) in everything.items()
                if (kind == "columns" or (checked and (kind == "missing" or name.startswith("service"))))
            }
            if kind == "npy":
                decodes = {"service": partial(ranked_where_it_lies, contract, body)}
            times = least(list(decodes.values()), 15 if n_docs == 1000 else 100)
            columns.append(dict(zip(decodes, times, strict=True)))
            header.append(f"{n_docs} {kind} ({len(body) / 1000:,.0f} kB)")
    print(f"{source}, milliseconds of CPU per body of documents × {WIDTH}")
    print_table(
        ("", "checked", *header),
        [
            (
                name,
                "yes" if checked else "no",
                *(f"{column[name]:.3f}" if name in column else "" for column in columns),
            )
            for name, (checked, _) in everything.items()
        ],
    )
    large = columns[header.index(next(one for one in header if one.startswith("1000 columns")))]
    fits = large["service"] <= min(
        0.4 * large["service, without compiled code"], large["simdjson, flattened"]
    )
    print("ok" if fits else "a threshold was missed")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
