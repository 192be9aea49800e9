"""The gain from more judged queries for this configuration: models that learn from fewer queries are measured on the
same queries.

The queries fall into folds. For each fold, whole training runs learn from a share of the other folds' queries, every choice
included, and are examined on the fold: so nothing in a figure has seen the query that it scores, and all shares are examined on
the same queries. A smaller share is part of every larger one. The largest run has two thirds of the queries, so the published
model, which has learned from all, should be a little better than the end of the curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData
from localrank.metrics import measure
from localrank_training.evaluation.comparisons import compare
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.parallel.processes import silent
from localrank_training.run.choosing import folds_of
from localrank_training.run.train import plan_for, train

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Indices
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.comparisons import Comparison
    from localrank_training.parallel.processes import Progress
    from localrank_training.settings.config import TrainingConfig

METRIC, CONVENTION = "ndcg@10", "standard"
_FOLDS = 3
SHARES = (0.125, 0.25, 0.5, 1.0)
#: Queries with documents of different labels that a run needs.
_FEWEST = 8


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """How good models are that learned from this many queries.

    Attributes:
        queries: that a model learned from, on average over the folds.
        mean: of the metric.
        behind: the largest models against these; None for the largest.
    """

    queries: float
    mean: float
    behind: Comparison | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "queries": self.queries,
            METRIC: self.mean,
            "behind": None if self.behind is None else self.behind.to_json(),
        }


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Points from few queries to many.

    Attributes:
        examined: how many queries were examined.
        points: at least two.
        doubling: the largest models against those of half as many queries.
    """

    examined: int
    points: tuple[CurvePoint, ...]
    doubling: Comparison

    @property
    def sentence(self) -> str:
        """What it comes to."""
        found, less, more = self.doubling, self.points[-2].queries, self.points[-1].queries
        moved = "changed" if found.difference < 0 else "rose"
        said = f"From {less:.0f} to {more:.0f} queries, {METRIC} {moved} by {found.difference:+.4f}"
        if found.interval is None:
            return f"{said} ({found.interval_text}): too few queries to say whether more would help."
        if found.interval.low > 0:
            return (
                f"{said} {found.interval}: more judged queries would help. Twice as many would probably bring "
                "less than that."
            )
        if found.interval.high < 0:
            return (
                f"{said} {found.interval}: more queries made it worse, so look at the labels of the new ones."
            )
        return (
            f"{said} {found.interval}: this is not clearly a rise. A rise of {found.detectable:.4f} would "
            "have been found, so twice as many queries would hardly bring more than that."
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "metric": METRIC,
            "examined": self.examined,
            "points": [point.to_json() for point in self.points],
            "sentence": self.sentence,
        }


def learning_curve(
    queries: QuerySet,
    config: TrainingConfig,
    *,
    workers: int = 1,
    progress: Progress = silent,
) -> LearningCurve | None:
    """Train on growing shares of the queries; `None` if there are too few for two of them."""
    runs = list(_runs(queries, config.seed))
    # Larger shares take longer: documents tell the time that is left better than runs do.
    work = [0, *np.cumsum([int(queries.lengths[training].sum()) for _, training, _ in runs]).tolist()]
    scores: dict[float, list[Any]] = {}
    for done, (share, training, held_out) in enumerate(runs):
        progress("learning curve", work[done], work[-1])
        try:
            trained = train(queries.select(training), config, workers=workers)
        except InvalidData:
            # Too few queries for this configuration: the curve begins with more.
            scores[share] = []
            continue
        scores.setdefault(share, []).append(rank_all(trained.built.ranker, queries.select(held_out)).scores)
    progress("learning curve", work[-1], work[-1])
    whole = {share: found for share, found in scores.items() if len(found) == _FOLDS}
    if 1.0 not in whole or 0.5 not in whole:
        return None
    examined = queries.select(np.concatenate(folds_of(len(queries), _FOLDS, config.seed)))
    measured = {
        share: measure(examined.labels, np.concatenate(found), examined.offsets, [METRIC], CONVENTION)[0]
        for share, found in whole.items()
    }
    behind = {share: compare(measured[1.0], one, seed=config.seed) for share, one in measured.items()}
    points = [
        CurvePoint(
            float(np.mean([len(training) for other, training, _ in runs if other == share])),
            one.mean,
            None if share == 1.0 else behind[share],
        )
        for share, one in sorted(measured.items())
    ]
    return LearningCurve(len(queries), tuple(points), behind[0.5])


def seconds_of_curve(config: TrainingConfig, queries: QuerySet) -> float | None:
    """Return the processor seconds that the curve of a cross-fitted blend is planned to take; `None` for other runs."""
    total = 0.0
    for _, training, _ in _runs(queries, config.seed):
        plan = plan_for(config, queries.select(training))
        if plan is None:
            return None
        total += plan.seconds
    return total


def _runs(queries: QuerySet, seed: int) -> Iterator[tuple[float, Indices, Indices]]:
    """Yield a share, what is learned from and what is examined: each share for each fold, if it has enough to teach."""
    teaches = np.array([len(np.unique(queries.labels_of(query))) > 1 for query in range(len(queries))])
    folds = folds_of(len(queries), _FOLDS, seed)
    for share in SHARES:
        parts = []
        for number, fold in enumerate(folds):
            order = np.random.default_rng([seed, number]).permutation(
                np.setdiff1d(np.arange(len(queries)), fold)
            )
            parts.append(np.sort(order[: round(share * len(order))]))
        if min(int(teaches[training].sum()) for training in parts) >= _FEWEST:
            for training, fold in zip(parts, folds, strict=True):
                yield share, training, fold
