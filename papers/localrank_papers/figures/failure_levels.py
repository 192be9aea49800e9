r"""Best-feature calibration: how rankings do on queries on which the baseline fails [kuzi2019; cremers2020].

With :math:`m(q)` the metric of the baseline and :math:`b(q)` the metric of the best single feature, the failure level
of a query is :math:`m(q) - b(q)`, rounded to a tenth; below zero the feature is better. Every ranking's mean is taken
level by level.

**This flatters every other ranking at low levels.** A query gets a low level partly because the baseline had bad luck
with it. Another ranking does not share this bad luck: regression to the mean. There are two remedies. `levels` come
from another run of the baseline than the plotted one. `predicted_levels` use only what is known about a query without
its labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank_training.comparisons import interval_of

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector

#: Levels of a metric from 0 to 1, in tenths.
_TENTHS = 10
#: Of the regression that predicts failure, in units of the mean variance of a column.
_RIDGE = 1.0


@dataclass(frozen=True, slots=True)
class AtLevel:
    """One ranking at one failure level.

    Attributes:
        level: which one.
        queries: how many are there.
        mean: of the metric.
        low, high: of its interval; both the mean if there are too few queries for one.
    """

    level: float
    queries: int
    mean: float
    low: float
    high: float


def levels(baseline: Vector, feature: Vector) -> Vector:
    """Return ``[n_queries]`` failure levels, in steps of a tenth."""
    # Rounded first: 0.15 as a difference of two figures may be a little less.
    tenths = np.round(np.round((baseline - feature) * _TENTHS, 9))
    return np.asarray(tenths / _TENTHS + 0.0, np.float64)


def means_at(places: Vector, figures: Vector) -> list[AtLevel]:
    """Return the mean of ``figures [n_queries]`` at each level of ``places [n_queries]``, the lowest first."""
    found = []
    for level in np.unique(places):
        here = figures[places == level]
        mean = float(here.mean())
        interval = interval_of(here)
        low, high = (mean, mean) if interval is None else (interval.low, interval.high)
        found.append(AtLevel(float(level), len(here), mean, low, high))
    return found


def predicted_levels(points: Vector, failure: Vector, asked: Vector, bins: int = 5) -> tuple[Indices, Vector]:
    """Return the bin ``[n_asked]`` of each query by its predicted failure, 0 the worst, and the prediction itself.

    Ridge regression predicts the lead of the baseline over the feature; it learns from the training queries. The bins
    hold as many queries each.

    Args:
        points: ``[n_queries, width]`` what is known of the training queries without labels.
        failure: ``[n_queries]`` baseline minus feature, of a baseline that has not seen the query.
        asked: ``[n_asked, width]`` the queries to predict for.
        bins: how many.
    """
    centre, scale = points.mean(axis=0), points.std(axis=0)
    scale = np.where(scale > 1e-12, scale, np.inf)
    known, new = (points - centre) / scale, (asked - centre) / scale
    gram = known.T @ known / len(known) + _RIDGE * np.eye(known.shape[1])
    weights = np.linalg.solve(gram, known.T @ (failure - failure.mean()) / len(known))
    predicted = failure.mean() + new @ weights
    order = np.argsort(np.argsort(predicted, kind="stable"), kind="stable")
    return order * bins // max(len(order), 1), predicted
