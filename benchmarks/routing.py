"""What hash tables trade: time, recall and agreement of the cluster with the exact scan, by training queries.

    python -m benchmarks.routing [--queries 1000,10000,100000,1000000] [--features 46] [--kinds spread,tight]
                                 [--meet 10,46,136,700]

Four kinds of training sets. ``spread``: directions drawn at random, so that nothing is near anything; clusters are
those of the nearest of twenty anchors. ``clustered``: directions scattered around twenty centres. ``tight``: the same
with a similarity of 0.99, so that buckets grow with the training set. ``shared``: as ``clustered``, but the first
direction is nearly the same in all queries, as it is where features are counts.

The router has the parameters that training ships, except that the tables are used however few queries there are. Each
query is routed once and is new to the router; times are medians. ``recall`` is how often the most similar training
query is found, ``short by`` how much less similar the one found is on average, ``agreement`` how often the cluster is
that of the exact scan. Then, for several numbers of features and both kinds of forms, both at the number of training queries up
to which training ships the exact scan. The exit code is 1 where a threshold is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from localrank.commands.output import print_table
from localrank.points.signature import Signatures
from localrank.routing.router import ExactRouter
from localrank.routing.routers import LshRouter, exact_below
from localrank.routing.search import HyperplaneTables, automatic_planes, draw_planes

if TYPE_CHECKING:
    from localrank.arrays import Indices, Matrix
    from localrank.routing.route import Route
    from localrank.routing.router import Router

#: How many times longer the tables may take for a million training queries than for a thousand.
MOST_GROWTH = 6.0
#: How many times the other either may take where training ships the one up to there, the other beyond.
MOST_APART = 2.0
#: How many times longer than the tables the exact scan must take for a million.
LEAST_SPEED_UP = 100.0
#: How often the tables must find the cluster of the exact scan, if the set has clusters.
LEAST_AGREEMENT = 0.95
#: How many seconds tables for a million signatures may take.
MOST_BUILDING = 60.0

#: Noise around the centres; none has no centres.
KINDS = {"spread": None, "clustered": 0.9, "tight": 0.1, "shared": 0.9}
CENTRES = 20
TABLES = 16
HELD = 300
HEADER = (
    "set",
    "queries",
    "h",
    "lsh ms",
    "exact ms",
    "times",
    "recall",
    "short by",
    "agreement",
    "built in s",
)


def orthonormalise(vectors: Matrix) -> Matrix:
    """Make the rows of each ``[p, d]`` of ``[n, p, d]`` orthonormal in place (Gram-Schmidt, all at once)."""
    for p in range(vectors.shape[1]):
        row = vectors[:, p]
        for q in range(p):
            row -= np.vecdot(row, vectors[:, q])[:, None] * vectors[:, q]
        row /= np.sqrt(np.vecdot(row, row))[:, None]
    return vectors


def draw(kind: str, count: int, components: int, n_features: int, seed: int) -> tuple[Signatures, Indices]:
    """Return signatures and their clusters; the centres are the same for every seed."""
    fixed = np.random.default_rng(0)
    centres = orthonormalise(fixed.standard_normal((CENTRES, components, n_features), np.float32))
    if kind == "shared":
        centres[:, 0] = centres[0, 0]
        orthonormalise(centres)
    random = np.random.default_rng(seed)
    directions = np.empty((count, components, n_features), np.float32)
    clusters = np.empty(count, np.int64)
    spread = KINDS[kind]
    for start in range(0, count, 20_000):
        part = slice(start, min(start + 20_000, count))
        noise = random.standard_normal((part.stop - start, components, n_features), np.float32)
        if spread is None:
            directions[part] = orthonormalise(noise)
            dots = sum(np.abs(directions[part, p] @ centres[:, p].T) for p in range(components))
            clusters[part] = np.argmax(dots, axis=1)
            continue
        chosen = random.integers(CENTRES, size=part.stop - start)
        noise *= spread / np.sqrt(n_features)
        if kind == "shared":
            noise[:, 0] *= 0.3
        noise += centres[chosen]
        directions[part], clusters[part] = orthonormalise(noise), chosen
    eigenvalues = np.broadcast_to(0.5 ** np.arange(components), (count, components))
    return Signatures(directions, eigenvalues, np.full(count, components, np.int64)), clusters


def compare(lsh: LshRouter, exact: ExactRouter, asked: Signatures) -> tuple[float, ...]:
    """Return median milliseconds of both, recall, how much less similar the answer is, and agreement of clusters."""
    taken, routes = timed(lsh, asked)
    # The exact scan of a million takes long, and turns over every cache that a look-up would find warm.
    few = asked.take(np.arange(int(np.clip(10_000_000 // len(lsh.points), 30, len(asked)))))
    scanning, truth = timed(exact, few)
    short = [(e.similarity or 0.0) - (a.similarity or 0.0) for a, e in zip(routes, truth, strict=False)]
    same = [a.cluster == e.cluster for a, e in zip(routes, truth, strict=False)]
    return (
        taken,
        scanning,
        float(np.mean(np.array(short) < 1e-6)),
        float(np.mean(short)),
        float(np.mean(same)),
    )


def timed(router: Router, asked: Signatures) -> tuple[float, list[Route]]:
    """Return the median milliseconds of a route, and the routes."""
    times, routes = [], []
    for query in range(len(asked)):
        signature = asked.of(query)
        start = time.perf_counter()
        routes.append(router.route(signature))
        times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times)), routes


def made(
    kind: str, size: int, components: int, n_features: int
) -> tuple[LshRouter, ExactRouter, Signatures, float]:
    """Return tables that are used however few queries there are, the exact scan, new queries, and seconds of building."""
    signatures, clusters = draw(kind, size, components, n_features, seed=2)
    asked, _ = draw(kind, HELD, components, n_features, seed=1)
    start = time.perf_counter()
    planes = draw_planes(n_features, TABLES, automatic_planes(size), seed=3)
    tables = HyperplaneTables.build(signatures, planes)
    building = time.perf_counter() - start
    exemplars = tuple(int(np.argmax(clusters == cluster)) for cluster in np.unique(clusters))
    lsh = LshRouter(signatures, clusters, tables, exact_below=0, exemplars=exemplars)
    return lsh, ExactRouter(signatures, clusters), asked, building


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", default="1000,3000,6000,10000,100000,1000000")
    parser.add_argument("--features", type=int, default=46)
    parser.add_argument("--components", type=int, default=5)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--meet", default="10,46,136,700")
    options = parser.parse_args()
    sizes = [int(size) for size in options.queries.split(",")]
    rows: list[tuple[str | int | float, ...]] = []
    wanted: list[tuple[bool, str]] = []

    for kind in options.kinds.split(","):
        fastest: dict[int, float] = {}
        for size in sizes:
            lsh, exact, asked, building = made(kind, size, options.components, options.features)
            ours, scan, recall, short, agreement = compare(lsh, exact, asked)
            fastest[size] = ours
            rows.append(
                (
                    kind,
                    size,
                    automatic_planes(size),
                    ours,
                    scan,
                    scan / ours,
                    recall,
                    short,
                    agreement,
                    building,
                )
            )
            name = f"{kind}, {size} queries"
            print(f"{name}: {ours:.3f} ms, exact {scan:.3f} ms", file=sys.stderr)
            if KINDS[kind] is not None:
                wanted.append((agreement >= LEAST_AGREEMENT, f"{name}: agreement {agreement:.3f}"))
            if size == 1_000_000:
                wanted.append((scan / ours >= LEAST_SPEED_UP, f"{name}: {scan / ours:.0f} times faster"))
                wanted.append((building <= MOST_BUILDING, f"{name}: built in {building:.0f} s"))
                growth = ours / fastest.get(1000, ours)
                wanted.append((growth <= MOST_GROWTH, f"{name}: {growth:.1f} times a thousand's time"))
    print_table(HEADER, rows)
    print()
    met: list[tuple[str | int | float, ...]] = []
    widths = [int(width) for width in options.meet.split(",") if width]
    for form, n_features in product(("eq5", "covariance"), widths):
        size = exact_below(options.components, n_features, form)
        lsh, exact, asked, _ = made("spread", size, options.components, n_features)
        ours = timed(replace(lsh, similarity=form), asked)[0]
        scan = timed(replace(exact, similarity=form), asked)[0]
        met.append((form, n_features, size, ours, scan, scan / ours))
        apart = max(scan / ours, ours / scan)
        wanted.append(
            (apart <= MOST_APART, f"{form}, {n_features} features, {size} queries: {apart:.1f} times apart")
        )
    print_table(("form", "features", "exact scan below", "lsh ms", "exact ms", "times"), met)
    missed = [what for good, what in wanted if not good]
    for what in missed:
        print(f"MISSED {what}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
