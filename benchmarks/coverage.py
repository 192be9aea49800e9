"""How often 95 % intervals of a mean difference hold the truth, on real differences between real rankers.

    LOCALRANK_DATA=… python -m benchmarks.coverage [--draws 400] [--out benchmarks/results/coverage.json]

Rankers of several families score every query of a set without having learned from it (cross-validation over the
partitions S1 to S4, or over four of five parts of a sample: nothing here reads a test fold that `benchmarks.quality`
opens). Two questions are asked of each kind of interval:

- `queries`: a pair's differences are taken as the whole population, n queries are drawn from it again and again, and
  each draw's interval holds the population's mean or not. `one-sided` is the same for the lower 95 % bound, which
  non-inferiority rests on. `sparse` populations are those of pairs that differ on every tenth query only, as a model
  and its cautious correction do.
- `procedures`: n queries are drawn to be the whole data set, two learners are cross-validated on them, and the truth is
  how far they differ on all other queries, on average over the draws: it holds what training sets contribute.

`kept` is the share of draws that get an interval at all. Coverage is given as the mean over pairs, and as the tenth
percentile over pairs.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from benchmarks import results
from benchmarks.folds import as_published, data_dir
from localrank.metrics import Judgements
from localrank_training.data.reading import read
from localrank_training.evaluation.comparisons import ENOUGH
from localrank_training.learners.catalogue import make
from localrank_training.learners.lesson import Lesson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from localrank.arrays import Bits, Indices, Vector
    from localrank_training.data.queries import QuerySet

METRICS = ("map", "ndcg@10")
SIZES = (12, 21, 60, 150, 500)
#: Rankers whose differences are the populations: near relatives, and families that have little in common.
RANKERS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "ranksvm, C 1": ("ranksvm", {"C": 1.0}),
    "ranksvm, C 10": ("ranksvm", {"C": 10.0}),
    "linear": ("linear", {}),
    "lambdamart": ("lambdamart", {"num_iterations": 60, "members": 1}),
    "extra_trees": ("extra_trees", {"trees": 40}),
}
SETS = ("OHSUMED", "MQ2008", "answer-selection", "MSLR-sample", "lightgbm-example")
_RESAMPLES = 400
_TIE = 1e-12

#: ``[n_draws, n]`` differences to the low and the high ends; NaN if there is no interval.
Ends: TypeAlias = "tuple[Vector, Vector]"


@dataclass(frozen=True)
class Population:
    """Differences of two rankers on every query of a set."""

    data: str
    pair: str
    metric: str
    differences: Vector


# ------------------------------------------------------------------------------------------------ intervals


def student(draws: Vector, level: float = 0.95) -> Ends:
    """Student's interval with n - 1 degrees of freedom."""
    n = draws.shape[1]
    half = stdtrit(n - 1, (1 + level) / 2) * draws.std(axis=1, ddof=1) / n**0.5
    return draws.mean(axis=1) - half, draws.mean(axis=1) + half


def ours(draws: Vector, level: float = 0.95) -> Ends:
    """`localrank_training.evaluation.comparisons.interval_of`, for all draws at once."""
    changed = np.count_nonzero(np.abs(draws) > _TIE, axis=1)
    quantile = stdtrit(np.maximum(changed - 1, 1), (1 + level) / 2)
    half = np.where(changed >= ENOUGH, quantile * draws.std(axis=1, ddof=1) / draws.shape[1] ** 0.5, np.nan)
    return draws.mean(axis=1) - half, draws.mean(axis=1) + half


def percentile(draws: Vector, level: float = 0.95) -> Ends:
    low, high = np.quantile(_resampled(draws)[0], [(1 - level) / 2, (1 + level) / 2], axis=1)
    return low, high


def bca(draws: Vector, level: float = 0.95) -> Ends:
    """Bias-corrected and accelerated bootstrap."""
    means, _ = _resampled(draws)
    observed = draws.mean(axis=1, keepdims=True)
    below = ((means < observed).mean(axis=1) + (means <= observed).mean(axis=1)) / 2
    bias = ndtri(np.clip(below, 0.5 / _RESAMPLES, 1 - 0.5 / _RESAMPLES))
    centred = draws - observed
    cubed = 6 * (centred**2).sum(axis=1) ** 1.5
    acceleration = np.divide((centred**3).sum(axis=1), cubed, out=np.zeros(len(draws)), where=cubed > 0)
    ends = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        shifted = bias + ndtri(share)
        taken = ndtr(bias + shifted / (1 - acceleration * shifted))
        ends.append(np.array([np.quantile(row, at) for row, at in zip(means, taken, strict=True)]))
    return ends[0], ends[1]


def studentised(draws: Vector, level: float = 0.95) -> Ends:
    """Bootstrap-t; resamples that hardly vary count with a tenth of the draw's spread."""
    means, spreads = _resampled(draws)
    mean, spread = draws.mean(axis=1), draws.std(axis=1, ddof=1)
    floor = np.maximum(spreads, 0.1 * spread[:, None] + _TIE)
    low, high = np.quantile((means - mean[:, None]) / floor, [(1 - level) / 2, (1 + level) / 2], axis=1)
    return mean - high * spread, mean - low * spread


