"""Experiments for PCA-based query representation [lwin], whose paper prints no results: its data, its steps, its
figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank_papers.figures.fits import Fit
from localrank_papers.figures.folds import everything
from localrank_papers.figures.paired import Pair, paired_table, verdict_of
from localrank_papers.figures.pca_clusters import (
    METRICS,
    answered,
    crossed,
    literal_points,
    own_axes,
    pooled_points,
)
from localrank_papers.figures.study import Experiment, Findings, Protocol, beside, spread_of
from localrank_training.evaluation.stability import CHANGES
from localrank_training.report import Axis, Dots, Level, Line, Plot, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Vector
    from localrank_papers.figures.folds import Fold
    from localrank_papers.figures.study import Study
    from localrank_training.report import Mark

PAPER = "Lwin, Kham: Query Dependent Ranking based on PCA-based Query Representation"
PAPER_DATA = ("TREC 2003", "TREC 2004", "OHSUMED")

#: h, how many values of every feature; how many directions; how many clusters; C of RankSVM.
SCORES, COMPONENTS, CLUSTERS, STRENGTHS = (5, 20), (2, 5), (1, 2, 3, 5), (0.1, 1.0, 10.0)
#: Of the cross-validation over training and validation queries.
PARTS = 3
_MAP = METRICS.index("map")
_SHOWN = ("p@1", "p@5", "p@10", "ndcg@1", "ndcg@5", "ndcg@10", "map")

# ------------------------------------------------------------------------------------------------ choices


class _Choice(NamedTuple):
    """What cross-validation chooses in one fold."""

    scores: int
    components: int
    clusters: int
    strength: float


def _crossed(fold: Fold, study: Study, draw: int | None = None, like: _Choice | None = None) -> Fit:
    """Return the cross-validation of a fold; with a draw, that of random clusters of the same sizes as `like` has."""
    settings = {
        "scores": list(SCORES) if like is None else [like.scores],
        "components": list(COMPONENTS) if like is None else [like.components],
        "clusters": list(CLUSTERS),
        "strengths": list(STRENGTHS),
        "parts": PARTS,
        "seed": study.seed,
    }
    return Fit(crossed, fold, settings if draw is None else settings | {"draw": draw})


def _answered(fold: Fold, study: Study, choice: _Choice, draw: int | None = None) -> Fit:
    settings = {**choice._asdict(), "convention": study.data.convention, "seed": study.seed}
    return Fit(answered, fold, settings if draw is None else settings | {"draw": draw})


def _chosen(study: Study, fold: Fold, least: int = 1, draw: int | None = None) -> _Choice:
    """Return the best settings by MAP of known queries that were left out; of equals the first, which has fewest clusters.

    Args:
        study: the fits.
        fold: which.
        least: clusters.
        draw: of random clusters, which have the number of values and of directions that the real ones have chosen.
    """
    like = None if draw is None else _chosen(study, fold, least)
    means = study.of(_crossed(fold, study, draw, like))["map"].mean(axis=-1)
    counts = [number for number, count in enumerate(CLUSTERS) if count >= least]
    # Clusters first, so that of equals fewer are taken.
    inner = np.moveaxis(means[:, :, counts], 2, 0)
    c, h, width, strength = np.unravel_index(int(np.argmax(inner)), inner.shape)
    return _Choice(
        SCORES[h] if like is None else like.scores,
        COMPONENTS[width] if like is None else like.components,
        CLUSTERS[counts[c]],
        STRENGTHS[strength],
    )


def _one_model(study: Study, fold: Fold) -> _Choice:
    """Return the best strength of one model."""
    means = study.of(_crossed(fold, study))["map"].mean(axis=-1)[0, 0, CLUSTERS.index(1)]
    return _Choice(SCORES[0], COMPONENTS[0], 1, STRENGTHS[int(np.argmax(means))])


def _pooled(study: Study, choices: list[_Choice], draw: int | None = None) -> Vector:
    """Return ``[n_metrics, n_queries]`` of all test queries."""
    fits = [
        _answered(fold, study, choice, draw) for fold, choice in zip(study.data.folds, choices, strict=True)
    ]
    return np.concatenate([study.of(fit)["routed"] for fit in fits], axis=-1)


def _of_models(study: Study, choices: list[_Choice], draw: int | None = None) -> tuple[Vector, Vector]:
    """Return what the best model of each query reaches and what a random one does, ``[n_metrics, n_queries]`` each."""
    best, mean = [], []
    for fold, choice in zip(study.data.folds, choices, strict=True):
        models = study.of(_answered(fold, study, choice, draw))["models"]
        best.append(models.max(axis=0))
        mean.append(models.mean(axis=0))
    return np.concatenate(best, axis=-1), np.concatenate(mean, axis=-1)


# ------------------------------------------------------------------------------------------------ quality


def _plan(study: Study) -> Iterator[Fit]:
    for fold in study.data.folds:
        yield _crossed(fold, study)


def quality(study: Study) -> Findings:
    """Compare the paper's clusters with one model, with every control: the result that the paper does not print."""
    folds = study.data.folds
    ones = [_one_model(study, fold) for fold in folds]
    free, split = ([_chosen(study, fold, least) for fold in folds] for least in (1, 2))
    single, local, apart = (_pooled(study, choices) for choices in (ones, free, split))
    oracle, elsewhere = _of_models(study, split)
    ways = {
        "one model": single,
        "clusters, one a candidate": local,
        "clusters, two at least": apart,
        "random routing over these clusters": elsewhere,
        "oracle among these clusters": oracle,
    }
    pairs = [
        Pair(f"{name}, {metric}", ways[name][METRICS.index(metric)], single[METRICS.index(metric)])
        for name in (
            "clusters, one a candidate",
            "clusters, two at least",
            "random routing over these clusters",
        )
        for metric in ("map", "ndcg@10", "p@10")
    ]
    tables = [
        Table(
            "P@n, NDCG@n and MAP, means over test queries",
            ("ranking", *METRICS),
            [(name, *map(float, figures.mean(axis=1))) for name, figures in ways.items()],
        ),
        paired_table("Beside one model", pairs, "One family for Holm's adjustment.", seed=study.seed),
        _choices(study, ones, free, split),
        _cross_validated(study),
        _flips(study, split),
    ]
    chosen_one = sum(choice.clusters == 1 for choice in free)
    sentences = [
        *(
            f"Beside one model: {verdict_of(pair)}."
            for pair in pairs
            if pair.name in {f"{name}, map" for name in ways}
        ),
        f"One cluster was chosen in {chosen_one} of {len(folds)} folds. The paper prints no figures.",
    ]
    marks: list[Mark] = [
        Line(name, range(1, 11), ways[name][10:20].mean(axis=1).tolist(), dashed=name == "one model")
        for name in ("one model", "clusters, one a candidate", "clusters, two at least")
    ]
    plots = [
        Plot(
            "NDCG of one model and of clusters",
            "Both sides learn from the same queries and choose by the same cross-validation.",
            x=Axis("n, first documents counted", ticks=range(1, 11)),
            y=Axis("NDCG@n, mean over test queries"),
            marks=marks,
        )
    ]
    if study.draws:
        table, plot, sentence = _controls(study, single, apart, oracle)
        tables.insert(2, table)
        plots.append(plot)
        sentences.append(sentence)
    return Findings(tables, plots, sentences)


