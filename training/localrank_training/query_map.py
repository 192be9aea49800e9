r"""The training queries in two dimensions: near each other if their documents are alike.

With ``S [n, n]`` the similarities of all pairs and ``J = I - 1/n`` the centring matrix, the coordinates are the first two
eigenvectors of :math:`B = J S J`, each times the root of its eigenvalue. That is classical scaling [torgerson1952] of the squared distances
:math:`2 (1 - S_{ij})`: among all pictures in two dimensions it keeps the scalar products of ``B`` best. Signs are settled by the
largest coordinate, which is positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh

from localrank.measures import all_pairs

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.representation import Points

__all__ = ["QueryMap", "query_map"]

#: Queries on a map, at most; more would not be told apart.
MOST = 1000


@dataclass(frozen=True, slots=True, eq=False)
class QueryMap:
    """Where queries are.

    Attributes:
        queries: ``[n]`` positions of the queries that are on the map, ascending.
        coordinates: ``[n, 2]``, both centred.
        shown: the share of what the similarities tell that two dimensions show, from 0 to 1.
    """

    queries: Indices
    coordinates: Vector
    shown: float


def query_map(points: Points, similarity: str, *, most: int = MOST, seed: int = 0) -> QueryMap:
    """Return the map of some queries' points.

    Args:
        points: of the queries. Those that cannot be compared have no place.
        similarity: the name in `localrank.measures.MEASURES`.
        most: of more queries so many are drawn.
        seed: of the draw.
    """
    known = np.flatnonzero(np.asarray(points.known))
    if len(known) > most:
        known = np.sort(np.random.default_rng(seed).choice(known, most, replace=False))
    if len(known) < 2:
        return QueryMap(known, np.zeros((len(known), 2)), 0.0)
    similarities = np.asarray(all_pairs(points.take(known), similarity), np.float64)
    rows = similarities.mean(axis=1)
    centred = similarities - rows[:, None] - rows[None, :] + rows.mean()
    last = len(known) - 1
    values, vectors = eigh(centred, subset_by_index=[max(last - 1, 0), last])
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    largest = vectors[np.abs(vectors).argmax(axis=0), range(vectors.shape[1])]
    coordinates = vectors * np.sign(largest) * np.sqrt(values)
    # A similarity that is no scalar product has negative eigenvalues; the squares count all of it.
    whole = float((centred**2).sum())
    shown = float((values**2).sum()) / whole if whole > 0 else 0.0
    return QueryMap(known, np.round(coordinates, 6) + 0.0, min(shown, 1.0))
