"""How long a model of 100,000 training queries takes to load, and how much memory it holds.

``python -m benchmarks.loading_models [--queries N] [--features D]``. Each load is a process of its own, as a worker
is: the first copies every file while it verifies it, the second attaches the copy, and both rank the probe. Beside
them, what a library user gets, and the time of verifying without a copy. The process that makes the model is not
measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from localrank import Registry
from localrank.artifact import Provenance
from localrank.contract import FeatureContract
from localrank.lsh import HyperplaneTables, draw_planes
from localrank.probe import choose
from localrank.ranker import Ranker
from localrank.routing import LshRouter
from localrank.scorers import LinearScorer
from localrank.signature import PcaRepresentation, Signatures

#: Of every worker but the first.
MOST_SECONDS = 1.0
MOST_MEGABYTES = 150.0

_MEASURED = """
import json, sys, time
from pathlib import Path
import numpy as np
from localrank import artifact

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    pairs = (line.split(":") for line in lines if line.startswith(("VmRSS", "RssAnon", "RssFile", "VmHWM")))
    return {name: int(value.split()[0]) / 1000 for name, value in pairs}

before = resident()["VmRSS"]
started, used = time.perf_counter(), time.process_time()
path, keep, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
if how == "first worker":
    keep.mkdir()
    loaded = artifact.load(path, keep=keep)
elif how == "other worker":
    loaded = artifact.attach(keep)
elif how == "library":
    loaded = artifact.load(path)
else:
    loaded = artifact.verify(path)
seconds, cpu = time.perf_counter() - started, time.process_time() - used
print(json.dumps({"seconds": seconds, "cpu": cpu, "before": before, **resident()}))
"""


def model(n_queries: int, n_features: int, components: int = 5, clusters: int = 50, seed: int = 0) -> Ranker:
    """Make a ranker whose training queries are near one of ``clusters`` random frames."""
    random = np.random.default_rng(seed)
    frames = np.linalg.qr(random.standard_normal((clusters, n_features, components)))[0].transpose(0, 2, 1)
    assigned = random.integers(0, clusters, n_queries)
    directions = np.empty((n_queries, components, n_features), np.float32)
    for start in range(0, n_queries, 4096):
        part = slice(start, start + 4096)
        block = frames[assigned[part]] + 0.02 * random.standard_normal(directions[part].shape)
        directions[part] = block / np.linalg.norm(block, axis=-1, keepdims=True)
    signatures = Signatures(
        directions=directions,
        eigenvalues=np.tile(np.linspace(1.0, 0.2, components), (n_queries, 1)),
        ranks=np.full(n_queries, components),
    )
    documents = random.standard_normal((400, n_features)).astype(np.float32)
    first = np.array([int(np.argmax(assigned == cluster)) for cluster in range(clusters)])
    return Ranker(
        contract=FeatureContract.learn(documents, [100] * 4, normalise="none"),
        representation=PcaRepresentation(components),
        router=LshRouter(
            signatures,
            assigned,
            HyperplaneTables.build(signatures, draw_planes(n_features, 16, 12, seed)),
            exemplars=tuple(first.tolist()),
        ),
        scorers=tuple(LinearScorer(random.standard_normal(n_features)) for _ in range(clusters)),
        global_scorer=LinearScorer(random.standard_normal(n_features)),
    )


def queries(ranker: Ranker, count: int, seed: int = 1) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
    """Make clouds along the directions of training queries."""
    random = np.random.default_rng(seed)
    assert isinstance(ranker.router, LshRouter)
    signatures = ranker.router.points
    components = signatures.directions.shape[1]
    return [
        (
            random.standard_normal((60, components))
            * np.linspace(3, 1, components)
            @ signatures.directions[random.integers(len(signatures))]
        ).astype(np.float32)
        for _ in range(count)
    ]


def measure(n_queries: int, n_features: int) -> list[tuple[str, dict[str, float]]]:
    """Publish a model and load it in fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        ranker = model(n_queries, n_features)
        probe = choose(ranker, queries(ranker, 40))
        path = Registry(Path(folder)).publish("large", ranker, Provenance("", {}, probe)).path
        runs = []
        for name in ("first worker", "other worker", "library", "verify only"):
            answer = subprocess.run(
                [sys.executable, "-c", _MEASURED, str(path), str(Path(folder) / "kept"), name],
                check=True,
                capture_output=True,
                text=True,
            )
            runs.append((name, json.loads(answer.stdout)))
        size = sum(file.stat().st_size for file in path.iterdir())
        print(
            f"{n_queries} training queries, {n_features} features, {len(probe)} probe queries, {size / 1e6:.0f} MB"
        )
        return runs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--features", type=int, nargs="*", default=[46, 136])
    options = parser.parse_args()
    failed = False
    for n_features in options.features:
        runs = measure(options.queries, n_features)
        for name, run in runs:
            print(
                f"  {name:<13} {run['seconds']:.3f} s ({run['cpu']:.3f} s of CPU), resident {run['VmRSS']:.0f} MB: "
                f"{run['RssAnon']:.0f} own, {run['RssFile']:.0f} of files; {run['before']:.0f} before, "
                f"{run['VmHWM']:.0f} at most"
            )
        failed |= (
            dict(runs)["other worker"]["seconds"] > MOST_SECONDS
            or max(run["VmHWM"] for _, run in runs) > MOST_MEGABYTES
        )
    print("FAILED" if failed else f"within {MOST_SECONDS} s and {MOST_MEGABYTES:.0f} MB")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
