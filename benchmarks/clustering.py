"""How well clusterings that scale agree with complete link over all queries, and what a million signatures take.

    LOCALRANK_DATA=… python -m benchmarks.clustering [--sets OHSUMED MQ2008 clustered shared spread] [--queries 4000]
    python -m benchmarks.clustering --grow 100000,1000000 [--sample 5000]

The first form clusters where complete link over all queries runs, too. OHSUMED and MQ2008 are the training queries of the
first folds, and new queries are the fold's test queries; the other sets are those of `benchmarks.routing`. A quarter of the queries
is the sample. ``clusters`` is the adjusted Rand index of the clusters with those of all queries, ``routes`` the same of new
queries' clusters by their most similar training query, ``same`` the share of new queries whose cluster is the same after the
best renaming. Means over seeds. The rows are

- *all but 5 %*: complete link over 95 % of the queries, which the others join. No way to leave queries out can be
  expected to agree better;
- *join*: complete link of the sample, which the others join (`[clustering] beyond = "join"`);
- *farthest*: the same groups, linked by their farthest members (`beyond = "farthest"`);
- *towards samples*: the same, where farthest is the farthest from the other group's query of the sample: linear in the queries;
- *medoids*: complete link of the groups' medoids;
- *k-means of sketches*: k-means of random products of the directions, whose inner products estimate the sum of squared cosines.

The second form draws signatures, clusters and hashes them, and prints seconds (wall and processor) and the peak of resident
memory. The exit code is 1 if *farthest* agrees less than *join* over all sets, or if a million take more than 30 minutes or 8 GB.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from benchmarks.folds import folds
from benchmarks.routing import KINDS, TABLES, draw
from localrank.commands.output import print_table
from localrank.points.similarity import all_pairs
from localrank.routing.search import HyperplaneTables, automatic_planes, draw_planes
from localrank_training.data.clouds import Clouds
from localrank_training.grouping.clustering import cluster, linked, medoids, most_similar
from localrank_training.grouping.representations import make_representation
from localrank_training.run.pipeline import learn_contract
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.steps import ClusteringSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.points.signature import Signatures

COMPONENTS, FEATURES, NEW = 5, 46, 500
MOST_SECONDS, MOST_BYTES = 1800.0, 8e9
ROWS = ("all but 5 %", "join", "farthest", "towards samples", "medoids", "k-means of sketches")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=["OHSUMED", "MQ2008", "clustered", "shared", "spread"])
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--clusters", type=int, nargs="+", default=[3, 5, 20])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--grow", default="")
    parser.add_argument("--sample", type=int, default=5000)
    options = parser.parse_args()
    if options.grow:
        return grown([int(size) for size in options.grow.split(",")], options.sample)
    table, better = [], []
    for name in options.sets:
        found: dict[tuple[int, str], list[tuple[float, ...]]] = defaultdict(list)
        for known, new in parts(name, options.queries):
            for row in agreement(known, new, options.clusters, options.seeds):
                found[row[0], row[1]].append(row[2:])
        for clusters in options.clusters:
            for how in ROWS:
                means = np.mean(found[clusters, how], axis=0)
                table.append((name, clusters, how, *(f"{mean:.2f}" for mean in means)))
            join, farthest = (np.mean(found[clusters, how], axis=0)[0] for how in ("join", "farthest"))
            better.append(farthest - join)
    print_table(("set", "k", "how", "clusters", "routes", "same", "cpu s"), table)
    return int(np.mean(better) < 0)


def parts(name: str, size: int) -> Iterator[tuple[Signatures, Signatures]]:
    """Yield training queries and new ones, all known."""
    if name in KINDS:
        yield (
            draw(name, size, COMPONENTS, FEATURES, seed=2)[0],
            draw(name, NEW, COMPONENTS, FEATURES, seed=1)[0],
        )
        return
    config = TrainingConfig.from_tables({"representation": {"components": COMPONENTS}})
    for train, _, test in list(folds(name))[:2]:
        clouds = Clouds(train, learn_contract(train, config))
        representation = make_representation(clouds, config)
        both = (representation.of_all(clouds), representation.of_all(Clouds(test, clouds.contract)))
        known, new = (points.take(np.flatnonzero(points.known)) for points in both)
        yield known, new  # type: ignore[misc]


def agreement(
    known: Signatures, new: Signatures, wanted: list[int], seeds: int
) -> Iterator[tuple[int, str, float, float, float, float]]:
    """Yield clusters, how, agreement of clusters, of routes, share of the same routes, and processor seconds."""
    apart = np.maximum(1.0 - all_pairs(known, "eq5"), 0.0)
    near = most_similar(new, known, "eq5")
    for number in wanted:
        full = linked(apart, number)
        for seed in range(seeds):
            for how, found, seconds in candidates(known, apart, number, seed):
                yield (
                    number,
                    how,
                    adjusted_rand_score(full, found),
                    adjusted_rand_score(full[near], found[near]),
                    renamed(full[near], found[near]),
                    seconds,
                )


def candidates(
    known: Signatures, apart: Vector, wanted: int, seed: int
) -> Iterator[tuple[str, Indices, float]]:
    size = len(known) // 4
    for how, sample, beyond in (
        ("all but 5 %", len(known) * 95 // 100, "join"),
        ("join", size, "join"),
        ("farthest", size, "farthest"),
    ):
        settings = ClusteringSettings("complete_link", wanted, sample=sample, beyond=beyond)  # type: ignore[arg-type]
        started = time.process_time()
        found = cluster(known, settings, seed).labels
        yield how, found, time.process_time() - started
    chosen = np.sort(np.random.default_rng(seed).choice(len(known), size, replace=False))
    groups = (1.0 - apart[:, chosen]).argmax(axis=1)
    groups[chosen] = np.arange(size)
    started = time.process_time()
    far = np.zeros((size, size))
    np.maximum.at(far, groups, apart[:, chosen])
    far = np.maximum(far, far.T)
    np.fill_diagonal(far, 0.0)
    yield "towards samples", linked(far, wanted)[groups], time.process_time() - started
    started = time.process_time()
    middle = medoids(known, groups)
    yield "medoids", linked(apart[np.ix_(middle, middle)], wanted)[groups], time.process_time() - started
    started = time.process_time()
    found = MiniBatchKMeans(wanted, n_init=3, random_state=seed).fit(sketches(known)).labels_
    yield "k-means of sketches", found.astype(np.int64), time.process_time() - started


def sketches(signatures: Signatures, width: int = 512) -> Matrix:
    r"""Return ``[n, width]`` vectors whose inner products estimate :math:`\sum_p (u_p \cdot u'_p)^2`.

    Of each outer product :math:`u_p u_p^\top` that eq. 5 would need if it squared its cosines, ``width / P`` random
    products :math:`(r \cdot u_p)(s \cdot u_p)` are kept.
    """
    n_components, n_features = signatures.directions.shape[1:]
    random = np.random.default_rng(0)
    each = width // n_components
    left, right = random.standard_normal((2, n_components, each, n_features), np.float32)
    made = [
        (signatures.directions[:, p] @ left[p].T) * (signatures.directions[:, p] @ right[p].T)
        for p in range(n_components)
    ]
    return np.asarray(np.concatenate(made, axis=1) / each**0.5, np.float32)


def renamed(one: Indices, other: Indices) -> float:
    """Return the share of queries in the same cluster after the best renaming."""
    counts = contingency_matrix(one, other)
    return float(counts[linear_sum_assignment(-counts)].sum() / len(one))


def grown(sizes: list[int], sample: int) -> int:
    """Cluster and hash this many signatures; return 1 if a million take too long."""
    rows, failed = [], False
    for size in sizes:
        signatures, truth = draw("clustered", size, COMPONENTS, FEATURES, seed=2)
        wall, cpu = time.perf_counter(), time.process_time()
        found = cluster(signatures, ClusteringSettings("complete_link", 20, sample=sample), seed=0)
        clustered = time.process_time() - cpu
        planes = draw_planes(FEATURES, TABLES, automatic_planes(size), seed=3)
        HyperplaneTables.build(signatures, planes)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        agreed = adjusted_rand_score(truth, found.labels)
        rows.append(
            (size, round(clustered, 1), round(cpu - clustered, 1), round(wall), f"{peak / 1e9:.2f}", agreed)
        )
        failed |= size == 1_000_000 and (wall > MOST_SECONDS or peak > MOST_BYTES)
    print_table(
        ("signatures", "clustered, cpu s", "hashed, cpu s", "both, wall s", "peak GB", "agreement"), rows
    )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
