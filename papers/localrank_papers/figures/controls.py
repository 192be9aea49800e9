"""The controls that a comparison of local models with one global model needs, and that the papers lack.

Both sides have the same learner, the same settings to choose from and the same validation queries; one cluster is a candidate.
Beside the clusters stand

- random clusters of the same sizes (`Dendrogram.shuffled`), at least twenty draws, chosen and routed in the same way:
  their loss is the price of learning from fewer queries, and the gain of the clusters over them is the value of
  similarity;
- random routing over the real clusters: it shows the value of finding the right cluster;
- the clairvoyant choice among the real and among the random clusters: what the best of several models reaches by chance alone;
- how often queries are hurt, and how often a small change of a query's documents sends it elsewhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.ranker import Ranker
from localrank.routing.router import ExactRouter
from localrank.scorers import LinearScorer
from localrank_papers.figures.fits import Fit
from localrank_papers.figures.geometry import Geometry, contract_of, tree_of
from localrank_papers.figures.paired import means_of
from localrank_papers.figures.study import beside, spread_of
from localrank_papers.figures.transfer import (
    METRICS,
    Chosen,
    Models,
    choose,
    clairvoyant_of,
    compared,
    routed_at_random,
    said,
    transfers_of,
)
from localrank_training.data.clouds import Clouds
from localrank_training.evaluation.stability import CHANGES, flip_rates
from localrank_training.report import Plot, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Vector
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_papers.figures.study import Study


@dataclass(frozen=True, slots=True, eq=False)
class Controlled:
    """Local models beside one model and all controls.

    Attributes:
        single: one model; only the settings are chosen.
        local: with one cluster among the candidates.
        split: two clusters at least.
        random: as `split`, of every draw of random clusters.
        tables, plots, sentences: for a page.
    """

    single: Chosen
    local: Chosen
    split: Chosen
    random: tuple[Chosen, ...]
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    sentences: tuple[str, ...]


def drawn(study: Study, models: Models, candidates: Sequence[int]) -> list[Models]:
    """Return the models of all draws of random clusters, only for the candidates."""
    cuts = tuple(sorted(candidates))
    return [replace(models, cuts=cuts, draw=draw, seed=study.seed) for draw in range(study.draws)]


def flips(fold: Fold, *, geometry: Mapping[str, Any], clusters: int, seed: int) -> Arrays:
    """Measure which share of a fold's test queries small changes send to another cluster."""
    settings = Geometry(**geometry)
    tree = tree_of(fold, **geometry)
    clouds = Clouds(fold.train, contract_of(fold))
    representation = settings.representing(clouds)
    labels = np.unique(tree.cut(clusters), return_inverse=True)[1]
    points = representation.of_all(clouds).take(tree.queries)
    # Nothing is scored.
    scorer = LinearScorer(np.zeros(fold.train.n_features), "normalised")
    router = ExactRouter(points, labels.astype(np.int64), settings.similarity)
    ranker = Ranker(clouds.contract, representation, router, (scorer,) * clusters, scorer)
    rates = flip_rates(ranker, fold.test, seed)
    return {name: np.array(rates[name]) for name in CHANGES}


