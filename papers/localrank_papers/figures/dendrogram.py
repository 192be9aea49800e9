"""A tree of merged clusters; all of its cuts share 2n - 1 clusters.

Leaf ``i`` is node ``i``; merge ``i`` makes node ``n + i``. A cut into ``C`` clusters takes the nodes that the first ``n - C`` merges
leave. So the models of every number of clusters from 1 to ``n`` are those of 2n - 1 nodes, each learned once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localrank.arrays import Indices, Vector


@dataclass(frozen=True, eq=False)
class Dendrogram:
    """Merges of training queries.

    Attributes:
        merges: ``[n - 1, 4]``, as scipy's linkage returns them.
        queries: ``[n]`` which training query each leaf is.
    """

    merges: Vector
    queries: Indices

    def __len__(self) -> int:
        """Return the number of leaves."""
        return len(self.queries)

    @property
    def root(self) -> int:
        """The node of all queries."""
        return 2 * len(self) - 2

    def cut(self, clusters: int) -> Indices:
        """Return ``[n]`` the node that each leaf is in when there are this many clusters."""
        first_beyond = 2 * len(self) - clusters
        nodes = np.arange(len(self))
        while True:
            above = self._parents[nodes]
            rising = above < first_beyond
            if not rising.any():
                return nodes
            nodes = np.where(rising, above, nodes)

    def nodes_of(self, cuts: Iterable[int]) -> Indices:
        """Return all nodes of several cuts, each once."""
        return np.unique(np.concatenate([self.cut(clusters) for clusters in cuts]))

    def members(self, node: int) -> Indices:
        """Return the training queries of a node, in their order."""
        leaves = [node]
        found = []
        while leaves:
            one = leaves.pop()
            if one < len(self):
                found.append(int(self.queries[one]))
            else:
                leaves += [int(child) for child in self.merges[one - len(self), :2]]
        return np.sort(np.array(found, np.int64))

    def shuffled(self, seed: int, draw: int) -> Dendrogram:
        """Return the same tree over shuffled queries: every cut has clusters of the same sizes, at random."""
        return replace(self, queries=np.random.default_rng([seed, draw]).permutation(self.queries))

    def leaf_of(self, n_queries: int) -> Indices:
        """Return ``[n_queries]`` the leaf of each training query; -1 if it has none."""
        found = np.full(n_queries, -1)
        found[self.queries] = np.arange(len(self))
        return found

    @cached_property
    def _parents(self) -> Indices:
        parents = np.full(2 * len(self) - 1, np.iinfo(np.int64).max)
        children = self.merges[:, :2].astype(np.int64)
        for side in children.T:
            parents[side] = len(self) + np.arange(len(children))
        return parents
