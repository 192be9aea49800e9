"""Random clusters of the sizes that were chosen for real ones: the control of comparisons that choose first.

`controls` gives random clusters the same choices as the real ones, which takes a model for every candidate, setting and draw.
Where many ways to cluster stand side by side, random clusters get what was chosen for the real ones: their number, sizes and
setting. That favours the real ones a little. So if even they do not win, clustering gains nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank_papers.figures.controls import flips
from localrank_papers.figures.fits import Fit
from localrank_papers.figures.geometry import tree_of
from localrank_papers.figures.paired import Pair, interval_around, means_of, paired_table, sides_of
from localrank_papers.figures.study import Findings, Kind, side_by_side, spread_of
from localrank_papers.figures.transfer import (
    METRICS,
    Chosen,
    School,
    Transfer,
    choose,
    clairvoyant_of,
    routed_at_random,
    transfers_of,
)
from localrank_training.evaluation.stability import CHANGES
from localrank_training.report import Axis, Level, Plot, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Vector
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_papers.figures.study import Study
    from localrank_papers.figures.transfer import Assignment, Chosen, Models


def dealt(
    fold: Fold,
    *,
    geometry: Mapping[str, Any],
    learner: str,
    values: Mapping[str, Any],
    clusters: int,
    draws: int,
    seed: int,
    convention: str,
) -> Arrays:
    """Deal the training queries to clusters of the same sizes, again and again; measure every model on every test query.

    Returns:
        ``figures [draws, clusters, n_queries, n_metrics]``, the clusters in the order of their nodes; ``everything [n_queries,
        n_metrics]`` by one model.
    """
    tree = tree_of(fold, **geometry)
    school = School.of(fold, learner, values, convention)
    found = np.empty((draws, clusters, len(fold.test), len(METRICS)), np.float32)
    for draw in range(draws):
        shuffled = tree.shuffled(seed, draw)
        for place, node in enumerate(np.unique(shuffled.cut(clusters)).tolist()):
            found[draw, place] = school.measured(school.taught(shuffled.members(node)), "test")
    return {"figures": found, "everything": school.measured(school.everything, "test")}


@dataclass(frozen=True, slots=True, eq=False)
class RandomClusters:
    """What random clusters come to, for each draw ``[n_queries, n_metrics]``; nothing without draws.

    Attributes:
        figures: routed as the real ones are.
        clairvoyant: by the best of the random clusters.
    """

    figures: tuple[Vector, ...] = ()
    clairvoyant: tuple[Vector, ...] = ()


def random_clusters(
    study: Study,
    models: Models,
    settings: Sequence[Mapping[str, Any]],
    *,
    transfers: Sequence[Transfer],
    chosen: Chosen,
    by: Assignment = "nearest",
) -> RandomClusters:
    """Deal queries to clusters as many and as large as those chosen, ``study.draws`` times.

    Args:
        study: the data and the draws.
        models: that were compared.
        settings: of the learner, which the choices number.
        transfers: of the real clusters, by fold.
        chosen: in each fold, two clusters at least.
        by: how a query finds its cluster.
    """
    if not study.draws:
        return RandomClusters()
    fits = [
        Fit.of(
            dealt,
            fold,
            geometry=asdict(models.geometry),
            learner=models.learner,
            values=dict(settings[choice.setting]),
            clusters=choice.clusters,
            draws=study.draws,
            seed=study.seed,
            convention=study.data.convention,
        )
        for fold, choice in zip(study.data.folds, chosen.choices, strict=True)
    ]
    study.fits.run_more(fits)
    results = [study.of(fit) for fit in fits]
    routed, best = [], []
    for draw in range(study.draws):
        of_draw = [
            _drawn(one, found, draw, study.seed, choice.clusters)
            for one, found, choice in zip(transfers, results, chosen.choices, strict=True)
        ]
        routed.append(
            np.concatenate(
                [
                    one.of_nodes("test", 0, one.routed("test", choice.clusters, by))
                    for one, choice in zip(of_draw, chosen.choices, strict=True)
                ]
            )
        )
        best.append(
            np.concatenate(
                [
                    one.clairvoyant("test", 0, choice.clusters)
                    for one, choice in zip(of_draw, chosen.choices, strict=True)
                ]
            )
        )
    return RandomClusters(tuple(routed), tuple(best))


def _drawn(real: Transfer, found: Arrays, draw: int, seed: int, clusters: int) -> Transfer:
    """Return the models of one draw as those of a shuffled tree."""
    tree = real.near.tree.shuffled(seed, draw)
    nodes = np.append(np.unique(tree.cut(clusters)), tree.root)
    figures = np.concatenate([found["figures"][draw], found["everything"][None]])
    return Transfer(real.near, tree, nodes, {"test": figures[None]}, np.zeros(len(nodes), np.bool_))


# ------------------------------------------------------------------------------------------------
# Several ways to say which queries are alike, or where a query belongs, side by side: LocalRank's Figures 9, 10 and our ablations.
#
# Every way has the same learner, the same settings and numbers of clusters to choose from, and the same validation queries. All are
# compared with one model for all queries.


@dataclass(frozen=True, slots=True)
class Contender:
    """One way.

    Attributes:
        name: for people.
        models: of its dendrogram; at least those of the candidates, learned by the settings among others.
        by: how a query finds its cluster.
    """

    name: str
    models: Models
    by: Assignment = "nearest"


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The result of one way on the test queries.

    Attributes:
        contender: the way.
        local: clusters and settings chosen on validation queries, one cluster a candidate.
        split: two clusters at least.
        hindsight: MAP by the number of clusters that is best on the test queries, and that number; as the paper's Figures 9 and 10.
        clairvoyant: ``[n_queries, n_metrics]`` by the best of the clusters of `split`.
        elsewhere: of every draw of random routing over these.
        random: of random clusters.
    """

    contender: Contender
    local: Chosen
    split: Chosen
    hindsight: tuple[float, int]
    clairvoyant: Vector
    elsewhere: tuple[Vector, ...]
    random: RandomClusters


