"""The nearest training queries of every training query, for models of neighbours [geng2008]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.points.similarity import one_to_many

if TYPE_CHECKING:
    from localrank.arrays import Indices
    from localrank.points.representation import Points


def nearest_queries(points: Points, count: int, similarity: str) -> Indices:
    """Return ``[n, count]`` the nearest queries of each, itself first; of equally near ones the first.

    Fewer than ``count`` columns come out if there are fewer queries.
    """
    count = min(count, len(points))
    found = np.empty((len(points), count), np.int64)
    for query in range(len(points)):
        similarities = one_to_many(points.of(query), points, similarity)
        similarities[query] = np.inf
        found[query] = np.argsort(-similarities, kind="stable")[:count]
    return found
