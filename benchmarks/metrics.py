"""How long it takes to measure a ranking of the size of MSLR-WEB30K's test fold: 6,000 queries, 750,000 documents.

Run ``python benchmarks/metrics.py``. It prints the seconds of one thread and fails above the threshold.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from localrank.metrics import CONVENTIONS, Judgements

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector

QUERIES, DOCUMENTS = 6_000, 750_000
METRICS = [
    "map",
    *(f"ndcg@{k}" for k in (1, 3, 5, 10)),
    "mean_ndcg",
    "mrr",
    *(f"p@{k}" for k in range(1, 11)),
    "err",
]
#: Seconds for everything, preparing the judgements included, with one convention.
THRESHOLD = 1.0


def main() -> int:
    rng = np.random.default_rng(0)
    shares = rng.gamma(3.0, size=QUERIES)
    offsets = np.round(np.cumsum(np.concatenate([[0.0], shares])) * DOCUMENTS / shares.sum()).astype(np.int64)
    labels = rng.choice(5, DOCUMENTS, p=[0.52, 0.32, 0.13, 0.02, 0.01]).astype(np.float64)
    scores = labels + rng.normal(scale=3.0, size=DOCUMENTS)
    slowest = 0.0
    for convention in ("mslr", "standard", "standard-one", "standard-skip"):
        seconds = min(_seconds(labels, scores, offsets, convention) for _ in range(3))
        slowest = max(slowest, seconds)
        print(f"{CONVENTIONS[convention].name:<14} {len(METRICS)} metrics  {seconds:.3f} s")
    print(f"slowest {slowest:.3f} s, threshold {THRESHOLD:.1f} s")
    return int(slowest > THRESHOLD)


def _seconds(labels: Vector, scores: Vector, offsets: Indices, convention: str) -> float:
    started = time.perf_counter()
    Judgements(labels, offsets, convention).measure(scores, METRICS)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
