"""From one model to one model per query: what the number of clusters does (LocalRank, Figures 4 to 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from localrank_papers.figures.controls import controlled, drawn
from localrank_papers.figures.study import Findings, spread_of
from localrank_papers.figures.transfer import (
    METRICS,
    Chosen,
    choose,
    clairvoyant_of,
    compared,
    said,
    transfers_of,
)
from localrank_training.report import Axis, Bars, Level, Line, Plot, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector
    from localrank_papers.figures.fits import Fit
    from localrank_papers.figures.study import Study
    from localrank_papers.figures.transfer import Models, Transfer
    from localrank_training.report import Mark

#: Every number of clusters up to this one is tried; beyond it, this many more at equal factors.
_ALL_UP_TO, _BEYOND = 100, 40


def fits_of(study: Study, models: Models, candidates: Sequence[int] = ()) -> list[Fit]:
    """Return the fits of a sweep, and with candidates those of the random clusters."""
    every = [models, *(drawn(study, models, candidates) if candidates else ())]
    fits = [models.geometry.fit(fold) for fold in study.data.folds]
    return fits + [one.fit(fold, study.data.convention) for one in every for fold in study.data.folds]


def sizes_of(transfers: Sequence[Transfer]) -> list[int]:
    """Return the numbers of clusters to look at, up to one per query."""
    most = min(len(one.tree) for one in transfers)
    sizes = set(range(1, min(most, _ALL_UP_TO) + 1))
    if most > _ALL_UP_TO:
        sizes |= set(np.geomspace(_ALL_UP_TO, most, _BEYOND).round().astype(int).tolist())
    return sorted(sizes)


def by_clusters(study: Study, models: Models, metric: str, candidates: Sequence[int], paper: str) -> Findings:
    """Show a metric against the number of clusters, with the clairvoyant choice and random clusters of the same sizes.

    Args:
        study: the data and the draws.
        models: of all nodes.
        metric: that is shown; settings of the learner are chosen by MAP on validation queries, for each number.
        candidates: numbers of clusters of the controls.
        paper: what the paper saw.
    """
    column = METRICS.index(metric)
    transfers = transfers_of(study, models)
    sizes = sizes_of(transfers)
    chosen = {size: choose(transfers, [size]) for size in sizes}
    local = [chosen[size].figures[:, column] for size in sizes]
    best = [clairvoyant_of(transfers, chosen[size])[:, column] for size in sizes]
    single = chosen[1]
    differences = [
        compared(chosen[size].figures, single.figures, study.data.convention)[column] for size in sizes
    ]
    means, tops = [float(one.mean()) for one in local], [float(one.mean()) for one in best]
    ends = [
        (one.candidate, one.candidate)
        if one.interval is None
        else (one.baseline + one.interval.low, one.baseline + one.interval.high)
        for one in differences
    ]
    control = [size for size in candidates if size in chosen]
    of_draws = [transfers_of(study, one) for one in drawn(study, models, candidates)]
    random = {
        size: [float(choose(one, [size]).figures[:, column].mean()) for one in of_draws] for size in control
    }
    spreads = {size: spread_of(found) for size, found in random.items() if found}
    name = metric.upper()
    marks: list[Mark] = [
        Line("clusters", sizes, means, [low for low, _ in ends], [high for _, high in ends], dots=False),
        Line("clairvoyant choice among them", sizes, tops, dashed=True, dots=False),
        Level("one model", means[0]),
    ]
    if spreads:
        marks.append(
            Line(
                "random clusters of the same sizes",
                list(spreads),
                [float(np.mean(random[size])) for size in spreads],
                [low for low, _ in spreads.values()],
                [high for _, high in spreads.values()],
            )
        )
    peak = int(np.argmax(means))
    at_peak = differences[peak]
    above = sum(one.interval is not None and one.interval.low > 0 for one in differences)
    below = sum(one.interval is not None and one.interval.high < 0 for one in differences)
    plot = Plot(
        f"{name} against the number of clusters",
        f"One model reaches {means[0]:.4f}, one per query {means[-1]:.4f}; the highest point is {means[peak]:.4f} at {sizes[peak]}.",
        x=Axis("number of clusters, of training queries", log=sizes[-1] > _ALL_UP_TO),
        y=Axis(f"{name}, mean over test queries"),
        marks=marks,
        intervals="95 % of the paired difference from one model around the curve of the clusters; "
        f"nine tenths of {study.draws} draws of random clusters",
        numbers=False,
    )
    table = Table(
        f"{name} on test queries by number of clusters",
        ("clusters", name, "from", "to", "p", "clairvoyant", "random clusters", "from ", "to "),
        [
            (size, mean, low, high, float(one.p), top, *_of_draws(random.get(size, [])))
            for size, mean, (low, high), one, top in zip(sizes, means, ends, differences, tops, strict=True)
        ],
        "The first interval is that of the paired difference from one model, drawn around the mean; p is of one comparison, not "
        "adjusted for there being many.",
    )
    held = controlled(study, models, candidates, "clusters")
    sentences = [
        said(at_peak, f"The best number of clusters in hindsight, {sizes[peak]},", "one model")
        if peak
        else f"No number of clusters is better than one model, not even in hindsight: {name} {means[0]:.4f} is the highest point.",
        f"Of {len(sizes)} numbers of clusters, {above} are above one model by an interval that leaves out zero, {below} below it.",
        paper,
        *held.sentences,
    ]
    return Findings([table, *held.tables], [plot, *held.plots], sentences)


def clairvoyant_queries(study: Study, models: Models) -> Findings:
    """Compare one model per training query with one model for all; the former is chosen by similarity or by the labels
    (Figure 4).
    """
    transfers = transfers_of(study, models)
    single = choose(transfers, [1])
    nearest = _one_per_query(transfers)
    best = clairvoyant_of(transfers, nearest)
    ways = {"one model": single.figures, "most similar query": nearest.figures, "clairvoyant query": best}
    against = compared(nearest.figures, single.figures, study.data.convention)
    above = compared(best, single.figures, study.data.convention)
    rows = [(way, *(float(mean) for mean in figures.mean(axis=0))) for way, figures in ways.items()]
    differences = [
        (way, one.metric, float(one.difference), one.interval_text, float(one.p_holm))
        for way, found in (("most similar query", against), ("clairvoyant query", above))
        for one in found
    ]
    plot = Plot(
        "One model, the model of the most similar query, and that of the best query in hindsight",
        "The clairvoyant takes the best of as many rankings as there are training queries, so it is high by chance too.",
        x=Axis("metric", categories=[metric.upper() for metric in METRICS]),
        y=Axis("mean over test queries", zero=True),
        marks=[
            Bars(way, list(range(len(METRICS))), figures.mean(axis=0).tolist())
            for way, figures in ways.items()
        ],
    )
    return Findings(
        [
            Table("Means over the test queries", ("", *METRICS), rows),
            Table(
                "Differences from one model",
                ("", "metric", "difference", "95 % interval", "p (Holm)"),
                differences,
            ),
        ],
        [plot],
        [
            said(against[0], "The model of the most similar training query", "one model"),
            said(above[0], "The model of the best training query, chosen in hindsight,", "one model"),
            "The paper finds the same two: the clairvoyant query far above one model, the most similar query not.",
        ],
    )


def ranks_of_clairvoyant(study: Study, models: Models) -> Findings:
    """Find the training query with the best model for each test query, and show its rank by similarity (Figure 5)."""
    transfers = transfers_of(study, models)
    nearest = _one_per_query(transfers)
    ranks, chance = [], []
    n = min(len(one.tree) for one in transfers)
    for one, choice in zip(transfers, nearest.choices, strict=True):
        leaves = np.arange(len(one.tree))
        figures = one.figures["test"][choice.setting][np.searchsorted(one.nodes, leaves), :, 0]
        best = figures >= figures.max(axis=0) - 1e-6
        for query in np.flatnonzero(one.near.known["test"]).tolist():
            order = np.argsort(-one.near.similarities["test"][query], kind="stable")
            ranks.append(int(np.argmax(best[order, query])) + 1)
            chance.append(chance_of_ranks(len(leaves), int(best[:, query].sum()), n))
    shares = np.array([np.mean(np.array(ranks) <= rank) for rank in range(1, n + 1)])
    expected = np.mean(chance, axis=0)
    steps = [rank for rank in (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 400) if rank <= n]
    return Findings(
        [
            Table(
                "Share of test queries whose best training query is among the most similar ones",
                ("among the most similar", "share", "in random order"),
                [(rank, float(shares[rank - 1]), float(expected[rank - 1])) for rank in steps],
                f"{len(ranks)} test queries. If several training queries serve equally well, the most similar of them counts, "
                "in both columns.",
            )
        ],
        [
            Plot(
                "Where likeness ranks the training query that serves best",
                "If likeness finds it, the curve rises steeply at the left. Random order knows nothing.",
                x=Axis("rank by likeness, of training queries"),
                y=Axis("share of test queries up to this rank", zero=True, high=1.0),
                marks=[
                    Line("by likeness", list(range(1, n + 1)), shares.tolist(), dots=False),
                    Line(
                        "in random order", list(range(1, n + 1)), expected.tolist(), dashed=True, dots=False
                    ),
                ],
                numbers=False,
            )
        ],
        [
            (
                f"The training query whose model serves best is the most similar one for {shares[0]:.1%} of the test queries; in random "
                f"order it would be for {expected[0]:.1%}."
            ),
            "The paper reports about 11 % (on another data set), without what chance would give.",
        ],
    )


def chance_of_ranks(total: int, best: int, ranks: int) -> Vector:
    """Return ``[ranks]`` how likely one of ``best`` things among ``total`` is among the first 1, 2, … in random order."""
    first = np.arange(1, ranks + 1)
    rest = total - first
    possible = rest >= best
    # The probability that none of them is among the first.
    logarithm = (
        gammaln(np.where(possible, rest, best) + 1)
        - gammaln(np.where(possible, rest - best, 0) + 1)
        - gammaln(total + 1)
        + gammaln(total - best + 1)
    )
    return np.asarray(1.0 - np.where(possible, np.exp(logarithm), 0.0))


def _one_per_query(transfers: Sequence[Transfer]) -> Chosen:
    """Choose settings for one model per query in every fold."""
    chosen = [choose([one], [len(one.tree)]) for one in transfers]
    return Chosen(tuple(one.choices[0] for one in chosen), np.concatenate([one.figures for one in chosen]))


def _of_draws(found: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    return (float(np.mean(found)), *spread_of(found)) if found else (None, None, None)
