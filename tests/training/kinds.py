"""Small judged queries of two kinds, for tests that need a model to be learned.

Kind 0 spreads along the first feature and is ranked by the third; kind 1 spreads along the second and is ranked by
the third too, but backwards: one model for both cannot be right, one for each can.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from localrank.features.feature import Feature
from localrank_training.data.queries import QuerySet


def two_kinds(n_queries: int = 24, n_docs: int = 15, seed: int = 0) -> QuerySet:
    rng = np.random.default_rng(seed)
    documents, labels = [], []
    for query in range(n_queries):
        kind = query % 2
        cloud = rng.normal(size=(n_docs, 5)) * np.where(np.arange(5) == kind, 8.0, 1.0)
        documents.append(cloud)
        order = np.argsort(np.argsort(cloud[:, 2] if kind == 0 else -cloud[:, 2]))
        labels.append(np.digitize(order, [n_docs // 2, n_docs - 3]))
    return QuerySet(
        documents=np.concatenate(documents).astype(np.float32),
        labels=np.concatenate(labels).astype(np.float64),
        offsets=np.arange(n_queries + 1, dtype=np.int64) * n_docs,
        query_ids=tuple(f"q{i}" for i in range(n_queries)),
        feature_names=tuple(f"f{i + 1}" for i in range(5)),
        lines=np.arange(n_queries * n_docs),
    )


def named(queries: QuerySet) -> QuerySet:
    """Return the queries with a feature of the query, ``kind``, that says which of two kinds each is of."""
    kind = (np.arange(len(queries)) % 2).astype(np.float32)[queries.query_of]
    return replace(
        queries,
        documents=np.column_stack([queries.documents, kind]),
        feature_names=(*queries.feature_names, "kind"),
        special={"kind": Feature("kind", scope="query")},
    )
