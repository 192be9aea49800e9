r"""Which training queries share a model.

A clustering gives every known query a number from 0, by which routers send queries to it, and every model a lesson: the
queries it is learned from, each with a weight. The lessons of hard clusters are the clusters themselves; those of
neighbour models or of soft membership overlap. A query that cannot be compared gets -1 and teaches only the global
scorer. Clusters are numbered by size, the largest first, so that a number means the same from run to run.

The similarity of many points to many others, a block at a time.

Memory holds one block at a time, never all pairs: comparing a million training queries with thousands of them takes a
few megabytes. `localrank.points.similarity` compares one point with many, or all with all.

Clusters of vectors by squared Euclidean distance.

All minimise, each in its way, the scatter :math:`\sum_c \sum_{i \in c} \lVert x_i - \bar x_c \rVert^2`:

- `kmeans` from ten random beginnings, the best of them [lloyd1982];
- `bisecting_kmeans` by splitting one cluster into two again and again [steinbach2000], as Lwin and Kham do. They do not say
  which cluster is split: ``scattered`` takes the one of the largest scatter, ``largest`` the one of most vectors;
- `ward` by merging, from single vectors up, the two clusters that raise the scatter least [ward1963].

Each returns ``[n]`` cluster numbers from 0, at most ``wanted`` of them: vectors that are alike are never parted.

The nearest training queries of every training query, for models of neighbours [geng2008].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np

from localrank.points.signature import Signatures
from localrank.points.similarity import all_pairs, measure_of, one_to_many
from localrank_training.grouping.prototypes import choose_prototypes, local_weights, similarities_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.points.representation import Points
    from localrank.points.vectors import VectorPoints
    from localrank_training.grouping.prototypes import Locality
    from localrank_training.settings.steps import ClusteringSettings


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


#: Bytes of similarities that are made at a time: few enough to stay within the cache.
_BLOCK = 1 << 21


def between(points: Points, others: Points, similarity: str) -> Iterator[tuple[int, Vector]]:
    """Yield the similarities of a block of points to all others, ``[n_block, n_others]``, with the position of its first.

    Eq. 5 is one product of matrices for each component; others are compared point by point.
    """
    block = max(1, _BLOCK // max(1, 4 * len(others)))
    if similarity == "eq5" and isinstance(points, Signatures) and isinstance(others, Signatures):
        yield from _eq5(points, others, block)
        return
    compare = measure_of(similarity, others).one_to_many
    for start in range(0, len(points), block):
        stop = min(start + block, len(points))
        yield start, np.stack([compare(points.of(one), others) for one in range(start, stop)])


def _eq5(points: Signatures, others: Signatures, block: int) -> Iterator[tuple[int, Vector]]:
    right = np.ascontiguousarray(np.asarray(others.directions).transpose(1, 2, 0))
    for start in range(0, len(points), block):
        left = np.asarray(points.directions[start : start + block])
        found = np.zeros((len(left), len(others)), np.float32)
        for p, directions in enumerate(right):
            dots = left[:, p] @ directions
            found += np.abs(dots, out=dots)
        shared = np.minimum(points.ranks[start : start + block, None], others.ranks[None, :])
        found /= np.maximum(shared, 1).astype(np.float32)
        yield start, np.minimum(found, np.float32(1.0), out=found)


def most_similar(points: Points, others: Points, similarity: str) -> Indices:
    """Return ``[n_points]`` the position of the most similar other point of each; the first if several are equal."""
    found = np.empty(len(points), np.int64)
    for start, block in between(points, others, similarity):
        found[start : start + len(block)] = block.argmax(axis=1)
    return found


def total_similarity(points: Points, others: Points, similarity: str) -> Vector:
    """Return ``[n_points]`` the sum of the similarities of each to all others."""
    found = np.empty(len(points))
    for start, block in between(points, others, similarity):
        found[start : start + len(block)] = block.sum(axis=1, dtype=np.float64)
    return found


def farthest_members(points: Points, groups: Indices, similarity: str) -> Vector:
    r"""Return ``[n_groups, n_groups]``, how unlike the two least similar members of every two groups are, zeros on the diagonal.

    .. math:: d(A, B) = 1 - \min_{a \in A,\, b \in B} \mathrm{sim}(a, b)

    Every pair of points is compared, in time quadratic in the points; what is held is quadratic in the groups only.

    Args:
        points: all known.
        groups: ``[n_points]`` the group of each, from 0, none of them empty.
        similarity: one of `localrank.points.similarity`.
    """
    order = np.argsort(groups, kind="stable")
    of = groups[order]
    starts = np.searchsorted(of, np.arange(of[-1] + 1))
    nearest = np.ones((len(starts), len(starts)), np.float32)
    # A slice of whole groups against those from its first group on, so that each pair is compared once.
    step = max(1, len(points) // 64)
    first = 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + step)))
        stop = int(starts[last]) if last < len(starts) else len(points)
        rows = order[starts[first] : stop]
        beyond = starts[first:] - starts[first]
        for start, block in between(points.take(rows), points.take(order[starts[first] :]), similarity):
            least = np.minimum.reduceat(block, beyond, axis=1)
            theirs = of[starts[first] + start : starts[first] + start + len(block)]
            numbers, begin = np.unique(theirs, return_index=True)
            found = np.minimum.reduceat(least, begin, axis=0)
            nearest[numbers, first:] = np.minimum(nearest[numbers, first:], found)
        first = last
    distances = 1.0 - np.minimum(nearest, nearest.T).astype(np.float64)
    np.fill_diagonal(distances, 0.0)
    return distances


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
    return Clustering(labels, softened(similarities, locality), prototypes)


def softened(similarities: Vector, locality: Locality) -> tuple[Weighted, ...]:
    """Return the lessons of models that learn from every query, from near ones more; see `local_weights`."""
    everything = np.arange(len(similarities))
    return tuple(Weighted(everything, weights) for weights in local_weights(similarities, locality))


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
