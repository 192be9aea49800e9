"""LocalRank against its own global model on the official folds, with random clusters as control.

    LOCALRANK_DATA=… python -m benchmarks.local_against_global [--sets OHSUMED MQ2008] [--clusters 2 3 5 8]

Settings are chosen on each fold's validation queries, the test queries are ranked once. The control has as many
clusters of the same queries, drawn at random and routed by the same router over them: what it loses is the price of
learning from fewer queries, and what the clusters win over it is what their similarity is worth. Differences are
paired over queries, with 95 % intervals, sign-flip p-values and Holm's correction over the table.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.folds import CONVENTIONS, folds
from localrank.metrics import Measured, measure
from localrank_training.evaluation.comparisons import compare_family
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.parallel.processes import available_cores
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank.arrays import Vector

METRICS = ("map", "ndcg@1", "ndcg@5", "ndcg@10")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(CONVENTIONS), choices=list(CONVENTIONS))
    parser.add_argument("--clusters", nargs="+", type=int, default=[2, 3, 5, 8])
    parser.add_argument("--learner", default="ranksvm")
    arguments = parser.parse_args()
    for name in arguments.sets:
        for line in table(name, arguments.clusters, arguments.learner):
            print(line)


def table(name: str, clusters: list[int], learner: str) -> list[str]:
    """Return the lines of one set's table."""
    started = time.perf_counter()
    local = TrainingConfig.from_tables(
        {
            "clustering": {"candidates": clusters},
            "learner": {"method": learner},
            "selection": {"metric": "map", "refit": False},
        }
    )
    rivals = {
        "localrank": local,
        "random clusters": local.replace(clustering=replace(local.clustering, method="random")),
    }
    scores: dict[str, list[Vector]] = {"global": [], **{rival: [] for rival in rivals}}
    chosen: dict[str, list[int]] = {rival: [] for rival in rivals}
    tests = []
    for lesson, validation, test in folds(name):
        tests.append(test)
        for rival, config in rivals.items():
            trained = train(lesson, config, validation=validation, workers=available_cores())
            ranked = rank_all(trained.built.ranker, test)
            chosen[rival].append(trained.config.clustering.sizes[0])
            scores[rival].append(ranked.scores)
            if rival == "localrank":
                scores["global"].append(ranked.global_scores)

    def measured(rival: str, convention: str) -> list[Measured]:
        by_fold = [
            measure(test.labels, found, test.offsets, METRICS, convention)
            for test, found in zip(tests, scores[rival], strict=True)
        ]
        return [Measured.pooled(folds_of_one) for folds_of_one in zip(*by_fold, strict=True)]

    lines = [f"\n### {name}", ""]
    for convention in CONVENTIONS[name]:
        baseline = measured("global", convention)
        lines += [
            f"{baseline[0].basis}, mean over the queries of the five folds.",
            "",
            "| | " + " | ".join(METRICS) + " |",
            "|---|" + "---|" * len(METRICS),
            "| global | " + " | ".join(f"{m.mean:.4f}" for m in baseline) + " |",
        ]
        for rival in rivals:
            candidate = measured(rival, convention)
            lines.append(f"| {rival} | " + " | ".join(f"{m.mean:.4f}" for m in candidate) + " |")
            lines.append(
                "| − global | "
                + " | ".join(
                    f"{c.difference:+.4f} {c.interval_text}, p {c.p:.3f} (Holm {c.p_holm:.3f})"
                    for c in compare_family(candidate, baseline)
                )
                + " |"
            )
        lines.append("")
    lines.append(
        "clusters chosen on validation queries, by fold: "
        + "; ".join(f"{rival} {', '.join(map(str, numbers))}" for rival, numbers in chosen.items())
        + f". {time.perf_counter() - started:.0f} s."
    )
    return lines


if __name__ == "__main__":
    main()
