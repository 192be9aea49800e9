"""Choices by validation queries, made in the same way on both sides of every comparison, and their figures on test queries.

Number of clusters and settings of the learner are chosen together, fold by fold, by the mean metric on the validation queries.
One cluster is a candidate like others; of equally good candidates the one with fewer clusters is taken. Test queries of all
folds are pooled: the queries are what was sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank.metrics import Convention, Measured, Metric
from localrank_papers.figures.transfer import METRICS, Transfer
from localrank_training.comparisons import compare_family

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank.arrays import Indices, Vector
    from localrank_papers.figures.role import Study
    from localrank_papers.figures.transfer import Assignment, Models, Part
    from localrank_training.comparisons import Comparison

_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen in one fold."""

    clusters: int
    setting: int


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """What was chosen in each fold, and the resulting figures.

    Attributes:
        choices: by fold.
        figures: ``[n_queries, n_metrics]`` of the test queries of all folds.
    """

    choices: tuple[Choice, ...]
    figures: Vector

    @property
    def one_cluster(self) -> int:
        """In how many folds one model for all queries was chosen."""
        return sum(choice.clusters == 1 for choice in self.choices)


def transfers_of(study: Study, models: Models) -> list[Transfer]:
    """Return the figures of every fold."""
    return [Transfer.of(study, models, fold) for fold in study.data.folds]


def choose(
    transfers: Sequence[Transfer],
    candidates: Sequence[int],
    *,
    metric: str = "map",
    by: Assignment = "nearest",
) -> Chosen:
    """Choose number of clusters and settings in every fold by its validation queries.

    Args:
        transfers: of the folds.
        candidates: numbers of clusters; those beyond the number of training queries are left out.
        metric: whose mean is maximised.
        by: how a query finds its cluster.
    """
    column = METRICS.index(metric)
    choices, parts = [], []
    for one in transfers:
        tried: list[tuple[float, Choice]] = []
        for clusters in sorted(candidates):
            if clusters <= len(one.tree):
                nodes = one.routed("validation", clusters, by)
                tried += [
                    (
                        float(one.of_nodes("validation", setting, nodes)[:, column].mean()),
                        Choice(clusters, setting),
                    )
                    for setting in range(len(one.figures["validation"]))
                ]
        # If several are best, `max` returns the first.
        _, choice = max(tried, key=lambda pair: pair[0])
        choices.append(choice)
        parts.append(one.of_nodes("test", choice.setting, one.routed("test", choice.clusters, by)))
    return Chosen(tuple(choices), np.concatenate(parts))


def figures_of(
    transfers: Sequence[Transfer],
    choices: Sequence[Choice],
    nodes: Callable[[Transfer, Part, int], Indices],
) -> Vector:
    """Return ``[n_queries, n_metrics]`` of all test queries by given choices, routed by ``nodes(transfer, part, clusters)``."""
    return np.concatenate(
        [
            one.of_nodes("test", choice.setting, nodes(one, "test", choice.clusters))
            for one, choice in zip(transfers, choices, strict=True)
        ]
    )


def clairvoyant_of(transfers: Sequence[Transfer], chosen: Chosen) -> Vector:
    """Return ``[n_queries, n_metrics]`` of all test queries, each by the best of the clusters that were chosen."""
    return np.concatenate(
        [
            one.clairvoyant("test", choice.setting, choice.clusters)
            for one, choice in zip(transfers, chosen.choices, strict=True)
        ]
    )


def compared(candidate: Vector, baseline: Vector, convention: str, seed: int = 0) -> tuple[Comparison, ...]:
    """Compare two rankings of the same queries by all metrics, which are one family (Holm)."""
    return compare_family(_measured(candidate, convention), _measured(baseline, convention), seed=seed)


def _measured(figures: Vector, convention: str) -> list[Measured]:
    return [
        Measured(
            Metric.parse(metric), Convention.named(convention), column, float(column.mean()), len(column), 0
        )
        for metric, column in zip(METRICS, figures.T, strict=True)
    ]


def said(comparison: Comparison, ours: str, theirs: str) -> str:
    """Say what a comparison shows, and no more."""
    what = f"{comparison.metric.upper()} {comparison.candidate:.4f} against {comparison.baseline:.4f}"
    by = f"difference {comparison.difference:+.4f}, 95 % interval {comparison.interval_text}, p {comparison.p_holm:.3f} (Holm)"
    interval = comparison.interval
    if interval is None:
        return f"{ours} and {theirs}: {what}; {comparison.interval_text}."
    if interval.low <= 0 <= interval.high:
        return f"{ours} and {theirs} cannot be told apart: {what}, {by}."
    better = "better" if interval.low > 0 else "worse"
    if comparison.p_holm > _LEVEL:
        return (
            f"{ours}: {better} than {theirs} by the interval, but not after Holm's correction: {what}, {by}."
        )
    return f"{ours}: {better} than {theirs}: {what}, {by}."
