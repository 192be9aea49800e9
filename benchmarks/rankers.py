"""Every ranker as one global model on the official folds, beside the figures published for the same methods.

    LOCALRANK_DATA=… python -m benchmarks.rankers [--sets OHSUMED MQ2008] [--rankers svmmap mhr …] [--workers N]

Settings are chosen by MAP on each fold's validation queries, which also stop boosting; the test queries are ranked
once. The official columns are means of the five folds' means, as the official scripts print them; the standard ones
are means over all queries. Intervals are Student's over queries, 95 %.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.folds import CONVENTIONS, as_published, folds
from localrank.metrics import Judgements, Measured
from localrank_training.evaluation.comparisons import interval_of
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.lesson import Lesson
from localrank_training.parallel.processes import available_cores, in_parallel

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet

METRICS = ("map", "ndcg@1", "ndcg@5", "ndcg@10")


@dataclass(frozen=True)
class Entry:
    """A row of the table: a learner and the settings to choose from."""

    name: str
    method: str
    choices: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def settings(self) -> list[dict[str, Any]]:
        return [dict(zip(self.choices, values, strict=True)) for values in product(*self.choices.values())]


_C = (0.1, 1.0, 10.0, 100.0, 1000.0)
_T = (0.3, 0.5, 0.7, 0.9)
ENTRIES = (
    Entry("best feature", "best_feature", {"metric": ("map",)}),
    Entry("ranksvm", "ranksvm", {"C": _C}),
    Entry("svmmap", "svmmap", {"C": (0.1, 1.0, 10.0, 100.0)}),
    Entry("linear", "linear", {"ridge": (0.01, 0.1, 0.3, 1.0, 3.0)}),
    Entry("linear, one intercept", "linear", {"centre": ("all",), "ridge": (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)}),
    Entry("rankboost", "rankboost", {"rounds": (300,), "balance": (0.0, 0.5, 1.0)}),
    Entry("mhr, Borda", "mhr", {"C": _C}),
    Entry("mhr, weighted Borda", "mhr", {"C": _C, "aggregate": ("weighted_borda",), "metric": ("map",)}),
    Entry("mhr, median", "mhr", {"C": _C, "aggregate": ("median",)}),
    Entry("mhr, Markov chain", "mhr", {"C": _C, "aggregate": ("markov",)}),
    Entry("mhr, scores", "mhr", {"C": _C, "aggregate": ("scores",)}),
    Entry("mhr, adjacent pairs", "mhr", {"C": _C, "base": ("adjacent",)}),
    Entry("mhr, overlapping", "mhr", {"C": _C, "base": ("overlapping",)}),
    Entry("mhr, sampled queries", "mhr", {"C": _C, "base": ("sampled",)}),
    Entry("gbrt", "gbrt", {"num_leaves": (3, 7, 15)}),
    Entry("lambdamart", "lambdamart", {"num_leaves": (3, 7, 15)}),
    Entry("extra_trees", "extra_trees", {"min_samples_leaf": (3, 10, 30)}),
    Entry("random_forest", "random_forest", {"min_samples_leaf": (10, 30, 100)}),
    Entry("gmml", "gmml", {"t": _T}),
    Entry("lgmml, uniform", "lgmml", {"weights": ("uniform",), "t": _T}),
    Entry("lgmml, mean", "lgmml", {"weights": ("mean",), "t": _T}),
    Entry("lgmml, similarity", "lgmml", {"weights": ("similarity",), "t": _T}),
    Entry("lgmml, one query per set", "lgmml", {"queries_per_set": (1,), "t": _T}),
    Entry("rmlr", "rmlr", {"C": (10.0, 100.0, 1000.0)}),
)


@dataclass(frozen=True)
class Published:
    """A published row: MAP, NDCG@1, @5, @10 of the official script, where it could be checked."""

    method: str
    source: str
    figures: tuple[float | None, ...]


#: Only what was found verbatim in a public source; figures that are merely remembered are left out.
PUBLISHED = {
    "OHSUMED": (
        Published("RankSVM", "LETOR 3.0 baselines", (0.4334, 0.4958, 0.4164, 0.4140)),
        Published("RankBoost", "LETOR 3.0 baselines", (0.4411, 0.4632, 0.4494, 0.4302)),
        Published("ListNet", "LETOR 3.0 baselines", (0.4457, 0.5326, 0.4432, 0.4410)),
        Published("AdaRank-MAP", "LETOR 3.0 baselines", (0.4487, 0.5388, 0.4613, 0.4429)),
        Published("RankSVM, Nyström RBF", "rank-kernel-appr", (0.4473, 0.5730, 0.4780, 0.4505)),
    ),
    "MQ2008": (Published("MDPRank", "as quoted with its code", (None, 0.3827, 0.4881, 0.2327)),),
}


@dataclass(frozen=True, eq=False)
class Fitted:
    """One ranker on one fold: the test scores, what was chosen, and the seconds that it all took."""

    scores: Vector
    chosen: dict[str, Any]
    seconds: float


def scores_of(scorer: Scorer, queries: QuerySet) -> Vector:
    return np.concatenate([scorer.score(cloud) for cloud in as_published(queries)])


def fit_fold(entry: Entry, train: QuerySet, validation: QuerySet, test: QuerySet) -> Fitted:
    """Choose on the validation queries and score the test queries."""
    started = time.process_time()
    judgements = Judgements(validation.labels, validation.offsets)
    best = -np.inf
    for settings in entry.settings():
        # These sets are published normalised; there is nothing to view.
        scorer = make(entry.method, settings).fit(Lesson(train, validation=validation))
        value = judgements.measure(scores_of(scorer, validation), ["map"])[0].mean
        if value > best:
            best, winner, chosen = value, scorer, settings
    return Fitted(scores_of(winner, test), chosen, time.process_time() - started)


def by_fold_mean(by_fold: list[Measured]) -> Vector:
    """Per query values whose mean over all queries is the mean of the folds' means."""
    n_queries = sum(len(one.per_query) for one in by_fold)
    return np.concatenate([one.per_query * n_queries / len(by_fold) / len(one.per_query) for one in by_fold])


