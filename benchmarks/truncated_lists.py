"""What a model is worth on the first few documents of each list, trained on full lists or on shorter ones as well.

    LOCALRANK_DATA=… python -m benchmarks.truncated_lists [--length 20]

On the official folds of OHSUMED and MQ2008. Each test query is cut to the documents in which one feature, chosen on the
training queries as the best ranker by itself, is largest: what an earlier stage would let through.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.folds import CONVENTIONS, folds
from localrank.metrics import Judgements, Measured, measure
from localrank_training.data.preparing import with_shorter_lists
from localrank_training.evaluation.comparisons import compare
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.evaluation.stability import flip_rates
from localrank_training.parallel.processes import available_cores
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet

METRIC = "ndcg@10"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, default=20)
    length = parser.parse_args().length
    print(
        f"{METRIC} (standard) on lists of at most {length}, difference with 95 % interval and sign-flip p\n"
    )
    print("| set | model | full lists | shorter lists as well | difference | flips by truncation |")
    print("|---|---|---|---|---|---|")
    for name in CONVENTIONS:
        compare_on(name, length)


def compare_on(name: str, length: int) -> None:
    """Print one set's rows."""
    measured: dict[tuple[str, str], list[Measured]] = {}
    flips: dict[str, list[float]] = {"full": [], "shorter": []}
    for lesson, validation, test in folds(name):
        best = best_feature(lesson)
        held_out = shortened(test, length, best)
        for kind, found in flips.items():
            lists = {"lengths": [length], "by": best} if kind == "shorter" else {}
            config = TrainingConfig.from_tables(
                {"clustering": {"candidates": [2, 3, 5]}, "lists": lists, "selection": {"refit": False}}
            )
            held = shortened(validation, length, best)
            trained = train(lesson, config, validation=held, workers=available_cores())
            ranked = rank_all(trained.built.ranker, held_out)
            for model, scores in (("local", ranked.scores), ("global", ranked.global_scores)):
                (figure,) = measure(held_out.labels, scores, held_out.offsets, [METRIC])
                measured.setdefault((model, kind), []).append(figure)
            found.append(flip_rates(trained.built.ranker, test)["first_20"])
    for model in ("local", "global"):
        full, shorter = (Measured.pooled(measured[model, kind]) for kind in ("full", "shorter"))
        gain = compare(shorter, full)
        moved = f"{np.mean(flips['full']):.3f} → {np.mean(flips['shorter']):.3f}" if model == "local" else ""
        print(
            f"| {name} | {model} | {full.mean:.4f} | {shorter.mean:.4f} | {gain.difference:+.4f} "
            f"{gain.interval_text}, p {gain.p:.3f} | {moved} |"
        )


def best_feature(queries: QuerySet) -> str:
    """Return the feature that ranks the training queries best by itself."""
    judged = Judgements(queries.labels, queries.offsets)
    values = [
        judged.per_query(queries.documents[:, feature], METRIC).mean()
        for feature in range(queries.n_features)
    ]
    return queries.feature_names[int(np.argmax(values))]


def shortened(queries: QuerySet, length: int, by: str) -> QuerySet:
    """Return every query, the longer ones cut."""
    lists, _ = with_shorter_lists(queries, [length], by=by)
    cut = {query_id: len(queries) + i for i, query_id in enumerate(lists.query_ids[len(queries) :])}
    return lists.select([cut.get(query_id, i) for i, query_id in enumerate(queries.query_ids)])


if __name__ == "__main__":
    main()
