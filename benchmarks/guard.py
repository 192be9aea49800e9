"""What a guard is worth on real data: the same local models with and without it, beside the global model.

    LOCALRANK_DATA=… python -m benchmarks.guard [--sets OHSUMED MQ2008] [--clusters 3 5] [--learner ranksvm]

On the official folds. Thresholds are chosen on each fold's validation queries; its test queries are ranked once as they
are, and once with a tenth of the documents of every query dropped at random, which the training did not see. Differences
to the models without a guard are paired over queries, with 95 % intervals and sign-flip p-values.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.folds import CONVENTIONS, folds
from localrank.metrics import Measured, measure
from localrank.ranker import Ranker
from localrank.routing.guard import GuardedRanker
from localrank_training.data.queries import QuerySet
from localrank_training.evaluation.comparisons import compare
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.parallel.processes import available_cores
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

METRIC = "ndcg@10"
#: Share of the documents of every query that is dropped.
DROPPED = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(CONVENTIONS), choices=list(CONVENTIONS))
    parser.add_argument("--clusters", nargs="+", type=int, default=[3, 5])
    parser.add_argument("--learner", default="ranksvm")
    parser.add_argument("--errors", type=float, nargs="+", default=[1.0, 3.0])
    arguments = parser.parse_args()
    print(f"{METRIC} (standard)\n")
    print("| set | documents | errors | local | global | guarded | guarded − local | sent down the chain |")
    print("|---|---|---|---|---|---|---|---|")
    for name in arguments.sets:
        for errors in arguments.errors:
            for line in rows(name, arguments.clusters, arguments.learner, errors):
                print(line, flush=True)


def rows(name: str, clusters: Sequence[int], learner: str, errors: float) -> list[str]:
    """Return one set's rows of the table."""
    config = TrainingConfig.from_tables(
        {
            "clustering": {"candidates": list(clusters)},
            "learner": {"method": learner},
            "selection": {"metric": METRIC, "refit": False},
            "guard": {"learn": True, "errors": errors},
        }
    )
    measured: dict[tuple[str, str], list[Measured]] = {}
    sent: dict[str, Counter[str]] = {"all": Counter(), "nine tenths": Counter()}
    for number, (lesson, validation, test) in enumerate(folds(name)):
        ranker = train(lesson, config, validation=validation, workers=available_cores()).built.ranker
        plain = Ranker(
            ranker.contract, ranker.representation, ranker.router, ranker.scorers, ranker.global_scorer
        )
        for documents, held_out in (("all", test), ("nine tenths", dropped(test, number))):
            without = rank_all(plain, held_out)
            guarded = rank_all(ranker, held_out)
            reasons = [route.fallback for route in guarded.routes if isinstance(ranker, GuardedRanker)]
            sent[documents].update(reason for reason in reasons if reason not in {None, "no_signature"})
            for model, scores in (
                ("local", without.scores),
                ("global", without.global_scores),
                ("guarded", guarded.scores),
            ):
                (figure,) = measure(held_out.labels, scores, held_out.offsets, [METRIC])
                measured.setdefault((documents, model), []).append(figure)
    lines = []
    for documents, reasons_of in sent.items():
        local, alone, guarded_ = (
            Measured.pooled(measured[documents, model]) for model in ("local", "global", "guarded")
        )
        gain = compare(guarded_, local)
        count = ", ".join(f"{reason} {number}" for reason, number in sorted(reasons_of.items())) or "none"
        lines.append(
            f"| {name} | {documents} | {errors:g} | {local.mean:.4f} | {alone.mean:.4f} | {guarded_.mean:.4f} | "
            f"{gain.difference:+.4f} {gain.interval_text}, p {gain.p:.3f} | {count} of {len(local.per_query)} |"
        )
    return lines


def dropped(queries: QuerySet, seed: int) -> QuerySet:
    """Return the queries without a tenth of the documents of each, drawn at random; at least one stays."""
    rng = np.random.default_rng(seed)
    kept: list[np.ndarray] = []
    for query in range(len(queries)):
        span = queries.span(query)
        places = np.arange(span.start, span.stop)
        count = max(1, len(places) - round(DROPPED * len(places)))
        kept.append(np.sort(rng.permutation(places)[:count]))
    rows_kept = np.concatenate(kept)
    return QuerySet(
        documents=queries.documents[rows_kept],
        labels=queries.labels[rows_kept],
        offsets=np.concatenate([[0], np.cumsum([len(one) for one in kept])]),
        query_ids=queries.query_ids,
        feature_names=queries.feature_names,
        lines=queries.lines[rows_kept],
    )


if __name__ == "__main__":
    main()