def _controls(study: Study, single: Vector, apart: Vector, oracle: Vector) -> tuple[Table, Plot, str]:
    """Put random clusters of the same sizes beside the real ones, chosen and routed in the same way."""
    dealt, best = [], []
    for draw in range(study.draws):
        choices = [_chosen(study, fold, 2, draw) for fold in study.data.folds]
        dealt.append(_pooled(study, choices, draw))
        best.append(_of_models(study, choices, draw)[0])
    average, by_chance = np.mean(dealt, axis=0), np.mean(best, axis=0)
    pairs = [
        Pair(f"clusters beside random clusters, {metric}", apart[at], average[at])
        for metric, at in ((metric, METRICS.index(metric)) for metric in _SHOWN)
    ]
    pairs.append(Pair("oracle beside oracle of random clusters, map", oracle[_MAP], by_chance[_MAP]))
    draws = [[float(one[_MAP].mean()) for one in kind] for kind in (dealt, best)]
    values = [float(one[_MAP].mean()) for one in (apart, average, oracle, by_chance)]
    plot = beside(
        "MAP beside random clusters of the same sizes",
        "What the clusters gain over random ones is what likeness is worth.",
        {
            "clusters, two at least": (values[0], values[0], values[0]),
            "random clusters": (values[1], *spread_of(draws[0])),
            "oracle": (values[2], values[2], values[2]),
            "oracle of random clusters": (values[3], *spread_of(draws[1])),
        },
        ("one model", float(single[_MAP].mean())),
        intervals=f"nine tenths of {study.draws} draws",
    )
    table = paired_table(
        f"Beside random clusters of the same sizes, mean of {study.draws} draws query by query",
        pairs,
        "Queries are dealt to clusters at random. The number of clusters and C are chosen anew for every draw.",
        seed=study.seed,
    )
    return table, plot, f"C{verdict_of(pairs[-2])[1:]}. O{verdict_of(pairs[-1])[1:]}."


