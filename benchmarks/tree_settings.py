"""Where the defaults of the tree learners come from, and what they give on the official folds.

    LOCALRANK_DATA=… python -m benchmarks.tree_settings --learner lambdamart           the candidates (long)
    LOCALRANK_DATA=… python -m benchmarks.tree_settings --learner lambdamart --test    the defaults, on test queries

A candidate is one change to the defaults, learned on the five folds of OHSUMED and MQ2008. Boosting stops on one half of
a fold's validation queries and is measured on the other, then the other way round: measured where it stopped, the
setting with the most noise would win. The test queries are ranked with the defaults only; exit code 1 if MAP or NDCG@10
falls below `FLOORS` by more than `SLACK`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.folds import folds
from localrank.metrics import Judgements
from localrank.scorers import TreesScorer
from localrank_training.learners.boosting import Gbrt, LambdaMart
from localrank_training.learners.forests import ExtraTrees, Forest, RandomForest
from localrank_training.learners.lesson import Lesson

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet

METRICS = ("map", "ndcg@1", "ndcg@5", "ndcg@10")
SETS = ("MQ2008", "OHSUMED")
#: MAP and NDCG@10 (`standard`, mean over queries) that plain scripts reached on the test queries: LightGBM's
#: lambdarank with 7 leaves, five seeds averaged; extremely randomised trees, 500, on 2^label - 1.
FLOORS = {
    ("lambdamart", "MQ2008"): (0.4789, 0.5063),
    ("lambdamart", "OHSUMED"): (0.4405, 0.4428),
    ("extra_trees", "MQ2008"): (0.4712, 0.4964),
}
#: What another draw of seeds may take away.
SLACK = 0.003

CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "lambdamart": [
        {}, {"num_leaves": 4}, {"num_leaves": 15}, {"learning_rate": 0.1}, {"min_data_in_leaf": 50},
        {"feature_fraction": 1.0}, {"feature_fraction": 0.3}, {"bagging_fraction": 1.0}, {"bagging_fraction": 0.7},
        {"lambdarank_truncation_level": 10}, {"lambdarank_truncation_level": 100},
        {"metric": "map", "eval_at": 1000}, {"members": 1},
    ],
    "gbrt": [
        {}, {"gain": "exponential"}, {"num_leaves": 4}, {"num_leaves": 15}, {"learning_rate": 0.1},
        {"min_data_in_leaf": 50}, {"feature_fraction": 1.0}, {"bagging_fraction": 1.0}, {"members": 1},
    ],
    "extra_trees": [
        {}, {"trees": 100}, {"min_samples_leaf": 2}, {"min_samples_leaf": 5}, {"min_samples_leaf": 20},
        {"max_features": 0.3}, {"max_features": 1.0}, {"bootstrap": True}, {"gain": "label"},
    ],
    "random_forest": [
        {}, {"min_samples_leaf": 3}, {"min_samples_leaf": 10}, {"min_samples_leaf": 100},
        {"max_features": 0.33}, {"max_samples": 3000}, {"gain": "label"},
    ],
}  # fmt: skip
DEFAULTS: dict[str, Gbrt | LambdaMart | Forest] = {
    learner.method: learner for learner in (LambdaMart(), Gbrt(), ExtraTrees(), RandomForest())
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learner", choices=list(DEFAULTS), default="lambdamart")
    parser.add_argument("--test", action="store_true", help="the defaults on the test queries")
    arguments = parser.parse_args()
    if arguments.test:
        return _test(arguments.learner)
    for change in CANDIDATES[arguments.learner]:
        learner = replace(DEFAULTS[arguments.learner], **change)
        figures = {name: _validated(learner, name) for name in SETS}
        cells = [f"{name} MAP {row[0]:.4f} NDCG@10 {row[-1]:.4f}" for name, row in figures.items()]
        print(f"{change or 'defaults'!s:45} {'  '.join(cells)}", flush=True)
    return 0


def _validated(learner: Gbrt | LambdaMart | Forest, name: str) -> np.ndarray:
    """Return the means over all validation queries, each measured by a model that did not stop on it."""
    rows = []
    for fold, (lesson, validation, _) in enumerate(folds(name)):
        order = np.random.default_rng(fold).permutation(len(validation))
        halves = [validation.select(half) for half in np.array_split(order, 2)]
        for stop, measured in (halves, halves[::-1]):
            scorer = learner.fit(Lesson(lesson, validation=stop))
            assert isinstance(scorer, TreesScorer)
            scores = scorer.score_rows(measured.documents)
            rows.append(_per_query(measured, scores))
    means: np.ndarray = np.concatenate(rows, axis=1).mean(axis=1)
    return means


def _test(method: str) -> int:
    failed = False
    for name in SETS:
        rows = []
        for lesson, validation, test in folds(name):
            scorer = DEFAULTS[method].fit(Lesson(lesson, validation=validation))
            assert isinstance(scorer, TreesScorer)
            rows.append(_per_query(test, scorer.score_rows(test.documents)))
        means = np.concatenate(rows, axis=1).mean(axis=1)
        print(f"| {name} | {method} | {' | '.join(f'{mean:.4f}' for mean in means)} |", flush=True)
        floor = FLOORS.get((method, name), (0.0, 0.0))
        failed |= means[0] < floor[0] - SLACK or means[-1] < floor[1] - SLACK
    return int(failed)


def _per_query(queries: QuerySet, scores: np.ndarray) -> np.ndarray:
    """``[n_metrics, n_queries]``."""
    judgements = Judgements(queries.labels, queries.offsets, "standard")
    return np.array([judgements.per_query(scores, metric) for metric in METRICS])


if __name__ == "__main__":
    sys.exit(main())
