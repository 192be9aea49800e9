"""Clusters of vectors, against every partition there is, explicit merging, and scikit-learn."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from localrank_training.grouping.clustering import Split, bisecting_kmeans, kmeans, ward

if TYPE_CHECKING:
    from localrank.arrays import Matrix


def scatter(vectors: np.ndarray, labels: np.ndarray) -> float:
    total = 0.0
    for cluster in set(labels.tolist()):
        members = vectors[labels == cluster].astype(np.float64)
        total += float(((members - members.mean(axis=0)) ** 2).sum())
    return total


def drawn(n: int, width: int = 3, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).standard_normal((n, width)).astype(np.float32)


@pytest.mark.parametrize("seed", range(5))
def test_kmeans_finds_the_partition_of_least_scatter(seed: int) -> None:
    centres = 2 * drawn(3, seed=seed + 100)
    vectors = drawn(9, seed=seed) + centres[np.arange(9) % 3]
    least = min(
        scatter(vectors, np.array((0, *rest)))
        for rest in itertools.product(range(3), repeat=8)
        if len({0, *rest}) == 3
    )

    assert least == pytest.approx(scatter(vectors, kmeans(vectors, 3, seed)))


def test_kmeans_leaves_every_vector_with_the_nearest_mean() -> None:
    """Step 3 and 4 of Cremers et al., section 3, until nothing changes."""
    vectors = drawn(80, seed=3).astype(np.float64)

    labels = kmeans(vectors.astype(np.float32), 5, 0)

    means = np.array([vectors[labels == cluster].mean(axis=0) for cluster in range(5)])
    np.testing.assert_array_equal(labels, ((vectors[:, None] - means) ** 2).sum(axis=2).argmin(axis=1))


def test_ward_merges_what_raises_the_scatter_least() -> None:
    vectors = drawn(14, seed=1)
    clusters = [[i] for i in range(14)]
    for wanted in range(13, 0, -1):
        raised = {
            (a, b): scatter(vectors[clusters[a] + clusters[b]], np.zeros(len(clusters[a] + clusters[b])))
            - scatter(vectors[clusters[a]], np.zeros(len(clusters[a])))
            - scatter(vectors[clusters[b]], np.zeros(len(clusters[b])))
            for a, b in itertools.combinations(range(len(clusters)), 2)
        }
        a, b = min(raised, key=raised.__getitem__)
        clusters[a] += clusters.pop(b)
        expected = np.empty(14, np.int64)
        for number, members in enumerate(clusters):
            expected[members] = number

        found = ward(vectors, wanted)

        assert adjusted_rand_score(expected, found) == pytest.approx(1)


def test_ward_is_scikit_learns() -> None:
    vectors = drawn(100, 6, seed=2)

    theirs = AgglomerativeClustering(5, linkage="ward").fit_predict(vectors)

    assert adjusted_rand_score(theirs, ward(vectors, 5)) == pytest.approx(1)


@pytest.mark.parametrize("split", ["largest", "scattered"])
def test_bisecting_splits_the_cluster_that_is_said(split: Split) -> None:
    random = np.random.default_rng(4)
    # A crowd that is close together, and a few that are far apart.
    vectors = np.concatenate([random.normal(0, 0.3, (60, 2)), random.normal(9, 3.0, (12, 2))])
    vectors = vectors.astype(np.float32)
    steps = [bisecting_kmeans(vectors, wanted, 0, split) for wanted in range(1, 7)]

    for before, after in itertools.pairwise(steps):
        parted = [old for old in set(before.tolist()) if len(set(after[before == old].tolist())) > 1]
        assert len(set(before.tolist())) + 1 == len(set(after.tolist()))
        (one,) = parted
        sizes = np.bincount(before)
        scatters = [scatter(vectors[before == old], np.zeros(sizes[old])) for old in range(len(sizes))]
        assert one == int(np.argmax(sizes if split == "largest" else scatters))
        halves = after[before == one]
        members = vectors[before == one]
        # As well as k-means does with these members alone.
        assert scatter(members, halves) == pytest.approx(scatter(members, kmeans(members, 2, 0)), rel=0.02)
    assert not np.array_equal(
        steps[2], bisecting_kmeans(vectors, 3, 0, "largest" if split == "scattered" else "scattered")
    )


@pytest.mark.parametrize(
    "partition", [kmeans, lambda v, k, s: bisecting_kmeans(v, k, s, "scattered"), lambda v, k, _: ward(v, k)]
)
def test_vectors_that_are_alike_are_never_parted(partition: object) -> None:
    vectors = np.repeat(drawn(3), 4, axis=0)

    labels = partition(vectors, 8, 0)  # type: ignore[operator]

    assert {4} == set(np.bincount(labels).tolist())
    assert 3 == len(set(labels.tolist()))
    assert [0] == partition(vectors[:1], 4, 0).tolist()  # type: ignore[operator]


def test_the_same_seed_gives_the_same_clusters() -> None:
    vectors = drawn(50, seed=6)

    np.testing.assert_array_equal(kmeans(vectors, 4, 9), kmeans(vectors, 4, 9))
    np.testing.assert_array_equal(
        bisecting_kmeans(vectors, 4, 9, "largest"), bisecting_kmeans(vectors, 4, 9, "largest")
    )
