"""Which training queries share a model.

A clustering gives every known query a number from 0, by which routers send queries to it, and every model a lesson: the
queries it is learned from, each with a weight. The lessons of hard clusters are the clusters themselves; those of
neighbour models or of soft membership overlap. A query that cannot be compared gets -1 and teaches only the global
scorer. Clusters are numbered by size, the largest first, so that a number means the same from run to run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np

from localrank.points.similarity import all_pairs
from localrank_training.comparing import farthest_members, most_similar, total_similarity
from localrank_training.neighbours import nearest_queries
from localrank_training.partitions import bisecting_kmeans, kmeans, ward
from localrank_training.prototypes import choose_prototypes, local_weights, similarities_to

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.points.representation import Points
    from localrank.points.vectors import VectorPoints
    from localrank_training.prototypes import Locality
    from localrank_training.steps import ClusteringSettings

Link: TypeAlias = Literal["complete", "single", "average"]

#: The cluster of a query that cannot be compared.
NO_CLUSTER = -1


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """The queries of one lesson.

    Attributes:
        queries: positions of the training queries.
        weights: how much each counts; all the same by default.
    """

    queries: Indices
    weights: Vector | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Clustering:
    """Which training queries belong together, and what each model is learned from.

    Attributes:
        labels: ``[n_queries]``, each training query's cluster; -1 is none.
        lessons: one per cluster; they need not be a partition of the queries.
        prototypes: ``[n_clusters]`` the training query that stands for each cluster.
    """

    labels: Indices
    lessons: tuple[Weighted, ...]
    prototypes: Indices

    def __len__(self) -> int:
        """Return the number of clusters."""
        return len(self.lessons)


def cluster(
    points: Points, settings: ClusteringSettings, seed: int = 0, similarity: str = "eq5"
) -> Clustering:
    """Cluster training queries by their points.

    Fewer clusters than asked for come out if fewer queries can be compared.
    """
    known = np.flatnonzero(points.known)
    labels = np.full(len(points), NO_CLUSTER, np.int64)
    if settings.method == "none" or not len(known):
        return partition(labels, points, similarity)
    if settings.method in {"per_query", "knn"}:
        labels[known] = np.arange(len(known))
        return _one_per_query(labels, points, settings, similarity)
    if settings.clusters is None:
        raise ValueError("clusters: expected one chosen number, found candidates")
    wanted = min(settings.clusters, len(known))
    if settings.method == "prototypes":
        (locality,) = settings.localities
        return around(_prototypes(points, settings, wanted, seed, similarity), points, locality, similarity)
    if settings.method == "random":
        found = np.random.default_rng(seed).permutation(np.arange(len(known)) % wanted)
    else:
        found = _of_sample(points.take(known), wanted, settings, seed, similarity)
    labels[known] = _by_size(found)
    return partition(labels, points, similarity)


def _one_per_query(
    labels: Indices, points: Points, settings: ClusteringSettings, similarity: str
) -> Clustering:
    """Return a cluster for each known query, learned from the query and, for ``knn``, those nearest to it."""
    known = np.flatnonzero(labels >= 0)
    members = known[:, None]
    if settings.method == "knn":
        if isinstance(settings.neighbours, tuple):
            raise ValueError("neighbours: expected one chosen number, found several")
        members = known[nearest_queries(points.take(known), settings.neighbours, similarity)]
    return Clustering(labels, tuple(Weighted(np.sort(row)) for row in members), known)


def around(prototypes: Indices, points: Points, locality: Locality, similarity: str = "eq5") -> Clustering:
    """Return the clustering of prototypes: a query's cluster is the nearest one, and every query teaches every model."""
    similarities = similarities_to(points, prototypes, similarity)
    labels = np.where(np.asarray(points.known), similarities.argmax(axis=1), NO_CLUSTER)
    everything = np.arange(len(points))
    lessons = tuple(Weighted(everything, weights) for weights in local_weights(similarities, locality))
    return Clustering(labels, lessons, prototypes)


def _prototypes(
    points: Points, settings: ClusteringSettings, wanted: int, seed: int, similarity: str
) -> Indices:
    """Choose prototypes, in the order of how many queries are nearest to them."""
    known = np.flatnonzero(points.known)
    among = points.take(known)
    found = choose_prototypes(among, wanted, sample=settings.sample, seed=seed, similarity=similarity)
    nearest = similarities_to(among, found, similarity).argmax(axis=1)
    sizes = np.bincount(nearest, minlength=len(found))
    return known[found[np.argsort(-sizes, kind="stable")]]


