"""Where LocalRank beats its own global model, by how far apart the kinds of synthetic queries are.

    python -m benchmarks.synthetic

Prints NDCG@10 (standard-skip) of the routed model less that of its global scorer, on 200 queries other than the 200 it
learned from, mean of four seeds. Fails where far kinds gain no more than 0.10, or where nothing can be gained and
more than 0.01 is.
"""

from __future__ import annotations

import sys

import numpy as np

from localrank.metrics import measure
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig

FAR, NOTHING = 0.10, 0.01
RECIPES = {
    "separation 1": Recipe(),
    "separation 0.75": Recipe(separation=0.75),
    "separation 0.5": Recipe(separation=0.5),
    "separation 0.25": Recipe(separation=0.25),
    "separation 0": Recipe(separation=0.0),
    "one kind": Recipe(kinds=1),
    "clouds alike": Recipe(shapes=0.0),
}


def main() -> int:
    gains = {
        name: float(np.mean([gain(recipe, seed) for seed in range(4)])) for name, recipe in RECIPES.items()
    }
    for name, value in gains.items():
        print(f"{name:<16} {value:+.3f}")
    nothing = max(gains[name] for name in ("separation 0", "one kind", "clouds alike"))
    return int(gains["separation 1"] <= FAR or nothing > NOTHING)


def gain(recipe: Recipe, seed: int) -> float:
    """Return the routed model's mean NDCG@10 less its global scorer's."""
    lesson, _ = synthesize(200, recipe, seed=seed)
    held_out, _ = synthesize(200, recipe, seed=seed, sample=1)
    config = TrainingConfig.from_tables({"clustering": {"clusters": 4}})
    ranker = build(lesson, config, RankSvm()).ranker
    local = [ranker.rank(cloud).scores for cloud in held_out.clouds()]
    alone = [ranker.global_scorer.score(ranker.contract.cloud(cloud)) for cloud in held_out.clouds()]
    means = [
        measure(held_out.labels, np.concatenate(scores), held_out.offsets, ["ndcg@10"], "standard-skip")[
            0
        ].mean
        for scores in (local, alone)
    ]
    return means[0] - means[1]


if __name__ == "__main__":
    sys.exit(main())
