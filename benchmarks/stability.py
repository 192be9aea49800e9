"""What makes a query keep its cluster, and what that costs in quality.

    LOCALRANK_DATA=… python -m benchmarks.stability [--sets OHSUMED MQ2008] [--clusters 5] [--learner linear]

Every combination of similarity, number of components, clustering and routing, normalisation: trained on each official
fold's training queries, flip rates and figures on its test queries (see `localrank_training.evaluation.stability`). Nothing is
chosen by these figures: settings of the learner are fixed, so that only what stands in the table differs. ``chance`` is
how often two training queries drawn at random are in different clusters: uneven clusters flip less of themselves.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.folds import folds
from localrank.metrics import Measured, measure
from localrank.points.signature import SIMILARITIES
from localrank_training.evaluation.comparisons import compare_family
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.evaluation.stability import flip_rates
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet

METRICS = ("map", "ndcg@10")
NORMALISATIONS = ("query_minmax", "query_zscore", "global_zscore")
#: By name on the command line; the first two are in the table of docs/understand/method.md.
ROUTERS = {
    "exact": {"method": "exact"},
    "medoid": {"method": "medoid"},
    "average": {"method": "exact", "member": "average"},
    "farthest": {"method": "exact", "member": "farthest"},
}
COMPONENTS = (1, 2, 3, 5, 8)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=["OHSUMED", "MQ2008"])
    parser.add_argument("--clusters", type=int, nargs="+", default=[5])
    parser.add_argument("--learner", default="linear")
    parser.add_argument("--similarities", nargs="+", default=SIMILARITIES, choices=SIMILARITIES)
    parser.add_argument("--components", type=int, nargs="+", default=COMPONENTS)
    parser.add_argument("--routers", nargs="+", default=["exact", "medoid"], choices=ROUTERS)
    parser.add_argument("--normalisations", nargs="+", default=NORMALISATIONS, choices=NORMALISATIONS)
    options = parser.parse_args()
    print(
        "set,clusters,normalise,similarity,P,router,drop,first 20,duplicate,jitter,chance,map,ndcg@10,"
        "map - global,p,ndcg@10 - global,p"
    )
    for name in options.sets:
        parts = list(folds(name))
        grid = itertools.product(
            options.clusters,
            options.normalisations,
            options.components,
            options.similarities,
            options.routers,
        )
        for clusters, normalise, components, similarity, router in grid:
            started = time.perf_counter()
            config = TrainingConfig.from_tables(
                {
                    "contract": {"normalise": normalise},
                    "representation": {"components": components},
                    "similarity": {"form": similarity},
                    "clustering": {"clusters": clusters},
                    "routing": ROUTERS[router],
                    "learner": {"method": options.learner},
                }
            )
            row = measured([(lesson, test) for lesson, _, test in parts], config)
            where = f"{name},{clusters},{normalise},{similarity},{components},{router}"
            print(where + "," + ",".join(f"{figure:.4f}" for figure in row), flush=True)
            print(f"{where}: {time.perf_counter() - started:.1f} s", file=sys.stderr)
    return 0


def measured(parts: list[tuple[QuerySet, QuerySet]], config: TrainingConfig) -> list[float]:
    """Return flip rates, the rate of two unrelated training queries, figures, and what they differ by."""
    learner = config.learner.candidates()[0]
    rates: list[Vector] = []
    chance: list[float] = []
    weights: list[int] = []
    local: list[list[Measured]] = []
    global_: list[list[Measured]] = []
    for lesson, test in parts:
        built = build(lesson, config, learner)
        rates.append(np.array(list(flip_rates(built.ranker, test).values())))
        weights.append(len(test))
        shares = np.bincount(built.clusters[built.clusters >= 0]) / np.count_nonzero(built.clusters >= 0)
        chance.append(float(1 - np.square(shares).sum()))
        ranked = rank_all(built.ranker, test)
        for scores, into in ((ranked.scores, local), (ranked.global_scores, global_)):
            into.append(list(measure(test.labels, scores, test.offsets, METRICS, "standard")))
    mine, base = (
        [Measured.pooled(of_one) for of_one in zip(*all_, strict=True)] for all_ in (local, global_)
    )
    differences = [(one.difference, one.p_holm) for one in compare_family(mine, base, seed=0)]
    return [
        *np.average(rates, axis=0, weights=weights).tolist(),
        float(np.mean(chance)),
        *(one.mean for one in mine),
        *(figure for pair in differences for figure in pair),
    ]


if __name__ == "__main__":
    sys.exit(main())