def fits_of(study: Study, contenders: Sequence[Contender]) -> list[Fit]:
    """Return the fits of all ways."""
    folds = study.data.folds
    fits = [one.models.geometry.fit(fold) for one in contenders for fold in folds]
    return fits + [one.models.fit(fold, study.data.convention) for one in contenders for fold in folds]


def held(
    study: Study, contender: Contender, candidates: Sequence[int], settings: Sequence[Mapping[str, Any]]
) -> Held:
    """Choose for one way, and measure."""
    models, by = contender.models, contender.by
    places = [models.settings.index(one) for one in settings]
    transfers = [one.only(places) for one in transfers_of(study, models)]
    candidates = [one for one in candidates if all(one <= len(transfer.tree) for transfer in transfers)]
    local = choose(transfers, candidates, by=by)
    split = choose(transfers, [one for one in candidates if one > 1], by=by)
    means = [float(choose(transfers, [one], by=by).figures[:, 0].mean()) for one in candidates]
    best = int(np.argmax(means))
    return Held(
        contender,
        local,
        split,
        (means[best], candidates[best]),
        clairvoyant_of(transfers, split),
        tuple(routed_at_random(transfers, split, study.seed, draw) for draw in range(study.draws)),
        random_clusters(study, models, settings, transfers=transfers, chosen=split, by=by),
    )


def compare(
    study: Study,
    contenders: Sequence[Contender],
    candidates: Sequence[int],
    settings: Sequence[Mapping[str, Any]],
    *,
    title: str,
    reference: str,
    says: str,
    printed: Sequence[Table] = (),
) -> Findings:
    """Compare all ways with one model, and with one of them.

    Args:
        study: the data and the draws.
        contenders: the ways; the models of the first are those of the one model, too.
        candidates: numbers of clusters; 1 is among them.
        settings: of the learner.
        title: of the figure's own table.
        reference: name of the way that the others are also compared with.
        says: what the paper saw.
        printed: the paper's own numbers.
    """
    first = contenders[0].models
    places = [first.settings.index(one) for one in settings]
    one = choose([transfer.only(places) for transfer in transfers_of(study, first)], [1]).figures
    ways = [held(study, contender, candidates, settings) for contender in contenders]
    by_name = {way.contender.name: way for way in ways}
    against = [
        Pair(f"{name} − one model", way.local.figures[:, 0], one[:, 0]) for name, way in by_name.items()
    ]
    base = by_name[reference]
    beside = [
        Pair(f"{reference} − {name}", base.local.figures[:, 0], way.local.figures[:, 0])
        for name, way in by_name.items()
        if name != reference
    ]
    controls = _controlled(ways) if study.draws else []
    others = [
        Pair(f"{name} − one model, {metric}", way.local.figures[:, column], one[:, column])
        for name, way in by_name.items()
        for column, metric in enumerate(METRICS)
        if column
    ]
    tables = [
        Table(
            title,
            (
                "",
                *METRICS,
                "folds that choose one cluster",
                "map, two clusters at least",
                "map, best number in hindsight",
                "that number",
                "clairvoyant, map",
            ),
            [("one model", *means_of(one), None, None, None, None, None), *map(_row, ways)],
            f"Number of clusters ({', '.join(map(str, candidates))}) and setting of the learner by MAP on validation queries, fold by "
            "fold. The column of hindsight takes the number of clusters that is best on the test queries, as the paper's Figures 9 "
            "and 10 do; it is no estimate.",
        ),
        *printed,
        paired_table(
            "MAP beside one model", against, "All rows are adjusted together (Holm).", seed=study.seed
        ),
        *([paired_table(f"MAP of {reference} beside the others", beside, seed=study.seed)] if beside else []),
        paired_table("NDCG beside one model", others, seed=study.seed),
    ]
    if study.draws:
        tables += [
            _draws_table(ways, study.draws),
            paired_table("MAP, two clusters at least, beside controls", controls, _CONTROLS, seed=study.seed),
            _flips_table(study, ways),
        ]
    sentences = [
        f"MAP beside one model, {float(one[:, 0].mean()):.4f}: {sides_of(_short(against, ' − one model'))}.",
        *(
            [f"MAP of {reference} beside the others: {sides_of(_short(beside, '', reference + ' − '))}."]
            if beside
            else []
        ),
        _hindsight_says(ways, float(one[:, 0].mean())),
        says,
    ]
    if study.draws:
        sentences.append(f"Two clusters at least, beside controls: {sides_of(controls)}.")
    return Findings(tables, [_plot(ways, one, study.draws)], sentences)


