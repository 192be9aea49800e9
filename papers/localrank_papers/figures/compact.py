"""Few prototypes of each cluster instead of all its queries, as LocalRank's conclusion proposes to store.

The clusters and their models stay as they are; only what a query is compared with changes. ``k`` prototypes of a cluster are chosen
one after the other, each so that the cluster's queries are as similar as possible to the nearest prototype. Each mean
direction of a cluster is a unit vector: the one that is most parallel to this direction of all queries of the cluster.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from localrank.points.signature import Signatures
from localrank.points.similarity import one_to_many
from localrank_papers.figures.fits import Fit
from localrank_papers.figures.geometry import Geometry, tree_of
from localrank_papers.figures.paired import Pair, interval_around, means_of, paired_table, verdict_of
from localrank_papers.figures.study import Findings, beside, spread_of
from localrank_papers.figures.transfer import METRICS, choose, figures_of, transfers_of
from localrank_training.report import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Indices, Vector
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_papers.figures.study import Study
    from localrank_papers.figures.transfer import Choice, Models, Transfer

#: Prototypes of a cluster.
COUNTS = (1, 2, 4, 8)


def prototypes(similarities: Vector, count: int) -> Indices:
    """Return at most ``count`` members of a cluster, so that all other members are near one of them.

    Args:
        similarities: ``[n, n]`` of the cluster's queries among themselves.
        count: how many.
    """
    chosen: list[int] = []
    nearest = np.full(len(similarities), -np.inf)
    for _ in range(min(count, len(similarities))):
        reached = np.maximum(nearest[:, None], similarities).sum(axis=0)
        reached[chosen] = -np.inf
        chosen.append(int(np.argmax(reached)))
        nearest = np.maximum(nearest, similarities[:, chosen[-1]])
    return np.array(chosen, np.int64)


def mean_directions(signatures: Signatures) -> Signatures:
    """Return the directions that are most parallel to the directions of several queries, as one signature."""
    _, components, features = signatures.directions.shape
    directions = np.zeros((1, components, features), np.float32)
    for component in range(components):
        rows = np.asarray(signatures.directions[:, component], np.float64)
        # The first right singular vector: the sign of a direction says nothing.
        directions[0, component] = np.linalg.svd(rows, full_matrices=False)[2][0]
    return Signatures(
        directions,
        np.asarray(signatures.eigenvalues).mean(axis=0, keepdims=True),
        np.max(np.asarray(signatures.ranks), keepdims=True),
    )


def by_mean_directions(fold: Fold, *, geometry: Mapping[str, Any], clusters: int) -> Arrays:
    """Compare the test queries with the mean directions of every cluster: ``[n_queries, clusters]``, in the order of the nodes."""
    settings = Geometry(**geometry)
    tree = tree_of(fold, **geometry)
    train, test = (cast("Signatures", one) for one in settings.points_of(fold, fold.train, fold.test))
    means = [
        mean_directions(train.take(tree.members(node))) for node in np.unique(tree.cut(clusters)).tolist()
    ]
    among = Signatures(
        *(
            np.concatenate([getattr(one, name) for one in means])
            for name in ("directions", "eigenvalues", "ranks")
        )
    )
    found = np.zeros((len(test), clusters))
    for query in np.flatnonzero(test.known).tolist():
        found[query] = one_to_many(test.of(query), among, settings.similarity)
    return {"similarities": found}


def by_prototypes(
    one: Transfer, clusters: int, count: int, rng: np.random.Generator | None = None
) -> Indices:
    """Return ``[n_queries]`` the node of the nearest prototype of every test query. With a generator, random members
    replace the prototypes.
    """
    cut = one.tree.cut(clusters)
    kept: list[int] = []
    for node in np.unique(cut).tolist():
        leaves = np.flatnonzero(cut == node)
        if rng is None:
            chosen = prototypes(one.near.among[np.ix_(leaves, leaves)], count)
        else:
            chosen = rng.permutation(len(leaves))[:count]
        kept += leaves[chosen].tolist()
    nearest = one.near.similarities["test"][:, kept].argmax(axis=1)
    return np.where(one.near.known["test"], cut[np.array(kept)][nearest], one.tree.root)


def compare(study: Study, models: Models, candidates: Sequence[int]) -> Findings:
    """Route by few prototypes and by mean directions, and compare with all training queries."""
    transfers = transfers_of(study, models)
    within = [one for one in candidates if all(one <= len(part.tree) for part in transfers)]
    split = choose(transfers, [one for one in within if one > 1])
    single = choose(transfers, [1]).figures
    routes = [
        one.routed("test", choice.clusters) for one, choice in zip(transfers, split.choices, strict=True)
    ]
    fits = [
        Fit.of(by_mean_directions, fold, geometry=asdict(models.geometry), clusters=choice.clusters)
        for fold, choice in zip(study.data.folds, split.choices, strict=True)
    ]
    study.fits.run_more(fits)
    ways: dict[str, tuple[list[Indices], float]] = {}
    for count in COUNTS:
        nodes = [
            by_prototypes(one, choice.clusters, count)
            for one, choice in zip(transfers, split.choices, strict=True)
        ]
        stored = np.mean(
            [
                _stored(one, choice.clusters, count)
                for one, choice in zip(transfers, split.choices, strict=True)
            ]
        )
        ways[_named(count)] = nodes, float(stored)
    ways["mean directions"] = (
        [
            np.where(
                one.near.known["test"],
                np.unique(one.tree.cut(choice.clusters))[study.of(fit)["similarities"].argmax(axis=1)],
                one.tree.root,
            )
            for one, choice, fit in zip(transfers, split.choices, fits, strict=True)
        ],
        float(
            np.mean(
                [
                    choice.clusters / len(one.tree)
                    for one, choice in zip(transfers, split.choices, strict=True)
                ]
            )
        ),
    )
    figures = {name: _figures(transfers, split.choices, nodes) for name, (nodes, _) in ways.items()}
    pairs = [Pair(f"{name} − all queries", one[:, 0], split.figures[:, 0]) for name, one in figures.items()]
    pairs.append(Pair("all queries − one model", split.figures[:, 0], single[:, 0]))
    same = {
        name: float(np.mean(np.concatenate(nodes) == np.concatenate(routes)))
        for name, (nodes, _) in ways.items()
    }
    rows: list[tuple[object, ...]] = [("all training queries", *means_of(split.figures), 1.0, 1.0)]
    rows += [(name, *means_of(figures[name]), same[name], stored) for name, (_, stored) in ways.items()]
    tables = [
        Table(
            "Routing by less than all training queries; means over the test queries",
            ("compared with", *METRICS, "same cluster as by all", "numbers stored, of all"),
            rows,
            "Clusters and settings as chosen on validation queries with all training queries, two clusters at least: "
            + ", ".join(str(choice.clusters) for choice in split.choices)
            + ".",
        ),
        paired_table("MAP, paired", pairs, "All rows are adjusted together (Holm).", seed=study.seed),
    ]
    if study.draws:
        tables.append(_random_members(study, transfers, split.choices))
    plot = beside(
        "MAP by what a query is compared with",
        "If a few prototypes route as well, the others need not be kept.",
        {
            name: (float(one[:, 0].mean()), *interval_around(one[:, 0], split.figures[:, 0]))
            for name, one in {"all training queries": split.figures, **figures}.items()
        },
        ("one model", float(single[:, 0].mean())),
        intervals="95 % of the paired difference from all training queries",
    )
    return Findings(
        tables,
        [plot],
        [
            f"MAP: {'; '.join(map(verdict_of, pairs))}.",
            (
                f"One prototype for each cluster sends {same[_named(1)]:.0%} of the test queries where all training queries do, "
                f"{COUNTS[-1]} send {same[_named(COUNTS[-1])]:.0%}, mean directions {same['mean directions']:.0%}."
            ),
            "The paper proposes a compact form of a cluster in its conclusion and reports nothing.",
        ],
    )


def _named(count: int) -> str:
    return "1 prototype" if count == 1 else f"{count} prototypes"


def _stored(one: Transfer, clusters: int, count: int) -> float:
    sizes = np.unique(one.tree.cut(clusters), return_counts=True)[1]
    return float(np.minimum(sizes, count).sum() / len(one.tree))


def _figures(transfers: Sequence[Transfer], choices: Sequence[Choice], nodes: Sequence[Indices]) -> Vector:
    by_fold = dict(zip(map(id, transfers), nodes, strict=True))
    return figures_of(transfers, choices, lambda one, _part, _clusters: by_fold[id(one)])


def _random_members(study: Study, transfers: Sequence[Transfer], choices: Sequence[Choice]) -> Table:
    rows = []
    for count in COUNTS:
        means = []
        for draw in range(study.draws):
            rng = np.random.default_rng([study.seed, draw, count])
            nodes = [
                by_prototypes(one, choice.clusters, count, rng)
                for one, choice in zip(transfers, choices, strict=True)
            ]
            means.append(float(_figures(transfers, choices, nodes)[:, 0].mean()))
        rows.append((_named(count), float(np.mean(means)), *spread_of(means)))
    return Table(
        f"MAP by random members in place of prototypes, {study.draws} draws",
        ("", "mean of the draws", "5 % of them below", "95 % below"),
        rows,
    )
