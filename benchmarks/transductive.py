"""Models that are learned when the query is known, beside one global model, on the official folds.

    LOCALRANK_DATA=… python -m benchmarks.transductive [--sets OHSUMED] [--folds 5] [--learner ranksvm] [--components 5]

Duh and Kirchhoff's transductive ranking with linear, polynomial and RBF kernel PCA, with the components alone and beside the
features, and Geng's KNN online by eq. 5. Settings are fixed, so nothing is chosen by these figures; test queries of the folds
are pooled. ``ms`` is wall time per query, nearly all of it learning.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.folds import CONVENTIONS, folds
from localrank.commands.output import print_table
from localrank.metrics import measure
from localrank_papers.transductive import (
    KernelFeatures,
    Neighbours,
    rank_by_neighbours,
    rank_transductively,
)
from localrank_training.data.clouds import Clouds
from localrank_training.grouping.representations import make_representation
from localrank_training.learners.catalogue import make
from localrank_training.learners.seen import scores_of
from localrank_training.run.pipeline import learn_contract, lesson_of
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet

METRICS = ("map", "ndcg@10")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=["OHSUMED"])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--learner", default="ranksvm")
    parser.add_argument("--components", type=int, default=5)
    parser.add_argument("--neighbours", type=int, default=20)
    options = parser.parse_args()
    for name in options.sets:
        convention = CONVENTIONS[name][0]
        scored: dict[str, list[Vector]] = {}
        seconds: dict[str, float] = {}
        held_out: list[QuerySet] = []
        for train, _, test in list(folds(name))[: options.folds]:
            held_out.append(test)
            for way, (scores, taken) in ways(train, test, options).items():
                scored.setdefault(way, []).append(scores)
                seconds[way] = seconds.get(way, 0.0) + taken
        labels = np.concatenate([one.labels for one in held_out])
        lengths = np.concatenate([one.lengths for one in held_out])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        print(f"{name}, {convention}, {len(lengths)} queries, {options.learner}")
        print_table(
            ["", *METRICS, "ms"],
            [
                [
                    way,
                    *(
                        one.mean
                        for one in measure(labels, np.concatenate(parts), offsets, METRICS, convention)
                    ),
                    f"{1e3 * seconds[way] / len(lengths):.0f}",
                ]
                for way, parts in scored.items()
            ],
        )
    return 0


def ways(train: QuerySet, test: QuerySet, options: argparse.Namespace) -> dict[str, tuple[Vector, float]]:
    """Return the scores of a fold's test queries by every way, and the seconds that these took."""
    learner = make(options.learner, {})
    config = TrainingConfig.from_tables({"contract": {"normalise": "query_minmax"}})
    clouds = Clouds(train, learn_contract(train, config))
    held = Clouds(test, clouds.contract)
    lesson, asked = lesson_of(clouds, None, None, learner), lesson_of(held, None, None, learner)
    found = {}
    with threadpool_limits(1):
        started = time.perf_counter()
        found["global"] = scores_of(learner.fit(lesson), asked), time.perf_counter() - started
        for kernel in ("linear", "poly", "rbf"):
            for keep in (False, True):
                features = KernelFeatures(kernel, options.components, keep=keep)
                started = time.perf_counter()
                scores = rank_transductively(lesson, asked.queries, learner, features)
                way = f"{kernel}, beside the features" if keep else f"{kernel}, components alone"
                found[way] = scores, time.perf_counter() - started
        representation = make_representation(clouds, config)
        near = Neighbours(
            representation.of_all(clouds), representation.of_all(held), options.neighbours, "eq5"
        )
        started = time.perf_counter()
        scores = rank_by_neighbours(lesson, asked.queries, learner, near)
        found[f"KNN online, K = {options.neighbours}"] = scores, time.perf_counter() - started
    return found


if __name__ == "__main__":
    sys.exit(main())