def _choices(study: Study, *every: list[_Choice]) -> Table:
    rows = []
    for name, choices in zip(("one model", "one cluster a candidate", "two at least"), every, strict=True):
        rows += [
            (name, fold.number, *((None, None) if choice.clusters == 1 else choice[:2]), *choice[2:])
            for fold, choice in zip(study.data.folds, choices, strict=True)
        ]
    return Table(
        f"Chosen by cross-validation in {PARTS} parts over training and validation queries",
        ("ranking", "fold", "h", "directions", "clusters", "C"),
        rows,
    )


def _cross_validated(study: Study) -> Table:
    """Show what cross-validation saw: the best C for each setting, the mean over folds."""
    best = np.mean(
        [study.of(_crossed(f, study))["map"].mean(axis=-1).max(axis=-1) for f in study.data.folds], axis=0
    )
    return Table(
        "MAP of known queries that were left out, mean over folds",
        ("h", "directions", *(f"{count} clusters" if count > 1 else "one model" for count in CLUSTERS)),
        [
            (h, width, *map(float, best[a, b]))
            for a, h in enumerate(SCORES)
            for b, width in enumerate(COMPONENTS)
        ],
    )


def _flips(study: Study, split: list[_Choice]) -> Table:
    folds = study.data.folds
    found = [study.of(_answered(f, study, choice))["flips"] for f, choice in zip(folds, split, strict=True)]
    rates = np.average(found, axis=0, weights=[len(fold.test) for fold in folds])
    return Table(
        "Share of test queries that a small change sends to another cluster",
        tuple(name.replace("_", " ") for name in CHANGES),
        [tuple(map(float, rates))],
    )


# ------------------------------------------------------------------------------------------------ Table 1, Figure 3

_PAPERS_TABLE = (("TREC 2003", 350, 2, 64), ("TREC 2004", 225, 2, 64), ("OHSUMED", 106, 3, 45))


def table_1(study: Study) -> Findings:
    """Count queries and documents beside the paper's counts; also how many documents a query has for its top h
    values.
    """
    queries = everything(study.data.folds)
    lengths = np.sort(queries.lengths)
    rows: list[tuple[object, ...]] = [("as the paper prints it", *row, None, None) for row in _PAPERS_TABLE]
    ours = (len(queries), len(np.unique(queries.labels)), queries.n_features)
    rows.append(("measured here", study.data.name, *ours, queries.n_docs, float(np.median(lengths))))
    steps = sorted({1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, int(lengths[-1])})
    shares = [float(np.mean(lengths >= h)) for h in steps if h <= lengths[-1]]
    return Findings(
        [
            Table(
                "Table 1: the data",
                ("", "set", "queries", "grades", "features", "documents", "median list"),
                rows,
            )
        ],
        [
            Plot(
                "Queries with at least h documents",
                "A query with fewer documents is represented by all of them.",
                x=Axis("h", log=True),
                y=Axis("share of queries", zero=True, high=1.0),
                marks=[Line("", steps[: len(shares)], shares)],
            )
        ],
        [
            (
                f"{study.data.name} has {ours[0]} queries, {ours[1]} grades and {ours[2]} features; half of the queries have "
                f"{np.median(lengths):g} documents or more."
            ),
            "The paper's 350 and 225 are sums of several tasks of TREC; with LETOR 3.0 these are separate sets.",
        ],
    )


