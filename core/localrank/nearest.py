"""Which training query is nearest to a query, and how far it is ahead of any other cluster.

`search_of` takes the compiled comparison of `localrank.native.nearest` for eq. 5 if there is a library, else the one in
numpy, which finds the same up to rounding in float32. Of equally near ones the first is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np

from localrank.errors import ArtifactCorrupt
from localrank.measures import one_to_many
from localrank.native.library import library
from localrank.native.nearest import TrainingQueries

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.native.nearest import Found
    from localrank.representation import Point, Points
    from localrank.signature import Signature, Signatures


class Nearest(NamedTuple):
    """The nearest training query.

    Attributes:
        cluster: whose it is.
        similarity: how near.
        margin: lead of this similarity over the nearest query of any other cluster; ``None`` if there is no other
            cluster.
    """

    cluster: int
    similarity: float
    margin: float | None


class Search(Protocol):
    """Compares a query with training queries."""

    def among_all(self, point: Any, /) -> Nearest: ...

    def among(self, point: Any, which: Indices, /) -> Nearest:
        """Compare with these training queries only; there must be at least one."""
        ...


def search_of(points: Points, clusters: Indices, similarity: str) -> Search:
    """Return the fastest search that this machine has."""
    if similarity == "eq5" and len(points) and library() is not None:
        return CompiledSearch(cast("Signatures", points), clusters)
    return NumpySearch(points, clusters, similarity)


class NumpySearch:
    """Any similarity of any points."""

    def __init__(self, points: Points, clusters: Indices, similarity: str) -> None:
        self._points, self._similarity = points, similarity
        self._clusters = np.asarray(clusters)

    def among_all(self, point: Point, /) -> Nearest:
        return _nearest(one_to_many(point, self._points, self._similarity), self._clusters)

    def among(self, point: Point, which: Indices, /) -> Nearest:
        similarities = one_to_many(point, self._points.take(which), self._similarity)
        return _nearest(similarities, self._clusters[which])


def _nearest(similarities: Vector, clusters: Indices) -> Nearest:
    best = int(np.argmax(similarities))
    cluster = int(clusters[best])
    others = similarities[clusters != cluster]
    margin = float(similarities[best] - others.max()) if len(others) else None
    return Nearest(cluster, float(similarities[best]), margin)


class CompiledSearch:
    """Eq. 5, read where the training queries lie in memory; other threads run meanwhile."""

    def __init__(self, signatures: Signatures, clusters: Indices) -> None:
        self._training = TrainingQueries(signatures.directions, signatures.ranks, clusters)

    def among_all(self, signature: Signature, /) -> Nearest:
        return _checked(self._training.nearest(signature.directions, signature.rank))

    def among(self, signature: Signature, which: Indices, /) -> Nearest:
        return _checked(self._training.nearest(signature.directions, signature.rank, which))


def _checked(found: Found | None) -> Nearest:
    if found is None:
        raise ArtifactCorrupt("the training queries' directions hold no numbers")
    cluster, similarity, other = found
    return Nearest(cluster, similarity, None if other == -np.inf else similarity - other)