INTERVALS: Mapping[str, Callable[[Vector, float], Ends]] = {
    "BCa": bca,
    "percentile": percentile,
    "studentised bootstrap": studentised,
    "Student": student,
    "Student, df of the queries that differ": ours,
}


def _resampled(draws: Vector) -> tuple[Vector, Vector]:
    """Return means and spreads of resamples, both ``[n_draws, resamples]``."""
    n = draws.shape[1]
    drawn = np.random.default_rng(0).integers(0, n, (_RESAMPLES, n))
    means, spreads = np.empty((2, len(draws), _RESAMPLES))
    for row, draw in enumerate(draws):
        resamples = draw[drawn]
        means[row], spreads[row] = resamples.mean(axis=1), resamples.std(axis=1, ddof=1)
    return means, spreads


def by_fold(differences: Vector, part: Indices, level: float = 0.95) -> tuple[float, float]:
    """Student's interval of the folds' means."""
    means = np.array([differences[part == fold].mean() for fold in np.unique(part)])
    low, high = student(means[None, :], level)
    return float(low[0]), float(high[0])


def hierarchical(differences: Vector, part: Indices, level: float = 0.95) -> tuple[float, float]:
    """Student's interval with the larger of the variances between and within folds."""
    folds = [differences[part == fold] for fold in np.unique(part)]
    within = float(np.mean([fold.var(ddof=1) for fold in folds])) / len(differences)
    between = float(np.var([fold.mean() for fold in folds], ddof=1)) / len(folds)
    half = stdtrit(len(differences) - 1, (1 + level) / 2) * max(within, between) ** 0.5
    return float(differences.mean() - half), float(differences.mean() + half)


# ---------------------------------------------------------------------------------------------- populations


def queries_of(name: str) -> QuerySet:
    """Return the queries of a set that no test fold of `benchmarks.quality` needs to be opened for."""
    folder = data_dir() / name
    if (folder / "S1.txt.gz").exists():
        return read([folder / f"S{number}.txt.gz" for number in range(1, 5)])
    if (folder / "train.txt.gz").exists():
        return read([folder / "train.txt.gz"])
    queries = read([folder / "data.txt.gz"])
    return queries.select(np.flatnonzero(np.random.default_rng(5).permutation(len(queries)) % 5 < 4))


def cross_validated(queries: QuerySet, ranker: str, part: Indices) -> Vector:
    """Return the score of every document by a model that has not seen its query."""
    method, settings = RANKERS[ranker]
    scores = np.empty(queries.n_docs)
    for fold in np.unique(part):
        scorer = make(method, settings).fit(Lesson(queries.select(np.flatnonzero(part != fold))))
        held = np.flatnonzero(part == fold)
        for query, cloud in zip(held.tolist(), as_published(queries.select(held)), strict=True):
            scores[queries.span(query)] = scorer.score(cloud)
    return scores


def populations(names: Sequence[str]) -> Iterator[Population]:
    """Yield the differences of each pair of rankers on each set."""
    for name in names:
        queries = queries_of(name)
        judgements = Judgements(queries.labels, queries.offsets, "standard-skip")
        part = np.random.default_rng(0).permutation(len(queries)) % 5
        figures = {
            ranker: judgements.measure(cross_validated(queries, ranker, part), METRICS) for ranker in RANKERS
        }
        for one, other in combinations(RANKERS, 2):
            for first, second in zip(figures[one], figures[other], strict=True):
                differences = first.per_query - second.per_query
                known = differences[~np.isnan(differences)]
                yield Population(name, f"{one} - {other}", first.name, known)


# ------------------------------------------------------------------------------------------------- coverage


def of_queries(found: Sequence[Population], draws: int) -> list[results.Row]:
    """Return coverage of a population's mean, by kind of interval and number of queries."""
    rng = np.random.default_rng(1)
    kinds = {
        "queries": [one.differences for one in found],
        "sparse": [np.where(rng.random(len(one.differences)) < 0.1, one.differences, 0.0) for one in found],
    }
    rows: list[results.Row] = []
    for kind, every in kinds.items():
        for n in SIZES:
            samples = [differences[rng.integers(0, len(differences), (draws, n))] for differences in every]
            for name, interval in INTERVALS.items():
                if n > 150 and name in {"BCa", "percentile", "studentised bootstrap"}:
                    continue
                covered, above, kept = [], [], []
                for differences, drawn in zip(every, samples, strict=True):
                    given = _given(interval(drawn, 0.95), differences.mean())
                    bound = interval(drawn, 0.90)[0]
                    kept.append(given[1].mean())
                    if given[1].sum() >= draws / 20:
                        covered.append(given[0][given[1]].mean())
                        above.append((bound[given[1]] <= differences.mean() + _TIE).mean())
                rows.append(
                    {
                        "simulation": kind,
                        "interval": name,
                        "n": n,
                        "coverage": float(np.mean(covered)) if covered else float("nan"),
                        "tenth_percentile": float(np.quantile(covered, 0.1)) if covered else float("nan"),
                        "one_sided": float(np.mean(above)) if above else float("nan"),
                        "kept": float(np.mean(kept)),
                    }
                )
    return rows


