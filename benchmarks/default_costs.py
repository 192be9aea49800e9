"""What the default recipe costs on MQ2008: to learn, to store, to load, to rank 100 documents.

    LOCALRANK_DATA=… python -m benchmarks.default_costs [--turns 2000]

It learns from the partitions S1 to S4 (12,000 documents of 46 features) in one process, publishes, loads again in a new
process and ranks lists of 100 documents drawn from these. Processor time is counted, of all threads. A busy machine makes
it longer, because caches are shared: read the least of many turns beside the median. Exit status 1 if the recipe
takes more than it may: 60 processor seconds and 2 GB to learn, 20 MB, 2 ms to rank at best.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import results
from benchmarks.folds import data_dir, shuffled
from localrank.artifact import load
from localrank.registry.versions import Registry
from localrank_training.data.reading import read
from localrank_training.publishing.publish import publish
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

MOST = {"CPU s to learn": 60.0, "peak MB": 2000.0, "artifact MB": 20.0, "best ms to rank": 2.0}
_DOCUMENTS, _LISTS = 100, 20
_LOAD = (
    "import sys, time; from pathlib import Path; from localrank.artifact import load; "
    "begun = time.process_time(); load(Path(sys.argv[1])); "
    "print(time.process_time() - begun)"
)


def measured(models: Path, turns: int) -> results.Row:
    """Return every figure."""
    queries = shuffled(read([data_dir() / "MQ2008" / f"S{number}.txt.gz" for number in range(1, 5)]))
    began = time.process_time()
    trained = train(queries, TrainingConfig.read())
    learning = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    path = publish(Registry(models), "default", trained, queries).path
    loads = [
        float(subprocess.check_output([sys.executable, "-c", _LOAD, str(path)], text=True)) for _ in range(5)
    ]
    ranker = load(path).ranker
    rng = np.random.default_rng(0)
    lists = [queries.documents[rng.choice(queries.n_docs, _DOCUMENTS)] for _ in range(_LISTS)]
    took = []
    for turn in range(turns):
        begun = time.process_time_ns()
        ranker.rank(lists[turn % _LISTS])
        took.append((time.process_time_ns() - begun) / 1e6)
    return {
        "documents": queries.n_docs,
        "CPU s to learn": learning,
        "peak MB": peak,
        "artifact MB": sum(file.stat().st_size for file in path.iterdir()) / 1e6,
        "best s to load": min(loads),
        "best ms to rank": min(took),
        "median ms to rank": float(np.median(took)),
    }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=2000)
    results.add_out(parser)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as models:
        row = measured(Path(models), asked.turns)
    for name, value in row.items():
        limit = f" (at most {MOST[name]:g})" if name in MOST else ""
        print(f"{name}: {value:.4g}{limit}")
    results.write(asked.out, costs=[row])
    return int(any(row[name] > limit for name, limit in MOST.items()))


if __name__ == "__main__":
    sys.exit(main())
