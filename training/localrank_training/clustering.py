"""Which training queries share a model.

A clustering gives every signed query a number from 0; queries without a signature get -1 and teach only the global
scorer. Clusters are numbered by size, the largest first, so that a number means the same from run to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.similarity import all_pairs, one_to_many

if TYPE_CHECKING:
    from localrank.arrays import Indices
    from localrank.signature import Signatures
    from localrank.similarity import Similarity
    from localrank_training.config import ClusteringSettings

__all__ = ["NO_CLUSTER", "cluster", "medoids"]

#: The cluster of a query that has no signature.
NO_CLUSTER = -1


def cluster(
    signatures: Signatures, settings: ClusteringSettings, seed: int = 0, similarity: Similarity = "eq5"
) -> Indices:
    """Return each query's cluster, ``[n_queries]``.

    Fewer clusters than asked for come out where there are fewer signed queries.
    """
    clusters = np.full(len(signatures), NO_CLUSTER, np.int64)
    signed = np.flatnonzero(signatures.ranks > 0)
    if settings.method == "none" or not len(signed):
        return clusters
    if settings.clusters is None:
        raise ValueError("clusters: expected a number that has been chosen, found candidates")
    wanted = min(settings.clusters, len(signed))
    if settings.method == "random":
        found = np.random.default_rng(seed).permutation(np.arange(len(signed)) % wanted)
    else:
        found = _complete_link(signatures.take(signed), wanted, settings.sample, seed, similarity)
    clusters[signed] = _by_size(found)
    return clusters


def medoids(signatures: Signatures, clusters: Indices, similarity: Similarity = "eq5") -> Indices:
    """Return the query of each cluster that is most similar to its others on average, ``[n_clusters]``."""
    chosen = []
    for number in range(int(clusters.max(initial=-1)) + 1):
        members = np.flatnonzero(clusters == number)
        # The mean similarity to a few hundred members finds the middle as well as all of them do.
        probe = members[:: max(1, len(members) // 512)]
        totals = sum(
            one_to_many(signatures.of(int(other)), signatures.take(members), similarity) for other in probe
        )
        chosen.append(members[int(np.argmax(totals))])
    return np.array(chosen, np.int64)


def _complete_link(
    signatures: Signatures, wanted: int, sample: int, seed: int, similarity: Similarity
) -> Indices:
    """Cut the complete-link dendrogram of ``1 - sim`` (LocalRank, Figure 2) into ``wanted`` clusters.

    Departs from the paper for large sets only: the linkage takes memory quadratic in the queries, so beyond
    ``sample`` a seeded sample is clustered and every other query joins the cluster of the most similar of it, as a
    test query would.
    """
    from scipy.cluster.hierarchy import cut_tree, linkage
    from scipy.spatial.distance import squareform

    if len(signatures) == 1:
        return np.zeros(1, np.int64)
    chosen = np.arange(len(signatures))
    if len(signatures) > sample:
        chosen = np.sort(np.random.default_rng(seed).choice(len(signatures), sample, replace=False))
    part = signatures.take(chosen)
    distances = np.clip(1.0 - all_pairs(part, similarity), 0.0, 1.0)
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances, checks=False), "complete")
    found = np.zeros(len(signatures), np.int64)
    found[chosen] = cut_tree(tree, wanted)[:, 0]
    for query in np.setdiff1d(np.arange(len(signatures)), chosen):
        nearest = int(np.argmax(one_to_many(signatures.of(int(query)), part, similarity)))
        found[query] = found[chosen[nearest]]
    return found


def _by_size(clusters: Indices) -> Indices:
    """Renumber by decreasing size; of equals, the one with the earlier query first."""
    numbers, first, sizes = np.unique(clusters, return_index=True, return_counts=True)
    rank = np.empty(len(numbers), np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(len(numbers))
    return rank[np.searchsorted(numbers, clusters)]
