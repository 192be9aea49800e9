from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import cut_tree, linkage

from localrank_papers.figures.geometry import Dendrogram


@pytest.fixture
def tree() -> Dendrogram:
    points = np.random.default_rng(0).normal(size=(23, 3))
    return Dendrogram(linkage(points, "complete"), np.arange(23) * 2)


def test_every_cut_is_that_of_scipy(tree: Dendrogram) -> None:
    for clusters in range(1, 24):
        ours, theirs = tree.cut(clusters), cut_tree(tree.merges, clusters)[:, 0]

        assert clusters == len(np.unique(ours))
        assert clusters == len(set(zip(ours.tolist(), theirs.tolist(), strict=True)))


def test_all_cuts_share_twice_as_many_nodes_as_leaves_less_one(tree: Dendrogram) -> None:
    assert 2 * 23 - 1 == len(tree.nodes_of(range(1, 24)))
    assert tree.root == tree.cut(1)[0]


def test_members_are_the_queries_of_the_leaves_below(tree: Dendrogram) -> None:
    for clusters in (1, 2, 7, 23):
        cut = tree.cut(clusters)
        for node in np.unique(cut).tolist():
            assert (np.flatnonzero(cut == node) * 2).tolist() == tree.members(node).tolist()


def test_a_shuffled_tree_has_other_clusters_of_the_same_sizes(tree: Dendrogram) -> None:
    shuffled = tree.shuffled(seed=1, draw=4)

    assert (tree.shuffled(1, 4).queries == shuffled.queries).all()
    assert (tree.shuffled(1, 5).queries != shuffled.queries).any()
    for node in range(tree.root + 1):
        assert len(tree.members(node)) == len(shuffled.members(node))
    assert tree.members(30).tolist() != shuffled.members(30).tolist()
    assert sorted(tree.queries) == sorted(shuffled.queries)
    leaf_of = shuffled.leaf_of(46)
    assert all(shuffled.queries[leaf_of[query]] == query for query in shuffled.queries)
    assert -1 == leaf_of[1]
