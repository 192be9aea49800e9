"""Ranking by distance: scoring beside a linear scorer and beside quadratic forms, and solving for a metric.

    python -m benchmarks.distances

An anchored scorer computes all distances of a list by one matrix product; what it is compared with computes
``(x - a)' M (x - a)`` anchor by anchor. A geometric mean metric comes from one Cholesky factorisation and one symmetric
eigensolve; what it is compared with takes two matrix roots. Processor time of one thread, the least of interleaved
runs. The exit code is 1 where scoring takes more than `SLOWEST` times the quadratic forms, or a metric is not `FASTER`
times as fast as by roots.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import inv, sqrtm

from localrank.scorers import AnchoredScorer, LinearScorer
from localrank_papers.learners.gmml import geodesic, regularised

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Vector

#: Documents, features, anchors, rows of each metric.
SHAPES = (
    (100, 46, 1, 46),
    (1000, 46, 1, 46),
    (100, 136, 1, 136),
    (1000, 136, 1, 136),
    (100, 46, 20, 46),
    (100, 136, 20, 136),
    (100, 136, 20, 16),
    (1000, 136, 20, 16),
)
SLOWEST = 2.0
FASTER = 2.0


def main() -> int:
    rng = np.random.default_rng(0)
    worst = 0.0
    print("| documents × features | anchors × rows | linear ms | anchored ms | quadratic forms ms |")
    print("|---|---|---|---|---|")
    for n_docs, n_features, n_anchors, n_rows in SHAPES:
        documents = rng.random((n_docs, n_features)).astype(np.float32)
        linear = LinearScorer(rng.standard_normal(n_features))
        transforms = rng.standard_normal((n_anchors, n_rows, n_features))
        anchors = rng.random((n_anchors, n_features))
        origins = np.matmul(transforms, anchors[:, :, None])[..., 0]
        anchored = AnchoredScorer(transforms, origins, np.ones(n_anchors), "turning")
        metrics = np.matmul(transforms.transpose(0, 2, 1), transforms)

        def quadratic_forms(
            documents: np.ndarray = documents, metrics: Vector = metrics, anchors: Vector = anchors
        ) -> Vector:
            scores = np.zeros(len(documents))
            for metric, anchor in zip(metrics, anchors, strict=True):
                apart = documents - anchor
                distances = np.sqrt(np.maximum(np.vecdot(apart @ metric, apart), 0.0))
                scores -= distances * np.exp(-distances)
            return scores

        np.testing.assert_allclose(anchored.score_rows(documents), quadratic_forms(), rtol=1e-6, atol=1e-9)
        times = least(
            partial(linear.score_rows, documents),
            partial(anchored.score_rows, documents),
            quadratic_forms,
        )
        worst = max(worst, times[1] / times[2])
        shown = " | ".join(f"{1e3 * seconds:.3f}" for seconds in times)
        print(f"| {n_docs} × {n_features} | {n_anchors} × {n_rows} | {shown} |")

    print("\n| features | metric ms | by roots ms |")
    print("|---|---|---|")
    slowest = np.inf
    for n_features in (46, 136, 300):
        similar, dissimilar = (
            regularised(rows.T @ rows, 0.1) for rows in rng.standard_normal((2, 2 * n_features, n_features))
        )

        def by_roots(similar: Vector = similar, dissimilar: Vector = dissimilar) -> Vector:
            root = sqrtm(similar)
            back = inv(root)
            return np.asarray(back @ sqrtm(root @ dissimilar @ root) @ back, np.float64)

        def closed(similar: Vector = similar, dissimilar: Vector = dissimilar) -> Vector:
            return geodesic(similar, dissimilar, 0.5)

        transform = closed()
        np.testing.assert_allclose(transform.T @ transform, by_roots(), rtol=1e-6, atol=1e-8)
        times = least(closed, by_roots, runs=5)
        slowest = min(slowest, times[1] / times[0])
        print(f"| {n_features} | " + " | ".join(f"{1e3 * seconds:.1f}" for seconds in times) + " |")
    print(f"\nscoring at most {worst:.2f} × quadratic forms (threshold {SLOWEST:g})")
    print(f"metrics at least {slowest:.1f} × as fast as by roots (threshold {FASTER:g})")
    return int(worst > SLOWEST or slowest < FASTER)


def least(*ways: Callable[[], Vector], runs: int = 30) -> list[float]:
    """Return the least processor seconds of each way, in turns."""
    seconds = [np.inf] * len(ways)
    for _ in range(runs):
        for number, way in enumerate(ways):
            started = time.process_time()
            way()
            seconds[number] = min(seconds[number], time.process_time() - started)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
