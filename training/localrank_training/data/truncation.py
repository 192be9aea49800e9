"""Shorter lists of the same queries, so that a model learned from full lists is not surprised by twenty documents.

A served model only sees the documents that an earlier stage lets through: the first twenty, or fifty. Their cloud has
another shape than the full list, and features that are normalised within the query get other values. A training query
may therefore also be learned as shorter lists of itself. All lists of a query together count as much as any other query
does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidConfiguration
from localrank_training.data.queries import QuerySet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector


def with_shorter_lists(
    queries: QuerySet, lengths: Sequence[int], *, by: str = "random", seed: int = 0
) -> tuple[QuerySet, Vector]:
    """Return the queries followed by shorter lists of those that are longer, and what each list counts.

    Args:
        queries: full lists; they stay at their positions.
        lengths: documents of the shorter lists.
        by: ``random`` keeps a seeded sample; the name of a feature keeps the documents in which it is largest, as an
            earlier stage would. Documents keep their order. Missing values are the smallest.
        seed: of the sample.

    Returns:
        The lists, and ``[n_lists]`` weights: the weight of the query, divided by the number of its lists.
    """
    if by != "random" and by not in queries.feature_names:
        near = ", ".join(queries.feature_names[:5])
        raise InvalidConfiguration(f"[lists] by: expected 'random' or a feature ({near}, …), found {by!r}")
    rng = np.random.default_rng(seed)
    column = None if by == "random" else queries.feature_names.index(by)
    kept: list[Indices] = []
    owners: list[int] = []
    for length in lengths:
        for query in np.flatnonzero(queries.lengths > length).tolist():
            span = queries.span(query)
            if column is None:
                order = rng.permutation(span.stop - span.start)
            else:
                values = np.nan_to_num(queries.documents[span, column], nan=-np.inf)
                order = np.argsort(-values, kind="stable")
            kept.append(span.start + np.sort(order[:length]))
            owners.append(query)
    if not kept:
        return queries, np.ones(len(queries)) if queries.weights is None else queries.weights
    rows = np.concatenate([np.arange(queries.n_docs), *kept])
    sizes = np.concatenate([queries.lengths, [len(chosen) for chosen in kept]])
    owner = np.concatenate([np.arange(len(queries)), owners])
    lists = QuerySet(
        documents=np.ascontiguousarray(queries.documents[rows]),
        labels=queries.labels[rows],
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        query_ids=tuple(queries.query_ids[query] for query in owner),
        feature_names=queries.feature_names,
        lines=queries.lines[rows],
    )
    weights = 1.0 / np.bincount(owner)[owner]
    return lists, weights if queries.weights is None else weights * queries.weights[owner]