def _short(pairs: Sequence[Pair], end: str, begin: str = "") -> list[Pair]:
    """Return the comparisons without what is the same in all their names."""
    return [pair._replace(name=pair.name.removesuffix(end).removeprefix(begin)) for pair in pairs]


_CONTROLS = (
    "Random clusters are as many and as large as the real ones, with the same setting of the learner; random routing is over the "
    "real clusters. Controls are means over the draws, query by query."
)


def _controlled(ways: Sequence[Held]) -> list[Pair]:
    pairs = []
    for way in ways:
        name, own = way.contender.name, way.split.figures[:, 0]
        pairs += [
            Pair(
                f"{name} − random clusters", own, np.mean([one[:, 0] for one in way.random.figures], axis=0)
            ),
            Pair(f"{name} − random routing", own, np.mean([one[:, 0] for one in way.elsewhere], axis=0)),
            Pair(
                f"{name}, clairvoyant − clairvoyant among random clusters",
                way.clairvoyant[:, 0],
                np.mean([one[:, 0] for one in way.random.clairvoyant], axis=0),
            ),
        ]
    return pairs


def _row(way: Held) -> tuple[object, ...]:
    return (
        way.contender.name,
        *means_of(way.local.figures),
        way.local.one_cluster,
        float(way.split.figures[:, 0].mean()),
        *way.hindsight,
        float(way.clairvoyant[:, 0].mean()),
    )


def _hindsight_says(ways: Sequence[Held], one: float) -> str:
    listed = ", ".join(f"{way.contender.name} {way.hindsight[0] - one:+.4f}" for way in ways)
    return f"With the number of clusters chosen in hindsight, above one model by: {listed}. No ranker that serves can know that number."


def _draws_table(ways: Sequence[Held], draws: int) -> Table:
    rows: list[tuple[object, ...]] = []
    for way in ways:
        several = (
            ("random clusters", way.random.figures),
            ("random routing", way.elsewhere),
            ("clairvoyant among random clusters", way.random.clairvoyant),
        )
        for name, figures in several:
            means = [float(one[:, 0].mean()) for one in figures]
            rows.append((way.contender.name, name, float(np.mean(means)), *spread_of(means)))
    return Table(
        f"MAP of the controls, {draws} draws",
        ("", "control", "mean of the draws", "5 % of them below", "95 % below"),
        rows,
    )


def _flips_table(study: Study, ways: Sequence[Held]) -> Table:
    routed = [way for way in ways if not way.contender.models.geometry.own_components]
    fits = {
        way.contender.name: [
            Fit.of(
                flips,
                fold,
                geometry=asdict(way.contender.models.geometry),
                clusters=choice.clusters,
                seed=study.seed,
            )
            for fold, choice in zip(study.data.folds, way.split.choices, strict=True)
        ]
        for way in routed
    }
    study.fits.run_more([fit for some in fits.values() for fit in some])
    sizes = np.array([len(fold.test) for fold in study.data.folds])
    rows: list[tuple[object, ...]] = []
    for name, some in fits.items():
        rates = [
            float(np.average([float(study.of(fit)[change]) for fit in some], weights=sizes))
            for change in CHANGES
        ]
        rows.append((name, *rates))
    return Table(
        "Share of test queries that a small change sends to another cluster",
        ("", *(change.replace("_", " ") for change in CHANGES)),
        rows,
        "Two clusters at least; queries go to the cluster of their nearest training query.",
    )


def _plot(ways: Sequence[Held], one: Vector, draws: int) -> Plot:
    names = [way.contender.name for way in ways]
    level = float(one[:, 0].mean())
    values = [float(way.local.figures[:, 0].mean()) for way in ways]
    ends = [interval_around(way.local.figures[:, 0], one[:, 0]) for way in ways]
    kinds = [
        Kind(
            "chosen on validation queries",
            names,
            values,
            [low for low, _ in ends],
            [high for _, high in ends],
        ),
        Kind("best number of clusters in hindsight", names, [way.hindsight[0] for way in ways]),
    ]
    if draws:
        means = [[float(one[:, 0].mean()) for one in way.random.figures] for way in ways]
        spreads = [spread_of(one) for one in means]
        kinds.append(
            Kind(
                "random clusters, two at least",
                names,
                [float(np.mean(one)) for one in means],
                [low for low, _ in spreads],
                [high for _, high in spreads],
            )
        )
    return Plot(
        "MAP of local models by what makes queries alike",
        "If an interval crosses the line of one model, there is no clear difference.",
        x=Axis("", categories=names),
        y=Axis("MAP, mean over test queries"),
        marks=[*side_by_side(names, kinds), Level("one model", level)],
        intervals="95 % of the paired difference from one model"
        + (f"; of random clusters nine tenths of {draws} draws" if draws else ""),
        sideways=True,
    )