def cells(tests: list[QuerySet], fitted: list[Fitted], convention: str) -> list[str]:
    """Return mean and interval of each metric."""
    measured = [
        Judgements(test.labels, test.offsets, convention).measure(one.scores, METRICS)
        for test, one in zip(tests, fitted, strict=True)
    ]
    found = []
    for by_fold in zip(*measured, strict=True):
        official = by_fold[0].convention.official
        values = (
            by_fold_mean(list(by_fold)) if official else np.concatenate([one.per_query for one in by_fold])
        )
        interval = interval_of(values)
        spread = "" if interval is None else f" [{interval.low:.3f}, {interval.high:.3f}]"
        found.append(f"{values.mean():.4f}{spread}")
    return found


def tables(name: str, entries: list[Entry], workers: int) -> list[str]:
    """Return the lines of one set's tables."""
    parts = list(folds(name))
    tests = [test for _, _, test in parts]
    pieces = [(entry, *part) for entry in entries for part in parts]
    every = in_parallel(fit_fold, pieces, workers=workers)
    fitted = {entry.name: every[5 * i : 5 * i + 5] for i, entry in enumerate(entries)}
    header = "| | " + " | ".join(metric.upper() for metric in METRICS) + " |"
    rule = "|---|" + "---|" * len(METRICS)
    lines = [f"### {name}", ""]
    for convention in CONVENTIONS[name]:
        empty = sum(
            Judgements(test.labels, test.offsets, convention)
            .measure(np.zeros(test.n_docs), ["map"])[0]
            .n_empty
            for test in tests
        )
        over = "mean of the folds' means" if convention != "standard" else "mean over queries"
        lines += [
            f"{convention}, {over}, {sum(map(len, tests))} queries, {empty} of them empty:",
            "",
            header,
            rule,
        ]
        for entry in entries:
            lines.append(
                f"| {entry.name} | " + " | ".join(cells(tests, fitted[entry.name], convention)) + " |"
            )
        if convention != "standard":
            for row in PUBLISHED[name]:
                shown = " | ".join("" if figure is None else f"{figure:.4f}" for figure in row.figures)
                lines.append(f"| *{row.method}* ({row.source}) | {shown} |")
        lines.append("")
    lines += ["Chosen by fold, and processor seconds for all settings of all folds:", ""]
    for entry in entries:
        varied = [setting for setting, values in entry.choices.items() if len(values) > 1]
        chosen = "; ".join(
            f"{setting} " + ", ".join(f"{one.chosen[setting]:g}" for one in fitted[entry.name])
            for setting in varied
        )
        seconds = sum(one.seconds for one in fitted[entry.name])
        lines.append(f"- {entry.name}: {chosen or 'defaults'}; {seconds:.0f} s")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(CONVENTIONS), choices=list(CONVENTIONS))
    parser.add_argument(
        "--rankers", nargs="+", default=list(LEARNERS), choices=list(LEARNERS), metavar="METHOD"
    )
    parser.add_argument("--workers", type=int, default=available_cores())
    arguments = parser.parse_args()
    covered = {entry.method for entry in ENTRIES}
    every = [*ENTRIES, *(Entry(method, method) for method in LEARNERS if method not in covered)]
    entries = [entry for entry in every if entry.method in arguments.rankers]
    for name in arguments.sets:
        for line in tables(name, entries, arguments.workers):
            print(line, flush=True)


if __name__ == "__main__":
    main()
