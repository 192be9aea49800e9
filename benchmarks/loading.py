"""How fast LETOR text is read, against scikit-learn's loader on the same files.

Run ``LOCALRANK_DATA=... python benchmarks/loading.py``. Both make a dense float32 matrix, labels and query ids of a plain
text file; ours also checks it, keeps comments and puts queries together. Interleaved, CPU time, the fastest of several
runs. Without real data, synthetic files of the same shapes are read. Fails if ours is slower than `THRESHOLD`
times scikit-learn's.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_svmlight_file

from localrank_training.data.reading import read

if TYPE_CHECKING:
    from collections.abc import Callable

#: Times scikit-learn's speed.
THRESHOLD = 1.0
RUNS = 5
REAL = {
    "MQ2008": ("MQ2008/*.txt.gz", "dense, comments"),
    "OHSUMED-raw": ("OHSUMED-raw/*.txt.gz", "dense, comments"),
    "MSLR-sample": ("MSLR-sample/data.txt.gz", "dense"),
    "imat2009-sample": ("imat2009-sample/data.txt.gz", "sparse"),
    "lightgbm-example": ("lightgbm-example/train.txt.gz", "sparse"),
}


def main() -> int:
    slowest = np.inf
    with tempfile.TemporaryDirectory() as room:
        print(f"{'file':<18} {'MB':>6} {'sklearn ms':>11} {'ours ms':>9} {'times':>6}")
        for name, what, path in _files(Path(room)):
            theirs, ours = _compare(path)
            slowest = min(slowest, theirs / ours)
            size = path.stat().st_size / 1e6
            print(
                f"{name:<18} {size:6.1f} {theirs * 1e3:11.1f} {ours * 1e3:9.1f} {theirs / ours:6.1f}  {what}"
            )
    print(f"slowest {slowest:.1f} times scikit-learn, threshold {THRESHOLD:.1f}")
    return int(slowest < THRESHOLD)


def _files(room: Path) -> list[tuple[str, str, Path]]:
    folder = os.environ.get("LOCALRANK_DATA")
    files = []
    if folder is None:
        print("LOCALRANK_DATA is not set: synthetic files")
        for name, share in (("dense", 1.0), ("sparse", 0.2)):
            path = room / name
            path.write_text(_synthetic(share))
            files.append((name, "synthetic", path))
        return files
    for name, (pattern, what) in REAL.items():
        path = room / name
        path.write_bytes(
            b"".join(gzip.decompress(part.read_bytes()) for part in sorted(Path(folder).glob(pattern)))
        )
        files.append((name, what, path))
    return files


def _synthetic(share: float) -> str:
    rng = np.random.default_rng(0)
    lines = []
    for row in range(10_000):
        kept = np.flatnonzero(rng.random(136) < share)
        values = " ".join(f"{column + 1}:{rng.standard_normal():.6f}" for column in kept)
        lines.append(f"{row % 5} qid:{row // 100} {values}\n")
    return "".join(lines)


def _compare(path: Path) -> tuple[float, float]:
    theirs, ours = np.inf, np.inf
    for _ in range(RUNS):
        theirs = min(theirs, _seconds(lambda: _sklearn(path)))
        ours = min(ours, _seconds(lambda: read(path)))
    return theirs, ours


def _sklearn(path: Path) -> None:
    documents, _, _ = load_svmlight_file(str(path), query_id=True, dtype=np.float32)
    documents.toarray()


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
