"""LocalRank's cleaning of its data (section 4.1.1): no documents of contested relevance, no queries without a relevant document.

It looks at the labels of test queries, too, so figures on cleaned data do not compare with official ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from localrank_papers.figures.folds import Data, Fold
from localrank_training.twins import contested

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet


@lru_cache(2)
def cleaned(data: Data) -> Data:
    """Return the folds without contested documents and without queries that have no relevant document."""
    folds = [
        Fold(fold.number, *(cleaned_queries(part) for part in (fold.train, fold.validation, fold.test)))
        for fold in data.folds
    ]
    return Data(f"{data.name}, cleaned", data.convention, tuple(folds))


def cleaned_queries(queries: QuerySet) -> QuerySet:
    """Drop documents that have a twin with another label, then queries without a relevant document."""
    kept = ~contested(queries)
    counts = np.bincount(queries.query_of[kept], minlength=len(queries))
    fewer = replace(
        queries,
        documents=np.ascontiguousarray(queries.documents[kept]),
        labels=queries.labels[kept],
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        lines=queries.lines[kept],
        comments=None,
        positions=None if queries.positions is None else queries.positions[kept],
    )
    relevant = [query for query in range(len(fewer)) if (fewer.labels_of(query) > 0).any()]
    return fewer.select(relevant)
