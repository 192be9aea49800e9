"""Points of training queries that need their labels: for clustering, never for routing, since a new query has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.vectors import VectorPoints

if TYPE_CHECKING:
    from localrank_training.clouds import Clouds

__all__ = ["relevant_means"]


def relevant_means(clouds: Clouds) -> VectorPoints:
    """Return the mean of each query's normalised documents with a label above 0; a query without any is not known."""
    means = np.zeros((len(clouds), clouds.contract.n_features), np.float32)
    known = np.zeros(len(clouds), np.bool_)
    for query, cloud in enumerate(clouds):
        relevant = clouds.queries.labels_of(query) > 0
        known[query] = relevant.any()
        if known[query]:
            means[query] = cloud.normalised[relevant].mean(axis=0, dtype=np.float64)
    return VectorPoints(means, known)