def partition(labels: Indices, points: Points, similarity: str = "eq5") -> Clustering:
    """Return the clustering whose lessons are the clusters themselves, each with its medoid as prototype."""
    n_clusters = int(labels.max(initial=NO_CLUSTER)) + 1
    lessons = tuple(Weighted(np.flatnonzero(labels == number)) for number in range(n_clusters))
    return Clustering(labels, lessons, medoids(points, labels, similarity))


def medoids(points: Points, clusters: Indices, similarity: str = "eq5") -> Indices:
    """Return the query of each cluster that is most similar to its others on average, ``[n_clusters]``."""
    chosen = []
    for number in range(int(clusters.max(initial=-1)) + 1):
        members = np.flatnonzero(clusters == number)
        # The mean similarity to a few hundred members finds the middle as well as all of them do.
        probe = members[:: max(1, len(members) // 512)]
        among = points.take(members)
        totals = total_similarity(among, points.take(probe), similarity)
        chosen.append(members[int(np.argmax(totals))])
    return np.array(chosen, np.int64)


def _of_sample(
    points: Points, wanted: int, settings: ClusteringSettings, seed: int, similarity: str
) -> Indices:
    """Cluster known queries, or of more than ``sample`` a seeded sample.

    A linkage takes memory quadratic in the queries, so beyond ``sample`` every other query joins the most similar of it, as a
    test query would. With ``beyond = "farthest"`` these groups are then linked by their farthest members instead of by the
    queries of the sample. k-means needs no sample.
    """
    if len(points) <= settings.sample or settings.method in {"kmeans", "bisecting_kmeans"}:
        return _parted(points, wanted, settings, seed, similarity)
    chosen = np.sort(np.random.default_rng(seed).choice(len(points), settings.sample, replace=False))
    part = points.take(chosen)
    groups = most_similar(points, part, similarity)
    # Of two queries that are alike, each stands for itself.
    groups[chosen] = np.arange(len(chosen))
    if settings.method == "complete_link" and settings.beyond == "farthest":
        return linked(farthest_members(points, groups, similarity), wanted)[groups]
    return _parted(part, wanted, settings, seed, similarity)[groups]


def _parted(points: Points, wanted: int, settings: ClusteringSettings, seed: int, similarity: str) -> Indices:
    """Return the cluster of every query by the algorithm that is asked for."""
    if settings.method == "complete_link":
        return _complete_link(points, wanted, similarity)
    vectors = cast("VectorPoints", points).values
    if settings.method == "ward":
        return ward(vectors, wanted)
    if settings.method == "kmeans":
        return kmeans(vectors, wanted, seed)
    return bisecting_kmeans(vectors, wanted, seed, settings.split)


def _complete_link(points: Points, wanted: int, similarity: str) -> Indices:
    """Cut the complete-link dendrogram of ``1 - sim`` (LocalRank, Figure 2) into ``wanted`` clusters."""
    if len(points) == 1:
        return np.zeros(1, np.int64)
    return linked(_distances(points, similarity), wanted)


def linked(distances: Vector, wanted: int) -> Indices:
    """Cut the complete-link dendrogram of these distances, ``[n, n]``, into ``wanted`` clusters."""
    from scipy.cluster.hierarchy import cut_tree

    return np.asarray(cut_tree(_dendrogram(distances, "complete"), wanted)[:, 0], np.int64)


def merges(points: Points, similarity: str, link: Link = "complete") -> Vector:
    """Return the dendrogram of ``1 - sim`` as scipy does: ``[n - 1, 4]``, a row for each merge of two clusters.

    Args:
        points: at least two, all known.
        similarity: one of `localrank.points.similarity`.
        link: the members that give the distance of two clusters: the farthest, the nearest, or all on average.
    """
    return _dendrogram(_distances(points, similarity), link)


def _distances(points: Points, similarity: str) -> Vector:
    distances = np.maximum(1.0 - all_pairs(points, similarity), 0.0)
    np.fill_diagonal(distances, 0.0)
    return distances


def _dendrogram(distances: Vector, link: Link) -> Vector:
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    return np.asarray(linkage(squareform(distances, checks=False), link), np.float64)


def _by_size(clusters: Indices) -> Indices:
    """Renumber by decreasing size; clusters of equal size in the order of their first queries."""
    numbers, first, sizes = np.unique(clusters, return_index=True, return_counts=True)
    rank = np.empty(len(numbers), np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(len(numbers))
    return rank[np.searchsorted(numbers, clusters)]
