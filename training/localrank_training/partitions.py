r"""Clusters of vectors by squared Euclidean distance.

All minimise, each in its way, the scatter :math:`\sum_c \sum_{i \in c} \lVert x_i - \bar x_c \rVert^2`:

- `kmeans` from ten random beginnings, the best of them [lloyd1982];
- `bisecting_kmeans` by splitting one cluster into two again and again [steinbach2000], as Lwin and Kham do. They do not say
  which cluster is split: ``scattered`` takes the one of the largest scatter, ``largest`` the one of most vectors;
- `ward` by merging, from single vectors up, the two clusters that raise the scatter least [ward1963].

Each returns ``[n]`` cluster numbers from 0, at most ``wanted`` of them: vectors that are alike are never parted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Indices, Matrix

Split = Literal["largest", "scattered"]

#: k-means begins this many times at random; the best result counts.
_STARTS = 10
_STRATEGIES: dict[Split, str] = {"largest": "largest_cluster", "scattered": "biggest_inertia"}


def kmeans(vectors: Matrix, wanted: int, seed: int) -> Indices:
    """Cluster ``[n, width]`` by k-means."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    wanted = _possible(vectors, wanted)
    # Threads add in an order of their own, which could decide between two equally near clusters.
    with threadpool_limits(1):
        found = KMeans(wanted, n_init=_STARTS, random_state=seed).fit(vectors.astype(np.float64))
    return np.asarray(found.labels_, np.int64)


def bisecting_kmeans(vectors: Matrix, wanted: int, seed: int, split: Split) -> Indices:
    """Cluster ``[n, width]`` by splitting."""
    from sklearn.cluster import BisectingKMeans
    from threadpoolctl import threadpool_limits

    wanted = _possible(vectors, wanted)
    if wanted == 1:
        return np.zeros(len(vectors), np.int64)
    with threadpool_limits(1):
        found = BisectingKMeans(
            wanted, n_init=_STARTS, random_state=seed, bisecting_strategy=_STRATEGIES[split]
        ).fit(vectors.astype(np.float64))
    return np.unique(found.labels_, return_inverse=True)[1].astype(np.int64)


def ward(vectors: Matrix, wanted: int) -> Indices:
    """Cluster ``[n, width]`` by merging."""
    from scipy.cluster.hierarchy import cut_tree, linkage

    if len(vectors) == 1:
        return np.zeros(1, np.int64)
    tree = linkage(vectors.astype(np.float64), "ward")
    return np.asarray(cut_tree(tree, _possible(vectors, wanted))[:, 0], np.int64)


def _possible(vectors: Matrix, wanted: int) -> int:
    return min(wanted, len(np.unique(vectors, axis=0)))
