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

from benchmarks import served_models

#: Of CPU, of every worker but the first.
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


def measure(n_queries: int, n_features: int) -> list[tuple[str, dict[str, float]]]:
    """Publish a model and load it in fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        served_models.publish(Path(folder), served_models.ranker(n_queries, n_features))
        path = Path(folder) / "bench" / "1"
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
        print(f"{n_queries} training queries, {n_features} features, {size / 1e6:.0f} MB")
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
            dict(runs)["other worker"]["cpu"] > MOST_SECONDS
            or max(run["VmHWM"] for _, run in runs) > MOST_MEGABYTES
        )
    print("FAILED" if failed else f"within {MOST_SECONDS} s of CPU and {MOST_MEGABYTES:.0f} MB")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
