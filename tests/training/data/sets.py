"""Sets of judged queries for the tests of this room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank_training.data.queries import QuerySet
from localrank_training.data.reading import Grouping

if TYPE_CHECKING:
    from collections.abc import Sequence


def query_set(
    documents: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    queries: Sequence[int],
    labels: Sequence[float],
    *,
    names: Sequence[str] | None = None,
    comments: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
) -> QuerySet:
    """Build a set from documents in input order."""
    first = {query: number for number, query in enumerate(dict.fromkeys(queries))}
    grouping = Grouping(np.array([first[query] for query in queries]), len(first))
    return QuerySet(
        documents=documents[grouping.order],
        labels=np.array(labels, np.float64)[grouping.order],
        offsets=grouping.offsets,
        query_ids=tuple(f"q{query}" if ids is None else ids[query] for query in first),
        feature_names=tuple(names or (f"f{i + 1}" for i in range(documents.shape[1]))),
        lines=grouping.order,
        comments=None if comments is None else tuple(comments[int(i)] for i in grouping.order),
    )
