"""How often hash tables answer with the cluster of the exact scan, on the official folds.

    LOCALRANK_DATA=… python -m benchmarks.votes [--sets OHSUMED MQ2008] [--clusters 5]

*Votes alone* is Figure 3 of the LocalRank paper to the letter (`[routing] rerank = 0`): the query with most votes answers. *Compared* is what
training ships: the candidates with most votes are compared exactly, and an exemplar of every cluster with them. Tables are
looked up however few training queries there are; test queries of all folds are counted together, once for each of three
seeds of the planes. Both are given with the planes and tables that training ships, and with those of the other columns.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from benchmarks.folds import folds
from localrank.commands.output import print_table
from localrank.routing.routers import LshRouter
from localrank_training.data.clouds import Clouds
from localrank_training.run.pipeline import learn_contract, plan_of
from localrank_training.settings.config import TrainingConfig

SEEDS = range(3)
#: Tables per component, and hyperplanes per table.
TABLES = ((16, "auto"), (16, 4), (16, 8), (64, 8))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=["OHSUMED", "MQ2008"])
    parser.add_argument("--clusters", type=int, default=5)
    options = parser.parse_args()
    rows: list[list[object]] = []
    for name in options.sets:
        for tables, planes in TABLES:
            asked, by_votes, compared = agreement(name, options.clusters, tables, planes)
            rows.append([name, tables, planes, asked, f"{by_votes / asked:.1%}", f"{compared / asked:.1%}"])
    print_table(["set", "tables", "planes", "routed", "votes alone", "compared"], rows)
    return 0


def agreement(name: str, clusters: int, tables: int, planes: int | str) -> tuple[int, int, int]:
    """Return how many queries were routed, and in how many each way gave the cluster of the exact scan."""
    counts = [0, 0, 0]
    for seed in SEEDS:
        config = TrainingConfig.from_tables(
            {
                "seed": seed,
                "clustering": {"clusters": clusters},
                "routing": {"tables": tables, "planes": planes, "exact_below": 0},
            }
        )
        for train, _, test in folds(name):
            clouds = Clouds(train, learn_contract(train, config))
            plan = plan_of(clouds, config)
            router = plan.router
            assert isinstance(router, LshRouter)
            exact = router.knowing(router.points, router.clusters)
            votes = replace(router, rerank=0)
            for cloud in Clouds(test, clouds.contract):
                point = plan.representation.of(cloud)
                if point.known:
                    expected = exact.route(point).cluster
                    counts[0] += 1
                    counts[1] += votes.route(point).cluster == expected
                    counts[2] += router.route(point).cluster == expected
    return counts[0], counts[1], counts[2]


if __name__ == "__main__":
    sys.exit(main())
