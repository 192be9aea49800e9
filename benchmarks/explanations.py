"""What it costs to say which feature added what to each score, and how near trees' contributions are to Shapley values.

    python -m benchmarks.explanations [--documents 100,1000] [--features 136]

A linear model, a forest of 100 trees of 63 leaves, and a blend of both; one thread, turn by turn in
one process, processor time of the median turn. ``score`` is scoring alone, ``all`` the contributions to all documents,
``ten`` those to the first ten documents (`top_n`). For the forest LightGBM's ``predict`` and
``predict(pred_contrib=True)`` (path-dependent TreeSHAP) take turns too, on lists of at most 100 documents. The last columns compare the two kinds of
contributions, TreeSHAP's less their mean over the list: the correlation over all documents and features, and the share of
documents for which the same feature counts most.

The exit code is 1 if all contributions of a forest take more than `MOST` times scoring it, or agree less than `AGREEING`.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from localrank.commands.output import print_table
from localrank.features.contract import FeatureContract
from localrank.scorers import BlendScorer, LinearScorer
from localrank_training.learners.forests import from_lightgbm

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix, Vector
    from localrank.scorers import Scorer

#: Times scoring that contributions to all documents of a forest may take: half more than was measured.
MOST = 14.0
#: Least correlation with TreeSHAP.
AGREEING = 0.7
TURNS = 15
#: Longer lists take TreeSHAP seconds.
MOST_FOR_TREESHAP = 100


def medians(calls: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Return the median milliseconds of processor time of each call, which take turns."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns + 1):
        for name, call in calls.items():
            began = time.process_time_ns()
            call()
            taken[name].append((time.process_time_ns() - began) / 1e6)
    return {name: float(np.median(times[1:])) for name, times in taken.items()}


def calls_of(scorer: Scorer, documents: Matrix) -> dict[str, Callable[[], object]]:
    """Return scoring and explaining of one list; blocks are not part of either."""
    contract = FeatureContract.learn(documents, [len(documents)], normalise="none")
    everyone, first = np.arange(len(documents)), np.arange(min(10, len(documents)))

    def score() -> object:
        return scorer.score(contract.cloud(documents))

    ranked = contract.cloud(documents)
    for one in (scorer, *scorer.members()):
        ranked.scored(one)
    return {
        "score": score,
        "all": lambda: scorer.contributions(ranked, everyone),
        "ten": lambda: scorer.contributions(ranked, first),
    }


def agreement(ours: Vector, theirs: Vector) -> tuple[float, float]:
    """Return the correlation, and the share of documents for which both name the same feature as the largest."""
    theirs = theirs - theirs.mean(axis=0)
    same = np.abs(ours).argmax(axis=1) == np.abs(theirs).argmax(axis=1)
    return float(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]), float(same.mean())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", default="100,1000")
    parser.add_argument("--features", default="136")
    options = parser.parse_args()
    rows: list[tuple[object, ...]] = []
    good = True
    with threadpool_limits(1):
        for width in map(int, options.features.split(",")):
            rows_here, good_here = _measured(width, [int(count) for count in options.documents.split(",")])
            rows += rows_here
            good &= good_here
    print_table(
        (
            "scorer",
            "documents",
            "features",
            "score ms",
            "all ms",
            "ten ms",
            "LightGBM ms",
            "TreeSHAP ms",
            "r",
            "same first",
        ),
        rows,
    )
    return 0 if good else 1


def _measured(width: int, sizes: list[int]) -> tuple[list[tuple[object, ...]], bool]:
    import lightgbm

    random = np.random.default_rng(0)
    learned = random.standard_normal((4000, width)).astype(np.float32)
    gains = np.tanh(learned @ random.standard_normal(width) * 0.3) + np.sin(3 * learned[:, 0]) * learned[:, 1]
    settings = {"objective": "regression", "num_leaves": 63, "verbosity": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(learned, gains), 100)
    forest = from_lightgbm(booster.model_to_string())
    linear = LinearScorer(np.random.default_rng(0).standard_normal(width), "normalised")
    scorers: dict[str, Scorer] = {
        "linear": linear,
        "trees": forest,
        "blend": BlendScorer((linear, forest), np.ones(2)),
    }
    rows: list[tuple[object, ...]] = []
    good = True
    for size in sizes:
        documents = np.random.default_rng(size).standard_normal((size, width)).astype(np.float32)
        for name, scorer in scorers.items():
            times = medians(calls_of(scorer, documents), TURNS)
            row: tuple[object, ...] = (name, size, width, times["score"], times["all"], times["ten"])
            if name == "trees" and size <= MOST_FOR_TREESHAP:
                theirs = medians(
                    {
                        "predict": lambda documents=documents: booster.predict(documents, num_threads=1),  # type: ignore[misc]
                        "shap": lambda documents=documents: booster.predict(  # type: ignore[misc]
                            documents, pred_contrib=True, num_threads=1
                        ),
                    },
                    2,
                )
                shap = np.asarray(booster.predict(documents, pred_contrib=True, num_threads=1))
                cloud = FeatureContract.learn(documents, [size], normalise="none").cloud(documents)
                found = agreement(forest.contributions(cloud, np.arange(size)), shap[:, :-1])
                row += (theirs["predict"], theirs["shap"], *found)
                good &= times["all"] <= MOST * times["score"] and found[0] >= AGREEING
            else:
                row += (None, None, None, None)
            rows.append(row)
    return rows, good


if __name__ == "__main__":
    sys.exit(main())