def controlled(
    study: Study, models: Models, candidates: Sequence[int], name: str = "local models"
) -> Controlled:
    """Compare local models with one model, with all controls.

    Args:
        study: the data and the draws.
        models: of the dendrogram; all draws have the same learner and settings.
        candidates: numbers of clusters to choose from; 1 is among them.
        name: of the local models, for people.
    """
    convention = study.data.convention
    transfers = transfers_of(study, models)
    more = [one for one in candidates if one > 1]
    single, local, split = (choose(transfers, some) for some in ([1], candidates, more))
    clairvoyant = clairvoyant_of(transfers, split)
    rows: list[tuple[object, ...]] = [
        ("one model", *means_of(single.figures)),
        (f"{name}, one cluster a candidate", *means_of(local.figures)),
        (f"{name}, two clusters at least", *means_of(split.figures)),
        ("clairvoyant choice among these clusters", *means_of(clairvoyant)),
    ]
    random: tuple[Chosen, ...] = ()
    drawn_tables: list[Table] = []
    sentences: list[str] = []
    against = compared(local.figures, single.figures, convention)
    sentences.append(said(against[0], f"{name[0].upper()}{name[1:]}", "one model"))
    sentences.append(
        f"One cluster was chosen in {local.one_cluster} of {len(local.choices)} folds; the candidates were "
        f"{', '.join(map(str, candidates))}."
    )
    comparisons = [_compared_row(f"{name} − one model", against)]
    split_against = compared(split.figures, single.figures, convention)
    comparisons.append(_compared_row("two clusters at least − one model", split_against))
    plots: list[Plot] = []
    if study.draws:
        of_draws = [transfers_of(study, one) for one in drawn(study, models, candidates)]
        random = tuple(choose(one, more) for one in of_draws)
        elsewhere = [routed_at_random(transfers, split, study.seed, draw) for draw in range(study.draws)]
        by_chance = [clairvoyant_of(one, chosen) for one, chosen in zip(of_draws, random, strict=True)]
        several = {
            "random clusters of the same sizes": [one.figures for one in random],
            "random routing over the clusters": elsewhere,
            "clairvoyant choice among random clusters": by_chance,
        }
        drawn_tables.append(_draws_table(several, study.draws))
        average = np.mean([one.figures for one in random], axis=0)
        beside = compared(split.figures, average, convention)
        comparisons.append(_compared_row("two clusters at least − random clusters", beside))
        routed = compared(split.figures, np.mean(elsewhere, axis=0), convention)
        comparisons.append(_compared_row("two clusters at least − random routing", routed))
        best = compared(clairvoyant, np.mean(by_chance, axis=0), convention)
        comparisons.append(_compared_row("clairvoyant among clusters − among random clusters", best))
        sentences.append(said(beside[0], "Clusters", "random clusters of the same sizes"))
        sentences.append(said(routed[0], "Routing by likeness", "random routing"))
        sentences.append(
            said(best[0], "The clairvoyant choice", "the clairvoyant choice among random clusters")
        )
        plots.append(_draws_plot(single, split, several))
    flipped = _flipped(study, models, split)
    sentences.append(
        f"{against[0].hurt} of {against[0].n_queries} queries lose more than .1 of MAP, {against[0].helped} win as much; "
        f"with two clusters at least {split_against[0].hurt} and {split_against[0].helped}."
    )
    tables = (
        Table("Means over the test queries", ("", *METRICS), rows),
        *drawn_tables,
        Table(
            "Paired differences",
            ("", "metric", "difference", "95 % interval", "p (Holm)", "hurt by > .1", "helped by > .1"),
            [row for rows_of_one in comparisons for row in rows_of_one],
            "Differences over the same queries. Where draws are on one side, it is their mean, query by query.",
        ),
        Table(
            "What was chosen on validation queries",
            ("fold", "clusters", "setting", "clusters, two at least", "setting of these"),
            [
                (fold.number, a.clusters, _named(models, a.setting), b.clusters, _named(models, b.setting))
                for fold, a, b in zip(study.data.folds, local.choices, split.choices, strict=True)
            ],
        ),
        Table(
            "Share of test queries that a small change sends to another cluster",
            tuple(name.replace("_", " ") for name in CHANGES),
            [tuple(float(flipped[name]) for name in CHANGES)],
            "A tenth of the documents dropped; the first twenty kept; a tenth given twice; every value moved by one unit in its "
            "last place. Clusters as chosen with two at least.",
        ),
    )
    return Controlled(single, local, split, random, tables, tuple(plots), tuple(sentences))


def _flipped(study: Study, models: Models, split: Chosen) -> dict[str, float]:
    total, found = 0, dict.fromkeys(CHANGES, 0.0)
    for fold, choice in zip(study.data.folds, split.choices, strict=True):
        rates = study.of(
            Fit.of(flips, fold, geometry=asdict(models.geometry), clusters=choice.clusters, seed=study.seed)
        )
        total += len(fold.test)
        for name in CHANGES:
            found[name] += float(rates[name]) * len(fold.test)
    return {name: value / total for name, value in found.items()}


def _compared_row(name: str, comparisons: Sequence[Any]) -> list[tuple[object, ...]]:
    return [
        (name, one.metric, float(one.difference), one.interval_text, float(one.p_holm), one.hurt, one.helped)
        for one in comparisons
    ]


def _draws_table(several: Mapping[str, Sequence[Vector]], draws: int) -> Table:
    rows = []
    for name, figures in several.items():
        means = np.array([one.mean(axis=0) for one in figures])
        for column, metric in enumerate(METRICS):
            low, high = spread_of(means[:, column].tolist())
            rows.append((name, metric, float(means[:, column].mean()), low, high))
    return Table(
        f"Controls, {draws} draws",
        ("", "metric", "mean of the draws", "5 % of them below", "95 % below"),
        rows,
    )


def _draws_plot(single: Chosen, split: Chosen, several: Mapping[str, Sequence[Vector]]) -> Plot:
    value = float(split.figures[:, 0].mean())
    ways = {"local, two clusters at least": (value, value, value)}
    for name, figures in several.items():
        means = [float(one[:, 0].mean()) for one in figures]
        ways[name] = (float(np.mean(means)), *spread_of(means))
    return beside(
        "Local models beside what chance gives",
        "A gain that is no chance lies to the right of its control.",
        ways,
        ("one model", float(single.figures[:, 0].mean())),
        intervals=f"nine tenths of {len(next(iter(several.values())))} draws",
    )


def _named(models: Models, setting: int) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in models.settings[setting].items())