def of_procedures(name: str, n: int, draws: int) -> list[results.Row]:
    """Return coverage of what two learners differ by when each data set is drawn anew."""
    queries = queries_of(name)
    judgements = Judgements(queries.labels, queries.offsets, "standard-skip")
    judged = np.array(
        [
            query
            for query in range(len(queries))
            if queries.labels_of(query).max(initial=0) > queries.labels_of(query).min(initial=0)
        ]
    )
    rng, part = np.random.default_rng(2), np.arange(n) % 5
    learners = ("ranksvm, C 1", "ranksvm, C 10", "extra_trees")
    measured: dict[str, list[tuple[Vector, Vector]]] = {learner: [] for learner in learners}
    for _ in range(draws):
        chosen = rng.choice(judged, n, replace=False)
        rest = np.setdiff1d(judged, chosen)
        for learner in learners:
            own, others = np.zeros(queries.n_docs), np.zeros((len(METRICS), 5))
            for fold in range(5):
                method, settings = RANKERS[learner]
                scorer = make(method, settings).fit(Lesson(queries.select(chosen[part != fold])))
                scores = np.concatenate([scorer.score(cloud) for cloud in as_published(queries)])
                for query in chosen[part == fold]:
                    own[queries.span(query)] = scores[queries.span(query)]
                others[:, fold] = [m.per_query[rest].mean() for m in judgements.measure(scores, METRICS)]
            figures = np.array([m.per_query[chosen] for m in judgements.measure(own, METRICS)])
            measured[learner].append((figures, others.mean(axis=1)))
    tallies: dict[str, list[bool]] = {"queries": [], "folds": [], "queries and folds": []}
    for one, other in combinations(learners, 2):
        for metric in range(len(METRICS)):
            pairs = list(zip(measured[one], measured[other], strict=True))
            truth = np.mean([a[1][metric] - b[1][metric] for a, b in pairs])
            for a, b in pairs:
                differences = a[0][metric] - b[0][metric]
                low, high = ours(differences[None, :])
                tallies["queries"].append(bool(low[0] <= truth <= high[0]))
                for label, ends in (("folds", by_fold), ("queries and folds", hierarchical)):
                    lower, upper = ends(differences, part)
                    tallies[label].append(lower <= truth <= upper)
    return [
        {
            "simulation": "procedures",
            "data": name,
            "interval": label,
            "n": n,
            "coverage": float(np.mean(held)),
        }
        for label, held in tallies.items()
    ]


def _given(ends: Ends, truth: float) -> tuple[Bits, Bits]:
    """Return which intervals hold the truth, and which there are."""
    low, high = ends
    return (low - _TIE <= truth) & (truth <= high + _TIE), ~np.isnan(low)


def lines(rows: Sequence[results.Row]) -> Iterator[str]:
    """Yield the tables as Markdown."""
    sizes = sorted({row["n"] for row in rows if row["simulation"] != "procedures"})
    for kind in ("queries", "sparse"):
        yield f"| {kind} | " + " | ".join(f"n = {n}" for n in sizes) + " |"
        yield "|---|" + "---|" * len(sizes)
        for name in INTERVALS:
            cells = {row["n"]: row for row in rows if row["simulation"] == kind and row["interval"] == name}
            yield f"| {name} | " + " | ".join(_cell(cells.get(n)) for n in sizes) + " |"
        yield ""
    yield "| procedures | n | over queries | over folds | over both |"
    yield "|---|---|---|---|---|"
    drawn = [row for row in rows if row["simulation"] == "procedures"]
    for data, n in dict.fromkeys((row["data"], row["n"]) for row in drawn):
        found = [f"{row['coverage']:.3f}" for row in drawn if (row["data"], row["n"]) == (data, n)]
        yield f"| {data} | {n} | " + " | ".join(found) + " |"


def _cell(row: results.Row | None) -> str:
    if row is None or row["coverage"] is None or np.isnan(row["coverage"]):
        return "–"
    kept = "" if row["kept"] > 0.995 else f", {row['kept']:.0%} kept"
    return (
        f"{row['coverage']:.3f} (tenth {row['tenth_percentile']:.3f}, one-sided {row['one_sided']:.3f}{kept})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--draws", type=int, default=400, help="samples per population and size")
    parser.add_argument("--data-sets", type=int, default=60, help="data sets drawn for each pair of learners")
    results.add_out(parser)
    arguments = parser.parse_args()
    rows = of_queries(list(populations(arguments.sets)), arguments.draws)
    for name, n in (("MQ2008", 60), ("MQ2008", 150), ("answer-selection", 60), ("lightgbm-example", 60)):
        if name in arguments.sets:
            rows += of_procedures(name, n, arguments.data_sets)
    print("\n".join(lines(rows)))
    results.write(arguments.out, coverage=rows)


if __name__ == "__main__":
    main()
