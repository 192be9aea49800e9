from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from localrank.points.signature import SIMILARITIES, PcaRepresentation, Signatures, Similarity, all_pairs
from localrank_training.grouping.clustering import cluster, medoids
from localrank_training.settings.steps import ClusteringSettings


def signatures_of(n_queries: int, seed: int = 0) -> Signatures:
    rng = np.random.default_rng(seed)
    clouds = [
        (rng.normal(size=(12, 6)) * rng.uniform(0.1, 3, 6)).astype(np.float32) for _ in range(n_queries)
    ]
    return PcaRepresentation(2).sign_all(clouds)


@pytest.fixture
def signatures() -> Signatures:
    return signatures_of(60)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_complete_link_is_scikit_learns(signatures: Signatures, similarity: Similarity) -> None:
    found = cluster(signatures, ClusteringSettings("complete_link", 4), similarity=similarity)

    reference = AgglomerativeClustering(4, metric="precomputed", linkage="complete").fit_predict(
        1 - all_pairs(signatures, similarity)
    )
    assert 1.0 == adjusted_rand_score(reference, found.labels)


def test_clusters_are_numbered_from_the_largest(signatures: Signatures) -> None:
    sizes = np.bincount(cluster(signatures, ClusteringSettings("complete_link", 5)).labels)

    assert 5 == len(sizes)
    assert sorted(sizes, reverse=True) == sizes.tolist()


def test_queries_without_a_signature_are_in_no_cluster() -> None:
    clouds = [np.ones((3, 4), np.float32), np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32)[:3]]
    signatures = PcaRepresentation(2).sign_all(clouds)

    found = cluster(signatures, ClusteringSettings("complete_link", 5))

    assert -1 == found.labels[0]
    assert {0, 1} == set(found.labels[1:])


def test_there_are_never_more_clusters_than_queries() -> None:
    found = cluster(signatures_of(3), ClusteringSettings("complete_link", 10))

    assert {0, 1, 2} == set(found.labels)


def test_a_single_query_is_a_cluster() -> None:
    assert [0] == cluster(signatures_of(1), ClusteringSettings("complete_link", 3)).labels.tolist()


def test_random_clusters_are_of_equal_size_and_follow_the_seed(signatures: Signatures) -> None:
    settings = ClusteringSettings("random", 4)

    found = cluster(signatures, settings, seed=1).labels

    assert [15, 15, 15, 15] == np.bincount(found).tolist()
    np.testing.assert_array_equal(found, cluster(signatures, settings, seed=1).labels)
    assert (found != cluster(signatures, settings, seed=2).labels).any()


def test_beyond_the_sample_queries_join_the_most_similar_one() -> None:
    signatures = signatures_of(80)

    found = cluster(signatures, ClusteringSettings("complete_link", 3, sample=40), seed=3).labels

    similarity = all_pairs(signatures)
    chosen = np.sort(np.random.default_rng(3).choice(80, 40, replace=False))
    for query in np.setdiff1d(np.arange(80), chosen):
        assert found[chosen[np.argmax(similarity[query, chosen])]] == found[query]


def test_the_medoid_is_most_similar_to_its_cluster(signatures: Signatures) -> None:
    clusters = cluster(signatures, ClusteringSettings("complete_link", 4)).labels

    found = medoids(signatures, clusters)

    similarity = all_pairs(signatures)
    for number, medoid in enumerate(found):
        members = np.flatnonzero(clusters == number)
        totals = similarity[np.ix_(members, members)].sum(axis=1)
        assert members[np.argmax(totals)] == medoid


def test_beyond_the_sample_groups_may_be_linked_by_their_farthest_members() -> None:
    signatures = signatures_of(80)
    settings = ClusteringSettings("complete_link", 3, sample=40, beyond="farthest")

    found = cluster(signatures, settings, seed=3).labels

    similarity = all_pairs(signatures)
    chosen = np.sort(np.random.default_rng(3).choice(80, 40, replace=False))
    groups = similarity[:, chosen].argmax(axis=1)
    groups[chosen] = np.arange(40)
    apart = [[1 - similarity[np.ix_(groups == a, groups == b)].min() for b in range(40)] for a in range(40)]
    np.fill_diagonal(far := np.array(apart), 0.0)
    reference = AgglomerativeClustering(3, metric="precomputed", linkage="complete").fit_predict(far)
    assert 1.0 == adjusted_rand_score(reference[groups], found)


def test_groups_that_are_linked_by_their_farthest_members_find_the_clusters_of_all_queries() -> None:
    """Complete link would merge what is within a group before anything else, so nothing is lost by beginning there."""
    rng = np.random.default_rng(0)
    centres = np.linalg.qr(rng.normal(size=(12, 12)))[0].astype(np.float32)
    clouds = [
        (rng.normal(size=(30, 1)) * centres[query % 12] + 0.02 * rng.normal(size=(30, 12))).astype(np.float32)
        for query in range(240)
    ]
    signatures = PcaRepresentation(1).sign_all(clouds)

    found = cluster(
        signatures, ClusteringSettings("complete_link", 5, sample=120, beyond="farthest"), seed=1
    ).labels

    full = cluster(signatures, ClusteringSettings("complete_link", 5)).labels
    assert 1.0 == adjusted_rand_score(full, found)
