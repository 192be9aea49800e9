r"""Whether anything finds the most similar training query more often than the shipped tables do, at equal time.

    python -m benchmarks.recall [--queries 100000] [--kinds clustered,spread]

Sets are those of `benchmarks.routing`. Every row looks up candidates and compares ``rerank`` of them by eq. 5. ``recall`` is how often the most similar query is found, ``short by`` how much less similar the one
found is on average, ``cluster`` how often the cluster is that of the exact scan.

- *shipped*: 16 tables for each direction, planes by the number of queries, 64 entries of a bucket, 256 compared;
- *compare 2048*, *64 tables*: more of what there is;
- *multi-probe*: half the tables, and one neighbouring bucket each [lv2007];
- *learned planes*: normals drawn with the inverse of the directions' second moments, so that bits split evenly and are independent;
- *joint codes*: one table set over all directions at once. Bits are the sides of random products
  :math:`\sum_p (r \cdot u_p)(s \cdot u_p)`, which do not change with the sign of a direction;
- *best 256 by sketch*: the queries of largest inner product of sketches of 512 numbers, which estimate the sum of squared
  cosines, found by a scan. A graph index over such sketches finds these at best, and stores 2 KB of sketch for each query, beside 0.9 KB of signature.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.clustering import sketches
from benchmarks.routing import TABLES, draw
from localrank.commands.output import print_table
from localrank.points.signature import Signatures
from localrank.routing.search import HyperplaneTables, automatic_planes, draw_planes, search_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Indices, Matrix

COMPONENTS, FEATURES, ASKED, COMPARED, CAP, WIDTH = 5, 46, 100, 256, 64, 512


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--kinds", default="clustered,spread")
    options = parser.parse_args()
    rows = []
    for kind in options.kinds.split(","):
        known, clusters = draw(kind, options.queries, COMPONENTS, FEATURES, seed=2)
        asked, _ = draw(kind, ASKED, COMPONENTS, FEATURES, seed=1)
        search = search_of(known, clusters, "eq5")
        truth = [search.among_all(asked.of(query)) for query in range(ASKED)]
        for name, look_up in ways(known, asked):
            times, found = [], []
            for query in range(ASKED):
                started = time.perf_counter()
                which = look_up(query)
                found.append(search.among(asked.of(query), which) if len(which) else None)
                times.append(1e3 * (time.perf_counter() - started))
            short = [
                t.similarity - (0.0 if f is None else f.similarity) for f, t in zip(found, truth, strict=True)
            ]
            same = [f is not None and f.cluster == t.cluster for f, t in zip(found, truth, strict=True)]
            rows.append(
                (
                    kind,
                    name,
                    round(float(np.median(times)), 3),
                    round(float(np.mean(np.array(short) < 1e-6)), 2),
                    round(float(np.mean(short)), 4),
                    round(float(np.mean(same)), 2),
                )
            )
            print(*rows[-1], file=sys.stderr, flush=True)
    print_table(("set", "way", "ms", "recall", "short by", "cluster"), rows)
    return 0


def ways(known: Signatures, asked: Signatures) -> list[tuple[str, Callable[[int], Indices]]]:
    """Return every way: from the number of a new query to candidates, best first or in order."""
    h = automatic_planes(len(known))
    shipped = HyperplaneTables.build(known, draw_planes(FEATURES, TABLES, h, seed=3))
    many = HyperplaneTables.build(known, draw_planes(FEATURES, 4 * TABLES, h, seed=3))
    few = HyperplaneTables.build(known, draw_planes(FEATURES, TABLES // 2, h, seed=3))
    moments = np.einsum("npi,npj->ij", known.directions[:5000], known.directions[:5000]).astype(np.float64)
    values, vectors = np.linalg.eigh(moments)
    whiten = (vectors / np.sqrt(np.maximum(values, values[-1] * 1e-6))) @ vectors.T
    learned = HyperplaneTables.build(
        known, (draw_planes(FEATURES, TABLES, h, seed=3) @ whiten).astype(np.float32)
    )
    theirs, ours = centred(sketches(known, WIDTH), sketches(asked, WIDTH))
    joint = HyperplaneTables.build(
        as_signatures(theirs), draw_planes(theirs.shape[1], COMPONENTS * TABLES, h, seed=3)
    )
    new = as_signatures(ours)

    def of_tables(
        tables: HyperplaneTables, among: Signatures, compared: int = COMPARED, probes: int = 0
    ) -> Callable[[int], Indices]:
        def look_up(query: int) -> Indices:
            return tables.candidates(among.of(query), None, compared, cap=CAP, probes=probes)

        return look_up

    def by_sketch(query: int) -> Indices:
        near = theirs @ ours[query]
        return np.sort(np.argpartition(-near, COMPARED)[:COMPARED])

    return [
        ("shipped", of_tables(shipped, asked)),
        ("compare 2048", of_tables(shipped, asked, 2048)),
        ("64 tables", of_tables(many, asked)),
        ("64 tables, compare 2048", of_tables(many, asked, 2048)),
        ("multi-probe", of_tables(few, asked, probes=1)),
        ("learned planes", of_tables(learned, asked)),
        ("joint codes", of_tables(joint, new)),
        ("best 256 by sketch", by_sketch),
    ]


def centred(theirs: Matrix, ours: Matrix) -> tuple[Matrix, Matrix]:
    """Take the mean of the known ones off both, so that random planes part them."""
    mean = theirs.mean(axis=0)
    return theirs - mean, ours - mean


def as_signatures(vectors: Matrix) -> Signatures:
    """Return vectors as signatures of one direction."""
    return Signatures(
        np.ascontiguousarray(vectors[:, None], np.float32),
        np.ones((len(vectors), 1)),
        np.ones(len(vectors), np.int64),
    )


if __name__ == "__main__":
    sys.exit(main())
