r"""The training queries in two dimensions: near each other if their documents are alike.

With ``S [n, n]`` the similarities of all pairs and ``J = I - 1/n`` the centring matrix, the coordinates are the first two
eigenvectors of :math:`B = J S J`, each times the root of its eigenvalue. That is classical scaling [torgerson1952] of the squared distances
:math:`2 (1 - S_{ij})`: among all pictures in two dimensions it keeps the scalar products of ``B`` best. Signs are settled by the
largest coordinate, which is positive. `localrank.points.similarity` places new queries among them.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh

from localrank.points.similarity import MEASURES, QueryMap, all_pairs
from localrank_training.data.clouds import Clouds

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.points.representation import Points
    from localrank.ranker import Ranker
    from localrank_training.data.queries import QuerySet

#: Queries on a map, at most; more would not be told apart.
MOST = 1000
#: Bytes that the points of a map may take in an artifact whose router holds no training queries.
_ROOM = 4 * 1024**2
#: A map of fewer queries than this shows too little. If the points of this many do not fit, they are left out.
_ENOUGH = 100


def map_of(
    ranker: Ranker, queries: QuerySet, clusters: Indices, similarity: str, *, seed: int = 0
) -> QueryMap | None:
    """Return the map that a version stores; ``None`` if there are not two queries to compare.

    Args:
        ranker: that was learned.
        queries: it was learned from.
        clusters: of these, -1 for those without one; shorter lists may follow.
        similarity: the name in `localrank.points.similarity.MEASURES`.
        seed: of the draw, if there are too many queries.
    """
    labels = np.asarray(clusters)[: len(queries)]
    clustered = np.flatnonzero(labels >= 0)
    if len(clustered) < 2 or not has_places(ranker, similarity):
        return None

    def points_of(chosen: Indices) -> Points:
        clouds = Clouds(queries.select(clustered[chosen]), ranker.contract)
        return ranker.representation.of_all(clouds)

    most, keep = MOST, ranker.router.queries is None
    if keep:
        fits = _ROOM // max(_size(points_of(np.arange(1))), 1)
        keep = fits >= min(len(clustered), _ENOUGH)
        most = min(most, fits) if keep else most
    chosen = np.arange(len(clustered))
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, most, replace=False))
    found = query_map(points_of(chosen), labels[clustered[chosen]], similarity, keep=keep)
    # Its positions count only the queries that were drawn.
    return None if len(found) < 2 else replace(found, queries=chosen[found.queries].astype(np.int32))


def has_places(ranker: Ranker, similarity: str) -> bool:
    """Tell whether queries are more or less alike: kinds that a feature names are equal or not, so they have no places."""
    return issubclass(ranker.representation.points, MEASURES[similarity].takes)


def query_map(
    points: Points,
    clusters: Indices,
    similarity: str,
    *,
    most: int = MOST,
    seed: int = 0,
    keep: bool = False,
) -> QueryMap:
    """Return the map of some queries' points.

    Args:
        points: of the queries. Those that cannot be compared have no place.
        clusters: of the queries.
        similarity: the name in `localrank.points.similarity.MEASURES`.
        most: if there are more queries, this many are drawn.
        seed: of the draw.
        keep: whether the map holds the points.
    """
    known = np.flatnonzero(np.asarray(points.known))
    if len(known) > most:
        known = np.sort(np.random.default_rng(seed).choice(known, most, replace=False))
    taken = points.take(known)
    coordinates, means, shown = np.zeros((len(known), 2)), np.ones(len(known)), 0.0
    if len(known) > 1:
        similarities = np.asarray(all_pairs(taken, similarity), np.float64)
        means = similarities.mean(axis=1)
        coordinates, shown = _scaled(similarities)
    return QueryMap(
        queries=known.astype(np.int32),
        clusters=np.asarray(clusters)[known].astype(np.int32),
        coordinates=np.round(coordinates, 6).astype(np.float32) + np.float32(0),
        means=np.round(means, 6).astype(np.float32),
        similarity=similarity,
        shown=round(shown, 6),
        points=taken if keep else None,
    )


def _scaled(similarities: Vector) -> tuple[Vector, float]:
    """Return the coordinates, and the share of the centred similarities that they show."""
    rows = similarities.mean(axis=1)
    centred = similarities - rows[:, None] - rows[None, :] + rows.mean()
    last = len(rows) - 1
    values, vectors = eigh(centred, subset_by_index=[max(last - 1, 0), last])
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    largest = vectors[np.abs(vectors).argmax(axis=0), range(vectors.shape[1])]
    # If the similarity is not a scalar product, there are negative eigenvalues. Their squares count, too.
    whole = float((centred**2).sum())
    shown = float((values**2).sum()) / whole if whole > 0 else 0.0
    return vectors * np.sign(largest) * np.sqrt(values), min(shown, 1.0)


def _size(points: Any) -> int:
    """Return the bytes of some points' arrays."""
    arrays = (getattr(points, one.name) for one in fields(points))
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
