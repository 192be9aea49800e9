"""Random clusters of the sizes that were chosen for real ones: the control of comparisons that choose first.

`controls` gives random clusters the same choices as the real ones, which takes a model for every candidate, setting and draw.
Where many ways to cluster stand side by side, random clusters get what was chosen for the real ones: their number, sizes and
setting. That favours the real ones a little. So if even they do not win, clustering gains nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank_papers.figures.fits import Fit
from localrank_papers.figures.geometry import tree_of
from localrank_papers.figures.transfer import METRICS, School, Transfer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Vector
    from localrank_papers.figures.choosing import Chosen
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_papers.figures.role import Study
    from localrank_papers.figures.transfer import Assignment, Models


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
        Fit(
            dealt,
            fold,
            {
                "geometry": asdict(models.geometry),
                "learner": models.learner,
                "values": dict(settings[choice.setting]),
                "clusters": choice.clusters,
                "draws": study.draws,
                "seed": study.seed,
                "convention": study.data.convention,
            },
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
