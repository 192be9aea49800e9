"""What it costs to read the documents of a request in each form that JSON may hold them in.

    python -m benchmarks.forms [--documents 100] [--features 136] [--repeats 15]

Rows, objects, objects with names, columns, and texts of each form (docs/use/http.md). The forms take turns in one process, which reads
the body and makes the float32 matrix of it, the same one for all. Milliseconds are medians of CPU time; ``times`` is how many
times as long as rows a form took, the median of the repeats with an interval of 80 % of them.

The exit code is 1 if columns, or texts that are JSON lists, take more than `MOST` times as long as rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.commands.output import print_table
from localrank.features.contract import FeatureContract
from localrank_service.apis.rerank.reader import JsonQuery
from localrank_service.wire.query import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Matrix

#: Times rows that columns and texts of lists may take: half more than was measured.
MOST = 4.0
LIMITS = Limits(100_000, refuse_extra_features=False)


def bodies(documents: Matrix, names: tuple[str, ...]) -> dict[str, bytes]:
    """Return the same documents in each form."""
    rows = [[float(str(one)) for one in row] for row in documents]
    named = [dict(zip(names, row, strict=True)) for row in rows]

    def of(listed: list[Any]) -> bytes:
        return json.dumps({"documents": listed}).encode()

    def entry(values: Mapping[str, float]) -> str:
        return "{main=[" + ", ".join(f"{{name={name}, value={one}}}" for name, one in values.items()) + "]}"

    return {
        "rows": json.dumps({"features": rows}).encode(),
        "objects": of([{"features": row} for row in rows]),
        "objects by name": of([{"features": one} for one in named]),
        "columns": json.dumps({"columns": dict(zip(names, zip(*rows, strict=True), strict=True))}).encode(),
        "texts: lists": of([json.dumps(row) for row in rows]),
        "texts: objects": of([json.dumps(one) for one in named]),
        "texts: numbers": of([" ".join(map(str, row)) for row in rows]),
        "texts: SVMlight": of([" ".join(f"{at}:{one}" for at, one in enumerate(row, 1)) for row in rows]),
        "texts: lines": of(["\n".join(f"{name}: {one}" for name, one in values.items()) for values in named]),
        "texts: log entries": of(list(map(entry, named))),
    }


def read(body: bytes, contract: FeatureContract) -> tuple[float, Matrix]:
    """Return the seconds of CPU that reading took, and the matrix."""
    begin = time.process_time()
    found = JsonQuery.read(body, LIMITS).documents(contract).matrix
    return time.process_time() - begin, found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--repeats", type=int, default=15)
    asked = parser.parse_args()
    documents = np.random.default_rng(0).standard_normal((asked.documents, asked.features)).astype(np.float32)
    contract = FeatureContract.learn(documents, [len(documents)])
    forms = bodies(documents, contract.names)
    taken: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(asked.repeats + 1):
        for name, body in forms.items():
            seconds, found = read(body, contract)
            if not np.array_equal(documents, found):
                raise SystemExit(f"{name}: another matrix")
            taken[name].append(seconds)
    rows, medians = [], {}
    for name, body in forms.items():
        times = np.array(taken[name][1:]) / np.array(taken["rows"][1:])
        low, medians[name], high = np.quantile(times, [0.1, 0.5, 0.9])
        milliseconds = 1e3 * float(np.median(taken[name][1:]))
        rows.append((name, len(body), f"{milliseconds:.2f}", f"{medians[name]:.1f}", f"{low:.1f}–{high:.1f}"))
    print_table(("form", "bytes", "ms", "times", "80 %"), rows)
    return int(max(medians["columns"], medians["texts: lists"]) > MOST)


if __name__ == "__main__":
    sys.exit(main())
