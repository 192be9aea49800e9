"""Signs that a feature holds the label: then held-out figures say nothing about documents that nobody has judged yet.

Two signs are looked for on the held-out queries: a feature whose values are the labels, and a ranking without any
mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector
    from localrank.metrics import Measured
    from localrank_training.data.queries import QuerySet

#: Fewer documents may have features like their labels, and fewer queries be ranked without a mistake, by chance.
_FEWEST_DOCUMENTS, _FEWEST_QUERIES = 20, 10
#: So many documents are compared with the features.
_MOST_DOCUMENTS = 20_000
#: A figure that is shown as 1.0000.
_PERFECT = 0.99995


def suspicion(held: QuerySet, measured: Sequence[Measured]) -> str | None:
    """Say that a feature probably holds the label, and which one; ``None`` without a sign of it.

    Args:
        held: queries that the model has not learned from.
        measured: its figures on them.
    """
    last = max(1, int(np.searchsorted(held.offsets, _MOST_DOCUMENTS, side="right")) - 1)
    span = slice(0, int(held.offsets[last]))
    documents, labels = np.asarray(held.documents[span]), held.labels[span]
    if len(labels) >= _FEWEST_DOCUMENTS and np.ptp(labels) > 0:
        equal = np.flatnonzero((documents == labels[:, None]).all(axis=0))
        if len(equal):
            name = held.feature_names[equal[0]]
            return f"feature {name!r} is the label of every held-out document; leave it out and train again"
    if not all(_is_perfect(one) for one in measured):
        return None
    queries = held.query_of[span]
    found = [
        name
        for name, values in zip(held.feature_names, documents.T, strict=True)
        if _orders(values, labels, queries) or _orders(-values, labels, queries)
    ]
    holds = (
        f"feature {found[0]!r} alone orders every query as the labels do, so it probably holds the label; leave it out"
        if found
        else "the features probably hold the label; leave out what is not known before a document is judged"
    )
    return f"{measured[-1].name} {measured[-1].mean:.4f} is too good to be true: {holds} and train again"


def _is_perfect(one: Measured) -> bool:
    """Whether every query that has something to find is ranked without a mistake."""
    judged = one.n_queries - one.n_empty
    return judged >= _FEWEST_QUERIES and float(np.nansum(one.per_query)) >= _PERFECT * judged


def _orders(values: Vector, labels: Vector, queries: Indices) -> bool:
    """Whether larger values never have a smaller label within a query; equal ones must have the same."""
    order = np.lexsort((-labels, values, queries))
    rises = np.diff(labels[order]) >= 0
    return bool((rises | (np.diff(queries[order]) > 0)).all())
