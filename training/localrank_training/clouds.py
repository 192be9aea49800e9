"""Judged queries as a model's contract sees them: what the learners and the representation are given.

Each query goes through `FeatureContract.cloud` by itself, as in serving, so that a learner sees the very numbers that its
scorer will be given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.blocks import width_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.cloud import Cloud
    from localrank.contract import FeatureContract
    from localrank.routing import Route
    from localrank_training.data.queries import QuerySet

__all__ = ["Clouds"]


class Clouds:
    """Judged queries and the contract that they go through.

    Args:
        queries: as they were read.
        contract: of the model.
        routes: one per query, for the block ``route``.
        n_clusters: of the model, likewise.
    """

    def __init__(
        self,
        queries: QuerySet,
        contract: FeatureContract,
        routes: Sequence[Route] | None = None,
        n_clusters: int = 0,
    ) -> None:
        self.queries, self.contract = queries, contract
        self._routes, self._n_clusters = routes, n_clusters
        self._seen: dict[str, QuerySet] = {}

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.queries)

    def __iter__(self) -> Iterator[Cloud]:
        """Yield the cloud of each query."""
        for query, documents in enumerate(self.queries.clouds()):
            cloud = self.contract.cloud(documents)
            if self._routes is not None:
                cloud.routed(self._routes[query], self._n_clusters)
            yield cloud

    @property
    def widths(self) -> dict[str, int]:
        """Columns of every block."""
        return self.contract.widths(self._n_clusters)

    def seen_as(self, blocks: str) -> QuerySet:
        """Return the queries with their documents in these blocks (`localrank.blocks`); made once."""
        if blocks not in self._seen:
            documents = np.empty((self.queries.n_docs, width_of(blocks, self.widths)), np.float32)
            for query, cloud in enumerate(self):
                documents[self.queries.span(query)] = cloud.rows(blocks)
            names = self.contract.columns(blocks, self._n_clusters)
            self._seen[blocks] = replace(self.queries, documents=documents, feature_names=names)
        return self._seen[blocks]
