"""What keeping the feature contract costs a request: missing and infinite values found, features normalised, range counted.

    python -m benchmarks.contract

Median microseconds on one thread; beside them the same normalisation without any check. Exit code 1 where 100 documents
of 136 features take more than `LIMIT`.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from localrank.contract import NORMALISATIONS, FeatureContract

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix

#: Microseconds, per query normalisation included.
LIMIT = 30.0
REPEATS = 2000


def median(run: Callable[[], object]) -> float:
    """Return the median microseconds of many runs."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return float(np.median(times)) * 1e6


def bare(documents: Matrix) -> Matrix:
    """Return min-max normalised values with nothing checked."""
    low = documents.min(axis=0)
    return np.asarray((documents - low) / (documents.max(axis=0) - low), np.float32)


def main() -> int:
    """Print the table; return 1 if the limit is missed."""
    rng = np.random.default_rng(0)
    worst = 0.0
    print("| documents × features | bare min-max | " + " | ".join(NORMALISATIONS) + " | out of range |")
    print("|---|---|" + "---|" * (len(NORMALISATIONS) + 1))
    for n_docs, n_features in ((20, 136), (100, 46), (100, 136), (1000, 136)):
        documents = rng.random((n_docs, n_features), np.float32)
        contracts = [FeatureContract.learn(documents, [n_docs], normalise=way) for way in NORMALISATIONS]
        views = [median(partial(contract.cloud, documents)) for contract in contracts]
        ranged = median(partial(contracts[0].out_of_range, documents))
        cells = [median(partial(bare, documents)), *views, ranged]
        print(f"| {n_docs} × {n_features} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
        if (n_docs, n_features) == (100, 136):
            worst = max(views) + ranged
    print(f"\n100 × 136, the slowest of them with the range counted: {worst:.1f} µs, at most {LIMIT:.0f}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