def figure_3(study: Study) -> Findings:
    """Follow the paper's six steps literally, and in a way that makes sense; show the resulting point of a query."""
    queries = everything(study.data.folds)
    lists = [documents for documents in queries.clouds() if len(documents) > 1]
    h = SCORES[-1]
    literal = literal_points(lists, h, 2)
    axes = np.stack([one[0] for one in (own_axes(documents, h)[1] for documents in lists)])
    alike = np.abs(axes @ axes.T)[np.triu_indices(len(axes), 1)]
    pooled = pooled_points(queries, h, 2)
    largest = float(np.abs(literal).max())
    spread = float(np.abs(pooled).max())
    return Findings(
        [
            Table(
                f"What a query is after the six steps, h = {h}",
                ("reading", "largest coordinate of any query", "deviation over queries", "usable"),
                [
                    (
                        "each query by itself, as printed",
                        largest,
                        float(literal.std(axis=0).max()),
                        "no: all are zero",
                    ),
                    (
                        "rows of all queries, one centre and one set of axes",
                        spread,
                        float(pooled.std(axis=0).max()),
                        "yes",
                    ),
                ],
                "The mean of centred scores is the score of the mean less itself. With the axes of all rows, a query is its mean top "
                "value of every feature, projected.",
            ),
            Table(
                "First axes of two queries, each by itself",
                ("pairs", "mean |cosine|", "least", "largest"),
                [(len(alike), float(alike.mean()), float(alike.min()), float(alike.max()))],
                "If rows were not centred before they are projected, the points would not be zero, but their coordinates would belong "
                "to different axes, each with a sign of its own.",
            ),
        ],
        [
            Plot(
                "Queries on the first two axes of all rows",
                "One dot is a query. Read literally, all of them would lie on the cross at zero.",
                x=Axis("first axis"),
                y=Axis("second axis"),
                marks=[
                    Dots("a query", pooled[:, 0].tolist(), pooled[:, 1].tolist(), radius=2.5),
                    Level("", 0.0),
                    Level("", 0.0, of="x"),
                ],
                numbers=False,
            )
        ],
        [
            (
                f"Followed to the letter, the six steps make the same point of every query: no coordinate is farther from zero than "
                f"{largest:.0e}. By axes of all training rows they go up to {spread:.2f}."
            ),
            (
                f"Each query has axes of its own: the first ones of two queries have a cosine of {alike.mean():.2f} on average, "
                f"{alike.min():.2f} at least, and which way each points is chance."
            ),
        ],
    )


# ------------------------------------------------------------------------------------------------ catalogue

_NO_TREC = "TREC 2003 and TREC 2004: LETOR 3.0's .gov sets are no longer available"
_HOW = (
    "principal directions of the top h values of all training queries' rows, because those of each query by itself make every "
    "query zero; features scaled over all training documents; the cluster of the largest scatter is bisected; h, directions, "
    "clusters and C by cross-validation over training and validation queries; one model is a candidate and has the same choices"
)

EXPERIMENTS = (
    Experiment(
        name="pca-query-table1",
        paper=PAPER,
        figure="Table 1",
        title="The data, and how long their lists are",
        protocol=Protocol("the paper's", "counted"),
        not_run=_NO_TREC,
        paper_data=PAPER_DATA,
        plan=lambda _: (),
        find=table_1,
    ),
    Experiment(
        name="pca-query-fig3",
        paper=PAPER,
        figure="Figure 3",
        title="What the six steps of the representation come to",
        protocol=Protocol("the paper's", "the steps as printed, and with one set of axes for all queries"),
        not_run=_NO_TREC,
        paper_data=PAPER_DATA,
        plan=lambda _: (),
        find=figure_3,
    ),
    Experiment(
        name="pca-query-quality",
        paper=PAPER,
        figure="Section 4, which prints no result",
        title="P@n, NDCG@n and MAP of clusters beside one model",
        protocol=Protocol("ours", _HOW),
        not_run=_NO_TREC,
        paper_data=PAPER_DATA,
        plan=_plan,
        find=quality,
    ),
)
