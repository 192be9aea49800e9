"""How well the model of every cluster ranks every query of a fold: calculated once, used by many figures.

The models are those of the nodes of a dendrogram. For each setting of the learner, `transfer` learns a model for every node, and
measures how it ranks every validation and every test query. Sweeps over the number of clusters, the clairvoyant choice, failure
levels and random routing all read the same figures.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from localrank.errors import InvalidData
from localrank.metrics import Convention, Judgements, Measured, Metric
from localrank_papers.figures.fits import Fit
from localrank_papers.figures.geometry import Geometry, Nearness, contract_of, tree_of
from localrank_training.data.clouds import Clouds
from localrank_training.evaluation.comparisons import compare_family
from localrank_training.learners.catalogue import make
from localrank_training.learners.seen import scores_of
from localrank_training.run.pipeline import lesson_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from localrank.arrays import Indices, Vector
    from localrank.scorers import Scorer
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_papers.figures.geometry import Dendrogram
    from localrank_papers.figures.study import Study
    from localrank_training.evaluation.comparisons import Comparison
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.role import Learner

Part = Literal["validation", "test"]
#: Which cluster a query goes to: the cluster of the most similar training query; the cluster whose members are most
#: similar to it on average; or the one whose least similar member is most like it.
Assignment = Literal["nearest", "average", "farthest"]

METRICS = ("map", "ndcg@1", "ndcg@5", "ndcg@10")


@dataclass(frozen=True, slots=True)
class Models:
    """Which models are learned.

    Attributes:
        geometry: of the dendrogram.
        learner: its name in configuration.
        settings: of the learner; a model is learned by each.
        cuts: numbers of clusters whose nodes get a model; empty for all nodes.
        draw: which shuffling of the training queries over the leaves; None for the dendrogram itself.
        seed: of the shuffling.
    """

    geometry: Geometry
    learner: str
    settings: tuple[Mapping[str, Any], ...]
    cuts: tuple[int, ...] = ()
    draw: int | None = None
    seed: int = 0

    def fit(self, fold: Fold, convention: str) -> Fit:
        """Return the fit of one fold; `Transfer.of` reads it."""
        return Fit.of(
            transfer,
            fold,
            geometry=asdict(self.geometry),
            learner=self.learner,
            settings=[dict(one) for one in self.settings],
            cuts=list(self.cuts),
            draw=self.draw,
            seed=self.seed if self.draw is not None else 0,
            convention=convention,
        )


@dataclass(frozen=True, eq=False)
class School:
    """One fold with one learner: models of any of its training queries, and how they rank the others.

    Attributes:
        learner: of all models.
        lesson: all training queries.
        exams: validation and test queries by part, as the lesson's blocks.
        judged: their labels, by part.
    """

    learner: Learner
    lesson: Lesson
    exams: Mapping[str, Lesson]
    judged: Mapping[str, Judgements]

    @classmethod
    def of(cls, fold: Fold, learner: str, settings: Mapping[str, Any], convention: str) -> School:
        """Prepare a fold for a learner, named as in configuration."""
        contract = contract_of(fold)
        one = make(learner, settings)
        parts = {"validation": fold.validation, "test": fold.test}
        return cls(
            one,
            lesson_of(Clouds(fold.train, contract), None, None, one),
            {name: lesson_of(Clouds(part, contract), None, None, one) for name, part in parts.items()},
            {name: Judgements(part.labels, part.offsets, convention) for name, part in parts.items()},
        )

    @cached_property
    def everything(self) -> Scorer:
        """The model of all training queries, also of those that cannot be compared."""
        return self.learner.fit(self.lesson)

    def taught(self, queries: Indices | None) -> Scorer:
        """Return the model of some training queries; that of all if they teach nothing, or for none."""
        if queries is None:
            return self.everything
        try:
            return self.learner.fit(self.lesson.select(queries))
        except InvalidData:
            return self.everything

    def measured(self, scorer: Scorer, part: str) -> Vector:
        """Return ``[n_queries, n_metrics]`` of the queries of a part."""
        return figures_by(self.judged[part], scores_of(scorer, self.exams[part]))


def figures_by(judged: Judgements, scores: Vector) -> Vector:
    """Return ``[n_queries, n_metrics]`` of a ranking."""
    return np.stack([one.per_query for one in judged.measure(scores, METRICS)], axis=1)


def transfer(
    fold: Fold,
    *,
    geometry: Mapping[str, Any],
    learner: str,
    settings: Sequence[Mapping[str, Any]],
    cuts: Sequence[int],
    draw: int | None,
    seed: int,
    convention: str,
) -> Arrays:
    """Learn a model for every node by every setting, and measure it on every query.

    Returns:
        ``nodes [n_nodes]``; for each part ``[n_settings, n_nodes, n_queries, n_metrics]``; ``global_ [n_nodes]``, which nodes
        teach nothing, so that the model of all training queries stands for them.
    """
    tree = tree_of(fold, **geometry)
    if draw is not None:
        tree = tree.shuffled(seed, draw)
    within = [clusters for clusters in cuts if clusters <= len(tree)]
    nodes = np.union1d(tree.nodes_of(within), [tree.root]) if cuts else np.arange(tree.root + 1)
    parts = {"validation": fold.validation, "test": fold.test}
    shape = (len(settings), len(nodes))
    found = {name: np.empty((*shape, len(part), len(METRICS)), np.float32) for name, part in parts.items()}
    replaced = np.zeros(len(nodes), np.bool_)
    for number, values in enumerate(settings):
        school = School.of(fold, learner, values, convention)
        for place, node in enumerate(nodes.tolist()):
            scorer = school.taught(None if node == tree.root else tree.members(node))
            replaced[place] = node != tree.root and scorer is school.everything
            for name, figures in found.items():
                figures[number, place] = school.measured(scorer, name)
    return {"nodes": nodes, "global_": replaced, **found}


@dataclass(frozen=True, eq=False)
class Transfer:
    """What `transfer` found in one fold, with what is near to every query.

    Attributes:
        near: the dendrogram and the similarities.
        tree: the same dendrogram, or a shuffled one.
        nodes: ``[n_nodes]`` those that have a model.
        figures: by part ``[n_settings, n_nodes, n_queries, n_metrics]``.
        replaced: ``[n_nodes]`` which have the global model, because their queries teach nothing.
    """

    near: Nearness
    tree: Dendrogram
    nodes: Indices
    figures: Mapping[str, Vector]
    replaced: Vector

    @classmethod
    def of(cls, study: Study, models: Models, fold: Fold) -> Transfer:
        """Read the fits of one fold."""
        near = Nearness.of(study.of(models.geometry.fit(fold)))
        found = study.of(models.fit(fold, study.data.convention))
        tree = near.tree if models.draw is None else near.tree.shuffled(models.seed, models.draw)
        figures = {part: found[part] for part in ("validation", "test")}
        return cls(near, tree, found["nodes"], figures, found["global_"])

    def only(self, settings: Sequence[int]) -> Transfer:
        """Return the same with some of the learner's settings."""
        return replace(self, figures={part: found[list(settings)] for part, found in self.figures.items()})

    def routed(self, part: Part, clusters: int, by: Assignment = "nearest") -> Indices:
        """Return ``[n_queries]`` the node that each query goes to when there are this many clusters."""
        cut = self.tree.cut(clusters)
        similarities, known = self.near.similarities[part], self.near.known[part]
        # Leaf by training query: the shuffled tree has the same queries in other places.
        node_of = cut[self.tree.leaf_of(int(self.near.tree.queries.max()) + 1)[self.near.tree.queries]]
        if by == "nearest":
            nodes = node_of[similarities.argmax(axis=1)]
        else:
            wanted = np.unique(node_of)
            of_cluster = np.mean if by == "average" else np.min
            scores = [of_cluster(similarities[:, node_of == node], axis=1) for node in wanted]
            nodes = wanted[np.argmax(scores, axis=0)]
        return np.where(known, nodes, self.tree.root)

    def at_random(self, part: Part, clusters: int, seed: int, draw: int) -> Indices:
        """Return nodes as `routed` does, but each query goes to the node of a random training query."""
        cut = self.tree.cut(clusters)
        n_queries = len(self.near.known[part])
        rng = np.random.default_rng([seed, draw, clusters])
        return cut[rng.integers(len(cut), size=n_queries)]

    def of_nodes(self, part: Part, setting: int, nodes: Indices) -> Vector:
        """Return ``[n_queries, n_metrics]`` of every query by the model of its node."""
        figures = self.figures[part][setting]
        chosen = figures[np.searchsorted(self.nodes, nodes), np.arange(len(nodes))]
        return np.asarray(chosen, np.float64)

    def clairvoyant(self, part: Part, setting: int, clusters: int) -> Vector:
        """Return ``[n_queries, n_metrics]`` of every query by the model of the cluster that is best for it, metric by metric."""
        places = np.searchsorted(self.nodes, np.unique(self.tree.cut(clusters)))
        return np.asarray(self.figures[part][setting][places].max(axis=0), np.float64)


# ------------------------------------------------------------------------------------------------
# Choices by validation queries, made in the same way on both sides of every comparison, and their figures on test queries.
#
# Number of clusters and settings of the learner are chosen together, fold by fold, by the mean metric on the validation queries.
# One cluster is a candidate like others; of equally good candidates the one with fewer clusters is taken. Test queries of all
# folds are pooled: the queries are what was sampled.

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


def routed_at_random(transfers: Sequence[Transfer], chosen: Chosen, seed: int, draw: int) -> Vector:
    """Return ``[n_queries, n_metrics]`` of all test queries, each by a random one of the clusters that were chosen."""
    return figures_of(
        transfers, chosen.choices, lambda one, part, clusters: one.at_random(part, clusters, seed, draw)
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
